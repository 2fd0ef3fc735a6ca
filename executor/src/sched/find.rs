//! What a worker does next: [`Worker::step`], which Go calls `findRunnable`.
//!
//! A worker is stepped: [`Worker::step`] looks for work in the order below and says what to do, and
//! the loop around it does that. Nothing in a step sleeps. A step asks no other clock than the
//! runtime's, and no other random generator than the P's. So a driver that is not a thread can step
//! many workers under one seed and a virtual clock.
//!
//! It looks, in this order:
//!
//! 1. attention: draining and shutdown; a slice that is over sends `runnext` to the back;
//! 2. at *the look for all* (`looks.rs`): the clock, threads that want a permit, all timers, the
//!    netpoll, the global queue;
//! 3. timers of this P that are due (at every 16th tick, and when there is no local work);
//! 4. the root of a `block_on` and pinned tasks, in turns (each second time, if there is other
//!    local work);
//! 5. tasks above the default priority, and turns for those below (`priority.rs`);
//! 6. a child that was just forked;
//! 7. `runnext`;
//! 8. the fork deque, then the local queue;
//! 9. a fair batch of the global queue;
//! 10. tasks below the default priority;
//! 11. the netpoll, without blocking; if it brings something, *the rescue steal* comes first;
//! 12. up to four rounds of stealing over the other Ps that are awake, in a random order; the last
//!     round also takes others' `runnext`; then others' due timers (`search.rs`);
//! 13. nothing: if others run and a spin was of use lately, it spins on for some microseconds; then
//!     it parks (`permit/sleep.rs`), with one last look at everything.
//!
//! # *The rescue steal*
//!
//! If the netpoll has something for a worker each time it runs dry, that worker never comes to
//! steal. If other programs want the cores, the system may take another thread off its core in the
//! middle of its queue. The tasks of that P then wait until the thread is back, for milliseconds:
//! longer than what the netpoll brought just now.
//!
//! So after a poll that brought something, the worker looks at four other Ps. It rescues the first
//! one that has not moved for 100 us: it takes the oldest tasks there, as many as the netpoll
//! brought, and runs them first. What the netpoll brought waits for at most as many polls as it has
//! tasks. The monitor does the same with the queue of a thread that blocks (L2), only later. A
//! rescue steal does not take half of the queue, as other steals do (I4): the other half would wait
//! for one more turn of what the netpoll brings.
//!
//! Measured with an HTTP server on two workers and its client on the same two cores (AMD EPYC, 9
//! rounds in turn): p99 was 3.9 ms without it, and 1.9 ms with half of the queue, taken behind what
//! the netpoll brought. In another run (15 rounds) p99 was 1.91 ms that way, 1.44 ms as it is, and
//! 1.43 ms for the same server on tokio. It was 1.25 ms if the whole queue goes first. But then,
//! where another P computes, sockets wait for all that is queued there.
//!
//! # *Wakers in a step*
//!
//! A step wakes what the netpoll and the timers bring, and a waker may be any code. It may announce
//! a block, and be back when no permit is free. It may take so much time that the monitor takes the
//! permit. So after a step has woken something, it looks at the permit again. If the permit is
//! gone, the step goes on as one without a permit (S3). A waker that is not a task's comes last,
//! and runs in [`Worker::enter_user_code`]; see `foreign_wakers.rs`. If nothing was due, this costs
//! nothing. What comes afterwards, up to the poll, is as short as what comes before a revocation in
//! any poll.
//!
//! # Two scopes
//!
//! A worker thread, and the thread of `Runtime::run`, take any work. A thread in `block_on` runs
//! only what its own root made runnable. It does not look at the global queue, unless it stands in
//! (`block_on.rs`), and it never steals. So a thread of a user's own does not pick up the 100 ms
//! poll of another's task.

#[cfg(test)]
pub(crate) mod tests;

use std::task::Waker;

use super::{
    foreign_wakers::wake_task,
    priority::ANY,
    processor::attention,
    recording,
    search::Search,
    worker::{Scope, Step, Worker},
};
use crate::{
    cell::{DEFAULT_PRIORITY, Task},
    note::{event, way},
    permit::{env::Env, phase::ShutdownEnv, sleep::Sleeper},
    policy::{constants::CALLS_WITHIN, tick::Tick},
    sync::atomic::Ordering::Relaxed,
};

impl Worker {
    /// Looks for work in the order of the module's head.
    pub(crate) fn step(&self) -> Step {
        let p = &*self.p;
        let tick = Tick(p.tick());
        self.settle_wake_backoff();
        let asked = p.peer.attention.load(Relaxed);
        if asked != 0
            && let Some(step) = self.attend()
        {
            return step;
        }
        if !self.peer().state.has_permit() {
            return self.step_without_permit();
        }
        if tick.0 >= p.clocks.due.get()
            && let Some(step) = self.what_is_due(tick)
        {
            return step;
        }
        if !self.next.private_last.get()
            && let Some(step) = self.private()
        {
            self.next.private_last.set(true);
            self.let_child_wait();
            return step;
        }
        if asked & attention::ROOT_WAITS != 0 && !self.next.stands_in.get() {
            return self.leave_tasks_to_others();
        }
        loop {
            if self.shared.queues.ordered.is_used()
                && let Some(task) = self.ordered_first()
            {
                return Step::Run(task);
            }
            if let Some(task) = self.local() {
                self.next.private_last.set(false);
                return Step::Run(task);
            }
            if let Some(step) = self.beyond_local() {
                return step;
            }
        }
    }

    /// What is due at this tick, as far as a step asks for it before its work. `None`: the step
    /// goes on.
    #[cold]
    #[inline(never)]
    fn what_is_due(&self, tick: Tick) -> Option<Step> {
        let sample = self.choose_sample(tick);
        let clocks = &self.p.clocks;
        let step = (tick.0 >= clocks.look.get()).then(|| self.look_for_all(tick));
        clocks.due.set(tick.next_due(clocks.look.get(), sample));
        if let Some(step) = step.flatten() {
            self.let_child_wait();
            return Some(step);
        }
        if tick.is_for_timers() && self.fire_own_timers() > 0 && !self.peer().state.has_permit() {
            return Some(self.step_without_permit());
        }
        None
    }

    /// The rest of a step of a thread that is its root's alone; see *Whose thread it is* in
    /// `block_on.rs`.
    #[cold]
    fn leave_tasks_to_others(&self) -> Step {
        self.next.private_last.set(false);
        // First: a root that is ready at each step would keep them for ever.
        self.flush();
        self.private().unwrap_or(Step::Park)
    }

    /// The rest of a step, when the own queues are empty. None: they may have something by now.
    ///
    /// Apart from the step: a step that has work does not make ready what only this needs.
    #[inline(never)]
    fn beyond_local(&self) -> Option<Step> {
        if self.next.private_last.replace(false)
            && let Some(task) = self.ordered_last()
        {
            return Some(Step::Run(task));
        }
        // If this step skipped them, it looks at them now.
        if let Some(step) = self.private() {
            return Some(step);
        }
        let has_permit = || self.peer().state.has_permit();
        if self.fire_own_timers() > 0 {
            return (!has_permit()).then(|| self.step_without_permit());
        }
        let stands_in = self.next.stands_in.take();
        if self.scope == Scope::Own && !stands_in {
            return Some(self.ordered_last().map_or(Step::Park, Step::Run));
        }
        let task = self.global(usize::MAX).or_else(|| self.ordered_last());
        if let Some(task) = task.or_else(|| stands_in.then(|| self.take_shared(ANY))?) {
            return Some(Step::Run(task));
        }
        if self.scope == Scope::Own {
            return Some(Step::Park);
        }
        if let Some(ready) = self.poll_netpoll() {
            self.rescue_steal(ready.len());
            if self.wake_batch(ready) > 0 {
                return (!has_permit()).then(|| {
                    self.forget_steal();
                    self.step_without_permit()
                });
            }
        }
        match self.search() {
            Search::Found(task) if has_permit() => Some(Step::Run(task)),
            // Revoked in the middle of the search: the monitor saw no progress of this thread.
            Search::Found(task) => {
                self.forget_steal();
                self.shared.push_foreign(task);
                Some(self.step_without_permit())
            }
            Search::Branch(branch) if has_permit() => Some(Step::Branch(branch)),
            Search::Branch(branch) => {
                self.forget_steal();
                drop(branch);
                Some(self.step_without_permit())
            }
            // It was lent, or revoked as above.
            Search::Again | Search::Nothing if !has_permit() => Some(self.step_without_permit()),
            Search::Again => None,
            Search::Nothing if self.spin_before_park() => None,
            Search::Nothing => Some(Step::Park),
        }
    }

    /// Reads the attention word, and does what it asks for.
    pub(super) fn attend(&self) -> Option<Step> {
        let asked = self.peer().attention.load(Relaxed);
        if asked & (attention::DRAIN | attention::SHUTDOWN) != 0 {
            self.shared.was_called();
        }
        if asked & attention::DRAIN != 0 {
            self.drain();
        }
        if asked & attention::SHUTDOWN != 0 {
            if self.root.is_none() {
                return Some(Step::Leave);
            }
            // Its root goes on; what is pinned to it does not.
            self.clear_pinned();
        }
        if asked & attention::SLICE != 0 {
            self.end_slice();
        }
        self.shared
            .time
            .paused
            .as_ref()
            .filter(|paused| paused.shuffles())
            .and_then(|paused| self.draw(paused))
    }

    /// A thread that has no permit: after a revocation, or in a `block_on` that found none. It
    /// tries for one. If none is free, its P's work goes to the others.
    pub(super) fn step_without_permit(&self) -> Step {
        if self.regain() {
            // The next step does it all.
            return self.step();
        }
        if let Some(call) = self.next_call() {
            return Step::Run(call);
        }
        match &self.root {
            // A root may be polled by its own thread at any time, as any foreign future may.
            Some(root) if (self.scope == Scope::Own || self.is_shut_down()) && root.take() => {
                Step::Root
            }
            _ => Step::Park,
        }
    }

    /// See *A thread that comes back* in `blocking.rs`.
    fn next_call(&self) -> Option<Task> {
        let shared = &*self.shared;
        if shared.threads.blocking.calls() == 0
            || self.root.is_some()
            || self.p.pinned.has_live()
            || shared
                .queues
                .ordered
                .top()
                .is_some_and(|top| top > DEFAULT_PRIORITY)
        {
            return None;
        }
        let call = shared.queues.grq.pop_near(CALLS_WITHIN, is_call)?;
        self.count_global(1);
        Some(call)
    }

    pub(super) fn count_global(&self, n: u64) {
        self.peer().counters.global.add(n);
    }

    /// The root or a pinned task: if both are ready, in turns.
    fn private(&self) -> Option<Step> {
        if self.next.root_last.replace(false)
            && let Some(step) = self.pinned()
        {
            return Some(step);
        }
        if let Some(root) = &self.root
            && root.take()
        {
            self.next.root_last.set(true);
            return Some(Step::Root);
        }
        self.pinned()
    }

    /// The root is polled now, in no step of this thread's: before its next turn comes what waits
    /// here.
    pub(super) fn root_has_its_turn(&self) {
        self.next.root_last.set(true);
        self.next.private_last.set(true);
    }

    fn pinned(&self) -> Option<Step> {
        let p = &self.p;
        p.has_pinned()
            .then(|| p.pop_pinned())
            .flatten()
            .map(Step::Run)
    }

    /// A child that was just forked, `runnext`, the fork deque, then the local queue. At every 16th
    /// tick the local queue comes before the fork deque, so that forks do not hold it up.
    fn local(&self) -> Option<Task> {
        let p = &*self.p;
        if let Some(task) = p.forks.take_child().or_else(|| p.runnext.take()) {
            return Some(task);
        }
        if !p.forks.parents.is_empty()
            && (p.lrq.is_empty() || !Tick(p.peer.progress.ticks.load(Relaxed)).is_for_timers())
            && let Some(task) = p.forks.parents.pop()
        {
            way!(self, ParentResumed, task.header());
            return Some(task);
        }
        if let Some(task) = p.lrq.pop() {
            self.begin_slice();
            return Some(task);
        }
        None
    }

    /// Another task comes before the child that was just forked. Few threads see the child where it
    /// is, and it must not be taken for a child of the other task.
    pub(super) fn let_child_wait(&self) {
        if let Some(child) = self.p.forks.take_child() {
            self.push_next(child);
        }
    }

    /// What runs next does not inherit its slice.
    pub(super) fn begin_slice(&self) {
        let ticks = self.peer().progress.ticks.load(Relaxed);
        self.p.clocks.slice_tick.set(ticks);
    }

    /// The slice is over: `runnext` goes to the back, if there is a queue that waits (F4).
    pub(super) fn end_slice(&self) {
        self.peer().attention.fetch_and(!attention::SLICE, Relaxed);
        self.begin_slice();
        if !self.p.lrq.is_empty()
            && let Some(task) = self.p.runnext.take()
        {
            self.push_back(task);
        }
    }

    /// Whether the running task should let others have a turn.
    pub(crate) fn slice_is_over(&self) -> bool {
        self.peer().attention.load(Relaxed) & attention::SLICE != 0
    }

    /// A fair share of the global queue: one to run, the rest into the local queue. That then has
    /// at most `fills_to` tasks.
    pub(super) fn global(&self, fills_to: usize) -> Option<Task> {
        if self.shared.queues.grq.is_empty() {
            return None;
        }
        let waiting = self.waiting();
        let room = self.p.lrq.room().min(fills_to - self.p.lrq.len());
        let share = waiting.fair_share(room);
        let mut tasks = if self.shared.threads.blocking.calls() == 0 {
            self.shared.queues.grq.take(share)
        } else {
            self.shared.queues.grq.take_until(share, is_call)
        };
        self.count_global(tasks.len() as u64);
        let first = tasks.next();
        self.p.lrq.push_batch(&mut tasks);
        first
    }

    /// Looks at the netpoll without blocking, unless another thread is there, and wakes what became
    /// ready.
    pub(super) fn look_at_netpoll(&self) {
        if let Some(ready) = self.poll_netpoll() {
            self.wake_batch(ready);
        }
    }

    /// Fires what is due on any P and looks at the netpoll: at a look for all, and in the middle
    /// of a poll. No other thread does this if every permit is held by a thread that never runs
    /// dry. See *What is heard* in `permit/env.rs`.
    pub(crate) fn look_around(&self) {
        self.fire_all_timers();
        self.look_at_netpoll();
    }

    /// What became ready, to be given to [`wake_batch`](Self::wake_batch). None if it did not look.
    fn poll_netpoll(&self) -> Option<Vec<Waker>> {
        if !self.shared.io.netpoll.has_sources() {
            return None;
        }
        let mut poller = self.shared.io.netpoll.try_poller()?;
        let mut ready = self.brought.ready.take();
        let looked = poller.look(&mut ready);
        drop(poller);
        self.shared.report_netpoll(looked);
        self.shared.io.last_look.store(self.now(), Relaxed);
        self.peer().counters.netpolls.add(1);
        if !ready.is_empty() {
            event!(self, Netpoll, (), ready.len());
        }
        Some(ready)
    }

    /// For a virtual thread that comes out of the netpoll: puts what became ready meanwhile to what
    /// [`after_sleep`](crate::permit::sleep::Sleeper::after_sleep) takes.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn take_news(&self) {
        if let Some(ready) = self.poll_netpoll() {
            self.brought.ready.replace(ready);
        }
    }

    /// Fires the timers of this P that are due. Returns how many.
    fn fire_own_timers(&self) -> usize {
        let Some(first) = self.p.peer.timers.next_deadline() else {
            return 0;
        };
        let now = self.now();
        self.p.set_now(now);
        if !self.p.peer.timers.has_due(now) {
            return 0;
        }
        let mut ready = self.brought.ready.take();
        self.p.peer.timers.fire_due(now, &mut ready);
        event!(self, Timers, (), recording::fired(ready.len(), first, now));
        self.peer().counters.timers.add(ready.len() as u64);
        self.wake_batch(ready)
    }

    /// Fires the timers that are due on any P: the P's own thread may be stuck (F6).
    pub(super) fn fire_all_timers(&self) -> usize {
        let now = self.now();
        let mut ready = self.brought.ready.take();
        let count = self.shared.fire_due(now, &mut ready);
        self.peer().counters.timers.add(count as u64);
        self.wake_batch(ready)
    }

    /// Whether the next task is not from the local queue.
    fn runs_another_first(&self) -> bool {
        let p = &*self.p;
        !p.runnext.is_empty()
            || p.forks.has_child()
            || (self.has_private() && !self.next.private_last.get())
    }

    /// Wakes what the netpoll or the timers brought, tasks first. Returns how many there were.
    /// Keeps the empty vector for the next time.
    pub(super) fn wake_batch(&self, mut ready: Vec<Waker>) -> usize {
        let count = ready.len();
        let mut foreign_wakers = Vec::new();
        self.batch(ready.drain(..), |waker| {
            wake_task(waker, &mut foreign_wakers)
        });
        self.brought.ready.replace(ready);
        if !foreign_wakers.is_empty() {
            self.wake_foreign(foreign_wakers);
        }
        count
    }

    /// Wakes all into the queue, and then as many threads as that is worth. The first thread is
    /// woken as soon as there is something for it (I5), since thousands may be due at once.
    #[inline]
    pub(super) fn batch(&self, wakers: impl Iterator<Item = Waker>, mut wake: impl FnMut(Waker)) {
        let outer = self.brought.queued.replace(Some(0));
        let mut shared_out = false;
        for waker in wakers {
            wake(waker);
            if !shared_out && self.brought.queued.get() > Some(1) {
                shared_out = true;
                // Others would rely on this thread as a spinner.
                self.found_work();
                self.shared.wake_for(1);
            }
        }
        let queued = self.brought.queued.replace(outer).unwrap_or(0);
        // One of them is for this thread, unless it has something to run before that. (Without a
        // permit they are in the global queue, and a thread was woken for each.)
        let has_permit = self.peer().state.has_permit();
        let own = usize::from(!(has_permit && self.runs_another_first()));
        if queued > own {
            self.shared.wake_for(queued - own);
        }
    }
}

pub(super) fn is_call(task: &Task) -> bool {
    task.header().blocks()
}
