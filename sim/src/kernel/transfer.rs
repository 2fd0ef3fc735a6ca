//! What reads and writes any descriptor.
//!
//! Where libc has several names for one thing (`recv`, `read`, `readv`, `recvfrom`, `recvmsg`) all
//! lead to one function: [`receive`], or [`send_all`].
//!
//! Unlike in Linux, a write to a closed connection raises no SIGPIPE: Rust programs ignore it.
#![allow(unsafe_code)]

use std::{borrow::Cow, io, net::SocketAddr, ptr, slice};

use libc::{c_int, c_void, iovec, size_t, sockaddr, socklen_t, ssize_t};

use super::{
    addr, counters, fails,
    files::Kind,
    fs::{
        data::{read_file, write_file},
        is_file,
    },
    is_ours,
    messages::Sending,
    pipes,
    sockets::{is_socket, on_socket, or_deadlock},
    system::call,
    transferred, unix,
};
use crate::{
    error::os,
    network::Arrival,
    unix::{FileKey, Name},
    world,
};

/// More than the longest datagram.
const LONGEST: usize = 1 << 16;

/// Bytes of a stream that one call gives at most, if they have to be copied twice.
const AT_ONCE: usize = 1 << 20;

// --- receiving ---

/// What a receive brought: so many bytes, which did not fit, and from whom.
pub(super) struct Received {
    /// Bytes in the buffers; with `MSG_TRUNC` the length of the datagram.
    pub(super) len: usize,
    pub(super) from: Sender,
    pub(super) is_cut: bool,
    /// Of a datagram of UDP.
    pub(super) arrival: Option<Arrival>,
    /// Files whose descriptors came with it. They are counted.
    pub(super) rights: Vec<FileKey>,
}

impl Received {
    /// Its length. Descriptors that came with it are closed, as nobody asks for them.
    fn length(self) -> usize {
        if !self.rights.is_empty() {
            world::with(|world| world.release(self.rights));
        }
        self.len
    }

    fn of_stream(len: usize) -> Self {
        Self {
            len,
            from: Sender::Nobody,
            is_cut: false,
            arrival: None,
            rights: Vec::new(),
        }
    }

    fn of_datagram(len: usize, arrival: Arrival, is_cut: bool) -> Self {
        Self {
            len,
            from: Sender::Inet(arrival.from),
            is_cut,
            arrival: Some(arrival),
            rights: Vec::new(),
        }
    }
}

pub(super) enum Sender {
    Nobody,
    Inet(SocketAddr),
    Unix(Name),
}

impl Sender {
    /// Writes it as an address.
    ///
    /// # Safety
    ///
    /// - As [`addr::write`].
    pub(super) unsafe fn write(&self, out: *mut sockaddr, len: *mut socklen_t) {
        // SAFETY: by contract.
        unsafe {
            match self {
                Self::Inet(peer) => addr::write(*peer, out, len),
                Self::Unix(name) => unix::write(Some(name), out, len),
                Self::Nobody if len.is_null() => {}
                Self::Nobody => *len = 0,
            }
        }
    }
}

/// Where a send goes to, if the call says it.
pub(super) enum To {
    Inet(addr::Given),
    /// An error is one of an address that is none.
    Unix(io::Result<unix::Given>),
}

impl To {
    /// # Safety
    ///
    /// - The address is null, or valid for reads of `len` bytes.
    pub(super) unsafe fn read(
        fd: c_int,
        to: *const sockaddr,
        len: socklen_t,
    ) -> io::Result<Option<Self>> {
        if to.is_null() || len == 0 {
            return Ok(None);
        }
        // SAFETY: by contract.
        let to = unsafe {
            match unix::of(fd) {
                Some(_) => Self::Unix(unix::read(to, len)),
                None => Self::Inet(addr::read(to, len)?),
            }
        };
        Ok(Some(to))
    }
}

/// # Safety
///
/// - Each buffer of `into` is valid for writes.
pub(super) unsafe fn receive(fd: c_int, into: &[iovec], flags: c_int) -> io::Result<Received> {
    let known = libc::MSG_PEEK
        | libc::MSG_DONTWAIT
        | libc::MSG_NOSIGNAL
        | libc::MSG_TRUNC
        | libc::MSG_WAITALL
        | libc::MSG_CMSG_CLOEXEC;
    if flags & !known != 0 {
        return is_socket(fd).and(Err(os(libc::EINVAL)));
    }
    if let Some(id) = unix::of(fd) {
        // SAFETY: by contract.
        return unsafe { unix::receive(fd, id, into, flags) };
    }
    let peek = flags & libc::MSG_PEEK != 0;
    on_socket(fd, |world, id, nonblocking| {
        let nonblocking = nonblocking || flags & libc::MSG_DONTWAIT != 0;
        let is_tcp = matches!(world.files.get(fd)?.kind, Kind::Tcp(_));
        let lens = into.iter().map(|one| one.iov_len);
        let room = lens.fold(0_usize, usize::saturating_add);
        let mut one_datagram = |buffer: &mut [u8]| world.net.recv_message(id, buffer, peek);
        if is_tcp {
            let waits = flags & libc::MSG_WAITALL != 0 && !nonblocking;
            if waits && !peek && world.net.has_less(id, room)? {
                return Err(os(libc::EDEADLK));
            }
            // As in Linux, bytes of a stream are dropped if the caller asks for it.
            let dropped = flags & libc::MSG_TRUNC != 0;
            let mut get = |buffer: &mut [u8]| {
                if peek {
                    world.net.peek(id, buffer)
                } else {
                    world.net.read(id, buffer)
                }
            };
            let result = if dropped || into.len() != 1 {
                let mut all = vec![0; room.min(AT_ONCE)];
                get(&mut all).inspect(|&len| {
                    if !dropped {
                        // SAFETY: by contract.
                        unsafe { scatter(&all[..len], into) };
                    }
                })
            } else {
                // SAFETY: by contract. The network writes to it, and does not read it.
                get(unsafe { buffer(&into[0]) })
            };
            let len = or_deadlock(nonblocking, result)?;
            Ok(Received::of_stream(len))
        } else if room >= LONGEST && into.len() == 1 {
            // SAFETY: as above.
            let result = one_datagram(unsafe { buffer(&into[0]) });
            let (len, arrival) = or_deadlock(nonblocking, result)?;
            Ok(Received::of_datagram(len, arrival, false))
        } else {
            let mut all = vec![0; LONGEST];
            let (whole, arrival) = or_deadlock(nonblocking, one_datagram(&mut all))?;
            let fits = whole.min(room);
            // SAFETY: by contract.
            unsafe { scatter(&all[..fits], into) };
            let len = match flags & libc::MSG_TRUNC {
                0 => fits,
                _ => whole,
            };
            Ok(Received::of_datagram(len, arrival, whole > room))
        }
    })
}

/// # Safety
///
/// - It is valid for writes, and nothing else uses it while the result is alive.
unsafe fn buffer<'a>(one: &iovec) -> &'a mut [u8] {
    if one.iov_len == 0 {
        return &mut [];
    }
    // SAFETY: by contract.
    unsafe { slice::from_raw_parts_mut(one.iov_base.cast(), one.iov_len) }
}

/// Copies bytes into buffers, one after the other.
///
/// # Safety
///
/// - Each buffer is valid for writes.
pub(super) unsafe fn scatter(mut bytes: &[u8], into: &[iovec]) {
    for one in into {
        let len = one.iov_len.min(bytes.len());
        // SAFETY: by contract.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), one.iov_base.cast(), len) };
        bytes = &bytes[len..];
    }
}

/// The most buffers that a call takes.
const IOV_MAX: usize = 1024;

/// # Safety
///
/// - `list` has `count` entries, if that is no more than [`IOV_MAX`].
pub(super) unsafe fn entries<'a>(list: *const iovec, count: usize) -> io::Result<&'a [iovec]> {
    match count {
        0 => Ok(&[]),
        // SAFETY: by contract.
        1..=IOV_MAX => Ok(unsafe { slice::from_raw_parts(list, count) }),
        // Also a count that was negative.
        _ => Err(os(libc::EINVAL)),
    }
}

/// Whether the buffers have no room. As in Linux, `readv` and `writev` then look at no file.
fn is_nothing(list: &[iovec]) -> bool {
    list.iter().all(|one| one.iov_len == 0)
}

pub(super) fn one(base: *const c_void, len: size_t) -> [iovec; 1] {
    let iov_base = base.cast_mut();
    [iovec {
        iov_base,
        iov_len: len,
    }]
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(fd: c_int, out: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: by the contract of libc.
    unsafe { recvfrom(fd, out, len, flags, ptr::null_mut(), ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvfrom(
    fd: c_int,
    out: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe {
            call()(libc::SYS_recvfrom, fd, out, len, flags, from, from_len) as ssize_t
        };
    }
    // SAFETY: by the contract of libc.
    let received = unsafe { receive(fd, &one(out, len), flags) };
    if let Ok(Received { from: peer, .. }) = &received {
        // SAFETY: by the contract of libc.
        unsafe { peer.write(from, from_len) };
    }
    transferred(received.map(Received::length))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, out: *mut c_void, len: size_t) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_read, fd, out, len) as ssize_t };
    }
    // SAFETY: by the contract of libc.
    if let Some(taken) = unsafe { counters::read(fd, &one(out, len)) } {
        return transferred(taken);
    }
    if is_file(fd) {
        // SAFETY: by the contract of libc.
        return transferred(unsafe { read_file(fd, &one(out, len), None) });
    }
    if let Some(end) = pipes::of(fd) {
        // SAFETY: by the contract of libc.
        return transferred(unsafe { pipes::read(end, &one(out, len)) });
    }
    if len == 0 {
        // As in Linux, it does not look at the socket.
        return 0;
    }
    // SAFETY: by the contract of libc.
    transferred(unsafe { receive(fd, &one(out, len), 0) }.map(Received::length))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_readv, fd, list, count) as ssize_t };
    }
    if counters::is_one(fd) {
        // SAFETY: by the contract of libc.
        return transferred(unsafe {
            let into = entries(list, count as usize);
            into.and_then(|into| counters::read(fd, into).unwrap_or(Err(os(libc::EINVAL))))
        });
    }
    if is_file(fd) {
        // SAFETY: by the contract of libc.
        return transferred(unsafe {
            let into = entries(list, count as usize);
            into.and_then(|into| read_file(fd, into, None))
        });
    }
    if let Some(end) = pipes::of(fd) {
        // SAFETY: by the contract of libc.
        return transferred(unsafe {
            let into = entries(list, count as usize);
            into.and_then(|into| pipes::read(end, into))
        });
    }
    // SAFETY: by the contract of libc.
    let received = unsafe {
        let into = entries(list, count as usize);
        into.and_then(|into| match is_nothing(into) {
            true => Ok(Received::of_stream(0)),
            false => receive(fd, into, 0),
        })
    };
    transferred(received.map(Received::length))
}

// --- sending ---

/// The bytes of buffers, one after the other.
///
/// # Safety
///
/// - Each buffer is valid for reads while the result is alive.
pub(super) unsafe fn bytes_of(from: &[iovec]) -> Cow<'_, [u8]> {
    let bytes = |one: &iovec| match one.iov_len {
        0 => &[],
        // SAFETY: by contract.
        len => unsafe { slice::from_raw_parts(one.iov_base.cast::<u8>(), len) },
    };
    match from {
        [] => Cow::Borrowed(&[]),
        [one] => Cow::Borrowed(bytes(one)),
        many => Cow::Owned(many.iter().map(bytes).collect::<Vec<_>>().concat()),
    }
}

/// # Safety
///
/// - Each buffer of `from` is valid for reads.
pub(super) unsafe fn send_all(
    fd: c_int,
    from: &[iovec],
    flags: c_int,
    to: Option<To>,
    control: &Sending,
) -> io::Result<usize> {
    let known = libc::MSG_DONTWAIT
        | libc::MSG_NOSIGNAL
        | libc::MSG_MORE
        | libc::MSG_EOR
        | libc::MSG_DONTROUTE
        | libc::MSG_CONFIRM;
    if flags & !known != 0 {
        return is_socket(fd).and(Err(os(libc::EOPNOTSUPP)));
    }
    // SAFETY: by contract.
    let bytes = &*unsafe { bytes_of(from) };
    if let Some(id) = unix::of(fd) {
        let to = match to {
            Some(To::Unix(name)) => Some(name),
            _ => None,
        };
        return unix::send(fd, id, bytes, flags, to, control.descriptors());
    }
    on_socket(fd, |world, id, nonblocking| {
        let nonblocking = nonblocking || flags & libc::MSG_DONTWAIT != 0;
        let is_udp = matches!(world.files.get(fd)?.kind, Kind::Udp(_));
        let result = if is_udp {
            let v6 = world.net.is_v6(id)?;
            let to = match to {
                // As in Linux, the rest of a datagram may have any address.
                Some(To::Inet(_)) if !v6 && world.net.has_begun(id)? => Ok(None),
                Some(To::Inet(to)) => to.to_send(v6),
                _ => Ok(None),
            };
            world.net.prepare_send(id, bytes.len())?;
            let more = flags & libc::MSG_MORE != 0;
            control.send(world, (fd, id), bytes, (to?, more))
        } else {
            // As in Linux, a stream does not look at the address.
            world.net.write(id, bytes)
        };
        or_deadlock(nonblocking, result)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: by the contract of libc.
    unsafe { sendto(fd, from, len, flags, ptr::null(), 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendto(
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_sendto, fd, from, len, flags, to, to_len) as ssize_t };
    }
    // SAFETY: by the contract of libc.
    let to = unsafe { To::read(fd, to, to_len) };
    // SAFETY: by the contract of libc.
    transferred(
        to.and_then(|to| unsafe { send_all(fd, &one(from, len), flags, to, &Sending::default()) }),
    )
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_write, fd, from, len) as ssize_t };
    }
    // SAFETY: by the contract of libc.
    if let Some(added) = unsafe { counters::write(fd, &one(from, len)) } {
        return transferred(added);
    }
    let has_no_write = world::with(|world| {
        let file = world.files.get(fd);
        file.is_ok_and(|file| matches!(file.kind, Kind::Timer(_) | Kind::Epoll(_)))
    });
    if has_no_write == Some(true) {
        return fails(libc::EINVAL) as ssize_t;
    }
    if is_file(fd) {
        // SAFETY: by the contract of libc.
        return transferred(unsafe { write_file(fd, &one(from, len), None) });
    }
    if let Some(end) = pipes::of(fd) {
        // SAFETY: by the contract of libc.
        return transferred(unsafe { pipes::write(end, &one(from, len)) });
    }
    // SAFETY: by the contract of libc.
    transferred(unsafe { send_all(fd, &one(from, len), 0, None, &Sending::default()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_writev, fd, list, count) as ssize_t };
    }
    if counters::is_one(fd) {
        // SAFETY: by the contract of libc.
        return transferred(unsafe {
            let from = entries(list, count as usize);
            from.and_then(|from| counters::write(fd, from).unwrap_or(Err(os(libc::EINVAL))))
        });
    }
    if is_file(fd) {
        // SAFETY: by the contract of libc.
        return transferred(unsafe {
            let from = entries(list, count as usize);
            from.and_then(|from| write_file(fd, from, None))
        });
    }
    if let Some(end) = pipes::of(fd) {
        // SAFETY: by the contract of libc.
        return transferred(unsafe {
            let from = entries(list, count as usize);
            from.and_then(|from| pipes::write(end, from))
        });
    }
    // SAFETY: by the contract of libc.
    transferred(unsafe {
        let from = entries(list, count as usize);
        from.and_then(|from| match is_nothing(from) {
            true => Ok(0),
            false => send_all(fd, from, 0, None, &Sending::default()),
        })
    })
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    recv as *const c_void,
    recvfrom as *const c_void,
    read as *const c_void,
    readv as *const c_void,
    send as *const c_void,
    sendto as *const c_void,
    write as *const c_void,
    writev as *const c_void,
];
