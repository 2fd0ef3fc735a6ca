//! The threads of a runtime: how many there are, and what they are started with. `threads.rs`
//! starts and joins them.

use ws_reactor::Inherited;

use crate::sched::{config::Config, sim_threads::SimThreads};
use crate::{
    permit::{keeper::Keeper, phase::Threads},
    semaphore::Semaphore,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64},
        thread,
    },
    throttle::{REPORT_EVERY, Throttle},
    timer::Clock,
};

/// The threads of a runtime, and what there is to start them.
#[derive(Debug)]
pub(crate) struct RuntimeThreads {
    /// Those that exist.
    pub(crate) counts: Mutex<Threads>,
    /// Signalled when one ends, and when a task ends during shutdown.
    pub(in crate::sched) changed: Condvar,
    pub(in crate::sched) joins: Mutex<Joins>,
    /// What each of them begins with: that of the thread that built the runtime.
    pub(in crate::sched) inherited: Inherited,
    pub(in crate::sched) in_start_hook: Mutex<InStartHook>,
    /// The last one that was to be started was refused, by `max_threads` or by the system.
    pub(crate) refused: AtomicBool,
    /// How often that happened.
    pub(in crate::sched) refusals: AtomicU64,
    pub(in crate::sched) refusal_reports: Throttle,
    pub(in crate::sched) keeper: Keeper,
    /// How many of them may be in blocking calls.
    pub(crate) blocking: Semaphore,
    /// With the clock of a driver: what there is in place of threads.
    pub(crate) sim_threads: Option<SimThreads>,
}

impl RuntimeThreads {
    pub(in crate::sched) fn new(config: &Config, clock: &Clock) -> Self {
        Self {
            counts: Mutex::new(Threads::default()),
            changed: Condvar::new(),
            joins: Mutex::new(Joins::default()),
            inherited: Inherited::of_this_thread(),
            in_start_hook: Mutex::new(InStartHook::default()),
            refused: AtomicBool::new(false),
            refusals: AtomicU64::new(0),
            refusal_reports: Throttle::new(REPORT_EVERY),
            keeper: Keeper::new(!clock.is_virtual()),
            blocking: Semaphore::new(config.blocking_max()),
            sim_threads: config.is_simulated(clock).then(SimThreads::default),
        }
    }
}

/// The handles of threads; see *Joining* in `threads.rs`.
#[derive(Debug, Default)]
pub(in crate::sched) struct Joins {
    pub(in crate::sched) running: Vec<(thread::ThreadId, thread::JoinHandle<()>)>,
    /// Of the thread that ended last for want of work.
    pub(in crate::sched) ended: Option<thread::JoinHandle<()>>,
}

/// See *Threads in their start hook* in `threads.rs`.
#[derive(Debug, Default)]
pub(crate) struct InStartHook {
    pub(in crate::sched) count: usize,
    /// Number of them that are no longer waited for.
    pub(in crate::sched) late: usize,
    /// Since when work waits for them, by the monitor's looks, in nanoseconds of the runtime's
    /// clock.
    pub(in crate::sched) since: Option<u64>,
}
