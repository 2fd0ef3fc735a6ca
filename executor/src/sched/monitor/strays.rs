//! Threads that compute without a permit, and computations that give theirs up for that: sysmon's
//! part in *Strays* (`fork_join/owner.rs`).

use super::{LOOK_NS, Monitor, Seen};
use crate::{
    fork_join::FORK_SLICE,
    sched::{
        Shared,
        ground::{Bed, Ground},
        processor::Peer,
    },
    sync::atomic::Ordering::Relaxed,
};

impl Seen {
    /// Whether its thread was on a core for a quarter of the time at least. None if that is not
    /// known yet: a look itself takes a core away. Where the system does not tell, it was not.
    pub(super) fn computes(&mut self, now: u64) -> Option<bool> {
        let Some(cpu) = self.cpu else {
            return Some(false);
        };
        let (then, before) = self.before;
        let short = before.is_some() && now - then < LOOK_NS;
        if short {
            return None;
        }
        self.before = (now, self.cpu);
        before.map(|before| 4 * cpu.saturating_sub(before) >= now - then)
    }
}

impl Shared {
    /// Says whether a P's thread computes without a permit. If it does no more, its core is free,
    /// and a thread may have slept for want of one.
    pub(super) fn set_stray(&self, peer: &Peer, computes: bool) {
        if peer.computes.load(Relaxed) != computes {
            peer.computes.store(computes, Relaxed);
            if !computes {
                self.peers().for_each(Bed::give_way);
            }
        }
    }

    /// A P's thread is stuck without a permit, and was seen to compute or not: whether it is one of
    /// them.
    pub(super) fn look_at_stray(&self, peer: &Peer, cpu: Option<u64>, computes: Option<bool>) {
        let Some(computes) = computes else {
            return;
        };
        // A thread that was off its core for that long may have waited for one.
        let is_off = || cpu.is_none() || self.is_waiting(peer);
        if computes || (peer.computes.load(Relaxed) && is_off()) {
            self.set_stray(peer, computes);
        }
    }
}

impl Monitor {
    /// Whether a computation that forks gives its permit up to tasks after that time.
    pub(super) fn gives_way(&self, after: u64) -> bool {
        let idle = &self.shared.idle;
        after >= FORK_SLICE.as_nanos() as u64 && {
            let strays = self.shared.strays();
            strays < idle.workers().div_ceil(2) && strays + idle.wanting().len() < idle.workers()
        }
    }
}
