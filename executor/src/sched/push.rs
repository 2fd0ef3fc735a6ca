//! Tasks that become runnable on a worker's thread: where they go, and which thread is woken for
//! them.
//!
//! | the task | goes to | wakes |
//! | --- | --- | --- |
//! | new, or woken by the running task | `runnext`; what it displaces to the back of the LRQ (H1) | for the displaced one a thread; for a lone `runnext` see the back-off |
//! | a new call of `spawn_blocking`, where more than a few tasks wait | the global queue (*Calls* in `blocking.rs`) | a thread |
//! | the same in a `block_on` | the global queue, or the shared ordered one | a thread |
//! | yielded, or woken during its own poll | the back of the LRQ; if that is full, of the global queue | a thread |
//! | woken by a batch of the netpoll or the timers, with any priority | the back of its queue | one as soon as there are two, and at the end as many as the batch is worth |
//! | a call that runs on a thread which pinned tasks or a root wait for | another thread (*Bound threads* in `blocking.rs`) | that thread |
//! | any of these with a priority that is not the default one | the ordered queue (`priority.rs`) | a thread |
//! | pinned | the pinned queue of its P | its own thread, if this is another |
//! | any that is not pinned, while the thread has no permit | the global queue, or the shared ordered one | a thread |
//! | displaced or yielded, where the LRQ is full | the global queue; one that was displaced takes half of the LRQ along | threads |
//! | a child that its parent forked, and the parent | `direct`, and the fork deque (`task/fork.rs`) | one for the parent |
//!
//! # *The wake back-off*
//!
//! If a task is woken into an empty `runnext`, this thread runs it in a moment. To wake another
//! thread for it would be for nothing: two tasks that talk to each other would keep a second core
//! busy (tokio #4941, #8065; golang/go #18237). But if this thread computes on, the task sits
//! there.
//!
//! So a lone `runnext` wakes a thread. The worker looks at the clock once after the wake-up, and
//! once when it comes back to its queue. If that was within 20 us, the wake-up was not needed.
//! After a few of these in a row, twice as many tasks as before pass without a wake-up, up to a
//! limit (`WAKES` in `policy/constants.rs`). If it took longer, none passes. So a ring of tasks
//! with one token soon wakes no thread. If a task spawns a child and computes on, another thread
//! starts the child at once. (Whether the woken thread got something to do is no measure: the
//! wake-up itself takes so much time that the worker is often there first.)
//!
//! The wake-up is an offer. A thief that still finds the P at the same step takes the task without
//! the usual wait: the wake-up took longer than that. The woken thread is kept off this one's CPU;
//! see `affinity.rs`. If a thread spins already, the worker relies on it: the spinner looks for
//! tasks that are left alone before it sleeps (`Env::any_left`).
//!
//! # Without a permit
//!
//! Between two polls a thread without a permit owns an empty P. In the middle of a poll, after a
//! revocation, or while a `block_on` found no permit, what is spawned or woken goes to the global
//! queue: in the local one, only threads that run dry would see it. Before that, a call tries once
//! more for a permit, if its first task has no name and no priority: `contention.rs`.

use std::{panic::Location, ptr::NonNull, task::Waker};

use ws_reactor::ThreadId;

use super::{
    Shared,
    worker::{Scope, Worker},
};
use crate::{
    cell::{Birth, Extra, Id, Parts, SchedulerHandle, Task, TaskRef, live::Removed, task_of},
    note::{event, way},
    permit::env::Env,
    policy::{
        Heuristic,
        wake::{call_runs_next, wake_was_useful},
    },
    queue::Batch,
    sync::{Arc, atomic::Ordering::Relaxed, thread},
    timer::TimerShard,
};

/// What became of a task that is to be a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forked {
    /// It runs as soon as the running poll has ended.
    First {
        /// The parent goes on after that by itself. If not, the caller has to wake it.
        goes_on: bool,
    },
    /// It was spawned: the running poll is not that of a task that others may take, or it has
    /// forked already.
    Spawned,
}

impl Worker {
    /// A task was woken, by this thread.
    pub(crate) fn push_woken(&self, task: Task) {
        if task.header().is_plain() {
            self.push_plain(task);
        } else {
            self.push_special(task);
        }
    }

    fn push_plain(&self, task: Task) {
        if let Some(queued) = self.brought.queued.get() {
            self.brought.queued.set(Some(queued + 1));
            self.push_quietly(task);
        } else {
            self.push_next(task);
        }
    }

    /// One of the few tasks that are not plain.
    #[cold]
    fn push_special(&self, task: Task) {
        if task.header().is_pinned() {
            if self.is_own_scheduler(task.header().scheduler()) {
                way!(self, Pinned, task.header());
                self.p.pinned.ready.borrow_mut().push_back(task);
            } else {
                self.shared.push_foreign(task);
            }
        } else if !task.header().is_ordered() {
            self.push_plain(task);
        } else if let Some(queued) = self.brought.queued.get() {
            self.brought.queued.set(Some(queued + 1));
            self.push_ordered_quietly(task);
        } else {
            self.push_ordered(task);
        }
    }

    /// A task that is not plain has yielded, or was woken during its poll.
    #[cold]
    pub(super) fn requeue_special(&self, task: Task) {
        if task.header().is_pinned() {
            self.p.pinned.ready.borrow_mut().push_back(task);
        } else if task.header().is_ordered() {
            self.push_ordered(task);
        } else {
            self.push_again(task);
        }
    }

    /// A task that has just forked: to the tail of the fork deque, and wakes a thread that could
    /// take it.
    pub(super) fn push_parent(&self, task: Task) {
        way!(self, ParentOffered, task.header());
        self.p.forks.parents.push(task);
        self.wake_one();
    }

    /// Into `runnext`; what it displaces goes to the back (H1).
    pub(super) fn push_next(&self, task: Task) {
        if !self.peer().state.has_permit() {
            self.peer().flags.gave_away.store(true, Relaxed);
            self.shared.push_foreign(task);
            return;
        }
        way!(self, RunNext, task.header());
        match self.p.runnext.put(task) {
            Some(displaced) => self.push_back(displaced),
            None => self.wake_for_lone_runnext(),
        }
    }

    /// The root of a `run` spawns the task that it waits for, and does nothing else: this thread
    /// runs that task next. A program that needs no second thread starts none for it.
    pub(crate) fn spawns_what_it_waits_for(&self) {
        self.p.backoffs.wake_backoff.skip_one();
    }

    /// See *The wake back-off*.
    fn wake_for_lone_runnext(&self) {
        if (Heuristic::WakeBackoff.is_on() && !self.p.backoffs.wake_backoff.is_due())
            || self.shared.idle.free() == 0
        {
            return;
        }
        let peer = self.peer();
        let ticks = peer.progress.ticks.load(Relaxed);
        // Ordering: Relaxed: the fence of `submit` follows. If a thread spins, this one relies on
        // it: the spinner sees this at the end of its search, or is seen not to spin.
        peer.progress.alone.store(ticks, Relaxed);
        if let Some((permit, spinning)) = self.shared.idle.submit(1) {
            peer.counters.wakeups.add(1);
            // Ordering: Relaxed: a thief that does not see it yet waits the full time.
            peer.progress.offered.store(ticks, Relaxed);
            if let Some(woken) = self.shared.wake_with(permit, spinning)
                && Heuristic::Affinity.is_on()
            {
                let thread = ThreadId::from_u32(woken.thread.number.load(Relaxed));
                woken.thread.affinity.keep_off_this_cpu(thread);
            }
            self.p.backoffs.woke_at.set(Some(self.now()));
        }
    }

    /// To the back of the local queue, and wakes a thread if one could take it.
    #[inline]
    pub(super) fn push_back(&self, task: Task) {
        if self.push_quietly(task) {
            self.wake_one();
        }
    }

    /// A task that goes on: behind all that waits here. If there is no room, behind all in the
    /// global queue that go on, too.
    ///
    /// Unlike a new task, it does not send half of the queue there: that half has not had its turn.
    /// With 10,000 tasks that always want to go on, each task that came from the global queue sent
    /// 128 there, and some waited for twelve turns of all.
    #[inline(always)]
    pub(super) fn push_again(&self, task: Task) {
        if self.p.lrq.is_full() {
            self.push_to_all(task);
        } else {
            self.push_back(task);
        }
    }

    #[cold]
    fn push_to_all(&self, task: Task) {
        self.peer().flags.gave_away.store(true, Relaxed);
        way!(self, Global, task.header());
        self.shared.push_again(task);
    }

    /// After a push that another thread may take.
    pub(super) fn wake_one(&self) {
        if let Some((permit, spinning)) = self.shared.idle.submit(1) {
            self.peer().counters.wakeups.add(1);
            self.shared.wake_with(permit, spinning);
        }
    }

    /// To the back of the local queue, or with half of it to the global one. Returns whether the
    /// caller should see to a thread for it.
    #[inline]
    pub(super) fn push_quietly(&self, task: Task) -> bool {
        if !self.peer().state.has_permit() {
            self.peer().counters.flushed.add(1);
            self.peer().flags.gave_away.store(true, Relaxed);
            self.shared.push_foreign(task);
            return false;
        }
        way!(self, Local, task.header());
        match self.p.lrq.push(task) {
            Ok(()) => true,
            Err(batch) => {
                self.overflows(batch);
                false
            }
        }
    }

    #[cold]
    fn overflows(&self, batch: Batch<Task>) {
        event!(self, Overflow, (), batch.len());
        self.peer().counters.overflows.add(1);
        self.peer().flags.gave_away.store(true, Relaxed);
        self.shared.push_batch(batch);
    }

    // --- spawning ---

    /// The makings of a task that is spawned here.
    #[inline(always)]
    pub(crate) fn parts(
        &self,
        extra: Option<Box<Extra>>,
        location: &'static Location<'static>,
    ) -> Parts {
        let (mut next, mut end) = self.p.spawns.ids.get();
        if next == end {
            (next, end) = Shared::id_block();
        }
        self.p.spawns.ids.set((next + 1, end));
        Parts {
            birth: Birth {
                scheduler: NonNull::from(&self.p.peer.scheduler),
                id: Id::new(next),
                born_ms: self.peer().progress.now_ms.load(Relaxed),
                lane: self.p.peer.progress.lane.get(),
                parent: self.running_id(),
            },
            location,
            extra,
        }
    }

    /// Enters a new task, and queues it.
    pub(crate) fn spawn(&self, task: Task) {
        let Some(task) = self.enter(task) else {
            return;
        };
        event!(self, Spawn, task.header(), 0);
        if task.header().is_plain() {
            if !self.peer().state.has_permit() {
                self.yield_for_a_permit(thread::yield_now);
            }
            self.push_next(task);
        } else if task.header().is_pinned() {
            way!(self, Pinned, task.header());
            self.p.pinned.spawn(task);
        } else if task.header().is_ordered() {
            self.push_ordered(task);
        } else {
            self.push_next(task);
        }
    }

    /// Enters a new blocking call; see *Calls* in `blocking.rs`.
    pub(crate) fn spawn_call(&self, task: Task) {
        let runs_next = call_runs_next(self.p.lrq.len()) || task.header().is_ordered();
        if self.scope == Scope::All && runs_next {
            return self.spawn(task);
        }
        let Some(task) = self.enter(task) else {
            return;
        };
        event!(self, Spawn, task.header(), 0);
        // At the cap a thread in `block_on` has to come back for it.
        self.peer().flags.gave_away.store(true, Relaxed);
        self.shared.push_foreign(task);
    }

    /// A blocking call is about to run here. Returns whether another thread is to run it, and can
    /// be had. If so, the call's poll has to end, woken. See *Bound threads* in `blocking.rs`.
    pub(crate) fn passes_call_on(&self) -> bool {
        let shared = &self.shared;
        let passes_on = self.is_bound()
            && shared.threads.sim_threads.is_none()
            && !shared.end.phase.is_closing()
            && shared.could_have_an_unbound_thread();
        self.p.poll.passes_on.set(passes_on);
        passes_on
    }

    /// Whether its thread has work that waits for it alone.
    pub(super) fn is_bound(&self) -> bool {
        self.root.is_some() || self.p.pinned.has_live()
    }

    /// Gives a call to a thread that nothing waits for. It goes with a free permit, or else with
    /// this thread's own. In that case the next step does without.
    #[cold]
    pub(super) fn pass_on(&self, call: Task) {
        let shared = &*self.shared;
        if !self.peer().state.has_permit() {
            return shared.push_foreign(call);
        }
        let permit = shared.idle.acquire();
        let Some(permit) = permit.or_else(|| self.peer().state.revoke()) else {
            return shared.push_foreign(call);
        };
        way!(self, Global, call.header());
        self.peer().counters.wakeups.add(1);
        if let Err(call) = shared.hand_call(call, permit, shared.idle.spin()) {
            shared.push_foreign(call);
        }
    }

    /// Enters a new task that runs as soon as the running poll has ended, with `waker`, which it
    /// was polled with.
    pub(crate) fn fork(&self, task: Task, waker: &Waker) -> Forked {
        let parent = self.p.poll.may_fork.get();
        let Some(parent) = parent.filter(|_| self.peer().state.has_permit()) else {
            self.spawn(task);
            return Forked::Spawned;
        };
        let Some(task) = self.enter(task) else {
            return Forked::Spawned;
        };
        if self.p.forks.has_child() {
            self.push_next(task);
            return Forked::Spawned;
        }
        event!(self, Fork, task.header(), 0);
        self.p.forks.put_child(task, &self.peer().queues);
        if task_of(waker) != Some(parent) {
            return Forked::First { goes_on: false };
        }
        self.p.poll.goes_on.set(Some(parent));
        Forked::First { goes_on: true }
    }

    /// Enters a new task, unless the runtime ends.
    fn enter(&self, task: Task) -> Option<Task> {
        if self.shared.end.phase.is_ending() {
            task.refuse();
            return None;
        }
        task.enter(|reference| self.p.spawns.live.insert(reference));
        self.peer().counters.spawned.add(1);
        Some(task)
    }

    /// Counts a task that goes to the global queue like a foreign thread's, unless it will be
    /// refused.
    pub(crate) fn spawns_for_all(&self) {
        if !self.shared.end.phase.is_ending() {
            self.peer().counters.spawned_for_all.add(1);
        }
    }

    /// Spawns the pinned task of a carrier. The carrier is counted already.
    pub(crate) fn spawn_carried(&self, task: Task) {
        let counters = &self.peer().counters;
        let before = counters.spawned.get();
        self.spawn(task);
        // Not counted if the runtime refused it.
        counters.carried.add(counters.spawned.get() - before);
    }

    pub(crate) fn is_own_scheduler(&self, scheduler: &SchedulerHandle) -> bool {
        std::ptr::eq(scheduler, &self.p.peer.scheduler)
    }

    pub(crate) fn is_own_scheduler_at(&self, scheduler: NonNull<SchedulerHandle>) -> bool {
        scheduler == NonNull::from(&self.p.peer.scheduler)
    }

    pub(crate) fn remove_live(&self, index: u32) -> Removed<TaskRef> {
        self.p.spawns.live.remove(index)
    }

    pub(crate) fn timers(&self) -> &Arc<TimerShard> {
        &self.p.peer.timers
    }

    /// At the next step after a wake-up for a lone `runnext`: was it of use?
    pub(super) fn settle_wake_backoff(&self) {
        let Some(woke_at) = self.p.backoffs.woke_at.take() else {
            return;
        };
        let paid = wake_was_useful(woke_at, self.now());
        self.p.backoffs.wake_backoff.settle(paid);
    }
}

#[cfg(test)]
mod tests;
