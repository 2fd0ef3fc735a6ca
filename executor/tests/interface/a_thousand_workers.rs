//! Large machines: as many workers as a builder allows, on however many CPUs there are. A runtime
//! makes its threads when there is work for them, runs what it is given, and ends.
//!
//! It fails when a builder starts its threads at once, when a set of Ps is too short for them, or
//! when a thread is started beyond the permits.

use crate::common;

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use common::limited;
use ws_executor::{
    runtime::{Builder, Runtime},
    task::yield_now,
    time::sleep,
};

/// The monitor, and a thread that is about to end.
const BESIDE: usize = 2;

fn runtime(workers: usize) -> Runtime {
    // A machine that is busy with other work leaves each of a thousand threads off its cores.
    let builder = Builder::new().workers(workers).stall_threshold(None);
    let runtime = builder.build();
    runtime.expect("the system has room for it")
}

#[test]
fn threads_are_made_when_there_is_work_for_them() {
    limited(|| {
        let runtime = runtime(1024);
        assert!(runtime.handle().metrics().threads <= BESIDE);
        let task = runtime.handle().spawn(async { 7 });
        assert_eq!(runtime.block_on(task).unwrap(), 7);
        let threads = runtime.handle().metrics().threads;
        assert!(threads <= 8, "{threads} threads for one task");
    });
}

#[test]
fn ten_thousand_tasks_run_on_256_and_on_1024_workers() {
    for workers in [256, 1024] {
        limited(move || {
            let runtime = runtime(workers);
            let ended = Arc::new(AtomicUsize::new(0));
            let tasks: Vec<_> = (0..10_000)
                .map(|number| {
                    let ended = ended.clone();
                    runtime.handle().spawn(async move {
                        yield_now().await;
                        if number % 16 == 0 {
                            sleep(Duration::from_millis(1)).await;
                        }
                        ended.fetch_add(1, Relaxed);
                        number
                    })
                })
                .collect();
            let sum = runtime.block_on(async {
                let mut sum = 0;
                for task in tasks {
                    sum += task.await.unwrap();
                }
                sum
            });
            assert_eq!(sum, (0..10_000).sum::<usize>());
            assert_eq!(ended.load(Relaxed), 10_000);
            let threads = runtime.handle().metrics().threads;
            // The monitor may take the permit of a thread that the machine leaves off its core.
            assert!(threads <= 2 * workers + BESIDE, "{threads} of {workers}");
            // A joiner may be awake before the task's worker has counted the task.
            while completed(&runtime) < 10_000 {
                thread::yield_now();
            }
            assert_eq!(completed(&runtime), 10_000);
        });
    }
}

/// How many tasks have ended on all workers.
fn completed(runtime: &Runtime) -> u64 {
    let metrics = runtime.handle().metrics();
    metrics.processors.iter().map(|p| p.completed).sum()
}

#[test]
fn a_thousand_polls_that_wait_for_each_other_run_at_the_same_time() {
    limited(|| {
        const WORKERS: usize = 1024;
        let runtime = runtime(WORKERS);
        let all_are_here = Arc::new(Barrier::new(WORKERS));
        let tasks: Vec<_> = (0..WORKERS)
            .map(|_| {
                let all_are_here = all_are_here.clone();
                runtime
                    .handle()
                    .spawn(async move { all_are_here.wait().is_leader() })
            })
            .collect();
        let leaders = runtime.block_on(async {
            let mut leaders = 0;
            for task in tasks {
                leaders += usize::from(task.await.unwrap());
            }
            leaders
        });
        assert_eq!(leaders, 1);
    });
}

#[test]
fn more_workers_than_a_runtime_may_have_are_an_error_that_says_what_to_do() {
    let error = Builder::new().workers(1025).build().unwrap_err();
    assert_eq!(error.knob_name(), Some("workers"));
    let text = error.to_string();
    assert!(text.contains("between 1 and 1024"), "{text}");
    assert!(text.contains("several runtimes"), "{text}");
}
