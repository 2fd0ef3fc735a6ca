//! What is kept of polls that were measured; `measure.rs` says which they are.

use std::cell::Cell;

use crate::{
    metrics::{Durations, Measured},
    recorder::Named,
};

/// The histograms of one P.
#[derive(Debug, Default)]
pub(crate) struct Times {
    pub(crate) polls: Measured,
    pub(crate) waits: Measured,
    pub(crate) steals: Measured,
}

impl Times {
    /// Adds all of a P's to those of the runtime.
    pub(in crate::sched) fn add_to(&self, [polls, waits, steals]: &mut [Durations; 3]) {
        polls.add(&self.polls);
        waits.add(&self.waits);
        steals.add(&self.steals);
    }
}

/// What a worker keeps between two measured polls.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    /// The names of tasks that are in its ring.
    pub(in crate::sched) named: Named,
    /// The step at which the next poll of the sample is chosen.
    pub(in crate::sched) next: Cell<u64>,
    /// The next poll is one of the sample.
    pub(in crate::sched) is_chosen: Cell<bool>,
    /// The ticks of a steal, until the poll or the branch that follows, or the next sleep.
    pub(in crate::sched) stole_at: Cell<Option<u64>>,
    /// The ticks of all blocks that were announced in polls, and are over.
    pub(in crate::sched) blocked: Cell<u64>,
}
