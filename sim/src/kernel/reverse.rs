//! Names of addresses; and the older functions for names, which are refused.
//!
//! In a host, `getnameinfo` knows the simulated hosts and `localhost`. It gives ports as numbers.
//! `gethostbyname` and its kin would ask the machine's resolver, which knows none of them.
#![allow(unsafe_code)]

use std::ptr;

use libc::{c_char, c_int, c_void, hostent, sockaddr, socklen_t};

use super::{addr, system::system, unsupported::refused};
use crate::world;

/// Writes a text with its NUL, if there is room.
///
/// # Safety
///
/// - `out` is null, or valid for writes of `room` bytes.
unsafe fn put(text: &str, out: *mut c_char, room: socklen_t) -> Result<(), c_int> {
    if out.is_null() || room == 0 {
        return Ok(());
    }
    if text.len() >= room as usize {
        return Err(libc::EAI_OVERFLOW);
    }
    // SAFETY: by contract there is room for the text and its NUL.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len());
        *out.add(text.len()) = 0;
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getnameinfo(
    at: *const sockaddr,
    len: socklen_t,
    node: *mut c_char,
    node_room: socklen_t,
    service: *mut c_char,
    service_room: socklen_t,
    flags: c_int,
) -> c_int {
    if world::current_host().is_none() {
        let system = system!(getnameinfo: fn(
            *const sockaddr, socklen_t, *mut c_char, socklen_t, *mut c_char, socklen_t, c_int
        ) -> c_int);
        // SAFETY: by the contract of libc.
        return unsafe { system(at, len, node, node_room, service, service_room, flags) };
    }
    // SAFETY: by the contract of libc.
    let Some(at) = unsafe { addr::read(at, len) }
        .ok()
        .and_then(|given| given.inet())
    else {
        return libc::EAI_FAMILY;
    };
    let known = (flags & libc::NI_NUMERICHOST == 0)
        .then(|| world::with(|world| world.net.name_of(at.ip()).map(str::to_owned)))
        .flatten()
        .flatten();
    if known.is_none() && flags & libc::NI_NAMEREQD != 0 {
        return libc::EAI_NONAME;
    }
    let name = known.unwrap_or_else(|| at.ip().to_string());
    // SAFETY: by the contract of libc.
    let written = unsafe {
        put(&name, node, node_room)
            .and_then(|()| put(&at.port().to_string(), service, service_room))
    };
    written.err().unwrap_or(0)
}

refused! {
    OLDER, "use getaddrinfo or getnameinfo, which know the hosts";
    gethostbyname(name: *const c_char) -> *mut hostent = libc::ENOSYS;
    gethostbyname2(name: *const c_char, family: c_int) -> *mut hostent = libc::ENOSYS;
    gethostbyaddr(at: *const c_void, len: socklen_t, family: c_int) -> *mut hostent
        = libc::ENOSYS;
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PARTS: [&[*const c_void]; 2] = [&[getnameinfo as *const c_void], OLDER];
