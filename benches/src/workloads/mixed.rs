//! How long does a message or a tick wait while a computation takes all workers?
//!
//! A TCP echo under load (eight connections, a message each millisecond on each of them, from
//! another process), or 100 tasks that tick every 5 ms, beside a fork-join computation that takes
//! both workers throughout: on `ws`, which has one set of threads for both, and on tokio with a
//! pool of rayon's beside it. Beside the echo it forks all the time, and `Mjoins_per_s` is what it
//! got done meanwhile. Beside the ticks it forks between leaves of some milliseconds, and
//! `leaves_per_s` is how many leaves there were.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::channel::oneshot;

use super::fork_join::trees::fib;
use super::{Figure, Row, echo, tickers};
use crate::BoxError;
use crate::cli::Params;
use crate::joins::{ForkJoin, Plain, Rayon, Ws};
use crate::measure::{Measure, Meter, Outcome};
use crate::rt::{Rt, TokioRt, WsRt};

/// tokio for I/O, rayon for the computation.
pub(crate) const TOKIO_RAYON: &str = "tokio-rayon";

const WORKERS: usize = 2;
const CONNECTIONS: usize = 8;
/// From one message of a connection to the next.
const PACE: Duration = Duration::from_millis(1);
/// The computation is fib of this, over and over: some milliseconds each.
const N: u64 = 31;
/// Leaves of a round beside the ticks. Each leaf is that computation with plain calls.
const LEAVES: usize = 16;
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

pub(super) fn rows<B: Both>() -> [Row; 2] {
    let both = &["ws", TOKIO_RAYON];
    [
        Row::new(
            "echo_fork_join_2w",
            "a message there and back",
            Figure::Tail,
            echoes::<B>,
        )
        .heavy()
        .only(both),
        Row::new(
            "ticks_fork_join_2w",
            "a tick's lateness",
            Figure::Tail,
            ticks::<B>,
        )
        .heavy()
        .only(both),
    ]
}

fn echoes<B: Both>(params: Params) -> Result<Outcome, BoxError> {
    let length = params.millis(2_000, 700);
    let work = async move {
        let (measure, load) = echo::serve_and_drive::<B::Rt>(CONNECTIONS, length, PACE).await?;
        Ok(measure.tail(load.p50_ns, load.p99_ns, load.max_ns).with(
            "kmsg_per_s",
            load.messages as f64 * 1e6 / load.wall_ns as f64,
        ))
    };
    beside::<B, _>(work, fib::<B::Joins>, ("Mjoins_per_s", JOINS / 1e6))
}

fn ticks<B: Both>(params: Params) -> Result<Outcome, BoxError> {
    let length = params.millis(1_500, 700);
    let ticks = length.as_nanos() / tickers::PERIOD.as_nanos();
    let work = async move {
        let meter = Meter::start();
        let late = tickers::ticking::<B::Rt>(usize::try_from(ticks)?).await;
        Ok(meter.stop(late.len()).by_tail(late))
    };
    let round = |context: &mut (), n| leaves::<B::Joins>(context, LEAVES, n);
    beside::<B, _>(work, round, ("leaves_per_s", LEAVES as f64))
}

/// The results of so many leaves are the same.
fn leaves<J: for<'a> ForkJoin<Context<'a> = ()>>(context: &mut (), count: usize, n: u64) -> u64 {
    if count == 1 {
        return fib::<Plain>(context, n);
    }
    let half = |context: &mut ()| leaves::<J>(context, count / 2, n);
    let (a, b) = J::join(context, half, half);
    assert_eq!(a, b);
    a
}

/// Measures `work` beside rounds of a computation. Each round adds so much to the column of that
/// name.
fn beside<B, F>(
    work: F,
    round: impl Fn(&mut (), u64) -> u64 + Send + 'static,
    (column, each): (&'static str, f64),
) -> Result<Outcome, BoxError>
where
    B: Both,
    F: Future<Output = Result<Measure, BoxError>> + Send + 'static,
{
    let root = async move {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let began = Instant::now();
        let computation = B::Rt::spawn(B::compute(move || {
            let mut rounds = 0;
            while !seen.load(Ordering::Relaxed) {
                assert_eq!(round(&mut (), N), 1_346_269);
                rounds += 1;
            }
            rounds
        }));
        let measure = work.await;
        over.store(true, Ordering::Relaxed);
        let rounds = computation.await;
        let seconds = began.elapsed().as_secs_f64();
        Ok::<_, BoxError>(measure?.with(column, rounds as f64 * each / seconds))
    };
    Ok(Outcome::Measured(B::Rt::build(WORKERS).run(root)?))
}
