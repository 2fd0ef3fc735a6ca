//! Giving others their turn.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use crate::budget;
use crate::coop::slice_is_over;

/// Lets the tasks that wait behind this one run, and then goes on.
///
/// The task goes to the back of its worker's queue, which an idle worker may steal from. If that is
/// full (256 tasks), it goes to the back of the queue that all workers share. What waits there
/// already has its turns in between, and need not be over when the task goes on.
///
/// The root of a `block_on` has every second turn of its thread, if something else waits there.
///
/// # Cancel safety
///
/// Cancel safe.
///
/// ```
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// runtime.block_on(async {
///     ws::task::yield_now().await;
/// });
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Lets others run if this task's time slice is over; for loops that compute.
///
/// Costs one load when it is not due.
///
/// # Cancel safety
///
/// Cancel safe: there is nothing to lose.
///
/// ```
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let mut sum = 0u64;
/// for n in 0..10_000 {
///     sum += n;
///     if n % 1000 == 0 {
///         ws::task::yield_if_due().await;
///     }
/// }
/// # assert_eq!(sum, 49_995_000);
/// # });
/// ```
pub async fn yield_if_due() {
    if should_yield() {
        yield_now().await;
    }
}

/// Whether a task that computes should let others have a turn: its time slice is over.
///
/// False outside a task and the future of a `block_on`.
///
/// ```
/// assert!(!ws::task::should_yield());
/// ```
pub fn should_yield() -> bool {
    budget::is_limited() && slice_is_over()
}
