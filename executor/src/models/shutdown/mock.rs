//! The runtime of these models.

use super::*;

pub(super) static FUNCTIONS: Functions = Functions {
    schedule,
    remove,
    report_panic: |_, _| {},
};

/// What all threads share.
pub(super) struct MockRuntime {
    pub(super) idle: Idle,
    /// The only permit: nobody is to be woken.
    pub(super) _permit: Permit,
    pub(super) grq: GlobalRunQueue<Task>,
    pub(super) ordered: OrderedShared<Task>,
    pub(super) phase: Phase,
    pub(super) peers: [Peer; 2],
    /// Those of them that have a thread.
    pub(super) allp: AllPs<Owned>,
    pub(super) netpoll_waiter: AtomicUsize,
    pub(super) refusal: AtomicBool,
    /// With their tables, as each P has one.
    pub(super) schedulers: Vec<(SchedulerHandle, Mutex<LiveOwner<TaskRef>>)>,
    pub(super) kept: Mutex<Option<Strong>>,
    pub(super) threads: Mutex<Threads>,
    pub(super) changed: Condvar,
    pub(super) holds: AtomicUsize,
    /// Read by threads inside, written when the runtime goes.
    pub(super) gone: UnsafeCell<bool>,
    /// Futures that were made, less those that were dropped.
    pub(super) futures: Arc<Counter>,
}

// SAFETY: `gone` is what the protocol has to keep apart, and everything else is `Sync`.
unsafe impl Sync for MockRuntime {}
// SAFETY: as above.
unsafe impl Send for MockRuntime {}

pub(super) struct Peer {
    pub(super) index: usize,
    pub(super) asked: AtomicBool,
    pub(super) told: AtomicBool,
    pub(super) state: WorkerStateCell,
    pub(super) parker: Parker,
    pub(super) stealer: Stealer<Task>,
}

/// The owner's end of a P.
pub(super) struct Owned(pub(super) usize);

impl ListedP for Owned {
    fn index(&self) -> usize {
        self.0
    }

    fn has_live(&self) -> bool {
        false
    }
}

/// A counted reference to the runtime. The memory stays until the model is over.
pub(super) struct Strong(pub(super) Arc<MockRuntime>);

impl Drop for Strong {
    fn drop(&mut self) {
        if self.0.holds.fetch_sub(1, AcqRel) == 1 {
            assert_eq!(self.0.live_tasks(), 0, "a live task keeps its runtime");
            // SAFETY: nobody holds the runtime any more.
            self.0.gone.with_mut(|gone| unsafe { *gone = true });
        }
    }
}

pub(super) fn schedule(scheduler: &SchedulerHandle, task: Task) {
    // SAFETY: `MockRuntime::new` put its address there, and its memory stays until the model is
    // over.
    let runtime = unsafe { &*scheduler.runtime().cast::<MockRuntime>() };
    runtime.come_in();
    let _strong = runtime.strong();
    runtime.push(task);
}

pub(super) fn remove(scheduler: &SchedulerHandle, index: u32) -> Removed<TaskRef> {
    // SAFETY: as above.
    let runtime = unsafe { &*scheduler.runtime().cast::<MockRuntime>() };
    runtime.come_in();
    let removed = scheduler.live().remove(index);
    runtime.task_ended(|| scheduler.live().len() == 0);
    removed
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
        &self.parker
    }

    fn stealer(&self) -> &Stealer<Task> {
        &self.stealer
    }

    fn steal_next(&self) -> Option<Task> {
        None
    }

    fn has_alone(&self) -> bool {
        false
    }
}

impl Env for MockRuntime {
    type Task = Task;
    type Peer = Peer;

    fn idle(&self) -> &Idle {
        &self.idle
    }

    fn grq(&self) -> &GlobalRunQueue<Task> {
        &self.grq
    }

    fn ordered(&self) -> &OrderedShared<Task> {
        &self.ordered
    }

    fn phase(&self) -> &Phase {
        &self.phase
    }

    fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.allp.occupied().map(|index| &self.peers[index])
    }

    fn peer(&self, index: usize) -> &Peer {
        &self.peers[index]
    }

    fn refusal(&self) -> &AtomicBool {
        &self.refusal
    }

    fn netpoll_waiter(&self) -> &AtomicUsize {
        &self.netpoll_waiter
    }

    fn interrupt(&self) {
        unreachable!("nobody waits in a netpoll here");
    }

    fn awaits(&self) -> bool {
        false
    }

    fn start_thread(&self, _: Permit, _: Spinning) {
        unreachable!("no permit is ever free");
    }

    fn notify_owner(&self, peer: &Peer) {
        self.unpark(peer);
    }

    fn cancel(task: Task) {
        let _ = task.cancel();
    }
}

impl ShutdownEnv for MockRuntime {
    type Strong = Strong;

    fn strong(&self) -> Strong {
        let before = self.holds.fetch_add(1, Relaxed);
        assert!(before > 0, "nobody holds the runtime");
        // SAFETY: the address of an `Arc`'s contents, which is there until the model is over.
        Strong(unsafe {
            Arc::increment_strong_count(self);
            Arc::from_raw(self)
        })
    }

    fn kept(&self) -> &Mutex<Option<Strong>> {
        &self.kept
    }

    fn threads(&self) -> &Mutex<Threads> {
        &self.threads
    }

    fn changed(&self) -> &Condvar {
        &self.changed
    }

    fn live_tasks(&self) -> usize {
        self.schedulers
            .iter()
            .map(|(scheduler, _)| scheduler.live().len())
            .sum()
    }

    fn cancel_all(&self, mut dispose: impl FnMut(Task)) {
        for (scheduler, _) in &self.schedulers {
            scheduler.live().sweep(|task| {
                if let Some(task) = task.cancel() {
                    dispose(task);
                }
            });
        }
    }

    fn abort_all(&self) {
        for (scheduler, _) in &self.schedulers {
            scheduler.live().sweep(|task| {
                if let Some(task) = task.cancel() {
                    self.push(task);
                }
            });
        }
    }

    fn ask_to_drain(&self, peer: &Peer) {
        peer.asked.store(true, Relaxed);
    }

    fn tell(&self, peer: &Peer) {
        peer.told.store(true, Relaxed);
    }

    fn dismiss_others(&self) {}

    fn clear_on_a_foreign_thread(&self) {
        self.clear_away();
    }

    fn shut_down_resources(&self) {}
}

impl MockRuntime {
    /// A runtime with `threads` of them, each with a P, and the reference of its builder.
    pub(super) fn new(threads: usize) -> Strong {
        Self::with_tables(1, threads)
    }

    /// The same with so many tables.
    pub(super) fn with_tables(tables: usize, threads: usize) -> Strong {
        let idle = Idle::new(1, 2);
        let permit = idle.acquire().expect("it is free");
        let runtime = Arc::new_cyclic(|this: &std::sync::Weak<Self>| Self {
            idle,
            _permit: permit,
            grq: GlobalRunQueue::new(),
            ordered: OrderedShared::new(),
            phase: Phase::new(),
            peers: [0, 1].map(|index| Peer {
                index,
                asked: AtomicBool::new(false),
                told: AtomicBool::new(false),
                state: WorkerStateCell::new(),
                parker: Parker::new(),
                stealer: local_queue().1,
            }),
            allp: AllPs::new(2),
            netpoll_waiter: AtomicUsize::new(0),
            refusal: AtomicBool::new(false),
            schedulers: (0..tables)
                .map(|_| {
                    let (table, owner) = live_table();
                    let scheduler = SchedulerHandle::new(
                        Place::Foreign,
                        this.as_ptr().cast(),
                        table,
                        &FUNCTIONS,
                    );
                    (scheduler, Mutex::new(owner))
                })
                .collect(),
            kept: Mutex::new(None),
            threads: Mutex::new(Threads {
                count: threads,
                ..Threads::default()
            }),
            changed: Condvar::new(),
            holds: AtomicUsize::new(1),
            gone: UnsafeCell::new(false),
            futures: Arc::new(Counter::new(0)),
        });
        (0..threads).for_each(|_| _ = runtime.take());
        Strong(runtime)
    }

    /// A P for one more thread.
    pub(super) fn take(&self) -> Owned {
        let owned = self.allp.take(Owned);
        owned.expect("two threads at most")
    }

    /// Whoever is inside finds the runtime standing.
    pub(super) fn come_in(&self) {
        // SAFETY: a thread that comes in knows that the runtime is there.
        self.gone
            .with(|gone| assert!(!unsafe { *gone }, "the runtime is gone"));
    }

    /// A live task that is queued, on the way to its queue. It leaves its waker `outside` and
    /// waits, or is ready at once.
    pub(super) fn spawn(&self, outside: Option<Outside>) -> Task {
        self.spawn_in(0, outside)
    }

    /// The same in the table of that number.
    pub(super) fn spawn_in(&self, table: usize, outside: Option<Outside>) -> Task {
        self.futures.fetch_add(1, Observer);
        let (scheduler, owner) = &self.schedulers[table];
        let parts = Parts {
            birth: Birth {
                scheduler: NonNull::from(scheduler),
                id: Id::new(1),
                born_ms: 0,
                lane: Lane::NONE,
                parent: None,
            },
            location: Location::caller(),
            extra: None,
        };
        let alive = self.futures.clone();
        let (task, handle) = Task::new(Waits { outside, alive }, parts);
        drop(handle);
        task.enter(|reference| owner.lock().insert(reference));
        task
    }

    /// A task that waits, and its waker.
    pub(super) fn waiting(&self) -> Waker {
        let outside = Outside::default();
        let task = self.spawn(Some(outside.clone()));
        assert!(matches!(task.run_apart(), Outcome::Idle));
        let waker = outside.lock().unwrap().take();
        waker.expect("it was polled")
    }

    /// What `Worker::clear_away` does, without pinned tasks and other Ps.
    pub(super) fn clear_away(&self) {
        self.sweep(Self::cancel);
        self.drain_global();
    }

    /// The life of a thread with the P `index`: it runs nothing, and waits for the end.
    pub(super) fn live_in(&self, index: usize) {
        let peer = self.peer(index);
        while !peer.told.load(Relaxed) {
            peer.parker.park();
        }
        self.was_called();
        self.clear_away();
        self.thread_ended();
    }

    /// What a model's end has to show.
    pub(super) fn assert_gone(&self) {
        assert_eq!(self.holds.load(Acquire), 0, "the runtime keeps itself");
        assert_eq!(self.futures.load(Observer), 0, "a future was leaked");
        assert!(self.grq.is_empty(), "a task is queued still");
    }
}

/// Where a future leaves its waker.
pub(super) type Outside = Arc<std::sync::Mutex<Option<Waker>>>;

/// Waits for ever, or is ready at once.
pub(super) struct Waits {
    pub(super) outside: Option<Outside>,
    pub(super) alive: Arc<Counter>,
}

impl Future for Waits {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &self.outside {
            Some(outside) => {
                *outside.lock().unwrap() = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Observer);
    }
}
