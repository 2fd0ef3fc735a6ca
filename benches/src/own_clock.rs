//! A clock in place of the system's, for a program of one thread that is counted under valgrind or
//! strace.
//!
//! These run it some fifty times slower, and not each time alike. What is due after some time would
//! be due more often than in the program by itself: a worker that looks at what is for all after
//! 100 us looked at each 25th tick, not at each 61st. So the monotonic clock of the program goes on
//! by the same time whenever it is read.

#![allow(unsafe_code, reason = "a clock in place of that of the C library")]

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use libc::{c_int, clockid_t, timespec};

type Gettime = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;

/// In nanoseconds.
static NOW: AtomicI64 = AtomicI64::new(0);
/// What each reading adds. 0: the clock is the system's.
static STEP: AtomicI64 = AtomicI64::new(0);

/// That of the C library.
static SYSTEM: LazyLock<Gettime> = LazyLock::new(|| {
    // SAFETY: it ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr()) };
    assert!(!found.is_null(), "the C library has it");
    // SAFETY: the C library's function has this type.
    unsafe { std::mem::transmute::<*mut libc::c_void, Gettime>(found) }
});

/// Runs `f` with a clock to which each reading adds `step`. The end of a runtime waits for its
/// threads by the system's.
pub(crate) fn within<T>(step: Duration, f: impl FnOnce() -> T) -> T {
    STEP.store(step.as_nanos() as i64, Relaxed);
    let result = f();
    STEP.store(0, Relaxed);
    result
}

/// # Safety
///
/// `time` must be valid for a write.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    const SECOND: i64 = 1_000_000_000;
    let step = STEP.load(Relaxed);
    if clock != libc::CLOCK_MONOTONIC || step == 0 {
        // SAFETY: the caller's pointer is valid for a write.
        return unsafe { SYSTEM(clock, time) };
    }
    let now = NOW.fetch_add(step, Relaxed);
    let now = timespec {
        tv_sec: now / SECOND,
        tv_nsec: now % SECOND,
    };
    // SAFETY: the caller's pointer is valid for a write.
    unsafe { time.write(now) };
    0
}
