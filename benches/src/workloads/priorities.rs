//! How long does an urgent task wait behind batch work?
//!
//! 10,000 tasks are always ready, and each of their polls computes for 10 us. A thread of its own
//! sends the time to a waiting task now and then, which notes how old it is when it comes: what a
//! health check would see. Before the others start, the same is measured on the idle runtime, in
//! the same process.
//!
//! In `urgent_among_10k` each runtime does what it can: `ws` says that the waiting task is of the
//! highest priority and the others of the lowest; the others have no such word. In `fifo_among_10k`
//! nobody says anything.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::{Figure, Row, in_task};
use crate::measure::{Measure, Meter, nanos, percentile};
use crate::rt::{Rank, Rt};

const CROWD: usize = 10_000;
const POLL: Duration = Duration::from_micros(10);
/// Between two messages: long enough for an idle runtime to go to sleep.
const PAUSE: Duration = Duration::from_millis(2);
/// No more messages are sent after this: without priorities each takes as long as all polls of the
/// crowd.
const LIMIT: Duration = Duration::from_secs(5);

pub(super) fn rows<R: Rt>() -> [Row; 2] {
    [
        Row::new(
            "urgent_among_10k",
            "from the message to the urgent task",
            Figure::Tail,
            |params| in_task::<R, _>(params, both::<R>(params.size(400, 100), true)),
        )
        .heavy(),
        Row::new(
            "fifo_among_10k",
            "the same without priorities",
            Figure::Tail,
            |params| in_task::<R, _>(params, both::<R>(params.size(400, 100), false)),
        )
        .heavy(),
    ]
}

/// First on the idle runtime, then among the crowd.
async fn both<R: Rt>(messages: usize, ranked: bool) -> Measure {
    let mut idle = latencies::<R>(messages, ranked).await;
    idle.sort_unstable();
    let stop = Arc::new(AtomicBool::new(false));
    let crowd: Vec<_> = (0..CROWD)
        .map(|_| {
            let stop = stop.clone();
            let busy = async move {
                while !stop.load(Relaxed) {
                    let began = Instant::now();
                    while began.elapsed() < POLL {
                        hint::spin_loop();
                    }
                    R::yield_now().await;
                }
            };
            spawn::<R, _>(Rank::Lowest, ranked, busy)
        })
        .collect();
    let meter = Meter::start();
    let loaded = latencies::<R>(messages, ranked).await;
    let measure = meter.stop(loaded.len());
    stop.store(true, Relaxed);
    for task in crowd {
        task.await;
    }
    measure
        .by_tail(loaded)
        .with("idle_p50_us", percentile(&idle, 50) / 1e3)
        .with("idle_p99_us", percentile(&idle, 99) / 1e3)
}

fn spawn<R: Rt, F>(rank: Rank, ranked: bool, future: F) -> R::Join<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    if ranked {
        R::spawn_ranked(rank, future)
    } else {
        R::spawn(future)
    }
}

async fn latencies<R: Rt>(messages: usize, ranked: bool) -> Vec<u64> {
    let (send, receive) = async_channel::bounded::<Instant>(1);
    let urgent = async move {
        let mut latencies = Vec::new();
        while let Ok(sent) = receive.recv().await {
            latencies.push(nanos(sent.elapsed()));
        }
        latencies
    };
    let urgent = spawn::<R, _>(Rank::Highest, ranked, urgent);
    let driver = thread::spawn(move || {
        let began = Instant::now();
        for _ in 0..messages {
            if began.elapsed() > LIMIT {
                break;
            }
            thread::sleep(PAUSE);
            send.send_blocking(Instant::now())
                .expect("it listens until the sender is gone");
        }
    });
    let latencies = urgent.await;
    driver.join().expect("it does not panic");
    latencies
}
