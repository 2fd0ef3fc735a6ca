//! How soon does a task run that a foreign thread has woken, when the runtime is asleep?
//!
//! A thread of its own stamps a message and sends it to a task that waits; the task reads the
//! clock. Between two messages there is time enough for every worker to park.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use async_channel::bounded;

use super::{Figure, Row, in_task};
use crate::measure::{Measure, Meter, nanos};
use crate::rt::Rt;

/// Longer than any of the runtimes looks for work before it parks.
const PAUSE: Duration = Duration::from_micros(300);

pub(super) fn rows<R: Rt>() -> [Row; 1] {
    [Row::new(
        "wake_foreign",
        "from the wake to the poll",
        Figure::Latency,
        |params| in_task::<R, _>(params, wakes::<R>(params.size(1_000, 400))),
    )]
}

async fn wakes<R: Rt>(n: usize) -> Measure {
    let (stamp, stamps) = bounded::<Instant>(1);
    let (received, receipts) = mpsc::channel();
    let waker = thread::spawn(move || {
        for _ in 0..n {
            thread::sleep(PAUSE);
            stamp
                .try_send(Instant::now())
                .expect("the task took the last one and still waits");
            receipts.recv().expect("the task says that it took it");
        }
    });
    let waits = R::spawn(async move {
        let mut latencies = Vec::with_capacity(n);
        let meter = Meter::start();
        while let Ok(stamp) = stamps.recv().await {
            latencies.push(nanos(stamp.elapsed()));
            received.send(()).expect("the thread waits for it");
        }
        meter.stop(n).by_latencies(latencies)
    });
    let measure = waits.await;
    waker
        .join()
        .expect("the thread ends after its last message");
    measure
}
