//! Waiting for a moment.
//!
//! # The life of a `Sleep`
//!
//! | state | fields | goes on |
//! | --- | --- | --- |
//! | unarmed | no key, not elapsed | first poll: elapsed if the deadline has passed already, else armed; see also [`UNCHECKED_MIN`] |
//! | armed | a key | fired, or reset to the past, or past its deadline when the runtime has shut down, and polled: elapsed; reset: armed, or unarmed if it had fired; dropped: cancelled |
//! | elapsed | not armed, elapsed | reset: unarmed |
//!
//! One that is never polled is never armed, so making a future and throwing it away costs a look at
//! the clock and a reference to the timers of this P.
//!
//! If the P that polls an unarmed sleep is of the runtime that the sleep was made in, it is armed
//! on that P. That is where its task runs, and an interval follows its task so. Polled anywhere
//! else (in another runtime, or in none), it is armed on the P it was made on, and works there as
//! well. Once armed it stays where it is until it fires; `shard` says which threads may touch it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::future::FusedFuture;

use crate::context;
use crate::policy::constants::UNCHECKED_MIN;
use crate::sync::Arc;
use crate::time::{Instant, current};
use crate::timer::heap::Key;
use crate::timer::shard::{Polled, ShutDown};
use crate::timer::{TimerHandle, TimerShard};
use crate::{budget, coop};

/// Waits until `duration` has passed.
///
/// It never ends early. A moment that is 500 years or more after the start of the runtime, as after
/// [`Duration::MAX`], never comes.
///
/// # Panics
///
/// Panics outside of a runtime.
///
/// # Cancel safety
///
/// Dropping the future disarms the timer, and nothing else happens. Awaiting a new `sleep` starts
/// the wait from the beginning; to go on with the same one, await `&mut sleep`.
///
/// ```
/// use std::time::{Duration, Instant};
/// use ws::{runtime::Runtime, time};
///
/// let start = Instant::now();
/// Runtime::new()?.block_on(async {
///     time::sleep(Duration::from_millis(5)).await;
/// });
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    let timers = current("sleep");
    Sleep::after(timers, duration)
}

/// Waits until `deadline`, and not at all if that has passed.
///
/// # Panics
///
/// Panics outside of a runtime.
///
/// # Cancel safety
///
/// Dropping the future disarms the timer, and nothing else happens; a new one for the same deadline
/// goes on where it was.
///
/// ```
/// use std::time::Duration;
/// use ws::{runtime::Runtime, time};
///
/// Runtime::new()?.block_on(async {
///     let deadline = time::Instant::now() + Duration::from_millis(5);
///     time::sleep_until(deadline).await;
///     assert!(time::Instant::now() >= deadline);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(current("sleep_until"), deadline)
}

/// The future of [`sleep`] and [`sleep_until`].
///
/// It can be [`reset`](Self::reset) to another deadline at any time, also after it has ended, which
/// is cheaper than a new one. It is `Unpin`, so a struct can hold one and poll it through
/// `Pin::new(&mut sleep)`, and a loop can await `&mut sleep` in one arm of a `select!`.
///
/// After it has ended, polling it again gives `Ready` again, or is pending while the budget of the
/// poll is spent, and [`FusedFuture::is_terminated`] is true until it is reset.
///
/// # Panics
///
/// Polling it after its runtime has shut down panics, if its deadline has not come before the poll.
///
/// ```
/// use std::time::Duration;
/// use ws::{runtime::Runtime, time};
///
/// Runtime::new()?.block_on(async {
///     let mut idle = time::sleep(Duration::from_secs(60));
///     // Something came in: the connection is not idle yet.
///     idle.reset(time::Instant::now() + Duration::from_millis(2));
///     (&mut idle).await;
///     assert!(idle.is_elapsed());
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    deadline: Instant,
    /// The timers it is armed on; while it is not armed, those it was last armed or made on.
    timers: TimerHandle,
    /// Our entry there. Present exactly while armed.
    key: Option<Key>,
    /// Whether a poll was ready since the last reset.
    elapsed: bool,
    /// Whether the first poll arms it unseen, see [`UNCHECKED_MIN`].
    unchecked: bool,
}

impl Sleep {
    /// Makes an unarmed sleep.
    pub(crate) fn new(timers: TimerHandle, deadline: Instant) -> Self {
        Self {
            deadline,
            timers,
            key: None,
            elapsed: false,
            unchecked: false,
        }
    }

    /// Makes an unarmed sleep of a length; a length without an end never ends.
    pub(crate) fn after(timers: TimerHandle, duration: Duration) -> Self {
        let now = Instant::from_std(timers.clock().now());
        let mut sleep = Self::new(timers, now.add_or_never(duration));
        sleep.unchecked = duration >= UNCHECKED_MIN;
        sleep
    }

    /// Has the first poll arm it, and wait, whatever time it is; unless the clock stands still.
    #[doc(hidden)]
    pub fn arm_unseen(&mut self) {
        self.unchecked = !self.timers.clock().is_frozen();
    }

    /// Returns the moment that this future waits for.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::{runtime::Runtime, time};
    ///
    /// Runtime::new()?.block_on(async {
    ///     let deadline = time::Instant::now() + Duration::from_secs(1);
    ///     assert_eq!(time::sleep_until(deadline).deadline(), deadline);
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Tells whether the wait is over.
    ///
    /// One that has been polled is over when the runtime has fired its timer, which may be shortly
    /// after its deadline.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::{runtime::Runtime, time};
    ///
    /// Runtime::new()?.block_on(async {
    ///     assert!(time::sleep(Duration::ZERO).is_elapsed());
    ///     assert!(!time::sleep(Duration::from_secs(1)).is_elapsed());
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        match &self.key {
            Some(key) => {
                let fired = || self.timers.is_fired(key);
                fired().unwrap_or_else(|ShutDown| self.has_passed())
            }
            None => self.elapsed || self.has_passed(),
        }
    }

    /// Waits for another deadline instead, earlier or later, also if the old one has passed.
    ///
    /// If the new one has passed, and is no later than the old one, the task that has polled it is
    /// woken here.
    ///
    /// A task that is waiting for this future is woken at the new deadline. It need not poll it
    /// again for that, unless the old one had passed. If the new deadline has passed, the next poll
    /// is ready. On a `Pin<&mut Sleep>`, `sleep.reset(deadline)` works as well.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::{runtime::Runtime, time};
    ///
    /// Runtime::new()?.block_on(async {
    ///     let mut sleep = time::sleep(Duration::MAX);
    ///     sleep.reset(time::Instant::now());
    ///     sleep.await;
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&mut self, deadline: Instant) {
        let forward = deadline <= self.deadline;
        self.deadline = deadline;
        self.elapsed = false;
        self.unchecked = false;
        let Some(key) = self.key.take() else {
            return;
        };
        // One that is put off, as the timeout of a connection is at each read, costs no look at the
        // clock.
        if forward && self.has_passed() {
            if let Some(waker) = self.timers.take(key) {
                waker.wake();
            }
            return;
        }
        let deadline = self.timers.clock().to_ns(deadline.into_std());
        self.key = self.timers.reset(key, deadline);
    }

    /// Returns the current time of the clock that this sleep goes by.
    pub(crate) fn now(&self) -> Instant {
        Instant::from_std(self.timers.clock().now())
    }

    /// Polls without regard to the budget: for callers that account for it themselves.
    #[track_caller]
    pub(crate) fn poll_unbudgeted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.try_poll(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(over) => over.panic(),
        }
    }

    /// The same, for callers that have something to say when the runtime of the timer has shut
    /// down.
    #[doc(hidden)]
    pub fn try_poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ShutDown>> {
        if self.key.is_none() {
            if self.elapsed || (!self.unchecked && self.has_passed()) {
                self.elapsed = true;
                return Poll::Ready(Ok(()));
            }
            context::with_timers(|here| self.move_to(here));
            let deadline = self.timers.clock().to_ns(self.deadline.into_std());
            match self.timers.arm(deadline, cx.waker().clone()) {
                Ok(key) => self.key = Some(key),
                Err(over) => return self.end(over),
            }
            budget::waits();
            return Poll::Pending;
        }
        match self.timers.poll(&mut self.key, cx.waker()) {
            Ok(Polled::Elapsed) => {
                self.elapsed = true;
                Poll::Ready(Ok(()))
            }
            Ok(Polled::Pending) => {
                budget::waits();
                Poll::Pending
            }
            Err(over) => self.end(over),
        }
    }

    /// Its runtime has shut down, and with it the timers. If its deadline has passed it has ended
    /// all the same.
    fn end(&mut self, over: ShutDown) -> Poll<Result<(), ShutDown>> {
        if !self.has_passed() {
            return Poll::Ready(Err(over));
        }
        self.key = None;
        self.elapsed = true;
        Poll::Ready(Ok(()))
    }

    fn has_passed(&self) -> bool {
        let clock = self.timers.clock();
        clock.to_ns(self.deadline.into_std()) <= clock.now_ns()
    }

    /// Takes the timers of the P that polls us for ours, unless they are of another runtime.
    fn move_to(&mut self, here: Option<&Arc<TimerShard>>) {
        debug_assert!(self.key.is_none(), "an armed sleep stays where it is");
        if let Some(here) = here
            && !self.timers.is_of(here)
            && here.is_sibling_of(&self.timers)
        {
            self.timers = TimerHandle::new(here.clone());
        }
    }
}

impl Future for Sleep {
    type Output = ();

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let proceed = ready!(coop::poll_proceed(cx));
        ready!(self.get_mut().poll_unbudgeted(cx));
        proceed.made_progress();
        Poll::Ready(())
    }
}

impl FusedFuture for Sleep {
    fn is_terminated(&self) -> bool {
        self.elapsed
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.timers.cancel(key);
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .field("armed", &self.key.is_some())
            .field("elapsed", &self.elapsed)
            .finish()
    }
}

#[cfg(test)]
mod tests;
