//! The monitor's part in *Detached computations* (`fork_join/owner.rs`): which threads compute
//! without a permit, and which computations give theirs up to tasks.

use super::observe::Ask;
use crate::{
    permit::env::{Env, PeerEnv},
    policy::{
        constants::{COMPUTES_PART, FORK_SLICE, LOOK_NS},
        forks::may_detach_one_more,
    },
    sched::{Shared, processor::Peer},
};

/// CPU time of a worker's thread at a look that is at least one period back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Share {
    /// When that look was, in nanoseconds of the runtime's clock.
    then: u64,
    pub(super) cpu: Option<u64>,
}

impl Share {
    pub(super) fn begin(now: u64, cpu: Option<u64>) -> Self {
        Self { then: now, cpu }
    }

    /// At a look at `now`: if the clock went back behind that look, it was just now.
    pub(super) fn begins_at_most(&mut self, now: u64) {
        self.then = self.then.min(now);
    }

    /// Whether the thread computes, which has used `cpu` by now. None if that is not known yet: a
    /// look itself takes a core away. If the system does not tell, it does not.
    pub(super) fn computes(&mut self, now: u64, cpu: Option<u64>) -> Option<bool> {
        let Some(used) = cpu else {
            return Some(false);
        };
        let Self { then, cpu: before } = *self;
        if before.is_some() && now.saturating_sub(then) < LOOK_NS {
            return None;
        }
        *self = Self::begin(now, cpu);
        before.map(|before| COMPUTES_PART * used.saturating_sub(before) >= now.saturating_sub(then))
    }
}

/// How to mark a worker that is stuck without a permit, and was seen to compute or not. None: as it
/// is.
pub(super) fn new_mark(computes: bool, cpu: Option<u64>, ask: &impl Ask) -> Option<bool> {
    // A thread that was off its core for that long may have waited for one.
    let is_off = || cpu.is_none() || ask.is_waiting() == Some(true);
    (computes || (ask.computed() && is_off())).then_some(computes)
}

/// Whether a computation that forks gives its permit up to tasks after that time.
pub(super) fn gives_way(lasted: u64, ask: &impl Ask) -> bool {
    lasted >= FORK_SLICE.as_nanos() as u64 && ask.may_have_one_more_detached()
}

impl Shared {
    /// Marks whether a P's thread computes without a permit. If it does no more, its core is free,
    /// and a thread may have slept for want of one.
    pub(super) fn set_detached(&self, peer: &Peer, computes: bool) {
        if peer.flags.computes.get() != computes {
            peer.flags.computes.set(computes);
            if !computes {
                self.peers().for_each(PeerEnv::ask_at_next_fork);
            }
        }
    }

    /// Whether there may be one more.
    pub(super) fn may_have_one_more_detached(&self) -> bool {
        let (idle, detached) = (&self.idle, self.detached_count());
        may_detach_one_more(detached, idle.wanting().len(), idle.workers())
    }
}
