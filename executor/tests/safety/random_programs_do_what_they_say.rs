//! S1, S2, S6, I1, I2: random programs of spawn, yield, wake, sleep, block, panic, abort and join,
//! on the real runtime with 1, 2 and 8 workers, against a model that knows what each of their tasks
//! must have done.
//!
//! The model is the program itself, read without a scheduler: what each task returns, that it is
//! polled until its end and no more, how often at least and, where nothing but itself decides it,
//! how often exactly; and that its future is dropped once. Of a task that is aborted, and of what
//! it would have spawned, it knows that it ended once if it began.
//!
//! It fails when `settle` in `cell/state.rs` forgets a wake that came during the poll (a hang), and
//! when `yield_now` is pending twice, which stands for any poll too many.

use crate::common;

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use common::{listen_to_panics, runtime};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ws_executor::task::{self, JoinError, JoinHandle};

#[derive(Debug, Clone)]
struct Program {
    /// Its place in the list of records.
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
    Blocking,
    InPlace,
    /// Spawns, and awaits at once.
    Join(Program),
    /// The same for a task that stays on its thread.
    JoinPinned(Program),
    /// Spawns, and leaves the handle to the root.
    Leave(Program),
    /// Spawns, yields if asked for, aborts and awaits.
    Abort(Program, bool),
}

impl Program {
    fn number(&mut self, next: &mut usize) {
        self.id = *next;
        *next += 1;
        for step in &mut self.steps {
            if let Step::Join(child)
            | Step::JoinPinned(child)
            | Step::Leave(child)
            | Step::Abort(child, _) = step
            {
                child.number(next);
            }
        }
    }

    /// What it returns, or None if it panics.
    fn result(&self) -> Option<usize> {
        let joined = self.steps.iter().map(|step| match step {
            Step::Join(child) | Step::JoinPinned(child) => child.result().unwrap_or(1_000),
            _ => 0,
        });
        let sum = self.id + joined.sum::<usize>();
        (!self.panics).then_some(sum)
    }

    /// How often it is polled, if nothing but itself decides that; and at least.
    fn polls(&self) -> (Option<usize>, usize) {
        let (mut exact, mut least) = (true, 1);
        for step in &self.steps {
            match step {
                Step::Yield | Step::Wake(_) | Step::Abort(_, true) => least += 1,
                _ => {}
            }
            exact &= matches!(
                step,
                Step::Yield | Step::Wake(_) | Step::InPlace | Step::Leave(_)
            );
        }
        (exact.then_some(least), least)
    }
}

fn programs() -> impl Strategy<Value = Program> {
    let simple = || {
        prop_oneof![
            4 => Just(Step::Yield),
            3 => (1..4_usize).prop_map(Step::Wake),
            2 => (0..200_u64).prop_map(Step::Sleep),
            1 => Just(Step::Blocking),
            1 => Just(Step::InPlace),
        ]
    };
    let end = || prop::bool::weighted(0.1);
    let program = |(steps, panics)| Program {
        id: 0,
        steps,
        panics,
    };
    let leaf = (prop::collection::vec(simple(), 0..4), end()).prop_map(program);
    leaf.prop_recursive(4, 60, 6, move |child| {
        let step = prop_oneof![
            3 => simple(),
            2 => child.clone().prop_map(Step::Join),
            1 => child.clone().prop_map(Step::JoinPinned),
            3 => child.clone().prop_map(Step::Leave),
            2 => (child, any::<bool>()).prop_map(|(child, yields)| Step::Abort(child, yields)),
        ];
        (prop::collection::vec(step, 0..8), end()).prop_map(program)
    })
    .prop_map(|mut program| {
        program.number(&mut 0);
        program
    })
}

/// What a task did.
#[derive(Debug, Default)]
struct Record {
    begun: AtomicUsize,
    polls: AtomicUsize,
    finished: AtomicUsize,
    dropped: AtomicUsize,
}

#[derive(Default)]
struct Shared {
    records: Vec<Record>,
    left: Mutex<Vec<(Program, JoinHandle<usize>)>>,
}

/// Counts the polls and the drop of a program's future.
struct Counted {
    shared: Arc<Shared>,
    id: usize,
    inner: Pin<Box<dyn Future<Output = usize> + Send>>,
}

impl Counted {
    fn new(program: Program, shared: &Arc<Shared>) -> Self {
        let id = program.id;
        shared.records[id].begun.fetch_add(1, SeqCst);
        Self {
            shared: shared.clone(),
            id,
            inner: Box::pin(run(program, shared.clone())),
        }
    }
}

impl Future for Counted {
    type Output = usize;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
        let record = &self.shared.records[self.id];
        assert_eq!(record.finished.load(SeqCst), 0, "polled after its end");
        record.polls.fetch_add(1, SeqCst);
        self.inner.as_mut().poll(cx)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.records[self.id].dropped.fetch_add(1, SeqCst);
    }
}

async fn run(program: Program, shared: Arc<Shared>) -> usize {
    let mut sum = program.id;
    for step in &program.steps {
        match step {
            Step::Yield => task::yield_now().await,
            Step::Wake(times) => {
                let mut first = true;
                poll_fn(|cx| {
                    if !std::mem::take(&mut first) {
                        return Poll::Ready(());
                    }
                    (0..*times).for_each(|_| cx.waker().wake_by_ref());
                    Poll::Pending
                })
                .await;
            }
            Step::Sleep(us) => ws_executor::time::sleep(Duration::from_micros(*us)).await,
            Step::Blocking => ws_executor::spawn_blocking(|| ()).await.unwrap(),
            Step::InPlace => ws_executor::block_in_place(std::thread::yield_now),
            Step::Join(child) => {
                let handle = ws_executor::spawn(Counted::new(child.clone(), &shared));
                sum += value(child, handle.await);
            }
            Step::JoinPinned(child) => {
                let pinned = Counted::new(child.clone(), &shared);
                sum += value(child, ws_executor::spawn_pinned(|| pinned).await);
            }
            Step::Leave(child) => {
                let handle = ws_executor::spawn(Counted::new(child.clone(), &shared));
                shared.left.lock().unwrap().push((child.clone(), handle));
            }
            Step::Abort(child, yields) => {
                let handle = ws_executor::spawn(Counted::new(child.clone(), &shared));
                if *yields {
                    task::yield_now().await;
                }
                handle.abort();
                match handle.await {
                    Err(error) if error.is_cancelled() => {}
                    result => {
                        value(child, result);
                    }
                }
            }
        }
    }
    shared.records[program.id].finished.fetch_add(1, SeqCst);
    assert!(!program.panics, "expected: {}", program.id);
    sum
}

/// What a child came to, for its parent; it is what the model says.
fn value(child: &Program, result: Result<usize, JoinError>) -> usize {
    match result {
        Ok(value) => {
            assert_eq!(Some(value), child.result(), "task {}", child.id);
            value
        }
        Err(error) => {
            assert!(
                error.is_panic(),
                "task {} was cancelled by nobody",
                child.id
            );
            assert_eq!(child.result(), None);
            let payload = error.into_panic();
            let said = payload.downcast_ref::<String>().map(String::as_str);
            assert_eq!(said, Some(format!("expected: {}", child.id).as_str()));
            1_000
        }
    }
}

/// Compares what the tasks of `program` did with what they should have done. `surely` unless one of
/// those above it was aborted.
fn check(program: &Program, shared: &Shared, surely: bool) {
    let record = &shared.records[program.id];
    let begun = record.begun.load(SeqCst);
    let polls = record.polls.load(SeqCst);
    let finished = record.finished.load(SeqCst);
    assert_eq!(
        record.dropped.load(SeqCst),
        begun,
        "{program:?}: {record:?}"
    );
    assert!(begun <= 1 && finished <= begun, "{program:?}: {record:?}");
    let (exact, least) = program.polls();
    if surely {
        assert_eq!((begun, finished), (1, 1), "{program:?}: {record:?}");
        assert!(polls >= least, "{program:?}: {record:?}");
    }
    if finished == 1
        && let Some(exact) = exact
    {
        assert_eq!(polls, exact, "{program:?}: {record:?}");
    }
    for step in &program.steps {
        match step {
            Step::Join(child) | Step::JoinPinned(child) | Step::Leave(child) => {
                check(child, shared, surely)
            }
            Step::Abort(child, _) => check(child, shared, false),
            _ => {}
        }
    }
}

fn count(program: &Program) -> usize {
    let children = program.steps.iter().map(|step| match step {
        Step::Join(child)
        | Step::JoinPinned(child)
        | Step::Leave(child)
        | Step::Abort(child, _) => count(child),
        _ => 0,
    });
    1 + children.sum::<usize>()
}

common::with_workers! {
    fn whatever_they_do(workers: usize) {
        listen_to_panics();
        let config = Config {
            cases: u32::try_from(common::scaled(128)).unwrap(),
            failure_persistence: None,
            ..Config::default()
        };
        TestRunner::new(config).run(&programs(), |program| {
            let records = (0..count(&program)).map(|_| Record::default()).collect();
            let shared = Arc::new(Shared { records, ..Shared::default() });
            let runtime = runtime(workers);
            let root = runtime.spawn(Counted::new(program.clone(), &shared));
            runtime.block_on(async {
                value(&program, root.await);
                // Each of them may leave some more.
                loop {
                    let next = shared.left.lock().unwrap().pop();
                    let Some((child, handle)) = next else { break };
                    value(&child, handle.await);
                }
            });
            drop(runtime);
            check(&program, &shared, true);
            Ok(())
        }).unwrap();
    }
}
