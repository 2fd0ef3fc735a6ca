//! What `Shared` is made of, as far as it is small. What each part does is in the file that it
//! names.

use std::task::Waker;

use ws_reactor::Netpoll;

use crate::sched::{
    Shared, config::Config, lost::WatchedRoot, paused::Paused, shown::kept::Shown, stall::Teller,
    state::snapshot_files::SnapshotFiles, traces::Traces,
};
use crate::{
    bit_set::BitSet,
    cell::{SchedulerHandle, Task, TaskRef, live::LiveOwner},
    metrics::Counter,
    notification::Notification,
    permit::phase::Phase,
    queue::{GlobalRunQueue, OrderedShared},
    recorder::Recorder,
    reports::Reporter,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
    timer::{Clock, TimeDriver, TimerShard},
};

/// The queues of all threads.
#[derive(Debug)]
pub(crate) struct SharedQueues {
    pub(crate) grq: GlobalRunQueue<Task>,
    /// What `grq` is for tasks of another priority than the default one.
    pub(crate) ordered: OrderedShared<Task>,
}

/// What foreign threads have in place of a P; see `inject.rs`.
#[derive(Debug)]
pub(crate) struct Foreign {
    /// The scheduler handle of what they spawn.
    pub(in crate::sched) scheduler: SchedulerHandle,
    pub(in crate::sched) live: Mutex<LiveOwner<TaskRef>>,
    /// How many of the live tasks are carriers whose pinned task lives as well; see
    /// `task/pinned.rs`.
    pub(crate) carried: AtomicUsize,
}

/// The clock of a runtime, and the timers on it; see `timers.rs`.
#[derive(Debug)]
pub(crate) struct Time {
    driver: Arc<TimeDriver>,
    /// With a clock that jumps by itself.
    pub(crate) paused: Option<Paused>,
    /// The Ps that may have timers; see *Listed shards* in `timer/shard.rs`.
    pub(in crate::sched) listed: Arc<BitSet>,
    /// The timers of foreign threads.
    pub(in crate::sched) foreign: Arc<TimerShard>,
    /// Timers answer with errors from now on, also those of a P that is made later.
    pub(in crate::sched) over: AtomicBool,
}

impl Time {
    pub(in crate::sched) fn new(
        config: &Config,
        clock: Clock,
        netpoll: &Arc<Netpoll>,
        processors: usize,
    ) -> Self {
        let paused = |patience| Paused::new(config.seed, patience, !config.in_order);
        let driver = Arc::new(TimeDriver::new(netpoll.clone(), clock));
        Self {
            foreign: Arc::new(TimerShard::new(driver.clone())),
            driver,
            paused: config.paused.map(paused),
            listed: Arc::new(BitSet::new(processors)),
            over: AtomicBool::new(false),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.driver.clock()
    }

    /// The timers of a new P.
    pub(in crate::sched) fn shard(&self, index: usize) -> TimerShard {
        TimerShard::listed(self.driver.clone(), self.listed.clone(), index)
    }
}

/// What other threads tell the monitor; see `signals.rs`.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// A thread found no permit for ready tasks.
    pub(in crate::sched) needed: Notification,
    /// The same, for a thread that comes to a fork; see *Give way at a fork* in
    /// `fork_join/owner.rs`.
    pub(in crate::sched) asks_at_forks: AtomicBool,
    /// How often it has looked. Written by its own thread alone.
    looks: Counter,
}

impl Signals {
    /// How often the monitor has looked.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.get()
    }

    /// The monitor looks. For its own thread.
    pub(crate) fn begin_look(&self) {
        self.looks.add(1);
    }

    /// Whether a thread found no permit for ready tasks. For the monitor: takes the word.
    pub(crate) fn take_needed(&self) -> bool {
        self.needed.take()
    }
}

/// How far the end of a runtime has come, and what it needs; see `shutdown.rs`.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) phase: Phase,
    /// The runtime itself, from the beginning of its end; see *The runtime's reference to itself*
    /// in `permit/phase.rs`.
    pub(in crate::sched) kept: Mutex<Option<Arc<Shared>>>,
    /// Woken when a task's panic ends the runtime: the root of `Runtime::run_local`.
    pub(in crate::sched) main: Mutex<Option<Waker>>,
}

impl End {
    pub(in crate::sched) fn new() -> Self {
        Self {
            phase: Phase::new(),
            kept: Mutex::new(None),
            main: Mutex::new(None),
        }
    }
}

/// What is told of the runtime, and what is kept for that.
#[derive(Debug)]
pub(crate) struct Telling {
    pub(crate) reports: Reporter,
    /// The stalls that are to be reported.
    pub(in crate::sched) stalls: Teller,
    pub(in crate::sched) recorder: Recorder,
    pub(in crate::sched) snapshots: SnapshotFiles,
    pub(in crate::sched) traces: Traces,
    /// What a viewer gets beside that.
    pub(in crate::sched) shown: Shown,
    pub(in crate::sched) watched_root: WatchedRoot,
}

impl Telling {
    pub(in crate::sched) fn new(config: &Config, clock: &Clock) -> Self {
        let (memory, level) = config.recorder;
        // A simulated runtime writes no files.
        let snapshots = config.snapshots.clone();
        let snapshots = snapshots.filter(|_| !config.is_simulated(clock));
        Self {
            reports: Reporter::new(config.reports),
            stalls: Teller::default(),
            recorder: Recorder::new(memory, level, clock),
            snapshots: SnapshotFiles::new(snapshots),
            traces: Traces::default(),
            shown: Shown::default(),
            watched_root: WatchedRoot::default(),
        }
    }
}
