//! M: a thread that has a P.
//!
//! Here is what it is. How it polls is in `poll.rs`, what it does next in `find.rs`, what becomes
//! of tasks that it wakes in `push.rs`, how it sleeps in `permit/sleep.rs` and `wait.rs`, how it
//! ends in `shutdown.rs`.

use std::{
    cell::{Cell, RefCell},
    fmt,
    task::Waker,
    time::Duration,
};

use ws_reactor::ThreadId;

use super::{
    Root, Shared,
    processor::{BRANCH, Peer, Processor, ROOT, USER_CODE, attention},
    root::Nested,
    state::{hooks::in_a_hook, seen::SeenOfOthers},
};
use crate::{
    branch::{self, Branch, BranchDeque},
    budget,
    cell::{Ended, Task},
    no_unwind::NoUnwind,
    note::event,
    park::Parker,
    permit::{
        env::Env,
        idle::Spinning,
        phase::ShutdownEnv,
        sleep::{Awake, Sleeper},
    },
    policy::forks::fork_slice_is_over,
    queue::Batch,
    sync::{Arc, atomic::Ordering::Relaxed},
};

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
    /// Run this stolen branch of a join.
    Branch(Branch),
    /// Poll the root of the `block_on`.
    Root,
    /// There is nothing: sleep.
    Park,
    /// The runtime shuts down.
    Leave,
}

/// See the module's head.
pub(crate) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(crate) p: Box<Processor>,
    pub(crate) root: Option<std::sync::Arc<Root>>,
    pub(super) scope: Scope,
    pub(super) spinning: Cell<Option<Spinning>>,
    /// See [`Sleeper::parking`].
    pub(super) parking: Cell<bool>,
    pub(super) next: NextStep,
    pub(super) brought: Brought,
    pub(super) seen: SeenOfOthers,
    /// What its P counted as spawned when this thread took it.
    pub(super) spawned_before: u64,
    pub(crate) nested: Nested,
}

/// What the netpoll and the timers have brought.
#[derive(Default)]
pub(super) struct Brought {
    /// Wakers that are on their way to being woken.
    pub(super) ready: RefCell<Vec<Waker>>,
    /// While one batch of them is woken: how many tasks that has queued so far.
    pub(super) queued: Cell<Option<usize>>,
    /// This thread passed on what it found in the netpoll: it had no permit for it, or it is in
    /// `block_on`, and the task another's.
    pub(super) passed_on: Cell<bool>,
}

/// What decides where the next step looks first.
#[derive(Default)]
pub(super) struct NextStep {
    /// The last step ran the root or a pinned task: others come first now.
    pub(super) private_last: Cell<bool>,
    /// Of these, the last one was the root: a pinned task comes first now.
    pub(super) root_last: Cell<bool>,
    /// In `block_on`: takes from the global queue; see *Standing in* in `block_on.rs`.
    pub(super) stands_in: Cell<bool>,
}

/// The life of a worker thread. Its P runs already, with the permit of a spinner. If there is a
/// hook for its start, it has neither, and comes as a thread that parks (*Threads in their start
/// hook* in `threads.rs`). A call that was handed to it comes first.
pub(super) fn main(shared: &Arc<Shared>, processor: Box<Processor>, call: Option<Task>) {
    work(shared, processor, call);
    shared.join_the_one_before();
}

/// The same without the end of the thread.
pub(super) fn work(shared: &Arc<Shared>, processor: Box<Processor>, call: Option<Task>) {
    let whole = NoUnwind;
    shared
        .config
        .host
        .around(|| work_inside(shared, processor, call));
    whole.over();
}

fn work_inside(shared: &Arc<Shared>, processor: Box<Processor>, call: Option<Task>) {
    // For the hooks, which run outside of the worker's frame.
    if shared.config.host.leaves_tasks() {
        let mut given = Some((processor, call));
        (shared.config.above.entered)(shared, &mut || {
            if let Some((processor, call)) = given.take() {
                work_with_hooks(shared, processor, call);
            }
        });
    } else {
        work_with_hooks(shared, processor, call);
    }
}

fn work_with_hooks(shared: &Arc<Shared>, processor: Box<Processor>, mut call: Option<Task>) {
    let hooked = shared.config.hooks.has_start();
    let worker = if hooked {
        Worker::new(shared.clone(), processor, Scope::All, None)
    } else {
        Worker::begin(shared, processor)
    };
    worker.settle_in();
    if hooked {
        in_a_hook(|| shared.config.hooks.call_start());
    }
    (shared.config.above.as_worker)(&worker, &mut || worker.live(hooked, call.take()));
    worker.leave();
    in_a_hook(|| shared.config.hooks.call_stop());
    shared.thread_ended();
}

impl Worker {
    /// What a thread of the runtime does as a worker, from its start hook to its end.
    fn live(&self, hooked: bool, call: Option<Task>) {
        let mut awake = Awake::Go;
        if hooked && call.is_none() {
            awake = self.arrive_parked(|| self.shared.start_hook_ended());
            self.run_handed();
        } else if hooked {
            self.peer().state.arrive();
            self.shared.start_hook_ended();
        }
        if let Some(call) = call {
            self.poll(call);
        }
        while awake == Awake::Go {
            match self.step() {
                Step::Run(task) => self.poll(task),
                Step::Branch(branch) => self.run_branch(branch),
                Step::Park => {
                    awake = self.park();
                    self.run_handed();
                }
                Step::Root => unreachable!("a worker thread has no root"),
                Step::Leave => break,
            }
        }
        self.clear_away();
    }

    /// That of a thread that was started. Its P runs already, with the permit of a spinner.
    pub(crate) fn begin(shared: &Arc<Shared>, processor: Box<Processor>) -> Self {
        let worker = Self::new(shared.clone(), processor, Scope::All, None);
        worker.spinning.set(Some(Spinning::take_over()));
        worker
    }

    pub(crate) fn new(
        shared: Arc<Shared>,
        p: Box<Processor>,
        scope: Scope,
        root: Option<std::sync::Arc<Root>>,
    ) -> Self {
        p.begins(shared.time.clock().now_ns());
        p.peer.flags.own.store(scope == Scope::Own, Relaxed);
        p.peer.flags.gave_away.store(false, Relaxed);
        p.peer.flags.bound.store(root.is_some(), Relaxed);
        if let Some(paused) = &shared.time.paused {
            paused.wake_up();
        }
        shared.note_node(p.peer.index);
        let spawned_before = p.peer.counters.spawned.get();
        Self {
            shared,
            p,
            root,
            scope,
            spinning: Cell::new(None),
            parking: Cell::new(false),
            next: NextStep::default(),
            brought: Brought::default(),
            seen: SeenOfOthers::default(),
            spawned_before,
            nested: Nested::default(),
        }
    }

    /// The thread has its P, and takes a permit if one is free.
    pub(crate) fn arrive(&self) {
        self.settle_in();
        self.peer().state.arrive();
        self.try_run();
    }

    /// Makes the thread known to the monitor and to reports of stalls, and ensures that there is a
    /// keeper.
    fn settle_in(&self) {
        self.peer().flags.computes.set(false);
        self.peer()
            .thread
            .number
            .store(ThreadId::current().as_u32(), Relaxed);
        ws_stack::register_thread();
        self.shared.ensure_keeper();
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.p.peer
    }

    pub(crate) fn index(&self) -> usize {
        self.p.peer.index
    }

    /// A number below that of the workers, unless it is in a `block_on` or in a blocking call.
    pub(crate) fn worker_index(&self) -> Option<usize> {
        let is_one = self.root.is_none() && !self.peer().flags.announced.load(Relaxed);
        is_one.then(|| self.index() % self.shared.idle.workers())
    }

    pub(crate) fn branch_deque(&self) -> &BranchDeque {
        &self.p.peer.queues.branch_deque
    }

    pub(super) fn now(&self) -> u64 {
        self.shared.time.clock().now_ns()
    }

    /// When the wait of a search is over: at once where the clock stands still.
    pub(crate) fn until(&self, wait: Duration) -> u64 {
        let wait = if self.shared.time.paused.is_some() {
            Duration::ZERO
        } else {
            wait
        };
        self.now() + wait.as_nanos() as u64
    }

    /// Runs a branch as work of this thread's own. To other threads it is a poll.
    pub(crate) fn run_branch(&self, branch: Branch) {
        self.found_work();
        self.end_steal(|| self.ticks());
        self.peer().counters.polls.add(1);
        self.peer().progress.running.store(BRANCH, Relaxed);
        budget::with_budget(|| branch::run_claimed(branch, self.index(), branch::base()));
        self.peer().progress.running.store(0, Relaxed);
    }

    /// Before a poll of the root.
    pub(crate) fn begin_root(&self) {
        self.found_work();
        self.peer().progress.running.store(ROOT, Relaxed);
    }

    /// After it.
    pub(crate) fn end_root(&self) {
        self.peer().progress.running.store(0, Relaxed);
    }

    /// Runs code of the user's that is in no poll: a hook, a destructor, a waker. To other threads
    /// it is a poll. So no thread relies on this one as a spinner, and the monitor takes its permit
    /// if it blocks (S9).
    ///
    /// The caller looks at the permit again afterwards.
    pub(super) fn enter_user_code<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Back<'a>(&'a Worker, u64);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.peer().progress.running.store(self.1, Relaxed);
            }
        }
        // A thread that was handed a permit while it was parked takes note of that first.
        if self.is_awake() {
            self.found_work();
        }
        let running = &self.peer().progress.running;
        let before = running.load(Relaxed);
        if before == 0 {
            running.store(USER_CODE, Relaxed);
            self.nested.pinned.set(false);
        }
        let _back = Back(self, before);
        f()
    }

    /// The thread is its root's alone from now on; see *Whose thread it is* in `block_on.rs`.
    pub(crate) fn root_waits(&self) {
        if self.scope == Scope::Own {
            let attention = &self.peer().attention;
            attention.fetch_or(attention::ROOT_WAITS, Relaxed);
        }
    }

    pub(super) fn completed(&self, pinned: bool, ended: Ended) {
        if pinned {
            self.p.pinned.ends();
        }
        if ended == Ended::Panicked {
            self.shared.task_panicked();
        }
    }

    /// Whether it is counted as a spinner.
    pub(super) fn spins(&self) -> bool {
        let spinning = self.spinning.take();
        let spins = spinning.is_some();
        self.spinning.set(spinning);
        spins
    }

    /// After it woke up: runs the call that a bound thread has handed to it, if there is one.
    pub(crate) fn run_handed(&self) {
        if let Some(call) = self.peer().thread.handed.take() {
            self.p.tick();
            self.poll(call);
        }
    }

    /// The running task is about to block its thread. Gives permit and queue to others, if they
    /// were not taken from it before. False inside a closure that is announced already, and while
    /// the thread is parked.
    pub(crate) fn announce_blocking(&self) -> bool {
        // Hooks and foreign wakers also run where it parks or waits: there others may hand it a
        // permit at any time, and it takes none.
        if self.peer().flags.announced.load(Relaxed) || !self.is_awake() {
            return false;
        }
        // A hook or a waker in the middle of a search: no thread may rely on this one meanwhile.
        self.found_work();
        self.peer().flags.announced.store(true, Relaxed);
        event!(self, Block, (), 0);
        self.begin_blocking();
        true
    }

    /// The thread is back. If no permit is free, it ends its poll without one and then parks, or it
    /// waits for one at its next fork.
    pub(crate) fn end_blocking(&self) {
        self.peer().flags.announced.store(false, Relaxed);
        // The age of what the poll spawns from here on is counted from now.
        self.p.set_now(self.now());
        if !self.try_run() {
            // Without the monitor no thread would say when that is over.
            let monitored = self.shared.is_monitored();
            self.peer().flags.computes.set(monitored);
            self.branch_deque().ask();
        }
        event!(self, Return, (), self.peer().state.has_permit());
    }

    /// Its thread starts a process, or has done so; see *Starting a process* in `in_place.rs`.
    pub(crate) fn mark_start_of_process(&self, starts: bool) {
        self.peer().flags.starts_process.store(starts, Relaxed);
    }

    /// *Give way at a fork*: a poll that lost its permit, or gives it to I/O and timers, waits for
    /// another before it forks on. Without the monitor it only tries for one: it lost the permit by
    /// announcing a block, and ends without one, as any such poll does.
    pub(crate) fn come_to_a_fork(&self) {
        self.peer().progress.comes_to_a_fork();
        if self.peer().flags.announced.load(Relaxed) || !self.is_awake() {
            return;
        }
        let monitored = self.shared.is_monitored();
        if self.peer().state.has_permit() {
            if monitored && self.is_asked_at_fork() {
                event!(self, GiveWay, (), 0);
                self.found_work();
                self.give_way(self.parker());
                self.p.clocks.forks_since.set(self.now());
            }
            return;
        }
        self.found_work();
        self.flush();
        if monitored {
            self.get_permit(self.parker());
            self.p.clocks.forks_since.set(self.now());
        } else {
            // The thread that has the permit may wait for a lock that this poll holds, and no
            // thread would take the permit from it.
            self.try_run();
        }
    }

    /// Whether ready tasks wait without a permit, and it is this thread's turn to give up its own.
    /// False in the root of a `block_on`: that may go on without one.
    fn is_asked_at_fork(&self) -> bool {
        (self.scope == Scope::All || self.peer().progress.running.load(Relaxed) != ROOT)
            && self.shared.is_asked_at_forks()
            && fork_slice_is_over(self.p.clocks.forks_since.get(), self.now())
            && self.shared.take_ask_at_forks()
            && self.shared.has_queued()
    }

    /// Where this thread sleeps.
    fn parker(&self) -> &Parker {
        self.settle_root();
        match &self.root {
            Some(root) => root.parker(),
            None => &self.peer().thread.parker,
        }
    }

    /// Before this thread may sleep for its root: from here on others find it. Most calls never
    /// come here.
    ///
    /// What another thread has told this one before it looked for the root, this one sees: both
    /// hold the lock, and the looks before a sleep come after this.
    pub(crate) fn settle_root(&self) {
        if let Some(root) = &self.root
            && !root.is_settled()
        {
            root.settle(&self.shared.io.netpoll, None);
            *self.peer().thread.root.lock() = Some(root.clone());
        }
    }

    /// Gives up the P at the end of the thread's work. What is left in it goes to the others.
    pub(crate) fn leave(self) {
        let Self {
            shared,
            p,
            spinning,
            root,
            ..
        } = self;
        let ordered = p.priority_queues.drain();
        if !ordered.is_empty() {
            shared.push_ordered_batch(ordered);
        }
        let mut batch = Batch::new();
        batch.extend(p.runnext.take());
        batch.extend(std::iter::from_fn(|| p.forks.pop()));
        p.lrq.drain(|task| batch.push(task));
        if !batch.is_empty() {
            shared.push_batch(batch);
        }
        let permit = p.peer.state.vacate();
        // Set by this thread alone, if at all.
        if p.peer.attention.load(Relaxed) & attention::ROOT_WAITS != 0 {
            p.peer.attention.fetch_and(!attention::ROOT_WAITS, Relaxed);
        }
        if root.as_ref().is_some_and(|root| root.is_settled()) {
            *p.peer.thread.root.lock() = None;
        }
        shared.return_processor(p);
        shared.left(permit, spinning.take());
        shared.left_for_good();
        if root.is_some() {
            shared.foreign_thread_left();
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("processor", &self.p.peer.index)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
