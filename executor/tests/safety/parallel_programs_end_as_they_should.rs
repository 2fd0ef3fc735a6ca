//! H6: the programs of GHC's benchmark suite for parallel programs (nofib's `smp` folder) run here
//! in the same shapes, and come to the right result: callback001, callback002, chan, sieve,
//! threads001, threads003, threads006, threads007.
//!
//! Here they are small, and looked at from outside only. What they cost, beside the peers and GHC
//! itself, are the benchmarks `ghc_*` (`benches/src/workloads/suite_ghc.rs`, where a test keeps the
//! eight rows).
//!
//! It was seen to fail when `push_next` in `sched/push.rs` drops what it displaces: `chan`,
//! `sieve`, `threads001`, `threads003` and `threads006` hang.

use crate::common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use common::{Count, OnDrop, runtime};
use futures::{
    FutureExt, SinkExt, StreamExt,
    channel::{mpsc, oneshot},
};
use ws_executor::{runtime::Handle, spawn};

/// Calls of one foreign thread. Each call spawns a task and waits for it.
fn callbacks(handle: &Handle, calls: usize) {
    for call in 0..calls {
        let answer = handle.block_on(async move { spawn(async move { call + 1 }).await });
        assert_eq!(answer.unwrap(), call + 1);
    }
}

/// The first prime from `first` on.
fn prime_from(first: u64) -> u64 {
    let is_prime = |number: u64| (2..number).all(|divisor| !number.is_multiple_of(divisor));
    (first..).find(|number| is_prime(*number)).unwrap()
}

common::with_workers! {
    /// Many foreign threads.
    fn callback001(workers: usize) {
        let runtime = runtime(workers);
        let callers = [(); 16].map(|()| {
            let handle = runtime.handle().clone();
            thread::spawn(move || callbacks(&handle, 50))
        });
        for caller in callers {
            caller.join().unwrap();
        }
    }

    /// One, many times.
    fn callback002(workers: usize) {
        callbacks(runtime(workers).handle(), 1000);
    }

    /// One task writes to an unbounded channel, another reads: in order.
    fn chan(workers: usize) {
        const MESSAGES: usize = 10_000;
        runtime(workers).block_on(async {
            let (sender, mut receiver) = mpsc::unbounded();
            let writer = spawn(async move {
                for message in 0..MESSAGES {
                    sender.unbounded_send(message).unwrap();
                }
            });
            let reader = spawn(async move {
                for message in 0..MESSAGES {
                    assert_eq!(receiver.next().await, Some(message));
                }
                assert_eq!(receiver.next().await, None);
            });
            writer.await.unwrap();
            reader.await.unwrap();
        });
    }

    /// Computations that know nothing of each other.
    fn sieve(workers: usize) {
        let found = runtime(workers).block_on(async {
            let tasks: Vec<_> = (0..60)
                .map(|number| spawn(async move { prime_from(100 * number + 2) }))
                .collect();
            let mut found = Vec::new();
            for task in tasks {
                found.push(task.await.unwrap());
            }
            found
        });
        assert_eq!(found[..5], [2, 103, 211, 307, 409]);
        assert_eq!(found.len(), 60);
        assert!(found.is_sorted());
    }

    /// Tasks that do nothing; the last of them says so.
    fn threads001(workers: usize) {
        const TASKS: usize = 10_000;
        runtime(workers).block_on(async {
            let (done, ended) = oneshot::channel();
            let done = Arc::new(std::sync::Mutex::new(Some(done)));
            let left = Arc::new(AtomicUsize::new(TASKS));
            for _ in 0..TASKS {
                let (left, done) = (left.clone(), done.clone());
                drop(spawn(async move {
                    if left.fetch_sub(1, SeqCst) == 1 {
                        done.lock().unwrap().take().unwrap().send(()).unwrap();
                    }
                }));
            }
            ended.await.unwrap();
            assert_eq!(left.load(SeqCst), 0);
        });
    }

    /// Tasks in a line. Each task adds one; every value is put in by a task of its own.
    fn threads003(workers: usize) {
        const STAGES: usize = 50;
        const VALUES: usize = 100;
        let sum = runtime(workers).block_on(async {
            let (first, mut inbox) = mpsc::channel(1);
            for _ in 0..STAGES {
                let (mut outbox, next) = mpsc::channel(1);
                drop(spawn(async move {
                    while let Some(value) = inbox.next().await {
                        outbox.send(value + 1).await.unwrap();
                    }
                }));
                inbox = next;
            }
            for value in 0..VALUES {
                let mut first = first.clone();
                drop(spawn(async move { first.send(1000 * value).await.unwrap() }));
            }
            drop(first);
            inbox.fold(0, |sum, value| async move { sum + value }).await
        });
        assert_eq!(sum, 1000 * VALUES * (VALUES - 1) / 2 + VALUES * STAGES);
    }

    /// Tasks that are cancelled in turn, whether or not they have run: each is gone once, and is
    /// joined.
    fn threads006(workers: usize) {
        const TASKS: usize = 5_000;
        let gone = Arc::new(Count::new());
        runtime(workers).block_on(async {
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| {
                    let gone = gone.clone();
                    let end = OnDrop(move || gone.add());
                    spawn(async move { drop(end) })
                })
                .collect();
            for task in tasks {
                task.abort();
                assert!(task.await.err().is_none_or(|error| error.is_cancelled()));
            }
        });
        assert_eq!(gone.get(), TASKS);
    }

    /// Many wait for the same channel when the program ends: all are dropped, none is woken.
    fn threads007(workers: usize) {
        const TASKS: usize = 5_000;
        let (waiting, gone) = (Arc::new(Count::new()), Arc::new(Count::new()));
        let (sender, receiver) = oneshot::channel::<()>();
        let receiver = receiver.shared();
        let runtime = runtime(workers);
        for _ in 0..TASKS {
            let (receiver, waiting, gone) = (receiver.clone(), waiting.clone(), gone.clone());
            let end = OnDrop(move || gone.add());
            drop(runtime.handle().spawn(async move {
                let _end = end;
                waiting.add();
                let _ = receiver.await;
                unreachable!("nothing is sent before the end");
            }));
        }
        waiting.wait_for(TASKS);
        drop(runtime);
        assert_eq!(gone.get(), TASKS);
        drop(sender);
    }
}
