//! What do two tasks that do not come back do to all the others?
//!
//! Beside 100 tasks that tick every 5 ms, or a TCP echo with one connection, two tasks either block
//! their thread for 100 ms at a time (a sleep of std's: any system call or lock would do the same),
//! or compute for 100 or 300 ms at a time. Each yields in between, as no runtime could go on
//! without. On 1, 2 and 8 workers.
//!
//! What counts is the tail: the median hides that a tick in a hundred comes 100 ms late. The echo's
//! client is in another process, for which a message is due every millisecond, whether or not the
//! last one was answered.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Figure, Row, echo, tickers};
use crate::BoxError;
use crate::cli::Params;
use crate::measure::{Measure, Meter, Outcome};
use crate::rt::Rt;

const STALLED: usize = 2;
const BLOCK: Duration = Duration::from_millis(100);
/// From one message to the next.
const PACE: Duration = Duration::from_millis(1);

/// What the two tasks do.
#[derive(Clone, Copy, Debug)]
enum Stall {
    Block,
    Compute100,
    Compute300,
}

pub(super) fn rows<R: Rt>() -> Vec<Row> {
    /// One kind of row, on 1, 2 and 8 workers.
    macro_rules! on_1_2_8 {
        ($rows:ident, $work:ident, $stall:ident, $what:literal, $name:literal, $quick:literal) => {
            $rows.push(row(concat!($name, "_1w"), $what, false, |params| {
                $work::<R>(params.on(1), Stall::$stall)
            }));
            $rows.push(row(concat!($name, "_2w"), $what, $quick, |params| {
                $work::<R>(params.on(2), Stall::$stall)
            }));
            $rows.push(row(concat!($name, "_8w"), $what, false, |params| {
                $work::<R>(params.on(8), Stall::$stall)
            }));
        };
    }
    let mut rows = Vec::with_capacity(18);
    on_1_2_8!(
        rows,
        ticks,
        Block,
        "a tick's lateness",
        "ticks_blocked",
        true
    );
    on_1_2_8!(
        rows,
        ticks,
        Compute100,
        "a tick's lateness",
        "ticks_computing_100",
        false
    );
    on_1_2_8!(
        rows,
        ticks,
        Compute300,
        "a tick's lateness",
        "ticks_computing_300",
        false
    );
    on_1_2_8!(
        rows,
        echoes,
        Block,
        "a message there and back",
        "echo_blocked",
        true
    );
    on_1_2_8!(
        rows,
        echoes,
        Compute100,
        "a message there and back",
        "echo_computing_100",
        true
    );
    on_1_2_8!(
        rows,
        echoes,
        Compute300,
        "a message there and back",
        "echo_computing_300",
        false
    );
    rows
}

fn row(
    name: &'static str,
    operation: &'static str,
    quick: bool,
    run: fn(Params) -> Result<Outcome, BoxError>,
) -> Row {
    let row = Row::new(name, operation, Figure::Tail, run)
        .heavy()
        .also(&["tokio-handoff"]);
    if quick { row } else { row.full_only() }
}

/// How long the ticks or the messages go on.
fn length(params: Params) -> Duration {
    params.millis(1_500, 700)
}

fn ticks<R: Rt>(params: Params, stall: Stall) -> Result<Outcome, BoxError> {
    let ticks = length(params).as_nanos() / tickers::PERIOD.as_nanos();
    let work = async move {
        let meter = Meter::start();
        let late = tickers::ticking::<R>(usize::try_from(ticks)?).await;
        Ok(meter.stop(late.len()).by_tail(late))
    };
    beside::<R, _>(params, stall, work)
}

fn echoes<R: Rt>(params: Params, stall: Stall) -> Result<Outcome, BoxError> {
    let work = async move {
        let (measure, load) = echo::serve_and_drive::<R>(1, length(params), PACE).await?;
        Ok(measure.tail(load.p50_ns, load.p99_ns, load.max_ns))
    };
    beside::<R, _>(params, stall, work)
}

/// Measures `work` beside the two tasks.
fn beside<R, F>(params: Params, stall: Stall, work: F) -> Result<Outcome, BoxError>
where
    R: Rt,
    F: Future<Output = Result<Measure, BoxError>> + Send + 'static,
{
    let over = Arc::new(AtomicBool::new(false));
    let root = async move {
        for _ in 0..STALLED {
            let over = Arc::clone(&over);
            R::detach(async move {
                while !over.load(Ordering::Relaxed) {
                    stall.once();
                    R::yield_now().await;
                }
            });
        }
        let measure = work.await;
        over.store(true, Ordering::Relaxed);
        measure
    };
    Ok(Outcome::Measured(R::build(params.workers).run(root)?))
}

impl Stall {
    fn once(self) {
        match self {
            Stall::Block => thread::sleep(BLOCK),
            Stall::Compute100 => compute(Duration::from_millis(100)),
            Stall::Compute300 => compute(Duration::from_millis(300)),
        }
    }
}

/// Computes. On a busy machine that is less than so much CPU time, but it does not take longer.
fn compute(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        hint::spin_loop();
    }
}
