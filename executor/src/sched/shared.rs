//! What all threads of a runtime share: its Ps, its timers, its counts.
//!
//! `Shared` is the ground that the protocols stand on (`ground.rs`, `closing.rs`); here is what it
//! brings to them. How work comes in is in `incoming.rs`, how threads are started in `threads.rs`,
//! how it ends in `shutdown.rs`.

use std::{collections::HashSet, io, mem, sync::Weak, task::Waker};

use ws_reactor::{Inherited, Netpoll};

use super::{
    closing::{Closing, Phase, Threads},
    config::Config,
    dump::TaskDump,
    events::event,
    ground::{Bed, Ground},
    idle::{Idle, Permit, Spinning},
    incoming::HOME,
    keeper::Keeper,
    paused::Paused,
    processor::{Peer, Processor, attention},
    slots::Slots,
    stage::Stage,
    strangers::Strangers,
    sysmon::Sysmon,
    threads::{InStartHook, Joins},
    wait::Crowd,
};
use crate::{
    bit_set::BitSet,
    blocking::Room,
    cell::{
        Home, Place, Task, TaskRef,
        live::{LiveOwner, live_table},
        quietly, wake_quietly,
    },
    context,
    metrics::{Metrics, ProcessorMetrics},
    queue::{GlobalQueue, OrderedShared, OrderedStealer},
    reports::Reporter,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
            fence,
        },
    },
    throttle::{REPORT_EVERY, Throttle},
    timer::{Clock, TimeDriver, TimerShard},
};

/// See the module's head, and that of `sched.rs`.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Itself, for callers that have only a reference.
    this: Weak<Shared>,
    /// Itself once more, from the beginning of its end; see *The runtime's hold on itself* in
    /// `closing.rs`.
    kept: Mutex<Option<Arc<Shared>>>,
    pub(crate) config: Config,
    pub(crate) idle: Idle,
    pub(crate) grq: GlobalQueue<Task>,
    /// What `grq` is for tasks of another priority than the default one.
    pub(crate) ordered: OrderedShared<Task>,
    pub(crate) netpoll: Arc<Netpoll>,
    pub(crate) time: Arc<TimeDriver>,
    /// All Ps that ever were, in the order of their making. They stay until the runtime goes.
    peers: Box<[std::sync::OnceLock<Arc<Peer>>]>,
    pub(super) slots: Slots<Box<Processor>>,
    /// The Ps that may have timers; see *Listed shards* in `timer/shard.rs`.
    timed: Arc<BitSet>,
    /// The home of what foreign threads spawn.
    pub(super) foreign: Home,
    pub(super) foreign_live: Mutex<LiveOwner<TaskRef>>,
    /// How many of the live tasks are carriers whose pinned task lives as well; see
    /// `task/pinned.rs`.
    pub(crate) carried: AtomicUsize,
    foreign_timers: Arc<TimerShard>,
    /// Timers answer with errors from now on, also those of a P that is made later.
    timers_over: AtomicBool,
    /// The P whose thread waits in the netpoll: its index plus one.
    pub(crate) netpoll_waiter: AtomicUsize,
    /// When the netpoll was looked at last, in nanoseconds of the runtime's clock.
    pub(crate) last_netpoll: AtomicU64,
    pub(crate) reports: Reporter,
    pub(super) netpoll_reports: Throttle,
    /// That listeners wait for room, and how often they did.
    pub(crate) accept_reports: Throttle,
    pub(crate) accepts_delayed: AtomicU64,
    pub(super) crowd: Crowd,
    pub(crate) phase: Phase,
    /// Woken when a task's panic ends the runtime: the root of `Runtime::run_local`.
    pub(super) main: Mutex<Option<Waker>>,
    pub(crate) blocking: Room,
    /// Threads of the runtime that exist.
    pub(crate) threads: Mutex<Threads>,
    pub(super) joins: Mutex<Joins>,
    /// What each thread of the runtime begins with: that of the thread that built it.
    pub(super) inherited: Inherited,
    pub(super) in_start_hook: Mutex<InStartHook>,
    /// Signalled when a thread ends, and when a task ends during shutdown.
    pub(crate) changed: Condvar,
    /// The last thread that was to be started was refused, by `max_threads` or by the system.
    pub(crate) refusal: AtomicBool,
    /// How often that happened.
    pub(super) threads_refused: AtomicU64,
    pub(super) refusal_reports: Throttle,
    pub(crate) keeper: Keeper,
    pub(crate) sysmon: Sysmon,
    pub(super) strangers: Strangers,
    /// With the clock of a driver: what there is in place of threads.
    pub(super) stage: Option<Stage>,
    /// With a clock that jumps by itself.
    pub(crate) paused: Option<Paused>,
    /// How many Ps walks have come to.
    #[cfg(test)]
    pub(super) visits: AtomicUsize,
    /// What happens on threads without a P.
    #[cfg(any(test, feature = "events"))]
    pub(crate) events: Option<Mutex<crate::sched::events::Log>>,
}

impl Shared {
    pub(crate) fn new(config: Config, clock: Clock) -> io::Result<Arc<Self>> {
        let netpoll = Netpoll::new()?;
        let paused = config
            .paused
            .map(|patience| Paused::new(config.seed, patience));
        let is_virtual = clock.is_virtual();
        let stage = (is_virtual && paused.is_none()).then(Stage::default);
        let time = Arc::new(TimeDriver::new(netpoll.clone(), clock));
        let foreign_timers = Arc::new(TimerShard::new(time.clone()));
        let processors = config.processors_max();
        Ok(Arc::new_cyclic(|this| {
            let shared = this.clone();
            netpoll.on_unheard(move || context::with_shared(&shared, Shared::heard));
            let shared = this.clone();
            netpoll.on_wake(move |mut wakers| {
                context::with_shared(&shared, |shared| shared.wake_all(mem::take(&mut wakers)));
                // The runtime has gone.
                wakers.into_iter().for_each(wake_quietly);
            });
            let (table, owner) = live_table();
            Self {
                this: this.clone(),
                kept: Mutex::new(None),
                idle: Idle::new(config.workers, processors),
                grq: GlobalQueue::new(),
                ordered: OrderedShared::new(),
                netpoll,
                time,
                peers: (0..processors)
                    .map(|_| std::sync::OnceLock::new())
                    .collect(),
                slots: Slots::new(processors),
                timed: Arc::new(BitSet::new(processors)),
                foreign: Home::new(Place::Foreign, this.as_ptr().cast(), table, &HOME),
                foreign_live: Mutex::new(owner),
                carried: AtomicUsize::new(0),
                foreign_timers,
                timers_over: AtomicBool::new(false),
                netpoll_waiter: AtomicUsize::new(0),
                last_netpoll: AtomicU64::new(0),
                reports: Reporter::new(config.reports),
                netpoll_reports: Throttle::new(REPORT_EVERY),
                accept_reports: Throttle::new(REPORT_EVERY),
                accepts_delayed: AtomicU64::new(0),
                crowd: Crowd::default(),
                phase: Phase::new(),
                main: Mutex::new(None),
                blocking: Room::new(config.blocking_max()),
                threads: Mutex::new(Threads::default()),
                joins: Mutex::new(Joins::default()),
                inherited: Inherited::of_this_thread(),
                in_start_hook: Mutex::new(InStartHook::default()),
                changed: Condvar::new(),
                refusal: AtomicBool::new(false),
                threads_refused: AtomicU64::new(0),
                refusal_reports: Throttle::new(REPORT_EVERY),
                keeper: Keeper::new(!is_virtual),
                sysmon: Sysmon::default(),
                strangers: Strangers::default(),
                stage,
                paused,
                #[cfg(test)]
                visits: AtomicUsize::new(0),
                #[cfg(any(test, feature = "events"))]
                events: Self::foreign_log(config.events),
                config,
            }
        }))
    }

    // --- Ps ---

    /// How many Ps were ever made.
    pub(crate) fn peer_count(&self) -> usize {
        self.slots.made()
    }

    /// All Ps that were ever made.
    pub(crate) fn all_peers(&self) -> impl Iterator<Item = &Peer> {
        (0..self.peer_count()).map(|index| self.peer(index))
    }

    /// The Ps that have a thread, or live tasks; those that have neither are taken off the list.
    fn populated(&self) -> impl Iterator<Item = &Peer> {
        self.slots.populated().map(|index| {
            let peer = self.visit(index);
            let has_live = || peer.home.live().len() > 0;
            if !has_live() {
                self.slots.forget(index, has_live);
            }
            peer
        })
    }

    /// The P of an index that a walk has come to.
    fn visit(&self, index: usize) -> &Peer {
        #[cfg(test)]
        self.visits.fetch_add(1, Relaxed);
        self.peer(index)
    }

    /// How many threads may take a branch of a join: the permits that are free or searched with,
    /// minus one for each stray: a stray has the core. See *Strays* in `fork_join/owner.rs`.
    pub(crate) fn could_take(&self) -> usize {
        match self.idle.free() + self.idle.spinning() {
            0 => 0,
            idle => idle.saturating_sub(self.strays()),
        }
    }

    /// How many threads compute without a permit.
    pub(crate) fn strays(&self) -> usize {
        self.peers().filter(|peer| peer.is_stray()).count()
    }

    /// A vacant P, or a new one. None when there are as many as the runtime may ever have.
    pub(crate) fn take_processor(&self) -> Option<Box<Processor>> {
        let processor = self.slots.take(|index| self.make_processor(index))?;
        self.welcome(&processor.peer);
        // Ordering: after the fence in `welcome`. That pairs with the one in `shut_down_timers`:
        // either the end sees this P, or this thread sees the end.
        if self.timers_over.load(Relaxed) {
            let mut wakers = Vec::new();
            processor.peer.timers.shut_down(&mut wakers);
            self.wake_all(wakers);
        }
        Some(processor)
    }

    fn make_processor(&self, index: usize) -> Box<Processor> {
        let timers = TimerShard::listed(self.time.clone(), self.timed.clone(), index);
        let processor = Box::new(Processor::new(
            index,
            self.this.as_ptr().cast(),
            Arc::new(timers),
            self.config.seed,
        ));
        #[cfg(any(test, feature = "events"))]
        if let Some(records) = self.config.events {
            let fresh = processor
                .peer
                .events
                .set(crate::sched::events::Log::new(records));
            debug_assert!(fresh.is_ok(), "a P has one log");
        }
        if self.paused.is_some() {
            processor.peer.attention.store(attention::PAUSED, Relaxed);
        }
        self.peers[index]
            .set(processor.peer.clone())
            .expect("a P of an index is made once");
        processor
    }

    /// Gives a P back, empty of tasks. Its timers stay armed, and others fire them.
    pub(crate) fn return_processor(&self, processor: Box<Processor>) {
        debug_assert!(
            processor.lrq.is_empty() && processor.runnext.is_empty() && processor.direct.is_empty()
        );
        debug_assert!(processor.ranks.is_empty() && processor.parents.is_empty());
        self.slots.give_back(processor);
    }

    // --- timers ---

    pub(crate) fn now_ms(&self) -> u32 {
        (self.time.clock().now_ns() / 1_000_000) as u32
    }

    /// Whether a task is queued: [`Ground::any_work`] without branches of joins.
    pub(crate) fn any_task(&self) -> bool {
        let has_task = |peer: &Peer| peer.has_queued() || !peer.parents.is_empty();
        self.has_queued() || self.peers().any(has_task)
    }

    /// The earliest deadline of all timers, in nanoseconds of the runtime's clock.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let mut next = self.foreign_timers.next_deadline();
        for index in self.timed.iter(self.peer_count()) {
            let timers = &self.visit(index).timers;
            match timers.next_deadline() {
                Some(deadline) => next = Some(next.map_or(deadline, |next| next.min(deadline))),
                None if !self.slots.is_occupied(index) => timers.unlist_if_empty(),
                None => {}
            }
        }
        next
    }

    /// When a thread that sleeps has to get up for a timer, in nanoseconds of the runtime's clock.
    pub(super) fn next_wake_up(&self) -> Option<u64> {
        let next = self.next_deadline()?;
        Some(self.crowd.gets_up_at(next))
    }

    /// Takes the wakers of all timers that are due, on any P. Returns how many.
    pub(crate) fn fire_due(&self, now: u64, wakers: &mut Vec<Waker>) -> usize {
        let before = wakers.len();
        for index in self.timed.iter(self.peer_count()) {
            let timers = &self.visit(index).timers;
            if timers.has_due(now) {
                timers.fire_due(now, wakers);
            }
        }
        if self.foreign_timers.has_due(now) {
            self.foreign_timers.fire_due(now, wakers);
        }
        wakers.len() - before
    }

    pub(crate) fn foreign_timers(&self) -> &Arc<TimerShard> {
        &self.foreign_timers
    }

    /// Takes all timers, so that a task that polls one from now on learns of the end. Also on a P
    /// without a thread and without a timer: a sleep that was made there may yet be armed.
    fn shut_down_timers(&self) {
        let mut wakers = Vec::new();
        self.timers_over.store(true, Relaxed);
        // Ordering: SeqCst: between the flag and the look at the Ps; pairs with the fence in
        // `welcome`.
        fence(SeqCst);
        for peer in self.all_peers() {
            peer.timers.shut_down(&mut wakers);
        }
        self.foreign_timers.shut_down(&mut wakers);
        self.wake_all(wakers);
    }

    // --- what is alive ---

    /// Calls `f` with a reference to every live task.
    pub(crate) fn for_each_live(&self, mut f: impl FnMut(TaskRef)) {
        for peer in self.populated() {
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

    /// All live tasks, as they are. Nothing is polled, and no thread waits.
    pub(crate) fn dump(&self) -> Vec<TaskDump> {
        self.dump_listed_by(|f| self.for_each_live(f))
    }

    /// The same of the tasks that `list` calls its argument with.
    fn dump_listed_by(&self, list: impl FnOnce(&mut dyn FnMut(TaskRef))) -> Vec<TaskDump> {
        let running: Vec<u64> = self
            .peers()
            .map(|peer| peer.running.load(Relaxed))
            .collect();
        let (mut tasks, mut carriers) = (Vec::new(), Vec::new());
        // The clock is read after the task was found: others are spawned meanwhile, and an age must
        // not be negative.
        list(&mut |task| {
            let row = TaskDump::new(&task, &running, self.now_ms());
            if task.header().is_carrier() {
                carriers.push(row);
            } else {
                tasks.push(row);
            }
        });
        if !carriers.is_empty() {
            let pinned: HashSet<_> = tasks.iter().map(|task| task.id).collect();
            tasks.extend(carriers.into_iter().filter(|row| !pinned.contains(&row.id)));
        }
        tasks
    }

    pub(crate) fn metrics(&self) -> Metrics {
        Metrics {
            workers: self.config.workers,
            threads: self.threads.lock().count,
            threads_refused: self.threads_refused.load(Relaxed),
            free_permits: self.idle.free(),
            spinning: self.idle.spinning(),
            live_tasks: self.live_tasks().saturating_sub(self.carried.load(Relaxed)),
            global_queue: self.grq.len(),
            ordered_queue: self.ordered.len(),
            monitor_looks: self.sysmon.looks(),
            accepts_delayed: self.accepts_delayed.load(Relaxed),
            processors: self.all_peers().map(processor_metrics).collect(),
        }
    }
}

impl Ground for Shared {
    type Task = Task;
    type Peer = Peer;

    fn idle(&self) -> &Idle {
        &self.idle
    }

    fn grq(&self) -> &GlobalQueue<Task> {
        &self.grq
    }

    fn ordered(&self) -> &OrderedShared<Task> {
        &self.ordered
    }

    fn phase(&self) -> &Phase {
        &self.phase
    }

    fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.slots.occupied().map(|index| self.visit(index))
    }

    fn takes_branches(&self) -> bool {
        self.could_take() > 0
    }

    fn peer(&self, index: usize) -> &Peer {
        self.peers[index]
            .get()
            .expect("callers have the index from a P that was made")
    }

    fn refusal(&self) -> &AtomicBool {
        &self.refusal
    }

    fn netpoll_waiter(&self) -> &AtomicUsize {
        &self.netpoll_waiter
    }

    fn interrupt(&self) {
        self.netpoll.interrupt();
    }

    fn awaits(&self) -> bool {
        self.netpoll.has_sources() || self.next_deadline().is_some()
    }

    fn start_thread(&self, permit: Permit, spinning: Spinning) {
        event!(self, Start, &(), 0);
        self.start_worker(permit, spinning);
    }

    /// On its root's parker in `block_on`, else on the P's.
    fn notify_owner(&self, peer: &Peer) {
        let root = peer.root.lock().clone();
        match root {
            Some(root) => root.unpark(),
            None => self.unpark(peer),
        }
    }

    #[cfg(any(test, feature = "events"))]
    fn unpark(&self, peer: &Peer) {
        event!(self, Wake, &(), peer.index);
        peer.parker.unpark(|| self.interrupt());
    }

    fn cancel(task: Task) {
        let _ = task.cancel();
    }
}

impl Closing for Shared {
    type Hold = Arc<Self>;

    fn hold(&self) -> Arc<Self> {
        self.this
            .upgrade()
            .expect("callers run on a thread of the runtime, or hold a live task")
    }

    fn kept(&self) -> &Mutex<Option<Arc<Self>>> {
        &self.kept
    }

    fn threads(&self) -> &Mutex<Threads> {
        &self.threads
    }

    fn changed(&self) -> &Condvar {
        &self.changed
    }

    fn live_tasks(&self) -> usize {
        self.populated()
            .map(|peer| peer.home.live().len())
            .sum::<usize>()
            + self.foreign.live().len()
    }

    fn cancel_all(&self, mut dispose: impl FnMut(Task)) {
        let mut cancel = |task: TaskRef| {
            if let Some(task) = task.cancel() {
                dispose(task);
            }
        };
        for peer in self.populated() {
            peer.home.live().sweep(&mut cancel);
        }
        self.foreign.live().sweep(cancel);
    }

    fn abort_all(&self) {
        for peer in self.populated() {
            self.abort_of(&peer.home);
        }
        self.abort_of(&self.foreign);
    }

    fn ask(&self, peer: &Peer) {
        peer.attention.fetch_or(attention::DRAIN, Relaxed);
    }

    fn tell(&self, peer: &Peer) {
        peer.attention.fetch_or(attention::SHUTDOWN, Relaxed);
    }

    fn dismiss_monitor(&self) {
        self.idle.monitor().unpark(|| ());
    }

    fn clear_as_a_guest(&self) {
        self.clear_with_a_worker();
    }

    fn shut_down_resources(&self) {
        quietly("the waker of a socket", || self.netpoll.shut_down());
        self.shut_down_timers();
    }
}

fn processor_metrics(peer: &Peer) -> ProcessorMetrics {
    let counters = &peer.counters;
    ProcessorMetrics {
        polls: counters.polls.get(),
        spawned: (counters.spawned.get() + counters.spawned_for_all.get())
            .saturating_sub(counters.carried.get()),
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
        ordered: counters.ordered.get(),
        local_queue: peer.stealer.len(),
        ordered_queue: peer.ordered.get().map_or(0, OrderedStealer::len),
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        debug_assert_eq!(self.live_tasks(), 0, "a live task keeps its runtime");
    }
}

#[cfg(test)]
mod tests;
