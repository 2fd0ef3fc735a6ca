//! What do timers cost that do fire, and how late are they, when there are very many?
//!
//! 200,000 tasks sleep at the same time, each until its own moment of one second. The second is the
//! workload's own, so what is compared is the CPU time for a task with its sleep; how late they
//! woke stands beside it.

use std::time::{Duration, Instant};

use super::{Figure, Row, in_task};
use crate::measure::{Measure, Meter, nanos, percentile};
use crate::rt::Rt;

pub(super) fn rows<R: Rt>() -> [Row; 1] {
    [
        Row::new("sleeps_200k", "a task that sleeps", Figure::Cpu, |params| {
            in_task::<R, _>(params, sleeps::<R>(params.size(200_000, 50_000)))
        })
        .heavy()
        .full_only(),
    ]
}

async fn sleeps<R: Rt>(n: usize) -> Measure {
    let meter = Meter::start();
    let began = Instant::now();
    let mut joins = Vec::with_capacity(n);
    for index in 0..n {
        // The first is due when all are there; a prime number of microseconds scatters them.
        let micros = 400_000 + index as u64 * 7_919 % 1_000_000;
        joins.push(R::spawn(async move {
            let due = began + Duration::from_micros(micros);
            R::sleep(due.saturating_duration_since(Instant::now())).await;
            nanos(due.elapsed())
        }));
    }
    let mut late = Vec::with_capacity(n);
    for join in joins {
        late.push(join.await);
    }
    let measure = meter.stop(n);
    late.sort_unstable();
    let cpu_ns = measure.cpu_ns;
    measure
        .by(cpu_ns)
        .with("late_p50_us", percentile(&late, 50) / 1e3)
        .with("late_p99_us", percentile(&late, 99) / 1e3)
}
