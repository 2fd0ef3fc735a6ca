//! A limit to the time of a future.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio_real::task::coop::has_budget_remaining;

use super::{Duration, Instant, Sleep, error::Elapsed, sleep_until};

/// Runs a future for a while at most.
///
/// # Panics
///
/// Outside of a runtime, and in one without timers.
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    let value = future.into_future();
    #[expect(
        clippy::manual_map,
        reason = "a panic in a closure would not name the caller's line"
    )]
    let delay = match Instant::now().checked_add(duration) {
        Some(deadline) => Some(sleep_until(deadline)),
        None => None,
    };
    Timeout { value, delay }
}

/// Runs a future until a moment at the latest.
///
/// # Panics
///
/// Outside of a runtime, and in one without timers.
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    let value = future.into_future();
    let delay = Some(sleep_until(deadline));
    Timeout { value, delay }
}

pin_project! {
    /// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/time/struct.Timeout.html).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Timeout<T> {
        #[pin]
        value: T,
        // None: no instant is so far.
        #[pin]
        delay: Option<Sleep>,
    }
}

impl<T> Timeout<T> {
    /// The future inside.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// The future inside.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Gives the future back.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T: Future> Future for Timeout<T> {
    type Output = Result<T::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let had_budget = has_budget_remaining();
        if let Poll::Ready(output) = this.value.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        let Some(delay) = this.delay.as_pin_mut() else {
            return Poll::Pending;
        };
        // A future that spends the budget in each poll is stopped nevertheless.
        if had_budget && !has_budget_remaining() {
            ready!(delay.poll_unconstrained(cx));
        } else {
            ready!(delay.poll(cx));
        }
        Poll::Ready(Err(Elapsed(())))
    }
}
