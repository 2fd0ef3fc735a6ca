//! S7: a waker that is in flight when its runtime ends: it has made its task queued, and nobody but the task
//! holds the runtime by then. The pusher finds it all the same, and drops the task; then the runtime goes.
//!
//! It fails when `begin_shutdown` does not call `keep`, or `task_ended_while_closing` does not let go.

use std::{
    future::poll_fn,
    sync::{Arc, atomic::AtomicUsize, mpsc},
    task::Poll,
    thread,
};

use crate::{
    runtime::Builder,
    sched::incoming::HOME,
    sync::atomic::Ordering::SeqCst,
    task::{Task, TaskRef},
};

/// Counts its drop.
struct Counts(Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn with_a_waker_in_flight(workers: usize) {
    let runtime = Builder::new().workers(workers).build().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let counts = Counts(dropped.clone());
    let (begun, parked) = mpsc::channel();
    drop(runtime.spawn(poll_fn(move |_| {
        let _counts = &counts;
        begun.send(()).unwrap();
        Poll::<()>::Pending
    })));
    parked.recv().unwrap();
    let shared = Arc::downgrade(runtime.handle().shared());
    let mut reference = None;
    runtime
        .handle()
        .shared()
        .for_each_live(|task| reference = Some(task));
    let reference: TaskRef = reference.expect("it is alive");
    // The poll may still be ending.
    while !reference.header().snapshot().is_idle() {
        thread::yield_now();
    }
    // Between the two steps of a wake: queued, and in no queue.
    let in_flight: Task = reference.cancel().expect("it was idle");
    runtime.shutdown_background();
    while shared
        .upgrade()
        .expect("a task is alive")
        .threads
        .lock()
        .count
        > 0
    {
        thread::yield_now();
    }
    while shared.strong_count() > 1 {
        thread::yield_now();
    }
    // The last thread is about to give its own hold up, if that is the one.
    for _ in 0..1000 {
        thread::yield_now();
    }
    assert_eq!(shared.strong_count(), 1, "the runtime keeps itself");
    assert_eq!(dropped.load(SeqCst), 0);
    (HOME.schedule)(reference.header().home(), in_flight);
    assert_eq!(
        dropped.load(SeqCst),
        1,
        "who pushes to a closed runtime drops it"
    );
    assert_eq!(shared.strong_count(), 0, "and with the last task it goes");
    drop(reference);
}

#[test]
fn with_1() {
    with_a_waker_in_flight(1);
}

#[test]
fn with_2() {
    with_a_waker_in_flight(2);
}

#[test]
fn with_8() {
    with_a_waker_in_flight(8);
}
