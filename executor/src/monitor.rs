//! The monitor: a thread without a permit. One stuck task holds up no other, because the monitor
//! sees it (L2). Go calls it sysmon.
//!
//! It looks at every worker, rests, and looks again. A look has three parts for each worker:
//!
//! | part | file | what it is |
//! | --- | --- | --- |
//! | observe | `observe.rs` | a `View`: a few loads. What costs more is a question of the trait `Ask` |
//! | classify | `classify.rs` | a pure function of the view, the questions and what was `Seen` before. Its value is a `Verdict` |
//! | act | `act.rs` | does what the verdict says |
//!
//! How long the monitor rests is decided in `policy/pace.rs`. Three parts have a file each, and can
//! go without the others: `compute_only.rs`, `policy/short_wait.rs`, `detached.rs`.
//!
//! # What it sees, and what it does
//!
//! A worker's thread counts up its `ticks` at every step. If a worker runs, and its ticks are the
//! same at two looks, it is *in a long poll*, since the first of these looks.
//!
//! | after | and | the monitor |
//! | --- | --- | --- |
//! | one look | a timer of any worker is due for 100 us | fires it (F6). It wakes tasks and roots, and leaves other wakers to workers (`sched/foreign_wakers.rs`) |
//! | one look | a task is in its `runnext`, and a permit is free | wakes a thread, which steals that |
//! | one look, if its thread is blocked, or 10 ms | its poll forked a child, which is in `direct` | gives the child to others (J4) |
//! | one look, or *a short wait* | its thread is blocked, no permit is free, and others need one | revokes its permit |
//! | 10 ms | | asks it to yield (F2) |
//! | 10 ms | no permit is free, and others need one | revokes its permit. At most one a look of those that fork |
//! | 100 us | its poll forks, no permit is free, and tasks need one | revokes its permit, one a look (*Detached computations* in `fork_join/owner.rs`) |
//! | the threshold, without a fork | it has not announced that it blocks | reports a stall (`sched/stall.rs`) |
//!
//! *Others need one* if one of these holds:
//!
//! - tasks are queued, in this worker's own queue included;
//! - this worker's thread is blocked, and branches of a join are there to be taken (threads that
//!   compute take them in the end);
//! - a thread waits for a permit to go on;
//! - no thread waits in the netpoll although there is something to wait for;
//! - a thread waited there, had ready tasks, and found no permit for them. It then also wakes the
//!   monitor at once ([`Shared::need_permit`]).
//!
//! Two looks tell which thread is blocked. The second comes 20 us after the first in two cases:
//!
//! - a thread asked for a permit;
//! - others need one, and the first look saw a poll begin whose thread is on no core (its CPU clock
//!   is the same at two readings) and does not wait for one.
//!
//! *A stall* begins with its poll, or with a fork that the poll came to. It ends with the next fork
//! or with the poll: a computation that goes on forking is not stuck. A fork does not announce
//! itself, because that would cost every join a store. Therefore the monitor asks the branch deque
//! of each worker in a long poll, as a thief does (*Asks* in `branch/deque.rs`). The next fork
//! there answers: its thread counts `came_by`. If the count has moved at a look, the monitor takes
//! the stall to begin anew, and asks again. A poll without a join pays a load for that, and one
//! with joins pays one slow join for each look. The first ask comes with the second look at a poll.
//! A poll may make its last join before that. A stall that follows may be reported one look early.
//!
//! If a worker's permit was taken in the middle of a poll, the worker stays in view until the stall
//! is reported, and while its thread computes. That holds also if all others have gone to sleep.
//!
//! Beside that:
//!
//! - If work waits, a permit is free and no thread spins, the monitor wakes a thread. (This lasts
//!   only where the system refuses threads. Then the monitor tries again at each look. If the
//!   runtime has no thread at all, the monitor becomes a worker itself, see `permit/keeper.rs`.)
//! - If no thread has looked at the netpoll for 10 ms, the monitor looks there (F5).
//! - If all threads sleep and none waits in the netpoll, the monitor wakes one to go there. (The
//!   monitor may have been at the netpoll itself when the last thread wanted to wait there.)
//!
//! # Blocked or computing?
//!
//! A blocked thread loses its permit at once, or after *a short wait*: its core is free, and
//! another thread uses it. A computing one keeps its permit for a slice of 10 ms, because one more
//! thread would only compete with it. (One that forks keeps it for less: it comes to a fork soon,
//! and waits there.) A thread is blocked if its CPU clock has not moved between two looks *and* it
//! is not runnable: on a busy machine the clock also stands still while a thread waits for a core.
//! The second question costs 3 us. So the monitor asks it only if the clock has not moved, and for
//! a report. While a permit is free, it asks only for a child that waits, or for a report. If the
//! system does not tell, a thread counts as computing.
//!
//! A look costs some loads for each worker, and 0.3 us for each reading of a CPU clock. What a
//! thread does when its poll ends without a permit is `step_without_permit` in `sched/find.rs`.
//! What is in its queues goes to the global queue when its permit is taken, since thieves come only
//! when they run dry.
//!
//! What was measured and what was rejected: `docs/decisions/2026-11-24-monitor.md`.

mod act;
mod classify;
mod compute_only;
mod detached;
mod lost;
mod observe;
mod queued;

use std::{task::Waker, time::Duration};

use classify::{Round, Seen, classify};
use compute_only::ComputeOnly;
use lost::LostTasks;
use observe::{Asked, Needs, View};
use queued::Queued;

use crate::{
    cell::Task,
    no_unwind::NoUnwind,
    note::event,
    permit::{env::Env, keeper::KeeperEnv},
    policy::{
        constants::PACE_FAST,
        pace::{Facts, Pace},
        short_wait::ShortWaits,
    },
    queue::LocalQueue,
    sched::{Shared, foreign_wakers::Watch, processor::Processor, stall::Reports},
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// How long the monitor sleeps.
pub(crate) enum Rest {
    For(Duration),
    /// Until it is woken; or as long as this, since a stall is to be reported again, or lost tasks
    /// are to be looked for.
    ForGood(Option<Duration>),
}

/// What a look came to.
#[derive(Default)]
struct Found {
    /// It had to act.
    acted: bool,
    /// Something is under way that is not over with this look.
    watchful: bool,
    /// It saw a new poll, whose thread has the last permit and waits for something other than a
    /// core.
    doubts: bool,
    /// The next look is due at once: a thread needs a permit, and one look does not tell whether
    /// the holders are blocked.
    again: bool,
    /// It has taken the permit of a computation that forks. One is enough, until that has run dry
    /// or the next look.
    took: bool,
    /// It saw a long poll that may have to be reported.
    watches: bool,
    /// It saw threads in their start hook.
    hooks_begin: bool,
    /// A thread has parked since the look before.
    parked: bool,
}

/// What the monitor remembers of the workers.
#[derive(Default)]
struct Memory {
    /// By the index of the worker.
    seen: Vec<Seen>,
    /// The workers that this look has visited, and those that the one before has.
    visited: Vec<usize>,
    visited_before: Vec<usize>,
    /// How often their threads had parked.
    parks: u64,
}

pub(crate) struct Monitor {
    shared: Arc<Shared>,
    pace: Pace,
    /// By the last look.
    found: Found,
    memory: Memory,
    compute_only: ComputeOnly,
    short_waits: ShortWaits,
    foreign_wakers: Watch,
    reports: Reports,
    queued: Queued,
    lost: LostTasks,
    wakers: Vec<Waker>,
    /// Where a stuck worker's queue is emptied into. Made when the first worker is stuck, since it
    /// takes 2 KiB.
    scratch: Option<LocalQueue<Task>>,
}

impl Monitor {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: shared.clone(),
            pace: Pace::new(),
            found: Found::default(),
            memory: Memory::default(),
            compute_only: ComputeOnly::default(),
            short_waits: ShortWaits::new(),
            foreign_wakers: Watch::default(),
            reports: Reports::default(),
            queued: Queued::default(),
            lost: LostTasks::new(shared),
            wakers: Vec::new(),
            scratch: None,
        }
    }

    /// Looks until the keeper has to stand in (`permit/keeper.rs`). None: the runtime closes.
    pub(crate) fn run(mut self) -> Option<Box<Processor>> {
        let whole = NoUnwind;
        let shared = self.shared.clone();
        let monitor = shared.idle.monitor();
        let mut stands_in = None;
        while stands_in.is_none() && !shared.end.phase.is_closing() {
            match self.rest() {
                Rest::ForGood(repeat) => {
                    match repeat {
                        None => monitor.park(),
                        Some(repeat) => _ = monitor.park_timeout(repeat),
                    }
                    self.wake_up();
                }
                Rest::For(period) => {
                    monitor.park_timeout(period);
                    self.look();
                    stands_in = shared.stand_in();
                }
            }
        }
        whole.over();
        stands_in
    }

    /// Before a look: how long to sleep.
    pub(crate) fn rest(&mut self) -> Rest {
        let (shared, found) = (&self.shared, &self.found);
        let idle = &shared.idle;
        let free = idle.free();
        let facts = Facts {
            acted: found.acted,
            again: found.again,
            watchful: found.watchful,
            compute_only: self.compute_only.holds(),
            spare: free > 0,
            was_spare: found.parked,
            idle: free == idle.workers() && !self.is_wanted(),
            wait: self.short_waits.take_left(),
        };
        let plan = self.pace.next(&facts);
        if plan.may_sleep && idle.monitor_may_sleep() {
            let now = shared.time.clock().now_ns();
            let until = |at: u64| Duration::from_nanos(at.saturating_sub(now));
            let look = self.lost.before_sleep(shared, now);
            let repeat = self.reports.repeats_at().map(until);
            return Rest::ForGood(look.into_iter().chain(repeat).min());
        }
        if plan.is_long && !idle.monitor_may_rest(|| shared.has_queued()) {
            return Rest::For(PACE_FAST);
        }
        Rest::For(plan.rest)
    }

    /// Whether a look is needed although no permit is taken.
    fn is_wanted(&self) -> bool {
        let shared = &self.shared;
        let refused = self.found.hooks_begin || shared.threads.refused.load(Relaxed);
        self.found.watches
            || shared.detached_count() > 0
            || shared.io.foreign_wakers.taken().is_some()
            // Work for which no thread could be had (L5).
            || (refused && shared.any_work())
            || shared.lacks_a_poller()
    }

    /// After a sleep for good.
    pub(crate) fn wake_up(&mut self) {
        // What began meanwhile is not as old as what was seen last. What stalled is the same poll
        // still, or has other ticks by now.
        for seen in &mut self.memory.seen {
            if seen.stall.is_open() {
                *seen = Seen::default();
            } else {
                seen.wait.forget();
            }
        }
        self.found.acted = false;
        self.pace = Pace::new();
    }

    /// One look at everything. Whether it had to act.
    pub(crate) fn look(&mut self) -> bool {
        let shared = &*self.shared.clone();
        shared.monitor.begin_look();
        shared.idle.monitor_looks();
        let now = shared.time.clock().now_ns();
        let asked = shared.monitor.take_needed();
        let before = std::mem::take(&mut self.found);
        self.found.acted = self.fire_late_timers(now) | self.look_at_netpoll(now);
        if shared.idle.free() == 0 && shared.has_queued() && shared.is_asked_at_forks() {
            // No thread was ready to hear it.
            shared.ask_at_forks();
        }
        // The last thread that parked may have found the poller taken, by the look just now.
        shared.ensure_poller();
        self.found.watchful = self.foreign_wakers.look(&self.shared, now);
        self.visit_all(shared, now, asked || before.again);
        self.compute_only.look(shared, now);
        self.found.hooks_begin = shared.look_at_start_hooks(now);
        self.queued.look(shared, now);
        self.lost.something_ran(shared, now);
        self.found.acted |= self.wake_for_work(shared);
        shared.tell_refusals();
        // Once: a thread that stands still from this look to the next is known to be blocked, or
        // computes.
        let unsure = asked || (self.found.doubts && !before.again);
        self.found.again = unsure && !self.found.acted && !self.found.took;
        self.found.acted
    }

    /// One look at each worker. `needed`: a thread asked for a permit.
    fn visit_all(&mut self, shared: &Shared, now: u64, needed: bool) {
        let memory = &mut self.memory;
        std::mem::swap(&mut memory.visited, &mut memory.visited_before);
        memory.visited.clear();
        let mut parks = 0;
        let needs = Needs::default();
        for peer in shared.peers() {
            let memory = &mut self.memory;
            parks += peer.counters.parks.get();
            memory.visited.push(peer.index);
            memory.seen.resize(shared.peer_count(), Seen::default());
            let view = View::of(shared, peer, now);
            peer.progress.set_now(now);
            let round = Round {
                needed,
                took: self.found.took,
                threshold: shared.config.stall.threshold,
            };
            let seen = &mut memory.seen[peer.index];
            let asked = Asked {
                shared,
                peer,
                now,
                needs: &needs,
            };
            let verdict = classify(&view, &round, seen, &mut self.short_waits, &asked);
            if self.act(shared, peer, &view, verdict) {
                needs.forget();
            }
        }
        self.found.parked = std::mem::replace(&mut self.memory.parks, parks) != parks;
        for at in 0..self.memory.visited_before.len() {
            self.forget(self.memory.visited_before[at], now);
        }
    }

    /// After a look: if a worker's thread has gone, what the last look saw of it says nothing about
    /// the next thread.
    fn forget(&mut self, index: usize, now: u64) {
        if !self.shared.processors.allp.is_occupied(index) {
            let mut seen = std::mem::take(&mut self.memory.seen[index]);
            if let Some(stall) = seen.stall.ended(now, seen.cpu) {
                self.reports.ended(&self.shared, index, stall);
            }
            self.short_waits.end(&mut seen.wait);
            self.compute_only.forget(index);
            if seen.long {
                event!(self.shared, LongPollEnd, (), index);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
