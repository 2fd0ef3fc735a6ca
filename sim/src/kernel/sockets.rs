//! Sockets: how they are made, named, connected and shut down.
//!
//! Each function here is thin: it reads its arguments, calls the network with a safe value, and
//! writes the answer.
#![allow(unsafe_code)]

use std::{
    io::{self, ErrorKind::WouldBlock},
    net::{Shutdown, SocketAddr},
};

use libc::{c_int, c_uint, c_void, sockaddr, socklen_t};

use super::{
    addr, answer, fails,
    files::{File, Kind},
    is_ours, number,
    system::call,
    unix,
};
use crate::{
    error::os,
    network::SocketId,
    world::{self, World},
};

/// Calls `f` with the socket of a descriptor, and whether calls on it may not wait.
pub(super) fn on_socket<R>(
    fd: c_int,
    f: impl FnOnce(&mut World, SocketId, bool) -> io::Result<R>,
) -> io::Result<R> {
    let result = world::with(|world| {
        let file = world.files.get(fd)?;
        let (id, nonblocking) = (file.kind.socket()?, file.nonblocking);
        f(world, id, nonblocking)
    });
    result.unwrap_or_else(|| Err(os(libc::EBADF)))
}

/// `ENOTSOCK` for a descriptor of anything else. For what would not ask the socket.
pub(super) fn is_socket(fd: c_int) -> io::Result<()> {
    let is = world::with(|world| match world.files.used(fd)?.kind {
        Kind::Tcp(_) | Kind::Udp(_) | Kind::Unix(_) => Ok(()),
        _ => Err(os(libc::ENOTSOCK)),
    });
    is.unwrap_or_else(|| Err(os(libc::EBADF)))
}

/// What would wait answers `EDEADLK`, if it may wait.
pub(super) fn or_deadlock<R>(nonblocking: bool, result: io::Result<R>) -> io::Result<R> {
    match result {
        Err(error) if error.kind() == WouldBlock && !nonblocking => Err(os(libc::EDEADLK)),
        result => result,
    }
}

// --- making and naming ---

/// What a kind of a socket may have as well.
const FLAGS: c_int = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;

/// Protocols of IP: `IPPROTO_MAX`.
const PROTOCOLS: c_int = 263;

/// `EINVAL` for what is no kind of a socket at all, or has a flag that Linux does not know.
pub(super) fn is_kind(kind: c_int) -> io::Result<()> {
    /// `SOCK_MAX`.
    const KINDS: c_int = 11;

    match kind & !FLAGS {
        0..KINDS => Ok(()),
        _ => Err(os(libc::EINVAL)),
    }
}

/// Whether a socket of IP is one of TCP, and not of UDP.
pub(super) fn is_tcp(kind: c_int, protocol: c_int) -> io::Result<bool> {
    match (kind & !FLAGS, protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Ok(true),
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Ok(false),
        (_, ..0 | PROTOCOLS..) => Err(os(libc::EINVAL)),
        (libc::SOCK_RAW, _) => Err(os(libc::EPERM)),
        (libc::SOCK_STREAM | libc::SOCK_DGRAM, _) => Err(os(libc::EPROTONOSUPPORT)),
        _ => Err(os(libc::ESOCKTNOSUPPORT)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let made = world::with_host(|world, host| {
        is_kind(kind)?;
        if domain == libc::AF_UNIX && world.hosts[host].up {
            return unix::socket(world, host, kind, protocol);
        }
        let v6 = match domain {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => return Err(os(libc::EAFNOSUPPORT)),
        };
        if !world.hosts[host].up {
            return Err(os(libc::ENETDOWN));
        }
        world.files.have_room(1)?;
        let is_tcp = is_tcp(kind, protocol)?;
        let id = world.hosts[host].id;
        let file = match is_tcp {
            true => Kind::Tcp(world.net.tcp_socket(id, v6)),
            false => Kind::Udp(world.net.udp_socket(id, v6)),
        };
        Ok(world.files.open(host, file, kind))
    });
    match made {
        // SAFETY: it takes no pointers.
        None => unsafe { call()(libc::SYS_socket, domain, kind, protocol) as c_int },
        Some(Ok(fd)) => fd,
        Some(Err(error)) => fails(number(&error)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bind(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_bind, fd, to, len) as c_int };
    }
    if let Some(id) = unix::of(fd) {
        // SAFETY: by the contract of libc.
        let name = unsafe { unix::read(to, len) };
        return unix::bind(fd, id, name);
    }
    // SAFETY: by the contract of libc.
    let to = unsafe { addr::read(to, len) };
    answer(on_socket(fd, |world, id, _| {
        let to = to?.to_bind(world.net.is_v6(id)?)?;
        world.net.bind(id, to)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_listen, fd, backlog) as c_int };
    }
    // As in Linux, a negative number is the largest, and 4096 is `somaxconn`.
    let backlog = (backlog as c_uint).min(4096) as usize;
    if let Some(id) = unix::of(fd) {
        return answer(unix::with(|unix| unix.listen(id, backlog)));
    }
    answer(on_socket(fd, |world, id, _| world.net.listen(id, backlog)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept4(
    fd: c_int,
    from: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_accept4, fd, from, len, flags) as c_int };
    }
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        let is_open = world::with(|world| world.files.of(fd).is_ok());
        return fails(match is_open {
            Some(true) => libc::EINVAL,
            _ => libc::EBADF,
        });
    }
    if let Some(id) = unix::of(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { unix::accept(fd, id, from, len, flags) };
    }
    let accepted = on_socket(fd, |world, id, nonblocking| {
        world.files.have_room(1)?;
        let (child, peer) = or_deadlock(nonblocking, world.net.accept(id))?;
        let File { host, kept, .. } = world.files.get(fd)?;
        let (host, mut kept) = (*host, kept.clone());
        kept.cookie = 0;
        let child = world.files.open(host, Kind::Tcp(child), flags);
        world.files.get(child)?.kept = kept;
        Ok((child, peer))
    });
    match accepted {
        Ok((child, peer)) => {
            // SAFETY: by the contract of libc.
            unsafe { addr::write(peer, from, len) };
            child
        }
        Err(error) => fails(number(&error)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept(fd: c_int, from: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { accept4(fd, from, len, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_connect, fd, to, len) as c_int };
    }
    if let Some(id) = unix::of(fd) {
        // SAFETY: by the contract of libc.
        return unix::connect(fd, id, unsafe { unix::read(to, len) });
    }
    // SAFETY: by the contract of libc.
    let to = unsafe { addr::read(to, len) };
    answer(on_socket(fd, |world, id, nonblocking| {
        let is_tcp = matches!(world.files.get(fd)?.kind, Kind::Tcp(_));
        let to = to?;
        if to.is_unspecified() {
            return world.net.disconnect(id);
        }
        if is_tcp && !nonblocking {
            return Err(os(libc::EDEADLK));
        }
        let to = to.to_connect(world.net.is_v6(id)?, is_tcp);
        world.net.connect_to(id, to)
    }))
}

fn name(fd: c_int, of: impl FnOnce(&mut World, SocketId) -> io::Result<SocketAddr>) -> Named {
    on_socket(fd, |world, id, _| of(world, id))
}

type Named = io::Result<SocketAddr>;

/// # Safety
///
/// - As [`addr::write`].
unsafe fn give_name(name: Named, out: *mut sockaddr, len: *mut socklen_t) -> c_int {
    match name {
        Ok(name) => {
            // SAFETY: by contract.
            unsafe { addr::write(name, out, len) };
            0
        }
        Err(error) => fails(number(&error)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockname(fd: c_int, out: *mut sockaddr, len: *mut socklen_t) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_getsockname, fd, out, len) as c_int };
    }
    if let Some(id) = unix::of(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { unix::give_name(unix::with(|unix| unix.name(id)), out, len) };
    }
    // SAFETY: by the contract of libc.
    unsafe { give_name(name(fd, |world, id| world.net.local_addr(id)), out, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpeername(fd: c_int, out: *mut sockaddr, len: *mut socklen_t) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_getpeername, fd, out, len) as c_int };
    }
    if let Some(id) = unix::of(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { unix::give_name(unix::with(|unix| unix.peer_name(id)), out, len) };
    }
    // SAFETY: by the contract of libc.
    unsafe { give_name(name(fd, |world, id| world.net.peer_addr(id)), out, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_shutdown, fd, how) as c_int };
    }
    let how = match how {
        libc::SHUT_RD => Shutdown::Read,
        libc::SHUT_WR => Shutdown::Write,
        libc::SHUT_RDWR => Shutdown::Both,
        _ => return answer(is_socket(fd).and(Err(os(libc::EINVAL)))),
    };
    if let Some(id) = unix::of(fd) {
        return unix::shutdown(id, how);
    }
    answer(on_socket(fd, |world, id, _| world.net.shutdown(id, how)))
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    socket as *const c_void,
    bind as *const c_void,
    listen as *const c_void,
    accept4 as *const c_void,
    accept as *const c_void,
    connect as *const c_void,
    getsockname as *const c_void,
    getpeername as *const c_void,
    shutdown as *const c_void,
];
