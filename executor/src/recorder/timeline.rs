//! A time line that many runtimes with virtual clocks share.
//!
//! On a virtual clock a step takes no time, so all that happens in one moment has one time. Each
//! record moves the time line on by [`STEP_NS`], whichever runtime writes it. So records keep the
//! order in which they were made, also between runtimes, and a poll has a length that can be drawn.
//!
//! *Invariant*: a time of the line is later than all before it, and not before the clock of that
//! moment. It is ahead of the clock by at most [`STEP_NS`] for each record before it in a row.
//!
//! Rejected: to draw each poll a microsecond long. Hundreds of polls in one moment would run into
//! the arrival of their messages.
#![cfg_attr(
    not(any(test, feature = "sim")),
    expect(unreachable_pub, reason = "simulations alone name it")
)]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Nanoseconds from a record to the next one of the same moment. Guessed: wide enough to be seen.
const STEP_NS: u64 = 100;

/// A time line that many machines share; clones are the same one. Its records are in the order in
/// which they were made.
///
/// ```
/// use ws_executor::sim::Timeline;
///
/// let timeline = Timeline::default();
/// assert_eq!(timeline.next(1_000), 1_000);
/// assert_eq!(timeline.next(1_000), 1_100);
/// assert_eq!(timeline.last(), 1_100);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Timeline(Arc<AtomicU64>);

impl Timeline {
    /// The time of what happens when the clock is at `now`. Both are in nanoseconds.
    pub fn next(&self, now: u64) -> u64 {
        // One thread steps all of them.
        let next = now.max(self.last() + STEP_NS);
        self.0.store(next, Relaxed);
        next
    }

    /// The last time that [`next`](Self::next) has given.
    pub fn last(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
