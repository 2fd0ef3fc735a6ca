//! Random programs of tasks, and what must have happened when they are over.
//!
//! A program is a tree of scripts. A script is a list of things that a task does one after the
//! other; it spawns scripts further down, and joins or aborts what it spawned. What it waits for
//! always comes: a gate is opened by another task or, in the end, from outside. So every task ends,
//! and how it may end follows from its script: well, if nobody aborts it; with a panic, if it says
//! so; cancelled, if somebody aborts it or its parent's `JoinSet`-less end drops nothing (a handle
//! that is dropped detaches).

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    panic::resume_unwind,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use super::{Outside, block, branches::Tree, compute, driver};
use crate::{
    block_in_place, compute as computation, context, fork,
    permit::{env::PeerEnv, sleep::Sleeper},
    rng::Rng,
    runtime::Handle,
    spawn_local,
    task::{self, JoinHandle},
    time::sleep,
};

/// One thing that a task does.
#[derive(Debug)]
enum Act {
    Yield,
    /// Starts a child, at a place in its list of handles.
    Spawn(Script),
    /// As [`Spawn`](Self::Spawn), on this thread for good.
    SpawnLocal(Script),
    /// As [`Spawn`](Self::Spawn), by a fork, whose poll goes on for a while and blocks, or ends at
    /// once.
    Fork(Script, Option<Duration>),
    /// Waits for the child that was spawned last, and looks how it ended.
    Join,
    Abort,
    Detach,
    /// Gives the child that was spawned last another priority.
    Rank(i64),
    /// Waits until a gate is open.
    Wait(usize),
    Open(usize),
    Sleep(Duration),
    /// As [`Sleep`](Self::Sleep), with a waker that blocks for a while before it wakes the task.
    Alarm(Duration, Duration),
    Compute(Duration),
    Block(Duration),
    BlockInPlace(Duration),
    Panic,
    /// Forks and joins, here and now.
    Branches(Tree),
    /// The same as a computation, which is awaited, or dropped after a turn of others.
    Computation(Tree, bool),
}

/// What a task does.
#[derive(Debug, Default)]
pub(super) struct Script {
    acts: Vec<Act>,
    priority: i64,
}

/// How a task says that it panicked on purpose.
pub(super) struct OnPurpose;

/// How likely each act is. A seed has a taste of its own, for programs in which everything is
/// equally likely are all alike ("swarm testing", Groce and others, 2012).
pub(super) struct Taste {
    weights: [usize; KINDS],
    gates: usize,
    /// So many acts in a script at most.
    acts: usize,
    /// So many of eight tasks have a priority.
    ranked: usize,
}

const KINDS: usize = 18;
/// Closures of a tree at most.
const CLOSURES: usize = 24;
/// More levels than a P has buckets.
const RANKS: usize = 11;

impl Taste {
    pub(super) fn random(rng: &Rng, gates: usize) -> Self {
        let mut weights = [0; KINDS];
        for weight in &mut weights {
            *weight = [0, 0, 1, 2, 4, 8][rng.below(6)];
        }
        weights[1] += 2;
        Self {
            weights,
            gates,
            acts: 2 + rng.below(10),
            ranked: [0, 0, 2, 8][rng.below(4)],
        }
    }

    /// Many short tasks.
    pub(super) fn busy(gates: usize) -> Self {
        Self {
            weights: [12, 12, 0, 2, 0, 0, 1, 2, 0, 2, 0, 0, 0, 0, 2, 0, 1, 0],
            gates,
            acts: 10,
            ranked: 1,
        }
    }

    fn kind(&self, rng: &Rng) -> usize {
        let mut at = rng.below(self.weights.iter().sum());
        let mut kind = 0;
        while at >= self.weights[kind] {
            at -= self.weights[kind];
            kind += 1;
        }
        kind
    }
}

impl Script {
    /// A script of some acts, with `tasks` children in all at most.
    pub(super) fn random(rng: &Rng, taste: &Taste, tasks: &mut usize, depth: usize) -> Self {
        let mut acts = Vec::new();
        for _ in 0..1 + rng.below(taste.acts) {
            let act = match taste.kind(rng) {
                kind @ (1 | 2 | 14) if *tasks > 0 && depth > 0 => {
                    *tasks -= 1;
                    let script = Self::random(rng, taste, tasks, depth - 1);
                    match kind {
                        1 => Act::Spawn(script),
                        2 => Act::SpawnLocal(script),
                        _ => {
                            let time = Duration::from_nanos(1 << rng.below(27));
                            Act::Fork(script, (rng.below(2) == 0).then_some(time))
                        }
                    }
                }
                3 => Act::Join,
                4 => Act::Abort,
                5 => Act::Detach,
                6 => Act::Wait(rng.below(taste.gates)),
                7 => Act::Open(rng.below(taste.gates)),
                8 => Act::Sleep(Duration::from_nanos(1 << rng.below(24))),
                9 => Act::Compute(Duration::from_nanos(1 << rng.below(25))),
                10 => Act::Block(Duration::from_nanos(1 << rng.below(27))),
                11 => Act::BlockInPlace(Duration::from_nanos(1 << rng.below(27))),
                12 => Act::Panic,
                13 => Act::Rank(rank(rng)),
                15 => Act::Alarm(
                    Duration::from_nanos(1 << rng.below(24)),
                    Duration::from_nanos(1 << rng.below(27)),
                ),
                16 => Act::Branches(Tree::random(rng, taste.gates, 1 + rng.below(CLOSURES))),
                17 => {
                    let tree = Tree::random(rng, taste.gates, 1 + rng.below(CLOSURES));
                    Act::Computation(tree, rng.below(2) == 0)
                }
                _ => Act::Yield,
            };
            let ends = matches!(act, Act::Panic);
            acts.push(act);
            if ends {
                break;
            }
        }
        let ranked = rng.below(8) < taste.ranked;
        Self {
            acts,
            priority: if ranked { rank(rng) } else { 0 },
        }
    }

    /// A script of one turn.
    pub(super) fn short() -> Self {
        Self {
            acts: vec![Act::Yield],
            priority: 0,
        }
    }

    /// A script that spawns many at once, for the queue to overflow: of one priority, or of all.
    pub(super) fn burst(children: usize, ranked: bool) -> Self {
        let child = |number| {
            Act::Spawn(Self {
                acts: vec![Act::Yield],
                priority: if ranked { (number % RANKS) as i64 } else { 0 },
            })
        };
        Self {
            acts: (0..children).map(child).collect(),
            priority: 0,
        }
    }

    fn builder(&self) -> task::Builder {
        match self.priority {
            // As most are: there is nothing to remember.
            0 => task::Builder::new(),
            priority => task::Builder::new().priority(priority),
        }
    }

    fn panics(&self) -> bool {
        self.acts.iter().any(|act| matches!(act, Act::Panic))
    }
}

fn rank(rng: &Rng) -> i64 {
    rng.below(RANKS) as i64 - RANKS as i64 / 2
}

/// What all tasks of a program share.
pub(super) struct World {
    gates: Vec<Gate>,
    pub(super) spawned: AtomicUsize,
    pub(super) dropped: AtomicUsize,
    /// Tasks that came to the end of their script, or to its panic.
    pub(super) ended: AtomicUsize,
    pub(super) aborted: AtomicUsize,
}

#[derive(Default)]
struct Gate {
    is_open: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl World {
    pub(super) fn new(gates: usize) -> Arc<Self> {
        Arc::new(Self {
            gates: (0..gates).map(|_| Gate::default()).collect(),
            spawned: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            aborted: AtomicUsize::new(0),
        })
    }

    pub(super) fn open(&self, gate: usize) {
        let gate = &self.gates[gate];
        gate.is_open.store(true, SeqCst);
        let waiting = std::mem::take(&mut *gate.waiting.lock().unwrap());
        waiting.into_iter().for_each(Waker::wake);
    }

    async fn wait(&self, gate: usize) {
        let gate = &self.gates[gate];
        poll_fn(|cx| {
            if gate.is_open.load(SeqCst) {
                return Poll::Ready(());
            }
            gate.waiting.lock().unwrap().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// A future for a script.
    pub(super) fn task(self: &Arc<Self>, script: Script, pinned: bool) -> Watched {
        self.spawned.fetch_add(1, Relaxed);
        Watched {
            world: self.clone(),
            future: Box::pin(play(self.clone(), script)),
            polled: false,
            pinned: pinned.then(here),
        }
    }
}

/// The P of this virtual thread.
fn here() -> Option<usize> {
    context::with_worker(|worker| worker.map(|worker| worker.own_peer().index()))
}

/// A child, with what its end may be.
struct Child {
    handle: JoinHandle<()>,
    panics: bool,
    aborted: bool,
}

impl Child {
    fn new(handle: JoinHandle<()>, panics: bool) -> Self {
        Self {
            handle,
            panics,
            aborted: false,
        }
    }
}

type Playing = Pin<Box<dyn Future<Output = ()> + Send>>;

fn play(world: Arc<World>, script: Script) -> Playing {
    Box::pin(async move {
        let mut children: Vec<Child> = Vec::new();
        for act in script.acts {
            match act {
                Act::Yield => task::yield_now().await,
                Act::Spawn(script) => {
                    let panics = script.panics();
                    let handle = script.builder().spawn(world.task(script, false));
                    children.push(Child::new(handle, panics));
                }
                Act::SpawnLocal(script) => {
                    let panics = script.panics();
                    let handle = spawn_local(world.task(script, true));
                    children.push(Child::new(handle, panics));
                }
                Act::Fork(script, time) => {
                    let panics = script.panics();
                    let mut child = fork(world.task(script, false));
                    let handle = if let Some(time) = time {
                        let begun = poll_fn(|cx| {
                            let begun = Pin::new(&mut child).poll(cx);
                            block(time);
                            Poll::Ready(begun)
                        });
                        match begun.await {
                            Poll::Ready(handle) => handle,
                            Poll::Pending => child.await,
                        }
                    } else {
                        child.await
                    };
                    children.push(Child::new(handle, panics));
                }
                Act::Join => {
                    if let Some(child) = children.pop() {
                        join(child).await;
                    }
                }
                Act::Abort => {
                    if let Some(child) = children.last_mut() {
                        child.aborted = true;
                        world.aborted.fetch_add(1, Relaxed);
                        child.handle.abort();
                    }
                }
                Act::Detach => drop(children.pop()),
                Act::Rank(priority) => {
                    if let Some(child) = children.last() {
                        child.handle.set_priority(priority);
                    }
                }
                Act::Wait(gate) => world.wait(gate).await,
                Act::Open(gate) => world.open(gate),
                Act::Sleep(time) => not_early(time, sleep(time)).await,
                Act::Alarm(time, blocks) => {
                    let mut sleep = std::pin::pin!(sleep(time));
                    let loud = poll_fn(|cx| {
                        let task = cx.waker().clone();
                        let waker = Arc::new(Alarm { task, blocks }).into();
                        sleep.as_mut().poll(&mut Context::from_waker(&waker))
                    });
                    not_early(time, loud).await;
                }
                Act::Compute(time) => compute(time),
                Act::Block(time) => block(time),
                Act::BlockInPlace(time) => block_in_place(|| block(time)),
                Act::Branches(tree) => tree.run(&world),
                Act::Computation(tree, awaited) => compute_tree(&world, tree, awaited).await,
                Act::Panic => {
                    world.ended.fetch_add(1, Relaxed);
                    // Without a message on the standard error.
                    resume_unwind(Box::new(OnPurpose));
                }
            }
        }
        world.ended.fetch_add(1, Relaxed);
    })
}

async fn compute_tree(world: &Arc<World>, tree: Tree, awaited: bool) {
    let tree = Arc::new(tree);
    let (inner, inner_world) = (tree.clone(), world.clone());
    let mut computation = computation(move || inner.run_cancellable(&inner_world));
    if !awaited {
        poll_fn(|cx| Poll::Ready(Pin::new(&mut computation).poll(cx).is_ready())).await;
        task::yield_now().await;
        return;
    }
    match computation.await {
        Ok(panicked) => tree.ended(panicked),
        Err(error) => driver().fail(|| format!("S6: of a computation came: {error}")),
    }
}

async fn not_early(time: Duration, sleep: impl Future<Output = ()>) {
    let began = driver().now();
    sleep.await;
    let slept = driver().now() - began;
    if u128::from(slept) < time.as_nanos() {
        driver().fail(|| format!("F6: a sleep of {time:?} took {slept} ns"));
    }
}

/// A waker that blocks, as code of a user's may; but not the monitor's thread, which would leave
/// everybody to themselves.
struct Alarm {
    task: Waker,
    blocks: Duration,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if here().is_some() {
            block_in_place(|| block(self.blocks));
        }
        self.task.wake_by_ref();
    }
}

/// Looks how a child ended, and whether it may.
async fn join(child: Child) {
    let Child {
        handle,
        panics,
        aborted,
    } = child;
    let wrong = match handle.await {
        Ok(()) => panics.then_some("it ended well"),
        Err(error) if error.is_cancelled() => (!aborted).then_some("it was cancelled"),
        Err(error) => match error.into_panic().downcast::<OnPurpose>() {
            Ok(_) => (!panics).then_some("it panicked"),
            Err(_) => Some("something else panicked"),
        },
    };
    if let Some(wrong) = wrong {
        driver().fail(|| format!("S6: {wrong}, and its script says otherwise"));
    }
}

/// The future of a task, which sees on which P it is polled and dropped.
pub(super) struct Watched {
    world: Arc<World>,
    future: Playing,
    polled: bool,
    /// The P that it stays on.
    pinned: Option<Option<usize>>,
}

impl Watched {
    fn assert_place(&self, what: &str) {
        if self.pinned.is_some_and(|at| at != here()) {
            driver().fail(|| format!("I7: a pinned task is {what} on P {:?}", here()));
        }
    }
}

impl Future for Watched {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.assert_place("polled");
        if std::mem::replace(&mut self.polled, true) {
            driver().fail(|| "S1: a task is polled twice at once".to_owned());
        }
        struct Over<'a>(&'a mut bool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                *self.0 = false;
            }
        }
        let this = &mut *self;
        let _over = Over(&mut this.polled);
        this.future.as_mut().poll(cx)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.assert_place("dropped");
        if self.polled {
            driver().fail(|| "S1: a task is dropped during its poll".to_owned());
        }
        self.world.dropped.fetch_add(1, Relaxed);
    }
}

/// Calls of foreign threads: spawns, and gates that are opened.
pub(super) struct Calls {
    pub(super) world: Arc<World>,
    pub(super) handle: Handle,
    pub(super) spawns: Cell<Vec<Script>>,
    /// Gates that nobody has opened from here yet.
    pub(super) closed: Cell<Vec<usize>>,
}

impl Outside for Calls {
    fn is_over(&self) -> bool {
        let (spawns, closed) = (self.spawns.take(), self.closed.take());
        let is_over = spawns.is_empty() && closed.is_empty();
        self.spawns.set(spawns);
        self.closed.set(closed);
        is_over
    }

    fn call(&self, rng: &Rng) {
        let mut spawns = self.spawns.take();
        let script = spawns.pop();
        self.spawns.set(spawns);
        if let Some(script) = script {
            let builder = script.builder();
            drop(builder.spawn_on(self.world.task(script, false), &self.handle));
            return;
        }
        let mut closed = self.closed.take();
        let gate = (!closed.is_empty()).then(|| closed.swap_remove(rng.below(closed.len())));
        self.closed.set(closed);
        if let Some(gate) = gate {
            self.world.open(gate);
        }
    }
}
