//! A time line that many runtimes with virtual clocks share.
//!
//! In a simulation a step takes no time, so all that happens in one moment has one time. Each
//! reading moves the time line on by [`STEP_NS`], whichever runtime reads. So records keep the
//! order in which they were made, also between runtimes, and a poll has a length that can be drawn.
//!
//! The simulation tells the line its time. The clocks of the runtimes do not move it: one that is
//! ahead of the others would take their records with it.
//!
//! *Invariant*: a time of the line is later than all before it, and not before the time of that
//! moment. It is ahead of that by at most [`STEP_NS`] for each reading before it in a row. Most
//! readings are for a record; a call that blocks is measured with two more.
//!
//! Rejected: to draw each poll a microsecond long. Hundreds of polls in one moment would run into
//! the arrival of their messages.

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
/// timeline.moves_to(1_000);
/// assert_eq!(timeline.next(), 1_000);
/// assert_eq!(timeline.next(), 1_100);
/// assert_eq!(timeline.last(), 1_100);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Timeline(Arc<Times>);

#[derive(Debug, Default)]
struct Times {
    now: AtomicU64,
    last: AtomicU64,
}

impl Timeline {
    /// The simulation has come to this time, in nanoseconds.
    pub fn moves_to(&self, now: u64) {
        self.0.now.fetch_max(now, Relaxed);
    }

    /// The time of what happens now, in nanoseconds.
    pub fn next(&self) -> u64 {
        // One thread steps all of them.
        let next = self.0.now.load(Relaxed).max(self.last() + STEP_NS);
        self.0.last.store(next, Relaxed);
        next
    }

    /// The last time that [`next`](Self::next) has given.
    pub fn last(&self) -> u64 {
        self.0.last.load(Relaxed)
    }
}
