//! I5, L1, F1, H2: while work is queued and a permit is free, a thread comes for it, wherever the
//! work is: in the global queue, or with a worker that has plenty and does not come to it itself.
//! Each free worker finds its way to the one that has work.
//!
//! As many tasks as there are permits for have to meet. It fails, by a hang, when `wake_for` in
//! `permit/env.rs` wakes nobody, when `found_work` in `permit/sleep.rs` does not wake another for
//! what is left, and when a search leaves a victim out (`random_order` in `queue/src/rng.rs`).

use crate::common;

use std::sync::{Arc, Barrier};

use common::Count;
use ws_executor::{
    runtime::{Builder, Runtime, Sysmon},
    task,
};

/// Without the monitor, which wakes a thread for what lies about.
fn alone(workers: usize) -> Runtime {
    Builder::new()
        .workers(workers)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap()
}

common::with_workers! {
    /// One by one from a foreign thread: each finds a free permit.
    fn from_a_foreign_thread(workers: usize) {
        let runtime = alone(workers);
        for _ in 0..200 {
            let meet = Arc::new(Barrier::new(workers));
            let tasks: Vec<_> = (0..workers).map(|_| {
                let meet = meet.clone();
                runtime.spawn(async move { meet.wait() })
            }).collect();
            let leaders = tasks.into_iter().map(|task| runtime.block_on(task).unwrap());
            assert_eq!(leaders.filter(|met| met.is_leader()).count(), 1);
        }
    }

    /// From many at once, into the middle of threads that go to sleep and wake up.
    fn from_many_foreign_threads(workers: usize) {
        let runtime = alone(workers);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| for _ in 0..100 {
                    let done = Arc::new(Count::new());
                    for _ in 0..3 {
                        let done = done.clone();
                        drop(runtime.spawn(async move { done.add() }));
                    }
                    // Nobody else waits for them: a push that wakes nobody is noticed.
                    done.wait_for(3);
                });
            }
        });
    }

    /// F1, H2: all the work is with one worker, which is stuck; every other one comes and takes
    /// some.
    fn from_the_only_one_that_has_work(workers: usize) {
        // The monitor looks after what is alone in `runnext`.
        let runtime = common::runtime(workers);
        for _ in 0..20 {
            let task = runtime.spawn(async move {
                let (meet, done) = (Arc::new(Barrier::new(workers)), Arc::new(Count::new()));
                for _ in 1..workers {
                    let (meet, done) = (meet.clone(), done.clone());
                    drop(ws_executor::spawn(async move {
                        meet.wait();
                        done.add();
                    }));
                }
                // Without a word: this thread does not come to its queue before.
                meet.wait();
                done.wait_for(workers - 1);
            });
            runtime.block_on(task).unwrap();
        }
    }

    /// The same beside workers that are busy with plenty of their own.
    fn beside_busy_workers(workers: usize) {
        let runtime = alone(workers);
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        // One permit is left for the work that comes.
        let busy: Vec<_> = (1..workers).map(|_| {
            let stop = stop.clone();
            runtime.spawn(async move {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        }).collect();
        for n in 0..100 {
            let chain = runtime.spawn(async move {
                task::yield_now().await;
                let children: Vec<_> = (0..5).map(|_| ws_executor::spawn(async move { n })).collect();
                let mut sum = 0;
                for child in children {
                    sum += child.await.unwrap();
                }
                sum
            });
            assert_eq!(runtime.block_on(chain).unwrap(), 5 * n);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for task in busy {
            runtime.block_on(task).unwrap();
        }
    }
}
