//! Nothing, where `on.rs` has spans.

use std::marker::PhantomData;

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
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct HidesNext {
    /// It stays on its thread.
    of_thread: PhantomData<*const ()>,
}

impl HidesNext {
    /// From now on.
    #[expect(clippy::new_without_default, reason = "as in `on.rs`")]
    #[inline(always)]
    pub fn new() -> Self {
        Self {
            of_thread: PhantomData,
        }
    }
}

/// A macro, so that the future is moved nowhere.
macro_rules! root {
    ($future:expr, $id:expr) => {
        $future
    };
}
pub(crate) use root;
