//! Interfaces of a host: `lo`, and `eth0` with its two addresses.
//!
//! An answer of `getifaddrs` is a list of [`Entry`]s, each a box of its own. `freeifaddrs` tells
//! them from the system's by the table of those that are alive. Rejected: entries of `AF_PACKET`,
//! as Linux has them too. A host has no address of hardware.
#![allow(unsafe_code)]

use std::{
    ffi::CStr,
    mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ptr,
};

use libc::{c_char, c_int, c_uint, c_void, ifaddrs, sockaddr_storage, socklen_t};

use super::{addr, fails, lists::Lists, system::system};
use crate::world;

/// The names of the interfaces. The number of one is its place, counted from 1.
const NAMES: [&CStr; 2] = [c"lo", c"eth0"];

/// Whether a host has an interface of that name.
pub(super) fn is_interface(name: &[u8]) -> bool {
    NAMES.iter().any(|known| known.to_bytes() == name)
}

/// One address of an answer.
#[repr(C)]
struct Entry {
    /// The first field, so that a pointer to it is one to the entry.
    info: ifaddrs,
    addr: sockaddr_storage,
    mask: sockaddr_storage,
}

/// The addresses of the lists that are alive.
static ALIVE: Lists = Lists::new();

/// The mask of the network that an address is of: 10.0.0.0/8 and fd00::/8, and the loopback's.
fn mask(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::new(255, 0, 0, 0).into(),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Ipv6Addr::from(u128::MAX).into(),
        IpAddr::V6(_) => Ipv6Addr::from(0xff_u128 << 120).into(),
    }
}

fn stored(ip: IpAddr, into: &mut sockaddr_storage) {
    let mut len = mem::size_of::<sockaddr_storage>() as socklen_t;
    // SAFETY: there is room for any address.
    unsafe {
        addr::write(
            SocketAddr::new(ip, 0),
            ptr::from_mut(into).cast(),
            &raw mut len,
        );
    }
}

impl Entry {
    fn leak(ip: IpAddr, next: *mut ifaddrs) -> *mut ifaddrs {
        // SAFETY: it is plain data, and zero is a value of each field.
        let mut entry: Box<Self> = Box::new(unsafe { mem::zeroed() });
        stored(ip, &mut entry.addr);
        stored(mask(ip), &mut entry.mask);
        let kind = if ip.is_loopback() {
            libc::IFF_LOOPBACK
        } else {
            0
        };
        entry.info.ifa_flags = (libc::IFF_UP | libc::IFF_RUNNING | kind) as c_uint;
        // Nobody writes to it: its contract is that of a constant.
        entry.info.ifa_name = NAMES[usize::from(!ip.is_loopback())].as_ptr().cast_mut();
        entry.info.ifa_next = next;
        let entry = Box::into_raw(entry);
        // SAFETY: it was a box just now.
        unsafe {
            (*entry).info.ifa_addr = (&raw mut (*entry).addr).cast();
            (*entry).info.ifa_netmask = (&raw mut (*entry).mask).cast();
        }
        entry.cast()
    }
}

/// The addresses of the host that runs, with those of its loopback. None outside of a host.
fn addresses() -> Option<Vec<IpAddr>> {
    world::with_host(|world, host| {
        let id = world.hosts.get(host)?.id;
        let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let own = world.net.addresses(id).iter().copied();
        Some(loopback.into_iter().chain(own).collect())
    })
    .flatten()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getifaddrs(out: *mut *mut ifaddrs) -> c_int {
    let Some(all) = addresses() else {
        let system = system!(getifaddrs: fn(*mut *mut ifaddrs) -> c_int);
        // SAFETY: by the contract of libc.
        return unsafe { system(out) };
    };
    let mut list = ptr::null_mut();
    for ip in all.into_iter().rev() {
        list = Entry::leak(ip, list);
        ALIVE.add(list);
    }
    // SAFETY: by the contract of libc.
    unsafe { ptr::write(out, list) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn freeifaddrs(list: *mut ifaddrs) {
    let mut next = list;
    while !next.is_null() {
        if !ALIVE.remove(next) {
            // A list is all ours or all the system's.
            let system = system!(freeifaddrs: fn(*mut ifaddrs) -> ());
            // SAFETY: by the contract of libc.
            return unsafe { system(next) };
        }
        // SAFETY: it came from `Entry::leak`, and is not alive any more.
        let entry = unsafe { Box::from_raw(next.cast::<Entry>()) };
        next = entry.info.ifa_next;
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn if_nametoindex(name: *const c_char) -> c_uint {
    if world::current_host().is_none() {
        let system = system!(if_nametoindex: fn(*const c_char) -> c_uint);
        // SAFETY: by the contract of libc.
        return unsafe { system(name) };
    }
    // SAFETY: by the contract of libc.
    let name = unsafe { CStr::from_ptr(name) };
    match NAMES.iter().position(|known| *known == name) {
        Some(place) => place as c_uint + 1,
        None => {
            fails(libc::ENODEV);
            0
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn if_indextoname(number: c_uint, out: *mut c_char) -> *mut c_char {
    if world::current_host().is_none() {
        let system = system!(if_indextoname: fn(c_uint, *mut c_char) -> *mut c_char);
        // SAFETY: by the contract of libc.
        return unsafe { system(number, out) };
    }
    let place = (number as usize).checked_sub(1);
    let Some(name) = place.and_then(|place| NAMES.get(place)) else {
        fails(libc::ENXIO);
        return ptr::null_mut();
    };
    // SAFETY: by the contract of libc there is room for 16 bytes.
    unsafe { ptr::copy_nonoverlapping(name.as_ptr(), out, name.count_bytes() + 1) };
    out
}

/// The names with their numbers, as `if_nameindex` gives them. The last entry is zero.
struct Numbers([libc::if_nameindex; NAMES.len() + 1]);

#[unsafe(no_mangle)]
unsafe extern "C" fn if_nameindex() -> *mut libc::if_nameindex {
    if world::current_host().is_none() {
        let system = system!(if_nameindex: fn() -> *mut libc::if_nameindex);
        // SAFETY: it takes nothing.
        return unsafe { system() };
    }
    // SAFETY: plain data, and zero is a value of each field.
    let mut numbers: Box<Numbers> = Box::new(unsafe { mem::zeroed() });
    for (place, (entry, name)) in numbers.0.iter_mut().zip(NAMES).enumerate() {
        entry.if_index = place as c_uint + 1;
        // Nobody writes to it: its contract is that of a constant.
        entry.if_name = name.as_ptr().cast_mut();
    }
    let list = Box::into_raw(numbers).cast();
    ALIVE.add(list);
    list
}

#[unsafe(no_mangle)]
unsafe extern "C" fn if_freenameindex(list: *mut libc::if_nameindex) {
    if ALIVE.remove(list) {
        // SAFETY: it came from `if_nameindex`, and is not alive any more.
        drop(unsafe { Box::from_raw(list.cast::<Numbers>()) });
        return;
    }
    let system = system!(if_freenameindex: fn(*mut libc::if_nameindex) -> ());
    // SAFETY: by the contract of libc.
    unsafe { system(list) }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    getifaddrs as *const c_void,
    freeifaddrs as *const c_void,
    if_nametoindex as *const c_void,
    if_indextoname as *const c_void,
    if_nameindex as *const c_void,
    if_freenameindex as *const c_void,
];
