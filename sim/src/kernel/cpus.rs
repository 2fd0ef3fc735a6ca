//! The CPUs of a host: as many as it has workers.
//!
//! Programs size pools and shards by that number. With the machine's, a seed would be another run
//! on a machine with more of them.
//!
//! std asks for the affinity mask, C libraries mostly for `sysconf`. A host may set the mask, which
//! changes nothing. Each of its threads is on the first CPU.
#![allow(unsafe_code)]

use std::ptr;

use libc::{c_int, c_long, c_uint, c_ulong, c_void, cpu_set_t, pid_t};

use super::{
    fails, memory,
    system::{call, system},
};
use crate::world;

/// The number of CPUs of the current host.
fn of_host() -> Option<usize> {
    world::with_host(|world, _| world.workers)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sched_getaffinity(pid: pid_t, size: usize, set: *mut cpu_set_t) -> c_int {
    let Some(cpus) = of_host() else {
        // SAFETY: by the contract of libc.
        let written = unsafe { call()(libc::SYS_sched_getaffinity, pid, size, set) };
        let Ok(written @ 0..) = usize::try_from(written) else {
            return -1;
        };
        // The kernel says how many bytes it has written, and libc clears the rest.
        // SAFETY: the set has `size` bytes, and the kernel writes no more than that.
        unsafe { ptr::write_bytes(set.cast::<u8>().add(written), 0, size - written) };
        return 0;
    };
    if size < cpus.div_ceil(8) || !size.is_multiple_of(size_of::<c_ulong>()) {
        return fails(libc::EINVAL);
    }
    for at in 0..size {
        let left = cpus.saturating_sub(8 * at).min(8);
        let byte = ((1_u16 << left) - 1) as u8;
        // SAFETY: by the contract of libc the set has `size` bytes.
        unsafe { set.cast::<u8>().add(at).write(byte) };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sched_setaffinity(pid: pid_t, size: usize, set: *const cpu_set_t) -> c_int {
    if of_host().is_some() {
        return 0;
    }
    // SAFETY: by the contract of libc.
    unsafe { call()(libc::SYS_sched_setaffinity, pid, size, set) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sysconf(name: c_int) -> c_long {
    if let Some(cpus) = of_host() {
        match name {
            libc::_SC_NPROCESSORS_ONLN | libc::_SC_NPROCESSORS_CONF => return cpus as c_long,
            libc::_SC_PHYS_PAGES => return memory::pages(memory::TOTAL),
            libc::_SC_AVPHYS_PAGES => return memory::pages(memory::FREE),
            _ => {}
        }
    }
    let system = system!(sysconf: fn(c_int) -> c_long);
    // SAFETY: it takes no pointers.
    unsafe { system(name) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn get_nprocs() -> c_int {
    // SAFETY: it takes no pointers.
    unsafe { sysconf(libc::_SC_NPROCESSORS_ONLN) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn get_nprocs_conf() -> c_int {
    // SAFETY: it takes no pointers.
    unsafe { sysconf(libc::_SC_NPROCESSORS_CONF) as c_int }
}

/// Writes the number of the CPU that a thread is on, and that of the CPU's memory.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn getcpu(cpu: *mut c_uint, node: *mut c_uint) -> c_int {
    if of_host().is_none() {
        let no_cache = ptr::null_mut::<c_void>();
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_getcpu, cpu, node, no_cache) as c_int };
    }
    for out in [cpu, node] {
        // SAFETY: by the contract of libc each is null or valid for writes.
        if let Some(out) = unsafe { out.as_mut() } {
            *out = 0;
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sched_getcpu() -> c_int {
    if of_host().is_some() {
        return 0;
    }
    let system = system!(sched_getcpu: fn() -> c_int);
    // SAFETY: it takes no pointers.
    unsafe { system() }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    sched_getaffinity as *const c_void,
    sched_setaffinity as *const c_void,
    sysconf as *const c_void,
    get_nprocs as *const c_void,
    get_nprocs_conf as *const c_void,
    getcpu as *const c_void,
    sched_getcpu as *const c_void,
];
