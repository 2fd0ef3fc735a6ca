//! Does a child wait until its parent has finished computing?
//!
//! A task spawns one child and computes on for 5 ms without coming back to the scheduler, while
//! the other workers are idle. A child that sits in a slot which nobody may steal from waits out
//! the 5 ms.

use std::hint;
use std::time::{Duration, Instant};

use super::{Figure, Row, in_task};
use crate::measure::{Measure, Meter, nanos};
use crate::rt::Rt;

const COMPUTE: Duration = Duration::from_millis(5);
/// Long enough for every other worker to go to sleep before the next child.
const PAUSE: Duration = Duration::from_millis(2);

pub(super) fn rows<R: Rt>() -> [Row; 1] {
    [Row::new(
        "spawn_then_compute",
        "from the spawn to the child",
        Figure::Latency,
        |params| in_task::<R, _>(params, children::<R>(params.size(100, 40))),
    )]
}

async fn children<R: Rt>(n: usize) -> Measure {
    let mut latencies = Vec::with_capacity(n);
    let meter = Meter::start();
    for _ in 0..n {
        R::sleep(PAUSE).await;
        let spawned = Instant::now();
        let child = R::spawn(async move { spawned.elapsed() });
        while spawned.elapsed() < COMPUTE {
            hint::spin_loop();
        }
        latencies.push(nanos(child.await));
    }
    meter.stop(n).by_latencies(latencies)
}
