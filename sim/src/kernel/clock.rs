//! Time and random bytes.
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    mem, ptr,
    time::{Duration, SystemTime},
};

use libc::{c_int, c_uint, c_void, clockid_t, size_t, ssize_t, timespec, timeval};

use super::{
    fails, spin,
    system::{self, Function},
};
use crate::{rng::Rng, world};

/// In nanoseconds.
pub(super) const SECOND: u64 = 1_000_000_000;

/// The monotonic clock of a host shows this at the begin of the simulation, in nanoseconds. It is
/// not zero, since programs subtract durations from it.
pub(super) const BOOT: u64 = 1_000_000 * SECOND;

/// The calendar shows this then: 2030-01-01.
pub(crate) const CALENDAR: u64 = 1_893_456_000 * SECOND;

/// What the calendar shows at the begin of a simulation.
pub(crate) fn calendar() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(CALENDAR)
}

type ClockGettime = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;

/// It asks the kernel's page, and makes no system call.
pub(super) static CLOCK_GETTIME: Function = Function::new(c"clock_gettime");

fn system_clock() -> ClockGettime {
    // SAFETY: it is the function of that name.
    unsafe { mem::transmute(CLOCK_GETTIME.address()) }
}

/// What a clock of the current host shows, in nanoseconds.
pub(super) fn shown(clock: clockid_t) -> Option<u64> {
    let (now, skew) = world::clocks()?;
    Some(match clock {
        libc::CLOCK_REALTIME
        | libc::CLOCK_REALTIME_ALARM
        | libc::CLOCK_REALTIME_COARSE
        | libc::CLOCK_TAI => CALENDAR.saturating_add(now).saturating_add_signed(skew),
        _ => BOOT.saturating_add(now),
    })
}

/// Whether Linux has a clock. A negative number is the processor time of a process or a thread, of
/// one of three kinds, or a device that shows the time.
pub(super) fn is_known(clock: clockid_t) -> bool {
    /// The number 10 was that of a kind of machine.
    const GONE: clockid_t = 10;
    match clock {
        ..0 => clock & 3 != 3,
        _ => clock <= libc::CLOCK_TAI && clock != GONE,
    }
}

/// The same, for a program: a loop of reads ends (`spin.rs`).
pub(super) fn read(clock: clockid_t) -> Option<u64> {
    world::current_host()?;
    spin::clock_is_read();
    shown(clock)
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
    match read(clock) {
        // SAFETY: by the contract of libc.
        None => unsafe { system_clock()(clock, out) },
        Some(_) if !is_known(clock) => fails(libc::EINVAL),
        Some(ns) => {
            let shown = timespec {
                tv_sec: (ns / SECOND) as super::Seconds,
                tv_nsec: (ns % SECOND) as libc::c_long,
            };
            // SAFETY: by the contract of libc.
            unsafe { ptr::write(out, shown) };
            0
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(out: *mut timeval, zone: *mut c_void) -> c_int {
    if !zone.is_null() {
        // As in Linux, it is UTC unless somebody has told the kernel.
        // SAFETY: by the contract of libc it is a `timezone`: two numbers.
        unsafe { ptr::write(zone.cast::<[c_int; 2]>(), [0; 2]) };
    }
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
pub(super) unsafe extern "C" fn getrandom(out: *mut c_void, len: size_t, flags: c_uint) -> ssize_t {
    const KNOWN: c_uint = libc::GRND_NONBLOCK | libc::GRND_RANDOM | libc::GRND_INSECURE;
    const EITHER: c_uint = libc::GRND_RANDOM | libc::GRND_INSECURE;

    if flags & !KNOWN != 0 || flags & EITHER == EITHER {
        return fails(libc::EINVAL) as ssize_t;
    }
    if len == 0 {
        return 0;
    }
    let fills = |random: &mut Rng| {
        // SAFETY: by the contract of libc.
        let bytes = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), len) };
        random.fill(bytes);
        len as ssize_t
    };
    let filled = world::with_host(|world, _| fills(&mut world.random));
    let filled = filled.or_else(|| world::with_random_of_body(fills));
    // SAFETY: by the contract of libc.
    filled.unwrap_or_else(|| unsafe {
        let flags = flags as usize;
        system::call()(libc::SYS_getrandom, out, len, flags) as ssize_t
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

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    clock_gettime as *const c_void,
    gettimeofday as *const c_void,
    getrandom as *const c_void,
    getentropy as *const c_void,
];
