//! What all threads of a runtime share, and the ways by which work comes in.
#![expect(
    unsafe_code,
    reason = "a home's runtime is reached by the pointer that the home carries; see `of`"
)]

use std::{future::Future, io, panic::Location, ptr::NonNull, sync::Weak, task::Waker};

use ws_reactor::Netpoll;

use super::{
    Worker,
    idle::{Idle, Permit, Spinning, Stands},
    processor::{Peer, Processor, attention},
    shutdown::Phase,
    sysmon::Sysmon,
    worker,
};
use crate::{
    blocking::Room,
    context,
    metrics::{Metrics, ProcessorMetrics},
    queue::{Batch, GlobalQueue},
    runtime::{Config, TaskDump},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release, SeqCst},
            fence,
        },
        thread,
    },
    task::{
        Extra, Functions, Home, Id, JoinCell, Parts, Place, Task, TaskRef,
        live::{LiveOwner, Removed, live_table},
        wake_quietly,
    },
    time::{Clock, TimeDriver, TimerHandle, TimerShard},
};

/// Ids that a P takes from the process-wide counter at once. Guessed: large enough that the shared
/// counter does not show in a spawn.
const ID_BLOCK: u64 = 1024;

/// Ids are unique in the process, so that two runtimes' logs can be told apart.
static NEXT_ID: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// See the module's head, and that of `sched.rs`.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Itself, for who has only a reference.
    this: Weak<Shared>,
    /// Itself once more, from the beginning of its end; see `keep` in `shutdown.rs`.
    pub(super) kept: Mutex<Option<Arc<Shared>>>,
    pub(crate) config: Config,
    pub(crate) idle: Idle,
    pub(crate) grq: GlobalQueue<Task>,
    pub(crate) netpoll: Arc<Netpoll>,
    pub(crate) time: Arc<TimeDriver>,
    /// All Ps that ever were, in the order of their making. They stay until the runtime goes.
    peers: Box<[std::sync::OnceLock<Arc<Peer>>]>,
    peer_count: AtomicUsize,
    /// Ps without a thread.
    #[expect(
        clippy::vec_box,
        reason = "a P travels from thread to thread, and is large"
    )]
    vacant: Mutex<Vec<Box<Processor>>>,
    /// The home of what foreign threads spawn.
    foreign: Home,
    foreign_live: Mutex<LiveOwner<TaskRef>>,
    foreign_timers: Arc<TimerShard>,
    /// Who waits in the netpoll: its index plus one.
    pub(crate) netpoll_waiter: AtomicUsize,
    /// When the netpoll was looked at last, in nanoseconds of the runtime's clock.
    pub(crate) last_netpoll: AtomicU64,
    pub(crate) phase: Phase,
    pub(crate) blocking: Room,
    /// Threads of the runtime that exist.
    pub(crate) threads: Mutex<Threads>,
    /// Signalled when a thread ends, and when a task ends during shutdown.
    pub(crate) changed: Condvar,
    /// The last thread that was to be started was refused, by `max_threads` or by the system.
    pub(crate) refused: AtomicBool,
    /// Reports that are limited to one each.
    pub(crate) reported_no_thread: AtomicU32,
    pub(crate) sysmon: Sysmon,
}

/// The runtime's threads.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    pub(crate) count: usize,
    /// Numbers the names.
    started: usize,
}

/// What the homes of all Ps do.
pub(crate) static HOME: Functions = Functions { schedule, remove };

/// The runtime of a home.
fn of(home: &Home) -> &Shared {
    // SAFETY: `Shared::new` put its own address there. Callers hold a live task of this home, or are
    // threads of the runtime, so the runtime is there.
    unsafe { &*home.runtime().cast::<Shared>() }
}

/// A task was woken.
fn schedule(home: &Home, task: Task) {
    let shared = of(home);
    context::with_worker_of(shared, |worker| match worker {
        Some(worker) => worker.push_woken(task),
        None => {
            // As soon as the task is pushed it may run and end, and the runtime with it: hold it.
            let shared = shared.hold();
            shared.push_foreign(task);
        }
    });
}

/// A task has ended.
fn remove(home: &Home, index: u32) -> Removed<TaskRef> {
    let shared = of(home);
    let removed = context::with_worker(|worker| match worker {
        Some(worker) if worker.home_is(home) => worker.remove_live(index),
        _ => home.live().remove(index),
    });
    if shared.phase.is_closing() {
        shared.task_ended_while_closing();
    }
    removed
}

impl Shared {
    pub(crate) fn new(config: Config, clock: Clock) -> io::Result<Arc<Self>> {
        let netpoll = Netpoll::new()?;
        let time = Arc::new(TimeDriver::new(netpoll.clone(), clock));
        let foreign_timers = Arc::new(TimerShard::new(time.clone()));
        let processors = config.processors_max();
        Ok(Arc::new_cyclic(|this| {
            let (table, owner) = live_table();
            Self {
                this: this.clone(),
                kept: Mutex::new(None),
                idle: Idle::new(config.workers, processors),
                grq: GlobalQueue::new(),
                netpoll,
                time,
                peers: (0..processors)
                    .map(|_| std::sync::OnceLock::new())
                    .collect(),
                peer_count: AtomicUsize::new(0),
                vacant: Mutex::new(Vec::new()),
                foreign: Home::new(Place::Foreign, this.as_ptr().cast(), table, &HOME),
                foreign_live: Mutex::new(owner),
                foreign_timers,
                netpoll_waiter: AtomicUsize::new(0),
                last_netpoll: AtomicU64::new(0),
                phase: Phase::new(),
                blocking: Room::new(config.blocking_max()),
                threads: Mutex::new(Threads::default()),
                changed: Condvar::new(),
                refused: AtomicBool::new(false),
                reported_no_thread: AtomicU32::new(0),
                sysmon: Sysmon::new(config.sysmon),
                config,
            }
        }))
    }

    /// An owned hold on the runtime.
    pub(super) fn hold(&self) -> Arc<Self> {
        self.this
            .upgrade()
            .expect("callers run on a thread of the runtime, or hold a live task")
    }

    // --- Ps ---

    /// All Ps that were made so far.
    pub(crate) fn peers(&self) -> impl ExactSizeIterator<Item = &Arc<Peer>> {
        // Ordering: Acquire pairs with the Release in `take_processor`.
        let count = self.peer_count.load(Acquire);
        self.peers[..count]
            .iter()
            .map(|peer| peer.get().expect("made before it was counted"))
    }

    pub(crate) fn peer(&self, index: usize) -> &Arc<Peer> {
        self.peers[index]
            .get()
            .expect("callers have the index from a P that was made")
    }

    pub(crate) fn peer_count(&self) -> usize {
        // Ordering: as in `peers`.
        self.peer_count.load(Acquire)
    }

    /// A vacant P, or a new one. None when there are as many as the runtime may ever have.
    pub(crate) fn take_processor(&self) -> Option<Box<Processor>> {
        let mut vacant = self.vacant.lock();
        if let Some(processor) = vacant.pop() {
            return Some(processor);
        }
        let index = self.peer_count.load(Relaxed);
        let slot = self.peers.get(index)?;
        let timers = Arc::new(TimerShard::new(self.time.clone()));
        let processor = Box::new(Processor::new(
            index,
            self.this.as_ptr().cast(),
            timers,
            self.config.seed,
        ));
        slot.set(processor.peer.clone())
            .expect("the lock on `vacant` makes this the only one");
        // Ordering: Release: who sees the count sees the slot.
        self.peer_count.store(index + 1, Release);
        drop(vacant);
        // Ordering: SeqCst: see `begin_shutdown`.
        fence(SeqCst);
        // A new P missed what was said to the others.
        if self.phase.is_closing() {
            processor
                .peer
                .attention
                .fetch_or(attention::SHUTDOWN, Relaxed);
        }
        Some(processor)
    }

    /// Gives a P back, empty of tasks. Its timers stay armed, and others fire them.
    pub(crate) fn return_processor(&self, processor: Box<Processor>) {
        debug_assert!(processor.lrq.is_empty() && processor.peer.runnext.is_empty());
        self.vacant.lock().push(processor);
    }

    // --- waking threads ---

    /// After a push that anybody may take: wakes up to `backlog` threads, if there are permits.
    pub(crate) fn wake_for(&self, backlog: usize) {
        for _ in 0..backlog.min(self.config.workers) {
            let Some((permit, spinning)) = self.idle.submit(backlog) else {
                return;
            };
            self.wake_with(permit, spinning);
        }
    }

    /// Gives a permit and the duty to search to a parked thread, or starts one.
    pub(crate) fn wake_with(&self, permit: Permit, spinning: Spinning) {
        let mut permit = Some(permit);
        let waiter = self.netpoll_waiter.load(Relaxed).checked_sub(1);
        let claimed = self.idle.parked().claim(waiter, |index| {
            let peer = self.peer(index);
            match peer.standing.hand_to_parked(permit.take()?) {
                Ok(()) => Some(peer),
                Err(back) => {
                    permit = Some(back);
                    None
                }
            }
        });
        match (claimed, permit) {
            (Some(peer), None) => {
                spinning.hand_over();
                self.unpark(peer);
            }
            (None, Some(permit)) => self.start_thread(permit, spinning),
            _ => unreachable!("a permit is handed to exactly one P"),
        }
    }

    /// Ends the sleep of a P's thread.
    pub(crate) fn unpark(&self, peer: &Peer) {
        peer.parker.unpark(|| self.netpoll.interrupt());
    }

    /// Gives a permit up: to who wants one for pinned work, or to all. Then looks whether work was
    /// left by somebody who found no permit free, or whether nobody is left to wait in the netpoll, and
    /// if so wakes a thread.
    pub(crate) fn release(&self, permit: Permit, spinning: Option<Spinning>) {
        self.idle.release(permit, spinning);
        self.after_release();
        if self.any_work() {
            self.wake_for(1);
        } else {
            self.ensure_poller();
        }
    }

    /// Whether there is anything that somebody has to wait for in the netpoll.
    pub(crate) fn awaits(&self) -> bool {
        self.netpoll.has_sources() || self.next_deadline().is_some()
    }

    /// Sees to it that somebody waits in the netpoll, if there is anything to wait for: for a thread
    /// that goes away, or that is not a worker. Who runs now looks there before it sleeps.
    pub(crate) fn ensure_poller(&self) {
        if self.awaits() {
            self.start_poller();
        }
    }

    /// As [`ensure_poller`](Self::ensure_poller), for who is about to wait for something.
    pub(crate) fn start_poller(&self) {
        // Ordering: Acquire: see `Worker::wait`.
        let nobody = self.netpoll_waiter.load(Acquire) == 0;
        if nobody && self.idle.free() == self.config.workers {
            self.wake_for(1);
        }
    }

    /// The half of [`release`](Self::release) that concerns pinned work.
    pub(crate) fn after_release(&self) {
        while !self.idle.wanting().is_empty() {
            let Some(permit) = self.idle.acquire() else {
                return;
            };
            if let Err(permit) = self.hand_to_wanting(permit) {
                self.idle.release(permit, None);
            }
        }
    }

    /// Hands a permit to somebody who has pinned work and no permit.
    pub(crate) fn hand_to_wanting(&self, permit: Permit) -> Result<(), Permit> {
        let mut permit = Some(permit);
        self.idle.wanting().claim(None, |index| {
            let peer = self.peer(index);
            match peer.standing.hand_to_wanting(permit.take()?) {
                Ok(()) => {
                    self.notify_owner(peer);
                    Some(())
                }
                Err(back) => {
                    permit = Some(back);
                    None
                }
            }
        });
        permit.map_or(Ok(()), Err)
    }

    /// The last look before a thread sleeps: whether anything is queued that any thread may take.
    pub(crate) fn any_work(&self) -> bool {
        !self.grq.is_empty() || self.peers().any(|peer| peer.has_stealable())
    }

    /// The earliest deadline of all timers, in nanoseconds of the runtime's clock.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.peers()
            .filter_map(|peer| peer.timers.next_deadline())
            .chain(self.foreign_timers.next_deadline())
            .min()
    }

    /// Takes the wakers of all timers that are due, on whatever P. How many.
    pub(crate) fn fire_due(&self, now: u64, wakers: &mut Vec<Waker>) -> usize {
        let before = wakers.len();
        for peer in self.peers() {
            if peer.timers.has_due(now) {
                peer.timers.fire_due(now, wakers);
            }
        }
        if self.foreign_timers.has_due(now) {
            self.foreign_timers.fire_due(now, wakers);
        }
        wakers.len() - before
    }

    pub(crate) fn foreign_timers(&self) -> TimerHandle {
        TimerHandle::new(self.foreign_timers.clone())
    }

    /// Takes all timers, so that who polls one from now on learns of the end.
    pub(crate) fn shut_down_timers(&self) {
        let mut wakers = Vec::new();
        for peer in self.peers() {
            peer.timers.shut_down(&mut wakers);
        }
        self.foreign_timers.shut_down(&mut wakers);
        wakers.into_iter().for_each(wake_quietly);
    }

    /// Starts a thread that begins with a permit, as a spinner.
    fn start_thread(&self, permit: Permit, spinning: Spinning) {
        let Some(processor) = self.admit_thread() else {
            self.idle.release(permit, Some(spinning));
            self.thread_was_refused();
            if !self.phase.is_closing() {
                self.report_no_thread(
                    "the runtime has as many threads as `Builder::max_threads` allows",
                );
            }
            return;
        };
        let number = {
            let mut threads = self.threads.lock();
            threads.started += 1;
            threads.started
        };
        let mut builder = thread::Builder::new().name(self.config.thread_name(number));
        if let Some(bytes) = self.config.stack_size {
            builder = builder.stack_size(bytes);
        }
        let shared = self.hold();
        // The P goes to the thread in a cell that we keep a hold on, so that it comes back if the
        // system refuses the thread.
        let cell = Arc::new(Mutex::new(Some(processor)));
        let seat = cell.clone();
        processor_runs(&cell, permit);
        spinning.hand_over();
        let started = builder.spawn(move || {
            let processor = seat
                .lock()
                .take()
                .expect("the P is put there before the start");
            worker::main(&shared, processor);
        });
        let Err(error) = started else {
            if self.refused.load(Relaxed) {
                self.refused.store(false, Relaxed);
            }
            return;
        };
        if let Some(processor) = cell.lock().take() {
            let permit = processor.peer.standing.vacate();
            self.return_processor(processor);
            if let Some(permit) = permit {
                self.idle.release(permit, Some(Spinning::take_over()));
            }
        }
        self.thread_gone();
        self.thread_was_refused();
        self.report_no_thread(&error.to_string());
    }

    /// A thread was refused. Others may have pushed meanwhile, and relied on its spinning.
    fn thread_was_refused(&self) {
        // Ordering: SeqCst, with the fence: a thread in `block_on` that is about to wait sees this, or is
        // seen waiting; pairs with the fence in `wait_for_root`.
        self.refused.store(true, Relaxed);
        fence(SeqCst);
        // The set tells whether there is anybody to wake, so that this does not go round for ever.
        if !self.idle.parked().is_empty() && self.any_work() {
            self.wake_for(1);
        } else if !self.grq.is_empty() {
            let waiting = |peer: &&Arc<Peer>| peer.standing.load() == Stands::Waiting;
            for peer in self.peers().filter(waiting) {
                self.notify_owner(peer);
            }
        }
    }

    /// Whether a thread could be woken or started, as far as one can see.
    pub(crate) fn could_have_a_thread(&self) -> bool {
        !self.idle.parked().is_empty() || self.threads.lock().count < self.config.max_threads
    }

    /// A P for one more thread, if the cap allows it; the thread is counted.
    fn admit_thread(&self) -> Option<Box<Processor>> {
        let mut threads = self.threads.lock();
        if threads.count >= self.config.max_threads || self.phase.is_closing() {
            return None;
        }
        let processor = self.take_processor()?;
        threads.count += 1;
        Some(processor)
    }

    /// Whether the runtime has threads of its own.
    pub(crate) fn has_threads(&self) -> bool {
        self.threads.lock().count > 0
    }

    fn report_no_thread(&self, why: &str) {
        if self.reported_no_thread.fetch_add(1, Relaxed) == 0 {
            tracing::warn!(why, "no thread could be started: work waits for the others");
        }
    }

    // --- work that comes in ---

    /// Queues a task from a thread that has no P of this runtime.
    pub(crate) fn push_foreign(&self, task: Task) {
        if task.header().is_pinned() {
            self.push_pinned(task);
        } else {
            self.grq.push(task);
            self.wake_for(1);
        }
        if self.phase.is_closing() {
            self.drain_if_closed();
        }
    }

    /// Queues a batch, in its order.
    pub(crate) fn push_batch(&self, batch: Batch<Task>) {
        let len = batch.len();
        self.grq.push_batch(batch);
        self.wake_for(len);
        if self.phase.is_closing() {
            self.drain_if_closed();
        }
    }

    /// Queues a pinned task from another thread than its own.
    fn push_pinned(&self, task: Task) {
        let Place::Processor(index) = task.header().home().place() else {
            unreachable!("a pinned task's home is the P that it was spawned on");
        };
        let peer = self.peer(usize::from(index));
        peer.inbox.push(task);
        self.notify_owner(peer);
    }

    /// Wakes a P's own thread, wherever it sleeps: on its root's parker in `block_on`, else on the P's.
    /// An unpark is kept until its next sleep, so that what was done before it is seen.
    pub(crate) fn notify_owner(&self, peer: &Peer) {
        let root = peer.root.lock().clone();
        match root {
            Some(root) => root.unpark(),
            None => self.unpark(peer),
        }
    }

    /// The makings of a task that a foreign thread spawns.
    pub(crate) fn foreign_parts(
        &self,
        extra: Option<Box<Extra>>,
        location: &'static Location<'static>,
    ) -> Parts {
        Parts {
            home: NonNull::from(&self.foreign),
            id: Id::new(NEXT_ID.fetch_add(1, Relaxed)),
            born_ms: self.now_ms(),
            location,
            extra,
        }
    }

    /// Enters a foreign thread's new task, and queues it.
    pub(crate) fn spawn_foreign(&self, task: Task) {
        if self.phase.is_closing() {
            task.refuse();
            return;
        }
        task.enter(|reference| self.foreign_live.lock().insert(reference));
        self.push_foreign(task);
    }

    /// A block of fresh ids.
    pub(crate) fn id_block() -> (u64, u64) {
        let first = NEXT_ID.fetch_add(ID_BLOCK, Relaxed);
        (first, first + ID_BLOCK)
    }

    pub(crate) fn now_ms(&self) -> u32 {
        (self.time.clock().now_ns() / 1_000_000) as u32
    }

    /// Makes a task that stays on this worker's thread.
    pub(crate) fn new_pinned_task<F>(
        worker: &Worker,
        future: F,
        parts: Parts,
    ) -> (Task, JoinCell<F::Output>)
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        assert!(
            worker.home_is_at(parts.home),
            "a pinned task's home is its thread's"
        );
        // SAFETY: the home is that of this worker's P. `Worker::spawn` and `schedule` put a pinned task
        // into the pinned queue of its home's P or its inbox, from which only that P's thread takes
        // (I7), and the thread keeps the P while it has pinned tasks: `clear_away` ends them first.
        unsafe { Task::new_pinned(future, parts) }
    }

    // --- what is alive ---

    /// Calls `f` with a reference to every live task.
    pub(crate) fn for_each_live(&self, mut f: impl FnMut(TaskRef)) {
        for peer in self.peers() {
            peer.home.live().for_each(&mut f);
        }
        self.foreign.live().for_each(f);
    }

    /// The task at an address that its header gave, if it is alive.
    pub(crate) fn find_live(&self, address: u64) -> Option<TaskRef> {
        let number = (address >> 32).checked_sub(1)?;
        let home = match Place::from_number(number) {
            Place::Processor(index) => &self.peers.get(usize::from(index))?.get()?.home,
            Place::Foreign => &self.foreign,
        };
        home.live().get(address as u32)
    }

    /// How many tasks are alive.
    pub(crate) fn live_tasks(&self) -> usize {
        self.peers()
            .map(|peer| peer.home.live().len())
            .sum::<usize>()
            + self.foreign.live().len()
    }

    /// All live tasks, as they are; nothing is polled, and nobody waits.
    pub(crate) fn dump(&self) -> Vec<TaskDump> {
        let running: Vec<u64> = self
            .peers()
            .map(|peer| peer.running.load(Relaxed))
            .collect();
        let now = self.now_ms();
        let mut tasks = Vec::new();
        self.for_each_live(|task| tasks.push(TaskDump::new(&task, &running, now)));
        tasks
    }

    pub(crate) fn metrics(&self) -> Metrics {
        Metrics {
            workers: self.config.workers,
            threads: self.threads.lock().count,
            free_permits: self.idle.free(),
            spinning: self.idle.spinning(),
            live_tasks: self.live_tasks(),
            global_queue: self.grq.len(),
            processors: self.peers().map(|peer| processor_metrics(peer)).collect(),
        }
    }
}

/// Makes the P in the cell run with `permit`.
fn processor_runs(cell: &Mutex<Option<Box<Processor>>>, permit: Permit) {
    let cell = cell.lock();
    let processor = cell.as_ref().expect("just put there");
    processor.peer.standing.run(permit);
}

fn processor_metrics(peer: &Peer) -> ProcessorMetrics {
    let counters = &peer.counters;
    ProcessorMetrics {
        polls: counters.polls.get(),
        spawned: counters.spawned.get(),
        completed: counters.completed.get(),
        searches: counters.searches.get(),
        steals: counters.steals.get(),
        stolen: counters.stolen.get(),
        overflows: counters.overflows.get(),
        global: counters.global.get(),
        parks: counters.parks.get(),
        wakeups: counters.wakeups.get(),
        netpolls: counters.netpolls.get(),
        timers: counters.timers.get(),
        local_queue: peer.stealer.len(),
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        debug_assert_eq!(self.live_tasks(), 0, "a live task keeps its runtime");
    }
}
