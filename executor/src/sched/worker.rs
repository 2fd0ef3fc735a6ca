//! M: a thread that has a P, and what it does next.
//!
//! # The step
//!
//! A worker is stepped: [`Worker::step`] looks for work in the order below and says what to do, and
//! the loop around it does that. Nothing in a step sleeps, and nothing in it asks another clock than
//! the runtime's or another random generator than the P's; so a driver that is not a thread can step
//! many workers under one seed and a virtual clock.
//!
//! `find_runnable` looks, in this order:
//!
//! 1. attention: shutdown, a revoked permit, a slice that is over;
//! 2. at every 61st tick: the clock, the global queue, the netpoll, who wants a permit;
//! 3. timers of this P that are due (at every 16th tick, and before anything but local work);
//! 4. the root of a `block_on` and pinned tasks (each second time, if there is other local work);
//! 5. `runnext`, unless its slice is over: then its task goes to the back;
//! 6. the local queue;
//! 7. a fair batch of the global queue;
//! 8. the netpoll, without blocking;
//! 9. up to four rounds of stealing over all other Ps in a random order, the last of which also takes
//!    others' `runnext` and fires their due timers;
//! 10. nothing: park (`idle.rs`), with one last look at everything.
//!
//! # Two scopes
//!
//! A worker thread, and the thread of `Runtime::run`, take any work. A thread in `block_on` runs only
//! what its own root made runnable: it never looks at the global queue and never steals, so that a
//! thread of a user's own does not pick up a stranger's 100 ms poll. It does wait in the netpoll if
//! nobody else does, and passes on what it finds there.
//!
//! # *The gate*
//!
//! A task that is woken into an empty `runnext` will be run by this thread in a moment, and to wake
//! another for it would be for nothing: two tasks that talk to each other would keep a second core
//! busy (tokio #4941, #8065; golang/go #18237). But if this thread computes on, the task sits there. So a lone
//! `runnext` wakes a thread, and that thread reports: if it got no task until it went back to sleep, the P
//! lets twice as many such wake-ups pass as before, up to [`GATE_MAX`]; if it got one, none. A ring
//! of tasks with one token soon wakes nobody, and a task that spawns a child and computes on has it
//! started elsewhere at once.
//!
//! # Tasks that come while there is no permit
//!
//! Between two polls a thread without a permit owns an empty P. In the middle of a poll, after a
//! revocation, or while a `block_on` found no permit, what is spawned or woken goes to the global
//! queue: in the local one it would be seen by those only who run dry.

use std::{
    cell::{Cell, RefCell},
    fmt,
    panic::{AssertUnwindSafe, Location, catch_unwind},
    ptr::NonNull,
    task::Waker,
    time::Duration,
};

use super::{
    Root, Shared,
    idle::{Permit, Spinning},
    park::Parker,
    processor::{Peer, Processor, attention},
};
use crate::{
    budget, context,
    queue::{Batch, Steal, Token},
    rng::random_order,
    sync::{
        Arc,
        atomic::Ordering::{Relaxed, Release, SeqCst},
        atomic::fence,
        hint,
    },
    task::{Ended, Extra, Home, Id, Outcome, Parts, Task, TaskRef, live::Removed},
    time::TimerHandle,
};

/// Every so many ticks the global queue is looked at first (L4). As in Go: a prime, so that it does not
/// fall into step with a program's own period.
const GLOBAL_TICK: u32 = 61;
/// Every so many ticks the timers of the own P are looked at although there is local work. Guessed: a
/// clock reading costs about a poll.
const TIMER_TICK: u32 = 16;
/// The most wake-ups for a lone `runnext` that are let pass in a row. Measured with the ring and the
/// spawn-then-compute benchmarks: at 4096 the ring keeps 0.5 % of a second core busy.
const GATE_MAX: u32 = 4096;
/// How long a task and those it wakes into `runnext` may run before the queue has its turn (F4). As in
/// Go and in sysmon.
pub(crate) const SLICE: Duration = Duration::from_millis(10);
/// At least so long between two looks at the netpoll of workers that have local work.
const NETPOLL_PERIOD: Duration = Duration::from_micros(50);
/// How long the last round of stealing waits for a victim to move on before it takes its `runnext`: Go
/// sleeps 3 us before each of its rounds (F4: about 12 us).
const RUNNEXT_PATIENCE: Duration = Duration::from_micros(10);

/// What a worker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Anything.
    All,
    /// Only what is on its own P.
    Own,
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Poll this task.
    Run(Task),
    /// Poll the root of the `block_on`.
    Root,
    /// There is nothing: sleep.
    Park,
    /// The runtime shuts down.
    Leave,
}

/// See the module's head.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    pub(super) p: Box<Processor>,
    pub(super) root: Option<std::sync::Arc<Root>>,
    scope: Scope,
    spinning: Cell<Option<Spinning>>,
    /// The last step ran the root or a pinned task: others come first now.
    private_last: Cell<bool>,
    /// Wakers from the netpoll and the timers, on their way to being woken.
    ready: RefCell<Vec<Waker>>,
    /// What the first round of a search saw, a row a victim.
    seen: RefCell<Vec<(Option<Token>, u64)>>,
    /// This thread passed on a stranger's event while it waited in the netpoll.
    passed_on: Cell<bool>,
}

/// The life of a worker thread. Its P runs already, with the permit of a spinner.
pub(super) fn main(shared: &Arc<Shared>, processor: Box<Processor>) {
    let worker = Worker::new(shared.clone(), processor, Scope::All, None);
    worker.spinning.set(Some(Spinning::take_over()));
    shared.config.hooks.call_start();
    context::with_worker_frame(&worker, || {
        loop {
            match worker.step() {
                Step::Run(task) => worker.poll(task),
                Step::Park => {
                    if worker.park() == Awake::Leave {
                        break;
                    }
                }
                Step::Root => unreachable!("a worker thread has no root"),
                Step::Leave => break,
            }
        }
        worker.clear_away();
    });
    worker.leave();
    shared.config.hooks.call_stop();
    shared.thread_ended();
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        p: Box<Processor>,
        scope: Scope,
        root: Option<std::sync::Arc<Root>>,
    ) -> Self {
        p.now_ms.set(shared.now_ms());
        Self {
            shared,
            p,
            root,
            scope,
            spinning: Cell::new(None),
            private_last: Cell::new(false),
            ready: RefCell::new(Vec::new()),
            seen: RefCell::new(Vec::new()),
            passed_on: Cell::new(false),
        }
    }

    /// The thread has its P, and takes a permit if one is free.
    pub(super) fn arrive(&self) {
        self.peer().standing.arrive();
        self.try_run();
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.p.peer
    }

    fn now(&self) -> u64 {
        self.shared.time.clock().now_ns()
    }

    // --- looking for work ---

    /// `find_runnable`; see the module's head.
    pub(super) fn step(&self) -> Step {
        let p = &*self.p;
        let tick = p.tick.get().wrapping_add(1);
        p.tick.set(tick);
        if p.peer.attention.load(Relaxed) != 0
            && let Some(step) = self.attend()
        {
            return step;
        }
        if !self.peer().standing.has_permit() {
            return self.step_without_permit();
        }
        if tick.is_multiple_of(GLOBAL_TICK)
            && let Some(step) = self.every_61st()
        {
            return step;
        }
        if tick.is_multiple_of(TIMER_TICK) {
            self.fire_own_timers();
        }
        if !self.private_last.get()
            && let Some(step) = self.private()
        {
            self.private_last.set(true);
            return step;
        }
        self.private_last.set(false);
        loop {
            if let Some(task) = self.local() {
                return Step::Run(task);
            }
            // Who made this step skip them looks at them now.
            if let Some(step) = self.private() {
                return step;
            }
            if self.fire_own_timers() > 0 {
                continue;
            }
            if self.scope == Scope::Own {
                return Step::Park;
            }
            if let Some(task) = self.global() {
                return Step::Run(task);
            }
            if self.look_at_netpoll() > 0 {
                continue;
            }
            match self.search() {
                Search::Found(task) => return Step::Run(task),
                Search::Again => {}
                Search::Nothing => return Step::Park,
            }
        }
    }

    /// Reads the attention word, and does what it asks for.
    fn attend(&self) -> Option<Step> {
        let asked = self.peer().attention.load(Relaxed);
        if asked & attention::SHUTDOWN != 0 {
            if self.root.is_none() {
                return Some(Step::Leave);
            }
            // Its root goes on; what is pinned to it does not.
            self.clear_pinned();
        }
        if asked & attention::REVOKED != 0 {
            self.peer().attention.fetch_and(!attention::REVOKED, Relaxed);
        }
        None
    }

    /// A thread that has no permit: after a revocation, or in a `block_on` that found none. It tries
    /// for one; if there is none, its P's work goes to the others.
    fn step_without_permit(&self) -> Step {
        if self.try_run() {
            // The next step does it all.
            return self.step();
        }
        self.hand_in();
        // Ordering: SeqCst: between handing in and the last try; pairs with the fence of a release,
        // which looks at the global queue after it.
        fence(SeqCst);
        if self.try_run() {
            return self.step();
        }
        match &self.root {
            // A root may be polled by its own thread at any time, as any foreign future may.
            Some(root) if self.scope == Scope::Own && root.take() => Step::Root,
            _ => Step::Park,
        }
    }

    /// Takes a permit, if one is free.
    fn try_run(&self) -> bool {
        match self.shared.idle.acquire() {
            Some(permit) => {
                self.peer().standing.run(permit);
                true
            }
            None => false,
        }
    }

    /// Moves ring and runnext to the global queue.
    pub(super) fn hand_in(&self) {
        let mut batch = Batch::new();
        batch.extend(self.p.runnext.take());
        self.p.lrq.drain(|task| batch.push(task));
        if !batch.is_empty() {
            self.shared.push_batch(batch);
        }
    }

    /// What has its turn at every 61st tick, however much local work there is.
    fn every_61st(&self) -> Option<Step> {
        let now = self.now();
        self.p.now_ms.set((now / 1_000_000) as u32);
        if self.p.slice_began.get() + SLICE.as_nanos() as u64 <= now {
            self.p.slice_began.set(now);
            self.peer().attention.fetch_or(attention::SLICE, Relaxed);
        }
        if !self.shared.idle.wanting().is_empty() && self.shared.idle.free() == 0 {
            self.lend_permit();
            if !self.peer().standing.has_permit() {
                return Some(self.step_without_permit());
            }
        }
        if self.scope == Scope::Own {
            return None;
        }
        if self.shared.last_netpoll.load(Relaxed) + NETPOLL_PERIOD.as_nanos() as u64 <= now {
            self.look_at_netpoll();
        }
        let task = self.shared.grq.pop()?;
        self.count_global(1);
        Some(Step::Run(task))
    }

    fn count_global(&self, n: u64) {
        self.peer().counters.global.add(n);
    }

    /// Gives this thread's permit to one that has pinned work and none, and waits for another.
    fn lend_permit(&self) {
        if let Some(permit) = self.peer().standing.revoke() {
            match self.shared.hand_to_wanting(permit) {
                // The step that follows has no permit, hands in what is here, and parks.
                Ok(()) => {}
                Err(permit) => self.peer().standing.run(permit),
            }
        }
    }

    /// The root, or a pinned task.
    fn private(&self) -> Option<Step> {
        if let Some(root) = &self.root
            && root.take()
        {
            return Some(Step::Root);
        }
        if self.p.has_pinned() { self.p.pop_pinned().map(Step::Run) } else { None }
    }

    /// `runnext`, then the local queue.
    fn local(&self) -> Option<Task> {
        let p = &*self.p;
        if let Some(task) = p.runnext.take() {
            if !self.slice_is_over() || p.lrq.is_empty() {
                return Some(task);
            }
            // It inherited its slice, and that is over: the queue has its turn (F4).
            self.push_back(task);
        }
        let task = p.lrq.pop()?;
        self.new_slice();
        Some(task)
    }

    fn new_slice(&self) {
        if self.slice_is_over() {
            self.peer().attention.fetch_and(!attention::SLICE, Relaxed);
        }
        // The clock is read at every 61st tick only: a slice that began since then is as young.
        self.p.slice_began.set(u64::MAX / 2);
    }

    /// Whether the running task should let others have a turn.
    pub(crate) fn slice_is_over(&self) -> bool {
        self.peer().attention.load(Relaxed) & attention::SLICE != 0
    }

    /// A fair share of the global queue: one to run, the rest into the local queue.
    fn global(&self) -> Option<Task> {
        if self.shared.grq.is_empty() {
            return None;
        }
        let share = self.shared.grq.len() / self.shared.config.workers + 1;
        let mut first = None;
        let mut count = 0;
        let most = share.min(self.p.lrq.room());
        self.shared.grq.pop_batch(most.max(1), |task| {
            count += 1;
            if first.is_none() {
                first = Some(task);
            } else if let Err(overflow) = self.p.lrq.push(task) {
                unreachable!("there was room: {overflow:?}");
            }
        });
        self.count_global(count);
        first
    }

    /// Looks at the netpoll without blocking, unless somebody else is there. How many became ready.
    fn look_at_netpoll(&self) -> usize {
        if !self.shared.netpoll.has_sources() {
            return 0;
        }
        let Some(mut poller) = self.shared.netpoll.try_poller() else { return 0 };
        let mut ready = self.ready.take();
        if let Err(error) = poller.look(&mut ready) {
            report_netpoll(&error);
        }
        drop(poller);
        self.shared.last_netpoll.store(self.now(), Relaxed);
        self.peer().counters.netpolls.add(1);
        self.wake_batch(ready)
    }

    /// Fires the timers of this P that are due. How many.
    fn fire_own_timers(&self) -> usize {
        if self.p.peer.timers.next_deadline().is_none() {
            return 0;
        }
        let now = self.now();
        self.p.now_ms.set((now / 1_000_000) as u32);
        if !self.p.peer.timers.has_due(now) {
            return 0;
        }
        let mut ready = self.ready.take();
        self.p.peer.timers.fire_due(now, &mut ready);
        self.peer().counters.timers.add(ready.len() as u64);
        self.wake_batch(ready)
    }

    /// Wakes what the netpoll or the timers brought, all into the queue, and then as many threads as
    /// that is worth. Gives the empty vector back for the next time.
    fn wake_batch(&self, mut ready: Vec<Waker>) -> usize {
        let count = ready.len();
        let outer = self.p.batch.replace(Some(0));
        for waker in ready.drain(..) {
            // Anybody's waker, on a worker's stack: a panic of it is its own.
            if catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err() {
                tracing::error!("a waker panicked that waited for I/O or a timer");
            }
        }
        let queued = self.p.batch.replace(outer).unwrap_or(0);
        self.ready.replace(ready);
        // One of them is for this thread.
        if queued > 1 {
            self.shared.wake_for(queued - 1);
        }
        count
    }

    /// Up to four rounds over all other Ps.
    fn search(&self) -> Search {
        let spinning = match self.spinning.take().or_else(|| self.shared.idle.start_spinning()) {
            Some(spinning) => spinning,
            None => return Search::Nothing,
        };
        self.spinning.set(Some(spinning));
        self.peer().counters.searches.add(1);
        let count = self.shared.peer_count();
        let own = self.peer().index;
        let mut seen = self.seen.borrow_mut();
        seen.clear();
        seen.resize(count, (None, 0));
        for round in 0..4 {
            for at in random_order(&self.p.rng, count) {
                if at == own {
                    continue;
                }
                let victim = self.shared.peer(at);
                match victim.stealer.steal_into(&self.p.lrq) {
                    Steal::Stolen { first, count } => {
                        self.count_steal(count);
                        return Search::Found(first);
                    }
                    Steal::Empty | Steal::Busy => {}
                }
                let row = (victim.runnext.peek(), victim.polls.load(Relaxed));
                match round {
                    0 => seen[at] = row,
                    3 => {
                        if let (Some(token), polls) = seen[at]
                            && self.stays(victim, token, polls)
                            && let Some(task) = victim.runnext.steal(token)
                        {
                            self.count_steal(1);
                            return Search::Found(task);
                        }
                    }
                    _ => {}
                }
            }
            if !self.shared.grq.is_empty() || self.p.has_pinned() {
                return Search::Again;
            }
        }
        drop(seen);
        if self.fire_all_timers() > 0 { Search::Again } else { Search::Nothing }
    }

    /// Waits a moment for a victim to come to its `runnext` by itself. True if it does not.
    fn stays(&self, victim: &Peer, token: Token, polls: u64) -> bool {
        let until = self.now() + RUNNEXT_PATIENCE.as_nanos() as u64;
        loop {
            if victim.polls.load(Relaxed) != polls || victim.runnext.peek() != Some(token) {
                return false;
            }
            if self.now() >= until {
                return true;
            }
            hint::spin_loop();
        }
    }

    fn count_steal(&self, tasks: usize) {
        self.peer().counters.steals.add(1);
        self.peer().counters.stolen.add(tasks as u64);
    }

    /// Fires what is due on any P: its own thread may be stuck (F6).
    fn fire_all_timers(&self) -> usize {
        let now = self.now();
        let mut ready = self.ready.take();
        let count = self.shared.fire_due(now, &mut ready);
        self.peer().counters.timers.add(count as u64);
        self.wake_batch(ready)
    }

    // --- running ---

    /// Polls a task, and puts it where it belongs.
    pub(super) fn poll(&self, task: Task) {
        self.found_work();
        let p = &*self.p;
        p.count_poll();
        let pinned = task.header().is_pinned();
        match budget::with_budget(|| task.run()) {
            Outcome::Idle => {}
            Outcome::Requeue(task) if pinned => p.pinned.borrow_mut().push_back(task),
            Outcome::Requeue(task) => self.push_back(task),
            Outcome::Done(ended) => self.completed(pinned, ended),
        }
    }

    fn completed(&self, pinned: bool, ended: Ended) {
        self.peer().counters.completed.add(1);
        if pinned {
            self.p.pinned_live.set(self.p.pinned_live.get() - 1);
        }
        if ended == Ended::Panicked {
            self.shared.task_panicked();
        }
    }

    /// The search is over. The last searcher sees to it that somebody goes on if there is more.
    pub(super) fn found_work(&self) {
        let Some(spinning) = self.spinning.take() else { return };
        let woken_for = self.peer().woken_for.swap(0, Relaxed);
        if woken_for != 0 {
            let by = self.shared.peer(woken_for as usize - 1);
            by.gate.store(0, Relaxed);
        }
        if self.shared.idle.stop_spinning(spinning) && self.shared.any_work() {
            self.shared.wake_for(1);
        }
    }

    // --- tasks that become runnable on this thread ---

    /// A task was woken, by this thread.
    pub(crate) fn push_woken(&self, task: Task) {
        if task.header().is_pinned() {
            if self.home_is(task.header().home()) {
                self.p.pinned.borrow_mut().push_back(task);
            } else {
                self.shared.push_foreign(task);
            }
        } else if let Some(queued) = self.p.batch.get() {
            self.p.batch.set(Some(queued + 1));
            self.push_quietly(task);
        } else {
            self.push_next(task);
        }
    }

    /// Into `runnext`; what it displaces goes to the back (H1).
    fn push_next(&self, task: Task) {
        if !self.peer().standing.has_permit() {
            self.shared.push_foreign(task);
            return;
        }
        match self.p.runnext.put(task) {
            Some(displaced) => self.push_back(displaced),
            None => self.pass_the_gate(),
        }
    }

    /// See *The gate*.
    fn pass_the_gate(&self) {
        let left = self.p.pass.get();
        if left > 0 {
            self.p.pass.set(left - 1);
            return;
        }
        if !self.shared.idle.could_wake() {
            return;
        }
        self.p.pass.set(self.peer().gate.load(Relaxed));
        if let Some((permit, spinning)) = self.shared.idle.submit(1) {
            self.peer().counters.wakeups.add(1);
            self.shared.wake_with(permit, spinning, Some(self.peer()));
        }
    }

    /// To the back of the local queue, and wakes a thread if one could take it.
    fn push_back(&self, task: Task) {
        if self.push_quietly(task)
            && let Some((permit, spinning)) = self.shared.idle.submit(1)
        {
            self.peer().counters.wakeups.add(1);
            self.shared.wake_with(permit, spinning, None);
        }
    }

    /// To the back of the local queue, or with half of it to the global one. Whether the caller should
    /// see to a thread for it.
    fn push_quietly(&self, task: Task) -> bool {
        if !self.peer().standing.has_permit() {
            self.peer().counters.handed_in.add(1);
            self.shared.push_foreign(task);
            return false;
        }
        match self.p.lrq.push(task) {
            Ok(()) => true,
            Err(batch) => {
                self.peer().counters.overflows.add(1);
                self.shared.push_batch(batch);
                false
            }
        }
    }

    // --- spawning ---

    /// The makings of a task that is spawned here.
    pub(crate) fn parts(
        &self,
        extra: Option<Box<Extra>>,
        location: &'static Location<'static>,
    ) -> Parts {
        let (mut next, mut end) = self.p.ids.get();
        if next == end {
            (next, end) = Shared::id_block();
        }
        self.p.ids.set((next + 1, end));
        Parts {
            home: NonNull::from(&self.p.peer.home),
            id: Id::new(next),
            born_ms: self.p.now_ms.get(),
            location,
            extra,
        }
    }

    /// Enters a new task, and queues it.
    pub(crate) fn spawn(&self, task: Task) {
        if self.shared.phase.is_closing() {
            task.refuse();
            return;
        }
        task.enter(|reference| self.p.live.insert(reference));
        self.peer().counters.spawned.add(1);
        if task.header().is_pinned() {
            self.p.pinned_live.set(self.p.pinned_live.get() + 1);
            self.p.pinned.borrow_mut().push_back(task);
        } else {
            self.push_next(task);
        }
    }

    pub(crate) fn home_is(&self, home: &Home) -> bool {
        std::ptr::eq(home, &self.p.peer.home)
    }

    pub(crate) fn home_is_at(&self, home: NonNull<Home>) -> bool {
        home == NonNull::from(&self.p.peer.home)
    }

    pub(crate) fn remove_live(&self, index: u32) -> Removed<TaskRef> {
        self.p.live.remove(index)
    }

    pub(crate) fn timers(&self) -> TimerHandle {
        TimerHandle::new(self.p.peer.timers.clone())
    }

    // --- sleeping ---

    /// The search is over and was in vain: if it was the answer to a wake-up, that P lets more of them
    /// pass.
    fn search_was_in_vain(&self) {
        let woken_for = self.peer().woken_for.swap(0, Relaxed);
        if woken_for != 0 {
            let gate = &self.shared.peer(woken_for as usize - 1).gate;
            gate.store((gate.load(Relaxed) * 2).clamp(1, GATE_MAX), Relaxed);
        }
    }

    /// Gives the permit up and sleeps until there is something to do.
    pub(super) fn park(&self) -> Awake {
        let peer = self.peer();
        self.search_was_in_vain();
        let permit = peer.standing.park();
        self.shared.idle.parked().insert(peer.index);
        match (permit, self.spinning.take()) {
            (Some(permit), spinning) => {
                self.shared.idle.release(permit, spinning);
                self.shared.after_release();
            }
            // It was revoked in the middle of the search.
            (None, Some(spinning)) => {
                self.shared.idle.stop_spinning(spinning);
            }
            // Ordering: SeqCst: as in `Idle::release`.
            (None, None) => fence(SeqCst),
        }
        if self.shared.any_work()
            && let Some(permit) = self.shared.idle.acquire()
        {
            self.stand_up(permit);
            return Awake::Go;
        }
        peer.counters.parks.add(1);
        self.shared.config.hooks.call_park();
        let awake = loop {
            if let Some(awake) = self.sleep() {
                break awake;
            }
        };
        self.shared.config.hooks.call_unpark();
        awake
    }

    /// One sleep of a parked thread. None if it sleeps on.
    fn sleep(&self) -> Option<Awake> {
        let peer = self.peer();
        if peer.standing.has_permit() {
            self.was_handed_a_permit();
            return Some(Awake::Go);
        }
        if self.is_shut_down() && (self.root.is_none() || self.p.pinned_live.get() > 0) {
            self.rise();
            return Some(Awake::Go);
        }
        if self.has_private() {
            self.rise();
            self.get_permit(&peer.parker);
            return Some(Awake::Go);
        }
        let expired = self.wait(&peer.parker, Some(self.shared.config.keep_alive));
        let ready = self.ready.take();
        if !ready.is_empty()
            && !peer.standing.has_permit()
            && let Some(permit) = self.shared.idle.acquire()
        {
            self.stand_up(permit);
        } else if peer.standing.has_permit() {
            self.was_handed_a_permit();
        } else if expired && self.p.pinned_live.get() == 0 && self.root.is_none() && self.rise() {
            return Some(Awake::Leave);
        }
        // Without a permit they go to the global queue.
        self.wake_batch(ready);
        peer.standing.has_permit().then_some(Awake::Go)
    }

    /// A waker swapped the standing: its permit is ours, and we are counted as spinning.
    fn was_handed_a_permit(&self) {
        if self.spinning.take().is_none() {
            self.spinning.set(Some(Spinning::take_over()));
        }
    }

    /// Stands up with `permit`. If another one was handed over meanwhile, `permit` goes back.
    fn stand_up(&self, permit: Permit) {
        let peer = self.peer();
        match peer.standing.hand_to_parked(permit) {
            Ok(()) => self.shared.idle.parked().remove(peer.index),
            Err(permit) => {
                self.was_handed_a_permit();
                self.shared.release(permit, None);
            }
        }
    }

    /// Is awake without a permit. False if one was handed over meanwhile.
    fn rise(&self) -> bool {
        if self.peer().standing.awake() {
            self.shared.idle.parked().remove(self.peer().index);
            true
        } else {
            self.was_handed_a_permit();
            false
        }
    }

    fn has_private(&self) -> bool {
        self.p.has_pinned() || self.root.as_ref().is_some_and(|root| root.is_notified())
    }

    /// Gets a permit for work that this thread alone can do, and waits for one if it must; see *Pinned
    /// work* in `idle.rs`. Returns without one when the runtime shuts down, or the root wants to be
    /// polled by a thread that does not need one.
    fn get_permit(&self, parker: &Parker) {
        let peer = self.peer();
        loop {
            let free_root = self.scope == Scope::Own
                && self.root.as_ref().is_some_and(|root| root.is_notified());
            if peer.standing.has_permit() || self.try_run() || free_root || self.is_shut_down() {
                return;
            }
            peer.standing.want();
            self.shared.idle.wanting().insert(peer.index);
            // Ordering: SeqCst: see *Pinned work*; pairs with the fence in `Idle::release`.
            fence(SeqCst);
            if let Some(permit) = self.shared.idle.acquire() {
                if let Err(permit) = peer.standing.hand_to_wanting(permit) {
                    // Another was handed over meanwhile.
                    self.shared.release(permit, None);
                }
                self.shared.idle.wanting().remove(peer.index);
                return;
            }
            parker.park();
            self.shared.idle.wanting().remove(peer.index);
            if !peer.standing.awake() {
                return;
            }
        }
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.peer().attention.load(Relaxed) & attention::SHUTDOWN != 0
    }

    /// Waits in the netpoll if nobody else does, else on `parker`; what became ready is in `ready`
    /// then. True if `keep_alive` went by, which does not count in the netpoll.
    fn wait(&self, parker: &Parker, keep_alive: Option<Duration>) -> bool {
        let poller = if self.passed_on.get() && self.shared.has_threads() {
            None
        } else {
            self.shared.netpoll.try_poller()
        };
        let Some(mut poller) = poller else {
            return match keep_alive {
                Some(keep_alive) => parker.park_timeout(keep_alive),
                None => {
                    parker.park();
                    false
                }
            };
        };
        let mut ready = self.ready.take();
        // Ordering: Release: who finds nobody there (Acquire, in `ensure_poller`) comes after.
        self.shared.netpoll_waiter.store(self.peer().index + 1, Release);
        parker.park_polling(|| {
            poller.prepare();
            let clock = self.shared.time.clock();
            let next = self.shared.next_deadline();
            if next.is_some_and(|next| next <= clock.now_ns()) {
                poller.cancel();
            } else if let Err(error) = poller.wait(next.map(|next| clock.from_ns(next)), &mut ready)
            {
                report_netpoll(&error);
            }
        });
        self.shared.netpoll_waiter.store(0, Release);
        drop(poller);
        let now = self.now();
        self.p.now_ms.set((now / 1_000_000) as u32);
        self.shared.last_netpoll.store(now, Relaxed);
        self.peer().counters.netpolls.add(1);
        let fired = self.shared.fire_due(now, &mut ready);
        self.peer().counters.timers.add(fired as u64);
        self.ready.replace(ready);
        false
    }

    // --- a thread in `block_on` ---

    /// Gives the permit up and sleeps until the root, or a pinned task, can go on. Returns with a
    /// permit if one is free.
    pub(super) fn wait_for_root(&self, root: &Root) {
        let peer = self.peer();
        match peer.standing.wait() {
            Some(permit) => self.shared.release(permit, None),
            // Ordering: SeqCst: pairs with the fence in `notify_owner`.
            None => fence(SeqCst),
        }
        while !self.has_private() {
            self.wait(root.parker(), None);
            let ready = self.ready.take();
            let before = self.peer().counters.handed_in.get();
            self.wake_batch(ready);
            if self.peer().counters.handed_in.get() != before {
                self.passed_on.set(true);
            }
        }
        peer.standing.awake();
        if self.p.has_pinned() {
            self.get_permit(root.parker());
        } else {
            self.try_run();
        }
    }

    /// Gives up the P, at the end of the thread's work. What is left in it goes to the others.
    pub(super) fn leave(self) {
        let Self { shared, p, spinning, .. } = self;
        let mut batch = Batch::new();
        batch.extend(p.runnext.take());
        p.lrq.drain(|task| batch.push(task));
        if !batch.is_empty() {
            shared.push_batch(batch);
        }
        let permit = p.peer.standing.vacate();
        *p.peer.root.lock() = None;
        shared.return_processor(p);
        match (permit, spinning.take()) {
            (Some(permit), spinning) => shared.release(permit, spinning),
            (None, Some(spinning)) => {
                shared.idle.stop_spinning(spinning);
            }
            (None, None) => {}
        }
    }

    // --- blocking ---

    /// The running task is about to block its thread: gives permit and queue to others. False if that
    /// was done already.
    pub(crate) fn begin_blocking(&self) -> bool {
        let Some(permit) = self.peer().standing.revoke() else { return false };
        self.hand_in();
        self.shared.release(permit, None);
        true
    }

    /// It is back. If no permit is free it ends its poll without one, and then parks.
    pub(crate) fn end_blocking(&self) {
        self.try_run();
    }
}

/// What a thread does after it slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awake {
    /// Looks for work.
    Go,
    /// Ends: there was nothing to do for so long.
    Leave,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("processor", &self.p.peer.index)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

enum Search {
    Found(Task),
    Again,
    Nothing,
}

fn report_netpoll(error: &std::io::Error) {
    tracing::error!(%error, "the netpoll failed");
}
