//! Ticks of a steady period.

use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
};

use ws_executor::time as ws;

use super::{
    Duration, FAR, Instant, MissedTickBehavior,
    sleep::{poll, timer},
};
use crate::trace;

/// A tick that is no later than this was not missed.
const LATE: Duration = Duration::from_millis(5);

/// Ticks at once, and then once in each period.
///
/// # Panics
///
/// If the period is zero, outside of a runtime, and in one without timers.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Ticks at `start`, and then once in each period.
///
/// # Panics
///
/// If the period is zero, outside of a runtime, and in one without timers.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(period > Duration::ZERO, "`period` must be non-zero.");
    Interval {
        timer: timer(start),
        period: period.min(FAR),
        missed_tick_behavior: MissedTickBehavior::default(),
        resource: trace::Interval::new(),
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/time/struct.Interval.html).
///
/// That of `ws` counts every lateness, and this one none of less than five milliseconds.
#[derive(Debug)]
pub struct Interval {
    /// Its deadline is the next tick.
    timer: ws::Sleep,
    period: Duration,
    missed_tick_behavior: MissedTickBehavior,
    resource: trace::Interval,
}

impl Interval {
    /// Waits for the next tick, and returns when it was due.
    pub async fn tick(&mut self) -> Instant {
        let op = self.resource.tick();
        poll_fn(|cx| op.enter().polled("poll_tick", self.poll_tick(cx))).await
    }

    /// Polls for the next tick.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(poll(&mut self.timer, cx));
        let due = self.timer.deadline();
        self.timer.reset(self.next(due, Instant::now()));
        Poll::Ready(due)
    }

    /// When the tick after that of `due` is due, which is taken at `now`.
    fn next(&self, due: Instant, now: Instant) -> Instant {
        let late = now - due;
        match self.missed_tick_behavior {
            MissedTickBehavior::Delay if late > LATE => now + self.period,
            MissedTickBehavior::Skip if late > LATE => {
                let past = late.as_nanos() % self.period.as_nanos();
                // A period is less than 584 years long.
                now + (self.period - Duration::from_nanos(past as u64))
            }
            _ => due + self.period,
        }
    }

    /// Makes the next tick due in a period from now.
    pub fn reset(&mut self) {
        self.reset_at(Instant::now() + self.period);
    }

    /// Makes the next tick due now.
    pub fn reset_immediately(&mut self) {
        self.reset_at(Instant::now());
    }

    /// Makes the next tick due in a while.
    pub fn reset_after(&mut self, after: Duration) {
        self.reset_at(super::after(after));
    }

    /// Makes the next tick due at a moment.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.timer.reset(deadline);
    }

    /// What happens when ticks were missed.
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed_tick_behavior
    }

    /// Says what happens when ticks were missed.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed_tick_behavior = behavior;
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }
}
