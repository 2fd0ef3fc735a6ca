//! How many tasks wait in the queues, for the recorder.

use crate::{
    note::event, permit::env::Env, policy::constants::PACE_SLOW, recorder::EventKind, sched::Shared,
};

/// What was recorded last.
#[derive(Default)]
pub(super) struct Queued {
    /// When the queues were counted, in nanoseconds of the runtime's clock.
    at: u64,
    count: u64,
}

impl Queued {
    /// Counts the tasks, at most once in 10 ms: each look would fill the recorder with that.
    pub(super) fn look(&mut self, shared: &Shared, now: u64) {
        if !shared.recorder().takes(EventKind::Queued.level())
            || now.saturating_sub(self.at) < PACE_SLOW.as_nanos() as u64
        {
            return;
        }
        self.at = now;
        let local: usize = shared.peers().map(|peer| peer.queues.lrq.len()).sum();
        let count = (shared.queues.grq.len() as u64) << 32 | local as u64;
        if count != self.count {
            self.count = count;
            event!(shared, Queued, (), count);
        }
    }
}
