//! Recordings and snapshots that are taken while all is recorded, and rings run over: no record is
//! torn, and none is told that was overwritten meanwhile.
//!
//! ThreadSanitizer runs this: `cargo xtask deep tsan`.
//!
//! It fails when `Ring::read_between` keeps what was overwritten while it read.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use ws_executor::{
    runtime::{Builder, Runtime},
    spawn, task,
    trace::{self, EventKind, Level, Recording},
};

use crate::common::scaled;

/// Small enough to run over while a reader is at it.
const RING: usize = 4 << 10;

/// Tasks that are polled, woken, spawned and marked until `over`, at most some thousand at a time.
fn keep_busy(runtime: &Runtime, over: &Arc<AtomicBool>) -> Vec<task::JoinHandle<()>> {
    let busy = || {
        let over = over.clone();
        runtime.spawn(async move {
            while !over.load(Relaxed) {
                let child = spawn(async { task::yield_now().await });
                let _span = trace::span("a span");
                trace::mark("a mark");
                child.await.unwrap();
            }
        })
    };
    (0..4).map(|_| busy()).collect()
}

/// Whether each poll of a P ends before the next one there begins, and is of the task that it began
/// with. With a word of another record, it is not.
fn check(recording: &Recording) -> usize {
    let mut polled = HashMap::new();
    let mut polls = 0;
    assert!(recording.events.is_sorted_by_key(|event| event.time));
    for event in &recording.events {
        match event.kind {
            EventKind::Run => {
                let task = event.task.expect("it is a task's");
                let before = polled.insert(event.processor, Some(task));
                assert!(matches!(before, None | Some(None)), "{event} in {before:?}");
            }
            EventKind::Idle | EventKind::Requeue | EventKind::Done => {
                // The first end of a P may be that of a poll whose begin was overwritten.
                if let Some(begun) = polled.insert(event.processor, None) {
                    assert_eq!(begun, event.task, "{event}");
                    polls += 1;
                }
            }
            EventKind::Mark => assert_eq!(event.name, Some("a mark")),
            EventKind::SpanBegin | EventKind::SpanEnd => assert_eq!(event.name, Some("a span")),
            _ => {}
        }
    }
    polls
}

#[test]
fn a_recording_beside_writers_is_whole() {
    let builder = Builder::new().workers(2).recorder(RING);
    let runtime = builder.record(Level::Full).build().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let tasks = keep_busy(&runtime, &over);
    let mut polls = 0;
    while polls < scaled(100_000) {
        polls += check(&runtime.handle().recording());
        runtime.handle().write_snapshot(io::sink()).unwrap();
    }
    over.store(true, Relaxed);
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    check(&runtime.handle().recording());
}
