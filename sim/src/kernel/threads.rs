//! Threads, and calls that sleep.
//!
//! A thread of the system that a host starts is refused: its order would not be that of the seed.
//!
//! `std::thread::sleep` inside a host sleeps in simulated time. It returns at once. In a
//! `spawn_blocking` the call then gives its result later. Elsewhere it blocks the whole host: the
//! clock of the host has moved forward, and it takes no step before the others have come to that
//! time.
#![allow(unsafe_code)]

use std::{
    io::{self, Write},
    mem, ptr,
};

use libc::{c_int, c_void, clockid_t, pthread_attr_t, pthread_t, timespec};

use super::{
    answer, clock, fails,
    system::{Function, call},
};
use crate::world;

type Start = extern "C" fn(*mut c_void) -> *mut c_void;
type PthreadCreate =
    unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;

static PTHREAD_CREATE: Function = Function::new(c"pthread_create");

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    out: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    if world::current_host().is_some() {
        // If stderr takes nothing, the error number has to be enough.
        let _ = io::stderr().write_all(
            b"ws-sim: a simulated host starts a thread, which the seed could not repeat: \
              use ws::spawn_blocking, or make the thread outside of the host\n",
        );
        return libc::EAGAIN;
    }
    // SAFETY: it is the function of that name.
    let system: PthreadCreate = unsafe { mem::transmute(PTHREAD_CREATE.address()) };
    // SAFETY: by the contract of libc.
    unsafe { system(out, attributes, start, argument) }
}

/// Sleeps in the current host, if there is one.
pub(super) fn sleeps(clock: clockid_t, is_absolute: bool, time: timespec) -> Option<c_int> {
    let ns = u64::try_from(time.tv_sec)
        .ok()
        .zip(u64::try_from(time.tv_nsec).ok());
    let now = clock::shown(clock);
    world::with_host(|world, host| {
        let Some((seconds, nanos)) = ns.filter(|(_, nanos)| *nanos < 1_000_000_000) else {
            return libc::EINVAL;
        };
        let mut ns = seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        if is_absolute {
            ns = ns.saturating_sub(now.unwrap_or(0));
        }
        let until = world.time_after(host, ns);
        world.sleeps(host, until);
        0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    if time.is_null() {
        return libc::EFAULT;
    }
    // SAFETY: by the contract of libc.
    let wanted = unsafe { ptr::read(time) };
    let slept = sleeps(clock, flags & libc::TIMER_ABSTIME != 0, wanted);
    slept.unwrap_or_else(|| {
        // SAFETY: by the contract of libc.
        match unsafe { call()(libc::SYS_clock_nanosleep, clock, flags, time, left) } {
            0 => 0,
            _ => io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EINTR),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int {
    if time.is_null() {
        return fails(libc::EFAULT);
    }
    // SAFETY: by the contract of libc.
    let wanted = unsafe { ptr::read(time) };
    match sleeps(libc::CLOCK_MONOTONIC, false, wanted) {
        Some(0) => 0,
        Some(error) => answer(Err(io::Error::from_raw_os_error(error))),
        // SAFETY: by the contract of libc.
        None => unsafe { call()(libc::SYS_nanosleep, time, left) as c_int },
    }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    pthread_create as *const c_void,
    clock_nanosleep as *const c_void,
    nanosleep as *const c_void,
];
