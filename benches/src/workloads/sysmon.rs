//! What does the monitor thread cost while it finds nothing to do?
//!
//! `ws` beside `ws-nosysmon`, with one worker: spawn and join, yields, and ping-pong over channels,
//! for about half a second each. The monitor's own is seen in the context switches a second: it may
//! add 1,100 of them. That it adds no instruction to an operation, `cargo xtask counts` shows.
//! `idle_cpu` is the same question where nothing happens at all.

use std::time::{Duration, Instant};

use async_channel::bounded;

use super::{Figure, Row, in_task};
use crate::measure::{Measure, Meter};
use crate::rt::Rt;

/// Operations between two looks at the clock.
const BATCH: usize = 1_000;

/// Other runtimes have rows of their own for the same.
pub(super) const ONLY: &[&str] = &["ws", "ws-nosysmon"];

pub(super) fn rows<R: Rt>() -> [Row; 3] {
    [
        Row::new(
            "sysmon_spawn_join_1w",
            "a task spawned and joined",
            Figure::Time,
            |params| in_task::<R, _>(params.on(1), for_a_while(length(params), spawn_join::<R>)),
        )
        .full_only()
        .only(ONLY),
        Row::new("sysmon_yield_1w", "a yield", Figure::Time, |params| {
            in_task::<R, _>(params.on(1), for_a_while(length(params), yields::<R>))
        })
        .full_only()
        .only(ONLY),
        Row::new(
            "sysmon_ping_pong_1w",
            "a round trip",
            Figure::Time,
            |params| in_task::<R, _>(params.on(1), for_a_while(length(params), ping_pong::<R>)),
        )
        .full_only()
        .only(ONLY),
    ]
}

fn length(params: crate::cli::Params) -> Duration {
    params.millis(500, 300)
}

async fn for_a_while<F: Future<Output = ()>>(length: Duration, batch: fn() -> F) -> Measure {
    batch().await;
    let meter = Meter::start();
    let began = Instant::now();
    let mut batches = 0;
    while began.elapsed() < length {
        batch().await;
        batches += 1;
    }
    let measure = meter.stop(batches * BATCH);
    let per_second = (measure.voluntary + measure.involuntary) * 1e9 / measure.wall_ns;
    measure.with("switches_per_s", per_second)
}

async fn spawn_join<R: Rt>() {
    for _ in 0..BATCH {
        R::spawn(async {}).await;
    }
}

async fn yields<R: Rt>() {
    for _ in 0..BATCH {
        R::yield_now().await;
    }
}

async fn ping_pong<R: Rt>() {
    let (ping, pinged) = bounded(1);
    let (pong, ponged) = bounded(1);
    R::detach(async move {
        while let Ok(trip) = pinged.recv().await {
            pong.send(trip).await.expect("the root waits for it");
        }
    });
    for trip in 0..BATCH {
        ping.send(trip).await.expect("the other task lives");
        assert_eq!(ponged.recv().await, Ok(trip), "the answer to this ping");
    }
}
