//! Socket addresses as libc has them.
#![allow(unsafe_code)]

use std::{
    io, mem,
    net::{Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    ptr,
};

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::error::os;

/// More bytes than this are no address: `sockaddr_storage`.
const LONGEST: usize = 128;
/// The shortest address of IPv6: `SIN6_LEN_RFC2133`.
const SHORTEST_V6: usize = 24;

/// An address as a program gives it. What it means depends on the call and on the socket.
pub(super) struct Given {
    /// Zero beyond its length.
    bytes: [u8; mem::size_of::<sockaddr_in6>()],
    len: usize,
}

/// Reads an address.
///
/// # Safety
///
/// - `addr` is null, or valid for reads of `len` bytes.
pub(super) unsafe fn read(addr: *const sockaddr, len: socklen_t) -> io::Result<Given> {
    let len = len as usize;
    if len > LONGEST {
        return Err(os(libc::EINVAL));
    }
    if addr.is_null() && len > 0 {
        return Err(os(libc::EFAULT));
    }
    let mut bytes = [0; mem::size_of::<sockaddr_in6>()];
    if len > 0 {
        // SAFETY: by contract; no more is copied than there is room for.
        unsafe { ptr::copy_nonoverlapping(addr.cast(), bytes.as_mut_ptr(), len.min(bytes.len())) };
    }
    Ok(Given { bytes, len })
}

impl Given {
    /// None if it is too short to have one.
    fn family(&self) -> Option<c_int> {
        let family = libc::sa_family_t::from_ne_bytes([self.bytes[0], self.bytes[1]]);
        (self.len >= mem::size_of::<libc::sa_family_t>()).then(|| family.into())
    }

    pub(super) fn is_unspecified(&self) -> bool {
        self.family() == Some(libc::AF_UNSPEC)
    }

    fn v4(&self) -> io::Result<SocketAddr> {
        if self.len < mem::size_of::<sockaddr_in>() {
            return Err(os(libc::EINVAL));
        }
        // SAFETY: it is plain data, and there are enough bytes.
        let addr = unsafe { ptr::read_unaligned(self.bytes.as_ptr().cast::<sockaddr_in>()) };
        let ip = u32::from_be(addr.sin_addr.s_addr).into();
        Ok(SocketAddrV4::new(ip, u16::from_be(addr.sin_port)).into())
    }

    fn v6(&self) -> io::Result<SocketAddr> {
        if self.len < SHORTEST_V6 {
            return Err(os(libc::EINVAL));
        }
        // SAFETY: as above.
        let addr = unsafe { ptr::read_unaligned(self.bytes.as_ptr().cast::<sockaddr_in6>()) };
        let ip = Ipv6Addr::from(addr.sin6_addr.s6_addr);
        let port = u16::from_be(addr.sin6_port);
        Ok(SocketAddrV6::new(ip, port, addr.sin6_flowinfo, addr.sin6_scope_id).into())
    }

    /// Whatever it is an address of. None if it is none of IP.
    pub(super) fn inet(&self) -> Option<SocketAddr> {
        match self.family()? {
            libc::AF_INET => self.v4().ok(),
            libc::AF_INET6 => self.v6().ok(),
            _ => None,
        }
    }

    /// As `inet_bind` and `inet6_bind` take it.
    pub(super) fn to_bind(&self, v6: bool) -> io::Result<SocketAddr> {
        let addr = if v6 { self.v6() } else { self.v4() }?;
        match self.family() {
            Some(libc::AF_INET6) if v6 => Ok(addr),
            Some(libc::AF_INET) if !v6 => Ok(addr),
            Some(libc::AF_UNSPEC) if !v6 && addr.ip().is_unspecified() => Ok(addr),
            _ => Err(os(libc::EAFNOSUPPORT)),
        }
    }

    /// As `connect` takes it, if it is not [unspecified](Self::is_unspecified).
    pub(super) fn to_connect(&self, v6: bool, is_tcp: bool) -> io::Result<SocketAddr> {
        match self.family() {
            None => Err(os(libc::EINVAL)),
            Some(libc::AF_INET) if !v6 || !is_tcp => self.v4(),
            family => {
                let addr = if v6 { self.v6() } else { self.v4() }?;
                match family {
                    Some(libc::AF_INET6) if v6 => Ok(addr),
                    _ => Err(os(libc::EAFNOSUPPORT)),
                }
            }
        }
    }

    /// As a send of a datagram takes it. None is no address.
    pub(super) fn to_send(&self, v6: bool) -> io::Result<Option<SocketAddr>> {
        match self.family() {
            Some(libc::AF_INET6) if v6 => self.v6().map(Some),
            Some(libc::AF_UNSPEC) if v6 => Ok(None),
            Some(libc::AF_INET) => self.v4().map(Some),
            _ if v6 => Err(os(libc::EINVAL)),
            // As in Linux, it is taken for one of IPv4.
            Some(libc::AF_UNSPEC) => self.v4().map(Some),
            _ => self.v4().and(Err(os(libc::EAFNOSUPPORT))),
        }
    }
}

/// Writes an address, as much of it as there is room for, and its whole length.
///
/// # Safety
///
/// - `len` is null, or valid for reads and writes, and `out` is valid for writes of `*len` bytes.
pub(super) unsafe fn write(addr: SocketAddr, out: *mut sockaddr, len: *mut socklen_t) {
    if out.is_null() || len.is_null() {
        return;
    }
    match addr {
        SocketAddr::V4(addr) => {
            // SAFETY: it is plain data, and zero is a value of each field.
            let mut raw: sockaddr_in = unsafe { mem::zeroed() };
            raw.sin_family = libc::AF_INET as libc::sa_family_t;
            raw.sin_port = addr.port().to_be();
            raw.sin_addr.s_addr = u32::from(*addr.ip()).to_be();
            // SAFETY: by contract.
            unsafe { put(&raw, out, len) };
        }
        SocketAddr::V6(addr) => {
            // SAFETY: as above.
            let mut raw: sockaddr_in6 = unsafe { mem::zeroed() };
            raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            raw.sin6_port = addr.port().to_be();
            raw.sin6_addr.s6_addr = addr.ip().octets();
            raw.sin6_flowinfo = addr.flowinfo();
            raw.sin6_scope_id = addr.scope_id();
            // SAFETY: by contract.
            unsafe { put(&raw, out, len) };
        }
    }
}

/// # Safety
///
/// - `len` is valid for reads and writes, and `out` for writes of `*len` bytes.
unsafe fn put<T>(raw: &T, out: *mut sockaddr, len: *mut socklen_t) {
    let whole = mem::size_of::<T>();
    // SAFETY: by contract; no more is copied than there is, and than there is room for.
    unsafe {
        let room = whole.min(*len as usize);
        ptr::copy_nonoverlapping(ptr::from_ref(raw).cast::<u8>(), out.cast::<u8>(), room);
        *len = whole as socklen_t;
    }
}
