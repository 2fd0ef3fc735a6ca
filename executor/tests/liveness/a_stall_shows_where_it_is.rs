//! L2: the report of a stall has the stack of its thread, up to the poll of the task, and the
//! system call that blocks the thread. In debug builds and in release builds.
//!
//! It fails when `stack_of` in `sched/stall/track.rs` does not capture, when `settle_in` in
//! `sched/worker.rs` does not register the thread, and when `shown` in `sched/stall/stack.rs` shows
//! the worker's frames.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::common;

use std::{
    hint::black_box,
    io::Read,
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

use common::{limited, listen_to_log, logged};
use ws_executor::runtime::{Builder, Runtime, StallPhase, StallReport};

const THRESHOLD: Duration = Duration::from_millis(20);

fn reporting() -> (Runtime, mpsc::Receiver<StallReport>) {
    let (tell, told) = mpsc::channel();
    let builder = Builder::new().workers(1).stall_threshold(THRESHOLD);
    let builder = builder.on_stall(move |stall| _ = tell.send(stall.clone()));
    (builder.build().unwrap(), told)
}

/// The first report whose stack has that function. A thread may be on its way when a report is
/// made; so there are some tries.
fn assert_shown(
    function: &str,
    call: Option<&str>,
    stalls: impl Fn(&Runtime) -> Box<dyn FnOnce()>,
) {
    for attempt in 1.. {
        // There is one such report a second of a runtime.
        let (runtime, told) = reporting();
        let end = stalls(&runtime);
        let stall = told.recv().unwrap();
        assert_eq!(stall.phase, StallPhase::Begun);
        end();
        let over = told.iter().find(|stall| stall.phase == StallPhase::Ended);
        let over = over.expect("the end is always told");
        assert!(!over.stack.is_some() && over.system_call.is_none());
        assert_eq!(over.to_string().lines().count(), 1, "{over}");
        let named = |frame: &ws_executor::runtime::StackFrame| {
            frame.function().is_some_and(|name| name.contains(function))
        };
        let called = stall.system_call.and_then(|call| call.name());
        if called != call || !stall.stack.frames().iter().any(named) {
            assert!(attempt < 20, "{stall}\n{:?}", stall.stack);
            continue;
        }
        // A viewer keeps it, though the last report has none.
        let shown = runtime.handle().viewer().stalls();
        let shown = shown.iter().find(|shown| shown.report.id == stall.id);
        let kept = &shown.expect("it was reported").report;
        assert_eq!(kept.phase, StallPhase::Ended);
        assert!(kept.stack.is_some() && kept.system_call.is_none());
        let text = stall.to_string();
        let mut lines = text.lines();
        assert!(lines.next().unwrap().starts_with("task "), "{text}");
        if let Some(call) = call {
            let line = format!("      in the system call {call}");
            assert_eq!(lines.next(), Some(&*line), "{text}");
        }
        assert!(
            text.contains("a_stall_shows_where_it_is.rs:"),
            "no line of a file: {text}"
        );
        assert!(text.contains(" frames of the runtime"), "{text}");
        let of_the_runtime = |name: &str| name.contains("worker::") || name.contains("cell::raw");
        let mut frames = stall.stack.frames().iter();
        assert!(
            !frames.any(|frame| frame.function().is_some_and(of_the_runtime)),
            "{text}"
        );
        break;
    }
}

#[inline(never)]
fn deep_in_a_lock(lock: &Mutex<()>) {
    let _held = black_box(lock.lock());
}

#[test]
fn of_a_lock() {
    limited(|| {
        assert_shown("deep_in_a_lock", Some("futex"), |runtime| {
            let lock = Arc::new(Mutex::new(()));
            let held = lock.clone();
            let (tell, told) = mpsc::channel();
            let (end, ends) = mpsc::channel::<()>();
            let holder = std::thread::spawn(move || {
                let _held = held.lock();
                tell.send(()).unwrap();
                _ = ends.recv();
            });
            told.recv().unwrap();
            drop(runtime.spawn(async move { deep_in_a_lock(&lock) }));
            Box::new(move || {
                drop(end);
                holder.join().unwrap();
            })
        });
    });
}

#[inline(never)]
fn deep_in_a_read(mut from: &UnixStream) {
    assert_eq!(black_box(from.read(&mut [0])).unwrap(), 0);
}

#[test]
fn of_a_read() {
    limited(|| {
        assert_shown("deep_in_a_read", Some("recvfrom"), |runtime| {
            let (here, there) = UnixStream::pair().unwrap();
            drop(runtime.spawn(async move { deep_in_a_read(&here) }));
            Box::new(move || drop(there))
        });
    });
}

#[inline(never)]
fn deep_in_a_sum(stop: &AtomicBool) -> u64 {
    let mut sum = 0u64;
    while !stop.load(Relaxed) {
        sum = black_box(sum.wrapping_mul(3) + 1);
    }
    black_box(sum)
}

#[test]
fn of_a_computation() {
    limited(|| {
        assert_shown("deep_in_a_sum", None, |runtime| {
            let stop = Arc::new(AtomicBool::new(false));
            let stops = stop.clone();
            drop(runtime.spawn(async move { deep_in_a_sum(&stops) }));
            Box::new(move || stop.store(true, Relaxed))
        });
    });
}

/// It comes from a lock to a read in the same poll. Each report tells where it is then.
#[test]
fn of_a_stall_that_goes_on_elsewhere() {
    limited(|| {
        for attempt in 1.. {
            let (runtime, told) = reporting();
            let (here, there) = UnixStream::pair().unwrap();
            let lock = Arc::new(Mutex::new(()));
            let of_task = lock.clone();
            let held = lock.lock().unwrap();
            drop(runtime.spawn(async move {
                deep_in_a_lock(&of_task);
                deep_in_a_read(&here);
            }));
            let begun = told.recv().unwrap();
            drop(held);
            let goes_on = told.recv().unwrap();
            drop(there);
            let phases = [begun.phase, goes_on.phase];
            assert_eq!(phases, [StallPhase::Begun, StallPhase::GoesOn]);
            let shown = |stall: &StallReport| {
                let text = stall.to_string();
                let function = ["deep_in_a_lock", "deep_in_a_read"].map(|it| text.contains(it));
                (stall.system_call.and_then(|call| call.name()), function)
            };
            let seen = (shown(&begun), shown(&goes_on));
            let lock = (Some("futex"), [true, false]);
            let read = (Some("recvfrom"), [false, true]);
            if seen == (lock, read) {
                break;
            }
            // The thread had no core meanwhile, and came to that call too late: once more.
            assert!(attempt < 20, "{begun}\n{goes_on}");
        }
    });
}

/// Where no hook takes it, that is in the log.
#[test]
fn in_the_log() {
    limited(|| {
        listen_to_log();
        for attempt in 1.. {
            let builder = Builder::new().workers(1).stall_threshold(THRESHOLD);
            let runtime = builder.build().unwrap();
            let (here, there) = UnixStream::pair().unwrap();
            let name = format!("reads, attempt {attempt}");
            let task = ws_executor::task::Builder::new().name(&name);
            drop(task.spawn_on(async move { deep_in_a_read(&here) }, runtime.handle()));
            let words = ["WARN", &*name, "phase=Begun"];
            while logged(&words).is_empty() {
                std::thread::yield_now();
            }
            drop(there);
            let line = logged(&words).remove(0);
            if line.contains(" system_call=recvfrom stack=") && line.contains("deep_in_a_read") {
                break;
            }
            assert!(attempt < 20, "{line}");
        }
    });
}
