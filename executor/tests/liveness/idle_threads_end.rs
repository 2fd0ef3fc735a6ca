//! The bound on threads: only as many exist as are of use. One that had nothing to do for
//! `Builder::keep_alive` ends, and is started again when it is needed. One that others rely on
//! stays: with pinned tasks (I7), or as the one that waits in the netpoll.
//!
//! It fails, by a hang, when `sleep` in `permit/sleep.rs` does not leave after the time is over; by
//! a pinned task on another thread when it does not look at `Pinned::has_live`.

use crate::common;

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Poll, Waker},
    thread,
    time::Duration,
};

use common::{Count, Gate};
use ws_executor::runtime::{Builder, Runtime, Sysmon};

/// How many threads the hooks have seen come and go.
#[derive(Default)]
struct Threads {
    started: AtomicUsize,
    stopped: AtomicUsize,
}

impl Threads {
    fn now(&self) -> usize {
        let stopped = self.stopped.load(SeqCst);
        self.started.load(SeqCst) - stopped
    }

    fn wait_until_at_most(&self, most: usize) {
        while self.now() > most {
            thread::yield_now();
        }
    }
}

/// A runtime whose threads are patient for next to no time.
fn impatient(workers: usize) -> (Runtime, Arc<Threads>) {
    let threads = Arc::new(Threads::default());
    let (starts, stops) = (threads.clone(), threads.clone());
    let runtime = Builder::new()
        .workers(workers)
        .keep_alive(Duration::from_micros(100))
        .on_thread_start(move || {
            starts.started.fetch_add(1, SeqCst);
        })
        .on_thread_stop(move || {
            stops.stopped.fetch_add(1, SeqCst);
        })
        .build()
        .unwrap();
    (runtime, threads)
}

/// `count` threads at once, blocked, then free again.
fn threads_at_once(runtime: &Runtime, count: usize) {
    let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
    let jobs: Vec<_> = (0..count)
        .map(|_| {
            let (begun, gate) = (begun.clone(), gate.clone());
            runtime.handle().spawn_blocking(move || {
                begun.add();
                gate.pass();
            })
        })
        .collect();
    begun.wait_for(count);
    gate.open();
    for job in jobs {
        runtime.block_on(job).unwrap();
    }
}

common::with_workers! {
    /// All but the one that waits in the netpoll, at most; and they come again.
    fn all_but_one(workers: usize) {
        let (runtime, threads) = impatient(workers);
        for round in 1..=3 {
            threads_at_once(&runtime, 20);
            assert!(threads.started.load(SeqCst) >= 19 * round);
            threads.wait_until_at_most(1);
            while runtime.handle().metrics().threads > 1 {
                thread::yield_now();
            }
        }
    }

    /// By default they wait for longer than a test takes: the same threads do the second round.
    fn not_before_their_time(workers: usize) {
        let started = Arc::new(AtomicUsize::new(0));
        let starts = started.clone();
        let builder = Builder::new().workers(workers).keep_alive(Duration::from_secs(86_400));
        let runtime = builder.on_thread_start(move || {
            // Not in this test's own `block_on`.
            starts.fetch_add(usize::from(common::on_a_worker()), SeqCst);
        }).build().unwrap();
        // A thread is counted before it calls its hook; one that has ended stays missing.
        let none_has_ended = || while runtime.handle().metrics().threads != started.load(SeqCst) {
            thread::yield_now();
        };
        threads_at_once(&runtime, 20);
        none_has_ended();
        for _ in 0..10 {
            threads_at_once(&runtime, 10);
        }
        none_has_ended();
    }

    /// I7: the thread of a pinned task stays until that has ended, however long it waits.
    fn not_with_pinned_tasks(workers: usize) {
        let (runtime, threads) = impatient(workers);
        let (waker, parked) = (Arc::new(Mutex::new(None::<Waker>)), Arc::new(Count::new()));
        let pinned = {
            let (waker, parked) = (waker.clone(), parked.clone());
            runtime.spawn(async move {
                let home = thread::current().id();
                let pinned = ws_executor::spawn_local(poll_fn(move |cx| {
                    assert_eq!(thread::current().id(), home);
                    if waker.lock().unwrap().replace(cx.waker().clone()).is_some() {
                        return Poll::Ready(());
                    }
                    parked.add();
                    Poll::Pending
                }));
                pinned.await.unwrap();
            })
        };
        parked.wait_for(1);
        for _ in 0..3 {
            threads_at_once(&runtime, 10);
            // The pinned task's thread, and one in the netpoll.
            threads.wait_until_at_most(2);
        }
        assert!(threads.now() >= 1, "the pinned task has lost its thread");
        let waker = waker.lock().unwrap().clone().unwrap();
        waker.wake();
        runtime.block_on(pinned).unwrap();
        threads.wait_until_at_most(1);
    }

    /// Work that comes just when a thread leaves is not left behind.
    fn work_that_comes_at_that_moment(workers: usize) {
        let (runtime, _threads) = impatient(workers);
        for n in 0..300 {
            let task = runtime.spawn(async move { n });
            assert_eq!(runtime.block_on(task).unwrap(), n);
            if n % 10 == 0 {
                // A timer as well: somebody has to wait for it.
                let task = runtime.spawn(async {
                    ws_executor::time::sleep(Duration::from_micros(150)).await;
                });
                runtime.block_on(task).unwrap();
            }
        }
    }
}

// Fails if the task of `run` wakes a second thread, which can only find out that `main` runs it.
#[test]
fn a_program_that_needs_no_second_thread_starts_none() {
    let runtime = Builder::new()
        .workers(2)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap();
    let handle = runtime.handle().clone();
    let threads = runtime.run(async move { handle.metrics().threads });
    // `main` is not one of the runtime's own threads.
    assert_eq!(threads, 0);
}
