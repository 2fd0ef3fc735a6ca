//! Unix sockets at the seam: addresses, options, and calls whose arguments differ from those of the
//! network. `unix.rs` of the package has what they do.
//!
//! The functions of `sockets.rs`, `transfer.rs` and `options.rs` come here first with a descriptor,
//! and go on if it is no Unix socket.
#![allow(unsafe_code)]

use std::{io, mem, net::Shutdown, ptr};

use libc::{c_int, c_void, iovec, sa_family_t, sockaddr, sockaddr_un, socklen_t, ucred};

use super::{
    answer, fails,
    files::Kind,
    kept::Of,
    number,
    options::Value,
    sockets::{is_kind, is_tcp, or_deadlock},
    system::call,
    transfer::{Received, Sender, scatter},
};
use crate::{
    error::os,
    unix::{Kind as Type, Name, Place, Sockets, UnixId},
    world::{self, World},
};

/// Where the path begins in an address.
const PATH: usize = mem::offset_of!(sockaddr_un, sun_path);

/// The Unix socket of a descriptor.
pub(super) fn of(fd: c_int) -> Option<UnixId> {
    world::with(|world| match world.files.get(fd).ok()?.kind {
        Kind::Unix(id) => Some(id),
        _ => None,
    })
    .flatten()
}

pub(super) fn with<R>(f: impl FnOnce(&mut Sockets) -> io::Result<R>) -> io::Result<R> {
    world::with(|world| f(&mut world.unix)).unwrap_or_else(|| Err(os(libc::EBADF)))
}

/// An address as a program gives it.
pub(super) enum Given {
    /// Of the family `AF_UNSPEC`.
    Unspecified,
    Unnamed,
    Named(Name),
}

impl Given {
    /// The name to bind to. Without one the kernel makes one up.
    fn name_to_bind(self) -> io::Result<Option<Name>> {
        match self {
            Self::Unspecified => Err(os(libc::EINVAL)),
            Self::Unnamed => Ok(None),
            Self::Named(name) => Ok(Some(name)),
        }
    }

    /// The name to connect to. Without one the socket is disconnected.
    fn name_to_connect(self) -> io::Result<Option<Name>> {
        match self {
            Self::Unspecified => Ok(None),
            Self::Unnamed => Err(os(libc::EINVAL)),
            Self::Named(name) => Ok(Some(name)),
        }
    }

    fn name_to_send(self) -> io::Result<Name> {
        match self {
            Self::Unspecified | Self::Unnamed => Err(os(libc::EINVAL)),
            Self::Named(name) => Ok(name),
        }
    }
}

/// # Safety
///
/// - `addr` is valid for reads of `len` bytes.
pub(super) unsafe fn read(addr: *const sockaddr, len: socklen_t) -> io::Result<Given> {
    let len = len as usize;
    if addr.is_null() || len < PATH || len > mem::size_of::<sockaddr_un>() {
        return Err(os(libc::EINVAL));
    }
    // SAFETY: by contract, and it is long enough for that field.
    let family = unsafe { ptr::read_unaligned(addr.cast::<sa_family_t>()) };
    if c_int::from(family) == libc::AF_UNSPEC {
        return Ok(Given::Unspecified);
    }
    if c_int::from(family) != libc::AF_UNIX {
        return Err(os(libc::EINVAL));
    }
    // SAFETY: by contract.
    let name = unsafe { std::slice::from_raw_parts(addr.cast::<u8>().add(PATH), len - PATH) };
    Ok(match name {
        [] => Given::Unnamed,
        [0, name @ ..] => Given::Named(Name::Abstract(name.to_vec())),
        path => {
            let end = path.iter().position(|byte| *byte == 0);
            Given::Named(Name::Path(path[..end.unwrap_or(path.len())].to_vec()))
        }
    })
}

/// Writes a name as an address, as much of it as there is room for, and its whole length.
///
/// # Safety
///
/// - `len` is null, or valid for reads and writes, and `out` is valid for writes of `*len` bytes.
pub(super) unsafe fn write(name: Option<&Name>, out: *mut sockaddr, len: *mut socklen_t) {
    if out.is_null() || len.is_null() {
        return;
    }
    let family = (libc::AF_UNIX as sa_family_t).to_ne_bytes();
    let bytes = match name {
        None => family.to_vec(),
        Some(Name::Path(path)) => [&family, &path[..], &[0][..]].concat(),
        Some(Name::Abstract(name)) => [&family, &[0][..], &name[..]].concat(),
    };
    // SAFETY: by contract; no more is copied than there is, and than there is room for.
    unsafe {
        let room = bytes.len().min(*len as usize);
        ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast::<u8>(), room);
        *len = bytes.len() as socklen_t;
    }
}

fn kind_of(kind: c_int, protocol: c_int) -> io::Result<Type> {
    if ![0, libc::PF_UNIX].contains(&protocol) {
        return Err(os(libc::EPROTONOSUPPORT));
    }
    match kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) {
        libc::SOCK_STREAM => Ok(Type::Stream),
        libc::SOCK_DGRAM | libc::SOCK_RAW => Ok(Type::Datagram),
        libc::SOCK_SEQPACKET => Ok(Type::Packets),
        _ => Err(os(libc::ESOCKTNOSUPPORT)),
    }
}

/// Makes a socket of the host that runs.
pub(super) fn socket(
    world: &mut World,
    host: usize,
    kind: c_int,
    protocol: c_int,
) -> io::Result<c_int> {
    let of = kind_of(kind, protocol)?;
    world.files.have_room(1)?;
    let id = world.unix.socket(host, of);
    Ok(world.files.open(host, Kind::Unix(id), kind))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn socketpair(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
    out: *mut c_int,
) -> c_int {
    let made = world::with_host(|world, host| {
        is_kind(kind)?;
        match domain {
            _ if !world.hosts[host].up => return Err(os(libc::ENETDOWN)),
            libc::AF_UNIX => {}
            libc::AF_INET | libc::AF_INET6 => {
                is_tcp(kind, protocol)?;
                return Err(os(libc::EOPNOTSUPP));
            }
            _ => return Err(os(libc::EAFNOSUPPORT)),
        }
        let of = kind_of(kind, protocol)?;
        world.files.have_room(2)?;
        let (a, b) = world.unix.pair(host, of);
        Ok([a, b].map(|id| world.files.open(host, Kind::Unix(id), kind)))
    });
    match made {
        // SAFETY: by the contract of libc.
        None => unsafe { call()(libc::SYS_socketpair, domain, kind, protocol, out) as c_int },
        Some(Ok(both)) => {
            // SAFETY: by the contract of libc there is room for two.
            unsafe { ptr::write(out.cast::<[c_int; 2]>(), both) };
            0
        }
        Some(Err(error)) => fails(number(&error)),
    }
}

/// # Safety
///
/// - As libc's `accept4`.
pub(super) unsafe fn accept(
    fd: c_int,
    id: UnixId,
    from: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let accepted = world::with(|world| {
        let file = world.files.get(fd)?;
        let (host, nonblocking) = (file.host, file.nonblocking);
        world.files.have_room(1)?;
        let (child, peer) = or_deadlock(nonblocking, world.unix.accept(id))?;
        Ok((world.files.open(host, Kind::Unix(child), flags), peer))
    });
    match accepted.unwrap_or_else(|| Err(os(libc::EBADF))) {
        Ok((child, peer)) => {
            // SAFETY: by contract.
            unsafe { write(peer.as_ref(), from, len) };
            child
        }
        Err(error) => fails(number(&error)),
    }
}

/// What a name of a host leads to.
fn place(world: &World, host: usize, kind: Type, name: Name) -> io::Result<Place> {
    match name {
        Name::Abstract(name) => Ok(Place::Abstract(kind, name)),
        Name::Path(path) => world.hosts[host].disk.socket_at(&path).map(Place::Node),
    }
}

pub(super) fn bind(fd: c_int, id: UnixId, name: io::Result<Given>) -> c_int {
    let bound = world::with(|world| {
        let host = world.files.get(fd)?.host;
        let path = match name?.name_to_bind()? {
            None => return world.unix.bind(id, None),
            Some(Name::Abstract(name)) => return world.unix.bind(id, Some(name)),
            Some(Name::Path(path)) => path,
        };
        // The file of a path is made before the socket is looked at.
        let node = world.disk_of(host).make_socket(&path)?;
        let bound = world.unix.bind_path(id, path.clone(), node);
        if bound.is_err() {
            world.disk_of(host).remove_socket(&path)?;
        }
        bound
    });
    answer(bound.unwrap_or_else(|| Err(os(libc::EBADF))))
}

pub(super) fn connect(fd: c_int, id: UnixId, to: io::Result<Given>) -> c_int {
    let connected = world::with(|world| {
        let file = world.files.get(fd)?;
        let (host, nonblocking) = (file.host, file.nonblocking);
        let kind = world.unix.kind(id)?;
        let name = to?.name_to_connect()?;
        let place = name
            .map(|name| place(world, host, kind, name))
            .transpose()?;
        let connected = or_deadlock(nonblocking, world.unix.connect(id, place));
        world.release([]);
        connected
    });
    answer(connected.unwrap_or_else(|| Err(os(libc::EBADF))))
}

/// # Safety
///
/// - As [`write()`].
pub(super) unsafe fn give_name(
    name: io::Result<Option<Name>>,
    out: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    match name {
        Ok(name) => {
            // SAFETY: by contract.
            unsafe { write(name.as_ref(), out, len) };
            0
        }
        Err(error) => fails(number(&error)),
    }
}

pub(super) fn shutdown(id: UnixId, how: Shutdown) -> c_int {
    answer(with(|unix| unix.shutdown(id, how)))
}

/// # Safety
///
/// - Each buffer of `into` is valid for writes.
pub(super) unsafe fn receive(
    fd: c_int,
    id: UnixId,
    into: &[iovec],
    flags: c_int,
) -> io::Result<Received> {
    let lens = into.iter().map(|one| one.iov_len);
    let room = lens.fold(0_usize, usize::saturating_add);
    let peek = flags & libc::MSG_PEEK != 0;
    let received = world::with(|world| {
        let nonblocking = world.files.get(fd)?.nonblocking || flags & libc::MSG_DONTWAIT != 0;
        let received = or_deadlock(nonblocking, world.unix.receive(id, room, peek))?;
        if peek {
            world.hold(&received.rights);
        }
        world.release([]);
        Ok((received, world.unix.kind(id)? == Type::Stream))
    });
    let (received, is_stream) = received.unwrap_or_else(|| Err(os(libc::EBADF)))?;
    // SAFETY: by contract.
    unsafe { scatter(&received.bytes, into) };
    let is_cut = !is_stream && received.whole > room;
    let len = match flags & libc::MSG_TRUNC {
        0 => received.bytes.len(),
        _ => received.whole,
    };
    let from = received.from.map_or(Sender::Nobody, Sender::Unix);
    Ok(Received {
        len,
        from,
        is_cut,
        arrival: None,
        rights: received.rights,
    })
}

pub(super) fn send(
    fd: c_int,
    id: UnixId,
    bytes: &[u8],
    flags: c_int,
    to: Option<io::Result<Given>>,
    descriptors: &[c_int],
) -> io::Result<usize> {
    let sent = world::with(|world| {
        let rights = descriptors.iter().map(|fd| world.files.of(*fd));
        let rights: Vec<_> = rights.collect::<io::Result<_>>()?;
        let file = world.files.get(fd)?;
        let host = file.host;
        let nonblocking = file.nonblocking || flags & libc::MSG_DONTWAIT != 0;
        let to = match (world.unix.kind(id)?, to) {
            // Only a datagram's address is looked at.
            (kind @ Type::Datagram, Some(name)) => {
                Some(place(world, host, kind, name?.name_to_send()?))
            }
            (_, to) => to.map(|_| Err(os(libc::EINVAL))),
        };
        let sent = or_deadlock(nonblocking, world.unix.send(id, bytes, to, &rights))?;
        // A stream has no message without bytes.
        if !bytes.is_empty() || world.unix.kind(id)? != Type::Stream {
            world.hold(&rights);
        }
        world.release([]);
        Ok(sent)
    });
    sent.unwrap_or_else(|| Err(os(libc::EBADF)))
}

/// The value of an option.
pub(super) fn option(fd: c_int, id: UnixId, level: c_int, name: c_int) -> io::Result<Value> {
    if level != libc::SOL_SOCKET {
        return Err(os(libc::EOPNOTSUPP));
    }
    let kept = world::with(|world| world.files.get(fd).ok()?.kept.get(Of::Unix, level, name));
    let own = std::process::id() as libc::pid_t;
    with(|unix| {
        Ok(Value::Number(match name {
            libc::SO_TYPE => match unix.kind(id)? {
                Type::Stream => libc::SOCK_STREAM,
                Type::Datagram => libc::SOCK_DGRAM,
                Type::Packets => libc::SOCK_SEQPACKET,
            },
            libc::SO_DOMAIN => libc::AF_UNIX,
            libc::SO_ERROR => unix.take_error(id)?.unwrap_or(0),
            libc::SO_ACCEPTCONN => unix.is_listening(id)?.into(),
            libc::SO_SNDBUF => unix.buffers(id)?.0 as c_int,
            libc::SO_RCVBUF => unix.buffers(id)?.1 as c_int,
            libc::SO_PROTOCOL | libc::SO_REUSEPORT => 0,
            libc::SO_SNDLOWAT => 1,
            libc::SO_PEERCRED => return credentials(own, unix.has_credentials(id)?),
            _ => kept.flatten().ok_or_else(|| os(libc::ENOPROTOOPT))?,
        }))
    })
}

/// Those of the peer, which is in the same host, and so in the process `pid`.
fn credentials(pid: libc::pid_t, known: bool) -> io::Result<Value> {
    // SAFETY: they take nothing.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    Ok(Value::Credentials(if known {
        ucred { pid, uid, gid }
    } else {
        ucred {
            pid: 0,
            uid: u32::MAX,
            gid: u32::MAX,
        }
    }))
}

/// Sets an option.
pub(super) fn set_option(
    fd: c_int,
    id: UnixId,
    (level, name): (c_int, c_int),
    value: c_int,
) -> io::Result<()> {
    if level != libc::SOL_SOCKET {
        return Err(os(libc::EOPNOTSUPP));
    }
    // As Linux: twice what is asked for, within limits. A negative number is a large one.
    let doubled = |least: usize| (value.cast_unsigned() as usize * 2).clamp(least, 425_984);
    with(|unix| match name {
        libc::SO_SNDBUF => unix.set_send_buffer(id, doubled(4_608)),
        libc::SO_RCVBUF => unix.set_receive_buffer(id, doubled(2_304)),
        libc::SO_REUSEPORT if value != 0 => Err(os(libc::EOPNOTSUPP)),
        libc::SO_REUSEPORT => Ok(()),
        _ => Err(os(libc::ENOPROTOOPT)),
    })
    .or_else(|error| {
        let kept = world::with(|world| {
            let kept = &mut world.files.get(fd).ok()?.kept;
            kept.set(Of::Unix, level, name, value)
        });
        kept.flatten().unwrap_or(Err(error))
    })
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[socketpair as *const c_void];
