//! The count latch of a scope: a count of what has not ended, and whether its owner sleeps until
//! that is zero.
//!
//! *Invariant*: a thread that counts down to zero is done with the scope. So the owner may leave,
//! and free the scope, as soon as it reads zero. If a thread finds that the owner sleeps and that
//! it is itself the last, it takes what it needs to wake the owner *before* it counts down: a
//! reference to the branch deque that has the owner's parker. If the owner was awake at that
//! moment, it looks at the count once more before it sleeps.
//!
//! # *A job for a sleeper*
//!
//! The owner also runs jobs of its scope that wait in a list, wherever that is: if no other thread
//! can be had, no other runs them. So a thread that puts a job into a list wakes an owner that
//! sleeps.
//!
//! | owner | spawner |
//! | --- | --- |
//! | 1. says that it sleeps ([`CountLatch::fall_asleep`]) | 1. puts the job into a list |
//! | 2. fence | 2. fence |
//! | 3. looks into the lists, and at the count | 3. looks whether the owner sleeps ([`CountLatch::is_asleep`]) |
//!
//! Each stores first and then loads what the other has stored, so one of the two sees the other.
//!
//! Checked by `models::fork_join`.
#![allow(unsafe_code)]

use std::ops::Deref;

use crate::{
    park::Parker,
    sync::atomic::{
        AtomicUsize,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        fence,
    },
};

/// The owner sleeps, or is about to. The owner alone sets it and clears it.
const ASLEEP: usize = 1;
/// One that has not ended.
const ONE: usize = 2;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct CountLatch(AtomicUsize);

impl CountLatch {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// One more to wait for. The owner does not leave meanwhile: it calls itself, or the caller is
    /// counted, or it is another thread that has the scope from the owner's closure, which has not
    /// returned.
    pub(crate) fn begin(&self) {
        self.0.fetch_add(ONE, Relaxed);
    }

    /// One less. The last one wakes the owner, if that sleeps, on the parker in what `branch_deque`
    /// returns.
    ///
    /// # Safety
    ///
    /// - `this` is valid up to the subtraction; the caller was counted.
    /// - What `branch_deque` returns stays valid without the scope. (It is called while the scope
    ///   is there.)
    pub(crate) unsafe fn end<L: Deref<Target: AsRef<Parker>>>(
        this: *const Self,
        branch_deque: impl Fn() -> L,
    ) {
        // SAFETY: by contract.
        let count = unsafe { &raw const (*this).0 };
        // SAFETY: as above: the caller is counted.
        let mut now = unsafe { (*count).load(Relaxed) };
        loop {
            let sleeper = (now == ONE | ASLEEP).then(&branch_deque);
            // Ordering: Release: what was done in the branch is there for the thread that reads
            // zero. SAFETY: as above: the subtraction has not been done.
            match unsafe { (*count).compare_exchange_weak(now, now - ONE, Release, Relaxed) } {
                Ok(_) => {
                    if let Some(branch_deque) = sleeper {
                        branch_deque.as_ref().unpark(|| ());
                    }
                    return;
                }
                Err(other) => now = other,
            }
        }
    }

    /// Whether all have ended.
    pub(crate) fn is_open(&self) -> bool {
        // Ordering: Acquire pairs with `end`. No fence behind it: ThreadSanitizer does not know
        // fences.
        self.0.load(Acquire) < ONE
    }

    /// The owner is about to sleep. It looks at everything that it waits for once more, after this.
    pub(crate) fn fall_asleep(&self) {
        self.0.fetch_or(ASLEEP, Relaxed);
        // Ordering: SeqCst: between the word and the look into the lists; pairs with the one in
        // `is_asleep`.
        fence(SeqCst);
    }

    /// The owner is awake again.
    pub(crate) fn wake_up(&self) {
        self.0.fetch_and(!ASLEEP, Relaxed);
    }

    /// Whether the owner sleeps. If not, the owner sees what the caller has put into a list before.
    pub(crate) fn is_asleep(&self) -> bool {
        // Ordering: SeqCst: between the push and the look at the word; pairs with the one in
        // `fall_asleep`.
        fence(SeqCst);
        self.0.load(Relaxed) & ASLEEP != 0
    }
}
