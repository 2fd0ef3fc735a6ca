//! Waiting for a moment.

use std::{
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio_real::task::coop;
use ws_executor::time as ws;

use super::{Duration, Instant, after};
use crate::{
    runtime::{SHUTTING_DOWN, time_handle},
    trace::Op,
};

/// Waits for a moment.
///
/// # Panics
///
/// Outside of a runtime, and in one without timers.
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        timer: timer(deadline),
        begun: false,
        op: Op::sleep(),
    }
}

/// Waits for a while.
///
/// # Panics
///
/// Outside of a runtime, and in one without timers.
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(after(duration))
}

pin_project! {
    /// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/time/struct.Sleep.html).
    #[project(!Unpin)]
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Sleep {
        timer: ws::Sleep,
        // It was polled or reset: as in tokio, the wait is not over before.
        begun: bool,
        op: Op,
    }
}

impl Sleep {
    /// The moment that it waits for.
    pub fn deadline(&self) -> Instant {
        self.timer.deadline()
    }

    /// Whether the wait is over.
    pub fn is_elapsed(&self) -> bool {
        self.begun && self.timer.is_elapsed()
    }

    /// Waits for another moment instead.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let this = self.project();
        *this.begun = true;
        this.op.reset(deadline);
        this.timer.reset(deadline);
    }

    /// Polls, whatever is left of the budget.
    pub(super) fn poll_unconstrained(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let op = this.op.enter();
        if !mem::replace(this.begun, true) {
            op.until(this.timer.deadline());
        }
        op.polled("poll_elapsed", poll_unconstrained(this.timer, cx))
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let op = this.op.enter();
        let first = !mem::replace(this.begun, true);
        let unit = ready!(op.polled("poll_elapsed", coop::poll_proceed(cx)));
        if first {
            op.until(this.timer.deadline());
        }
        ready!(op.polled("poll_elapsed", poll_unconstrained(this.timer, cx)));
        unit.made_progress();
        Poll::Ready(())
    }
}

/// A timer of the current runtime.
///
/// tokio counts whole milliseconds, rounded up. So one that begins at its deadline waits at its
/// first poll, and what is ready beside it comes first. Here it waits for the next look at the
/// timers. A clock that stands still stands at a whole millisecond: there it is over at once.
#[track_caller]
pub(super) fn timer(deadline: Instant) -> ws::Sleep {
    const MILLISECOND: Duration = Duration::from_millis(1);
    time_handle();
    let mut timer = ws::sleep_until(deadline);
    let before = Instant::now().checked_sub(MILLISECOND);
    if before.is_none_or(|before| before < deadline) {
        timer.arm_unseen();
    }
    timer
}

/// Polls by tokio's budget, and not by that of `ws` as well.
pub(super) fn poll(timer: &mut ws::Sleep, cx: &mut Context<'_>) -> Poll<()> {
    let unit = ready!(coop::poll_proceed(cx));
    ready!(poll_unconstrained(timer, cx));
    unit.made_progress();
    Poll::Ready(())
}

/// # Panics
///
/// If the runtime has ended, and the deadline has not passed.
fn poll_unconstrained(timer: &mut ws::Sleep, cx: &mut Context<'_>) -> Poll<()> {
    match ready!(timer.try_poll(cx)) {
        Ok(()) => Poll::Ready(()),
        Err(ws::ShutDown) => panic!("{SHUTTING_DOWN}"),
    }
}
