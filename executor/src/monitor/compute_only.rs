//! *Compute only*: only computations that fork go on, so the monitor looks less often
//! (`policy/pace.rs`).
//!
//! A look costs two computing cores some 30 us in a virtual machine, most of it the timer and the
//! switches. That is 2 to 5 % of what a computation takes. The monitor has nothing to do for such a
//! computation, but to find out that one of its threads blocks.
//!
//! The runtime is *compute-only* if all of this holds:
//!
//! - no permit is free;
//! - every thread that has one is in a computation that forks, and was on its core for nine tenths
//!   of the time since the last look;
//! - nothing else goes on: no task in any queue, no timer, no source of events, no thread without a
//!   permit that computes or wants one.
//!
//! So a leaf that reads for 3 ms and computes for one is seen not to compute, although its CPU time
//! moves from each look to the next. Then the monitor looks every millisecond again for some time:
//! two such looks see which thread blocks.
//!
//! The price is that three things are later by at most 3 ms: a task that a computation leaves in
//! its own queue, the first timer, and the first source. A thread that pushes a task for all wakes
//! the monitor: *A long rest* in `permit/idle.rs`.
//!
//! What was measured and what was rejected: `docs/decisions/2026-11-24-monitor.md`.

use crate::{
    permit::{
        env::{Env, PeerEnv},
        idle::WorkerState,
    },
    policy::{
        Heuristic,
        constants::{COMPUTE_ONLY_OF, COMPUTE_ONLY_PARTS, RESTLESS_LOOKS},
    },
    sched::{Shared, processor::Peer},
    sync::atomic::Ordering::Relaxed,
};

/// A worker, as far as it matters for whether the runtime is compute-only.
#[derive(Clone, Copy, Debug)]
pub(super) enum Does {
    /// It has a permit.
    Runs {
        cpu: Option<u64>,
        /// It is in a computation that forks, and no other task is its own.
        only_forks: bool,
    },
    /// It lost its permit in the middle of a poll.
    Stuck,
    Nothing,
}

impl Does {
    fn of(shared: &Shared, peer: &Peer, now: u64) -> Self {
        match peer.state.load() {
            WorkerState::Running => Self::Runs {
                cpu: shared.cpu_time_of(peer, now),
                only_forks: peer.only_forks(),
            },
            WorkerState::Stuck if peer.progress.running.load(Relaxed) != 0 => Self::Stuck,
            _ => Self::Nothing,
        }
    }
}

/// What the monitor remembers for that.
#[derive(Default)]
pub(super) struct ComputeOnly {
    /// When the last look was, in nanoseconds of the runtime's clock.
    then: u64,
    /// The CPU time of each worker's thread then, if it had a permit.
    pub(super) cpu: Vec<Option<u64>>,
    restless: u32,
    holds: bool,
}

impl ComputeOnly {
    pub(super) fn holds(&self) -> bool {
        self.holds
    }

    /// The thread of a worker has gone.
    pub(super) fn forget(&mut self, index: usize) {
        if let Some(cpu) = self.cpu.get_mut(index) {
            *cpu = None;
        }
    }

    /// At a look.
    pub(super) fn look(&mut self, shared: &Shared, now: u64) {
        let only_workers = shared.idle.free() == 0
            && shared.idle.wanting().is_empty()
            && !shared.has_queued()
            && !shared.awaits();
        // If there is anything else, the CPU clocks are not read either.
        let workers = only_workers.then(|| {
            let peers = shared.peers();
            peers.map(|peer| (peer.index, Does::of(shared, peer, now)))
        });
        self.judge(now, workers);
    }

    /// Whether the runtime is compute-only, by what the workers do. Their indices come with that.
    /// None: something else goes on.
    pub(super) fn judge(&mut self, now: u64, workers: Option<impl Iterator<Item = (usize, Does)>>) {
        self.restless = self.restless.saturating_sub(1);
        let elapsed = now.saturating_sub(std::mem::replace(&mut self.then, now));
        let Some(workers) = workers else {
            self.cpu.clear();
            self.holds = false;
            return;
        };
        let mut only_forks = true;
        for (index, does) in workers {
            only_forks &= match does {
                Does::Runs { cpu, only_forks } => {
                    let used = self.used(index, cpu);
                    if used
                        .is_some_and(|used| COMPUTE_ONLY_OF * used < COMPUTE_ONLY_PARTS * elapsed)
                    {
                        self.restless = RESTLESS_LOOKS;
                    }
                    used.is_some() && only_forks
                }
                Does::Stuck | Does::Nothing => {
                    self.forget(index);
                    matches!(does, Does::Nothing)
                }
            };
        }
        self.holds = Heuristic::ComputeOnly.is_on() && only_forks && self.restless == 0;
    }

    /// How much CPU time a worker's thread has used since the last look, if it had a permit then.
    fn used(&mut self, index: usize, cpu: Option<u64>) -> Option<u64> {
        if self.cpu.len() <= index {
            self.cpu.resize(index + 1, None);
        }
        let before = std::mem::replace(&mut self.cpu[index], cpu);
        let used = cpu.zip(before);
        used.map(|(cpu, before)| cpu.saturating_sub(before))
    }
}

impl Peer {
    /// Whether its thread is in a computation that forks, and there is no task of its own beside
    /// that.
    fn only_forks(&self) -> bool {
        self.progress.running.load(Relaxed) != 0
            && self.forks()
            && !self.has_queued()
            && !self.has_parent()
            && self.queues.runnext.peek().is_none()
    }
}
