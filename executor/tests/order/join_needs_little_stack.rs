//! J3: a level of joins needs at most 192 bytes of stack more than a plain call, in release. A
//! recursion that leans to one side overflows no earlier than its plain form plus that.
//!
//! It fails, in release, when `StackJob` in `branch/job.rs` has lines of the cache for itself
//! (`align(128)`).

use crate::common;

use std::hint::black_box;

use common::{calls, here, runtime};
use ws_executor::join;

const LEVELS: usize = 1000;
/// In a debug build nothing is inlined, and every closure is a frame.
const MOST: usize = if cfg!(debug_assertions) { 2048 } else { 192 };

#[inline(never)]
fn joined(levels: usize) -> usize {
    if levels == 0 {
        return here();
    }
    let (deepest, one) = join(|| joined(levels - 1), || 1);
    black_box(one);
    deepest
}

#[inline(never)]
fn joined_second(levels: usize) -> usize {
    if levels == 0 {
        return here();
    }
    let (one, deepest) = join(|| 1, || joined_second(levels - 1));
    black_box(one);
    deepest
}

#[test]
fn a_level_of_joins_is_small() {
    common::limited(|| {
        // One worker: nobody asks, and all levels are on this stack.
        runtime(1).block_on(async {
            // The first join finds the array and the thread's place.
            join(|| (), || ());
            let top = here();
            let plain = (top - calls(LEVELS)) / LEVELS;
            let first = (top - joined(LEVELS)) / LEVELS;
            let second = (top - joined_second(LEVELS)) / LEVELS;
            for (which, bytes) in [("first", first), ("second", second)] {
                assert!(
                    bytes <= plain + MOST,
                    "{bytes} bytes a level in the {which} branch, {plain} without join"
                );
            }
        });
    });
}
