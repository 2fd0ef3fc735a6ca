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

use super::{addr, answer, fails, files::Kind, is_ours, number, system::call, unix};
use crate::{
    network::SocketId,
    world::{self, World},
};

pub(super) fn os(error: c_int) -> io::Error {
    io::Error::from_raw_os_error(error)
}

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

/// What would wait answers `EDEADLK`, if it may wait.
pub(super) fn or_deadlock<R>(nonblocking: bool, result: io::Result<R>) -> io::Result<R> {
    match result {
        Err(error) if error.kind() == WouldBlock && !nonblocking => Err(os(libc::EDEADLK)),
        result => result,
    }
}

// --- making and naming ---

#[unsafe(no_mangle)]
unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let made = world::with_host(|world, host| {
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
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let id = world.hosts[host].id;
        let file = match (kind & !flags, protocol) {
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Kind::Tcp(world.net.tcp_socket(id, v6)),
            (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Kind::Udp(world.net.udp_socket(id, v6)),
            (libc::SOCK_RAW, _) => return Err(os(libc::EPERM)),
            (libc::SOCK_STREAM | libc::SOCK_DGRAM, _) => return Err(os(libc::EPROTONOSUPPORT)),
            _ => return Err(os(libc::EINVAL)),
        };
        let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        Ok(world.files.open(host, file, nonblocking))
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
    answer(on_socket(fd, |world, id, _| world.net.bind(id, to?)))
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
    if let Some(id) = unix::of(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { unix::accept(fd, id, from, len, flags) };
    }
    let accepted = on_socket(fd, |world, id, nonblocking| {
        world.files.have_room(1)?;
        let (child, peer) = or_deadlock(nonblocking, world.net.accept(id))?;
        let host = world.files.get(fd)?.host;
        let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
        Ok((world.files.open(host, Kind::Tcp(child), nonblocking), peer))
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
        if is_tcp && !nonblocking {
            return Err(os(libc::EDEADLK));
        }
        world.net.connect(id, to?)
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
        _ => return fails(libc::EINVAL),
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
