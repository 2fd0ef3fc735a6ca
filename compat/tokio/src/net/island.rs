//! What only unsafe code has: memory that is not initialised, and descriptors by number.
//!
//! *Memory.* A byte of a caller's buffer counts as filled if the system has written it. socket2's
//! `recv` and its like say how many bytes they have written at the begin of the slice that they
//! were given, and make no byte of it uninitialised. Each function below gives the free part of a
//! buffer to one of them, takes the number from it, and lets no other code at the buffer in
//! between.
//!
//! *Descriptors.* `from_raw_fd` is the caller's promise, and handed on. A call that is given a
//! `BorrowedFd` has one that is open.
//!
//! Checked by `tests/net.rs` (`buffers_are_filled_behind_what_they_have`).
#![expect(
    unsafe_code,
    reason = "buffers of tokio and bytes are filled by unsafe methods only"
)]

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd},
};

use bytes::BufMut;
use socket2::{SockAddr, SockRef};
use tokio_real::io::ReadBuf;

/// One way to receive into memory that is not initialised.
#[derive(Clone, Copy)]
pub(crate) enum Recv {
    Take,
    Peek,
}

fn recv(socket: &SockRef<'_>, how: Recv, buf: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    match how {
        Recv::Take => socket.recv(buf),
        Recv::Peek => socket.peek(buf),
    }
}

fn recv_from(
    socket: &SockRef<'_>,
    how: Recv,
    buf: &mut [MaybeUninit<u8>],
) -> io::Result<(usize, SockAddr)> {
    match how {
        Recv::Take => socket.recv_from(buf),
        Recv::Peek => socket.peek_from(buf),
    }
}

/// Receives into a buffer of tokio's.
#[inline]
pub(crate) fn recv_read_buf(
    socket: &impl AsFd,
    how: Recv,
    buf: &mut ReadBuf<'_>,
) -> io::Result<usize> {
    let socket = SockRef::from(socket);
    fill_read_buf(buf, |free| recv(&socket, how, free).map(|n| (n, ()))).map(|(n, ())| n)
}

/// Receives into a buffer of tokio's, with the sender's address.
pub(crate) fn recv_from_read_buf(
    socket: &impl AsFd,
    how: Recv,
    buf: &mut ReadBuf<'_>,
) -> io::Result<SockAddr> {
    let socket = SockRef::from(socket);
    fill_read_buf(buf, |free| recv_from(&socket, how, free)).map(|(_, addr)| addr)
}

/// `f` is one of the two above.
fn fill_read_buf<T>(
    buf: &mut ReadBuf<'_>,
    f: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<(usize, T)>,
) -> io::Result<(usize, T)> {
    // SAFETY: `f` makes no byte uninitialised.
    let (filled, more) = f(unsafe { buf.unfilled_mut() })?;
    // SAFETY: `f` has filled these bytes.
    unsafe { buf.assume_init(filled) };
    buf.advance(filled);
    Ok((filled, more))
}

/// Receives into a buffer of `bytes`.
pub(crate) fn recv_buf(socket: &impl AsFd, buf: &mut impl BufMut) -> io::Result<usize> {
    let socket = SockRef::from(socket);
    fill_buf(buf, |free| recv(&socket, Recv::Take, free).map(|n| (n, ()))).map(|(n, ())| n)
}

/// Receives into a buffer of `bytes`, with the sender's address.
pub(crate) fn recv_buf_from(
    socket: &impl AsFd,
    buf: &mut impl BufMut,
) -> io::Result<(usize, SockAddr)> {
    let socket = SockRef::from(socket);
    fill_buf(buf, |free| recv_from(&socket, Recv::Take, free))
}

/// Reads into a buffer of `bytes` by what reads initialised memory: the free part is zeroed before.
pub(crate) fn read_buf(
    buf: &mut impl BufMut,
    f: impl FnOnce(&mut [u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    fill_buf(buf, |free| {
        free.fill(MaybeUninit::new(0));
        let len = free.len();
        // SAFETY: all of it was zeroed just now.
        let free = unsafe { &mut *(std::ptr::from_mut(free) as *mut [u8]) };
        f(free).map(|n| (n.min(len), ()))
    })
    .map(|(n, ())| n)
}

/// `f` is one of this file's closures: the bytes that it counts are initialised.
fn fill_buf<T>(
    buf: &mut impl BufMut,
    f: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<(usize, T)>,
) -> io::Result<(usize, T)> {
    // SAFETY: `f` makes no byte uninitialised.
    let free = unsafe { buf.chunk_mut().as_uninit_slice_mut() };
    let (filled, more) = f(free)?;
    // SAFETY: `f` has filled these bytes.
    unsafe { buf.advance_mut(filled) };
    Ok((filled, more))
}

/// The user, group and process of the other side of a Unix socket.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn peer_cred(
    fd: BorrowedFd<'_>,
) -> io::Result<(libc::uid_t, libc::gid_t, Option<libc::pid_t>)> {
    let mut cred = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `cred` has room for `len` bytes, and any bytes are a valid `ucred`.
    let answer = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut cred).cast(),
            &raw mut len,
        )
    };
    match answer {
        0 => Ok((cred.uid, cred.gid, Some(cred.pid))),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The user and group of the other side of a Unix socket.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn peer_cred(
    fd: BorrowedFd<'_>,
) -> io::Result<(libc::uid_t, libc::gid_t, Option<libc::pid_t>)> {
    let (mut uid, mut gid) = (0, 0);
    // SAFETY: both are places for what it writes.
    match unsafe { libc::getpeereid(fd.as_raw_fd(), &raw mut uid, &raw mut gid) } {
        0 => Ok((uid, gid, None)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The flags that a file was opened with.
pub(crate) fn flags(fd: BorrowedFd<'_>) -> io::Result<libc::c_int> {
    // SAFETY: it reads nothing of this process.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) } {
        -1 => Err(io::Error::last_os_error()),
        flags => Ok(flags),
    }
}

/// Sets these flags.
pub(crate) fn set_flags(fd: BorrowedFd<'_>, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: it writes nothing of this process.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The descriptor of what has one by number, for as long as that is borrowed: what has the number
/// keeps it open, by the contract of tokio's `AsyncFd::register`.
pub(crate) fn borrow(io: &impl AsRawFd) -> BorrowedFd<'_> {
    // SAFETY: see above.
    unsafe { BorrowedFd::borrow_raw(io.as_raw_fd()) }
}

macro_rules! from_raw_fd {
    ($($name:ty),*) => {$(
        impl FromRawFd for $name {
            unsafe fn from_raw_fd(fd: RawFd) -> Self {
                // SAFETY: the caller owns it.
                Self::of(unsafe { socket2::Socket::from_raw_fd(fd) })
            }
        }
    )*};
}

from_raw_fd! { crate::net::TcpSocket, crate::net::UnixSocket }
