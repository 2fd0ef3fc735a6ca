//! The memory of a host's machine, its load, and how long it runs.
//!
//! A program sizes its caches by them. With the machine's, two runs of a seed would differ. So a
//! host always has the same memory, half of it free, and no load. It was started when its monotonic
//! clock was zero.
#![allow(unsafe_code)]

use std::ptr;

use libc::{c_double, c_int, c_long, c_void};

use super::{
    clock::{SECOND, read},
    system::{call, system},
};
use crate::world;

/// Bytes of memory.
pub(super) const TOTAL: u64 = 8 << 30;
pub(super) const FREE: u64 = TOTAL / 2;

/// Programs that run.
const PROCESSES: u16 = 1;

/// Loads that the system tells.
const LOADS: usize = 3;

/// As many pages as so many bytes take.
pub(super) fn pages(bytes: u64) -> c_long {
    // SAFETY: it takes no pointers.
    bytes as c_long / unsafe { libc::sysconf(libc::_SC_PAGESIZE) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sysinfo(out: *mut libc::sysinfo) -> c_int {
    let Some(shown) = read(libc::CLOCK_BOOTTIME) else {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_sysinfo, out) as c_int };
    };
    // SAFETY: by the contract of libc. All bytes of it may be nought.
    unsafe {
        ptr::write_bytes(out, 0, 1);
        (*out).uptime = shown.div_ceil(SECOND) as _;
        ((*out).totalram, (*out).freeram) = (TOTAL, FREE);
        ((*out).procs, (*out).mem_unit) = (PROCESSES, 1);
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getloadavg(out: *mut c_double, count: c_int) -> c_int {
    if world::current_host().is_none() {
        let system = system!(getloadavg: fn(*mut c_double, c_int) -> c_int);
        // SAFETY: by the contract of libc.
        return unsafe { system(out, count) };
    }
    let count = usize::try_from(count).unwrap_or(0).min(LOADS);
    // SAFETY: by the contract of libc there is room for so many. All bytes of them may be nought.
    unsafe { ptr::write_bytes(out, 0, count) };
    count as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn get_phys_pages() -> c_long {
    // SAFETY: it takes no pointers.
    unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn get_avphys_pages() -> c_long {
    // SAFETY: it takes no pointers.
    unsafe { libc::sysconf(libc::_SC_AVPHYS_PAGES) }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    sysinfo as *const c_void,
    getloadavg as *const c_void,
    get_phys_pages as *const c_void,
    get_avphys_pages as *const c_void,
];
