//! Each thread of a runtime has a name of its own that Linux shows whole, in `top -H`, `perf` and
//! `/proc`: at most 15 bytes with the default `thread_name`.
//!
//! It fails when the monitor is called `ws-worker-sysmon`: Linux refuses a longer name, or cuts it.

#![cfg(target_os = "linux")]

mod common;

use std::{collections::BTreeSet, fs, thread, time::Duration};

use common::{limited, runtime};
use ws_executor::time;

/// The names that the system knows, of all threads of this process.
fn names() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let comm = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
    tasks
        .filter_map(|task| comm(task.unwrap()).ok())
        .map(|name| name.trim_end().to_owned())
        .collect()
}

#[test]
fn the_monitor_and_each_worker_have_a_name_of_their_own() {
    limited(|| {
        let runtime = runtime(2);
        // The monitor and a worker have begun by then.
        runtime
            .block_on(runtime.spawn(async { time::sleep(Duration::from_millis(1)).await }))
            .unwrap();
        // A new thread takes its name itself, a moment after it was started.
        loop {
            let ours: Vec<_> = names()
                .into_iter()
                .filter(|name| name.starts_with("ws-"))
                .collect();
            let distinct: BTreeSet<_> = ours.iter().collect();
            assert_eq!(distinct.len(), ours.len(), "{ours:?}");
            assert!(
                !ours.iter().any(|name| name.starts_with("ws-worker-sys")),
                "{ours:?}"
            );
            let is_worker = |name: &String| {
                let number = name.strip_prefix("ws-worker-");
                number.is_some_and(|number| number.parse::<u32>().is_ok())
            };
            if ours.iter().any(|name| name == "ws-worker-mon") && ours.iter().any(is_worker) {
                return;
            }
            thread::yield_now();
        }
    });
}
