//! Messages: `sendmsg` and `recvmsg`, for one and for many, with control messages.
//!
//! A control message says about a datagram what is in its header and not in its data:
//!
//! | option that asks for it | control message of a receive | of a send |
//! | --- | --- | --- |
//! | `IP_RECVTOS`, `IPV6_RECVTCLASS` | the type of service, with the bits of ECN | the same |
//! | `IP_PKTINFO`, `IPV6_RECVPKTINFO` | the address that it was sent to | the sender's address |
//! | `UDP_SEGMENT` | | the data are datagrams of this length |
//! | `UDP_GRO` | never: each datagram comes alone | |
//!
//! As in Linux, a socket of IPv6 is told of a datagram of IPv4 by the messages of IPv4, and of its
//! address also by that of IPv6.
//!
//! With a message of a Unix socket descriptors may travel (`SCM_RIGHTS`). A file has one descriptor
//! more while it is on its way. Any other control message of a send is `EINVAL`.
#![allow(unsafe_code)]

use std::{
    io, mem,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    ptr,
};

use libc::{
    c_int, c_uint, c_void, cmsghdr, in_pktinfo, in6_pktinfo, mmsghdr, msghdr, ssize_t, timespec,
};

use super::{
    is_ours,
    system::call,
    transfer::{To, entries, receive, send_all},
    transferred,
};
use crate::{
    error::os,
    network::{Arrival, Departure, SocketId},
    unix::FileKey,
    world::{self, World},
};

/// Segments of one send at most: `UDP_MAX_SEGMENTS` of Linux.
const SEGMENTS: usize = 64;
/// Descriptors of one message at most: `SCM_MAX_FD`.
const RIGHTS: usize = 253;

/// What the options of a socket say about messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asks {
    tos: c_int,
    class: c_int,
    segment: c_int,
    receive_tos: bool,
    receive_class: bool,
    info: bool,
    info_v6: bool,
    group: bool,
}

impl Asks {
    pub(super) fn get(&self, level: c_int, name: c_int) -> Option<c_int> {
        Some(match (level, name) {
            (libc::IPPROTO_IP, libc::IP_TOS) => self.tos,
            (libc::IPPROTO_IP, libc::IP_RECVTOS) => self.receive_tos.into(),
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => self.info.into(),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => self.class,
            (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => self.receive_class.into(),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => self.info_v6.into(),
            (libc::SOL_UDP, libc::UDP_SEGMENT) => self.segment,
            (libc::SOL_UDP, libc::UDP_GRO) => self.group.into(),
            _ => return None,
        })
    }

    /// Sets an option. None if it is none of these.
    pub(super) fn set(&mut self, level: c_int, name: c_int, to: c_int) -> Option<io::Result<()>> {
        let on = to != 0;
        match (level, name) {
            (libc::IPPROTO_IP, libc::IP_TOS) => self.tos = to & 0xff,
            (libc::IPPROTO_IP, libc::IP_RECVTOS) => self.receive_tos = on,
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => self.info = on,
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) if !(-1..=0xff).contains(&to) => {
                return Some(Err(os(libc::EINVAL)));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => self.class = to.max(0),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => self.receive_class = on,
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => self.info_v6 = on,
            (libc::SOL_UDP, libc::UDP_SEGMENT) if !(0..=0xffff).contains(&to) => {
                return Some(Err(os(libc::EINVAL)));
            }
            (libc::SOL_UDP, libc::UDP_SEGMENT) => self.segment = to,
            (libc::SOL_UDP, libc::UDP_GRO) => self.group = on,
            _ => return None,
        }
        Some(Ok(()))
    }
}

// --- sending ---

/// What the control messages of a send say.
#[derive(Debug, Default)]
pub(super) struct Sending {
    tos: Option<u8>,
    class: Option<u8>,
    from: Option<IpAddr>,
    segment: Option<usize>,
    descriptors: Vec<c_int>,
}

impl Sending {
    /// Descriptors that travel with the message.
    pub(super) fn descriptors(&self) -> &[c_int] {
        &self.descriptors
    }

    /// # Safety
    ///
    /// - The control messages of `message` are as `sendmsg` takes them.
    unsafe fn read(message: &msghdr) -> io::Result<Self> {
        let mut all = Self::default();
        // SAFETY: by contract; a null pointer has no messages.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
        while !next.is_null() {
            // SAFETY: by contract.
            let header = unsafe { ptr::read_unaligned(next) };
            let before = next.addr() - message.msg_control.addr();
            // The types of both lengths depend on the C library.
            let (len, whole): (usize, usize) = (header.cmsg_len as _, message.msg_controllen as _);
            if len > whole - before {
                return Err(os(libc::EINVAL));
            }
            // SAFETY: by contract, and it is no longer than the header says.
            unsafe { all.take(&header, libc::CMSG_DATA(next)) }.ok_or_else(|| os(libc::EINVAL))?;
            // SAFETY: by contract.
            next = unsafe { libc::CMSG_NXTHDR(message, next) };
        }
        Ok(all)
    }

    /// None if it is unknown, too short, or out of its range.
    ///
    /// # Safety
    ///
    /// - `data` is valid for reads of what the header says.
    unsafe fn take(&mut self, header: &cmsghdr, data: *const u8) -> Option<()> {
        // SAFETY: it is arithmetic.
        let before = unsafe { libc::CMSG_LEN(0) } as usize;
        let whole: usize = header.cmsg_len as _;
        let len = whole.checked_sub(before)?;
        match (header.cmsg_level, header.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_TOS) if len == 1 => {
                // SAFETY: by contract, and it is long enough.
                self.tos = Some(unsafe { *data });
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                // SAFETY: by contract.
                let tos = unsafe { value::<c_int>(data, len) }?;
                self.tos = Some(tos.try_into().ok()?);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // SAFETY: by contract.
                let class = unsafe { value::<c_int>(data, len) }?;
                // Linux takes -1 here, and sends 255.
                self.class = Some((-1..=0xff).contains(&class).then_some(class as u8)?);
            }
            (libc::SOL_UDP, libc::UDP_SEGMENT) => {
                // SAFETY: by contract.
                self.segment = Some(unsafe { value::<u16>(data, len) }?.into());
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // SAFETY: by contract.
                let info = unsafe { value::<in_pktinfo>(data, len) }?;
                let own = IpAddr::V4(u32::from_be(info.ipi_spec_dst.s_addr).into());
                self.from = Some(own).filter(|own| !own.is_unspecified());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                // SAFETY: by contract.
                let info = unsafe { value::<in6_pktinfo>(data, len) }?;
                let own = IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr)).to_canonical();
                self.from = Some(own).filter(|own| !own.is_unspecified());
            }
            (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                let count = len / mem::size_of::<c_int>();
                if self.descriptors.len() + count > RIGHTS {
                    return None;
                }
                // SAFETY: by contract.
                let numbers = (0..count)
                    .map(|place| unsafe { ptr::read_unaligned(data.cast::<c_int>().add(place)) });
                self.descriptors.extend(numbers);
            }
            _ => return None,
        }
        Some(())
    }

    /// Sends one datagram, or the segments that the data are.
    pub(super) fn send(
        &self,
        world: &mut World,
        (fd, id): (c_int, SocketId),
        data: &[u8],
        (to, more): (Option<SocketAddr>, bool),
    ) -> io::Result<usize> {
        let asks = world.files.get(fd)?.asks;
        let peer = to.map_or_else(|| world.net.peer_addr(id), Ok);
        let is_v4 = peer.is_ok_and(|peer| peer.ip().to_canonical().is_ipv4());
        let tos = if is_v4 {
            self.tos.unwrap_or(asks.tos as u8)
        } else {
            self.class.unwrap_or(asks.class as u8)
        };
        let v6 = world.net.is_v6(id)?;
        let how = Departure {
            to,
            from: self.from,
            tos,
            more,
            follows: false,
            whole: world.files.get(fd)?.kept.is_whole(v6, !is_v4),
        };
        let segment = self.segment.unwrap_or(asks.segment as usize);
        if segment == 0 || data.len() <= segment {
            return world.net.send_message(id, data, how);
        }
        if data.len().div_ceil(segment) > SEGMENTS {
            return Err(os(libc::EINVAL));
        }
        for (place, part) in data.chunks(segment).enumerate() {
            let follows = place > 0;
            world
                .net
                .send_message(id, part, Departure { follows, ..how })?;
        }
        Ok(data.len())
    }
}

/// # Safety
///
/// - `data` is valid for reads of `len` bytes, and any bytes are a `T`.
unsafe fn value<T>(data: *const u8, len: usize) -> Option<T> {
    // SAFETY: by contract, and it is long enough.
    (len >= mem::size_of::<T>()).then(|| unsafe { ptr::read_unaligned(data.cast()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_sendmsg, fd, message, flags) as ssize_t };
    }
    // SAFETY: by the contract of libc.
    transferred(unsafe {
        let message = &*message;
        let to = To::read(fd, message.msg_name.cast(), message.msg_namelen);
        let control = Sending::read(message);
        to.and_then(|to| {
            let from = entries(message.msg_iov, message.msg_iovlen as _)?;
            send_all(fd, from, flags, to, &control?)
        })
    })
}

/// How many of the messages were done; an error only if it was the first.
fn many(count: c_uint, mut one: impl FnMut(usize) -> ssize_t) -> c_int {
    for place in 0..count as usize {
        if one(place) < 0 {
            return if place == 0 { -1 } else { place as c_int };
        }
    }
    count as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmmsg(fd: c_int, all: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_sendmmsg, fd, all, count, flags) as c_int };
    }
    // SAFETY: by the contract of libc there are so many.
    many(count, |place| unsafe {
        let one = &mut *all.add(place);
        let sent = sendmsg(fd, &raw const one.msg_hdr, flags);
        one.msg_len = sent as c_uint;
        sent
    })
}

// --- receiving ---

/// Writes control messages one after the other, as long as there is room.
struct Control {
    at: *mut u8,
    room: usize,
    used: usize,
    is_cut: bool,
}

impl Control {
    /// # Safety
    ///
    /// - `at` is valid for writes of `room` bytes, and `T` is plain data.
    unsafe fn put<T>(&mut self, level: c_int, kind: c_int, value: &T) {
        // SAFETY: by contract.
        unsafe { self.put_all(level, kind, std::slice::from_ref(value)) };
    }

    /// # Safety
    ///
    /// - As [`put`](Self::put).
    unsafe fn put_all<T>(&mut self, level: c_int, kind: c_int, values: &[T]) {
        let size = mem::size_of_val(values);
        // SAFETY: it is arithmetic.
        let (len, space) = unsafe {
            (
                libc::CMSG_LEN(size as c_uint),
                libc::CMSG_SPACE(size as c_uint),
            )
        };
        if self.used + len as usize > self.room {
            self.is_cut = true;
            return;
        }
        // SAFETY: it is plain data, and zero is a value of each field.
        let mut header: cmsghdr = unsafe { mem::zeroed() };
        header.cmsg_len = len as _;
        (header.cmsg_level, header.cmsg_type) = (level, kind);
        // SAFETY: by contract, and there is room for both.
        unsafe {
            let place = self.at.add(self.used);
            ptr::write_unaligned(place.cast(), header);
            let place = place.add(libc::CMSG_LEN(0) as usize);
            ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), place, size);
        }
        self.used = (self.used + space as usize).min(self.room);
    }

    /// # Safety
    ///
    /// - As [`put`](Self::put).
    unsafe fn put_arrival(&mut self, asks: Asks, is_v6: bool, arrival: Arrival) {
        let index = if arrival.to.is_loopback() { 1 } else { 2 };
        // SAFETY: by contract.
        unsafe {
            if asks.info_v6 && is_v6 {
                let to = match arrival.to {
                    IpAddr::V4(to) => to.to_ipv6_mapped(),
                    IpAddr::V6(to) => to,
                };
                let mut info: in6_pktinfo = mem::zeroed();
                info.ipi6_addr.s6_addr = to.octets();
                info.ipi6_ifindex = index as _;
                self.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            match arrival.to {
                IpAddr::V4(to) => {
                    if asks.info {
                        let mut info: in_pktinfo = mem::zeroed();
                        info.ipi_ifindex = index;
                        info.ipi_addr.s_addr = u32::from(to).to_be();
                        info.ipi_spec_dst.s_addr = u32::from(to).to_be();
                        self.put(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
                    }
                    if asks.receive_tos {
                        self.put(libc::IPPROTO_IP, libc::IP_TOS, &arrival.tos);
                    }
                }
                IpAddr::V6(_) if asks.receive_class => {
                    let class = c_int::from(arrival.tos);
                    self.put(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class);
                }
                IpAddr::V6(_) => {}
            }
        }
    }
}

impl Control {
    /// Gives the files that came with a message numbers, as many as there is room for.
    ///
    /// # Safety
    ///
    /// - `self.at` is valid for writes of `self.room` bytes.
    unsafe fn put_rights(&mut self, rights: Vec<FileKey>, closes_on_exec: bool) {
        // SAFETY: it is arithmetic.
        let before = unsafe { libc::CMSG_LEN(0) } as usize;
        let room = self.room.saturating_sub(self.used + before) / mem::size_of::<c_int>();
        let numbers = world::with(|world| {
            let mut numbers = Vec::new();
            for &file in &rights {
                if numbers.len() == room || world.files.have_room(1).is_err() {
                    break;
                }
                numbers.push(world.files.number(file, closes_on_exec));
            }
            // They have their own count now, if they have a number.
            world.release(rights.iter().copied());
            numbers
        });
        let numbers = numbers.unwrap_or_default();
        self.is_cut |= numbers.len() < rights.len();
        if !numbers.is_empty() {
            // SAFETY: by contract; the numbers are plain data, and there is room for them.
            unsafe { self.put_all(libc::SOL_SOCKET, libc::SCM_RIGHTS, &numbers) };
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_recvmsg, fd, message, flags) as ssize_t };
    }
    // SAFETY: by the contract of libc.
    let message = unsafe { &mut *message };
    // SAFETY: by the contract of libc.
    let received = unsafe {
        let into = entries(message.msg_iov, message.msg_iovlen as _);
        into.and_then(|into| receive(fd, into, flags))
    };
    transferred(received.map(|received| {
        let mut control = Control {
            at: message.msg_control.cast(),
            room: message.msg_controllen as _,
            used: 0,
            is_cut: false,
        };
        if let Some(arrival) = received.arrival {
            let asks = world::with(|world| Some(world.files.get(fd).ok()?.asks)).flatten();
            let is_v6 = arrival.from.is_ipv6();
            // SAFETY: by the contract of libc.
            unsafe { control.put_arrival(asks.unwrap_or_default(), is_v6, arrival) };
        }
        if !received.rights.is_empty() {
            let closes_on_exec = flags & libc::MSG_CMSG_CLOEXEC != 0;
            // SAFETY: by the contract of libc.
            unsafe { control.put_rights(received.rights, closes_on_exec) };
        }
        // SAFETY: by the contract of libc.
        unsafe {
            let len = &raw mut message.msg_namelen;
            received.from.write(message.msg_name.cast(), len);
        }
        message.msg_controllen = control.used as _;
        let cut = if received.is_cut { libc::MSG_TRUNC } else { 0 };
        message.msg_flags = cut | if control.is_cut { libc::MSG_CTRUNC } else { 0 };
        received.len
    }))
}

/// A time to wait has no meaning here: what would wait answers at once.
#[unsafe(no_mangle)]
unsafe extern "C" fn recvmmsg(
    fd: c_int,
    all: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    time: *mut timespec,
) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_recvmmsg, fd, all, count, flags, time) as c_int };
    }
    let flags = flags & !libc::MSG_WAITFORONE;
    // SAFETY: by the contract of libc there are so many.
    many(count, |place| unsafe {
        let one = &mut *all.add(place);
        let got = recvmsg(fd, &raw mut one.msg_hdr, flags);
        one.msg_len = got as c_uint;
        got
    })
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    sendmsg as *const c_void,
    sendmmsg as *const c_void,
    recvmsg as *const c_void,
    recvmmsg as *const c_void,
];

#[cfg(test)]
mod tests {
    use std::{
        io::IoSlice,
        os::{fd::AsRawFd, unix::net::UnixDatagram},
    };

    use super::*;
    use crate::{Sim, secs};

    // Nothing else shows them: programs of a crashed host are gone.
    #[test]
    fn a_crash_closes_files_that_are_on_their_way() {
        let sim = Sim::new(1);
        sim.host("host", || async {
            let (from, _to) = UnixDatagram::pair().unwrap();
            let mut part = IoSlice::new(b"x");
            let mut room = [0_u64; 8];
            let number = from.as_raw_fd();
            // SAFETY: it is plain data, and each buffer is as long as the message says.
            let sent = unsafe {
                let mut message: msghdr = mem::zeroed();
                message.msg_iov = (&raw mut part).cast();
                message.msg_iovlen = 1;
                message.msg_control = room.as_mut_ptr().cast();
                message.msg_controllen = libc::CMSG_SPACE(4) as _;
                let header = libc::CMSG_FIRSTHDR(&message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(4) as _;
                ptr::write_unaligned(libc::CMSG_DATA(header).cast(), number);
                sendmsg(number, &message, 0)
            };
            assert_eq!(sent, 1);
            std::future::pending::<()>().await;
        });
        sim.client("client", async { ws::time::sleep(secs(3)).await });
        let open = |host| {
            let its = |world: &mut World| world.files.of_host(host);
            world::with(its).expect("a simulation runs")
        };
        sim.after(secs(1), move |sim| {
            assert!(open(0) > 2);
            sim.crash("host");
            sim.after(secs(1), move |_| assert_eq!(open(0), 0));
        });
        sim.try_run().unwrap();
    }
}
