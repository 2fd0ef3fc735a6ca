//! A notification that any thread sets and one thread consumes.
//!
//! | sets | consumes |
//! | --- | --- |
//! | 1. writes what the other is to see | 1. exchanges the flag for "not set" |
//! | 2. exchanges the flag for "set" | 2. if it was set: reads what was written |
//! | 3. if it was not set: wakes the thread that consumes | |
//!
//! *Invariant*: after the last set, the notification is set, or its consumer has seen what the
//! thread that set it wrote. A thread that finds it set wakes no thread and relies on the one that
//! set it first. It exchanges the flag all the same, so its writes are published as well: the
//! exchange of the consumer reads from the last set, and each set continues those before it.
//!
//! Rejected: a set that looks first, and stores only if it is not set. What it wrote would not be
//! published.
//!
//! Checked by `models::notification`.

use crate::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Acquire},
};

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Notification(AtomicBool);

impl Notification {
    /// One that is set already.
    pub(crate) fn already_set() -> Self {
        Self(AtomicBool::new(true))
    }

    /// Sets it. True if it was not set: then the caller wakes the thread that consumes it.
    #[must_use = "the thread that consumes it may sleep"]
    pub(crate) fn set(&self) -> bool {
        // Ordering: Release publishes what the caller wrote; pairs with the Acquire in `take` and
        // `is_set`. Acquire: what others wrote that have set it before is published again.
        !self.0.swap(true, AcqRel)
    }

    pub(crate) fn is_set(&self) -> bool {
        // Ordering: Acquire pairs with `set`.
        self.0.load(Acquire)
    }

    /// Consumes it. True if it was set.
    pub(crate) fn take(&self) -> bool {
        // Ordering: Acquire pairs with `set`. A load first, since this is asked at every step.
        self.is_set() && self.0.swap(false, AcqRel)
    }
}
