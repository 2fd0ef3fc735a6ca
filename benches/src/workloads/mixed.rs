//! How long does a message wait while a computation takes all workers?
//!
//! A TCP echo under load (eight connections, a message each millisecond on each of them, from another process)
//! beside a fork-join computation that takes both workers throughout: on `ws`, which has one set of threads for
//! both, and on tokio with a pool of rayon's beside it. `Mjoins_per_s` is what the computation got done meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::channel::oneshot;

use super::fork_join::trees::fib;
use super::{Figure, Row, echo};
use crate::BoxError;
use crate::cli::Params;
use crate::joins::{ForkJoin, Rayon, Ws};
use crate::measure::Outcome;
use crate::rt::{Rt, TokioRt, WsRt};

/// tokio for I/O, rayon for the computation.
pub(crate) const TOKIO_RAYON: &str = "tokio-rayon";

const WORKERS: usize = 2;
const CONNECTIONS: usize = 8;
/// From one message of a connection to the next.
const PACE: Duration = Duration::from_millis(1);
/// The computation is fib of this, over and over: some milliseconds each.
const N: u64 = 31;
/// Joins in one of them: one less than the next of Fibonacci's numbers.
const JOINS: f64 = 2_178_308.0;

/// A runtime for I/O, and a library for the computation.
pub(super) trait Both: 'static {
    type Rt: Rt;
    type Joins: for<'a> ForkJoin<Context<'a> = ()>;

    /// Runs a closure that joins, and waits for it.
    fn compute<F>(f: F) -> impl Future<Output = u64> + Send
    where
        F: FnOnce() -> u64 + Send + 'static;
}

/// Both are `ws`.
#[derive(Debug)]
pub(super) struct OnWs;

impl Both for OnWs {
    type Rt = WsRt;
    type Joins = Ws;

    async fn compute<F>(f: F) -> u64
    where
        F: FnOnce() -> u64 + Send + 'static,
    {
        ws::compute(f).await.expect("no computation here panics")
    }
}

/// A pool for each.
#[derive(Debug)]
pub(super) struct OnTokioAndRayon;

impl Both for OnTokioAndRayon {
    type Rt = TokioRt;
    type Joins = Rayon;

    async fn compute<F>(f: F) -> u64
    where
        F: FnOnce() -> u64 + Send + 'static,
    {
        let pool = Rayon::pool(WORKERS);
        let (done, ended) = oneshot::channel();
        pool.spawn(move || {
            // The root waits for it, and has gone only if the whole process goes.
            let _ = done.send(f());
        });
        ended.await.expect("no computation here panics")
    }
}

pub(super) fn rows<B: Both>() -> [Row; 1] {
    [Row::new(
        "echo_fork_join_2w",
        "a message there and back",
        Figure::Tail,
        mixed::<B>,
    )
    .heavy()
    .only(&["ws", TOKIO_RAYON])]
}

fn mixed<B: Both>(params: Params) -> Result<Outcome, BoxError> {
    let length = params.millis(2_000, 700);
    let root = async move {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let began = Instant::now();
        let computation = B::Rt::spawn(B::compute(move || compute::<B::Joins>(&seen)));
        let served = echo::serve_and_drive::<B::Rt>(CONNECTIONS, length, PACE).await;
        over.store(true, Ordering::Relaxed);
        let rounds = computation.await;
        let seconds = began.elapsed().as_secs_f64();
        let (measure, load) = served?;
        Ok::<_, BoxError>(
            measure
                .tail(load.p50_ns, load.p99_ns, load.max_ns)
                .with(
                    "kmsg_per_s",
                    load.messages as f64 * 1e6 / load.wall_ns as f64,
                )
                .with("Mjoins_per_s", rounds as f64 * JOINS / seconds / 1e6),
        )
    };
    Ok(Outcome::Measured(B::Rt::build(WORKERS).run(root)?))
}

/// Computes until that is over. How many rounds there were.
fn compute<J: for<'a> ForkJoin<Context<'a> = ()>>(over: &AtomicBool) -> u64 {
    let mut rounds = 0;
    while !over.load(Ordering::Relaxed) {
        assert_eq!(fib::<J>(&mut (), N), 1_346_269);
        rounds += 1;
    }
    rounds
}
