//! The exit of a scope: a count of what has not ended, and the bed where its owner waits for that.
//!
//! *Invariant*: who counts down is done with everything of the scope, and touches only the bed afterwards,
//! which lies in a lane and stays. So the owner may leave, and free the scope, as soon as it reads zero.
//!
//! A thread that hands a branch back to the scope ([`Exit::hand_back`]) counts up first, and down when it has let go of the
//! scope's list; or the owner could take that branch, run it, read zero and leave while the other still
//! holds the list's lock. Then it wakes the owner, which may sleep although the count is not zero.
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

    /// A branch that is counted goes back to where its owner finds it, by `put`, and is the owner's from then on.
    ///
    /// # Safety
    ///
    /// As [`end`](Self::end); and the scope stays where it is while `put` runs, if the count stays above zero.
    pub(crate) unsafe fn hand_back(this: *const Self, bed: &Parker, put: impl FnOnce()) {
        // SAFETY: the branch is counted, and still the caller's.
        unsafe { &*this }.begin();
        put();
        // SAFETY: counted above, and this is the last of it.
        unsafe { Self::end(this, bed) };
        bed.unpark(|| ());
    }

    /// Whether all have ended.
    pub(crate) fn is_open(&self) -> bool {
        // Ordering: Acquire pairs with `end`. No fence behind it, of which ThreadSanitizer knows nothing.
        self.0.load(Acquire) == 0
    }
}
