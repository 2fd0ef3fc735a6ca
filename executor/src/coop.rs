//! Giving way: the budget of a poll, for operations that are not of `ws`.
//!
//! A task has a budget in each poll, and every operation of `ws` that is ready takes a unit of it.
//! When none is left, or the task's time slice is over, the next operation is pending and the task
//! goes to the back of the queue. So a loop over sockets that are always ready lets other tasks
//! run, and a [`timeout`](crate::time::timeout) around it fires.
//!
//! Other libraries' channels and locks know nothing of that. A loop over them that is always ready
//! never ends its poll: its neighbours wait until another thread takes them over, and a timeout
//! around it never fires. Three ways to make such a loop give way, from the simplest on:
//!
//! - [`consume_budget`]`().await` once in each round;
//! - [`cooperative`] around the future that is awaited;
//! - [`poll_proceed`] in the `poll` of your own operation.
//!
//! ```
//! use std::time::Duration;
//! use ws::{runtime::Runtime, task::coop, time};
//!
//! Runtime::new()?.block_on(async {
//!     let busy = async {
//!         loop {
//!             // As a lock of another library that is free each time.
//!             coop::cooperative(std::future::ready(())).await;
//!         }
//!     };
//!     assert!(time::timeout(Duration::from_millis(5), busy).await.is_err());
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The names are those of tokio's module. How many units there are is not promised; at present 128.

use std::{
    future::{Future, poll_fn},
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;

pub use crate::budget::{RestoreOnPending, Unconstrained, unconstrained};
use crate::{budget, context};

/// Takes a unit of the current poll's budget.
///
/// For the `poll` of an operation that may be ready without having waited. It asks before it does
/// anything; if it made progress, it says so with [`RestoreOnPending::made_progress`], and else the
/// unit is given back. Pending means that none is left, and that the task was woken already: return
/// at once. Outside a task there is no budget, and it is always ready.
///
/// ```
/// use std::task::{Context, Poll, ready};
/// use ws::task::coop;
///
/// /// Something that is often ready.
/// fn poll_next(stream: &mut Vec<u32>, cx: &mut Context<'_>) -> Poll<u32> {
///     let unit = ready!(coop::poll_proceed(cx));
///     match stream.pop() {
///         Some(n) => {
///             unit.made_progress();
///             Poll::Ready(n)
///         }
///         None => Poll::Pending, // A real one keeps the waker first.
///     }
/// }
///
/// let runtime = ws::runtime::Runtime::new().unwrap();
/// let mut stream = vec![1, 2, 3];
/// let last = runtime.block_on(std::future::poll_fn(|cx| poll_next(&mut stream, cx)));
/// assert_eq!(last, 3);
/// ```
pub fn poll_proceed(cx: &mut Context<'_>) -> Poll<RestoreOnPending> {
    budget::poll_take(cx, slice_is_over)
}

/// Whether the current poll has a unit left: false says that [`poll_proceed`] would be pending.
/// (Not so after a thousand refusals in one poll: then one more is granted, since something in it
/// polls again and again.)
///
/// True outside a task, where there is no budget.
///
/// ```
/// assert!(ws::task::coop::has_budget_remaining());
/// ```
#[must_use]
pub fn has_budget_remaining() -> bool {
    budget::has_left(slice_is_over)
}

/// The begin of a combinator: pending once, if no unit is left. It takes none.
///
/// It asks only once: otherwise what a combinator holds, a deadline among it, would wait for as
/// long as a neighbour in the same task spends the budget in every poll.
pub(crate) fn poll_begin(begun: &mut bool, cx: &mut Context<'_>) -> Poll<()> {
    if !mem::replace(begun, true) {
        drop(ready!(poll_proceed(cx)));
    }
    Poll::Ready(())
}

/// Whether the time slice of the running task is over.
pub(super) fn slice_is_over() -> bool {
    context::with_worker(|worker| worker.is_some_and(|worker| worker.slice_is_over()))
}

pin_project! {
    /// The future of [`cooperative`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Coop<F> {
        #[pin]
        future: F,
    }
}

/// Makes a future take part in the budget: when it is ready it costs one unit.
///
/// If no unit is left, the future is not polled, and the task yields. What operations of `ws`
/// inside take counts as well, so there is nothing to wrap around those.
///
/// # Cancel safety
///
/// As that of `future`.
///
/// ```
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// let three = runtime.block_on(ws::task::coop::cooperative(async { 1 + 2 }));
/// assert_eq!(three, 3);
/// ```
pub fn cooperative<F: Future>(future: F) -> Coop<F> {
    Coop { future }
}

impl<F: Future> Future for Coop<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        drop(ready!(poll_proceed(cx)));
        let future = self.project().future;
        budget::charged(|| future.poll(cx))
    }
}

/// Takes a unit of the budget, and yields first if none is left.
///
/// For loops that wait for nothing of `ws` in a round. Outside a task it does nothing. It gives way
/// once at most: a neighbour in the same task that spends the whole budget in each poll does not
/// hold it up.
///
/// # Cancel safety
///
/// Cancel safe.
///
/// ```
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let mut sum = 0;
/// for n in 0..1000 {
///     sum += n;
///     ws::task::coop::consume_budget().await;
/// }
/// assert_eq!(sum, 499_500);
/// # });
/// ```
pub async fn consume_budget() {
    let mut begun = false;
    poll_fn(|cx| {
        ready!(poll_begin(&mut begun, cx));
        budget::charged(|| Poll::Ready(()))
    })
    .await;
}
