//! The latch of a join: how a thread that waits for a stolen branch learns of its end.
//!
//! | state | means | left by |
//! | --- | --- | --- |
//! | `OPEN` | the branch has not ended, its owner is awake | the thief; the owner, as it falls asleep |
//! | `ASLEEP` | the owner sleeps on its branch deque's parker, or is about to | the thief |
//! | `DONE` | the branch has ended, its result is there | |
//! | `RETURNED` | a helper had claimed it and must not run it: it is the owner's again, not begun | |
//!
//! *Invariant*: the swap to `DONE` or `RETURNED` is the last that any thread but the owner does to
//! the job. The job lies on the owner's stack. So the owner may go on as soon as it reads one of
//! the two. The thief needs the parker to wake the owner; the parker lies in the branch deque,
//! which stays.
//!
//! A wake-up that is too late ends the owner's next wait on that parker for nothing, and every wait
//! there is a loop around a state of its own.
//!
//! Checked by `models::fork_join`.
#![allow(unsafe_code)]

use crate::{
    park::Parker,
    sync::atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire},
    },
};

const OPEN: u32 = 0;
const ASLEEP: u32 = 1;
const DONE: u32 = 2;
const RETURNED: u32 = 3;

/// What became of a branch that was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It has ended.
    Done,
    /// It was not begun, and is the owner's to run.
    Returned,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Latch(AtomicU32);

impl Latch {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(OPEN))
    }

    /// Whether the wait is over, and how it ended.
    pub(crate) fn settled(&self) -> Option<Settled> {
        // Ordering: Acquire pairs with the swap in `set`: the result is there.
        match self.0.load(Acquire) {
            DONE => Some(Settled::Done),
            RETURNED => Some(Settled::Returned),
            _ => None,
        }
    }

    /// Sleeps on `parker`, which is that of this thread, until the wait is over.
    pub(crate) fn wait(&self, parker: &Parker) -> Settled {
        // Ordering: Acquire as above, if it fails.
        let _ = self.0.compare_exchange(OPEN, ASLEEP, AcqRel, Acquire);
        loop {
            if let Some(settled) = self.settled() {
                return settled;
            }
            parker.park();
        }
    }

    /// Ends the wait.
    ///
    /// # Safety
    ///
    /// - `this` is valid up to the swap. Once that is done its owner may free it.
    /// - `parker` is the owner's, and stays.
    pub(crate) unsafe fn set(this: *const Self, how: Settled, parker: &Parker) {
        let state = match how {
            Settled::Done => DONE,
            Settled::Returned => RETURNED,
        };
        // SAFETY: by contract; a raw pointer, since a reference would have to outlive the swap.
        let word = unsafe { &raw const (*this).0 };
        // Ordering: Release: the result is there for the thread that reads the state. SAFETY: as
        // above.
        if unsafe { (*word).swap(state, AcqRel) } == ASLEEP {
            parker.unpark(|| ());
        }
    }
}
