//! The search for others' work: up to four rounds over all other Ps, as a spinner, and what a
//! thread does before it gives up. Also *the rescue steal* (`find.rs`).
//!
//! A round goes over all other Ps whose thread was awake when the search began (`permit/allp.rs`,
//! *A parked P is empty* in `permit/idle.rs`), in a random order. If the machine has several nodes,
//! those whose thread runs on the node of this one come first, then all others (`nodes.rs`). It
//! takes from each in this order: the oldest task that waits for a child that it forked, half of
//! its local queue, a branch of a join that it shares. The first round leaves branches alone: a P
//! that computes nearly always shares one, and tasks of others come before it. The other rounds
//! leave them alone while there is no core for one more thread that computes (*Detached
//! computations* in `fork_join/owner.rs`). Only the fourth round also takes the P's
//! `runnext`, and only if the P has not moved since the first: a task there is about to run. The
//! thread looks for ordered tasks before a round (those above the default) and after it
//! (`priority.rs`). At the end it fires the timers of all Ps.
//!
//! A worker may lose its permit in the middle of this. It may lend it to a thread that wants one,
//! or the monitor takes it because it saw no progress of this thread. So the caller looks at the
//! permit again, whatever was found (`beyond_local`).

use std::cell::Ref;

use super::{
    priority::{ABOVE, ANY},
    processor::Peer,
    shared::Processors,
    state::seen::Seen,
    worker::Worker,
};
use crate::{
    bit_set::bits,
    branch::{Branch, BranchDeque},
    cell::Task,
    note::event,
    permit::{env::Env, sleep::Sleeper},
    policy::{
        Heuristic,
        constants::{RESCUE_LOOKS, RUNNEXT_WAIT, SPIN_PAUSES},
        search::{Passed, ROUNDS, RunNextIs, looks_before_park, may_spin_before_park, rescued_max},
    },
    queue::{Batch, Steal, Token},
    rng::{Rng, random_order},
    sync::{atomic::Ordering::Relaxed, hint},
};

/// What a search came to.
pub(super) enum Search {
    Found(Task),
    Branch(Branch),
    Again,
    Nothing,
}

/// The numbers below `len`, each once: those below `near` first.
fn near_first(rng: &Rng, near: usize, len: usize) -> impl Iterator<Item = usize> {
    let far = (near < len).then(|| random_order(rng, len - near));
    random_order(rng, near).chain(far.into_iter().flatten().map(move |at| near + at))
}

impl Worker {
    /// Up to four rounds over all other Ps that are awake.
    pub(super) fn search(&self) -> Search {
        if !self.begin_search() {
            return Search::Nothing;
        }
        self.peer().counters.searches.add(1);
        let own = self.peer().index;
        let near = self.list_near_first();
        let listed = self.seen.listed.borrow();
        let mut seen = self.seen.victims.borrow_mut();
        seen.clear();
        seen.extend(listed.iter().copied().map(Seen::new));
        drop(listed);
        let ordered = self.shared.queues.ordered.is_used();
        // See *Detached computations* in `fork_join/owner.rs`.
        let computes = self.shared.could_take() > 0;
        // Without a victim each round is as the first.
        let is_alone = seen.iter().all(|victim| victim.index == own);
        let rounds = if is_alone { 1 } else { ROUNDS.len() };
        for round in ROUNDS.into_iter().take(rounds) {
            if ordered && let Some(task) = self.steal_ordered(ABOVE) {
                return Search::Found(task);
            }
            for row in near_first(&self.p.rng, near, seen.len()) {
                let at = seen[row].index;
                if at == own {
                    continue;
                }
                self.peer().counters.victims.add_one();
                let victim = self.shared.peer(at);
                if let Some(parent) = victim.queues.parents.steal() {
                    event!(self, ParentStolen, parent.header(), at);
                    self.count_steal(1);
                    return Search::Found(parent);
                }
                if let Some(task) = self.steal_half(victim) {
                    return Search::Found(task);
                }
                let branches = round.branches && computes;
                if branches && victim.queues.branch_deque.has_shared() && self.gives_way() {
                    return Search::Nothing;
                }
                if branches {
                    self.shared.processors.before_claim.reached();
                    if let Some(branch) = BranchDeque::take(&victim.queues.branch_deque) {
                        event!(self, BranchStolen, (), at);
                        self.count_steal(1);
                        return Search::Branch(branch);
                    }
                }
                if computes && round.asks(victim.queues.branch_deque.has_shared()) {
                    victim.queues.branch_deque.ask();
                }
                match round.runnext {
                    RunNextIs::Noted => {
                        seen[row].next = victim.queues.runnext.peek();
                        seen[row].ticks = victim.progress.ticks.load(Relaxed);
                    }
                    RunNextIs::Taken => {
                        let Seen { next, ticks, .. } = seen[row];
                        if let Some(token) = next
                            && self.stays(victim, token, ticks)
                            && let Some(task) = victim.queues.runnext.steal(token)
                        {
                            event!(self, RunNextStolen, task.header(), at);
                            self.count_steal(1);
                            return Search::Found(task);
                        }
                    }
                    RunNextIs::Left => {}
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
        let at_most = rescued_max(brought, self.p.lrq.room());
        if at_most == 0 || self.shared.queues.ordered.is_used() || !Heuristic::RescueSteal.is_on() {
            return;
        }
        // This thread has just looked.
        let now = self.shared.io.last_look.load(Relaxed);
        let near = self.list_near_first();
        let listed = self.seen.listed.borrow();
        let mut passed = self.seen.passed.borrow_mut();
        passed.resize(self.shared.peer_count(), Passed::NEVER);
        let rescued = near_first(&self.p.rng, near, listed.len())
            .map(|at| listed[at])
            .filter(|&at| at != self.index())
            .take(RESCUE_LOOKS)
            .any(|at| {
                let victim = self.shared.peer(at);
                let ticks = victim.progress.ticks.load(Relaxed);
                passed[at].stands_still(ticks, now) && self.rescue(victim, at_most)
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
        event!(self, Steal, first.header(), (victim.index << 32 | count));
        self.count_steal(count);
        self.push_quietly(first);
        tasks.for_each(|task| _ = self.push_quietly(task));
        true
    }

    /// The Ps that have a thread which is awake now, this one included, for a walk in a random
    /// order.
    pub(super) fn list(&self) -> Ref<'_, Vec<usize>> {
        self.list_near_first();
        self.seen.listed.borrow()
    }

    /// The same, with those of this thread's node in front. Returns how many these are.
    fn list_near_first(&self) -> usize {
        let mut listed = self.seen.listed.borrow_mut();
        listed.clear();
        let Processors { allp, placed, .. } = &self.shared.processors;
        let parked = self.shared.idle.parked();
        if !placed.are_several() {
            listed.extend(allp.occupied_without(parked));
            return listed.len();
        }
        let node = placed.node_of(self.index());
        let mut far = self.seen.far.borrow_mut();
        for (at, word) in allp.words_without(parked) {
            let (on_it, elsewhere) = placed.split(node, at, word);
            listed.extend(bits(64 * at, on_it));
            far.extend(bits(64 * at, elsewhere));
        }
        let near = listed.len();
        listed.append(&mut far);
        near
    }

    fn steal_half(&self, victim: &Peer) -> Option<Task> {
        match victim.queues.lrq.steal_into(&self.p.lrq) {
            Steal::Stolen { first, count } => {
                event!(self, Steal, first.header(), (victim.index << 32 | count));
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
        if !(may_spin_before_park(self.shared.idle.free(), self.shared.config.workers)
            && self.shared.threads.sim_threads.is_none()
            && self.spins()
            && self.p.backoffs.spin_backoff.is_due())
        {
            return false;
        }
        let found = (0..looks_before_park(self.shared.processors.allp.occupied_len())).any(|_| {
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
        self.time_steal(self.peer().counters.steals.get());
    }
}
