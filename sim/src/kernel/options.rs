//! Options of sockets.
//!
//! What the network knows is asked there. What has no effect in a simulation is accepted, as Linux
//! accepts it; `getsockopt` then answers with the default. Any other name is `ENOPROTOOPT`.
#![allow(unsafe_code)]

use std::{io, mem, ptr};

use libc::{c_int, c_void, linger, socklen_t, timeval, ucred};

use super::{answer, fails, files::Kind, is_ours, number, system::call, unix};
use crate::{
    network::{KeepAlive, SocketId},
    world::{self, World},
};

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

fn os(error: c_int) -> io::Error {
    io::Error::from_raw_os_error(error)
}

fn on_socket<R>(
    fd: c_int,
    f: impl FnOnce(&mut World, &Kind, SocketId) -> io::Result<R>,
) -> io::Result<R> {
    let result = world::with(|world| {
        let file = world.files.get(fd)?;
        let kind = match &file.kind {
            Kind::Tcp(id) => Kind::Tcp(*id),
            other => Kind::Udp(other.socket()?),
        };
        let id = kind.socket()?;
        f(world, &kind, id)
    });
    result.unwrap_or_else(|| Err(os(libc::EBADF)))
}

/// The value of an option.
pub(super) enum Value {
    Number(c_int),
    Linger(linger),
    Time(timeval),
    Credentials(ucred),
}

impl Value {
    pub(super) const NO_TIME: Self = Self::Time(timeval {
        tv_sec: 0,
        tv_usec: 0,
    });
    pub(super) const NO_LINGER: Self = Self::Linger(linger {
        l_onoff: 0,
        l_linger: 0,
    });
}

fn get(
    world: &mut World,
    kind: &Kind,
    id: SocketId,
    level: c_int,
    name: c_int,
) -> io::Result<Value> {
    let net = &mut world.net;
    let is_tcp = matches!(kind, Kind::Tcp(_));
    let is_v6 = |net: &crate::network::Network| net.local_addr(id).map(|addr| addr.is_ipv6());
    let keepalive = |net: &crate::network::Network| net.keepalive_times(id);
    let value = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            let error = net.take_error(id)?;
            error.map_or(0, |error| number(&error))
        }
        (libc::SOL_SOCKET, libc::SO_TYPE) if is_tcp => libc::SOCK_STREAM,
        (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_DGRAM,
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) if is_tcp => libc::IPPROTO_TCP,
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_UDP,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) if is_v6(net)? => libc::AF_INET6,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => libc::AF_INET,
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => net.is_listening(id)?.into(),
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => net.reuse_address(id)?.into(),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => net.send_buffer_size(id)? as c_int,
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => net.receive_buffer_size(id)? as c_int,
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) if is_tcp => net.keepalive(id)?.is_some().into(),
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let time = if is_tcp { net.linger(id)? } else { None };
            return Ok(Value::Linger(linger {
                l_onoff: time.is_some().into(),
                l_linger: (time.unwrap_or(0) / SECOND) as c_int,
            }));
        }
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO) => {
            return Ok(Value::NO_TIME);
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => net.nodelay(id)?.into(),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => (keepalive(net)?.idle / SECOND) as c_int,
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => (keepalive(net)?.interval / SECOND) as c_int,
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => keepalive(net)?.retries as c_int,
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) if is_tcp => 1_460,
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) if is_tcp => {
            (net.user_timeout(id)? / MILLISECOND) as c_int
        }
        (libc::IPPROTO_IP, libc::IP_TTL) => net.ttl(id)? as c_int,
        (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) if is_v6(net)? => net.ttl(id)? as c_int,
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) if is_v6(net)? => net.only_v6(id)?.into(),
        _ if has_no_effect(level, name, is_tcp) => 0,
        _ => return Err(os(libc::ENOPROTOOPT)),
    };
    Ok(Value::Number(value))
}

fn set(
    world: &mut World,
    kind: &Kind,
    id: SocketId,
    (level, name): (c_int, c_int),
    value: c_int,
) -> io::Result<()> {
    let net = &mut world.net;
    let is_tcp = matches!(kind, Kind::Tcp(_));
    let on = value != 0;
    let mut keepalive = |change: fn(&mut KeepAlive, u64)| {
        if !is_tcp {
            return Err(os(libc::ENOPROTOOPT));
        }
        if value <= 0 {
            return Err(os(libc::EINVAL));
        }
        let mut times = net.keepalive_times(id)?;
        change(&mut times, value as u64);
        net.set_keepalive_times(id, times)
    };
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => net.set_reuse_address(id, on),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => net.set_send_buffer_size(id, value.max(0) as usize),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
            net.set_receive_buffer_size(id, value.max(0) as usize)
        }
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) if is_tcp => {
            let times = net.keepalive_times(id)?;
            net.set_keepalive(id, on.then_some(times))
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => net.set_nodelay(id, on),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) if is_tcp => match u64::try_from(value) {
            Ok(time) => net.set_user_timeout(id, time * MILLISECOND),
            Err(_) => Err(os(libc::EINVAL)),
        },
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => keepalive(|k, s| k.idle = s * SECOND),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => keepalive(|k, s| k.interval = s * SECOND),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => keepalive(|k, n| k.retries = n as u32),
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
            match value {
                // The default again.
                -1 => net.set_ttl(id, 64),
                value => net.set_ttl(id, value.max(0) as u32),
            }
        }
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => net.set_only_v6(id, on),
        _ if has_no_effect(level, name, is_tcp) => Ok(()),
        _ => Err(os(libc::ENOPROTOOPT)),
    }
}

/// Options that Linux has, and that change nothing here.
fn has_no_effect(level: c_int, name: c_int, is_tcp: bool) -> bool {
    match level {
        libc::SOL_SOCKET => matches!(
            name,
            libc::SO_REUSEPORT
                | libc::SO_BROADCAST
                | libc::SO_KEEPALIVE
                | libc::SO_OOBINLINE
                | libc::SO_PRIORITY
                | libc::SO_RCVLOWAT
                | libc::SO_LINGER
                | libc::SO_RCVTIMEO
                | libc::SO_SNDTIMEO
                | libc::SO_INCOMING_CPU
        ),
        libc::IPPROTO_TCP => {
            is_tcp
                && matches!(
                    name,
                    libc::TCP_CORK
                        | libc::TCP_QUICKACK
                        | libc::TCP_DEFER_ACCEPT
                        | libc::TCP_THIN_LINEAR_TIMEOUTS
                        | libc::TCP_MAXSEG
                )
        }
        libc::IPPROTO_IP => matches!(
            name,
            libc::IP_TOS
                | libc::IP_RECVTOS
                | libc::IP_PKTINFO
                | libc::IP_MTU_DISCOVER
                | libc::IP_MULTICAST_TTL
                | libc::IP_MULTICAST_LOOP
                | libc::IP_BIND_ADDRESS_NO_PORT
        ),
        libc::IPPROTO_IPV6 => matches!(
            name,
            libc::IPV6_TCLASS
                | libc::IPV6_RECVTCLASS
                | libc::IPV6_RECVPKTINFO
                | libc::IPV6_MTU_DISCOVER
                | libc::IPV6_MULTICAST_HOPS
                | libc::IPV6_MULTICAST_LOOP
        ),
        _ => false,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    out: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_getsockopt, fd, level, name, out, len) as c_int };
    }
    let value = match unix::of(fd) {
        Some(id) => unix::option(id, level, name),
        None => on_socket(fd, |world, kind, id| {
            let asked = world.files.get(fd)?.asks.get(level, name);
            match asked.filter(|_| matches!(kind, Kind::Udp(_))) {
                Some(value) => Ok(Value::Number(value)),
                None => get(world, kind, id, level, name),
            }
        }),
    };
    match value {
        Ok(value) => {
            // SAFETY: by the contract of libc.
            unsafe {
                match value {
                    Value::Number(value) => put(&value, out, len),
                    Value::Linger(value) => put(&value, out, len),
                    Value::Time(value) => put(&value, out, len),
                    Value::Credentials(value) => put(&value, out, len),
                }
            }
            0
        }
        Err(error) => fails(number(&error)),
    }
}

/// # Safety
///
/// - `len` is valid for reads and writes, and `out` for writes of `*len` bytes.
unsafe fn put<T>(value: &T, out: *mut c_void, len: *mut socklen_t) {
    // SAFETY: by contract; no more is copied than there is, and than there is room for.
    unsafe {
        let room = mem::size_of::<T>().min(*len as usize);
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), out.cast(), room);
        *len = room as socklen_t;
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_setsockopt, fd, level, name, value, len) as c_int };
    }
    let len = len as usize;
    if let Some(id) = unix::of(fd) {
        let value = match len {
            // SAFETY: by the contract of libc, and it is long enough.
            4.. => unsafe { ptr::read_unaligned(value.cast::<c_int>()) },
            _ => return fails(libc::EINVAL),
        };
        return answer(unix::set_option(id, level, name, value));
    }
    answer(on_socket(fd, |world, kind, id| {
        let is_linger = (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER);
        if is_linger && matches!(kind, Kind::Tcp(_)) {
            if len < mem::size_of::<linger>() {
                return Err(os(libc::EINVAL));
            }
            // SAFETY: by the contract of libc, and it is long enough.
            let value = unsafe { ptr::read_unaligned(value.cast::<linger>()) };
            let time = SECOND * value.l_linger.max(0) as u64;
            return world
                .net
                .set_linger(id, (value.l_onoff != 0).then_some(time));
        }
        let value = match len {
            // SAFETY: by the contract of libc, and it is long enough.
            4.. => unsafe { ptr::read_unaligned(value.cast::<c_int>()) },
            // SAFETY: as above. Some options may be one byte.
            1.. => c_int::from(unsafe { ptr::read(value.cast::<u8>()) }),
            0 => return Err(os(libc::EINVAL)),
        };
        let is_udp = matches!(kind, Kind::Udp(_));
        if is_udp && let Some(set) = world.files.get(fd)?.asks.set(level, name, value) {
            return set;
        }
        set(world, kind, id, (level, name), value)
    }))
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] =
    &[getsockopt as *const c_void, setsockopt as *const c_void];
