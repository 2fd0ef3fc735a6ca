//! The environment of the models: as many Ps and permits as one asks for, with queues of jobs.
//!
//! What a `MockEnv` and its `Worker`s bring is what `permit/env.rs` and `permit/sleep.rs` ask for;
//! the steps of sleep and wake are theirs. Nothing here is a step of a protocol, except the order
//! in which a worker looks for work. A thread that cannot be started is one that the runtime's cap
//! does not allow. Nobody waits in a netpoll, though one may count as doing so; but where there is
//! a [`Net`], threads wait there.
#![expect(unsafe_code, reason = "a job is one word, as a task is")]

mod worker;

use std::{
    array,
    cell::{Cell, RefCell},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize as Counter, Ordering::SeqCst as Observer},
    },
};

use crate::{
    park::Parker,
    permit::{
        env::{Env, PeerEnv},
        idle::{Idle, Permit, Spinning, WorkerState, WorkerStateCell},
        phase::Phase,
        sleep::{Sleeper, Slept},
    },
    queue::{
        Batch, GlobalQueue, GlobalRunQueue, Item, Link, Linked, LocalQueue, Ordered, OrderedLocal,
        OrderedShared, OrderedStealer, RunNext, RunNextStealer, Steal, Stealer, local_queue,
        ordered_local, run_next,
    },
    sync::{
        Mutex,
        atomic::{
            self, AtomicUsize,
            Ordering::{Relaxed, Release, SeqCst},
            fence,
        },
    },
};

/// Something to do; which is its number.
#[derive(Debug)]
pub(super) struct Job(NonNull<JobCell>);

struct JobCell {
    next: Link,
    number: usize,
    priority: i64,
}

impl Job {
    pub(super) fn new(number: usize) -> Self {
        Self::with_priority(number, 0)
    }

    /// One for the ordered queues.
    pub(super) fn urgent(number: usize) -> Self {
        Self::with_priority(number, 1)
    }

    fn with_priority(number: usize, priority: i64) -> Self {
        let cell = Box::new(JobCell {
            next: Link::new(),
            number,
            priority,
        });
        Self(NonNull::from(Box::leak(cell)))
    }

    pub(super) fn done(self) -> usize {
        // SAFETY: the job owns its cell, which came from a box.
        unsafe { Box::from_raw(self.0.as_ptr()) }.number
    }
}

// SAFETY: the cell is owned by the job alone.
unsafe impl Send for Job {}

// SAFETY: the pointer is that of a box, and comes back as it went.
unsafe impl Item for Job {
    fn into_raw(self) -> NonNull<()> {
        self.0.cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Self(raw.cast())
    }
}

// SAFETY: `next` is a field of the cell, for the queue alone.
unsafe impl Linked for Job {
    unsafe fn next(raw: NonNull<()>) -> Option<NonNull<()>> {
        // SAFETY: by contract `raw` is a job in a queue, and the caller owns it.
        unsafe { raw.cast::<JobCell>().as_ref().next.get() }
    }

    unsafe fn set_next(raw: NonNull<()>, next: Option<NonNull<()>>) {
        // SAFETY: as in `next`.
        unsafe { raw.cast::<JobCell>().as_ref().next.set(next) }
    }
}

impl Ordered for Job {
    fn priority(&self) -> i64 {
        // SAFETY: the job owns its cell.
        unsafe { self.0.as_ref() }.priority
    }

    fn is_ordered(&self) -> bool {
        self.priority() != 0
    }
}

/// What all threads share.
pub(super) struct MockEnv {
    idle: Idle,
    grq: GlobalRunQueue<Job>,
    ordered: OrderedShared<Job>,
    peers: Vec<Peer>,
    /// It stays open. A sleeper ends by `closed`.
    phase: Phase,
    netpoll_waiter: AtomicUsize,
    refusal: atomic::AtomicBool,
    /// No more work comes: sleepers wake up and go. Seen by a sleeper because an unpark follows.
    closed: AtomicBool,
    /// Only in models of it.
    net: Option<Net>,
}

/// The netpoll, with one timer: what a thread in it and a thread that arms owe each other (`Alarm`
/// in `ws_reactor`), and no time.
pub(super) struct Net {
    /// Whoever has it may poll.
    poller: Mutex<()>,
    /// Somebody waits, or is about to.
    awaited: atomic::AtomicBool,
    armed: atomic::AtomicBool,
    /// Where that thread sleeps.
    parker: Parker,
    /// Where a thread waits for the timer that is none of the mock's, or is in a block.
    fired: Parker,
}

impl Net {
    /// Says that this thread waits; whether there is a timer.
    fn prepare(&self) -> bool {
        self.awaited.store(true, Relaxed);
        // Ordering: SeqCst: as in `Alarm::prepare`.
        fence(SeqCst);
        self.armed.load(Relaxed)
    }

    fn finish(&self) {
        self.awaited.store(false, Relaxed);
    }
}

/// What others see of a P.
pub(super) struct Peer {
    index: usize,
    state: WorkerStateCell,
    parker: Parker,
    stealer: Stealer<Job>,
    /// Only in models of it: all others would look at it as well.
    ordered: Option<OrderedStealer<Job>>,
    /// What its poll has forked.
    direct: RunNextStealer<Job>,
    /// Work for its thread alone.
    inbox: GlobalQueue<Job>,
}

/// A thread with its P.
pub(super) struct Worker {
    pub(super) mock: Arc<MockEnv>,
    index: usize,
    lrq: LocalQueue<Job>,
    priority_queues: Option<OrderedLocal<Job>>,
    direct: RunNext<Job>,
    spinning: Cell<Option<Spinning>>,
    /// As in the runtime. A thread that is parked already begins with its sleep.
    parking: Cell<bool>,
    /// What its next sleep brings, which is over at once then.
    brings: RefCell<Option<Job>>,
}

/// What a worker found.
pub(super) enum Found {
    Job(usize),
    /// The mock was closed.
    Closed,
}

/// A mock with `permits` of them, all free, and `N` vacant Ps.
pub(super) fn mock<const N: usize>(permits: usize) -> (Arc<MockEnv>, [Worker; N]) {
    mock_with(permits, || None, None)
}

/// The same, with a netpoll.
pub(super) fn mock_with_net<const N: usize>(permits: usize) -> (Arc<MockEnv>, [Worker; N]) {
    let net = Net {
        poller: Mutex::new(()),
        awaited: atomic::AtomicBool::new(false),
        armed: atomic::AtomicBool::new(false),
        parker: Parker::new(),
        fired: Parker::new(),
    };
    mock_with(permits, || None, Some(net))
}

/// The same, and each P has an ordered queue.
pub(super) fn mock_with_order<const N: usize>(permits: usize) -> (Arc<MockEnv>, [Worker; N]) {
    mock_with(permits, || Some(ordered_local()), None)
}

fn mock_with<const N: usize>(
    permits: usize,
    order: impl Fn() -> Option<(OrderedLocal<Job>, OrderedStealer<Job>)>,
    net: Option<Net>,
) -> (Arc<MockEnv>, [Worker; N]) {
    let mut index = 0;
    let queues: [_; N] = array::from_fn(|_| (local_queue(), run_next()));
    let mut peers = Vec::new();
    let queues = queues.map(|((lrq, stealer), (direct, direct_stealer))| {
        let (priority_queues, ordered) = order().unzip();
        peers.push(Peer {
            index: peers.len(),
            state: WorkerStateCell::new(),
            parker: Parker::new(),
            stealer,
            ordered,
            direct: direct_stealer,
            inbox: GlobalQueue::new(),
        });
        (lrq, priority_queues, direct)
    });
    let mock = Arc::new(MockEnv {
        idle: Idle::new(permits, N),
        grq: GlobalRunQueue::new(),
        ordered: OrderedShared::new(),
        peers,
        phase: Phase::new(),
        netpoll_waiter: AtomicUsize::new(0),
        refusal: atomic::AtomicBool::new(false),
        closed: AtomicBool::new(false),
        net,
    });
    let workers = queues.map(|(lrq, priority_queues, direct)| {
        index += 1;
        Worker {
            mock: mock.clone(),
            index: index - 1,
            lrq,
            priority_queues,
            direct,
            spinning: Cell::new(None),
            parking: Cell::new(false),
            brings: RefCell::new(None),
        }
    });
    (mock, workers)
}

impl PeerEnv for Peer {
    type Task = Job;

    fn index(&self) -> usize {
        self.index
    }

    fn state(&self) -> &WorkerStateCell {
        &self.state
    }

    fn parker(&self) -> &Parker {
        &self.parker
    }

    fn stealer(&self) -> &Stealer<Job> {
        &self.stealer
    }

    fn ordered(&self) -> Option<&OrderedStealer<Job>> {
        self.ordered.as_ref()
    }

    fn steal_next(&self) -> Option<Job> {
        self.direct.steal(self.direct.peek()?)
    }

    fn has_alone(&self) -> bool {
        false
    }
}

impl Env for MockEnv {
    type Task = Job;
    type Peer = Peer;

    fn idle(&self) -> &Idle {
        &self.idle
    }

    fn grq(&self) -> &GlobalRunQueue<Job> {
        &self.grq
    }

    fn ordered(&self) -> &OrderedShared<Job> {
        &self.ordered
    }

    fn phase(&self) -> &Phase {
        &self.phase
    }

    fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter()
    }

    fn peer(&self, index: usize) -> &Peer {
        &self.peers[index]
    }

    fn refusal(&self) -> &atomic::AtomicBool {
        &self.refusal
    }

    fn netpoll_waiter(&self) -> &AtomicUsize {
        &self.netpoll_waiter
    }

    fn interrupt(&self) {
        let net = self.net.as_ref().expect("nobody waits in a netpoll here");
        net.parker.unpark(|| ());
    }

    fn awaits(&self) -> bool {
        self.net.as_ref().is_some_and(|net| net.armed.load(Relaxed))
    }

    fn start_thread(&self, permit: Permit, spinning: Spinning) {
        self.refused(permit, spinning);
    }

    fn notify_owner(&self, peer: &Peer) {
        self.unpark(peer);
    }

    fn cancel(_: Job) {
        unreachable!("the mock stays open");
    }
}

impl MockEnv {
    /// Work from a thread that has no P.
    pub(super) fn push_foreign(&self, job: Job) {
        self.push(job);
    }

    /// Several at once.
    pub(super) fn push_all(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut batch = Batch::new();
        batch.extend(jobs);
        self.push_batch(batch);
    }

    /// Work for one thread alone.
    pub(super) fn push_pinned(&self, index: usize, job: Job) {
        let peer = self.peer(index);
        peer.inbox.push(job);
        self.notify_owner(peer);
    }

    /// One of the Ps counts as the one that waits in the netpoll, though its thread sleeps as
    /// others do.
    pub(super) fn polled_by(&self, index: usize) {
        self.netpoll_waiter.store(index + 1, Release);
    }

    fn net(&self) -> &Net {
        self.net.as_ref().expect("the model has a netpoll")
    }

    /// Arms the timer, as a shard of timers and the netpoll do.
    pub(super) fn arm(&self) {
        let net = self.net();
        net.armed.store(true, Relaxed);
        // Ordering: SeqCst: as in `Alarm::arm`.
        fence(SeqCst);
        if net.awaited.load(Relaxed) {
            net.parker.unpark(|| ());
        } else {
            self.heard();
        }
    }

    /// Waits until somebody has seen the timer in the netpoll.
    pub(super) fn wait_for_the_timer(&self) {
        self.net().fired.park();
    }

    /// Tells the sleepers to end.
    pub(super) fn close(&self) {
        self.closed.store(true, Observer);
        self.peers.iter().for_each(|peer| self.unpark(peer));
    }

    /// No permit was lost or doubled, and no thread is counted that does not spin. For when all
    /// threads are done.
    pub(super) fn assert_settled(&self) {
        let running = self
            .peers
            .iter()
            .filter(|peer| peer.state.load() == WorkerState::Running);
        assert_eq!(
            self.idle.free() + running.count(),
            self.idle.workers(),
            "a permit was lost or doubled"
        );
        assert_eq!(self.idle.spinning(), 0, "a spinner was not counted down");
    }
}

/// Two jobs. Neither ends before the other has begun: so two threads are needed.
pub(super) struct Pair {
    begun: Counter,
    both: Parker,
}

impl Pair {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            begun: Counter::new(0),
            both: Parker::new(),
        })
    }

    /// A worker that takes one job of the pair.
    pub(super) fn taken_by(self: &Arc<Self>, worker: Worker) -> impl FnOnce() + 'static {
        let pair = self.clone();
        move || {
            number(worker.next());
            pair.do_one();
        }
    }

    pub(super) fn do_one(&self) {
        if self.begun.fetch_add(1, Observer) == 0 {
            self.both.park();
        } else {
            self.both
                .unpark(|| unreachable!("nobody waits in a netpoll here"));
        }
    }
}

/// The number of the job that was found.
pub(super) fn number(found: Found) -> usize {
    match found {
        Found::Job(number) => number,
        Found::Closed => unreachable!("the mock stays open"),
    }
}
