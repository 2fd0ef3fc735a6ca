//! Names of addresses; and the older functions for names, which are refused.
//!
//! In a host, `getnameinfo` knows the simulated hosts and `localhost`. It gives ports as numbers.
//! `gethostbyname`, `res_query` and their kin would ask the machine's resolver, which knows none of
//! them.
#![allow(unsafe_code)]

use std::ptr;

use libc::{c_char, c_int, c_void, hostent, size_t, sockaddr, socklen_t};

use super::{
    addr,
    system::system,
    unsupported::{in_host, refused},
};
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

/// What to do instead of the functions that are refused.
const INSTEAD: &str = "use getaddrinfo or getnameinfo, which know the hosts";

refused! {
    OLDER, INSTEAD;
    gethostbyname(name: *const c_char) -> *mut hostent = libc::ENOSYS;
    gethostbyname2(name: *const c_char, family: c_int) -> *mut hostent = libc::ENOSYS;
    gethostbyaddr(at: *const c_void, len: socklen_t, family: c_int) -> *mut hostent
        = libc::ENOSYS;
    getaddrinfo_a(mode: c_int, list: *mut c_void, count: c_int, event: *mut c_void) -> c_int
        = libc::ENOSYS;
}

/// Functions that give what they find, and their own error, to places. The last two arguments are
/// these.
macro_rules! into_places {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                $($argument: $type,)*
                found: *mut *mut hostent,
                error: *mut c_int,
            ) -> c_int {
                /// An error that no second try mends.
                const NO_RECOVERY: c_int = 3;

                if in_host(stringify!($name), INSTEAD) {
                    // SAFETY: by the contract of libc.
                    unsafe {
                        ptr::write(found, ptr::null_mut());
                        ptr::write(error, NO_RECOVERY);
                    }
                    return libc::ENOSYS;
                }
                let system = system!(
                    $name: fn($($type,)* *mut *mut hostent, *mut c_int) -> c_int
                );
                // SAFETY: by the contract of libc.
                unsafe { system($($argument,)* found, error) }
            }
        )*

        const INTO_PLACES: &[*const c_void] = &[$($name as *const c_void),*];
    };
}

into_places! {
    gethostbyname_r(name: *const c_char, out: *mut hostent, room: *mut c_char, len: size_t);
    gethostbyname2_r(name: *const c_char, family: c_int, out: *mut hostent, room: *mut c_char,
        len: size_t);
    gethostbyaddr_r(at: *const c_void, at_len: socklen_t, family: c_int, out: *mut hostent,
        room: *mut c_char, len: size_t);
}

// `resolv.h` of an older glibc has those with underscores in place of the others. Those with an `n`
// begin with a state.
refused! {
    QUERIES, INSTEAD;
    res_query(name: *const c_char, class: c_int, kind: c_int, out: *mut u8, len: c_int) -> c_int
        = libc::ENOSYS;
    res_search(name: *const c_char, class: c_int, kind: c_int, out: *mut u8, len: c_int) -> c_int
        = libc::ENOSYS;
    res_querydomain(name: *const c_char, domain: *const c_char, class: c_int, kind: c_int,
        out: *mut u8, len: c_int) -> c_int = libc::ENOSYS;
    res_send(ask: *const u8, ask_len: c_int, out: *mut u8, len: c_int) -> c_int = libc::ENOSYS;
    res_nquery(state: *mut c_void, name: *const c_char, class: c_int, kind: c_int, out: *mut u8,
        len: c_int) -> c_int = libc::ENOSYS;
    res_nsearch(state: *mut c_void, name: *const c_char, class: c_int, kind: c_int, out: *mut u8,
        len: c_int) -> c_int = libc::ENOSYS;
    res_nquerydomain(state: *mut c_void, name: *const c_char, domain: *const c_char,
        class: c_int, kind: c_int, out: *mut u8, len: c_int) -> c_int = libc::ENOSYS;
    res_nsend(state: *mut c_void, ask: *const u8, ask_len: c_int, out: *mut u8,
        len: c_int) -> c_int = libc::ENOSYS;
    __res_query(name: *const c_char, class: c_int, kind: c_int, out: *mut u8,
        len: c_int) -> c_int = libc::ENOSYS;
    __res_search(name: *const c_char, class: c_int, kind: c_int, out: *mut u8,
        len: c_int) -> c_int = libc::ENOSYS;
    __res_querydomain(name: *const c_char, domain: *const c_char, class: c_int, kind: c_int,
        out: *mut u8, len: c_int) -> c_int = libc::ENOSYS;
    __res_send(ask: *const u8, ask_len: c_int, out: *mut u8, len: c_int) -> c_int = libc::ENOSYS;
    __res_nquery(state: *mut c_void, name: *const c_char, class: c_int, kind: c_int,
        out: *mut u8, len: c_int) -> c_int = libc::ENOSYS;
    __res_nsearch(state: *mut c_void, name: *const c_char, class: c_int, kind: c_int,
        out: *mut u8, len: c_int) -> c_int = libc::ENOSYS;
    __res_nquerydomain(state: *mut c_void, name: *const c_char, domain: *const c_char,
        class: c_int, kind: c_int, out: *mut u8, len: c_int) -> c_int = libc::ENOSYS;
    __res_nsend(state: *mut c_void, ask: *const u8, ask_len: c_int, out: *mut u8,
        len: c_int) -> c_int = libc::ENOSYS;
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PARTS: [&[*const c_void]; 4] =
    [&[getnameinfo as *const c_void], OLDER, INTO_PLACES, QUERIES];
