//! Programs of tasks, which fork and join among other things: made up, run, and looked at
//! afterwards.

use std::{
    future::{Future, pending, poll_fn},
    mem,
    panic::resume_unwind,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::{SinkExt, StreamExt, channel::mpsc};
use ws_executor::{
    compute, fork, spawn, spawn_blocking, spawn_pinned,
    task::{self, JoinError},
};

use super::{
    Alive, Outcome, Shared, Sure,
    common::Random,
    tree::{CAUGHT, Node, Run, poll_above, throw},
};

/// A task.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    id: usize,
    steps: Vec<Step>,
    panics: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Yield,
    /// Wakes itself so often during a poll, which is then pending.
    Wake(usize),
    Sleep(u64),
    /// Waits for a thread that is none of the runtime's.
    Device,
    Blocking,
    /// So often to and fro with another task.
    Rally(usize),
    /// Spawns, and awaits at once.
    Join(Program),
    JoinPinned(Program),
    /// Spawns, and leaves the handle to the root.
    Leave(Program),
    /// Spawns, yields if asked for, aborts and awaits.
    Abort(Program, bool),
    Fork(Program, Forked),
    /// Here and now.
    Tree(Node),
    Compute(Node, Until),
}

/// What becomes of a fork, or of its handle.
#[derive(Debug, Clone, Copy)]
enum Forked {
    Joined,
    Left,
    /// The handle is dropped.
    Detached,
    /// The fork is dropped after its first poll, or before.
    Begun,
    Unpolled,
}

/// How long a computation is awaited.
#[derive(Debug, Clone, Copy)]
enum Until {
    Ended,
    /// So many turns of others after its first poll.
    Turns(usize),
    Unpolled,
}

impl Program {
    /// It spawns down to a depth.
    pub(crate) fn random(random: &mut Random, depth: usize) -> Self {
        let steps = (0..random.below(4 + depth)).map(|_| Step::random(random, depth));
        Self {
            id: 0,
            steps: steps.collect(),
            panics: random.below(12) == 0,
        }
    }

    pub(crate) fn number(&mut self, next: &mut usize) {
        self.id = *next;
        *next += 1;
        for step in &mut self.steps {
            match step {
                Step::Join(child)
                | Step::JoinPinned(child)
                | Step::Leave(child)
                | Step::Abort(child, _)
                | Step::Fork(child, _) => child.number(next),
                Step::Tree(node) | Step::Compute(node, _) => node.number(next),
                _ => {}
            }
        }
    }

    /// What it comes to, if nobody aborts it.
    pub(crate) fn outcome(&self) -> Outcome {
        let own = if self.panics {
            Outcome::panic(self.id)
        } else {
            Outcome::Value(self.id)
        };
        let caught = |outcome| match outcome {
            Outcome::Panics(_) => Outcome::Value(CAUGHT),
            value => value,
        };
        let steps = self.steps.iter().map(|step| match step {
            Step::Join(child) | Step::JoinPinned(child) | Step::Fork(child, Forked::Joined) => {
                caught(child.outcome())
            }
            Step::Compute(node, Until::Ended) => caught(node.outcome()),
            Step::Tree(node) => node.outcome(),
            _ => Outcome::Value(0),
        });
        let steps = steps.fold(Outcome::Value(0), Outcome::then);
        steps.then(own)
    }

    /// Compares what it did, and all that it has spawned, with what it should have done.
    pub(crate) fn check(&self, shared: &Shared, mut sure: Sure) {
        shared.check(self.id, sure, false);
        for step in &self.steps {
            match step {
                Step::Join(child) | Step::JoinPinned(child) | Step::Leave(child) => {
                    child.check(shared, sure);
                }
                Step::Abort(child, _) => child.check(shared, sure.less()),
                Step::Fork(child, Forked::Unpolled) => child.check(shared, Sure::Never),
                Step::Fork(child, _) => child.check(shared, sure),
                Step::Compute(node, until) => node.check(
                    shared,
                    match until {
                        Until::Ended => sure,
                        Until::Turns(_) => sure.less(),
                        Until::Unpolled => Sure::Never,
                    },
                ),
                Step::Tree(node) => {
                    node.check(shared, sure);
                    if matches!(node.outcome(), Outcome::Panics(_)) {
                        sure = Sure::Never;
                    }
                }
                _ => {}
            }
        }
    }
}

impl Step {
    fn random(random: &mut Random, depth: usize) -> Self {
        let tree = |random: &mut Random| {
            let size = [1, 6, 20, 60][random.below(4)];
            Node::random(random, size, depth)
        };
        let child = |random: &mut Random| Program::random(random, depth - 1);
        match random.below(if depth == 0 { 14 } else { 28 }) {
            0 | 1 => Self::Yield,
            2 => Self::Wake(1 + random.below(3)),
            3 => Self::Sleep(random.below(200) as u64),
            4 | 5 => Self::Device,
            6 => Self::Blocking,
            7 => Self::Rally(random.below(4)),
            8..=10 => Self::Tree(tree(random)),
            11..=13 => {
                let until = match random.below(8) {
                    0 => Until::Unpolled,
                    1..=3 => Until::Turns(random.below(4)),
                    _ => Until::Ended,
                };
                Self::Compute(tree(random), until)
            }
            14..=16 => Self::Join(child(random)),
            17 => Self::JoinPinned(child(random)),
            18..=20 => Self::Leave(child(random)),
            21..=22 => Self::Abort(child(random), random.below(2) == 0),
            _ => {
                let how = match random.below(8) {
                    0 => Forked::Unpolled,
                    1 => Forked::Begun,
                    2 => Forked::Detached,
                    3 => Forked::Left,
                    _ => Forked::Joined,
                };
                Self::Fork(child(random), how)
            }
        }
    }
}

/// The future of a program, whose polls and drop are counted.
pub(crate) struct Counted {
    shared: Arc<Shared>,
    id: usize,
    inner: Pin<Box<dyn Future<Output = usize> + Send>>,
    _alive: Alive,
}

impl Counted {
    pub(crate) fn new(program: &Program, shared: &Arc<Shared>) -> Self {
        shared.records[program.id].made.fetch_add(1, SeqCst);
        Self {
            shared: shared.clone(),
            id: program.id,
            inner: Box::pin(run(program.clone(), shared.clone())),
            _alive: Alive::new(shared),
        }
    }
}

impl Future for Counted {
    type Output = usize;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
        let this = &mut *self;
        let (id, shared, inner) = (this.id, &this.shared, &mut this.inner);
        if shared.records[id].ended.load(SeqCst) > 0 {
            shared.fail(|| format!("task {id} is polled after its end"));
        }
        poll_above(id, shared, || inner.as_mut().poll(cx))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.records[self.id].dropped.fetch_add(1, SeqCst);
    }
}

async fn run(program: Program, shared: Arc<Shared>) -> usize {
    shared.records[program.id].begun.fetch_add(1, SeqCst);
    let mut sum = program.id;
    for step in &program.steps {
        match play(step, &shared).await {
            Ok(more) => sum += more,
            Err(payload) => {
                shared.records[program.id].ended.fetch_add(1, SeqCst);
                resume_unwind(payload);
            }
        }
    }
    shared.records[program.id].ended.fetch_add(1, SeqCst);
    if program.panics {
        throw(program.id);
    }
    sum
}

/// What the step adds to the sum, or the panic that ends the task.
async fn play(step: &Step, shared: &Arc<Shared>) -> std::thread::Result<usize> {
    let counted = |child| Counted::new(child, shared);
    match step {
        Step::Yield => task::yield_now().await,
        Step::Wake(times) => {
            let mut first = true;
            poll_fn(|cx| {
                if !mem::take(&mut first) {
                    return Poll::Ready(());
                }
                (0..*times).for_each(|_| cx.waker().wake_by_ref());
                Poll::Pending
            })
            .await;
        }
        Step::Sleep(us) => ws_executor::time::sleep(Duration::from_micros(*us)).await,
        Step::Device => device(shared).await,
        Step::Blocking => match spawn_blocking(|| ()).await {
            Ok(()) => {}
            Err(_) => cut(shared).await,
        },
        Step::Rally(times) => rally(*times, shared).await,
        Step::Join(child) => return Ok(value(child, spawn(counted(child)).await, shared).await),
        Step::JoinPinned(child) => {
            let pinned = counted(child);
            return Ok(value(child, spawn_pinned(|| pinned).await, shared).await);
        }
        Step::Leave(child) => shared.leave(child, spawn(counted(child))),
        Step::Abort(child, yields) => {
            let handle = spawn(counted(child));
            if *yields {
                task::yield_now().await;
            }
            handle.abort();
            match handle.await {
                Err(error) if error.is_cancelled() => {}
                result => drop(value(child, result, shared).await),
            }
        }
        Step::Fork(child, how) => {
            let mut forked = fork(counted(child));
            match how {
                Forked::Joined => {
                    return Ok(value(child, forked.await.await, shared).await);
                }
                Forked::Left => shared.leave(child, forked.await),
                Forked::Detached => drop(forked.await),
                Forked::Begun => drop(futures::poll!(&mut forked)),
                Forked::Unpolled => drop(forked),
            }
        }
        Step::Tree(node) => {
            let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
            let run = Run {
                shared,
                waker: &waker,
                may_be_cancelled: false,
            };
            return run.root(node);
        }
        Step::Compute(node, until) => return Ok(computed(node, *until, shared).await),
    }
    Ok(0)
}

async fn computed(node: &Node, until: Until, shared: &Arc<Shared>) -> usize {
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let (inner, tree, alive) = (shared.clone(), node.clone(), Alive::new(shared));
    let mut computation = compute(move || {
        let _alive = alive;
        let run = Run {
            shared: &inner,
            waker: &waker,
            may_be_cancelled: true,
        };
        run.root(&tree)
            .unwrap_or_else(|payload| resume_unwind(payload))
    });
    let turns = match until {
        Until::Unpolled => return 0,
        Until::Ended => {
            let outcome = node.outcome();
            return settle(computation.await, &outcome, shared).await;
        }
        Until::Turns(turns) => turns,
    };
    let mut polled = futures::poll!(&mut computation);
    for _ in 0..turns {
        task::yield_now().await;
        if polled.is_pending() {
            polled = futures::poll!(&mut computation);
        }
    }
    drop(computation);
    if let Poll::Ready(result) = polled {
        settle(result, &node.outcome(), shared).await;
    }
    0
}

async fn device(shared: &Shared) {
    let (mut asked, done) = (false, Arc::new(AtomicBool::new(false)));
    poll_fn(|cx| {
        if done.load(SeqCst) {
            return Poll::Ready(());
        }
        if !mem::replace(&mut asked, true) {
            let _ = shared.device.send((done.clone(), cx.waker().clone()));
        }
        Poll::Pending
    })
    .await;
}

async fn rally(times: usize, shared: &Arc<Shared>) {
    let (mut there, mut arrives) = mpsc::channel(1);
    let (mut back, mut returns) = mpsc::channel(1);
    let alive = Alive::new(shared);
    drop(spawn(async move {
        let _alive = alive;
        while let Some(ball) = arrives.next().await {
            if back.send(ball + 1_usize).await.is_err() {
                break;
            }
        }
    }));
    for ball in 0..times {
        if there.send(ball).await.is_err() || returns.next().await != Some(ball + 1) {
            cut(shared).await;
        }
    }
}

/// A task ended otherwise than it should have, which it may only while the runtime ends.
async fn cut(shared: &Shared) {
    if !shared.cut.load(SeqCst) {
        shared.fail(|| "S2: what nobody aborted is cancelled".to_owned());
        return;
    }
    pending().await
}

/// What a child came to, for its parent.
pub(crate) async fn value(
    child: &Program,
    result: Result<usize, JoinError>,
    shared: &Shared,
) -> usize {
    settle(result, &child.outcome(), shared).await
}

/// What is awaited has come to that: is it what the model says?
async fn settle(result: Result<usize, JoinError>, outcome: &Outcome, shared: &Shared) -> usize {
    match result {
        Ok(value) => {
            if *outcome != Outcome::Value(value) {
                shared.fail(|| format!("it came to {value}, and not to {outcome:?}"));
            }
            value
        }
        Err(error) if error.is_cancelled() => {
            cut(shared).await;
            0
        }
        Err(error) => {
            shared.expect_payload(error.into_panic(), outcome);
            CAUGHT
        }
    }
}
