//! What the scheduler counts: a row of plain counters for each P, written by its owner alone.
//!
//! A counter is a relaxed load and a relaxed store, no read-modify-write. So counting costs an
//! instruction or two on a cache line that the owner has anyway.

mod durations;
mod table;
mod text;

pub(crate) use self::durations::Measured;
pub use self::{
    durations::Durations,
    table::{Family, Sample, Value},
    text::Prometheus,
};
use crate::{
    probe::ProbeCount,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// A number that one thread writes and others may read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds, on the owner's thread.
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed) + n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters of one P.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) polls: Counter,
    pub(crate) spawned: Counter,
    /// Tasks that its thread spawned into the global queue: their scheduler handle was never its
    /// own.
    pub(crate) spawned_for_all: Counter,
    /// Pinned tasks among `spawned` whose carrier is counted, so that they are not; see
    /// `task/pinned.rs`.
    pub(crate) carried: Counter,
    pub(crate) completed: Counter,
    pub(crate) searches: Counter,
    /// Looks at one other P each, in these searches.
    pub(crate) victims: ProbeCount,
    /// How often a caller gave its core up for a permit.
    pub(crate) yields: ProbeCount,
    pub(crate) steals: Counter,
    pub(crate) stolen: Counter,
    pub(crate) overflows: Counter,
    pub(crate) global: Counter,
    pub(crate) parks: Counter,
    pub(crate) wakeups: Counter,
    pub(crate) netpolls: Counter,
    pub(crate) timers: Counter,
    pub(crate) ordered: Counter,
    /// Tasks that this thread woke while it had no permit, and gave to the global queue.
    pub(crate) flushed: Counter,
}

/// What a runtime has counted up to one moment. See
/// [`Handle::metrics`](crate::runtime::Handle::metrics).
///
/// The numbers are read one after the other while the workers go on. So they need not fit each
/// other to the unit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// How many threads may run tasks at the same time.
    pub workers: usize,
    /// Threads of the runtime that exist now, running or parked; the monitor's is not counted.
    pub threads: usize,
    /// How often a thread was wanted for work that waits, and refused: by the system, or because
    /// there are [`max_threads`](crate::runtime::Builder::max_threads). Each try counts, and while
    /// work waits the monitor tries again every 10 ms. So the number tells that threads are short,
    /// and not how many. A warning says so once a second at most.
    ///
    /// ```
    /// let runtime = ws::runtime::Builder::new().workers(1).build().unwrap();
    /// runtime.block_on(async { ws::spawn(async {}).await.unwrap() });
    /// assert_eq!(runtime.metrics().threads_refused, 0);
    /// ```
    pub threads_refused: u64,
    /// Permits that no thread holds: 0 means that all workers are busy.
    pub free_permits: usize,
    /// Threads that search for work right now.
    pub spinning: usize,
    /// Tasks that are alive.
    pub live_tasks: usize,
    /// Tasks that wait in the global queue.
    pub global_queue: usize,
    /// Tasks of another priority than the default one that wait in the queue that all share.
    pub ordered_queue: usize,
    /// How often the monitor has looked at everything: it grows while anything runs, and stands
    /// still a few looks after all sleep. 0 without a monitor
    /// ([`Builder::sysmon`](crate::runtime::Builder::sysmon)).
    pub monitor_looks: u64,
    /// How often an accept of a connection waited because the system had no room for one: no
    /// descriptor, no memory, or no place in an epoll.
    pub accepts_delayed: u64,
    /// How many facilities the system refuses to this process that the runtime does without, as far
    /// as it knows by now: a call, or `/proc`. A warning names each of them once in the life of the
    /// process; `docs/platforms.md` lists what is lost. Always 0 with a virtual clock.
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// assert!(runtime.metrics().facilities_refused < 10);
    /// ```
    pub facilities_refused: usize,
    /// How long polls took: of a sample of them, about one in 128, or of all while the recorder's
    /// level is [`Full`](crate::trace::Level::Full). At level [`Off`](crate::trace::Level::Off),
    /// and without a recorder, none is measured, here and below.
    pub poll_time: Durations,
    /// How long it took from a wake to the poll that followed: of the wakes after polls that were
    /// measured.
    pub wake_to_poll: Durations,
    /// How long it took from a steal until the thread polled what it had stolen: of one steal in
    /// eight of each P.
    pub steal_to_poll: Durations,
    /// A row for each P that ever was; at least as many as threads ran at once.
    pub processors: Vec<ProcessorMetrics>,
}

/// The counters of one P. All of them only grow, except the lengths of the two queues.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ProcessorMetrics {
    /// Polls of tasks.
    pub polls: u64,
    /// Tasks that were spawned here. What a thread without a P spawns is counted in no row.
    pub spawned: u64,
    /// Tasks that ended here, wherever they were spawned.
    pub completed: u64,
    /// Searches: how often its thread had to look at the others' queues.
    pub searches: u64,
    /// Steals that brought something.
    pub steals: u64,
    /// Tasks that came by a steal.
    pub stolen: u64,
    /// Times that half of the local queue went to the global one.
    pub overflows: u64,
    /// Tasks that were taken from the global queue.
    pub global: u64,
    /// Times that its thread went to sleep.
    pub parks: u64,
    /// Times that it woke another thread.
    pub wakeups: u64,
    /// Looks at the netpoll.
    pub netpolls: u64,
    /// Timers that it fired.
    pub timers: u64,
    /// Tasks of another priority than the default one that it took from a queue.
    pub ordered: u64,
    /// Tasks in the local queue now.
    pub local_queue: usize,
    /// Tasks in its own ordered queue now.
    pub ordered_queue: usize,
}
