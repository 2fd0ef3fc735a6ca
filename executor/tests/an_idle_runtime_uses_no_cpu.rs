//! L3: a runtime that has nothing to do uses no CPU, whatever it has done before and whatever
//! waits: a task, a timer that is far away. All of its threads sleep, the monitor too.
//!
//! It fails when the monitor (`monitor.rs`) does not park for good, and when a worker's
//! search does not end.
//!
//! CPU clocks of the runtime's threads are read, by their names; so this is a file with one test.

#![cfg(target_os = "linux")]

mod common;

use std::{collections::BTreeMap, fs, sync::Arc, thread, time::Duration};

use common::{Count, Gate, limited, pass_looks, runtime};
use ws_executor::{
    runtime::{Builder, Runtime},
    task,
};
use ws_reactor::ThreadId;

/// For so many looks of a busy monitor, at least a millisecond apart, nothing moves. Many times of
/// what an idle one rests at most between two looks.
const CALM: usize = 400;
/// So many changes are too many: a runtime comes to rest after some.
const CHANGES_MAX: usize = 2_000;

fn name(workers: usize) -> String {
    format!("idle{workers}")
}

/// The CPU time that each thread of the runtime has used so far, by its number.
fn cpu(workers: usize) -> BTreeMap<u32, u64> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/task").unwrap() {
        let entry = entry.unwrap();
        // It may end at any moment.
        let Ok(comm) = fs::read_to_string(entry.path().join("comm")) else {
            continue;
        };
        let thread = entry.file_name().to_str().unwrap().parse().unwrap();
        if comm.starts_with(&name(workers))
            && let Some(cpu) = ThreadId::from_u32(thread).cpu_time_ns()
        {
            all.insert(thread, cpu);
        }
    }
    all
}

/// All that moves in a runtime which does something: its threads' clocks, and what it counts.
fn moves(runtime: &Runtime) -> (BTreeMap<u32, u64>, String) {
    let metrics = runtime.handle().metrics();
    (cpu(metrics.workers), format!("{metrics:?}"))
}

/// It has run on all its workers, blocked some, and is left with tasks that wait.
fn busy_once(workers: usize) -> Runtime {
    let builder = Builder::new().workers(workers).thread_name(name(workers));
    let runtime = builder.build().unwrap();
    let parked = Arc::new(Count::new());
    for n in 0..10 {
        let parked = parked.clone();
        drop(runtime.spawn(async move {
            parked.add();
            if n % 2 == 0 {
                ws_executor::time::sleep(Duration::from_secs(86_400)).await;
            } else {
                std::future::pending::<()>().await;
            }
        }));
    }
    parked.wait_for(10);
    let tasks: Vec<_> = (0..4 * workers)
        .map(|_| {
            runtime.spawn(async {
                for _ in 0..50 {
                    let child = ws_executor::spawn(task::yield_now());
                    child.await.unwrap();
                }
                ws_executor::time::sleep(Duration::from_millis(1)).await;
                ws_executor::block_in_place(thread::yield_now);
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    runtime
}

#[test]
fn with_1_2_and_8_workers() {
    limited(|| {
        // Its monitor does not park, and counts for us.
        let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
        let busy = runtime(1);
        let (begins, passes) = (begun.clone(), gate.clone());
        let stuck = busy.spawn(async move {
            begins.add();
            passes.pass();
        });
        begun.wait_for(1);

        let runtimes = [1, 2, 8].map(busy_once);
        let (mut calm, mut changes) = (0, 0);
        let mut before = runtimes.each_ref().map(moves);
        while calm < CALM {
            pass_looks(&busy, 1);
            let now = runtimes.each_ref().map(moves);
            if now == before {
                calm += 1;
                continue;
            }
            (calm, changes) = (0, changes + 1);
            assert!(
                changes < CHANGES_MAX,
                "it does not come to rest; from\n{before:#?}\nto\n{now:#?}"
            );
            before = now;
        }
        for (threads, counted) in before {
            assert!(threads.len() > 1, "no threads are found: {counted}");
        }
        gate.open();
        busy.block_on(stuck).unwrap();
        drop(runtimes);
    });
}
