//! J6: `compute` runs a computation beside the tasks of its caller's worker. Dropped, it is
//! cancelled at its forks, and nothing that it uses is freed before its end.
//!
//! A computation that is not cancelled goes on for ever here: seen with a `scope` that begins
//! whether somebody asked or not, with `come_by_between_jobs` in `fork_join/owner.rs` without its
//! look at the mark, and with a `check` that does not ask again. One that has not begun begins if
//! the drop of the future aborts no task.

use crate::common;

use std::{
    future::Future,
    panic::catch_unwind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Waker},
};

use common::{Count, Gate, OnDrop, runtime};
use futures::{FutureExt, channel::oneshot};
use ws_executor::{
    Scope, compute, join,
    runtime::{Builder, Sysmon},
    scope, spawn,
};

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// Ends only by being cancelled.
fn for_ever(depth: usize, alive: &AtomicUsize) {
    alive.fetch_add(1, SeqCst);
    let _ended = OnDrop(|| {
        alive.fetch_sub(1, SeqCst);
    });
    loop {
        if depth == 0 {
            join(|| (), || ());
        } else {
            join(|| for_ever(depth - 1, alive), || for_ever(depth - 1, alive));
        }
    }
}

/// Begins a computation and drops it, when it has said that it is in the middle; ends when the
/// computation has. It gets that to say, and a gate that opens when it is cancelled.
fn cancel_in_the_middle(workers: usize, computation: fn(&Gate, &Gate)) {
    let runtime = runtime(workers);
    let ended = Arc::new(Count::new());
    let (begun, cancelled) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
    let inner = (ended.clone(), begun.clone(), cancelled.clone());
    let future = compute(move || {
        let (ended, begun, cancelled) = inner;
        let _ended = OnDrop(|| ended.add());
        computation(&begun, &cancelled);
    });
    let mut future = Box::pin(future);
    {
        let _inside = runtime.enter();
        let polled = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    }
    begun.pass();
    drop(future);
    cancelled.open();
    ended.wait_for(1);
}

common::with_workers! {
    fn the_ask_of_a_drop_is_not_lost_in_a_spawn(workers: usize) {
        cancel_in_the_middle(workers, |begun, cancelled| {
            scope(|scope| {
                // The first one answers the ask of the scope itself.
                scope.spawn(|_| ());
                begun.open();
                cancelled.pass();
                scope.spawn(|_| ());
                loop {
                    join(|| (), || ());
                }
            });
        });
    }

    fn scopes_end_when_it_is_dropped(workers: usize) {
        cancel_in_the_middle(workers, |begun, _| {
            loop {
                scope(|scope| scope.spawn(|_| begun.open()));
            }
        });
    }

    // Fails, by a hang, if a stolen branch does not run `within` its computation (`run_stolen` in
    // `fork_join/owner.rs`).
    fn a_stolen_branch_ends_when_it_is_dropped(workers: usize) {
        cancel_in_the_middle(workers, |begun, cancelled| {
            scope(|scope| {
                scope.spawn(|_| {
                    begun.open();
                    cancelled.pass();
                    loop {
                        join(|| (), || ());
                    }
                });
                // Another thread has to take it.
                begun.pass();
            });
        });
    }

    fn a_chain_of_branches_ends_when_it_is_dropped(workers: usize) {
        fn link<'scope>(scope: &Scope<'scope>) {
            join(|| (), || ());
            scope.spawn(link);
        }
        cancel_in_the_middle(workers, |begun, _| {
            scope(|scope| {
                scope.spawn(link);
                scope.spawn(link);
                // The newest, so it is begun where there is one worker.
                scope.spawn(|_| begun.open());
            });
        });
    }

    fn the_ask_of_a_drop_is_not_lost_if_its_panic_is_caught(workers: usize) {
        cancel_in_the_middle(workers, |begun, cancelled| {
            begun.open();
            cancelled.pass();
            let caught = catch_unwind(|| join(|| (), || ()));
            assert!(caught.is_err());
            loop {
                join(|| (), || ());
            }
        });
    }

    fn it_gives_the_result(workers: usize) {
        let runtime = runtime(workers);
        assert_eq!(runtime.block_on(compute(|| fib(15))).unwrap(), 610);
        let task = runtime.spawn(async { compute(|| fib(15)).await.unwrap() });
        assert_eq!(runtime.block_on(task).unwrap(), 610);
    }

    fn a_panic_is_in_the_error(workers: usize) {
        common::listen_to_panics();
        let runtime = runtime(workers);
        let error = runtime.block_on(compute(|| {
            join(fib_10, || panic!("expected: in a computation")).0
        }));
        assert!(error.unwrap_err().is_panic());

        fn fib_10() -> u64 {
            fib(10)
        }
    }

    fn tasks_of_its_worker_go_on(workers: usize) {
        let runtime = runtime(workers);
        let gate = Arc::new(Gate::default());
        let inner = gate.clone();
        runtime.block_on(runtime.spawn(async move {
            // On this worker's queue, behind the computation or before it.
            let task = spawn(async move { inner.open() });
            compute(move || while !gate.is_open() { fib(10); }).await.unwrap();
            task.await.unwrap();
        })).unwrap();
    }

    fn a_drop_cancels_it_at_its_forks(workers: usize) {
        let runtime = runtime(workers);
        let alive = common::forever(AtomicUsize::new(0));
        let (begun, has_begun) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        runtime.block_on(async {
            let mut ended = Some(ended);
            let last = OnDrop(move || {
                let still_alive = alive.load(SeqCst);
                ended.take().unwrap().send(still_alive).unwrap();
            });
            let computation = compute(move || {
                let _last = last;
                begun.send(()).unwrap();
                for_ever(4, alive);
            });
            // The one that is dropped is the computation.
            let begun = futures::future::select(Box::pin(computation), has_begun).await;
            assert!(matches!(begun, futures::future::Either::Right(_)));
            drop(begun);
            // What it owns is dropped when none of its branches runs any more.
            assert_eq!(has_ended.await.unwrap(), 0);
        });
    }

    /// Dropped while it waits for a worker, it never begins, and what it owns is dropped.
    fn one_that_waits_does_not_begin(workers: usize) {
        // Without a monitor nobody takes a permit from a taker.
        let runtime = Builder::new().workers(workers).sysmon(Sysmon::Off).build().unwrap();
        let (gate, takers) = common::take_all_permits(&runtime, workers);
        let (ran, dropped) = (Arc::new(Count::new()), Arc::new(Count::new()));
        let (runs, drops) = (ran.clone(), dropped.clone());
        let owned = OnDrop(move || drops.add());
        let mut future = Box::pin(compute(move || {
            let _owned = &owned;
            runs.add();
        }));
        {
            let _inside = runtime.enter();
            let mut cx = Context::from_waker(Waker::noop());
            assert!(future.as_mut().poll(&mut cx).is_pending());
        }
        drop(future);
        gate.open();
        dropped.wait_for(1);
        assert_eq!(ran.get(), 0);
        takers.into_iter().for_each(|taker| runtime.block_on(taker).unwrap());
    }

    fn one_that_is_dropped_early_does_not_begin(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(async {
            drop(compute(|| unreachable!("nobody polled it")));
        });
        let done = runtime.block_on(async { compute(|| scope(|_| 1)).boxed().await });
        assert_eq!(done.unwrap(), 1);
    }
}
