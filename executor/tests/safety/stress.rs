//! S1, S2, I1, I2: nothing is lost, nothing runs twice, under a random load of every kind.
//!
//! Tasks that spawn, yield, wake each other, sleep, block, panic, abort and join, on 1, 2 and 8
//! workers, driven from a worker, from `block_on` and from foreign threads. Every task counts its
//! end exactly once, and the counts must match.

use crate::common;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use common::Random;
use futures::channel::oneshot;
use ws_executor::{runtime::Builder, task};

/// Counts beginnings and ends: a task that is lost or doubled shows as a difference.
#[derive(Default)]
struct Tally {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

struct Ended(Arc<Tally>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, SeqCst);
    }
}

fn program(seed: u64, depth: u32, tally: Arc<Tally>) -> impl Future<Output = u64> + Send {
    tally.begun.fetch_add(1, SeqCst);
    let ended = Ended(tally.clone());
    async move {
        let _ended = ended;
        let mut random = Random::new(seed);
        let mut sum = 1;
        for _ in 0..random.below(4) + 1 {
            match random.below(if depth == 0 { 5 } else { 10 }) {
                0 => task::yield_now().await,
                1 => {
                    ws_executor::time::sleep(Duration::from_micros(random.below(200) as u64)).await
                }
                2 => ws_executor::block_in_place(std::thread::yield_now),
                3 => {
                    let (send, receive) = oneshot::channel();
                    let other = ws_executor::spawn(async move {
                        task::yield_now().await;
                        send.send(1).unwrap();
                    });
                    sum += receive.await.unwrap();
                    other.await.unwrap();
                }
                4 => {
                    sum += ws_executor::spawn_blocking(|| 1).await.unwrap();
                }
                5 | 6 => {
                    let next = random.next();
                    sum += ws_executor::spawn(Box::pin(program(next, depth - 1, tally.clone()))
                        as std::pin::Pin<Box<dyn Future<Output = u64> + Send>>)
                    .await
                    .unwrap();
                }
                7 => {
                    let children: Vec<_> = (0..random.below(20))
                        .map(|_| {
                            let next = random.next();
                            ws_executor::spawn(Box::pin(program(next, depth - 1, tally.clone()))
                                as std::pin::Pin<Box<dyn Future<Output = u64> + Send>>)
                        })
                        .collect();
                    for child in children {
                        sum += child.await.unwrap();
                    }
                }
                8 => {
                    let next = random.next();
                    let child =
                        ws_executor::spawn(Box::pin(program(next, depth - 1, tally.clone()))
                            as std::pin::Pin<Box<dyn Future<Output = u64> + Send>>);
                    if random.below(2) == 0 {
                        task::yield_now().await;
                    }
                    child.abort();
                    if let Ok(more) = child.await {
                        sum += more;
                    }
                }
                _ => {
                    let pinned = ws_executor::spawn_pinned(|| async {
                        let here = std::rc::Rc::new(1);
                        task::yield_now().await;
                        *here
                    });
                    sum += pinned.await.unwrap();
                }
            }
        }
        sum
    }
}

fn random_programs(workers: usize, how: impl Fn(ws_executor::runtime::Runtime, u64, Arc<Tally>)) {
    let rounds = if cfg!(debug_assertions) { 15 } else { 40 };
    for seed in 1..=common::scaled(rounds) as u64 {
        let tally = Arc::new(Tally::default());
        let builder = Builder::new().workers(workers).seed(seed);
        let runtime = builder.shutdown_grace(common::GRACE).build().unwrap();
        how(runtime, 1_000_000 * seed, tally.clone());
        assert_eq!(
            tally.begun.load(SeqCst),
            tally.ended.load(SeqCst),
            "seed {seed}, {workers} workers: a task was lost or ended twice"
        );
    }
}

fn in_run(runtime: ws_executor::runtime::Runtime, seed: u64, tally: Arc<Tally>) {
    runtime.run(async move {
        let all: Vec<_> = (0..10)
            .map(|i| ws_executor::spawn(program(seed + i, 4, tally.clone())))
            .collect();
        for one in all {
            one.await.unwrap();
        }
    });
}

fn in_block_on(runtime: ws_executor::runtime::Runtime, seed: u64, tally: Arc<Tally>) {
    runtime.block_on(async {
        let all: Vec<_> = (0..10)
            .map(|i| ws_executor::spawn(program(seed + i, 4, tally.clone())))
            .collect();
        for one in all {
            one.await.unwrap();
        }
    });
}

fn from_threads(runtime: ws_executor::runtime::Runtime, seed: u64, tally: Arc<Tally>) {
    std::thread::scope(|scope| {
        for i in 0..4 {
            let (handle, tally) = (runtime.handle().clone(), tally.clone());
            scope.spawn(move || {
                let spawned = handle.spawn(program(seed + i, 3, tally.clone()));
                handle.block_on(program(seed + 10 * i, 3, tally));
                handle.block_on(spawned).unwrap();
            });
        }
    });
}

fn dropped_in_the_middle(runtime: ws_executor::runtime::Runtime, seed: u64, tally: Arc<Tally>) {
    for i in 0..10 {
        drop(runtime.spawn(program(seed + i, 4, tally.clone())));
    }
    drop(runtime);
}

macro_rules! with_workers {
    ($($name:ident: $workers:expr, $how:expr;)*) => {
        $(#[test] fn $name() { common::limited(|| random_programs($workers, $how)); })*
    };
}

with_workers! {
    run_with_1: 1, in_run;
    run_with_2: 2, in_run;
    run_with_8: 8, in_run;
    block_on_with_1: 1, in_block_on;
    block_on_with_2: 2, in_block_on;
    block_on_with_8: 8, in_block_on;
    threads_with_1: 1, from_threads;
    threads_with_2: 2, from_threads;
    threads_with_8: 8, from_threads;
    dropped_with_1: 1, dropped_in_the_middle;
    dropped_with_2: 2, dropped_in_the_middle;
    dropped_with_8: 8, dropped_in_the_middle;
}
