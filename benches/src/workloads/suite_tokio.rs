//! How do runtimes do at tokio's own benchmarks of its scheduler?
//!
//! `spawn_many_local`, `spawn_many_remote_idle`, `spawn_many_remote_busy1`,
//! `spawn_many_remote_busy2` and `yield_many` of tokio's `benches/rt_multi_threaded.rs`, with its
//! sizes (but that a task beside busy2 is spawned 1,000 times, not 10,000). (Its `ping_pong` and
//! `chained_spawn` are `ping_pong_oneshot` and `chained_spawn` here.) The roots are tasks, and on
//! `tokio-main` they are in `block_on`, as in the original. *Remote* is from a thread that the
//! runtime does not know; *busy* is beside tasks that work for 10 us at a time: in 1 they yield, in
//! 2 each spawns its successor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures::channel::oneshot;

use super::{Figure, Row, in_task, twice};
use crate::BoxError;
use crate::cli::Params;
use crate::measure::{Meter, Outcome};
use crate::rt::{Handle, Rt};

const SPAWN: usize = 10_000;
/// Fewer where each spawn waits for tasks that hog the workers.
const SPAWN_BUSY: usize = 1_000;
const YIELDERS: usize = 200;
const YIELDS: usize = 1_000;
/// What a busy task works at a time.
const STALL: Duration = Duration::from_micros(10);
/// How often each measured part is done: one of them takes a few milliseconds.
const ROUNDS: usize = 10;

pub(super) fn rows<R: Rt>() -> [Row; 5] {
    let spawned = "a task spawned";
    let rows = [
        Row::new("tokio_spawn_many_local", spawned, Figure::Time, |params| {
            let work = twice(SPAWN * ROUNDS, spawn_many_local::<R>);
            in_task::<R, _>(params, work)
        })
        .also(super::TOKIO_MAIN),
        Row::new("tokio_spawn_remote_idle", spawned, Figure::Time, |params| {
            remote::<R>(params, SPAWN, Busy::No)
        }),
        Row::new(
            "tokio_spawn_remote_busy1",
            spawned,
            Figure::Time,
            |params| remote::<R>(params, SPAWN, Busy::Yielding),
        ),
        Row::new(
            "tokio_spawn_remote_busy2",
            spawned,
            Figure::Time,
            |params| remote::<R>(params, SPAWN_BUSY, Busy::Spawning),
        ),
        Row::new("tokio_yield_many", "a yield", Figure::Time, |params| {
            in_task::<R, _>(params, twice(YIELDERS * YIELDS, yield_many::<R>))
        })
        .also(super::TOKIO_MAIN),
    ];
    rows.map(Row::full_only)
}

async fn spawn_many_local<R: Rt>() {
    for _ in 0..ROUNDS {
        let (done, ended) = oneshot::channel();
        let last = Arc::new(Last::new(SPAWN, done));
        for _ in 0..SPAWN {
            let last = Arc::clone(&last);
            R::detach(async move { last.one() });
        }
        ended.await.expect("the last task says so");
    }
}

/// Says when the last of so many tasks is done.
#[derive(Debug)]
pub(super) struct Last {
    left: AtomicUsize,
    done: std::sync::Mutex<Option<oneshot::Sender<()>>>,
}

impl Last {
    pub(super) fn new(count: usize, done: oneshot::Sender<()>) -> Self {
        Last {
            left: AtomicUsize::new(count),
            done: std::sync::Mutex::new(Some(done)),
        }
    }

    pub(super) fn one(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let done = self.done.lock().expect("nobody panics with it").take();
            done.expect("there is one last task")
                .send(())
                .expect("the root waits for it");
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Busy {
    No,
    Yielding,
    Spawning,
}

fn remote<R: Rt>(params: Params, spawn: usize, busy: Busy) -> Result<Outcome, BoxError> {
    let runtime = R::build(params.workers);
    let handle = runtime.handle();
    let over = Arc::new(AtomicBool::new(false));
    for _ in 0..2 * params.workers {
        let over = Arc::clone(&over);
        match busy {
            Busy::No => {}
            Busy::Yielding => handle.detach(async move {
                while !over.load(Ordering::Relaxed) {
                    R::yield_now().await;
                    stall();
                }
            }),
            Busy::Spawning => handle.detach(async move { next::<R>(over) }),
        }
    }
    let work = || {
        let joins: Vec<_> = (0..spawn).map(|_| handle.spawn(async {})).collect();
        handle.block_on(async {
            for join in joins {
                join.await;
            }
        });
    };
    work();
    let meter = Meter::start();
    for _ in 0..ROUNDS {
        work();
    }
    let measure = meter.stop(spawn * ROUNDS);
    over.store(true, Ordering::Relaxed);
    Ok(Outcome::Measured(measure))
}

/// A task that works a little, spawns its like, and ends.
fn next<R: Rt>(over: Arc<AtomicBool>) {
    R::detach(async move {
        if !over.load(Ordering::Relaxed) {
            stall();
            next::<R>(over);
        }
    });
}

fn stall() {
    let began = Instant::now();
    while began.elapsed() < STALL {
        thread::yield_now();
    }
}

async fn yield_many<R: Rt>() {
    let mut joins = Vec::with_capacity(YIELDERS);
    for _ in 0..YIELDERS {
        joins.push(R::spawn(async {
            for _ in 0..YIELDS {
                R::yield_now().await;
            }
        }));
    }
    for join in joins {
        join.await;
    }
}
