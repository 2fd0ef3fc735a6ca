//! Threads, and calls that sleep.
//!
//! A thread of the system that a host starts is refused: its order would not be that of the seed.
//!
//! `std::thread::sleep` inside a host sleeps in simulated time. It returns at once. In a
//! `spawn_blocking` the call then gives its result later. Elsewhere it blocks the whole host: the
//! clock of the host has moved forward, and it takes no step before the others have come to that
//! time.
#![allow(unsafe_code)]

use std::{io, ptr};

use libc::{c_int, c_uint, c_void, clockid_t, pthread_attr_t, pthread_t, timespec};

use super::{
    answer, clock, fails,
    refused::is_refused,
    system::{call, system},
    timers::nanoseconds,
};
use crate::world;

/// What to do instead of a thread.
const INSTEAD: &str = "use ws::spawn_blocking, or make the thread outside of the host";

type Start = extern "C" fn(*mut c_void) -> *mut c_void;

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    out: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    if is_refused("starts a thread", INSTEAD) {
        return libc::EAGAIN;
    }
    let system = system!(
        pthread_create: fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int
    );
    // SAFETY: by the contract of libc.
    unsafe { system(out, attributes, start, argument) }
}

/// What the functions of `threads.h` answer if they fail.
pub(super) const ERROR: c_int = 2;

type StartOfC = extern "C" fn(*mut c_void) -> c_int;

/// glibc's calls its own `pthread_create`, which is not the seam's.
#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_create(
    out: *mut pthread_t,
    start: StartOfC,
    argument: *mut c_void,
) -> c_int {
    if is_refused("starts a thread", INSTEAD) {
        return ERROR;
    }
    let system = system!(thrd_create: fn(*mut pthread_t, StartOfC, *mut c_void) -> c_int);
    // SAFETY: by the contract of libc.
    unsafe { system(out, start, argument) }
}

/// Sleeps in the current host, if there is one.
pub(super) fn sleeps(clock: clockid_t, is_absolute: bool, time: timespec) -> Option<c_int> {
    let now = clock::shown(clock);
    world::with_host(|world, host| {
        let Ok(mut ns) = nanoseconds(time) else {
            return libc::EINVAL;
        };
        if is_absolute {
            ns = ns.saturating_sub(now.unwrap_or(0));
        }
        // A loop that waits for what is left of a time would never see it pass.
        let until = world.time_after(host, ns.max(1));
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
    // The system would answer `EOPNOTSUPP` for the second.
    if !clock::is_known(clock) || clock == libc::CLOCK_THREAD_CPUTIME_ID {
        return libc::EINVAL;
    }
    if matches!(
        clock,
        libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_REALTIME_COARSE
    ) {
        return libc::ENOTSUP;
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

/// It answers less than -1 if it fails.
#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_sleep(time: *const timespec, left: *mut timespec) -> c_int {
    if world::current_host().is_none() {
        let system = system!(thrd_sleep: fn(*const timespec, *mut timespec) -> c_int);
        // SAFETY: by the contract of libc.
        return unsafe { system(time, left) };
    }
    // SAFETY: by the contract of libc.
    match unsafe { nanosleep(time, left) } {
        0 => 0,
        _ => -2,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn usleep(us: c_uint) -> c_int {
    let time = timespec {
        tv_sec: (us / 1_000_000).into(),
        tv_nsec: (us % 1_000_000 * 1_000).into(),
    };
    // SAFETY: the time is valid.
    unsafe { nanosleep(&raw const time, ptr::null_mut()) }
}

/// A signal may end it in the system, and then it answers the seconds that are left.
#[unsafe(no_mangle)]
unsafe extern "C" fn sleep(seconds: c_uint) -> c_uint {
    let mut time = timespec {
        tv_sec: seconds.into(),
        tv_nsec: 0,
    };
    let time = &raw mut time;
    // SAFETY: both are valid, and may be the same.
    unsafe {
        match nanosleep(time, time) {
            0 => 0,
            _ => (*time).tv_sec as c_uint,
        }
    }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    pthread_create as *const c_void,
    thrd_create as *const c_void,
    clock_nanosleep as *const c_void,
    nanosleep as *const c_void,
    thrd_sleep as *const c_void,
    usleep as *const c_void,
    sleep as *const c_void,
];
