//! `splice`, `tee` and `vmsplice`: bytes that go into a pipe, or out of one.
//!
//! Linux moves pages. Here the bytes are copied, and a pipe counts bytes as it does for a write.
//! The other side of a `splice` may be any descriptor: it is read and written by the functions of
//! its name. What cannot be written stays in the pipe.
#![allow(unsafe_code)]

use std::io;

use libc::{c_int, c_uint, c_void, iovec, size_t, ssize_t};

use super::{
    files::Kind,
    is_ours, pipes,
    poll::in_world,
    sockets::or_deadlock,
    system::call,
    transfer::{bytes_of, entries},
    transferred,
};
use crate::{
    error::os,
    pipe::{End, Pipes},
    world,
};

/// All flags that Linux has.
const KNOWN: c_uint =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// Bytes that one call moves at most.
const AT_ONCE: usize = 1 << 20;

fn on_pipes<R>(nonblocking: bool, f: impl FnOnce(&mut Pipes) -> io::Result<R>) -> io::Result<R> {
    or_deadlock(nonblocking, in_world(|world| f(&mut world.pipes)))
}

/// The answer of a function of libc that moves bytes.
fn moved(answer: ssize_t) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// `EBADF` for a simulated descriptor that is closed.
fn is_open(fd: c_int) -> io::Result<()> {
    match is_ours(fd) {
        true => in_world(|world| world.files.of(fd).map(drop)),
        false => Ok(()),
    }
}

/// `EINVAL` for what can be read or written, but is no side of a `splice`.
fn may_splice(fd: c_int) -> io::Result<()> {
    let has_none = world::with(|world| {
        let file = world.files.get(fd);
        file.is_ok_and(|file| {
            matches!(
                file.kind,
                Kind::Event { .. } | Kind::Timer(_) | Kind::Epoll(_)
            )
        })
    });
    match has_none {
        Some(true) => Err(os(libc::EINVAL)),
        _ => Ok(()),
    }
}

/// Writes what it may at a place, or at the file's position.
///
/// # Safety
///
/// - The place is null, or valid for reads and writes.
unsafe fn put(to: c_int, at: *mut i64, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: it takes no pointers.
    let flags = unsafe { libc::fcntl(to, libc::F_GETFL) };
    if flags >= 0 && flags & libc::O_APPEND != 0 {
        return Err(os(libc::EINVAL));
    }
    let (from, len) = (bytes.as_ptr().cast::<c_void>(), bytes.len());
    // SAFETY: by contract; the bytes are valid for reads.
    unsafe {
        if at.is_null() {
            return moved(libc::write(to, from, len));
        }
        let written = moved(libc::pwrite(to, from, len, *at))?;
        *at += written as i64;
        Ok(written)
    }
}

/// Reads up to so many bytes at a place, or at the file's position.
///
/// # Safety
///
/// - The place is null, or valid for reads and writes.
unsafe fn get(from: c_int, at: *mut i64, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0_u8; most];
    let into = bytes.as_mut_ptr().cast::<c_void>();
    // SAFETY: by contract; there is room for so many bytes.
    unsafe {
        let len = match at.is_null() {
            true => moved(libc::read(from, into, most))?,
            false => {
                let len = moved(libc::pread(from, into, most, *at))?;
                *at += len as i64;
                len
            }
        };
        bytes.truncate(len);
    }
    Ok(bytes)
}

/// # Safety
///
/// - As libc's `splice`.
unsafe fn moves(
    (from, from_at): (c_int, *mut i64),
    (to, to_at): (c_int, *mut i64),
    len: usize,
    flags: c_uint,
) -> io::Result<usize> {
    if flags & !KNOWN != 0 {
        return Err(os(libc::EINVAL));
    }
    if len == 0 {
        return Ok(0);
    }
    is_open(from)?;
    is_open(to)?;
    let (source, target) = (pipes::of(from), pipes::of(to));
    if source.is_some() && !from_at.is_null() || target.is_some() && !to_at.is_null() {
        return Err(os(libc::ESPIPE));
    }
    let asks = flags & libc::SPLICE_F_NONBLOCK != 0;
    let len = len.min(AT_ONCE);
    match (source, target) {
        (Some((source, a)), Some((target, b))) => {
            let nonblocking = asks || a || b;
            let bytes = from_pipe_to_pipe(source, target, len, nonblocking)?;
            on_pipes(nonblocking, |pipes| pipes.take(source, bytes))?;
            Ok(bytes)
        }
        (Some((source, a)), None) => {
            may_splice(to)?;
            let bytes = on_pipes(asks || a, |pipes| pipes.peek(source, len))?;
            if bytes.is_empty() {
                return Ok(0);
            }
            // SAFETY: by contract.
            let written = unsafe { put(to, to_at, &bytes)? };
            on_pipes(true, |pipes| pipes.take(source, written))?;
            Ok(written)
        }
        (None, Some((target, b))) => {
            may_splice(from)?;
            let room = on_pipes(asks || b, |pipes| pipes.room(target))?;
            // SAFETY: by contract.
            let bytes = unsafe { get(from, from_at, len.min(room))? };
            on_pipes(true, |pipes| pipes.write(target, &bytes))
        }
        (None, None) => Err(os(libc::EINVAL)),
    }
}

/// Copies bytes, which stay where they are.
fn from_pipe_to_pipe(source: End, target: End, len: usize, nonblocking: bool) -> io::Result<usize> {
    on_pipes(nonblocking, |pipes| {
        if source.writes || !target.writes {
            return Err(os(libc::EBADF));
        }
        if source.pipe == target.pipe {
            return Err(os(libc::EINVAL));
        }
        let room = match pipes.room(target) {
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => return Err(error),
            room => room,
        };
        let mut bytes = pipes.peek(source, len)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        bytes.truncate(room?);
        pipes.write(target, &bytes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn splice(
    from: c_int,
    from_at: *mut i64,
    to: c_int,
    to_at: *mut i64,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if !is_ours(from) && !is_ours(to) {
        // SAFETY: by the contract of libc.
        return unsafe {
            call()(libc::SYS_splice, from, from_at, to, to_at, len, flags) as ssize_t
        };
    }
    // SAFETY: by the contract of libc.
    transferred(unsafe { moves((from, from_at), (to, to_at), len, flags) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tee(from: c_int, to: c_int, len: size_t, flags: c_uint) -> ssize_t {
    if !is_ours(from) && !is_ours(to) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_tee, from, to, len, flags) as ssize_t };
    }
    let copy = || {
        if flags & !KNOWN != 0 {
            return Err(os(libc::EINVAL));
        }
        if len == 0 {
            return Ok(0);
        }
        is_open(from)?;
        is_open(to)?;
        let (Some((source, a)), Some((target, b))) = (pipes::of(from), pipes::of(to)) else {
            return Err(os(libc::EINVAL));
        };
        let nonblocking = a || b || flags & libc::SPLICE_F_NONBLOCK != 0;
        from_pipe_to_pipe(source, target, len.min(AT_ONCE), nonblocking)
    };
    transferred(copy())
}

/// Unlike the others it looks at its own flag alone, and not at that of the pipe.
#[unsafe(no_mangle)]
unsafe extern "C" fn vmsplice(
    fd: c_int,
    list: *const iovec,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_vmsplice, fd, list, count, flags) as ssize_t };
    }
    let moves = || {
        if flags & !KNOWN != 0 {
            return Err(os(libc::EINVAL));
        }
        let (end, _) = pipes::of(fd).ok_or_else(|| os(libc::EBADF))?;
        let nonblocking = flags & libc::SPLICE_F_NONBLOCK != 0;
        // SAFETY: by the contract of libc.
        unsafe {
            let list = entries(list, count)?;
            if !end.writes {
                return pipes::read((end, nonblocking), list);
            }
            let bytes = bytes_of(list);
            if bytes.is_empty() {
                return Ok(0);
            }
            let room = on_pipes(nonblocking, |pipes| pipes.room(end))?;
            on_pipes(nonblocking, |pipes| {
                pipes.write(end, &bytes[..bytes.len().min(room)])
            })
        }
    };
    transferred(moves())
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    splice as *const c_void,
    tee as *const c_void,
    vmsplice as *const c_void,
];
