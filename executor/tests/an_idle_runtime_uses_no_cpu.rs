//! L3: a runtime that has nothing to do uses no CPU, whatever it has done before and whatever waits: a task, a
//! timer that is far away. All of its threads sleep, the monitor too.
//!
//! It fails when sysmon in `sched/sysmon.rs` does not lie down for good, and when a worker's search does not end.
//!
//! CPU clocks of the runtime's threads are read, by their names; so this is a file with one test.

#![cfg(target_os = "linux")]

mod common;

use std::{collections::BTreeMap, fs, sync::Arc, thread, time::Duration};

use common::{Count, limited};
use ws_executor::{
    runtime::{Builder, Runtime},
    task,
};
use ws_reactor::ThreadId;

/// The bound is 1 ms in 5 s; a fifth of both does not make the tests long.
const WINDOW: Duration = Duration::from_secs(1);
const CPU_NS_MAX: u64 = 200_000;

fn name(workers: usize) -> String {
    format!("idle{workers}")
}

/// What each thread of the runtime has used so far, by its number.
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
        const WORKERS: [usize; 3] = [1, 2, 8];
        let runtimes = WORKERS.map(busy_once);
        // Until all have gone to sleep, or for long enough to see that they do not.
        let mut calm = 0;
        for _ in 0..100 {
            let before = WORKERS.map(cpu);
            thread::sleep(Duration::from_millis(20));
            calm = if WORKERS.map(cpu) == before {
                calm + 1
            } else {
                0
            };
            if calm == 5 {
                break;
            }
        }
        let before = WORKERS.map(cpu);
        thread::sleep(WINDOW);
        for ((before, after), workers) in before.iter().zip(WORKERS.map(cpu)).zip(WORKERS) {
            assert!(
                before.len() > 1,
                "the threads of {workers} workers are not found"
            );
            let used: u64 = after
                .iter()
                .map(|(thread, cpu)| cpu - before.get(thread).unwrap_or(&0))
                .sum();
            assert!(
                used < CPU_NS_MAX,
                "{workers} workers used {used} ns in {WINDOW:?} of nothing"
            );
        }
        drop(runtimes);
    });
}
