//! What does a call cost that blocks, and says so?
//!
//! Through the runtime's own `spawn_blocking`, with the number of threads that it allows by default
//! (tokio 512; `ws` 512 less two for each worker; smol, through `blocking`, 500): many calls of a
//! millisecond at once, which is a question of how soon there are threads enough; and one empty
//! call from a task on an otherwise idle runtime, there and back.

use std::thread;
use std::time::{Duration, Instant};

use super::{Figure, Row, in_task};
use crate::measure::{Measure, Meter, nanos};
use crate::rt::Rt;

const BLOCK: Duration = Duration::from_millis(1);
/// Long enough for every worker and every thread of a pool to go to sleep before the next call.
const PAUSE: Duration = Duration::from_micros(500);

pub(super) fn rows<R: Rt>() -> [Row; 2] {
    [
        Row::new(
            "spawn_blocking_10k",
            "a call of 1 ms",
            Figure::Time,
            |params| in_task::<R, _>(params, many::<R>(params.size(10_000, 4_000))),
        ),
        Row::new(
            "spawn_blocking_idle",
            "a call there and back",
            Figure::Latency,
            |params| in_task::<R, _>(params, one_by_one::<R>(params.size(500, 200))),
        ),
    ]
}

/// Without a warm-up: the threads are not there yet, which is what a burst of calls meets.
async fn many<R: Rt>(n: usize) -> Measure {
    let meter = Meter::start();
    let mut joins = Vec::with_capacity(n);
    for index in 0..n {
        joins.push(R::spawn(R::spawn_blocking(move || {
            thread::sleep(BLOCK);
            index
        })));
    }
    let mut sum = 0;
    for join in joins {
        sum += join.await;
    }
    let measure = meter.stop(n);
    assert_eq!(sum, n * (n - 1) / 2, "every call was made once");
    measure
}

async fn one_by_one<R: Rt>(n: usize) -> Measure {
    let mut latencies = Vec::with_capacity(n);
    // The first calls start the thread.
    for _ in 0..10 {
        R::spawn_blocking(|| ()).await;
    }
    let meter = Meter::start();
    for _ in 0..n {
        R::sleep(PAUSE).await;
        let called = Instant::now();
        R::spawn_blocking(|| ()).await;
        latencies.push(nanos(called.elapsed()));
    }
    meter.stop(n).by_latencies(latencies)
}
