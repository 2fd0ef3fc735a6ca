//! *Calm*: where only computations that fork go on, sysmon looks every 4 ms and not every
//! millisecond.
//!
//! A look costs two computing cores some 30 us in a virtual machine, most of it the timer and the
//! switches. That is 2 to 5 % of what a computation takes. Such a computation has nothing for
//! sysmon to do, but to find out that one of its threads blocks. A quicksort, a mergesort and a
//! matrix product on two workers went at 0.98, 0.97 and 0.98 of rayon's speed, or 0.85, 0.97 and
//! 0.95, and then at 1.00, 1.01 and 1.00, or 0.97, 0.99 and 0.99 (two runs of each, in turn,
//! medians of three).
//!
//! It is calm if all of this holds:
//!
//! - no permit is free;
//! - every thread that has one is in a computation that forks, and was on its core for nine tenths
//!   of the time since the last look;
//! - there is nothing else: no task in any queue, no timer, no source of events, no thread without
//!   a permit that computes or wants one.
//!
//! So a leaf that reads for 3 ms and computes for one is seen not to compute, although its CPU time
//! moves from each look to the next. Then sysmon looks every millisecond again for some time: two
//! such looks see which thread blocks.
//!
//! What is later then, by 3 ms at most: a task that a computation leaves in its own queue, the
//! first timer, and the first source. A thread that pushes a task for all wakes sysmon: *A long
//! rest* in `idle.rs`.
//!
//! Rejected: the same without a look at the CPU time as a share, which came to the wrong end for
//! that leaf; and to sleep for longer than *crowded* does.

use std::time::Duration;

use super::super::{
    Shared,
    ground::{Bed, Ground},
    idle::Stands,
    processor::Peer,
};
use crate::sync::atomic::Ordering::Relaxed;

/// The longest period while it is calm.
pub(super) const CALM: Duration = Duration::from_millis(4);
/// Of the time of a thread that computes, it is on its core for nine parts of ten.
const OF: u64 = 10;
const COMPUTES: u64 = 9;
/// Number of looks for which it is not calm after a thread was seen that does not compute. Guessed.
pub(super) const RESTLESS_LOOKS: u32 = 8;

/// What sysmon remembers for that.
#[derive(Default)]
pub(super) struct Calm {
    /// The time of the last look, and the CPU time of each P's thread then, if that had a permit.
    pub(super) before: (u64, Vec<Option<u64>>),
    restless: u32,
    holds: bool,
}

impl Calm {
    pub(super) fn holds(&self) -> bool {
        self.holds
    }

    /// The thread of a P has gone.
    pub(super) fn forget(&mut self, index: usize) {
        if let Some(before) = self.before.1.get_mut(index) {
            *before = None;
        }
    }

    /// At a look.
    pub(super) fn look(&mut self, shared: &Shared, now: u64) {
        self.restless = self.restless.saturating_sub(1);
        let (then, before) = &mut self.before;
        let elapsed = now - std::mem::replace(then, now);
        let nothing_else = shared.idle.free() == 0
            && shared.idle.wanting().is_empty()
            && !shared.has_queued()
            && !shared.awaits();
        if !nothing_else {
            // The CPU clocks are not read either.
            before.clear();
            self.holds = false;
            return;
        }
        let mut holds = true;
        for peer in shared.peers() {
            before.resize(shared.peer_count(), None);
            let before = &mut before[peer.index];
            let stands = peer.standing.load();
            let cpu = match stands {
                Stands::Running => shared.cpu_time_of(peer, now),
                _ => None,
            };
            let before = std::mem::replace(before, cpu);
            let used = cpu
                .zip(before)
                .map(|(cpu, before)| cpu.saturating_sub(before));
            if used.is_some_and(|used| OF * used < COMPUTES * elapsed) {
                self.restless = RESTLESS_LOOKS;
            }
            holds &= match stands {
                Stands::Running => used.is_some() && peer.only_forks(),
                Stands::Stuck => peer.running.load(Relaxed) == 0,
                _ => true,
            };
        }
        self.holds = holds && self.restless == 0;
    }
}

impl Peer {
    /// Whether its thread is in a computation that forks, and there is no task of its own beside
    /// that.
    fn only_forks(&self) -> bool {
        self.running.load(Relaxed) != 0
            && self.forks()
            && !self.has_queued()
            && !self.has_parent()
            && self.runnext.peek().is_none()
    }
}
