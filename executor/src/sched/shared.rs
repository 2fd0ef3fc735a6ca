//! What all threads of a runtime share: its Ps, its timers, its counts.
//!
//! `Shared` implements the environment of the protocols (`permit/env.rs`, `permit/phase.rs`); here
//! is what it brings to them. How work comes in is in `inject.rs`, how threads are started in
//! `threads.rs`, how it ends in `shutdown.rs`.

use std::{io, sync::Weak};

use ws_reactor::{Netpoll, current_cpu};

use super::{
    config::Config,
    processor::{Peer, Processor, attention},
    state::{
        io::Io,
        parts::{End, Foreign, SharedQueues, Signals, Telling, Time},
        runtime_threads::RuntimeThreads,
    },
};
use crate::{
    bit_set::{Bit, BitSet},
    cell::{Place, SchedulerHandle, Task, TaskRef, live::live_table, quietly},
    nodes::{Nodes, Placed},
    note::event,
    once_table::OnceTable,
    permit::{
        allp::AllPs,
        env::{Env, PeerEnv},
        idle::{Idle, Permit, Spinning},
        phase::{Phase, ShutdownEnv, Threads},
    },
    policy::forks::takers,
    probe::{ProbeCount, ProbePoint},
    queue::{GlobalRunQueue, OrderedShared},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    timer::Clock,
};

/// See the module's head, and that of `sched.rs`.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Itself, for callers that have only a reference.
    this: Weak<Shared>,
    pub(crate) config: Config,
    pub(crate) idle: Idle,
    pub(crate) queues: SharedQueues,
    pub(crate) processors: Processors,
    pub(crate) foreign: Foreign,
    pub(crate) time: Time,
    pub(crate) io: Io,
    pub(crate) threads: RuntimeThreads,
    pub(crate) end: End,
    pub(crate) monitor: Signals,
    pub(crate) telling: Telling,
}

/// The Ps.
#[derive(Debug)]
pub(crate) struct Processors {
    /// All that ever were, in the order of their making. They stay until the runtime goes.
    peers: OnceTable<Arc<Peer>>,
    pub(crate) allp: AllPs<Box<Processor>>,
    /// Those whose thread computes, by `Flags::computes`.
    computing: Arc<BitSet>,
    /// On which node the thread of each is.
    pub(super) placed: Placed,
    /// How many Ps walks have come to.
    pub(crate) visits: ProbeCount,
    /// Where a search is about to claim a branch.
    pub(super) before_claim: ProbePoint,
}

impl Processors {
    fn new(most: usize, nodes: Nodes) -> Self {
        Self {
            computing: Arc::new(BitSet::new(most)),
            placed: Placed::new(nodes, most),
            peers: OnceTable::new(most),
            allp: AllPs::new(most),
            visits: ProbeCount::default(),
            before_claim: ProbePoint::default(),
        }
    }
}

impl Shared {
    pub(crate) fn new(config: Config, clock: Clock) -> io::Result<Arc<Self>> {
        let netpoll = Netpoll::new()?;
        let processors = config.processors_max();
        let time = Time::new(&config, clock, &netpoll, processors);
        // What a seed decides is the same on every machine.
        let nodes = match &config.nodes {
            None if time.clock().is_virtual() => Nodes::default(),
            None => Nodes::of_system(),
            Some(planted) => planted.clone(),
        };
        let telling = Telling::new(&config, time.clock());
        Ok(Arc::new_cyclic(|this| {
            let (table, owner) = live_table();
            Self {
                this: this.clone(),
                idle: Idle::new(config.workers, processors),
                queues: SharedQueues {
                    grq: GlobalRunQueue::new(),
                    ordered: OrderedShared::new(),
                },
                processors: Processors::new(processors, nodes),
                foreign: Foreign {
                    scheduler: SchedulerHandle::new(
                        Place::Foreign,
                        this.as_ptr().cast(),
                        table,
                        config.above.task_functions,
                    ),
                    live: Mutex::new(owner),
                    carried: AtomicUsize::new(0),
                },
                threads: RuntimeThreads::new(&config, time.clock()),
                time,
                io: Io::new(netpoll),
                end: End::new(),
                monitor: Signals::default(),
                telling,
                config,
            }
        }))
    }

    // --- Ps ---

    /// How many Ps were ever made.
    pub(crate) fn peer_count(&self) -> usize {
        self.processors.allp.made()
    }

    /// All Ps that were ever made.
    pub(crate) fn all_peers(&self) -> impl Iterator<Item = &Peer> {
        (0..self.peer_count()).map(|index| self.peer(index))
    }

    /// The Ps that have a thread, or live tasks; those that have neither are taken off the list.
    fn populated(&self) -> impl Iterator<Item = &Peer> {
        self.processors.allp.populated().map(|index| {
            let peer = self.visit(index);
            let has_live = || peer.scheduler.live().len() > 0;
            if !has_live() {
                self.processors.allp.forget(index, has_live);
            }
            peer
        })
    }

    /// The P of an index that a walk has come to.
    pub(super) fn visit(&self, index: usize) -> &Peer {
        self.processors.visits.add_one();
        self.peer(index)
    }

    /// How many threads may take a branch of a join, of those that search or would find a permit.
    pub(crate) fn could_take(&self) -> usize {
        match self.idle.free() + self.idle.spinning() {
            0 => 0,
            idle => takers(idle, self.detached_count()),
        }
    }

    /// How many threads compute without a permit.
    pub(crate) fn detached_count(&self) -> usize {
        let computing = self.processors.computing.iter(self.peer_count());
        computing
            .filter(|&index| self.visit(index).is_detached())
            .count()
    }

    /// Notes on which node the calling thread runs, which has that P.
    pub(super) fn note_node(&self, index: usize) {
        let placed = &self.processors.placed;
        if placed.are_several() {
            let virtual_cpu = self.threads.sim_threads.as_ref().map(|_| index);
            if let Some(cpu) = virtual_cpu.or_else(|| current_cpu().map(|cpu| cpu as usize)) {
                placed.note(index, cpu);
            }
        }
    }

    /// A vacant P, or a new one. None when there are as many as the runtime may ever have.
    pub(crate) fn take_processor(&self) -> Option<Box<Processor>> {
        let processor = self
            .processors
            .allp
            .take(|index| self.make_processor(index))?;
        self.notify_new_p(&processor.peer);
        // Ordering: after the fence in `notify_new_p`. That pairs with the one in
        // `shut_down_timers`: either the end sees this P, or this thread sees the end.
        if self.time.over.load(Relaxed) {
            let mut wakers = Vec::new();
            processor.peer.timers.shut_down(&mut wakers);
            self.wake_all(wakers);
        }
        Some(processor)
    }

    fn make_processor(&self, index: usize) -> Box<Processor> {
        let timers = self.time.shard(index);
        let processor = Box::new(Processor::new(
            index,
            self.this.as_ptr().cast(),
            self.config.above.task_functions,
            Arc::new(timers),
            // A thread in `block_on` has a P, too, and others may then be the workers'.
            self.telling.recorder.ring(index < 2 * self.idle.workers()),
            Bit::new(&self.processors.computing, index),
            self.config.seed,
        ));
        if self.time.paused.is_some() {
            processor.peer.attention.store(attention::PAUSED, Relaxed);
        }
        let mut is_first = false;
        self.processors.peers.get_or_init(index, || {
            is_first = true;
            processor.peer.clone()
        });
        assert!(is_first, "a P of an index is made once");
        processor
    }

    /// Gives a P back, empty of tasks. Its timers stay armed, and others fire them.
    pub(crate) fn return_processor(&self, processor: Box<Processor>) {
        debug_assert!(
            processor.lrq.is_empty()
                && processor.runnext.is_empty()
                && !processor.forks.has_child()
        );
        debug_assert!(processor.priority_queues.is_empty() && processor.forks.parents.is_empty());
        self.processors.allp.give_back(processor);
    }

    // --- what is queued, and what is alive ---

    /// Whether a task is queued: [`Env::any_work`] without branches of joins.
    pub(crate) fn any_task(&self) -> bool {
        let has_task = |peer: &Peer| peer.has_queued() || !peer.queues.parents.is_empty();
        self.has_queued() || self.awake_peers().any(has_task)
    }

    /// Calls `f` with a reference to every live task.
    pub(crate) fn for_each_live(&self, mut f: impl FnMut(TaskRef)) {
        for peer in self.populated() {
            peer.scheduler.live().for_each(&mut f);
        }
        self.foreign.scheduler.live().for_each(f);
    }

    /// The task at an address that its header gave, if it is alive.
    pub(crate) fn find_live(&self, address: u64) -> Option<TaskRef> {
        let number = (address >> 32).checked_sub(1)?;
        let scheduler = match Place::from_number(number) {
            Place::Processor(index) => &self.processors.peers.get(usize::from(index))?.scheduler,
            Place::Foreign => &self.foreign.scheduler,
        };
        scheduler.live().get(address as u32)
    }
}

impl Env for Shared {
    type Task = Task;
    type Peer = Peer;

    fn keeps_a_poller(&self) -> bool {
        !self.config.in_order
    }

    fn idle(&self) -> &Idle {
        &self.idle
    }

    fn grq(&self) -> &GlobalRunQueue<Task> {
        &self.queues.grq
    }

    fn ordered(&self) -> &OrderedShared<Task> {
        &self.queues.ordered
    }

    fn phase(&self) -> &Phase {
        &self.end.phase
    }

    fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.processors
            .allp
            .occupied()
            .map(|index| self.visit(index))
    }

    fn awake_peers(&self) -> impl Iterator<Item = &Peer> {
        self.processors
            .allp
            .occupied_without(self.idle.parked())
            .map(|index| self.visit(index))
    }

    fn takes_branches(&self) -> bool {
        self.could_take() > 0
    }

    fn peer(&self, index: usize) -> &Peer {
        self.processors
            .peers
            .get(index)
            .expect("callers have the index from a P that was made")
    }

    fn refusal(&self) -> &AtomicBool {
        &self.threads.refused
    }

    fn netpoll_waiter(&self) -> &AtomicUsize {
        &self.io.waiter
    }

    fn interrupt(&self) {
        self.io.netpoll.interrupt();
    }

    fn awaits(&self) -> bool {
        self.io.netpoll.has_sources() || self.next_deadline().is_some()
    }

    fn start_thread(&self, permit: Permit, spinning: Spinning) {
        event!(self, StartThread, (), 0);
        self.start_worker(permit, spinning);
    }

    /// On its root's parker in `block_on`, else on the P's.
    fn notify_owner(&self, peer: &Peer) {
        let root = peer.thread.root.lock().clone();
        match root {
            Some(root) => root.unpark(),
            None => self.unpark(peer),
        }
    }

    fn unpark(&self, peer: &Peer) {
        event!(self, WakeThread, (), peer.index);
        peer.thread.parker.unpark(|| self.interrupt());
    }

    fn cancel(task: Task) {
        let _ = task.cancel();
    }
}

impl ShutdownEnv for Shared {
    type Strong = Arc<Self>;

    fn strong(&self) -> Arc<Self> {
        self.this
            .upgrade()
            .expect("callers run on a thread of the runtime, or hold a live task")
    }

    fn kept(&self) -> &Mutex<Option<Arc<Self>>> {
        &self.end.kept
    }

    fn threads(&self) -> &Mutex<Threads> {
        &self.threads.counts
    }

    fn changed(&self) -> &Condvar {
        &self.threads.changed
    }

    fn live_tasks(&self) -> usize {
        self.populated()
            .map(|peer| peer.scheduler.live().len())
            .sum::<usize>()
            + self.foreign.scheduler.live().len()
    }

    fn cancel_all(&self, mut dispose: impl FnMut(Task)) {
        let mut cancel = |task: TaskRef| {
            if let Some(task) = task.cancel() {
                dispose(task);
            }
        };
        for peer in self.populated() {
            peer.scheduler.live().sweep(&mut cancel);
        }
        self.foreign.scheduler.live().sweep(cancel);
    }

    fn abort_all(&self) {
        for peer in self.populated() {
            self.abort_of(&peer.scheduler);
        }
        self.abort_of(&self.foreign.scheduler);
    }

    fn ask_to_drain(&self, peer: &Peer) {
        peer.attention.fetch_or(attention::DRAIN, Relaxed);
    }

    fn tell(&self, peer: &Peer) {
        peer.attention.fetch_or(attention::SHUTDOWN, Relaxed);
    }

    fn dismiss_others(&self) {
        self.idle.monitor().unpark(|| ());
        #[cfg(unix)]
        self.ignore_snapshot_signal();
    }

    fn clear_on_a_foreign_thread(&self) {
        self.clear_with_a_worker();
    }

    fn shut_down_resources(&self) {
        quietly("the waker of a socket", || self.io.netpoll.shut_down());
        self.shut_down_timers();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        debug_assert_eq!(self.live_tasks(), 0, "a live task keeps its runtime");
    }
}

#[cfg(test)]
mod tests;
