//! Ticking again and again.
//!
//! An interval is a [`Sleep`] that is reset when it ends. It is armed only while a task waits for a
//! tick. A tick is always the moment it was due at, so that lateness does not add up, unless
//! `Delay` is asked for.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::stream::{FusedStream, Stream};

use crate::time::{Instant, Sleep, current};
use crate::timer::TimerHandle;

/// Ticks at once, and then every `period`.
///
/// What happens when ticks are missed is set with [`Interval::set_missed_tick_behavior`].
///
/// # Panics
///
/// Panics if `period` is zero, and outside of a runtime.
///
/// ```
/// use std::time::Duration;
/// use ws::{runtime::Runtime, time};
///
/// Runtime::new()?.block_on(async {
///     let mut interval = time::interval(Duration::from_millis(2));
///     let first = interval.tick().await;
///     let second = interval.tick().await;
///     assert_eq!(second - first, Duration::from_millis(2));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    check(period);
    let timers = current("interval");
    let start = Instant::from_std(timers.clock().now());
    Interval::new(timers, start, period)
}

/// Ticks at `start`, and then every `period`.
///
/// If `start` has passed, the first tick is ready at once, and the others count from `start`.
///
/// # Panics
///
/// Panics if `period` is zero, and outside of a runtime.
///
/// ```
/// use std::time::Duration;
/// use ws::{runtime::Runtime, time};
///
/// Runtime::new()?.block_on(async {
///     let start = time::Instant::now() + Duration::from_millis(2);
///     let mut interval = time::interval_at(start, Duration::from_millis(1));
///     assert_eq!(interval.tick().await, start);
///     assert_eq!(interval.tick().await, start + Duration::from_millis(1));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    check(period);
    Interval::new(current("interval_at"), start, period)
}

#[track_caller]
fn check(period: Duration) {
    assert!(
        period > Duration::ZERO,
        "the period of a ws::time::interval must not be zero"
    );
}

/// What an [`Interval`] does after ticks were missed, because the task did not ask for them in
/// time.
///
/// `Delay` counts every lateness, so the lateness of each tick adds up. (tokio's `Delay` overlooks
/// five milliseconds, and ticks early by as much after a late tick.)
///
/// With a period of 100 ms, and a tick that is taken 250 ms late, which is when 350 ms show on the
/// clock:
///
/// | | is due at | use it for |
/// | --- | --- | --- |
/// | `Burst` | 200, 300, 400, 500 | as many ticks as periods |
/// | `Delay` | 450, 550, 650 | never two ticks in less than a period |
/// | `Skip` | 400, 500, 600 | ticks at multiples of the period |
///
/// ```
/// use ws::time::MissedTickBehavior;
///
/// assert_eq!(MissedTickBehavior::default(), MissedTickBehavior::Burst);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissedTickBehavior {
    /// Catches up: missed ticks follow at once, one after the other.
    #[default]
    Burst,
    /// Counts the period from the late tick on.
    Delay,
    /// Leaves the missed ticks out and keeps to the beat.
    Skip,
}

impl MissedTickBehavior {
    /// When the tick after the one of `due` is due, if that one is taken at `now`.
    fn next(self, due: Instant, now: Instant, period: Duration) -> Instant {
        match self {
            Self::Burst => due.add_or_never(period),
            Self::Delay => now.add_or_never(period),
            Self::Skip => {
                let late = now.duration_since(due);
                now.add_or_never(period - remainder(late, period))
            }
        }
    }
}

/// `a % b` of durations.
fn remainder(a: Duration, b: Duration) -> Duration {
    const NANOS_PER_SEC: u128 = 1_000_000_000;
    let nanos = a.as_nanos() % b.as_nanos();
    let secs = u64::try_from(nanos / NANOS_PER_SEC).expect("less than `b`");
    let nanos = u32::try_from(nanos % NANOS_PER_SEC).expect("less than a second");
    Duration::new(secs, nanos)
}

/// Ticks of a steady period, made by [`interval`] and [`interval_at`].
///
/// It is also a [`Stream`] of its ticks, which never ends; so `interval.next()` and
/// `select_next_some()` of `futures::StreamExt` work on it directly, and no wrapper is needed.
///
/// ```
/// use std::time::Duration;
/// use futures::StreamExt;
/// use ws::{runtime::Runtime, time};
///
/// Runtime::new()?.block_on(async {
///     let ticks = time::interval(Duration::from_millis(1));
///     let three: Vec<time::Instant> = ticks.take(3).collect().await;
///     assert_eq!(three[2] - three[0], Duration::from_millis(2));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Interval {
    /// Waits for the next tick; its deadline is the tick's.
    sleep: Sleep,
    period: Duration,
    behavior: MissedTickBehavior,
}

impl Interval {
    pub(crate) fn new(timers: TimerHandle, start: Instant, period: Duration) -> Self {
        Self {
            sleep: Sleep::new(timers, start),
            period,
            behavior: MissedTickBehavior::default(),
        }
    }

    /// Waits for the next tick, and returns the moment at which it was due.
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future loses no tick: the next call waits for the same one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use futures::FutureExt;
    /// use ws::{runtime::Runtime, time};
    ///
    /// Runtime::new()?.block_on(async {
    ///     let (start, hour) = (time::Instant::now(), Duration::from_secs(3600));
    ///     let mut interval = time::interval_at(start + hour, hour);
    ///     assert!(interval.tick().now_or_never().is_none());
    ///     interval.reset_at(start + Duration::from_millis(3));
    ///     assert_eq!(interval.tick().await, start + Duration::from_millis(3));
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tick(&mut self) -> impl Future<Output = Instant> {
        Tick(self)
    }

    /// Polls for the next tick: ready with the moment at which it was due, or pending, and the task
    /// of `cx` is woken at the tick.
    ///
    /// For futures that are written by hand; see [`tick`](Self::tick).
    #[track_caller]
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(Pin::new(&mut self.sleep).poll(cx));
        let due = self.sleep.deadline();
        let next = self.behavior.next(due, self.sleep.now(), self.period);
        self.sleep.reset(next);
        Poll::Ready(due)
    }

    /// Makes the next tick due one period from now.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::{runtime::Runtime, time};
    ///
    /// Runtime::new()?.block_on(async {
    ///     let mut interval = time::interval(Duration::from_millis(2));
    ///     let before = time::Instant::now();
    ///     interval.reset();
    ///     assert!(interval.tick().await >= before + Duration::from_millis(2));
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Makes the next tick due now.
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// Makes the next tick due in `duration`; the period stays what it is.
    pub fn reset_after(&mut self, duration: Duration) {
        self.sleep.reset(self.sleep.now().add_or_never(duration));
    }

    /// Makes the next tick due at `deadline`; the period stays what it is.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.sleep.reset(deadline);
    }

    /// Returns the time between two ticks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::{runtime::Runtime, time};
    ///
    /// Runtime::new()?.block_on(async {
    ///     let interval = time::interval(Duration::from_millis(40));
    ///     assert_eq!(interval.period(), Duration::from_millis(40));
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns what happens after missed ticks.
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.behavior
    }

    /// Sets what happens after missed ticks. The default is [`MissedTickBehavior::Burst`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::{runtime::Runtime, time};
    ///
    /// Runtime::new()?.block_on(async {
    ///     let mut interval = time::interval(Duration::from_millis(1));
    ///     interval.set_missed_tick_behavior(time::MissedTickBehavior::Skip);
    ///     assert_eq!(interval.missed_tick_behavior(), time::MissedTickBehavior::Skip);
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.behavior = behavior;
    }
}

/// The next tick, awaited. It says where, if that panics.
struct Tick<'a>(&'a mut Interval);

impl Future for Tick<'_> {
    type Output = Instant;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        self.get_mut().0.poll_tick(cx)
    }
}

impl Stream for Interval {
    type Item = Instant;

    #[track_caller]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.get_mut().poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl FusedStream for Interval {
    fn is_terminated(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
