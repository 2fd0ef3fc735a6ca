//! J4: a forked task runs at once, and its parent is what thieves take: the parent's name is in the
//! thief's log. With one worker the order is that of plain calls.
//!
//! The steps of the walk through fib(4) by continuations, one by one; the whole of it is in
//! `fib_4_as_the_log_tells_it.rs`. They fail when `forked` in `sched/poll.rs` puts the parent
//! before the child.
//!
//! And a child does not wait for the end of the poll that forked it, when that waits for the child
//! or computes on: other threads take it then (I1, I5, L2). Seen to hang when the monitor and
//! thieves look at `runnext` alone.
//!
//! What is dropped in the middle fails when `fork` begins before its first poll, and when its drop
//! aborts the child. The `select!` in random order fails when a fork keeps no handle for its second
//! poll, and when every fork is a spawn.

use crate::common;

use std::{
    future::{Future, pending, poll_fn, ready},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread::{self, ThreadId},
};

use common::{Count, Gate, runtime};
use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use ws_executor::{
    fork, fork_all,
    runtime::{Builder, Handle, Runtime, Sysmon},
    spawn, spawn_local,
    task::yield_now,
};

type Log = Arc<Mutex<Vec<(ThreadId, String)>>>;

fn note(log: &Log, event: String) {
    log.lock().unwrap().push((thread::current().id(), event));
}

fn events(log: &Log) -> Vec<String> {
    log.lock()
        .unwrap()
        .iter()
        .map(|entry| entry.1.clone())
        .collect()
}

fn who(log: &Log, event: &str) -> ThreadId {
    log.lock()
        .unwrap()
        .iter()
        .find(|entry| entry.1 == event)
        .unwrap()
        .0
}

fn fib(log: Log, n: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        note(&log, format!("fib({n})"));
        if n < 2 {
            return n;
        }
        let a = fork(fib(log.clone(), n - 1)).await;
        note(&log, format!("cont. of fib({n})"));
        let b = fib(log, n - 2).await;
        a.await.unwrap() + b
    })
}

#[test]
fn one_worker_runs_fib_4_as_plain_calls_do() {
    fn plain(log: &mut Vec<String>, n: u64) {
        log.push(format!("fib({n})"));
        if n >= 2 {
            plain(log, n - 1);
            log.push(format!("cont. of fib({n})"));
            plain(log, n - 2);
        }
    }
    common::limited(|| {
        let log = Log::default();
        // Without the monitor, which would let others in for a thread that has no core.
        let runtime = Builder::new()
            .workers(1)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        let result = runtime
            .block_on(async { spawn(fib(log.clone(), 4)).await })
            .unwrap();
        let mut expected = Vec::new();
        plain(&mut expected, 4);
        assert_eq!((result, events(&log)), (3, expected));
    });
}

/// Two threads and no third: the monitor would let one in for a thread that is blocked or has no
/// core.
fn two_workers() -> Runtime {
    Builder::new()
        .workers(2)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap()
}

/// The child blocks its thread until its parent has gone on, which it can only elsewhere: the
/// parent is in the thief's log, and the child is where the parent was.
#[test]
fn the_thief_takes_the_parent() {
    common::limited(|| {
        let log = Log::default();
        let runtime = two_workers();
        let events = log.clone();
        let parent = runtime.spawn(async move {
            note(&log, "fib(4)".to_owned());
            let gone_on = Arc::new(Gate::default());
            let child = {
                let (log, gone_on) = (log.clone(), gone_on.clone());
                fork(async move {
                    note(&log, "fib(3)".to_owned());
                    gone_on.pass();
                })
            };
            let child = child.await;
            note(&log, "cont. of fib(4)".to_owned());
            gone_on.open();
            child.await.unwrap();
        });
        runtime.block_on(parent).unwrap();
        assert_eq!(who(&events, "fib(4)"), who(&events, "fib(3)"));
        assert_ne!(who(&events, "fib(4)"), who(&events, "cont. of fib(4)"));
    });
}

/// T2 takes parents from the oldest on, while T1 sits in the deepest child.
#[test]
fn parents_are_stolen_from_the_oldest_on() {
    const DEPTH: usize = 5;
    fn descend(
        depth: usize,
        log: Log,
        all: Arc<common::Count>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            if depth == DEPTH {
                all.wait_for(DEPTH);
                return;
            }
            let child = fork(descend(depth + 1, log.clone(), all.clone())).await;
            note(&log, format!("cont. of {depth}"));
            all.add();
            child.await.unwrap();
        })
    }
    common::limited(|| {
        let (log, all) = (Log::default(), Arc::new(common::Count::new()));
        let runtime = two_workers();
        runtime
            .block_on(runtime.spawn(descend(0, log.clone(), all)))
            .unwrap();
        let expected: Vec<_> = (0..DEPTH)
            .map(|depth| format!("cont. of {depth}"))
            .collect();
        assert_eq!(events(&log), expected);
    });
}

common::with_workers! {
    fn fib_15_is_right(workers: usize) {
        let runtime = runtime(workers);
        let result = runtime.block_on(runtime.spawn(fib(Log::default(), 15)));
        assert_eq!(result.unwrap(), 610);
        // At the root of a `block_on`, and in a pinned task, a fork is a spawn.
        assert_eq!(runtime.block_on(fib(Log::default(), 10)), 55);
        let pinned = runtime.block_on(async { spawn_local(fib(Log::default(), 10)).await });
        assert_eq!(pinned.unwrap(), 55);
    }

    fn inside_any_combinator(workers: usize) {
        let runtime = runtime(workers);
        let task = runtime.spawn(async {
            let (a, b) = futures::join!(fork(async { 1 }), fork(async { 2 }));
            let sum = a.await.unwrap() + b.await.unwrap();
            let (c, d, e) = fork_all!(async { 3 }, async { 4 }, async { 5 });
            let sum = sum + c.await.unwrap() + d.await.unwrap() + e.await.unwrap();
            let mut many: FuturesUnordered<_> = (0..100)
                .map(|number| async move { fork(async move { number }).await.await.unwrap() })
                .collect();
            let mut all = 0;
            while let Some(number) = many.next().await {
                all += number;
            }
            // One that is dropped between its two polls: the child goes on by itself.
            let ran = Arc::new(common::Count::new());
            let counts = ran.clone();
            let mut forked = Box::pin(fork(async move { counts.add() }));
            futures::select_biased! {
                handle = futures::FutureExt::fuse(&mut forked) => { handle.await.unwrap(); }
                () = futures::future::ready(()) => {}
            }
            drop(forked);
            while ran.get() == 0 {
                ws_executor::task::yield_now().await;
            }
            (sum, all)
        });
        assert_eq!(runtime.block_on(task).unwrap(), (15, 4950));
    }

    /// Without the monitor: a thread without a permit spawns, and the first poll is not the middle.
    fn what_is_dropped_in_the_middle_forks_no_more(workers: usize) {
        let runtime = Builder::new().workers(workers).sysmon(Sysmon::Off).build().unwrap();
        let [begun, dropped] = [(); 2].map(|()| Arc::new(Count::new()));
        let (begins, never) = (begun.clone(), dropped.clone());
        let task = runtime.spawn(async move {
            let (second, third) = (never.clone(), never.clone());
            let mut all = Box::pin(async {
                fork_all!(async move { begins.add() }, async move { second.add() })
            });
            assert!(futures::poll!(&mut all).is_pending());
            drop(all);
            drop(fork(async move { third.add() }));
            // A task that begins later would have it.
            assert_eq!(Arc::strong_count(&never), 2);
        });
        runtime.block_on(task).unwrap();
        begun.wait_for(1);
        assert_eq!((dropped.get(), Arc::strong_count(&dropped)), (0, 1));
    }

    fn inside_a_select_in_random_order(workers: usize) {
        const ROUNDS: usize = 300;
        let runtime = runtime(workers);
        let task = runtime.spawn(async {
            let (mut sum, mut others) = (0, [0; 3]);
            for round in 0..ROUNDS {
                let mut forked = fork(async move { round }).fuse();
                // Never ready; ready in the poll that forks, which polls the fork again; woken in
                // that poll, to be ready in the next.
                let other = match round % 3 {
                    0 => pending().boxed(),
                    1 => ready(()).boxed(),
                    _ => yield_now().boxed(),
                };
                let mut other = other.fuse();
                let child = loop {
                    futures::select! {
                        child = forked => break child,
                        () = other => others[round % 3] += 1,
                    }
                };
                // The next one is the first fork of its poll again.
                sum += child.await.unwrap();
            }
            (sum, others)
        });
        let (sum, [never, at_once, later]) = runtime.block_on(task).unwrap();
        assert_eq!((sum, never), (ROUNDS * (ROUNDS - 1) / 2, 0));
        // Either of the two came first in some rounds.
        assert!(at_once > 0 && later > 0 && later < ROUNDS / 3, "{at_once}, {later}");
    }

    /// That poll is another's, and does not take what the fork has left behind for this one.
    fn a_fork_before_a_poll_of_a_pinned_task(workers: usize) {
        let runtime = runtime(workers);
        let task = runtime.spawn(async {
            let mut forked = fork(async { 2 });
            let child = poll_fn(|cx| {
                let child = Pin::new(&mut forked).poll(cx);
                if child.is_pending() {
                    let pinned = spawn_local(async { yield_now().await });
                    Handle::current().block_on(pinned).unwrap();
                }
                child
            });
            child.await.await.unwrap()
        });
        assert_eq!(runtime.block_on(task).unwrap(), 2);
    }

    fn a_poll_that_waits_for_its_child(workers: usize) {
        let runtime = runtime(workers);
        let task = runtime.spawn(async {
            let (ran, child_ran) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
            let opens = child_ran.clone();
            let child = async {
                let child = fork(async move { opens.open() }).await;
                child.await.unwrap();
                ran.open();
            };
            // The second begins in the poll in which the first has forked.
            futures::join!(child, async { child_ran.pass() });
            assert!(ran.is_open());
        });
        runtime.block_on(task).unwrap();
    }

    fn a_foreign_block_on_in_a_poll(workers: usize) {
        let runtime = runtime(workers);
        // It wakes itself and not the task, so the poll goes on.
        let task = runtime.spawn(async {
            common::block_on_elsewhere(async { fork(async { 7 }).await.await.unwrap() })
        });
        assert_eq!(runtime.block_on(task).unwrap(), 7);
    }

    fn a_panic_is_in_the_handle(workers: usize) {
        common::listen_to_panics();
        let runtime = runtime(workers);
        let task = runtime.spawn(async {
            let child = fork(async { panic!("expected: in a fork") }).await;
            let error = child.await.unwrap_err();
            error.is_panic()
        });
        assert!(runtime.block_on(task).unwrap());
    }

    fn a_shutdown_drops_parents_and_children(workers: usize) {
        let runtime = runtime(workers);
        let alive = Arc::new(());
        let inner = alive.clone();
        fn chain(depth: usize, alive: Arc<()>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(async move {
                if depth == 0 {
                    return pending().await;
                }
                let child = fork(chain(depth - 1, alive.clone())).await;
                child.await.unwrap();
                drop(alive);
            })
        }
        drop(runtime.spawn(chain(50, inner)));
        drop(runtime);
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}

/// At the 61st tick a task of the global queue comes before the child that was just forked. That
/// one is not out of sight meanwhile, though the thread does not come back to it.
#[test]
fn a_child_that_has_to_wait_is_in_reach_of_thieves() {
    const CHILDREN: usize = 2_000;
    common::limited(|| {
        let runtime = two_workers();
        let (free, filled) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        let ran: Vec<_> = (0..CHILDREN).map(|_| Gate::default()).collect();
        let (begun, forked) = (Count::new(), AtomicUsize::new(0));
        let counts = Arc::new((begun, forked, ran));
        // One worker is held, and one is about to fork.
        let (held, counted) = (free.clone(), counts.clone());
        drop(runtime.spawn(async move {
            counted.0.add();
            held.pass();
        }));
        let (begins, counted) = (filled.clone(), counts.clone());
        let parent = runtime.spawn(async move {
            counted.0.add();
            begins.pass();
            let mut children = vec![];
            for number in 0..CHILDREN {
                counted.1.fetch_add(1, Relaxed);
                let counted = counted.clone();
                let child = fork(async move {
                    // So that the 61st tick meets now a parent and now a child.
                    if number % 7 == 0 {
                        yield_now().await;
                    }
                    counted.2[number].open();
                });
                children.push(child.await);
            }
            for child in children {
                child.await.unwrap();
            }
        });
        counts.0.wait_for(2);
        let waited = Arc::new(AtomicUsize::new(0));
        let blockers: Vec<_> = (0..20)
            .map(|_| {
                let (free, counts, waited) = (free.clone(), counts.clone(), waited.clone());
                runtime.spawn(async move {
                    let newest = counts.1.load(Relaxed).saturating_sub(1);
                    // Only the first one that comes before a child, and while the other worker is
                    // held.
                    if !free.is_open() && !counts.2[newest].is_open() && newest % 7 != 0 {
                        waited.fetch_add(1, Relaxed);
                        free.open();
                        counts.2[newest].pass();
                    }
                })
            })
            .collect();
        filled.open();
        runtime.block_on(async {
            parent.await.unwrap();
            for blocker in blockers {
                blocker.await.unwrap();
            }
        });
        free.open();
        assert_eq!(waited.load(Relaxed), 1, "the 61st tick met no child");
    });
}

#[test]
#[should_panic(expected = "outside of a ws runtime")]
fn a_fork_all_outside_of_a_runtime_panics() {
    common::block_on_elsewhere(async { fork_all!(async {}) });
}
