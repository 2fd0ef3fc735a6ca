//! `select!`, `join!` and `try_join!`: those of `futures`, with a part in the budget (F7).
//!
//! Each of them takes a unit when it begins, and yields first if none is left. So a loop around one
//! of them comes to the end of its poll, also when what it waits for is always ready and knows of
//! no budget.
//!
//! `join!` and `try_join!` poll all that they hold in a fixed order, and so give each a share of
//! what is left: the first could otherwise spend the whole budget in each poll, and the others
//! would never get on. `select!` polls in a random order. What a share is: `budget.rs` of the
//! executor, *Combinators*.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use ws_executor::budget;

/// Waits for several futures at once, and runs the branch of the first one that is ready.
///
/// It is `select!` of [`futures`](futures::select!), word for word: see there for all that it can
/// do. Its futures have to be `Unpin` and fused (`future.fuse()`, by `FutureExt` of `futures`), and
/// it takes the branches `complete` and `default`. If several are ready, one of them is drawn at
/// random: with the feature `sim` by the seed of the simulation.
///
/// What it has beyond that: it takes a unit of the task's [budget](crate::task::coop), and yields
/// first if none is left. So a loop around it gives way to other tasks, and to a timeout around the
/// loop, also when one of its futures is always ready. With a `default` branch it does not wait,
/// and takes none.
///
/// # Cancel safety
///
/// The futures that were not ready first are dropped if they were made in the branch, and go on
/// later if they were borrowed by name.
///
/// ```
/// use futures::FutureExt;
/// use std::time::Duration;
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let mut slow = std::pin::pin!(ws::time::sleep(Duration::from_secs(60)).fuse());
/// let answer = ws::select! {
///     n = std::future::ready(7).fuse() => n,
///     () = slow => 0,
/// };
/// assert_eq!(answer, 7);
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! select {
    ($($branches:tt)*) => {
        $crate::__private::select! { [$crate] $($branches)* }
    };
}

/// Polls several futures side by side in this task, until all are ready; gives a tuple of their
/// outputs.
///
/// It is `join!` of [`futures`](futures::join!), and takes part in the task's
/// [budget](crate::task::coop): it takes a unit, and yields first if none is left. Its futures
/// share the budget of a poll, so one that is always ready leaves the others their turn. A poll has
/// 128 units: where more futures than that are always ready, in all `join!`s around one another,
/// the last ones may wait for ever.
///
/// The futures run one at a time, on the same thread. For several threads there are
/// [`spawn`](crate::spawn), and [`join()`](crate::join()) for closures.
///
/// # Cancel safety
///
/// Dropping it drops all its futures, and the outputs of those that are ready.
///
/// ```
/// # ws::runtime::Runtime::new()?.block_on(async {
/// assert_eq!(ws::join!(async { 1 }, async { "two" }), (1, "two"));
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! join {
    ($($future:expr),* $(,)?) => {{
        $crate::task::coop::consume_budget().await;
        let mut _shares = $crate::__private::Shares::of([$($crate::__private::Shares::one(stringify!($future))),*]);
        $crate::__private::futures::join!($(_shares.next($future)),*)
    }};
}

/// Polls several futures side by side in this task, until all are `Ok` or one of them is `Err`.
///
/// It is `try_join!` of [`futures`](futures::try_join!), and takes part in the task's budget as
/// [`join!`] does.
///
/// # Cancel safety
///
/// Dropping it drops all its futures, and the outputs of those that are ready. So does the first
/// error.
///
/// ```
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let both = async { ws::try_join!(async { Ok(1) }, async { Err::<u32, _>("no") }) };
/// assert_eq!(both.await, Err("no"));
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! try_join {
    ($($future:expr),* $(,)?) => {{
        $crate::task::coop::consume_budget().await;
        let mut _shares = $crate::__private::Shares::of([$($crate::__private::Shares::one(stringify!($future))),*]);
        $crate::__private::futures::try_join!($(_shares.next($future)),*)
    }};
}

/// Shares of the budget for futures that are polled one after the other.
#[derive(Debug)]
pub struct Shares {
    left: usize,
}

impl Shares {
    /// One for each of so many futures.
    #[must_use]
    pub fn of<const N: usize>(_: [(); N]) -> Self {
        Self { left: N }
    }

    /// Counts a future by its text.
    pub fn one(_: &str) {}

    /// Gives its share to the next one, in the order in which they are polled.
    pub fn next<F: Future>(&mut self, future: F) -> Share<F> {
        self.left -= 1;
        Share {
            future,
            after: self.left,
        }
    }
}

pin_project! {
    /// A future that is polled with a share of the budget.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Share<F> {
        #[pin]
        future: F,
        after: usize,
    }
}

impl<F: Future> Future for Share<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        budget::poll_share(*this.after, || this.future.poll(cx))
    }
}
