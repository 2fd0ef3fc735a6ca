//! What a look reads of a worker.
//!
//! Two steps, since most workers of a runtime are of no interest to a look: a [`View`] is a few
//! loads, and is filled for each worker. What costs more is a question of [`Ask`]: a load of a
//! cache line that is rarely touched, a walk over all workers, 0.3 us for a CPU clock, 3 us for the
//! reason why a thread stands still. `classify.rs` asks it if the answer matters.

use std::cell::Cell;

use ws_reactor::ThreadId;

use crate::{
    permit::{
        env::{Env, PeerEnv},
        idle::WorkerState,
    },
    sched::{Shared, processor::Peer},
    sync::atomic::Ordering::Relaxed,
};

/// A worker at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// When that was, in nanoseconds of the runtime's clock.
    pub(super) now: u64,
    /// How many steps its thread has made.
    pub(super) ticks: u64,
    /// Its thread is in code of a user's.
    pub(super) polls: bool,
    pub(super) state: WorkerState,
    /// Its thread has announced that it blocks.
    pub(super) announced: bool,
    /// A permit is free.
    pub(super) spare: bool,
}

impl View {
    pub(super) fn of(shared: &Shared, peer: &Peer, now: u64) -> Self {
        Self {
            now,
            ticks: peer.progress.ticks.load(Relaxed),
            polls: peer.progress.running.load(Relaxed) != 0,
            state: peer.state.load(),
            announced: peer.flags.announced.load(Relaxed),
            spare: shared.idle.free() > 0,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.state == WorkerState::Running
    }

    /// Whether its permit was taken in the middle of a poll.
    pub(super) fn is_stuck(&self) -> bool {
        self.polls && self.state == WorkerState::Stuck
    }

    /// Whether it is in a poll that may hold up others.
    pub(super) fn is_in_a_poll(&self) -> bool {
        self.polls && (self.is_running() || self.is_stuck()) && !self.announced
    }
}

/// Questions about a worker, and about what the others need.
pub(super) trait Ask {
    /// The CPU time of its thread so far, if the system tells.
    fn cpu_time(&self) -> Option<u64>;
    /// Whether its thread, whose CPU time was `cpu` just now, is on no core at this moment.
    fn is_off_core(&self, cpu: Option<u64>) -> bool;
    /// Whether its thread waits for something other than a core. None: the system does not tell.
    fn is_waiting(&self) -> Option<bool>;
    /// How often its thread came to a fork after a thread had asked.
    fn came_by(&self) -> u64;
    /// Whether it is in a computation that forks.
    fn forks(&self) -> bool;
    /// Whether its thread computed at an earlier look.
    fn computed(&self) -> bool;
    /// Whether its `runnext` has a task.
    fn has_next(&self) -> bool;
    /// Whether its poll forked a child, which no thread has taken.
    fn has_child(&self) -> bool;
    /// *Others need one*, in the head of `monitor.rs`; its thread is `blocked` or computes.
    fn others_need_a_permit(&self, blocked: bool) -> bool;
    /// The same, for tasks alone.
    fn tasks_need_a_permit(&self) -> bool;
    /// Whether there may be one thread more that computes without a permit.
    fn may_have_one_more_detached(&self) -> bool;
}

/// What the others need, as far as it is the same for all workers of a look.
///
/// Each worker in a long poll asks for it, and the answer takes a walk over all workers: on a
/// machine with a thousand of them that all compute, each look would visit a million. So a look
/// walks once, and again after it has acted.
#[derive(Debug, Default)]
pub(super) struct Needs {
    tasks: Cell<Option<bool>>,
    branches: Cell<Option<bool>>,
}

impl Needs {
    /// What was seen before is not so any more.
    pub(super) fn forget(&self) {
        self.tasks.set(None);
        self.branches.set(None);
    }
}

/// The answer of a walk that is made once.
fn once(answer: &Cell<Option<bool>>, walk: impl FnOnce() -> bool) -> bool {
    let known = answer.get().unwrap_or_else(walk);
    answer.set(Some(known));
    known
}

/// Asks the runtime, and the system.
pub(super) struct Asked<'a> {
    pub(super) shared: &'a Shared,
    pub(super) peer: &'a Peer,
    pub(super) now: u64,
    pub(super) needs: &'a Needs,
}

impl Asked<'_> {
    /// Its thread waits, but its core works for it: see `in_place.rs`.
    fn starts_process(&self) -> bool {
        self.peer.flags.starts_process.load(Relaxed)
    }
}

impl Ask for Asked<'_> {
    fn cpu_time(&self) -> Option<u64> {
        self.shared.cpu_time_of(self.peer, self.now)
    }

    fn is_off_core(&self, cpu: Option<u64>) -> bool {
        cpu.is_some()
            && !self.starts_process()
            && match &self.shared.threads.sim_threads {
                None => cpu == self.cpu_time(),
                Some(sim_threads) => sim_threads.is_blocked(self.peer.index),
            }
    }

    fn is_waiting(&self) -> Option<bool> {
        if self.starts_process() {
            return Some(false);
        }
        match &self.shared.threads.sim_threads {
            None => thread(self.peer).is_waiting(),
            Some(sim_threads) => Some(sim_threads.is_waiting(self.peer.index)),
        }
    }

    fn came_by(&self) -> u64 {
        self.peer.progress.came_by.get()
    }

    fn forks(&self) -> bool {
        self.peer.forks()
    }

    fn computed(&self) -> bool {
        self.peer.flags.computes.get()
    }

    fn has_next(&self) -> bool {
        self.peer.queues.runnext.peek().is_some()
    }

    fn has_child(&self) -> bool {
        self.peer.queues.has_child()
    }

    fn others_need_a_permit(&self, blocked: bool) -> bool {
        let shared = self.shared;
        self.tasks_need_a_permit()
            || (blocked
                && once(&self.needs.branches, || {
                    shared.detached_count() == 0 && shared.awake_peers().any(PeerEnv::has_branch)
                }))
            || !shared.idle.wanting().is_empty()
    }

    fn tasks_need_a_permit(&self) -> bool {
        let shared = self.shared;
        let has_tasks = |peer: &Peer| peer.has_queued() || peer.has_parent();
        self.has_next()
            || shared.has_queued()
            || once(&self.needs.tasks, || {
                shared.awake_peers().any(has_tasks) || (shared.nobody_polls() && shared.awaits())
            })
    }

    fn may_have_one_more_detached(&self) -> bool {
        self.shared.may_have_one_more_detached()
    }
}

impl Shared {
    /// The CPU time of a P's thread, where the system tells. A virtual one computes, or is blocked.
    pub(super) fn cpu_time_of(&self, peer: &Peer, now: u64) -> Option<u64> {
        match &self.threads.sim_threads {
            None => thread(peer).cpu_time_ns(),
            Some(sim_threads) => Some(sim_threads.cpu_time(peer.index, now)),
        }
    }
}

fn thread(peer: &Peer) -> ThreadId {
    ThreadId::from_u32(peer.thread.number.load(Relaxed))
}
