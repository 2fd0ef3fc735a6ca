//! The cooperative budget: how much a task may do in one poll before others get their turn (F2).
//!
//! A poll begins with `BUDGET` units. Every operation on a resource of `ws` that made progress (a
//! read, a tick, a joined task) costs one; when none is left, such an operation wakes its task and is
//! pending, so that the poll comes to its end and the task to the back of the queue. When the time
//! slice is over the budget is taken away at once: a worker's attention word says so. The first
//! operation of a poll is let through in any case, or a task that computes for a slice before it would
//! never get anywhere.
//!
//! Outside a task (in a foreign executor) there is no budget and nothing is limited.

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

use crate::context;

/// Units in a poll. As in tokio, where it was chosen by measuring; a power of two below 256.
const BUDGET: u8 = 128;

thread_local! {
    /// What is left; None: no limit.
    static LEFT: Cell<Option<u8>> = const { Cell::new(None) };
}

/// Runs a poll with a full budget.
pub(crate) fn with_budget<R>(poll: impl FnOnce() -> R) -> R {
    restore_after(Some(BUDGET), poll)
}

/// Runs `poll` without any budget.
pub(crate) fn unbudgeted<R>(poll: impl FnOnce() -> R) -> R {
    restore_after(None, poll)
}

fn restore_after<R>(budget: Option<u8>, poll: impl FnOnce() -> R) -> R {
    struct Restore(Option<u8>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let _restore = Restore(LEFT.replace(budget));
    poll()
}

/// A unit that was taken; given back when dropped, unless progress was made.
#[derive(Debug)]
#[must_use = "dropping it gives the unit back"]
pub struct Proceed {
    before: Option<u8>,
}

impl Proceed {
    /// The operation did something: the unit is spent.
    pub fn made_progress(mut self) {
        self.before = None;
    }
}

impl Drop for Proceed {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            LEFT.set(Some(before));
        }
    }
}

/// Takes a unit of the current poll's budget.
///
/// Pending when none is left, with the task woken already: return at once.
pub fn poll_proceed(cx: &mut Context<'_>) -> Poll<Proceed> {
    let Some(left) = LEFT.get() else {
        return Poll::Ready(Proceed { before: None });
    };
    if left == 0 || (left < BUDGET && slice_is_over()) {
        cx.waker().wake_by_ref();
        return Poll::Pending;
    }
    LEFT.set(Some(left - 1));
    Poll::Ready(Proceed { before: Some(left) })
}

/// Whether a task that computes for long should let others have a turn: its time slice is over.
///
/// False outside a task.
///
/// ```
/// assert!(!ws_executor::task::should_yield());
/// ```
pub fn should_yield() -> bool {
    LEFT.get().is_some() && slice_is_over()
}

fn slice_is_over() -> bool {
    context::with_worker(|worker| worker.is_some_and(|worker| worker.slice_is_over()))
}

pin_project! {
    /// A future that is polled without a budget. See [`unconstrained`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Unconstrained<F> {
        #[pin]
        future: F,
    }
}

/// Polls `future` without the cooperative budget: its operations never yield by themselves.
///
/// For code that must not be interrupted between two ready operations. It can starve others on its
/// thread for as long as it stays ready.
///
/// ```
/// # let runtime = ws_executor::runtime::Runtime::new().unwrap();
/// let three = runtime.block_on(ws_executor::task::unconstrained(async { 1 + 2 }));
/// assert_eq!(three, 3);
/// ```
pub fn unconstrained<F: Future>(future: F) -> Unconstrained<F> {
    Unconstrained { future }
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.project().future;
        unbudgeted(|| future.poll(cx))
    }
}
