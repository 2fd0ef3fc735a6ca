//! The flag of a computation that was cancelled, and how the threads that run it come to see it.
//!
//! The thread that cancels sets the flag and asks all branch deques, once. An ask that stands
//! already is left as it is ([`BranchDeque::ask`]). A thread that answers an ask takes it back
//! first ([`Tail::heed`]), and then looks at the flag.
//!
//! *Invariant*: a thread that runs a part of it finds the flag, or comes by at its next join and
//! finds it then.
//!
//! | cancels | answers another's ask |
//! | --- | --- |
//! | 1. sets the flag | 1. takes the ask back |
//! | 2. fence | 2. fence |
//! | 3. asks, unless it finds the branch deque asked | 3. looks at the flag |
//!
//! Each stores first and then loads what the other has stored. Of the two fences one comes first.
//! If it is the one on the left, step 3 on the right finds the flag. If it is the one on the right,
//! step 3 on the left finds the ask taken back, and asks.
//!
//! Rejected: an ask that is always stored. It is a line of a busy core that every ask would take
//! from it.
//!
//! Checked by `models::fork_join::a_cancel_is_seen`.
//!
//! [`BranchDeque::ask`]: super::BranchDeque::ask
//! [`Tail::heed`]: super::Tail::heed

use crate::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
    fence,
};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct CancelFlag(AtomicBool);

impl CancelFlag {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Sets it. The caller asks all branch deques then.
    pub(crate) fn set(&self) {
        self.0.store(true, Relaxed);
        // Ordering: SeqCst: between the flag and the look at which branch deques are asked; pairs
        // with the one in `is_set`.
        fence(SeqCst);
    }

    /// Whether it is set. If not, the branch deque that the caller has just taken an ask back from
    /// is asked when it is.
    pub(crate) fn is_set(&self) -> bool {
        // Ordering: SeqCst: between the ask that was taken back and the look at the flag; pairs
        // with the one in `set`.
        fence(SeqCst);
        self.0.load(Relaxed)
    }
}
