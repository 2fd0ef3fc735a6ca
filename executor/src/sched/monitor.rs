//! sysmon: a thread without a permit. It sees to it that one stuck task holds up no other (L2).
//!
//! # What it looks at
//!
//! Each P's `ticks`, which its thread counts up at every step. A P that runs and whose ticks stand
//! still from one look to the next is *in a long poll*, since the first of these looks.
//!
//! | for as long | and | it does |
//! | --- | --- | --- |
//! | one look | timers are due anywhere, for 100 us | fires them (F6); it runs no waker but those of tasks itself, see `strangers.rs` |
//! | one look | a task sits in its `runnext`, and a permit is free | wakes a thread, which steals it |
//! | one look, if its thread is blocked, or 10 ms | its poll forked a child, which is in its `direct` slot | gives the child to others (J4) |
//! | one look, or *a short wait* (`short_wait.rs`) | its thread is blocked, no permit is free, and others need one | revokes its permit |
//! | 10 ms | | asks it to yield (F2) |
//! | (a P that makes fewer than 61 ticks a millisecond) | the global queue has something | asks it to look there more often (L4) |
//! | 10 ms | no permit is free, and others need one | revokes its permit (of one that forks a look) |
//! | 100 us | the same, in a computation that forks, and for tasks (*Strays* in `fork_join/owner.rs`) | the same, for one a look |
//! | the threshold, without a fork | unless it is announced to block | reports it, once, and at most once a second |
//!
//! *Others need one* if one of these holds:
//!
//! - tasks are queued, in this P's own queue included;
//! - this P's thread is blocked, and branches of a join are there to be taken (threads that compute
//!   take them in the end);
//! - no thread waits in the netpoll although there is something to wait for;
//! - a thread waited there, had ready tasks and found no permit for them. It then also wakes sysmon
//!   at once ([`Shared::need_permit`]).
//!
//! It takes two looks to tell which thread is blocked. The second comes 20 us after the first in
//! two cases:
//!
//! - a thread asked for a permit;
//! - others need one, and the first look saw a poll begin whose thread is on no core (its CPU clock
//!   stands still between two readings) and does not wait for one.
//!
//! *A stall* begins with its poll, or with a fork that the poll came to. It ends with the next fork
//! or with the poll: a computation that goes on forking is not stuck. A fork does not announce
//! itself, for that would cost every join a store. Therefore the monitor asks the lane of each P in
//! a long poll, as a thief does (*Hunger* in `fork_join/deque.rs`), and the next fork there
//! answers: its thread counts `came_by`. If the count has moved at a look, the monitor takes the
//! stall to begin anew, and asks again. A poll that lasts from one look to the next without a join
//! costs a load; one that joins has one slow join for each look. The first ask comes with the
//! second look at a poll. Hence a stall behind the last join of a poll that made all of its joins
//! before that look may be reported one look too early.
//!
//! If a P's permit was taken in the middle of a poll, the P stays in view until it is reported, and
//! while its thread computes. That holds also if all others have gone to sleep by then.
//!
//! Beside that:
//!
//! - If work waits, a permit is free and no thread spins, it wakes a thread. (This lasts only where
//!   the system refuses threads. Then it tries again and again, and does not lie down before it has
//!   one. If the runtime has no thread at all it becomes a worker itself, see `keeper.rs`.)
//! - If no thread has looked at the netpoll for 10 ms, it looks there (F5).
//! - If all lie down and no thread waits in the netpoll, it wakes one to go there. For the thread
//!   that lay down last may have met sysmon's own look at it, and have gone to sleep elsewhere.
//!
//! # Blocked or computing?
//!
//! A blocked thread is revoked at once, or after *a short wait*: its core is free, and another
//! thread uses it. A computing one keeps its permit for a slice of 10 ms, for one more thread would
//! only compete with it. (One that forks does not: it comes to a fork soon, and waits there.)
//! Blocked is a thread whose CPU clock has not moved between two looks *and* that is not runnable:
//! on a busy machine the clock also stands still while a thread waits for a core. The second
//! question costs 3 us. So it is asked only if the clock has not moved, and only once in a poll
//! where it makes no difference, beside a free permit mostly. Where the system does not tell, all
//! count as computing.
//!
//! # The price
//!
//! A look costs a load for each P, and 0.3 us for each reading of a CPU clock. It is the waking
//! that costs: see `pace.rs`, which says how long the monitor rests, and `calm.rs` and
//! `crowded.rs`, by which it rests for longer.
//!
//! Revocation, and what the stuck thread does when it returns: `idle.rs`, the standing. What is in
//! the stuck P's ring is taken from it and given to all, since thieves come only when they run dry.

mod calm;
mod crowded;
mod pace;
mod short_wait;
mod strays;

use std::{task::Waker, time::Duration};

use calm::Calm;
use crowded::Crowded;
use pace::{BUSY, FAST, Facts, Pace, SLOW};
use short_wait::{Patience, ShortWaits};
use ws_reactor::ThreadId;

use super::{
    Shared,
    events::event,
    find::GLOBAL_TICK,
    ground::{Bed, Ground},
    idle::Stands,
    keeper::Keeping,
    processor::{Peer, Processor, attention},
    stall::{Measured, Reports, Told},
    strangers::Watch,
};
use crate::{
    cell::Task,
    metrics::Counter,
    no_unwind::NoUnwind,
    queue::{LocalQueue, local_queue},
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
            fence,
        },
    },
};

/// How long a poll may take before it is asked to yield, and its permit may go to others.
const SLICE_NS: u64 = 10_000_000;
/// A P that makes 61 ticks in this time looks at the global queue often enough. As far apart as
/// sysmon's looks are.
const LOOK_NS: u64 = BUSY.as_nanos() as u64;
/// CPU time from one look to the next at which a poll is long, and not one that waited for a core
/// most of the time.
const COMPUTES_NS: u64 = LOOK_NS / 2;
/// How late a timer may be before sysmon fires it: its own P fires it at the next step.
const TIMER_GRACE_NS: u64 = 100_000;

/// What others have to say to the monitor.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// A thread found no permit for ready tasks.
    needed: AtomicBool,
    /// The same, for a thread that comes to a fork; see *Give way at a fork* in
    /// `fork_join/owner.rs`.
    asks_at_forks: AtomicBool,
    /// How often it has looked. Written by its own thread alone.
    looks: Counter,
}

impl Signals {
    pub(super) fn looks(&self) -> u64 {
        self.looks.get()
    }
}

impl Shared {
    /// The CPU time of a P's thread, where the system tells. A virtual one computes, or is blocked.
    fn cpu_time_of(&self, peer: &Peer, now: u64) -> Option<u64> {
        match &self.stage {
            None => ThreadId::from_u32(peer.thread.load(Relaxed)).cpu_time_ns(),
            Some(stage) => Some(stage.cpu_time(peer.index, now)),
        }
    }

    /// Whether a P's thread, whose CPU time was `cpu` just now, is on no core at this moment.
    fn is_off_core(&self, peer: &Peer, cpu: Option<u64>) -> bool {
        cpu.is_some()
            && match &self.stage {
                None => cpu == self.cpu_time_of(peer, 0),
                Some(stage) => stage.is_blocked(peer.index),
            }
    }

    /// Whether a P's thread waits for something that is not a core.
    fn is_waiting(&self, peer: &Peer) -> bool {
        match &self.stage {
            None => ThreadId::from_u32(peer.thread.load(Relaxed)).is_waiting() == Some(true),
            Some(stage) => stage.is_waiting(peer.index),
        }
    }

    /// Ready tasks were found, and no permit for them: all of them may be held by stuck threads.
    pub(crate) fn need_permit(&self) {
        self.ask_at_forks();
        // Ordering: Release: sysmon sees the tasks.
        if !self.monitor.needed.swap(true, AcqRel) {
            self.idle.monitor().unpark(|| ());
        }
    }

    /// Leaves word for the next thread that comes to a fork.
    pub(super) fn ask_at_forks(&self) {
        // Ordering: Release: a thread that takes the word sees the tasks.
        self.monitor.asks_at_forks.store(true, Release);
        // Ordering: SeqCst: between the word and the asks; pairs with the one below.
        fence(SeqCst);
        self.peers().for_each(Bed::give_way);
    }

    /// Whether there is such a word.
    pub(super) fn is_asked_at_forks(&self) -> bool {
        // Ordering: SeqCst: at a fork, between the change of the lane's flag and this look: a
        // thread that sees nothing here is asked.
        fence(SeqCst);
        self.monitor.asks_at_forks.load(Relaxed)
    }

    /// Takes it.
    pub(super) fn take_ask_at_forks(&self) -> bool {
        // Ordering: Acquire, as above.
        self.monitor.asks_at_forks.swap(false, Acquire)
    }
}

/// What sysmon remembers of a P.
#[derive(Clone, Copy, Default)]
struct Seen {
    ticks: u64,
    /// When it was first seen at these ticks, in nanoseconds of the runtime's clock.
    since: u64,
    /// Its thread's CPU time then, or at the last look.
    cpu: Option<u64>,
    /// The same at a look that is at least one period back, and when that was.
    before: (u64, Option<u64>),
    /// Since when that has not moved, by the looks.
    still_since: u64,
    patience: Patience,
    /// The system was asked in this poll why its thread stands still.
    asked: bool,
    /// How often its thread had come to a fork by the last look; see *A stall*.
    forks: u64,
    /// Since when that has not moved, and its thread's CPU time then.
    stalls_since: (u64, Option<u64>),
    /// The system said since then that its thread waits for something other than a core.
    waited: bool,
    told: Told,
}

impl Seen {
    fn stall(&self, now: u64, cpu: Option<u64>) -> Measured {
        let (since, before) = self.stalls_since;
        let used = cpu
            .zip(before)
            .map(|(cpu, before)| cpu.saturating_sub(before));
        Measured::new(now - since, used, self.waited)
    }
}

/// How long sysmon sleeps.
pub(super) enum Rest {
    For(Duration),
    /// Until it is woken; or as long as this, since a stall is to be reported again.
    ForGood(Option<Duration>),
}

pub(super) struct Monitor {
    shared: Arc<Shared>,
    pace: Pace,
    /// The last look had to act.
    acted: bool,
    seen: Vec<Seen>,
    /// The Ps that this look has visited, and those that the one before has.
    looked_at: Vec<usize>,
    looked_at_before: Vec<usize>,
    wakers: Vec<Waker>,
    /// Where a stuck P's ring is emptied into.
    scratch: LocalQueue<Task>,
    /// The last look saw something that is not over with it: it is time for the next one soon.
    watchful: bool,
    crowded: Crowded,
    /// This look saw a new poll, whose thread has the last permit and is on no core.
    doubts: bool,
    /// The next look is due at once: a thread needs a permit, and one look does not tell whether
    /// the holders are blocked.
    again: bool,
    /// This look has taken the permit of a computation that forks. One is enough, until that has
    /// run dry or the next look.
    took: bool,
    short_waits: ShortWaits,
    strangers: Watch,
    calm: Calm,
    reports: Reports,
    /// The last look saw a long poll that may have to be reported.
    watches: bool,
    /// The last look saw threads in their start hook.
    hooks_begin: bool,
}

impl Monitor {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let (scratch, _) = local_queue();
        Self {
            shared: shared.clone(),
            pace: Pace::new(),
            acted: false,
            seen: Vec::new(),
            looked_at: Vec::new(),
            looked_at_before: Vec::new(),
            wakers: Vec::new(),
            scratch,
            watchful: false,
            crowded: Crowded::default(),
            doubts: false,
            again: false,
            took: false,
            short_waits: ShortWaits::new(),
            strangers: Watch::default(),
            calm: Calm::default(),
            reports: Reports::default(),
            watches: false,
            hooks_begin: false,
        }
    }

    /// Looks until the keeper has to stand in (`keeper.rs`). None: the runtime closes.
    pub(super) fn run(mut self) -> Option<Box<Processor>> {
        let whole = NoUnwind;
        let shared = self.shared.clone();
        let monitor = shared.idle.monitor();
        let mut stands_in = None;
        while stands_in.is_none() && !shared.phase.is_closing() {
            match self.rest() {
                Rest::ForGood(repeat) => {
                    match repeat {
                        None => monitor.park(),
                        Some(repeat) => _ = monitor.park_timeout(repeat),
                    }
                    self.get_up();
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
    pub(super) fn rest(&mut self) -> Rest {
        let shared = &self.shared;
        let idle = &shared.idle;
        let free = idle.free();
        let facts = Facts {
            acted: self.acted,
            again: self.again,
            watchful: self.watchful,
            calm: self.calm.holds(),
            crowded: self.crowded.holds(),
            spare: free > 0,
            idle: free == idle.workers() && !self.is_wanted(),
            wait: self.short_waits.take_left(),
        };
        let plan = self.pace.next(&facts);
        if plan.may_sleep && idle.monitor_may_sleep() {
            let now = shared.time.clock().now_ns();
            let until = |at: u64| Duration::from_nanos(at.saturating_sub(now));
            return Rest::ForGood(self.reports.repeats_at().map(until));
        }
        if plan.is_long && !idle.monitor_may_rest(|| shared.has_queued()) {
            return Rest::For(FAST);
        }
        Rest::For(plan.rest)
    }

    /// Whether a look is needed although no permit is taken.
    fn is_wanted(&self) -> bool {
        let shared = &self.shared;
        let refused = self.hooks_begin || shared.refusal.load(Relaxed);
        self.watches
            || shared.strays() > 0
            || shared.strangers.taken().is_some()
            // Work for which no thread could be had (L5).
            || (refused && shared.any_work())
            || shared.lacks_a_poller()
    }

    /// After a sleep for good.
    pub(super) fn get_up(&mut self) {
        // What began meanwhile is not as old as what was seen last. What stalled is the same poll
        // still, or has other ticks by now.
        for seen in &mut self.seen {
            *seen = match seen.told {
                Told::Nothing => Seen::default(),
                Told::Suppressed | Told::Reported => Seen {
                    patience: Patience::Open,
                    ..*seen
                },
            };
        }
        self.acted = false;
        self.pace = Pace::new();
    }

    /// One look at everything. Whether it had to act.
    pub(super) fn look(&mut self) -> bool {
        let shared = &*self.shared.clone();
        shared.monitor.looks.add(1);
        shared.idle.monitor_looks();
        let now = shared.time.clock().now_ns();
        // Ordering: Acquire pairs with `need_permit`.
        let asked =
            shared.monitor.needed.load(Acquire) && shared.monitor.needed.swap(false, AcqRel);
        let needed = asked || self.again;
        let mut acted = self.fire_late_timers(now) | self.look_at_netpoll(now);
        if shared.idle.free() == 0 && shared.has_queued() && shared.is_asked_at_forks() {
            // No thread was ready to hear it.
            shared.ask_at_forks();
        }
        // The last thread that lay down may have found the poller taken, by the look just now.
        shared.ensure_poller();
        self.watchful = self.strangers.look(&self.shared, now);
        self.crowded.look();
        self.watches = false;
        self.doubts = false;
        self.took = false;
        std::mem::swap(&mut self.looked_at, &mut self.looked_at_before);
        self.looked_at.clear();
        for peer in shared.peers() {
            self.looked_at.push(peer.index);
            self.seen.resize(shared.peer_count(), Seen::default());
            acted |= self.look_at(peer.index, peer, now, needed);
        }
        for at in 0..self.looked_at_before.len() {
            self.forget(self.looked_at_before[at], now);
        }
        self.calm.look(shared, now);
        self.hooks_begin = shared.look_at_start_hooks(now);
        // A thread spins in almost every case; the fence in `submit` settles the others. If no
        // thread can be had, it is tried again at the slow pace.
        if shared.idle.could_wake() && shared.any_work() && shared.could_have_a_thread() {
            shared.wake_for(1);
            acted |= !shared.refusal.load(Relaxed);
        }
        // Once: a thread that stands still from this look to the next is known to be blocked, or
        // computes.
        self.again = (asked || (self.doubts && !self.again)) && !acted && !self.took;
        self.acted = acted;
        acted
    }

    /// After a look: if a P's thread has gone, what the last look saw of it says nothing about the
    /// next thread.
    fn forget(&mut self, index: usize, now: u64) {
        if !self.shared.slots.is_occupied(index) {
            let seen = self.seen[index];
            if seen.told == Told::Reported {
                let stall = seen.stall(now, seen.cpu);
                self.reports.ended(&self.shared, index, stall);
            }
            self.short_waits.end(&mut self.seen[index]);
            self.seen[index] = Seen::default();
            self.calm.forget(index);
        }
    }

    fn look_at(&mut self, index: usize, peer: &Peer, now: u64, needed: bool) -> bool {
        let shared = &*self.shared.clone();
        let seen = &mut self.seen[index];
        let ticks = peer.ticks.load(Relaxed);
        let polls = peer.running.load(Relaxed) != 0;
        let stands = peer.standing.load();
        let stuck = polls && stands == Stands::Stuck;
        // What it put there between its look at the permit and the revocation: no other thread
        // looks.
        if stuck && let Some(task) = peer.steal_next() {
            peer.was_taken_from();
            shared.push_foreign(task);
            return true;
        }
        let announced = peer.announced.load(Relaxed);
        self.watchful |= stuck && !announced;
        let running = stands == Stands::Running;
        let polls = (stuck || (polls && running)) && !announced;
        if !polls || ticks != seen.ticks {
            shared.set_stray(peer, false);
            let elapsed = now - seen.since;
            // Of a P that was not seen for weeks, these products are beyond 64 bits.
            let made = u128::from(ticks.saturating_sub(seen.ticks));
            let slow = made * u128::from(LOOK_NS) < u128::from(elapsed) * u128::from(GLOBAL_TICK);
            self.short_waits.end(seen);
            let seen_before = seen.since > 0 && !peer.own.load(Relaxed);
            if polls && running && slow && seen_before && !shared.grq.is_empty() {
                peer.attention.fetch_or(attention::GLOBAL, Relaxed);
                self.watchful = true;
            }
            let reported = seen.told == Told::Reported;
            let cpu = (polls || reported)
                .then(|| shared.cpu_time_of(peer, now))
                .flatten();
            if reported {
                let stall = seen.stall(now, cpu);
                self.reports.ended(shared, index, stall);
            }
            let cpu = cpu.filter(|_| polls);
            *seen = Seen {
                ticks,
                since: now,
                cpu,
                before: (now, cpu),
                still_since: now,
                patience: Patience::Open,
                asked: false,
                forks: peer.came_by.get(),
                stalls_since: (now, cpu),
                waited: false,
                told: Told::Nothing,
            };
            // Last, since it costs most: a thread that this one has put off its core is runnable.
            self.doubts |= running
                && shared.is_off_core(peer, cpu)
                && shared.idle.free() == 0
                && self.others_need_a_permit(peer, false)
                && shared.is_waiting(peer);
            self.watches |= polls && shared.config.stall.threshold.is_some();
            return false;
        }
        let stuck_for = now - seen.since;
        let cpu = shared.cpu_time_of(peer, now);
        let ran = cpu
            .zip(seen.cpu)
            .map(|(now, then)| now.saturating_sub(then));
        let stood_still = ran == Some(0);
        seen.cpu = cpu;
        let computes = seen.computes(now);
        if !stood_still {
            self.short_waits.end(seen);
            seen.still_since = now;
        }
        self.short_waits.give_up_if_long(seen, now);
        if stuck_for >= SLICE_NS {
            peer.attention.fetch_or(attention::SLICE, Relaxed);
        }
        let threshold = shared.config.stall.threshold;
        if threshold.is_some() {
            let forks = peer.came_by.get();
            if forks != seen.forks {
                if seen.told == Told::Reported {
                    self.reports.ended(shared, index, seen.stall(now, cpu));
                }
                seen.forks = forks;
                seen.stalls_since = (now, cpu);
                seen.waited = false;
                seen.told = Told::Nothing;
            }
            // After the look at the count: a fork that answers from now on moves it.
            peer.give_way();
        }
        let threshold = threshold.filter(|_| seen.told == Told::Nothing);
        let stall = seen.stall(now, cpu);
        let stalls = threshold.is_some_and(|most| stall.running_for() >= most);
        let reported = seen.told == Told::Reported;
        self.watches |= threshold.is_some() && !stalls;
        if stuck {
            shared.look_at_stray(peer, cpu, computes);
        }
        let spare = shared.idle.free() > 0;
        // For a report, it also matters what a thread does that moves a little between looks.
        let unsaid = (stalls || reported) && !seen.waited && (stood_still || stall.hardly_ran());
        // Beside a free permit only for these, and once to know whether it is *crowded*.
        let matters = !spare || peer.direct.peek().is_some() || !seen.asked;
        let asks = (running && stood_still && matters) || unsaid;
        seen.asked |= asks;
        let waits = asks && shared.is_waiting(peer);
        seen.waited |= waits;
        let blocked = waits && stood_still;
        let long = blocked || ran.is_none_or(|ran| ran >= COMPUTES_NS);
        self.watchful |= long && !spare;
        if running && asks && !waits {
            self.crowded.seen();
        }
        // Once more: it was seen just now whether the thread waits.
        let stall = seen.stall(now, cpu);
        if stalls {
            seen.told = self.reports.begun(shared, peer, ticks, now, stall);
        } else if reported {
            self.reports.goes_on(shared, index, now, stall);
        }
        if !running {
            return false;
        }
        let acts = blocked || stuck_for >= SLICE_NS;
        if acts && let Some(child) = peer.steal_child() {
            peer.was_taken_from();
            shared.push_foreign(child);
            return true;
        }
        if spare {
            let lone = peer.runnext.peek().is_some();
            if lone && shared.idle.could_wake() {
                shared.wake_for(1);
            }
            return lone;
        }
        let forks = !blocked && peer.forks();
        let wanted = (acts && (needed || self.others_need_a_permit(peer, blocked)))
            || (forks && self.gives_way(stuck_for) && (needed || self.tasks_need_a_permit(peer)));
        if !wanted || (forks && self.took) {
            return false;
        }
        let seen = &mut self.seen[index];
        if blocked && stuck_for < SLICE_NS && self.short_waits.is_granted(seen, now) {
            return false;
        }
        // Before, it may have waited for a permit.
        seen.before = (now, cpu);
        shared.set_stray(peer, !blocked);
        if !shared.revoke(peer, &self.scratch) {
            return false;
        }
        event!(shared, Revoke, &(), index);
        self.took |= forks;
        !forks
    }

    fn others_need_a_permit(&self, peer: &Peer, blocked: bool) -> bool {
        let shared = &self.shared;
        self.tasks_need_a_permit(peer)
            || (blocked && shared.strays() == 0 && shared.peers().any(Bed::has_branch))
            || !shared.idle.wanting().is_empty()
    }

    /// The same, but not for branches, and not for a thread that wants a permit to go on (mostly a
    /// computation at its fork).
    fn tasks_need_a_permit(&self, peer: &Peer) -> bool {
        let shared = &self.shared;
        let has_tasks = |peer: &Peer| peer.has_queued() || !peer.parents.is_empty();
        peer.runnext.peek().is_some()
            || shared.has_queued()
            || shared.peers().any(has_tasks)
            || (shared.nobody_polls() && shared.awaits())
    }

    /// Fires timers that are late: their P is stuck, and no other thread came by.
    fn fire_late_timers(&mut self, now: u64) -> bool {
        let late = self
            .shared
            .next_wake_up()
            .is_some_and(|next| next.saturating_add(TIMER_GRACE_NS) <= now);
        if late {
            self.shared.fire_due(now, &mut self.wakers);
        }
        self.wake_all()
    }

    /// Looks at the netpoll if no thread has for 10 ms.
    fn look_at_netpoll(&mut self, now: u64) -> bool {
        let shared = &self.shared;
        if !shared.netpoll.has_sources()
            || shared.last_netpoll.load(Relaxed) + SLOW.as_nanos() as u64 > now
        {
            return false;
        }
        let Some(mut poller) = shared.netpoll.try_poller() else {
            return false;
        };
        let looked = poller.look(&mut self.wakers);
        drop(poller);
        shared.report_netpoll(looked);
        shared.last_netpoll.store(now, Relaxed);
        self.wake_all()
    }

    /// Tasks on this thread, which has no P: they go to the global queue.
    fn wake_all(&mut self) -> bool {
        let some = !self.wakers.is_empty();
        self.shared.wake_from_monitor(self.wakers.drain(..));
        if some && self.shared.idle.free() == 0 {
            self.shared.ask_at_forks();
        }
        some
    }
}

#[cfg(all(test, not(ws_loom)))]
pub(super) mod tests;
