//! What a worker does next: [`Worker::step`], which Go calls `findRunnable`.
//!
//! A worker is stepped: [`Worker::step`] looks for work in the order below and says what to do, and
//! the loop around it does that. Nothing in a step sleeps. A step asks no other clock than the
//! runtime's, and no other random generator than the P's. So a driver that is not a thread can step
//! many workers under one seed and a virtual clock.
//!
//! It looks, in this order:
//!
//! 1. attention: draining and shutdown; a slice that is over sends `runnext` to the back; *slow
//!    polls*;
//! 2. at every 61st tick: the clock, threads that want a permit, all timers, the netpoll, the
//!    global queue;
//! 3. timers of this P that are due (at every 16th tick, and when there is no local work);
//! 4. the root of a `block_on` and pinned tasks (each second time, if there is other local work);
//! 5. tasks above the default priority, and turns for those below (`priority.rs`);
//! 6. a child that was just forked;
//! 7. `runnext`;
//! 8. the fork deque, then the local queue;
//! 9. a fair batch of the global queue;
//! 10. tasks below the default priority;
//! 11. the netpoll, without blocking, and if that has something, before it, *the rescue steal*;
//! 12. up to four rounds of stealing over all other Ps in a random order; the last round also takes
//!     others' `runnext`; then others' due timers (`search.rs`);
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
//! brought, and runs them first. What the netpoll brought then waits for as many polls as it has
//! tasks itself. The monitor does the same with the queue of a thread that blocks (L5), only later.
//! A rescue steal does not take half of the queue, as other steals do (I4): the other half would
//! wait for one more turn of what the netpoll brings.
//!
//! Measured with an HTTP server on two workers and its client on the same two cores (AMD EPYC, 9
//! rounds in turn): p99 was 3.9 ms without it, and 1.9 ms with half of the queue, taken behind what
//! the netpoll brought. In another run (15 rounds) p99 was 1.91 ms that way, 1.44 ms as it is, and
//! 1.43 ms for the same server on tokio. It was 1.25 ms if the whole queue goes first. But then,
//! where another P computes, sockets wait for all that is queued there.
//!
//! # *Slow polls*
//!
//! 61 ticks are some microseconds in a ping-pong, and 6 ms where polls take 100 us. So time counts
//! as well. While all permits are taken, the monitor looks every millisecond. If the global queue
//! has something and a worker makes fewer than 61 ticks in a millisecond, the monitor sets a bit of
//! the worker's attention word. With that bit, every fourth tick takes a task from the global
//! queue, until there is none. A worker without the bit pays nothing. tokio measures its polls
//! instead, and looks every 200 us. Measured with 500 tasks that always want to go on, for 100 us
//! each: before this, requests of a foreign thread waited five times as long as with tokio.
//!
//! # *Wakers in a step*
//!
//! A step wakes what the netpoll and the timers bring, and a waker may be any code. It may announce
//! a block, and be back when no permit is free. It may take so long that the monitor takes the
//! permit. So after a step has woken something, it looks at the permit again. If the permit is
//! gone, the step goes on as one without a permit (S3). A waker that is not a task's comes last,
//! and runs in [`Worker::enter_user_code`]; see `foreign_wakers.rs`. If nothing was due, this costs
//! nothing. What comes afterwards, up to the poll, is as short as what comes before a revocation in
//! any poll.
//!
//! # Two scopes
//!
//! A worker thread, and the thread of `Runtime::run`, take any work. A thread in `block_on` runs
//! only what its own root made runnable. It never looks at the global queue and never steals. So a
//! thread of a user's own does not pick up the 100 ms poll of another's task.

#[cfg(test)]
pub(crate) mod tests;

use std::task::Waker;

use super::{
    foreign_wakers::wake_task,
    priority::ANY,
    processor::{Peer, attention},
    recording,
    search::Search,
    worker::{Scope, Step, Worker},
};
use crate::{
    cell::{DEFAULT_PRIORITY, Task},
    note::{event, way},
    permit::{env::Env, idle::WorkerState, phase::ShutdownEnv, sleep::Sleeper},
    policy::{
        Heuristic,
        constants::{CALLS_WITHIN, FILLS_TO},
        forks::lends,
        share::Waiting,
        tick::{Tick, netpoll_is_due, slice_is_over},
    },
    queue::Batch,
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
        self.p.clocks.due.set(tick.next_due(sample));
        if tick.is_for_all()
            && let Some(step) = self.every_61st(tick)
        {
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
        if asked & attention::GLOBAL != 0
            && let Some(step) = self.step_among_slow()
        {
            return Some(step);
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
    fn step_without_permit(&self) -> Step {
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

    /// What has its turn at every 61st tick, however much local work there is.
    fn every_61st(&self, tick: Tick) -> Option<Step> {
        let now = self.now();
        self.p.set_now(now);
        match self.p.clocks.slice_began.get() {
            // It began since the last look at the clock.
            None => self.p.clocks.slice_began.set(Some(now)),
            Some(began) if slice_is_over(began, now) => {
                self.peer().attention.fetch_or(attention::SLICE, Relaxed);
            }
            Some(_) => {}
        }
        if lends(
            !self.shared.idle.wanting().is_empty(),
            self.shared.idle.free(),
        ) {
            self.lend_permit();
            if !self.peer().state.has_permit() {
                return Some(self.step_without_permit());
            }
        }
        if self.scope == Scope::Own {
            return self.leaves_others_out().then(|| {
                self.begin_blocking();
                self.step_without_permit()
            });
        }
        if netpoll_is_due(self.shared.io.last_look.load(Relaxed), now) {
            // Also where there is no source, and so no look at the netpoll.
            self.shared.io.last_look.store(now, Relaxed);
            self.look_around();
            if !self.peer().state.has_permit() {
                return Some(self.step_without_permit());
            }
        }
        if self.shared.queues.grq.is_empty() || self.is_outranked() {
            return None;
        }
        if self.waiting().is_share_above(self.p.lrq.len()) {
            return self.global(FILLS_TO).map(Step::Run);
        }
        let task = self.shared.queues.grq.pop()?;
        self.count_global(1);
        // The task that has waited longest runs now. The next ones come behind what is here.
        if Heuristic::Exchange.is_on()
            && let Some(at_most) = self.exchange_is_due(tick)
        {
            self.exchange(at_most);
        }
        Some(Step::Run(task))
    }

    /// What waits for all workers.
    fn waiting(&self) -> Waiting {
        Waiting {
            tasks: self.shared.queues.grq.len(),
            workers: self.shared.config.workers,
        }
    }

    /// The rest of a step that takes from the global queue; see *Slow polls*. What is due at this
    /// tick comes first: every tick for the own timers is such a step.
    #[cold]
    fn step_among_slow(&self) -> Option<Step> {
        let tick = Tick(self.peer().progress.ticks.load(Relaxed));
        if self.peer().state.has_permit()
            && tick.0 >= self.p.clocks.due.get()
            && let Some(step) = self.what_is_due(tick)
        {
            return Some(step);
        }
        let task = self.global_among_slow(tick)?;
        self.let_child_wait();
        Some(Step::Run(task))
    }

    /// A thread in `block_on` takes none: it may have found the bit on the P that it took.
    fn global_among_slow(&self, tick: Tick) -> Option<Task> {
        let peer = self.peer();
        if self.scope == Scope::Own {
            peer.attention.fetch_and(!attention::GLOBAL, Relaxed);
            return None;
        }
        if !tick.is_for_all_if_slow() || !peer.state.has_permit() || self.is_outranked() {
            return None;
        }
        let task = self.shared.queues.grq.pop();
        match task {
            Some(_) => self.count_global(1),
            None => _ = peer.attention.fetch_and(!attention::GLOBAL, Relaxed),
        }
        task
    }

    /// The most tasks to exchange at this tick, which counts as an exchange.
    fn exchange_is_due(&self, tick: Tick) -> Option<usize> {
        let clocks = &self.p.clocks;
        let now = clocks.now_ms.get();
        let at_most = tick.exchange(now.wrapping_sub(clocks.exchanged_ms.get()))?;
        clocks.exchanged_ms.set(now);
        Some(at_most)
    }

    /// *The exchange*: takes its share of the global queue as if its own were empty. The local
    /// tasks for which there is then no room go to the back of the global queue. One task in 61
    /// ticks is little if thousands wait there, and a few hundred that are always ready have the
    /// local queues. Measured with 10,000 tasks that yield, 10 us each, on two workers: a new one
    /// was polled after 3 s, and the others together take 50 ms for a turn.
    #[cold]
    fn exchange(&self, at_most: usize) {
        let (lrq, grq) = (&self.p.lrq, &self.shared.queues.grq);
        let Some(share) = self.waiting().exchanged(at_most, lrq.len(), lrq.room()) else {
            return;
        };
        let mut taken = grq.take(share);
        self.count_global(taken.len() as u64);
        let mut back = Batch::new();
        for _ in lrq.room()..taken.len() {
            back.extend(lrq.pop());
        }
        lrq.push_batch(&mut taken);
        back.extend(taken);
        if !back.is_empty() {
            self.shared.push_batch(back);
        }
    }

    /// For a thread in `block_on` that is always busy: whether work for all waits, or something is
    /// awaited, and no thread would come to it (L4, L6), since such threads hold every permit. If
    /// so, the thread goes on without a permit, with its root alone.
    fn leaves_others_out(&self) -> bool {
        let shared = &*self.shared;
        let takes_any = |peer: &Peer| {
            peer.state.load() == WorkerState::Running && !peer.flags.own.load(Relaxed)
        };
        shared.idle.free() == 0
            && (shared.has_queued() || (shared.nobody_polls() && shared.awaits()))
            && !shared.threads.refused.load(Relaxed)
            && shared.could_have_a_thread()
            && !shared.peers().any(takes_any)
    }

    pub(super) fn count_global(&self, n: u64) {
        self.peer().counters.global.add(n);
    }

    /// The root, or a pinned task.
    fn private(&self) -> Option<Step> {
        if let Some(root) = &self.root
            && root.take()
        {
            return Some(Step::Root);
        }
        if self.p.has_pinned() {
            self.p.pop_pinned().map(Step::Run)
        } else {
            None
        }
    }

    /// A child that was just forked, `runnext`, the fork deque, then the local queue. At every 16th
    /// tick the local queue comes before the fork deque, so that forks do not hold it up.
    fn local(&self) -> Option<Task> {
        let p = &*self.p;
        if let Some(task) = p.forks.take_child().or_else(|| p.runnext.take()) {
            return Some(task);
        }
        if p.forks.used.get()
            && !p.forks.parents.is_empty()
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
        if let Some(child) = self.p.forks.direct.take() {
            self.push_next(child);
        }
    }

    /// What runs next does not inherit its slice.
    pub(super) fn begin_slice(&self) {
        self.p.clocks.slice_began.set(None);
    }

    /// The slice is over: `runnext` goes to the back, if there is a queue that waits (F4).
    fn end_slice(&self) {
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
    fn global(&self, fills_to: usize) -> Option<Task> {
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

    /// Fires what is due on any P and looks at the netpoll: at 61st ticks, and in the middle of a
    /// poll. If every permit is held by a thread that never runs dry, no other thread does (*Who is
    /// heard* in `permit/env.rs`).
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
        let mut ready = self.ready.take();
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
            self.ready.replace(ready);
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
        let mut ready = self.ready.take();
        self.p.peer.timers.fire_due(now, &mut ready);
        event!(self, Timers, (), recording::fired(ready.len(), first, now));
        self.peer().counters.timers.add(ready.len() as u64);
        self.wake_batch(ready)
    }

    /// Fires the timers that are due on any P: the P's own thread may be stuck (F6).
    pub(super) fn fire_all_timers(&self) -> usize {
        let now = self.now();
        let mut ready = self.ready.take();
        let count = self.shared.fire_due(now, &mut ready);
        self.peer().counters.timers.add(count as u64);
        self.wake_batch(ready)
    }

    /// Whether the next task is not from the local queue.
    fn runs_another_first(&self) -> bool {
        let p = &*self.p;
        !p.runnext.is_empty()
            || !p.forks.direct.is_empty()
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
        self.ready.replace(ready);
        if !foreign_wakers.is_empty() {
            self.wake_foreign(foreign_wakers);
        }
        count
    }

    /// Wakes all into the queue, and then as many threads as that is worth. The first thread is
    /// woken as soon as there is something for it (I5), since thousands may be due at once.
    #[inline]
    pub(super) fn batch(&self, wakers: impl Iterator<Item = Waker>, mut wake: impl FnMut(Waker)) {
        let outer = self.p.batch.replace(Some(0));
        let mut shared_out = false;
        for waker in wakers {
            wake(waker);
            if !shared_out && self.p.batch.get() > Some(1) {
                shared_out = true;
                // Others would rely on this thread as a spinner.
                self.found_work();
                self.shared.wake_for(1);
            }
        }
        let queued = self.p.batch.replace(outer).unwrap_or(0);
        // One of them is for this thread, unless it has something to run before that. (Without a
        // permit they are in the global queue, and a thread was woken for each.)
        let has_permit = self.peer().state.has_permit();
        let own = usize::from(!(has_permit && self.runs_another_first()));
        if queued > own {
            self.shared.wake_for(queued - own);
        }
    }
}

fn is_call(task: &Task) -> bool {
    task.header().blocks()
}
