//! Time and random bytes.
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    mem, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicPtr, Ordering},
    },
};

use libc::{c_int, c_long, c_uint, c_void, clockid_t, size_t, ssize_t, timespec, timeval};

use super::fails;
use crate::world;

const SECOND: u64 = 1_000_000_000;

/// The monotonic clock of a host shows this at the begin of the simulation, in nanoseconds. It is
/// not zero, since programs subtract durations from it.
const BOOT: u64 = 1_000_000 * SECOND;

/// The calendar shows this then: 2030-01-01.
pub(crate) const CALENDAR: u64 = 1_893_456_000 * SECOND;

type ClockGettime = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;

/// The system's function, which asks the kernel's page and makes no system call.
fn system_clock() -> ClockGettime {
    static FUNCTION: OnceLock<ClockGettime> = OnceLock::new();
    *FUNCTION.get_or_init(|| {
        // SAFETY: the name ends with NUL, and the answer is null or the function of that name.
        unsafe {
            let found = libc::dlsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr());
            assert!(!found.is_null(), "libc has a clock");
            mem::transmute::<*mut c_void, ClockGettime>(found)
        }
    })
}

/// What a clock of the current host shows, in nanoseconds.
pub(super) fn shown(clock: clockid_t) -> Option<u64> {
    let (now, skew) = world::clocks()?;
    Some(match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => {
            (CALENDAR + now).saturating_add_signed(skew)
        }
        _ => BOOT + now,
    })
}

thread_local! {
    /// How often this thread has asked for the time.
    static ASKS: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn asks() -> u64 {
    ASKS.get()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, out: *mut timespec) -> c_int {
    ASKS.set(ASKS.get().wrapping_add(1));
    match shown(clock) {
        // SAFETY: by the contract of libc.
        None => unsafe { system_clock()(clock, out) },
        Some(ns) => {
            let shown = timespec {
                tv_sec: (ns / SECOND) as libc::time_t,
                tv_nsec: (ns % SECOND) as libc::c_long,
            };
            // SAFETY: by the contract of libc.
            unsafe { ptr::write(out, shown) };
            0
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(out: *mut timeval, _zone: *mut c_void) -> c_int {
    // SAFETY: plain data.
    let mut now: timespec = unsafe { mem::zeroed() };
    // SAFETY: `now` is valid for writes.
    let answer = unsafe { clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    if answer == 0 && !out.is_null() {
        let now = timeval {
            tv_sec: now.tv_sec,
            tv_usec: now.tv_nsec / 1000,
        };
        // SAFETY: by the contract of libc.
        unsafe { ptr::write(out, now) };
    }
    answer
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(out: *mut c_void, len: size_t, flags: c_uint) -> ssize_t {
    if len == 0 {
        return 0;
    }
    let filled = world::with_host(|world, _| {
        // SAFETY: by the contract of libc.
        let bytes = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), len) };
        world.fill_random(bytes);
        len as ssize_t
    });
    // SAFETY: by the contract of libc.
    filled.unwrap_or_else(|| unsafe {
        let out = out.expose_provenance() as c_long;
        let call = system_call(); // not `syscall`, which would come back
        call(libc::SYS_getrandom, out, len as c_long, flags.into(), 0, 0, 0) as ssize_t
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getentropy(out: *mut c_void, len: size_t) -> c_int {
    if len > 256 {
        return fails(libc::EIO);
    }
    // SAFETY: by the contract of libc. So few bytes come at once.
    let got = unsafe { getrandom(out, len, 0) };
    if got == len as ssize_t { 0 } else { -1 }
}

type Syscall =
    unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;

/// The system's function. It is no `OnceLock`, whose waits come through here.
fn system_call() -> Syscall {
    static FUNCTION: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    // Ordering: the pointer says all, and each thread may look for it.
    let mut found = FUNCTION.load(Ordering::Relaxed);
    if found.is_null() {
        // SAFETY: the name ends with NUL.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr()) };
        assert!(!found.is_null(), "libc has system calls");
        FUNCTION.store(found, Ordering::Relaxed);
    }
    // SAFETY: it is the function of that name. It takes up to six words after the number, and a
    // caller passes them in the same registers, whether their number is variable or not.
    unsafe { mem::transmute::<*mut c_void, Syscall>(found) }
}

/// getrandom 0.2, and so rand 0.8, asks for random bytes by the number of the call.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if number == libc::SYS_getrandom && world::current_host().is_some() {
        let out = ptr::with_exposed_provenance_mut(a as usize);
        // SAFETY: by the contract of the call.
        return unsafe { getrandom(out, b as size_t, c as c_uint) } as c_long;
    }
    // SAFETY: by the contract of the call.
    unsafe { system_call()(number, a, b, c, d, e, f) }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    clock_gettime as *const c_void,
    gettimeofday as *const c_void,
    getrandom as *const c_void,
    getentropy as *const c_void,
    syscall as *const c_void,
];
