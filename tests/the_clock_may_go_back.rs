//! L2: a clock that goes back, as on machines whose processors disagree, ends and hangs
//! nothing. The monotonic clock of this program goes back 3 ms at every third reading and forward
//! again soon after, and the clock of the day goes back by an hour.
//!
//! The program has `clock_gettime` of its own, which std and `ws` find before that of the C
//! library. A sleep may end as early as the clock goes back, so that one part of the work is not
//! looked at.
//!
//! Seen to fail with plain subtractions in `monitor/compute_only.rs`: the monitor ended the
//! process.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(unsafe_code, reason = "a clock in place of that of the C library")]

#[path = "net_support/mod.rs"]
mod net_support;
#[path = "small_machines/support/work.rs"]
mod work;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use ws::runtime::Builder;

/// How often the clock was read.
static READS: AtomicU64 = AtomicU64::new(0);
/// How often a reading was before the one that came last before it.
static WENT_BACK: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicI64 = AtomicI64::new(0);

const BACK_NS: i64 = 3_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// # Safety
///
/// `time` must be valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> i32 {
    // SAFETY: the caller's pointer is valid for a write.
    let answer = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    if answer != 0 {
        return -1;
    }
    // SAFETY: the same, and the kernel has written it.
    let time = unsafe { &mut *time };
    let read = READS.fetch_add(1, Relaxed);
    match clock {
        libc::CLOCK_MONOTONIC => {
            let mut ns = time.tv_sec * SECOND_NS + time.tv_nsec;
            if read.is_multiple_of(3) {
                ns -= BACK_NS;
            }
            if LAST.swap(ns, Relaxed) > ns {
                WENT_BACK.fetch_add(1, Relaxed);
            }
            (time.tv_sec, time.tv_nsec) = (ns / SECOND_NS, ns % SECOND_NS);
        }
        libc::CLOCK_REALTIME if read.is_multiple_of(2) => time.tv_sec -= 3600,
        _ => {}
    }
    0
}

#[test]
fn all_goes_on_with_a_clock_that_goes_back() {
    for workers in net_support::WORKERS {
        let _limit = net_support::Limit::new(workers);
        let failed = work::all(&Builder::new().workers(workers));
        let failed: Vec<_> = failed
            .iter()
            .filter(|row| !row.starts_with("sleep"))
            .collect();
        assert!(failed.is_empty(), "{failed:?}");
    }
    assert!(
        WENT_BACK.load(Relaxed) > 100,
        "the clock is that of the C library"
    );
}
