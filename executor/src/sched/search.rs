//! The search for others' work: up to four rounds over all other Ps, as a spinner, and what a
//! thread does before it gives up. Also *the rescue steal* (`find.rs`).
//!
//! A round goes over all other Ps that had a thread when the search began (`allp.rs`), in a random
//! order. It takes from each in this order: the oldest task that waits for a child that it forked,
//! half of its local queue, a branch of a join that it shares. The first round leaves branches
//! alone: a P that computes nearly always shares one, and tasks of others come before it. The other
//! rounds leave them alone while there is no core for one more thread that computes (*Detached
//! computations* in `fork_join/owner.rs`). Only the fourth round also takes the P's `runnext`, and
//! only if the P has not moved since the first: a task there is about to run. The thread looks for
//! ordered tasks before a round (those above the default) and after it (`priority.rs`). At the end
//! it fires the timers of all Ps.
//!
//! A worker may lose its permit in the middle of this. It may lend it to a thread that wants one,
//! or the monitor takes it because it saw no progress of this thread. So the caller looks at the
//! permit again, whatever was found (`beyond_local`).

use std::{
    cell::{Ref, RefCell},
    time::Duration,
};

use super::{
    env::Env,
    events::event,
    priority::{ABOVE, ANY},
    processor::Peer,
    sleep::Sleeper,
    worker::Worker,
};
use crate::{
    cell::Task,
    fork_join::{Branch, BranchDeque},
    policy::Heuristic,
    queue::{Batch, Steal, Token},
    rng::random_order,
    sync::{atomic::Ordering::Relaxed, hint},
};

/// How long the last round of stealing waits for a victim to move on before it takes its `runnext`:
/// Go sleeps 3 us before each of its rounds (F4: about 12 us).
const RUNNEXT_WAIT: Duration = Duration::from_micros(10);
/// Number of Ps' queues that a spinner looks at again before it parks while others run, and pauses
/// of the core between two looks at all. Together they take about 5 us with two Ps here, a third of
/// what a wake-up costs. Measured with the fan-in and the spawn-join benchmarks: it halves the
/// parks of the second, and takes 10 % off the time of both. Three times as long gains no more.
const SPIN_LOOKS: usize = 256;
const SPIN_PAUSES: u32 = 4;
/// Number of other Ps that a worker looks at after the netpoll: each costs a load from another
/// core's cache.
const RESCUE_LOOKS: usize = 4;
/// Time without a tick after which a P stands still. Most polls are shorter, and a thread that the
/// system takes off its core is away for milliseconds.
pub(super) const RESCUE_AFTER: Duration = Duration::from_micros(100);

/// What a search came to.
pub(super) enum Search {
    Found(Task),
    Branch(Branch),
    Again,
    Nothing,
}

/// What the first round of a search saw of a victim.
#[derive(Debug)]
pub(super) struct Seen {
    index: usize,
    next: Option<Token>,
    ticks: u64,
}

impl Seen {
    fn new(index: usize) -> Self {
        Self {
            index,
            next: None,
            ticks: 0,
        }
    }
}

/// What a worker has seen of other Ps. The vectors keep their room from one search to the next.
#[derive(Default)]
pub(super) struct SeenOfOthers {
    /// In the first round of a search, a row a victim.
    victims: RefCell<Vec<Seen>>,
    /// See [`Worker::list`].
    listed: RefCell<Vec<usize>>,
    /// The ticks of every P when this worker last came by with something from the netpoll, and
    /// since when it has seen them.
    passed: RefCell<Vec<(u64, u64)>>,
}

impl Worker {
    /// Up to four rounds over all other Ps.
    pub(super) fn search(&self) -> Search {
        if !self.begin_search() {
            return Search::Nothing;
        }
        self.peer().counters.searches.add(1);
        let own = self.peer().index;
        let mut seen = self.seen.victims.borrow_mut();
        seen.clear();
        seen.extend(self.shared.processors.allp.occupied().map(Seen::new));
        let ordered = self.shared.queues.ordered.is_used();
        // See *Detached computations* in `fork_join/owner.rs`.
        let computes = self.shared.could_take() > 0;
        for round in 0..4 {
            if ordered && let Some(task) = self.steal_ordered(ABOVE) {
                return Search::Found(task);
            }
            for row in random_order(&self.p.rng, seen.len()) {
                let at = seen[row].index;
                if at == own {
                    continue;
                }
                #[cfg(test)]
                self.peer().counters.victims.add(1);
                let victim = self.shared.peer(at);
                if let Some(parent) = victim.queues.parents.steal() {
                    event!(self, ParentStolen, &parent, at);
                    self.count_steal(1);
                    return Search::Found(parent);
                }
                if let Some(task) = self.steal_half(victim) {
                    return Search::Found(task);
                }
                // Tasks of any P come first: a branch is a long poll, and its owner comes back to
                // it.
                let branches = round > 0 && computes;
                if branches && victim.queues.branch_deque.has_shared() && self.gives_way() {
                    return Search::Nothing;
                }
                #[cfg(test)]
                self.shared
                    .threads
                    .sim_threads
                    .as_ref()
                    .filter(|_| branches)
                    .inspect(|it| it.come_to_a_claim());
                if branches && let Some(branch) = BranchDeque::take(&victim.queues.branch_deque) {
                    event!(self, BranchStolen, &(), at);
                    self.count_steal(1);
                    return Search::Branch(branch);
                }
                if computes && (branches || !victim.queues.branch_deque.has_shared()) {
                    victim.queues.branch_deque.ask();
                }
                let (next, ticks) = (
                    victim.queues.runnext.peek(),
                    victim.progress.ticks.load(Relaxed),
                );
                match round {
                    0 => (seen[row].next, seen[row].ticks) = (next, ticks),
                    3 => {
                        let Seen { next, ticks, .. } = seen[row];
                        if let Some(token) = next
                            && self.stays(victim, token, ticks)
                            && let Some(task) = victim.queues.runnext.steal(token)
                        {
                            event!(self, RunNextStolen, &task, at);
                            self.count_steal(1);
                            return Search::Found(task);
                        }
                    }
                    _ => {}
                }
            }
            if ordered && let Some(task) = self.steal_ordered(ANY) {
                return Search::Found(task);
            }
            if self.shared.has_queued() || self.p.has_pinned() {
                return Search::Again;
            }
        }
        drop(seen);
        if self.fire_all_timers() > 0 {
            Search::Again
        } else {
            Search::Nothing
        }
    }

    /// See *The rescue steal* in `find.rs`. `brought` wakers from the netpoll are still to be
    /// woken.
    pub(super) fn rescue_steal(&self, brought: usize) {
        // What the netpoll brought has to fit behind the tasks taken: what overflows is what is in
        // front.
        let at_most = brought.min(self.p.lrq.room().saturating_sub(brought));
        if at_most == 0 || self.shared.queues.ordered.is_used() || !Heuristic::RescueSteal.is_on() {
            return;
        }
        // This thread has just looked.
        let now = self.shared.io.last_look.load(Relaxed);
        let listed = self.list();
        let mut passed = self.seen.passed.borrow_mut();
        passed.resize(self.shared.peer_count(), (u64::MAX, 0));
        let rescued = random_order(&self.p.rng, listed.len())
            .map(|at| listed[at])
            .filter(|&at| at != self.index())
            .take(RESCUE_LOOKS)
            .any(|at| {
                let victim = self.shared.peer(at);
                let ticks = victim.progress.ticks.load(Relaxed);
                let (before, since) = passed[at];
                if before != ticks {
                    passed[at] = (ticks, now);
                    return false;
                }
                since + RESCUE_AFTER.as_nanos() as u64 <= now && self.rescue(victim, at_most)
            });
        if rescued {
            // What the netpoll brought waits now, and perhaps more: the thread that looked last may
            // have missed it on its way.
            self.found_work();
            self.wake_one();
        }
    }

    /// Takes the oldest tasks of the victim's local queue. False if there are none.
    fn rescue(&self, victim: &Peer, at_most: usize) -> bool {
        let mut tasks = Batch::new();
        let count = victim.queues.lrq.take(at_most, |task| tasks.push(task));
        let mut tasks = tasks.into_list();
        let (Some(first), Some(count)) = (tasks.next(), count) else {
            return false;
        };
        event!(self, Steal, &first, (victim.index << 32 | count));
        self.count_steal(count);
        self.push_quietly(first);
        tasks.for_each(|task| _ = self.push_quietly(task));
        true
    }

    /// The Ps that have a thread now, this one included, for a walk in a random order.
    pub(super) fn list(&self) -> Ref<'_, Vec<usize>> {
        let mut listed = self.seen.listed.borrow_mut();
        listed.clear();
        listed.extend(self.shared.processors.allp.occupied());
        drop(listed);
        self.seen.listed.borrow()
    }

    fn steal_half(&self, victim: &Peer) -> Option<Task> {
        match victim.queues.lrq.steal_into(&self.p.lrq) {
            Steal::Stolen { first, count } => {
                event!(self, Steal, &first, (victim.index << 32 | count));
                self.count_steal(count);
                Some(first)
            }
            Steal::Empty | Steal::Busy => None,
        }
    }

    /// If others compute, a spinner that found nothing looks on for some microseconds: they may be
    /// about to push, and a sleep and a wake-up cost more than this. If that was mostly in vain, it
    /// mostly parks at once. True if there is something.
    pub(super) fn spin_before_park(&self) -> bool {
        // In a simulation no thread moves meanwhile.
        let others_run = self.shared.idle.free() + 1 < self.shared.config.workers
            && self.shared.threads.sim_threads.is_none();
        if !(Heuristic::SpinBeforePark.is_on()
            && others_run
            && self.spins()
            && self.p.backoffs.spin_backoff.is_due())
        {
            return false;
        }
        let found = (0..SPIN_LOOKS / self.shared.processors.allp.occupied_len()).any(|_| {
            (0..SPIN_PAUSES).for_each(|_| hint::spin_loop());
            self.shared.any_work()
        });
        self.p.backoffs.spin_backoff.settle(found);
        found
    }

    /// Waits a moment for a victim to come to its `runnext` by itself, unless the victim asked for
    /// a thief. True if the victim does not come.
    fn stays(&self, victim: &Peer, token: Token, ticks: u64) -> bool {
        let progress = &victim.progress;
        if progress.ticks.load(Relaxed) == ticks && progress.offered.load(Relaxed) == ticks {
            return true;
        }
        let until = self.until(RUNNEXT_WAIT);
        loop {
            if progress.ticks.load(Relaxed) != ticks || victim.queues.runnext.peek() != Some(token)
            {
                return false;
            }
            if self.now() >= until {
                return true;
            }
            self.shared.time.clock().pause();
        }
    }

    /// *Give way at a fork*: before this thread takes a branch, a thread that has begun with one
    /// goes on. True if the permit is gone.
    fn gives_way(&self) -> bool {
        if !self.shared.idle.wanting().is_empty() {
            self.lend_permit();
        }
        !self.peer().state.has_permit()
    }

    pub(super) fn count_steal(&self, tasks: usize) {
        self.peer().counters.steals.add(1);
        self.peer().counters.stolen.add(tasks as u64);
    }
}
