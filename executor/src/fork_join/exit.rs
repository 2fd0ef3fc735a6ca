//! The exit of a scope: a count of what has not ended, and the bed where its owner waits for that.
//!
//! *Invariant*: who counts down is done with everything of the scope, and touches only the bed afterwards,
//! which lies in a lane and stays. So the owner may leave, and free the scope, as soon as it reads zero.
//!
//! A thread that hands a branch back to the scope counts up first, and down when it has let go of the
//! scope's list; or the owner could take that branch, run it, read zero and leave while the other still
//! holds the list's lock.
//!
//! Checked by `models::fork_join`.
#![allow(unsafe_code)]

use crate::{
    sched::park::Parker,
    sync::atomic::{
        AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Exit(AtomicUsize);

impl Exit {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// One more to wait for. The owner does not leave meanwhile: it calls itself, or the caller is counted, or
    /// it is another thread that has the scope from the owner's closure, which has not returned.
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// One less. The last one wakes the owner.
    ///
    /// # Safety
    ///
    /// - `this` is valid up to the subtraction; the caller was counted.
    /// - `bed` is the owner's, and stays.
    pub(crate) unsafe fn end(this: *const Self, bed: &Parker) {
        // SAFETY: by contract.
        let count = unsafe { &raw const (*this).0 };
        // Ordering: Release: what was done in the branch is there for who reads zero.
        // SAFETY: as above.
        if unsafe { (*count).fetch_sub(1, Release) } == 1 {
            bed.unpark(|| ());
        }
    }

    /// Whether all have ended.
    pub(crate) fn is_open(&self) -> bool {
        // Ordering: Acquire pairs with `end`. No fence behind it, of which ThreadSanitizer knows nothing.
        self.0.load(Acquire) == 0
    }
}
