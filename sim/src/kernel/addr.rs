//! Socket addresses as libc has them.
#![allow(unsafe_code)]

use std::{
    io, mem,
    net::{Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    ptr,
};

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

/// Reads an address.
///
/// # Safety
///
/// - `addr` is valid for reads of `len` bytes.
pub(super) unsafe fn read(addr: *const sockaddr, len: socklen_t) -> io::Result<SocketAddr> {
    let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
    let len = len as usize;
    if addr.is_null() || len < mem::size_of::<libc::sa_family_t>() {
        return Err(invalid());
    }
    // SAFETY: by contract, and it is long enough for that field.
    let family = unsafe { ptr::read_unaligned(&raw const (*addr).sa_family) };
    match c_int::from(family) {
        libc::AF_INET if len >= mem::size_of::<sockaddr_in>() => {
            // SAFETY: by contract, and it is long enough.
            let addr = unsafe { ptr::read_unaligned(addr.cast::<sockaddr_in>()) };
            let ip = u32::from_be(addr.sin_addr.s_addr).into();
            Ok(SocketAddrV4::new(ip, u16::from_be(addr.sin_port)).into())
        }
        libc::AF_INET6 if len >= mem::size_of::<sockaddr_in6>() => {
            // SAFETY: as above.
            let addr = unsafe { ptr::read_unaligned(addr.cast::<sockaddr_in6>()) };
            let ip = Ipv6Addr::from(addr.sin6_addr.s6_addr);
            let port = u16::from_be(addr.sin6_port);
            Ok(SocketAddrV6::new(ip, port, addr.sin6_flowinfo, addr.sin6_scope_id).into())
        }
        libc::AF_INET | libc::AF_INET6 => Err(invalid()),
        _ => Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
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
