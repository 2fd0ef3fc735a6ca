//! J2, J5, J6, S2, S6: random programs whose tasks join, open scopes, compute and fork, beside
//! others that yield, wait for one another and for a thread that is none of ours, panic and are
//! aborted; on the real runtime with 1, 2 and 8 workers.
//!
//! A model knows what each task and each closure must have done: it is the program itself, read
//! without a scheduler. Each closure was called once, or never if it is the second of a join whose
//! first has panicked; a computation whose future was dropped has called each of its own at most
//! once. Each was dropped once, each task has ended once, and all sums are right. What a closure
//! lends to its branches is there until all of them have ended, also where a panic goes by; and of
//! the panics that there are one reaches the caller that may. What begins on a stack is a
//! descendant of what is below it there.
//!
//! It fails when a join that unwinds does not wait for a branch that is out, or forgets one that
//! nobody has begun (`Abandon` in `fork_join/steps.rs`); when the panic of a stolen branch, or of a
//! scope's, is lost; when `spawn` in `fork_join/scope.rs` loses what it cannot push; when `is_open`
//! in `branch/count_latch.rs` is true too early; when `help` in `fork_join/owner.rs` takes any
//! branch; when `run_pinned_above` in `block_on/nested.rs` does not look whether it is above a
//! branch; when `within` in `branch/compute.rs` does not put back what it replaced; and when
//! `forked` in `sched/poll.rs` loses a child whose parent does not go on. It hangs when `set` in
//! `branch/latch.rs` wakes nobody, and crashes when a branch is run twice.
//!
//! A program follows from its seed, which is printed; `WS_TEST_SEED=N` runs that one alone, many
//! times, since the threads go another way each time.

use crate::common;
#[path = "random_forks/program.rs"]
mod program;
#[path = "random_forks/tree.rs"]
mod tree;

use std::{
    any::Any,
    collections::BTreeSet,
    mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::Waker,
    thread,
};

use common::{Count, GRACE, Random, scaled};
use program::{Counted, Program, value};
use tree::{Node, Run};
use ws_executor::{
    runtime::{Builder, Handle},
    task::JoinHandle,
};

/// How deep tasks spawn tasks.
const DEPTH: usize = 3;
/// So many begin at the same time.
const ROOTS: usize = 4;

/// The panic of the task or the closure with that id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected(usize);

/// What something comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Value(usize),
    /// It panics with one of these.
    Panics(BTreeSet<usize>),
}

impl Outcome {
    pub(crate) fn panic(id: usize) -> Self {
        Self::Panics(BTreeSet::from([id]))
    }

    /// Both; the first panic is what is seen.
    pub(crate) fn then(self, next: Self) -> Self {
        match (self, next) {
            (Self::Value(one), Self::Value(other)) => Self::Value(one + other),
            (Self::Value(_), panics) | (panics, _) => panics,
        }
    }

    /// All at the same time.
    pub(crate) fn of_all(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::Value(0), |all, one| match (all, one) {
            (Self::Panics(mut all), Self::Panics(mut more)) => {
                all.append(&mut more);
                Self::Panics(all)
            }
            (all, one) => all.then(one),
        })
    }
}

/// Whether something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sure {
    Once,
    AtMostOnce,
    Never,
}

impl Sure {
    pub(crate) fn less(self) -> Self {
        match self {
            Self::Once => Self::AtMostOnce,
            less => less,
        }
    }
}

/// What a task or a closure did.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) made: AtomicUsize,
    pub(crate) begun: AtomicUsize,
    /// A closure, in whatever way. A task, at the end of its steps or by a panic.
    pub(crate) ended: AtomicUsize,
    pub(crate) dropped: AtomicUsize,
}

/// What all tasks and closures of a program share.
pub(crate) struct Shared {
    pub(crate) records: Vec<Record>,
    pub(crate) handle: Handle,
    /// Where one says what is to be woken.
    pub(crate) device: mpsc::Sender<(Arc<AtomicBool>, Waker)>,
    /// The runtime ends in the middle of the program.
    pub(crate) cut: AtomicBool,
    left: Mutex<Vec<(Program, JoinHandle<usize>)>>,
    /// Futures and computations.
    made: Count,
    dropped: Count,
    failures: Mutex<Vec<String>>,
}

impl Shared {
    pub(crate) fn fail(&self, what: impl FnOnce() -> String) {
        self.failures.lock().unwrap().push(what());
    }

    pub(crate) fn leave(&self, program: &Program, handle: JoinHandle<usize>) {
        self.left.lock().unwrap().push((program.clone(), handle));
    }

    /// A panic came out of what comes to `outcome`.
    pub(crate) fn expect_payload(&self, payload: Box<dyn Any + Send>, outcome: &Outcome) {
        let seen = payload.downcast_ref::<Expected>();
        let fits = match outcome {
            Outcome::Panics(ids) => seen.is_some_and(|seen| ids.contains(&seen.0)),
            Outcome::Value(_) => false,
        };
        if !fits {
            self.fail(|| format!("S6: the panic of {seen:?} came, and not {outcome:?}"));
        }
    }

    /// Compares a record with what is to be in it.
    pub(crate) fn check(&self, id: usize, sure: Sure, is_closure: bool) {
        let record = &self.records[id];
        let [made, begun, ended, dropped] =
            [&record.made, &record.begun, &record.ended, &record.dropped].map(|it| it.load(SeqCst));
        let fits = match sure {
            Sure::Once => (made, begun, ended) == (1, 1, 1),
            Sure::AtMostOnce => made <= 1 && begun <= made && ended <= begun,
            Sure::Never => made <= 1 && begun == 0,
        };
        if !(fits && dropped == made && (ended == begun || !is_closure)) {
            self.fail(|| format!("{id}, which was to be {sure:?}: {record:?}"));
        }
    }

    /// Waits until nothing is left of the program.
    fn wait_for_all(&self) {
        loop {
            let made = self.made.get();
            self.dropped.wait_for(made);
            if self.made.get() == made {
                return;
            }
        }
    }
}

/// A task or a computation that is not over.
pub(crate) struct Alive(Arc<Shared>);

impl Alive {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        shared.made.add();
        Self(shared.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.dropped.add();
    }
}

/// Wakes what it is told to.
fn be_a_device(told: mpsc::Receiver<(Arc<AtomicBool>, Waker)>) {
    for (done, waker) in told {
        done.store(true, SeqCst);
        waker.wake();
    }
}

/// Runs the programs of a seed.
fn play(workers: usize, seed: u64) -> Vec<String> {
    let mut random = Random::new(seed);
    let mut programs = [(); ROOTS].map(|()| Program::random(&mut random, DEPTH));
    let mut trees = [(); 2].map(|()| Node::random(&mut random, 40, DEPTH));
    let cut = (random.below(8) == 0).then(|| random.below(60));
    let mut count = 0;
    programs.iter_mut().for_each(|it| it.number(&mut count));
    trees.iter_mut().for_each(|tree| tree.number(&mut count));

    let builder = Builder::new().workers(workers).seed(seed);
    let runtime = builder.shutdown_grace(GRACE).build().unwrap();
    let (device, told) = mpsc::channel();
    let device_thread = thread::spawn(|| be_a_device(told));
    let shared = Arc::new(Shared {
        records: (0..count).map(|_| Record::default()).collect(),
        handle: runtime.handle().clone(),
        device,
        cut: AtomicBool::new(cut.is_some()),
        left: Mutex::default(),
        made: Count::new(),
        dropped: Count::new(),
        failures: Mutex::default(),
    });
    let spawn = |program| runtime.spawn(Counted::new(program, &shared));
    let roots: Vec<_> = programs.iter().map(|it| (it, spawn(it))).collect();
    let (sure_roots, sure_trees) = match cut {
        Some(turns) => {
            (0..turns).for_each(|_| thread::yield_now());
            (Sure::AtMostOnce, Sure::Never)
        }
        None => {
            let run = Run {
                shared: &shared,
                waker: Waker::noop(),
                may_be_cancelled: false,
            };
            let look = |tree: &Node| match run.root(tree) {
                Ok(value) => assert_eq!(Outcome::Value(value), tree.outcome()),
                Err(payload) => shared.expect_payload(payload, &tree.outcome()),
            };
            let [as_a_guest, in_a_call] = &trees;
            let entered = runtime.enter();
            look(as_a_guest);
            drop(entered);
            runtime.block_on(async {
                look(in_a_call);
                for (program, root) in roots {
                    value(program, root.await, &shared).await;
                }
            });
            shared.wait_for_all();
            let left = mem::take(&mut *shared.left.lock().unwrap());
            runtime.block_on(async {
                for (child, handle) in left {
                    value(&child, handle.await, &shared).await;
                }
            });
            (Sure::Once, Sure::Once)
        }
    };
    drop(runtime);
    programs.iter().for_each(|it| it.check(&shared, sure_roots));
    trees
        .iter()
        .for_each(|tree| tree.check(&shared, sure_trees));
    let failures = mem::take(&mut *shared.failures.lock().unwrap());
    drop(shared);
    device_thread.join().unwrap();
    failures
}

/// The usual ones, or one that is to be replayed.
fn seeds() -> Vec<u64> {
    match std::env::var("WS_TEST_SEED") {
        Ok(seed) => vec![seed.parse().expect("WS_TEST_SEED is a number"); scaled(200)],
        Err(_) => (1..=scaled(300) as u64).collect(),
    }
}

common::with_workers! {
    fn whatever_they_fork(workers: usize) {
        for seed in seeds() {
            // Also of one that hangs.
            eprintln!("{workers} workers, WS_TEST_SEED={seed}");
            let failures = play(workers, seed);
            assert!(failures.is_empty(), "seed {seed}: {failures:#?}");
        }
    }
}
