//! How much stack something takes; the unit tests of `src/` have this file too.

use std::hint::black_box;

/// Where the stack is.
#[inline(always)]
pub(crate) fn here() -> usize {
    let mark = 0_u8;
    std::ptr::from_ref(black_box(&mark)).addr()
}

/// So many plain calls, one in the other. Where the stack is in the last one.
#[inline(never)]
pub(crate) fn calls(levels: usize) -> usize {
    if levels == 0 {
        return here();
    }
    let (deepest, one) = (black_box(calls as fn(usize) -> usize)(levels - 1), 1);
    black_box(one);
    deepest
}
