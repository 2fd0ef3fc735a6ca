//! Limits the time of a future.
//!
//! The future is polled first, so one that is ready at the last moment wins. Then the timer is
//! looked at, outside of the cooperative budget: otherwise a future that spends the whole budget in
//! each poll would never be stopped (F7).
//!
//! # The last poll
//!
//! *Invariant*: a timeout elapses only after its future was polled behind the deadline, and was not
//! refused a unit in that poll. A future that is refused has not said whether it is ready. So if
//! the deadline has passed and the budget refused something in the poll of the future, the future
//! is polled once more, with a whole budget of its own. If it spends that as well and is still
//! pending, the time is over.
//!
//! So a future that would be ready within one budget never loses to a deadline, whatever others in
//! its task have spent. The price is at most one budget more for each timeout that elapses.
//!
//! # What it pays
//!
//! A timeout costs one unit when it elapses, and one when its future is ready without having paid.
//! A timeout that begins asks for a unit. If none is left it yields once before it polls anything.
//! So a loop around `timeout(Duration::ZERO, ..)` or `timeout(.., ready(()))` ends its poll like
//! any other (F2). After that it asks no more: another future of the same task may spend the budget
//! in every poll, and the deadline holds all the same. Each timeout begins once and ends once, so
//! this lets no loop go on.

use std::error::Error;
use std::fmt;
use std::future::IntoFuture;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::time::{Instant, Sleep, current};
use crate::{budget, coop};

/// Runs a future for at most `duration`.
///
/// The result is the future's output, or [`Elapsed`] if the time was over first; the future is then
/// dropped with the [`Timeout`]. If both happen between two polls, the output wins, also if the
/// task has spent its [budget](crate::task::coop) by then: the future gets one more poll, with a
/// budget of its own. A deadline that is 500 years or more after the start of the runtime, as after
/// [`Duration::MAX`], never comes.
///
/// A future can only be stopped where it awaits: one that computes or blocks inside a poll is
/// stopped after that.
///
/// # Panics
///
/// Panics outside of a runtime.
///
/// # Cancel safety
///
/// Dropping the returned future drops the inner one. To keep it and what it has done so far, pass
/// `&mut future`, or take it back with [`Timeout::into_inner`].
///
/// ```
/// use std::time::Duration;
/// use ws::{runtime::Runtime, time};
///
/// Runtime::new()?.block_on(async {
///     let quick = time::timeout(Duration::from_secs(5), async { 7 });
///     assert_eq!(quick.await, Ok(7));
///
///     let slow = time::timeout(Duration::from_millis(1), time::sleep(Duration::from_secs(60)));
///     assert!(slow.await.is_err());
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    let timer = Sleep::after(current("timeout"), duration);
    Timeout::new(future.into_future(), timer)
}

/// Runs a future until `deadline` at the latest. See [`timeout`].
///
/// # Panics
///
/// Panics outside of a runtime.
///
/// # Cancel safety
///
/// As that of [`timeout`].
///
/// ```
/// use std::time::Duration;
/// use ws::{runtime::Runtime, time};
///
/// Runtime::new()?.block_on(async {
///     // One deadline for two steps.
///     let deadline = time::Instant::now() + Duration::from_secs(5);
///     let a = time::timeout_at(deadline, async { 1 }).await?;
///     let b = time::timeout_at(deadline, async { 2 }).await?;
///     assert_eq!(a + b, 3);
///     Ok::<(), time::Elapsed>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    let timer = Sleep::new(current("timeout_at"), deadline);
    Timeout::new(future.into_future(), timer)
}

pin_project! {
    /// The future of [`timeout`] and [`timeout_at`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        timer: Sleep,
        // It has asked for a unit.
        begun: bool,
    }
}

impl<F> Timeout<F> {
    fn new(future: F, timer: Sleep) -> Self {
        Self {
            future,
            timer,
            begun: false,
        }
    }

    /// Returns the future inside.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::{runtime::Runtime, time};
    ///
    /// Runtime::new()?.block_on(async {
    ///     let timeout = time::timeout(Duration::from_secs(1), std::future::ready(3));
    ///     assert_eq!(timeout.get_ref().clone().await, 3);
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns the future inside, to change it.
    #[must_use]
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Returns the moment at which the time is over.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.timer.deadline()
    }

    /// Gives the future back, and ends the timeout.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::{runtime::Runtime, time};
    ///
    /// Runtime::new()?.block_on(async {
    ///     let mut timeout = time::timeout(Duration::from_millis(1), Box::pin(async {
    ///         time::sleep(Duration::from_millis(5)).await;
    ///         "late"
    ///     }));
    ///     if (&mut timeout).await.is_err() {
    ///         // Too late for us, but somebody else wants to see the end of it.
    ///         assert_eq!(timeout.into_inner().await, "late");
    ///     }
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        ready!(coop::poll_begin(this.begun, cx));
        let before = budget::refusals();
        if let Poll::Ready(output) = budget::charged(|| this.future.as_mut().poll(cx)) {
            return Poll::Ready(Ok(output));
        }
        let was_refused = budget::refusals() != before;
        // Not in a closure, where a panic would not name the caller's line.
        ready!(this.timer.poll_unbudgeted(cx));
        budget::charged(|| {
            if was_refused && let Poll::Ready(output) = budget::renewed(|| this.future.poll(cx)) {
                return Poll::Ready(Ok(output));
            }
            Poll::Ready(Err(Elapsed(())))
        })
    }
}

/// The time of a [`timeout`] was over before its future was ready.
///
/// It converts into an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut).
///
/// ```
/// use std::{io, time::Duration};
/// use ws::{runtime::Runtime, time};
///
/// async fn read() -> io::Result<Vec<u8>> {
///     let bytes = time::timeout(Duration::from_millis(1), std::future::pending()).await?;
///     Ok(bytes)
/// }
///
/// let error = Runtime::new()?.block_on(read()).unwrap_err();
/// assert_eq!(error.kind(), io::ErrorKind::TimedOut);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}

#[cfg(test)]
mod tests;
