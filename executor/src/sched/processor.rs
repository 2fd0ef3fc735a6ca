//! P: the queues and the state of one polling thread.
//!
//! A P has two faces. The [`Processor`] is an owned value: the thread that has it may push, pop,
//! spawn and arm. It travels by move from the pool of vacant ones to a thread and back, so no field
//! of it needs an atomic. The [`Peer`] is what the others see of it: the stealing ends of its
//! queues, its worker state, its timers, its counters. It lives as long as the runtime, so a thief
//! or a waker never has to ask whether it is still there. Which of them a walk visits is in
//! `permit/allp.rs`.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::VecDeque,
    fmt,
    num::NonZeroUsize,
    sync::OnceLock,
};

use crate::{
    bit_set::Bit,
    branch::BranchDeque,
    cell::{
        Functions, Lane, LaneWord, Place, SchedulerHandle, Task, TaskRef,
        live::{LiveOwner, live_table},
    },
    metrics::{Counter, Counters},
    park::Parker,
    permit::{
        allp::ListedP,
        env::PeerEnv,
        idle::{WorkerState, WorkerStateCell},
    },
    policy::{
        Backoff,
        constants::{GLOBAL_TICK, SPINS, WAKES, YIELDING},
    },
    queue::{
        ForkDeque, ForkStealer, GlobalQueue, LocalQueue, OrderedStealer, RunNext, RunNextStealer,
        Stealer, fork_deque, local_queue, run_next,
    },
    rng::Rng,
    sched::{
        Root,
        affinity::Affinity,
        handed::HandedCall,
        state::{
            clocks::Clocks,
            priority_queues::PriorityQueues,
            sampling::{Sampling, Times},
        },
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
    /// The root of its `block_on` waits for a timer or a source; see *Whose thread it is* in
    /// `block_on.rs`.
    pub(crate) const ROOT_WAITS: u32 = 8;
    /// The runtime drains: what its thread has entered last is to be cancelled.
    pub(crate) const DRAIN: u32 = 16;
}

/// What `Progress::running` says between polls.
pub(crate) const NO_POLL: u64 = 0;

/// What `Progress::running` says while a root is polled: a root has no place in the live table.
pub(crate) const ROOT: u64 = u64::MAX;
/// The same for a branch that was stolen.
pub(crate) const BRANCH: u64 = u64::MAX - 1;
/// The same for a hook, a destructor or a waker that runs in no poll.
pub(crate) const USER_CODE: u64 = u64::MAX - 2;

/// What others see of a P.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) index: usize,
    pub(crate) scheduler: SchedulerHandle,
    pub(crate) queues: PeerQueues,
    pub(crate) timers: Arc<TimerShard>,
    pub(crate) state: WorkerStateCell,
    /// The one word that its thread reads between two polls; bits of [`attention`].
    pub(crate) attention: AtomicU32,
    pub(crate) thread: PeerThread,
    pub(crate) progress: Progress,
    pub(crate) flags: Flags,
    pub(crate) counters: Counters,
    /// How long things took, as far as it was measured.
    pub(crate) times: Times,
    /// What its thread did last.
    pub(crate) ring: crate::recorder::Ring,
}

/// The ends of a P's queues that other threads use.
#[derive(Debug)]
pub(crate) struct PeerQueues {
    pub(crate) lrq: Stealer<Task>,
    pub(crate) runnext: RunNextStealer<Task>,
    /// The thieves' end of what is in `Processor::priority_queues`, once there is something.
    pub(crate) ordered: OnceLock<OrderedStealer<Task>>,
    /// The thieves' end of [`Forks::direct`], once its thread has forked.
    direct: OnceLock<RunNextStealer<Task>>,
    /// Tasks that have forked, and whose child runs: the fork deque.
    pub(crate) parents: ForkStealer<Task>,
    /// What its running poll has forked.
    pub(crate) branch_deque: Arc<BranchDeque>,
    /// Pinned tasks of this P that others have woken.
    pub(crate) inbox: GlobalQueue<Task>,
}

impl PeerQueues {
    /// Takes the task that is next, or else the child that its running poll has forked.
    fn steal_next(&self) -> Option<Task> {
        let next = self.runnext.peek().and_then(|it| self.runnext.steal(it));
        next.or_else(|| self.steal_child())
    }

    /// Takes the child that its running poll has forked.
    pub(crate) fn steal_child(&self) -> Option<Task> {
        let direct = self.direct.get()?;
        direct.steal(direct.peek()?)
    }

    /// Whether its running poll has forked a child that no thread has taken.
    pub(crate) fn has_child(&self) -> bool {
        self.direct
            .get()
            .is_some_and(|direct| direct.peek().is_some())
    }
}

/// The thread of a P, and where it sleeps.
#[derive(Debug)]
pub(crate) struct PeerThread {
    /// The system's number of the thread; 0: there is none.
    pub(crate) number: AtomicU32,
    pub(crate) parker: Parker,
    /// The root of the thread's `block_on`, once it has come to wait for that.
    pub(crate) root: Mutex<Option<std::sync::Arc<Root>>>,
    /// The CPU where the thread sleeps.
    pub(crate) affinity: Affinity,
    /// A call that it is to begin with.
    pub(crate) handed: HandedCall,
}

/// What the thread of a P does now. The thread writes it, others read it.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The task that it polls, by its address in the live table; 0: none.
    pub(crate) running: AtomicU64,
    /// The time in milliseconds, for the births and rests of tasks: as of the thread's last look at
    /// the clock, or of the monitor's last look at the thread.
    pub(crate) now_ms: AtomicU32,
    /// Counts its steps: a victim that moved on shows it here.
    pub(crate) ticks: AtomicU64,
    /// What a poll compares with its task's account; see `measure.rs`.
    pub(crate) lane: LaneWord,
    /// The step in which it last came to a fork after a thread had asked.
    forked: AtomicU64,
    /// How often it came to a fork after a thread had asked.
    pub(crate) came_by: Counter,
    /// *The wake back-off* in `push.rs`: the step in which it left a task alone in `runnext` for
    /// others.
    pub(crate) alone: AtomicU64,
    /// *The wake back-off* in `push.rs`: the step in which it woke a thread for such a task.
    pub(crate) offered: AtomicU64,
}

impl Progress {
    /// Takes note of the time, in nanoseconds.
    pub(crate) fn set_now(&self, now: u64) {
        self.now_ms.store((now / 1_000_000) as u32, Relaxed);
    }

    /// The thread comes to a fork after a thread has asked.
    pub(super) fn comes_to_a_fork(&self) {
        self.forked.store(self.ticks.load(Relaxed), Relaxed);
        self.came_by.add(1);
    }

    /// Whether the thread came to a fork in this step, after a thread had asked.
    fn forked_now(&self) -> bool {
        self.forked.load(Relaxed) == self.ticks.load(Relaxed)
    }

    /// Whether the thread left a task alone in `runnext` in this step.
    fn left_alone_now(&self) -> bool {
        self.alone.load(Relaxed) == self.ticks.load(Relaxed)
    }

    /// Counts a step, on the thread itself.
    fn tick(&self) -> u64 {
        let tick = self.ticks.load(Relaxed) + 1;
        self.ticks.store(tick, Relaxed);
        tick
    }
}

/// What the thread of a P tells others, or others tell of it.
#[derive(Debug)]
pub(crate) struct Flags {
    /// A bit of [`Processors::computing`](super::shared::Processors), which searches walk: at the P
    /// it would be in a line that its thread writes at each step.
    ///
    /// The thread computed when the monitor last looked, or took its permit. If its worker state
    /// is `Stuck`, it is a *detached computation*. Written by the monitor, and by the thread when
    /// it comes back from a block without a permit.
    pub(crate) computes: Bit,
    /// The thread is in code that it has announced to block (`blocking.rs`). Written by that
    /// thread.
    pub(crate) announced: AtomicBool,
    /// The thread waits for a process that it starts, whose first steps take its core; see
    /// `in_place.rs`. Written by that thread.
    pub(crate) starts_process: AtomicBool,
    /// The thread is in `block_on`, and takes nothing of others. Written by that thread.
    pub(crate) own: AtomicBool,
    /// While it is parked: the thread has pinned tasks or a root, and these wait for all that it
    /// runs; see *Bound threads* in `blocking.rs`. Written by that thread.
    pub(crate) bound: AtomicBool,
    /// For want of a permit, the thread gave to others what it made runnable, or the monitor did;
    /// see *Standing in* in `block_on.rs`. Set before the fence of `Env::refused`, and looked at
    /// after that of `wait_for_root`.
    pub(crate) gave_away: AtomicBool,
}

impl Flags {
    fn new(computes: Bit) -> Self {
        Self {
            computes,
            announced: AtomicBool::new(false),
            starts_process: AtomicBool::new(false),
            own: AtomicBool::new(false),
            bound: AtomicBool::new(false),
            gave_away: AtomicBool::new(false),
        }
    }
}

impl PeerEnv for Peer {
    type Task = Task;

    fn index(&self) -> usize {
        self.index
    }

    fn state(&self) -> &WorkerStateCell {
        &self.state
    }

    fn parker(&self) -> &Parker {
        &self.thread.parker
    }

    fn stealer(&self) -> &Stealer<Task> {
        &self.queues.lrq
    }

    fn ordered(&self) -> Option<&OrderedStealer<Task>> {
        self.queues.ordered.get()
    }

    fn steal_next(&self) -> Option<Task> {
        self.queues.steal_next()
    }

    fn was_taken_from(&self) {
        self.flags.gave_away.store(true, Relaxed);
    }

    fn has_alone(&self) -> bool {
        self.progress.left_alone_now() && self.queues.runnext.peek().is_some()
    }

    fn steal_parent(&self) -> Option<Task> {
        self.queues.parents.steal()
    }

    fn has_parent(&self) -> bool {
        !self.queues.parents.is_empty()
    }

    fn has_branch(&self) -> bool {
        self.queues.branch_deque.has_shared()
    }

    fn ask_at_next_fork(&self) {
        self.queues.branch_deque.ask();
    }
}

impl Peer {
    /// Whether a task is in any of its queues, by some loads: each thread asks this of all Ps at
    /// the end of the runtime, and a steal from an empty queue costs much more.
    pub(super) fn has_some(&self) -> bool {
        let queues = &self.queues;
        self.has_queued()
            || self.has_parent()
            || queues.runnext.peek().is_some()
            || queues.has_child()
    }

    /// Whether its thread is in a branch of a join, has promoted a branch of what it runs, or came
    /// to a fork in this step after a thread had asked.
    pub(crate) fn forks(&self) -> bool {
        self.progress.running.load(Relaxed) == BRANCH
            || self.queues.branch_deque.has_promoted()
            || self.progress.forked_now()
    }

    /// Whether its thread computes without a permit, in the middle of a poll.
    pub(crate) fn is_detached(&self) -> bool {
        self.flags.computes.get()
            && self.state.load() == WorkerState::Stuck
            && self.progress.running.load(Relaxed) != 0
            && !self.flags.announced.load(Relaxed)
    }
}

/// What belongs to the thread that has the P.
pub(crate) struct Processor {
    pub(crate) peer: Arc<Peer>,
    pub(crate) lrq: LocalQueue<Task>,
    pub(crate) runnext: RunNext<Task>,
    pub(crate) priority_queues: PriorityQueues,
    pub(crate) forks: Forks,
    pub(crate) poll: RunningPoll,
    pub(crate) sampling: Sampling,
    pub(crate) pinned: Pinned,
    pub(crate) spawns: Spawns,
    pub(crate) rng: Rng,
    pub(super) backoffs: Backoffs,
    pub(crate) clocks: Clocks,
}

/// Tasks that have forked, and their child; see *A poll that goes on* in `task/fork.rs`.
pub(crate) struct Forks {
    /// The owner's end of the fork deque.
    pub(crate) parents: ForkDeque<Task>,
    /// Where a child is that was just forked, and runs next. Made for the first one.
    direct: OnceCell<RunNext<Task>>,
}

impl Forks {
    /// Puts a child there that was just forked, on the P with these queues. There is none yet.
    pub(crate) fn put_child(&self, child: Task, queues: &PeerQueues) {
        let direct = self.direct.get_or_init(|| {
            let (direct, thieves) = run_next();
            queues.direct.get_or_init(|| thieves);
            direct
        });
        let before = direct.put(child);
        debug_assert!(before.is_none(), "only this thread fills it");
    }

    /// Whether a child was just forked, and no thread has taken it.
    pub(crate) fn has_child(&self) -> bool {
        self.direct.get().is_some_and(|direct| !direct.is_empty())
    }

    /// Takes the child that was just forked.
    pub(crate) fn take_child(&self) -> Option<Task> {
        self.direct.get()?.take()
    }

    /// Takes a child that was forked, or else the newest parent.
    pub(crate) fn pop(&self) -> Option<Task> {
        self.take_child().or_else(|| self.parents.pop())
    }
}

/// What is noted of the poll that runs, until it ends.
#[derive(Default)]
pub(crate) struct RunningPoll {
    /// The number of the task. It stays when the poll has ended, and says nothing then.
    pub(crate) id: Cell<u64>,
    /// The address of the task, if others may take it.
    pub(crate) may_fork: Cell<Option<NonZeroUsize>>,
    /// The address of the task, if it has forked in its poll and goes on after that: a wake that no
    /// thread had to count.
    pub(crate) goes_on: Cell<Option<NonZeroUsize>>,
    /// It is a blocking call that asks for another thread; see *Bound threads* in `blocking.rs`.
    pub(crate) passes_on: Cell<bool>,
}

/// Tasks that only this P's thread may run.
#[derive(Default)]
pub(crate) struct Pinned {
    /// Those that are ready. Others put what they wake into the inbox.
    pub(crate) ready: RefCell<VecDeque<Task>>,
    /// How many are alive.
    pub(crate) live: Cell<usize>,
}

impl Pinned {
    pub(super) fn spawn(&self, task: Task) {
        self.live.set(self.live.get() + 1);
        self.ready.borrow_mut().push_back(task);
    }

    /// One of them has ended.
    pub(super) fn ends(&self) {
        self.live.set(self.live.get() - 1);
    }

    pub(super) fn has_live(&self) -> bool {
        self.live.get() > 0
    }
}

/// What a task that is spawned here gets from its P.
pub(crate) struct Spawns {
    pub(crate) live: LiveOwner<TaskRef>,
    /// Ids that are set aside for this P: next and end.
    pub(crate) ids: Cell<(u64, u64)>,
}

/// Whether to try what may be in vain.
pub(super) struct Backoffs {
    /// *The wake back-off* in `push.rs`: whether to wake a thread for a lone `runnext`.
    pub(super) wake_backoff: Backoff,
    /// When that was done, until it is known what came of it.
    pub(super) woke_at: Cell<Option<u64>>,
    /// Whether to spin before a sleep; see `search.rs`.
    pub(super) spin_backoff: Backoff,
    /// Whether to give the core up for a permit; see `contention.rs`.
    pub(super) yielding: Backoff,
}

impl ListedP for Box<Processor> {
    fn index(&self) -> usize {
        self.peer.index
    }

    fn has_live(&self) -> bool {
        self.peer.scheduler.live().len() > 0
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
        functions: &'static Functions,
        timers: Arc<TimerShard>,
        ring: crate::recorder::Ring,
        computes: Bit,
        seed: u64,
    ) -> Self {
        let (lrq, stealer) = local_queue();
        let (runnext, runnext_stealer) = run_next();
        let (parents, parents_stealer) = fork_deque();
        let (table, live) = live_table();
        let peer = Peer {
            index,
            scheduler: SchedulerHandle::new(
                Place::Processor(index as u16),
                runtime,
                table,
                functions,
            ),
            queues: PeerQueues {
                lrq: stealer,
                runnext: runnext_stealer,
                ordered: OnceLock::new(),
                direct: OnceLock::new(),
                parents: parents_stealer,
                branch_deque: Arc::new(BranchDeque::new()),
                inbox: GlobalQueue::new(),
            },
            timers,
            state: WorkerStateCell::new(),
            attention: AtomicU32::new(0),
            thread: PeerThread {
                number: AtomicU32::new(0),
                parker: Parker::new(),
                root: Mutex::new(None),
                affinity: Affinity::new(),
                handed: HandedCall::new(),
            },
            progress: Progress {
                running: AtomicU64::new(0),
                now_ms: AtomicU32::new(0),
                ticks: AtomicU64::new(0),
                lane: LaneWord::new(Lane::of(index)),
                forked: AtomicU64::new(u64::MAX),
                came_by: Counter::default(),
                alone: AtomicU64::new(0),
                offered: AtomicU64::new(0),
            },
            flags: Flags::new(computes),
            counters: Counters::default(),
            times: Times::default(),
            ring,
        };
        Self {
            peer: Arc::new(peer),
            lrq,
            runnext,
            priority_queues: PriorityQueues::default(),
            forks: Forks {
                parents,
                direct: OnceCell::new(),
            },
            poll: RunningPoll::default(),
            sampling: Sampling::default(),
            pinned: Pinned::default(),
            spawns: Spawns {
                live,
                ids: Cell::new((0, 0)),
            },
            rng: Rng::new(seed, index as u64),
            backoffs: Backoffs {
                wake_backoff: Backoff::new(WAKES),
                woke_at: Cell::new(None),
                spin_backoff: Backoff::new(SPINS),
                yielding: Backoff::new(YIELDING),
            },
            clocks: Clocks {
                look: Cell::new(GLOBAL_TICK),
                ..Clocks::default()
            },
        }
    }

    /// Whether a task that only this thread may run is ready.
    pub(crate) fn has_pinned(&self) -> bool {
        !self.pinned.ready.borrow().is_empty() || !self.peer.queues.inbox.is_empty()
    }

    /// Whether it has a task that is in no ordered queue, and that others could take.
    pub(crate) fn has_plain(&self) -> bool {
        !(self.lrq.is_empty() && self.runnext.is_empty() && self.forks.parents.is_empty())
    }

    /// Takes the next pinned task.
    pub(crate) fn pop_pinned(&self) -> Option<Task> {
        self.take_in();
        self.pinned.ready.borrow_mut().pop_front()
    }

    /// Takes what others put into the inbox.
    pub(crate) fn take_in(&self) {
        if !self.peer.queues.inbox.is_empty() {
            let mut pinned = self.pinned.ready.borrow_mut();
            self.peer
                .queues
                .inbox
                .pop_batch(usize::MAX, |task| pinned.push_back(task));
        }
    }

    /// A thread begins with it, or goes on after a sleep: what begins now is not as old as the last
    /// look at the clock.
    pub(super) fn begins(&self, now: u64) {
        self.set_now(now);
        let ticks = self.peer.progress.ticks.load(Relaxed);
        self.clocks.looked.set((ticks, now));
        self.clocks.slice_tick.set(ticks);
    }

    /// Takes note of a look at the clock, in nanoseconds.
    pub(super) fn set_now(&self, now: u64) {
        self.clocks.set_now(now);
        self.peer.progress.set_now(now);
    }

    /// Counts a step of its thread. Only that thread writes it.
    pub(crate) fn tick(&self) -> u64 {
        self.peer.progress.tick()
    }
}

#[cfg(test)]
mod tests;
