//! How late is a timer?
//!
//! 100 tasks tick every 5 ms on an otherwise idle machine, each through the runtime's own interval.
//! A tick's lateness is the time from when it was due to when the task runs.

use std::time::{Duration, Instant};

use super::{Figure, Row, in_task};
use crate::measure::{Measure, Meter, nanos};
use crate::rt::Rt;

const TASKS: usize = 100;
/// From one tick to the next.
pub(super) const PERIOD: Duration = Duration::from_millis(5);

pub(super) fn rows<R: Rt>() -> [Row; 1] {
    [Row::new(
        "tickers_100x5ms",
        "a tick's lateness",
        Figure::Latency,
        |params| in_task::<R, _>(params, tickers::<R>(params.size(200, 60))),
    )]
}

async fn tickers<R: Rt>(ticks: usize) -> Measure {
    let meter = Meter::start();
    let late = ticking::<R>(ticks).await;
    meter.stop(late.len()).by_latencies(late)
}

/// How late each of so many ticks of 100 tasks is.
pub(super) async fn ticking<R: Rt>(ticks: usize) -> Vec<u64> {
    let mut joins = Vec::with_capacity(TASKS);
    for _ in 0..TASKS {
        joins.push(R::spawn(lateness::<R>(ticks)));
    }
    let mut late = Vec::with_capacity(TASKS * ticks);
    for join in joins {
        late.append(&mut join.await);
    }
    late
}

async fn lateness<R: Rt>(ticks: usize) -> Vec<u64> {
    let mut late = Vec::with_capacity(ticks);
    let mut due = Instant::now();
    let mut ticker = R::ticker(PERIOD);
    // The first tick is at once, and no measure of anything.
    R::tick(&mut ticker).await;
    for _ in 0..ticks {
        R::tick(&mut ticker).await;
        due += PERIOD;
        late.push(nanos(due.elapsed()));
    }
    late
}
