//! How many bytes are allocated: the system's allocator behind a counter that is mostly off.
//!
//! A counter that every thread writes would slow the very rows that allocate most, and not each
//! runtime alike. So it counts only while a row asks for it; in all others it costs one load of a
//! flag that nobody writes. Sizes are as asked for: what the allocator adds is seen in the
//! resident memory, beside it.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);

/// The allocator of this program.
#[derive(Debug)]
pub(crate) struct Counting;

/// Starts to count, from zero. Memory that was allocated before and is freed later counts as less
/// than nothing, so begin after the set-up.
pub(crate) fn start() {
    LIVE.store(0, Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
}

/// The bytes allocated since [`start`] less those freed since.
pub(crate) fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// Counts no longer.
pub(crate) fn stop() {
    COUNTING.store(false, Ordering::Relaxed);
}

fn count(bytes: usize, sign: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        let bytes = i64::try_from(bytes).expect("no allocation is larger than isize::MAX");
        LIVE.fetch_add(sign * bytes, Ordering::Relaxed);
    }
}

// SAFETY: every method hands its arguments to `System` unchanged and returns what that returned;
// counting touches two atomics, and neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), -1);
        count(size, 1);
        // SAFETY: as in `alloc`.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}
