//! What a computation of [`compute`](crate::compute) is to the threads that run a part of it.
//!
//! # Cancelling
//!
//! Dropping the future marks the computation as cancelled and asks all branch deques, so that every
//! thread comes by at its next join. There it finds the flag of what it runs, and unwinds, without
//! the panic hook, up to the closure's caller: each join on the way ends after its branches, as for
//! any panic. So nothing that a running branch uses is freed before its end. A thread knows what it
//! runs by a pointer that goes with each promoted branch. It is valid, since the computation ends
//! after all of its branches.
//!
//! There is one ask, so it must not be lost: `cancel_flag.rs` says why it is not. A thread that
//! finds the flag also has its next join come by. This one may not be able to unwind, in a
//! destructor or where a branch of a scope is counted already; or the panic may be caught on the
//! way.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr,
    sync::Arc as StdArc,
    thread,
};

use super::{CancelFlag, Tail, own};

thread_local! {
    /// The address of the computation that this thread runs; 0: none.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Whether its result is still wanted.
#[derive(Debug)]
pub(crate) struct Computation {
    cancelled: CancelFlag,
}

impl Computation {
    pub(crate) fn new() -> Self {
        Self {
            cancelled: CancelFlag::new(),
        }
    }

    /// Runs the whole of it. None if it was cancelled.
    pub(crate) fn run<R>(self: &StdArc<Self>, f: impl FnOnce() -> R) -> Option<R> {
        let address = StdArc::as_ptr(self).expose_provenance();
        match catch_unwind(AssertUnwindSafe(|| within(address, f))) {
            Ok(result) => Some(result),
            Err(payload) if payload.is::<Cancelled>() => None,
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Cancels it. All branch deques are asked after that; see *Cancelling* in the module's head.
    pub(crate) fn cancel(&self) {
        self.cancelled.set();
    }
}

/// What unwinds a computation that was cancelled.
struct Cancelled;

/// What this thread runs, for a branch of it.
pub(crate) fn current() -> usize {
    CURRENT.get()
}

/// This thread runs nothing of that for now.
#[cfg(any(test, feature = "sim"))]
pub(crate) fn lay_aside() -> usize {
    CURRENT.replace(0)
}

/// It does again.
#[cfg(any(test, feature = "sim"))]
pub(crate) fn take_up(computation: usize) {
    CURRENT.set(computation);
}

/// Runs a branch of that computation.
pub(crate) fn within<R>(computation: usize, f: impl FnOnce() -> R) -> R {
    struct Back(usize);
    impl Drop for Back {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _back = Back(CURRENT.replace(computation));
    if is_cancelled() {
        // The asks came before this thread had a part in it.
        own::come_by();
    }
    f()
}

/// Unwinds, if what this thread runs was cancelled. For a thread that has just answered an ask.
/// Where a panic aborts nothing can unwind: the computation goes on to its end, and its result is
/// dropped.
pub(crate) fn check() {
    if cfg!(panic = "unwind") && is_cancelled() {
        own::come_by();
        if !thread::panicking() {
            resume_unwind(Box::new(Cancelled));
        }
    }
}

/// The same for a thread that cannot unwind here: the next join or scope does.
pub(crate) fn heed_later(tail: &Tail) {
    if cfg!(panic = "unwind") && is_cancelled() {
        tail.ask_again();
    }
}

/// Whether what this thread runs was cancelled. If it says no, the branch deque is asked when that
/// happens.
fn is_cancelled() -> bool {
    let computation = ptr::with_exposed_provenance::<Computation>(CURRENT.get());
    #[expect(unsafe_code, reason = "see the module's head")]
    // SAFETY: it is null, or this thread runs a part of it, and it ends after that.
    unsafe { computation.as_ref() }.is_some_and(|it| it.cancelled.is_set())
}
