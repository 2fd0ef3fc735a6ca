//! P: the queues and the state of one polling thread.
//!
//! A P has two faces. The [`Processor`] is an owned value: the thread that has it may push, pop,
//! spawn and arm. It travels by move from the pool of vacant ones to a thread and back, so no field
//! of it needs an atomic. The [`Peer`] is what the others see of it: the stealing ends of its
//! queues, its standing, its timers, its counters. It lives as long as the runtime, so a thief or a
//! waker never has to ask whether it is still there. Which of them a walk visits is in `slots.rs`.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    fmt,
    num::NonZeroUsize,
};

use crate::{
    cell::{
        Home, Place, Task, TaskRef,
        live::{LiveOwner, live_table},
    },
    fork_join::Lane,
    metrics::{Counter, Counters},
    park::Parker,
    queue::{
        ForkDeque, ForkStealer, GlobalQueue, LocalQueue, OrderedStealer, RunNext, RunNextStealer,
        Stealer, fork_deque, local_queue, run_next,
    },
    rng::Rng,
    sched::{
        Root,
        apart::Whereabouts,
        crowd::yielding,
        ground::Bed,
        idle::{Standing, Stands},
        priority::Ranks,
        push::gate,
        search::lingering,
        slots::Slot,
        worker::BRANCH,
        worth::Worth,
    },
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    timer::TimerShard,
};

/// A reason for its thread to look up from its work; bits of [`Peer::attention`].
pub(crate) mod attention {
    /// The runtime shuts down.
    pub(crate) const SHUTDOWN: u32 = 1;
    /// The running task has used up its time slice.
    pub(crate) const SLICE: u32 = 2;
    /// Time is virtual, for good; see `paused.rs`.
    pub(crate) const PAUSED: u32 = 4;
    /// Its polls are slow, and the global queue waits.
    pub(crate) const GLOBAL: u32 = 8;
    /// The root of its `block_on` waits for a timer or a source; see *Whose thread it is* in
    /// `block_on.rs`.
    pub(crate) const ROOT_WAITS: u32 = 16;
    /// The runtime drains: what its thread has entered last is to be cancelled.
    pub(crate) const DRAIN: u32 = 32;
}

/// What others see of a P.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) index: usize,
    pub(crate) home: Home,
    pub(crate) stealer: Stealer<Task>,
    pub(crate) runnext: RunNextStealer<Task>,
    /// The thieves' end of what is in `Processor::ranks`, once there is something.
    pub(crate) ordered: std::sync::OnceLock<OrderedStealer<Task>>,
    /// The child that its running poll has just forked.
    pub(crate) direct: RunNextStealer<Task>,
    /// Tasks that have forked, and whose child runs: the fork deque.
    pub(crate) parents: ForkStealer<Task>,
    /// What its running poll has forked.
    pub(crate) lane: Arc<Lane>,
    pub(crate) timers: Arc<TimerShard>,
    /// Pinned tasks of this P that others have woken.
    pub(crate) inbox: GlobalQueue<Task>,
    pub(crate) standing: Standing,
    pub(crate) parker: Parker,
    /// The root that this P's thread waits for, while the standing is `Waiting`.
    pub(crate) root: Mutex<Option<std::sync::Arc<Root>>>,
    /// The one word that its thread reads between two polls; bits of [`attention`].
    pub(crate) attention: AtomicU32,
    /// Its thread, by the system's number; 0: none.
    pub(crate) thread: AtomicU32,
    /// The task that it polls, by its address in the live table; 0: none.
    pub(crate) running: AtomicU64,
    /// Its thread computed when the monitor last looked, or took its permit. If its standing is
    /// `Stuck`, it is a *stray*. Written by the monitor, and by its thread when it comes back from
    /// a block without a permit.
    pub(crate) computes: AtomicBool,
    /// Its thread is in code that it has announced to block (`blocking.rs`). Written by that
    /// thread.
    pub(crate) announced: AtomicBool,
    /// Its thread is in `block_on`, and takes nothing of others. Written by that thread.
    pub(crate) own: AtomicBool,
    /// While it is parked: its thread has pinned tasks or a root, and these wait for all that it
    /// runs; see *Bound threads* in `blocking.rs`. Written by that thread.
    pub(crate) bound: AtomicBool,
    /// A blocking call that a bound thread has handed to this one, and whether there is one. Put
    /// there before the standing says that it has a permit; see *Bound threads*.
    pub(crate) handed: Mutex<Option<Task>>,
    pub(crate) is_handed: AtomicBool,
    /// For want of a permit, it gave to others what it made runnable, or the monitor did; see
    /// *Standing in* in `block_on.rs`. Set before the fence of `Ground::refused`, and looked at
    /// after that of `wait_for_root`.
    pub(crate) gave_away: AtomicBool,
    /// Counts its thread's steps: a victim that moved on shows it here.
    pub(crate) ticks: AtomicU64,
    /// The step in which its thread last came to a fork after a thread had asked.
    pub(crate) forked: AtomicU64,
    /// How often its thread came to a fork after a thread had asked. Written by that thread.
    pub(crate) came_by: Counter,
    /// *The gate* in `push.rs`: the step in which its thread left a task alone in `runnext` for
    /// others, and the one in which it woke a thread for that.
    pub(crate) alone: AtomicU64,
    pub(crate) offered: AtomicU64,
    /// Where its thread sleeps.
    pub(crate) whereabouts: Whereabouts,
    pub(crate) counters: Counters,
    /// What its thread did, if events are recorded.
    #[cfg(any(test, feature = "events"))]
    pub(crate) events: std::sync::OnceLock<crate::sched::events::Log>,
}

impl Bed for Peer {
    type Task = Task;

    fn index(&self) -> usize {
        self.index
    }

    fn standing(&self) -> &Standing {
        &self.standing
    }

    fn parker(&self) -> &Parker {
        &self.parker
    }

    fn stealer(&self) -> &Stealer<Task> {
        &self.stealer
    }

    fn ordered(&self) -> Option<&OrderedStealer<Task>> {
        self.ordered.get()
    }

    fn steal_next(&self) -> Option<Task> {
        let next = self.runnext.peek().and_then(|it| self.runnext.steal(it));
        next.or_else(|| self.steal_child())
    }

    fn was_taken_from(&self) {
        self.gave_away.store(true, Relaxed);
    }

    fn has_alone(&self) -> bool {
        self.alone.load(Relaxed) == self.ticks.load(Relaxed) && self.runnext.peek().is_some()
    }

    fn steal_parent(&self) -> Option<Task> {
        self.parents.steal()
    }

    fn has_parent(&self) -> bool {
        !self.parents.is_empty()
    }

    fn has_branch(&self) -> bool {
        self.lane.has_shared()
    }

    fn give_way(&self) {
        self.lane.ask();
    }
}

impl Peer {
    /// Whether its thread is in a branch of a join, has promoted a branch of what it runs, or came
    /// to a fork in this step after a thread had asked.
    pub(crate) fn forks(&self) -> bool {
        self.running.load(Relaxed) == BRANCH
            || self.lane.has_promoted()
            || self.forked.load(Relaxed) == self.ticks.load(Relaxed)
    }

    /// Whether its thread computes without a permit, in the middle of a poll.
    pub(crate) fn is_stray(&self) -> bool {
        self.computes.load(Relaxed)
            && self.standing.load() == Stands::Stuck
            && self.running.load(Relaxed) != 0
            && !self.announced.load(Relaxed)
    }

    /// Puts a call there for its thread. It comes back if there is one already.
    pub(crate) fn hand_call(&self, call: Task) -> Result<(), Task> {
        let mut handed = self.handed.lock();
        if handed.is_some() {
            drop(handed);
            return Err(call);
        }
        *handed = Some(call);
        self.is_handed.store(true, Relaxed);
        Ok(())
    }

    /// Takes it out again. For its thread, or for the thread that put it there and could not wake
    /// its thread.
    pub(crate) fn take_handed(&self) -> Option<Task> {
        if !self.is_handed.load(Relaxed) {
            return None;
        }
        let mut handed = self.handed.lock();
        self.is_handed.store(false, Relaxed);
        handed.take()
    }

    /// Takes the child that its running poll has forked.
    pub(crate) fn steal_child(&self) -> Option<Task> {
        self.direct.steal(self.direct.peek()?)
    }
}

/// What belongs to the thread that has the P.
pub(crate) struct Processor {
    pub(crate) peer: Arc<Peer>,
    pub(crate) lrq: LocalQueue<Task>,
    pub(crate) runnext: RunNext<Task>,
    pub(crate) ranks: Ranks,
    /// The owner's end of the fork deque.
    pub(crate) parents: ForkDeque<Task>,
    /// A child that was just forked, and runs next; see *A poll that goes on* in
    /// `task/fork.rs`.
    pub(crate) direct: RunNext<Task>,
    /// This P has forked at least once: until then its thread does not look into `direct` and
    /// `parents`.
    pub(crate) forks: Cell<bool>,
    /// The address of the task that is polled, if others may take it.
    pub(crate) may_fork: Cell<Option<NonZeroUsize>>,
    /// The address of the task that has forked in its poll, and goes on after that: a wake that no
    /// thread had to count.
    pub(crate) goes_on: Cell<Option<NonZeroUsize>>,
    pub(crate) live: LiveOwner<TaskRef>,
    /// Pinned tasks that are ready.
    pub(crate) pinned: RefCell<VecDeque<Task>>,
    /// The blocking call that is polled asks for another thread; see *Bound threads* in
    /// `blocking.rs`.
    pub(crate) passes_on: Cell<bool>,
    /// Pinned tasks that live on this P's thread.
    pub(crate) pinned_live: Cell<usize>,
    pub(crate) rng: Rng,
    /// Ids that are set aside for this P: next and end.
    pub(crate) ids: Cell<(u64, u64)>,
    /// *The gate* in `push.rs`: whether to wake a thread for a lone `runnext`, and when that was
    /// done last.
    pub(super) gate: Worth,
    pub(crate) woke_at: Cell<Option<u64>>,
    /// Whether to linger as a spinner; see `search.rs`.
    pub(super) lingering: Worth,
    /// Whether to give the core up for a permit; see `crowd.rs`.
    pub(super) yielding: Worth,
    /// The runtime's clock in milliseconds, as of the last look.
    pub(crate) now_ms: Cell<u32>,
    /// When *the exchange* had its turn last, by that clock.
    pub(super) exchanged_ms: Cell<u32>,
    /// When the time slice that is running began, in nanoseconds of the runtime's clock; None:
    /// since the last look at it. A slice is what a task and those that it wakes into `runnext`
    /// have together.
    pub(crate) slice_began: Cell<Option<u64>>,
    /// When a computation on this thread last got a permit that it had waited for at a fork, in
    /// nanoseconds of the runtime's clock.
    pub(crate) forks_since: Cell<u64>,
    /// While one batch of the netpoll or the timers is woken: how many tasks so far.
    pub(crate) batch: Cell<Option<usize>>,
}

impl Slot for Box<Processor> {
    fn index(&self) -> usize {
        self.peer.index
    }

    fn has_live(&self) -> bool {
        self.peer.home.live().len() > 0
    }
}

impl fmt::Debug for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processor")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl Processor {
    pub(crate) fn new(
        index: usize,
        runtime: *const (),
        timers: Arc<TimerShard>,
        seed: u64,
    ) -> Self {
        let (lrq, stealer) = local_queue();
        let (runnext, runnext_stealer) = run_next();
        let (direct, direct_stealer) = run_next();
        let (parents, parents_stealer) = fork_deque();
        let (table, live) = live_table();
        let peer = Peer {
            index,
            home: Home::new(
                Place::Processor(index as u16),
                runtime,
                table,
                &super::incoming::HOME,
            ),
            stealer,
            runnext: runnext_stealer,
            ordered: std::sync::OnceLock::new(),
            direct: direct_stealer,
            parents: parents_stealer,
            lane: Arc::new(Lane::new()),
            timers,
            inbox: GlobalQueue::new(),
            standing: Standing::new(),
            parker: Parker::new(),
            root: Mutex::new(None),
            attention: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            running: AtomicU64::new(0),
            computes: AtomicBool::new(false),
            announced: AtomicBool::new(false),
            own: AtomicBool::new(false),
            bound: AtomicBool::new(false),
            handed: Mutex::new(None),
            is_handed: AtomicBool::new(false),
            gave_away: AtomicBool::new(false),
            ticks: AtomicU64::new(0),
            forked: AtomicU64::new(u64::MAX),
            came_by: Counter::default(),
            alone: AtomicU64::new(0),
            offered: AtomicU64::new(0),
            whereabouts: Whereabouts::new(),
            counters: Counters::default(),
            #[cfg(any(test, feature = "events"))]
            events: std::sync::OnceLock::new(),
        };
        Self {
            peer: Arc::new(peer),
            lrq,
            runnext,
            ranks: Ranks::default(),
            parents,
            direct,
            forks: Cell::new(false),
            may_fork: Cell::new(None),
            goes_on: Cell::new(None),
            live,
            pinned: RefCell::new(VecDeque::new()),
            passes_on: Cell::new(false),
            pinned_live: Cell::new(0),
            rng: Rng::new(seed, index as u64),
            ids: Cell::new((0, 0)),
            gate: gate(),
            woke_at: Cell::new(None),
            lingering: lingering(),
            yielding: yielding(),
            now_ms: Cell::new(0),
            exchanged_ms: Cell::new(0),
            slice_began: Cell::new(None),
            forks_since: Cell::new(0),
            batch: Cell::new(None),
        }
    }

    /// Whether a task that only this thread may run is ready.
    pub(crate) fn has_pinned(&self) -> bool {
        !self.pinned.borrow().is_empty() || !self.peer.inbox.is_empty()
    }

    /// Whether it has a task that is in no ordered queue, and that others could take.
    pub(crate) fn has_plain(&self) -> bool {
        !(self.lrq.is_empty() && self.runnext.is_empty() && self.parents.is_empty())
    }

    /// Whether a child was just forked, and no thread has taken it.
    pub(crate) fn has_child(&self) -> bool {
        self.forks.get() && !self.direct.is_empty()
    }

    /// Takes the child that was just forked.
    pub(crate) fn take_child(&self) -> Option<Task> {
        self.forks.get().then(|| self.direct.take()).flatten()
    }

    /// Takes a child that was forked, or else the newest parent.
    pub(crate) fn pop_forked(&self) -> Option<Task> {
        self.direct.take().or_else(|| self.parents.pop())
    }

    /// Takes the next pinned task.
    pub(crate) fn pop_pinned(&self) -> Option<Task> {
        self.take_in();
        self.pinned.borrow_mut().pop_front()
    }

    /// Takes what others put into the inbox.
    pub(crate) fn take_in(&self) {
        if !self.peer.inbox.is_empty() {
            let mut pinned = self.pinned.borrow_mut();
            self.peer
                .inbox
                .pop_batch(usize::MAX, |task| pinned.push_back(task));
        }
    }

    /// Counts a step of its thread. Only that thread writes it.
    pub(crate) fn tick(&self) -> u64 {
        let tick = self.peer.ticks.load(Relaxed) + 1;
        self.peer.ticks.store(tick, Relaxed);
        tick
    }
}

#[cfg(test)]
mod tests;
