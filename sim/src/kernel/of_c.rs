//! Time and random bytes as C code asks for them: the clocks are those of `clock.rs`, by other
//! names.
//!
//! A host's time of a processor is what its monotonic clock shows, all of it the program's own, so
//! that a loop which waits for it ends.
#![allow(unsafe_code)]

use std::ptr;

use libc::{c_int, c_long, c_void, clock_t, clockid_t, rusage, size_t, timespec, timeval, tms};

use super::{
    Seconds,
    clock::{SECOND, getrandom, read},
    fails,
    system::{call, system},
};

/// The base of `timespec_get` that is the calendar.
const TIME_UTC: c_int = 1;

/// What a clock of the host that runs shows: seconds, and nanoseconds beyond them.
fn of_host(clock: clockid_t) -> Option<(Seconds, c_long)> {
    let ns = read(clock)?;
    Some(((ns / SECOND) as Seconds, (ns % SECOND) as c_long))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn time(out: *mut Seconds) -> Seconds {
    let Some((seconds, _)) = of_host(libc::CLOCK_REALTIME) else {
        let system = system!(time: fn(*mut Seconds) -> Seconds);
        // SAFETY: by the contract of libc.
        return unsafe { system(out) };
    };
    if !out.is_null() {
        // SAFETY: by the contract of libc.
        unsafe { ptr::write(out, seconds) };
    }
    seconds
}

#[unsafe(no_mangle)]
unsafe extern "C" fn timespec_get(out: *mut timespec, base: c_int) -> c_int {
    match of_host(libc::CLOCK_REALTIME).filter(|_| base == TIME_UTC) {
        Some((tv_sec, tv_nsec)) => {
            // SAFETY: by the contract of libc.
            unsafe { ptr::write(out, timespec { tv_sec, tv_nsec }) };
            base
        }
        None => {
            let system = system!(timespec_get: fn(*mut timespec, c_int) -> c_int);
            // SAFETY: by the contract of libc.
            unsafe { system(out, base) }
        }
    }
}

/// In a host it counts the time since its boot.
#[unsafe(no_mangle)]
unsafe extern "C" fn times(out: *mut tms) -> clock_t {
    /// Ticks of a second, as `sysconf` has it on all systems of today.
    const TICKS: Seconds = 100;
    let Some((seconds, ns)) = of_host(libc::CLOCK_MONOTONIC) else {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_times, out) as clock_t };
    };
    let ticks = seconds * TICKS + ns / (SECOND as c_long / TICKS);
    if !out.is_null() {
        // SAFETY: by the contract of libc. All bytes of it may be nought.
        unsafe {
            ptr::write_bytes(out, 0, 1);
            (*out).tms_utime = ticks;
        }
    }
    ticks
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock() -> clock_t {
    /// `CLOCKS_PER_SEC`, as POSIX has it.
    const TICKS: clock_t = 1_000_000;
    let Some((seconds, ns)) = of_host(libc::CLOCK_PROCESS_CPUTIME_ID) else {
        let system = system!(clock: fn() -> clock_t);
        // SAFETY: it takes nothing.
        return unsafe { system() };
    };
    seconds * TICKS + ns / (SECOND as c_long / TICKS)
}

/// In a host each field but the user time is zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrusage(whose: c_int, out: *mut rusage) -> c_int {
    let Some((tv_sec, ns)) = of_host(libc::CLOCK_PROCESS_CPUTIME_ID) else {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_getrusage, whose, out) as c_int };
    };
    let tv_usec = ns / 1_000;
    let own = match whose {
        libc::RUSAGE_SELF | libc::RUSAGE_THREAD => timeval { tv_sec, tv_usec },
        // It has no children.
        libc::RUSAGE_CHILDREN => timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        _ => return fails(libc::EINVAL),
    };
    // SAFETY: by the contract of libc. All bytes of it may be nought.
    unsafe {
        ptr::write_bytes(out, 0, 1);
        (*out).ru_utime = own;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn arc4random_buf(out: *mut c_void, len: size_t) {
    let mut filled = 0;
    while filled < len {
        // SAFETY: by the contract of libc, `out` has room for `len` bytes.
        let got = unsafe { getrandom(out.byte_add(filled), len - filled, 0) };
        // It fails for no reason but a signal.
        filled += usize::try_from(got).unwrap_or(0);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn arc4random() -> u32 {
    let mut word = 0_u32;
    // SAFETY: the word has room for its bytes.
    unsafe { arc4random_buf((&raw mut word).cast(), size_of::<u32>()) };
    word
}

#[unsafe(no_mangle)]
unsafe extern "C" fn arc4random_uniform(below: u32) -> u32 {
    // SAFETY: it takes no pointers.
    let word = unsafe { arc4random() };
    // A multiplication by Lemire, without his second draw: a bias of one part in some billions.
    ((u64::from(word) * u64::from(below)) >> 32) as u32
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    time as *const c_void,
    timespec_get as *const c_void,
    times as *const c_void,
    clock as *const c_void,
    getrusage as *const c_void,
    arc4random as *const c_void,
    arc4random_buf as *const c_void,
    arc4random_uniform as *const c_void,
];
