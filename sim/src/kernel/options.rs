//! Options of sockets.
//!
//! What the network knows is asked there. What has no effect in a simulation is
//! [kept](super::kept). Any other name is `ENOPROTOOPT`.
#![allow(unsafe_code)]

use std::{io, mem, ptr, slice};

use libc::{c_int, c_void, linger, socklen_t, tcp_info, timeval, ucred};

use super::{
    answer,
    clock::SECOND,
    fails,
    files::Kind,
    interfaces::is_interface,
    is_ours,
    kept::{CONGESTIONS, Of},
    number,
    sockets::is_socket,
    system::call,
    unix,
};
use crate::{
    error::os,
    network::{KeepAlive, Network, SocketId},
    world::{self, World},
};

const MILLISECOND: u64 = 1_000_000;

/// Largest times of keep-alive in seconds, and most probes: `MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPCNT`.
const TIME: c_int = 32_767;
const PROBES: c_int = 127;

fn on_socket<R>(
    fd: c_int,
    f: impl FnOnce(&mut World, Of, SocketId) -> io::Result<R>,
) -> io::Result<R> {
    let result = world::with(|world| {
        let kind = &world.files.get(fd)?.kind;
        let (id, is_tcp) = (kind.socket()?, matches!(kind, Kind::Tcp(_)));
        let v6 = world.net.is_v6(id)?;
        let of = if is_tcp {
            Of::Tcp { v6 }
        } else {
            Of::Udp { v6 }
        };
        f(world, of, id)
    });
    result.unwrap_or_else(|| Err(os(libc::EBADF)))
}

/// The value of an option.
pub(super) enum Value {
    Number(c_int),
    Linger(linger),
    Time(timeval),
    Credentials(ucred),
    Info(Box<tcp_info>),
    Cookie(u64),
    Text(Vec<u8>),
}

/// The lengths of a name of an interface and of a congestion control: `IFNAMSIZ`,
/// `TCP_CA_NAME_MAX`.
const TEXT: usize = 16;

/// What is simulated of `TCP_INFO`. The rest is zero.
fn info(net: &Network, id: SocketId) -> io::Result<Value> {
    let known = net.info(id)?;
    // SAFETY: it is plain data, and zero is a value of each field.
    let mut info: Box<tcp_info> = Box::new(unsafe { mem::zeroed() });
    let segment = known.segment;
    info.tcpi_state = known.state;
    info.tcpi_retransmits = known.tries.min(255) as u8;
    (info.tcpi_snd_mss, info.tcpi_rcv_mss) = (segment, segment);
    info.tcpi_unacked = known.in_flight.div_ceil(segment.max(1).into()) as u32;
    info.tcpi_rtt = (known.round_trip / 1_000) as u32;
    info.tcpi_rttvar = (known.deviation / 1_000) as u32;
    Ok(Value::Info(info))
}

/// An option that is a text or a cookie, if there is room for so many bytes.
fn text(fd: c_int, level: c_int, name: c_int, room: usize) -> Option<io::Result<Value>> {
    world::with(|world| {
        let file = world.files.get(fd).ok()?;
        let is_tcp = matches!(file.kind, Kind::Tcp(_));
        let is_of_network = is_tcp || matches!(file.kind, Kind::Udp(_));
        Some(match (level, name) {
            (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) => match &*file.kept.device {
                [] => Ok(Value::Text(Vec::new())),
                _ if room < TEXT => Err(os(libc::EINVAL)),
                name => Ok(Value::Text([name, &[0]].concat())),
            },
            (libc::SOL_SOCKET, libc::SO_COOKIE) if room < 8 => Err(os(libc::EINVAL)),
            (libc::SOL_SOCKET, libc::SO_COOKIE) => world.files.cookie(fd).map(Value::Cookie),
            // No socket has any.
            (libc::IPPROTO_IP, libc::IP_OPTIONS) if is_of_network => Ok(Value::Text(Vec::new())),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) if is_tcp => {
                let mut text = file.kept.congestion.to_vec();
                text.resize(TEXT, 0);
                Ok(Value::Text(text))
            }
            _ => return None,
        })
    })
    .flatten()
}

/// Sets an option that is a text. None if it is none.
///
/// # Safety
///
/// - `value` is valid for reads of `len` bytes.
unsafe fn set_text(
    fd: c_int,
    (level, name): (c_int, c_int),
    value: *const c_void,
    len: usize,
) -> Option<io::Result<()>> {
    let is_device = (level, name) == (libc::SOL_SOCKET, libc::SO_BINDTODEVICE);
    if !is_device && (level, name) != (libc::IPPROTO_TCP, libc::TCP_CONGESTION) {
        return None;
    }
    let text = match len.min(TEXT - 1) {
        0 => &[],
        // SAFETY: by contract.
        len => unsafe { slice::from_raw_parts(value.cast::<u8>(), len) },
    };
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    world::with(|world| {
        let file = world.files.get(fd).ok()?;
        if is_device {
            if !text.is_empty() && !is_interface(text) {
                return Some(Err(os(libc::ENODEV)));
            }
            file.kept.device = text.to_vec();
        } else {
            if !matches!(file.kind, Kind::Tcp(_)) {
                return None;
            }
            if len == 0 {
                return Some(Err(os(libc::EINVAL)));
            }
            match CONGESTIONS.into_iter().find(|known| *known == text) {
                Some(known) => file.kept.congestion = known,
                None => return Some(Err(os(libc::ENOENT))),
            }
        }
        Some(Ok(()))
    })
    .flatten()
}

/// An option that is no number, and which any socket has.
fn structure(fd: c_int, level: c_int, name: c_int) -> Option<Value> {
    world::with(|world| {
        let kept = &world.files.get(fd).ok()?.kept;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_LINGER) => Some(Value::Linger(kept.linger)),
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => Some(Value::Time(kept.receive_time)),
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => Some(Value::Time(kept.send_time)),
            _ => None,
        }
    })
    .flatten()
}

/// Sets such an option. None if it is none.
///
/// # Safety
///
/// - `value` is valid for reads of `len` bytes.
unsafe fn set_structure(
    fd: c_int,
    (level, name): (c_int, c_int),
    value: *const c_void,
    len: usize,
) -> Option<io::Result<()>> {
    let is_linger = name == libc::SO_LINGER;
    let is_time = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO].contains(&name);
    if level != libc::SOL_SOCKET || !(is_linger || is_time) {
        return None;
    }
    let least = if is_linger {
        mem::size_of::<linger>()
    } else {
        mem::size_of::<timeval>()
    };
    if len < least {
        return Some(Err(os(libc::EINVAL)));
    }
    if is_linger {
        // SAFETY: by contract, and it is long enough.
        let value = unsafe { ptr::read_unaligned(value.cast::<linger>()) };
        return Some(set_linger(fd, value));
    }
    // SAFETY: as above.
    let mut time = unsafe { ptr::read_unaligned(value.cast::<timeval>()) };
    if !(0..1_000_000).contains(&time.tv_usec) {
        return Some(Err(os(libc::EDOM)));
    }
    if time.tv_sec < 0 {
        (time.tv_sec, time.tv_usec) = (0, 0); // as in Linux
    }
    world::with(|world| {
        let kept = &mut world.files.get(fd)?.kept;
        match name {
            libc::SO_RCVTIMEO => kept.receive_time = time,
            _ => kept.send_time = time,
        }
        Ok(())
    })
}

fn set_linger(fd: c_int, value: linger) -> io::Result<()> {
    let is_on = value.l_onoff != 0;
    let set = world::with(|world| {
        let file = world.files.get(fd)?;
        file.kept.linger.l_onoff = is_on.into();
        if is_on {
            file.kept.linger.l_linger = value.l_linger;
        }
        if let Kind::Tcp(id) = file.kind {
            let time = SECOND * u64::from(value.l_linger.max(0).unsigned_abs());
            world.net.set_linger(id, is_on.then_some(time))?;
        }
        Ok(())
    });
    set.unwrap_or_else(|| Err(os(libc::EBADF)))
}

fn get(world: &mut World, of: Of, id: SocketId, level: c_int, name: c_int) -> io::Result<Value> {
    let net = &mut world.net;
    let is_tcp = matches!(of, Of::Tcp { .. });
    let is_v6 = matches!(of, Of::Tcp { v6: true } | Of::Udp { v6: true });
    let keepalive = |net: &Network| net.keepalive_times(id);
    let value = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            let error = net.take_error(id)?;
            error.map_or(0, |error| number(&error))
        }
        (libc::SOL_SOCKET, libc::SO_TYPE) if is_tcp => libc::SOCK_STREAM,
        (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_DGRAM,
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) if is_tcp => libc::IPPROTO_TCP,
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_UDP,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) if is_v6 => libc::AF_INET6,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => libc::AF_INET,
        (libc::SOL_SOCKET, libc::SO_SNDLOWAT) => 1,
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => net.is_listening(id)?.into(),
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => net.reuse_address(id)?.into(),
        (libc::SOL_SOCKET, libc::SO_REUSEPORT) => net.reuse_port(id)?.into(),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => net.send_buffer_size(id)? as c_int,
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => net.receive_buffer_size(id)? as c_int,
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) if is_tcp => net.keepalive(id)?.is_some().into(),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) if is_tcp => net.nodelay(id)?.into(),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) if is_tcp => {
            (keepalive(net)?.idle / SECOND) as c_int
        }
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) if is_tcp => {
            (keepalive(net)?.interval / SECOND) as c_int
        }
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) if is_tcp => keepalive(net)?.retries as c_int,
        (libc::IPPROTO_TCP, libc::TCP_INFO) if is_tcp => return info(net, id),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) if is_tcp => {
            (net.user_timeout(id)? / MILLISECOND) as c_int
        }
        (libc::IPPROTO_IP, libc::IP_MTU) => net.mtu(id)? as c_int,
        (libc::IPPROTO_IPV6, libc::IPV6_MTU) if is_v6 => net.mtu(id)? as c_int,
        (libc::IPPROTO_IP, libc::IP_TTL) => net.ttl(id)? as c_int,
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) if is_v6 => net.only_v6(id)?.into(),
        _ => return Err(unknown(of, level)),
    };
    Ok(Value::Number(value))
}

fn set(
    world: &mut World,
    of: Of,
    id: SocketId,
    (level, name): (c_int, c_int),
    value: c_int,
) -> io::Result<()> {
    let net = &mut world.net;
    let is_tcp = matches!(of, Of::Tcp { .. });
    // As in Linux, a negative number is a large one.
    let (on, bytes) = (value != 0, value.cast_unsigned() as usize);
    let mut keepalive = |most: c_int, change: fn(&mut KeepAlive, u64)| {
        if !is_tcp {
            return Err(os(libc::ENOPROTOOPT));
        }
        if !(1..=most).contains(&value) {
            return Err(os(libc::EINVAL));
        }
        let mut times = net.keepalive_times(id)?;
        change(&mut times, value as u64);
        net.set_keepalive_times(id, times)
    };
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => net.set_reuse_address(id, on),
        (libc::SOL_SOCKET, libc::SO_REUSEPORT) => net.set_reuse_port(id, on),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => net.set_send_buffer_size(id, bytes),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => net.set_receive_buffer_size(id, bytes),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) if is_tcp => {
            let times = net.keepalive_times(id)?;
            net.set_keepalive(id, on.then_some(times))
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => net.set_nodelay(id, on),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) if is_tcp => match u64::try_from(value) {
            Ok(time) => net.set_user_timeout(id, time * MILLISECOND),
            Err(_) => Err(os(libc::EINVAL)),
        },
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => keepalive(TIME, |k, s| k.idle = s * SECOND),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => keepalive(TIME, |k, s| k.interval = s * SECOND),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => keepalive(PROBES, |k, n| k.retries = n as u32),
        (libc::IPPROTO_IP, libc::IP_TTL) => match value {
            // The default again.
            -1 => net.set_ttl(id, 64),
            value => net.set_ttl(id, value.max(0) as u32),
        },
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => net.set_only_v6(id, on),
        _ => Err(os(libc::ENOPROTOOPT)),
    }
}

/// Whether an option of IP without a value is zero.
fn may_be_empty(name: c_int) -> bool {
    !matches!(
        name,
        libc::IP_TTL
            | libc::IP_FREEBIND
            | libc::IP_TRANSPARENT
            | libc::IP_MULTICAST_TTL
            | libc::IP_MULTICAST_LOOP
    )
}

/// An option that the socket does not have, in a `getsockopt`.
fn unknown(of: Of, level: c_int) -> io::Error {
    let has_level = match of {
        Of::Tcp { v6: true } | Of::Udp { v6: true } => true,
        Of::Tcp { .. } => [libc::SOL_SOCKET, libc::IPPROTO_IP, libc::IPPROTO_TCP].contains(&level),
        Of::Udp { .. } => [libc::SOL_SOCKET, libc::IPPROTO_IP, libc::SOL_UDP].contains(&level),
        Of::Unix => level == libc::SOL_SOCKET,
    };
    os(if has_level {
        libc::ENOPROTOOPT
    } else {
        libc::EOPNOTSUPP
    })
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
    if let Err(error) = is_socket(fd) {
        return fails(number(&error));
    }
    if len.is_null() {
        return fails(libc::EFAULT);
    }
    // SAFETY: by the contract of libc.
    let room = unsafe { *len } as usize;
    if room > c_int::MAX as usize {
        return fails(libc::EINVAL);
    }
    let structure = structure(fd, level, name).map(Ok);
    let known = structure.or_else(|| text(fd, level, name, room));
    let value = known.unwrap_or_else(|| match unix::of(fd) {
        Some(id) => unix::option(fd, id, level, name),
        None => on_socket(fd, |world, of, id| {
            let file = world.files.get(fd)?;
            let asked = file.asks.get(level, name);
            let asked = asked.filter(|_| matches!(of, Of::Udp { .. }));
            match get(world, of, id, level, name) {
                Err(error) => {
                    let kept = || world.files.get(fd).ok()?.kept.get(of, level, name);
                    asked.or_else(kept).map(Value::Number).ok_or(error)
                }
                known => known,
            }
        }),
    });
    match value {
        Ok(value) => {
            // SAFETY: by the contract of libc.
            unsafe {
                match value {
                    Value::Number(value) => put(&value, out, len),
                    Value::Linger(value) => put(&value, out, len),
                    Value::Time(value) => put(&value, out, len),
                    Value::Credentials(value) => put(&value, out, len),
                    Value::Info(value) => put(&*value, out, len),
                    Value::Cookie(value) => put(&value, out, len),
                    Value::Text(text) => put_all(&text, out, len),
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
    // SAFETY: by contract, and a value has so many bytes.
    unsafe {
        let bytes = slice::from_raw_parts(ptr::from_ref(value).cast(), mem::size_of::<T>());
        put_all(bytes, out, len);
    }
}

/// # Safety
///
/// - As [`put`].
unsafe fn put_all(bytes: &[u8], out: *mut c_void, len: *mut socklen_t) {
    // SAFETY: by contract; no more is copied than there is, and than there is room for.
    unsafe {
        let room = bytes.len().min(*len as usize);
        ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), room);
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
    if let Err(error) = is_socket(fd) {
        return fails(number(&error));
    }
    let len = len as usize;
    if len > c_int::MAX as usize {
        return fails(libc::EINVAL);
    }
    // SAFETY: by the contract of libc.
    if let Some(set) = unsafe { set_structure(fd, (level, name), value, len) } {
        return answer(set);
    }
    // SAFETY: by the contract of libc.
    if let Some(set) = unsafe { set_text(fd, (level, name), value, len) } {
        return answer(set);
    }
    if let Some(id) = unix::of(fd) {
        let value = match len {
            // SAFETY: by the contract of libc, and it is long enough.
            4.. => unsafe { ptr::read_unaligned(value.cast::<c_int>()) },
            _ => return fails(libc::EINVAL),
        };
        return answer(unix::set_option(fd, id, (level, name), value));
    }
    answer(on_socket(fd, |world, of, id| {
        let value = match len {
            // SAFETY: by the contract of libc, and it is long enough.
            4.. => unsafe { ptr::read_unaligned(value.cast::<c_int>()) },
            // An option of IP may be one byte.
            1.. if level == libc::IPPROTO_IP => {
                // SAFETY: as above.
                c_int::from(unsafe { ptr::read(value.cast::<u8>()) })
            }
            0 if level == libc::IPPROTO_IP && may_be_empty(name) => 0,
            _ => return Err(os(libc::EINVAL)),
        };
        let file = world.files.get(fd)?;
        let is_udp = matches!(of, Of::Udp { .. });
        if is_udp && let Some(set) = file.asks.set(level, name, value) {
            return set;
        }
        match set(world, of, id, (level, name), value) {
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
                let kept = world.files.get(fd)?.kept.set(of, level, name, value);
                kept.unwrap_or(Err(error))
            }
            known => known,
        }
    }))
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] =
    &[getsockopt as *const c_void, setsockopt as *const c_void];
