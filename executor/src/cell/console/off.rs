//! Nothing, where `on.rs` has spans.

use crate::cell::{Id, meta::Meta};

pub(in crate::cell) struct TaskSpan;

// No byte of a header.
const _: () = assert!(size_of::<TaskSpan>() == 0);

impl TaskSpan {
    #[inline(always)]
    pub(in crate::cell) fn new(_meta: &Meta, _blocks: bool, _id: Id, _size: usize) -> Self {
        Self
    }

    #[inline(always)]
    pub(in crate::cell) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }

    #[inline(always)]
    pub(in crate::cell) fn close(&self) {}

    #[inline(always)]
    pub(in crate::cell) fn waker(&self, _op: &'static str) {}
}

/// As in `on.rs`.
#[cfg(not(ws_loom))]
#[inline(always)]
pub fn hides_next(_hides: bool) {}

/// A macro, so that the future is moved nowhere.
#[cfg(not(ws_loom))]
macro_rules! root {
    ($future:expr, $id:expr) => {
        $future
    };
}
#[cfg(not(ws_loom))]
pub(crate) use root;
