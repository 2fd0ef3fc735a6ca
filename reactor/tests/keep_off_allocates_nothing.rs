//! A waker keeps the woken thread off its own CPU in the middle of a wake, so nothing is allocated
//! there (`cpu_set.rs`). It fails when a set is made anew for each call.

#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use ws_reactor::{CpuSet, ThreadId, current_cpu};

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator does the work. A counter without a destructor needs no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + 1);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn after_the_first_time_nothing_is_allocated() {
    let thread = ThreadId::current();
    let mut before = CpuSet::default();
    let mut keep_off = || {
        let cpu = current_cpu().expect("Linux tells");
        let is_off = thread.keep_off(cpu, &mut before);
        if is_off {
            before.restore(thread);
        }
        is_off
    };
    // A kernel with more than 1,024 CPUs makes the set longer, once. A thread with a single CPU is
    // not kept off it, but its set is read all the same.
    keep_off();
    let first = ALLOCATED.get();
    assert!(first > 0, "the set itself is counted");
    for _ in 0..10 {
        keep_off();
    }
    assert_eq!(ALLOCATED.get(), first);
}
