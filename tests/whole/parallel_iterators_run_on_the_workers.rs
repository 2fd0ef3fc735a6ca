//! J5, J6: the parallel iterators of orx-parallel run on the workers of a runtime: everything once,
//! borrowing from the stack, from tasks, computations and plain threads; the tasks of the runtime
//! go on meanwhile; and a panic reaches the caller.
//!
//! It fails when `Scope::run` in `src/parallel.rs` runs the work at once, and when `fail` in
//! `fork_join/scope.rs` keeps no panic. It hangs when the monitor (`monitor.rs`) takes no
//! permit from a computation that forks. The one that is dropped fails when no fork looks at the
//! cancel flag (`check` in `branch/compute.rs`), and when a scope unwinds between two of its
//! branches.

use crate::net_support;

use std::{
    collections::HashSet,
    future::Future,
    hint,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Barrier, Mutex,
        atomic::{
            AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
        mpsc,
    },
    task::{Context, Waker},
    thread,
    time::Duration,
};

use net_support::{Limit, WORKERS, runtime};
use orx_parallel::*;
use ws::parallel::Workers;

/// Each number of a slice that is borrowed, once.
fn once_each(workers: &Workers) {
    let seen: Vec<AtomicUsize> = (0..10_000).map(|_| AtomicUsize::new(0)).collect();
    seen.par()
        .runner(Runner::fixed_with_pool(workers))
        .for_each(|count| {
            count.fetch_add(1, Relaxed);
        });
    assert!(seen.iter().all(|count| count.load(Relaxed) == 1));
    let sum = seen
        .par()
        .runner(Runner::fixed_with_pool(workers))
        .map(|count| count.load(Relaxed))
        .reduce(|a, b| a + b);
    assert_eq!(sum, Some(10_000));
}

#[test]
fn every_item_is_seen_once() {
    let _limit = Limit::new(2);
    for workers in WORKERS {
        let runtime = runtime(workers);
        let pool = Workers::of(runtime.handle());
        assert_eq!(pool.max_num_threads().get(), workers);
        // On a plain thread, in a `block_on`, in a task, in a computation.
        once_each(&pool);
        runtime.block_on(async {
            once_each(&Workers::current());
            let task = ws::spawn(async { once_each(&Workers::current()) });
            task.await.expect("it does not panic");
            let computation = ws::compute(|| once_each(&Workers::current()));
            computation.await.expect("it does not panic");
        });
    }
}

#[test]
fn two_workers_share_the_items() {
    let _limit = Limit::new(2);
    let runtime = runtime(2);
    runtime.block_on(async {
        let (both, names) = (Barrier::new(2), Mutex::new(HashSet::new()));
        // Each waits for the other, so one thread alone would wait for ever.
        (0..2)
            .par()
            .runner(Runner::fixed_with_pool(Workers::current()))
            .chunk_size(1)
            .for_each(|_| {
                both.wait();
                names.lock().unwrap().insert(thread::current().id());
            });
        assert_eq!(names.into_inner().unwrap().len(), 2);
    });
}

/// So many steps of a task the iterator waits for, with a timer in each.
const STEPS: usize = 20;

/// Its first item spawns a task, and each computes until that has ended.
fn computes_until_a_task_has_ended() {
    let left = &Arc::new(AtomicUsize::new(STEPS));
    (0..100)
        .par()
        .runner(Runner::fixed_with_pool(Workers::current()))
        .chunk_size(1)
        .for_each(|item| {
            if item == 0 {
                let left = left.clone();
                drop(ws::spawn(async move {
                    for _ in 0..STEPS {
                        ws::time::sleep(Duration::from_micros(100)).await;
                        ws::task::yield_now().await;
                        left.fetch_sub(1, Relaxed);
                    }
                }));
            }
            while left.load(Relaxed) > 0 {
                hint::spin_loop();
            }
        });
}

#[test]
fn the_tasks_of_the_runtime_go_on_meanwhile() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let runtime = runtime(workers);
        runtime.block_on(async {
            let task = ws::spawn(async { computes_until_a_task_has_ended() });
            task.await.expect("it does not panic");
            let computation = ws::compute(computes_until_a_task_has_ended);
            computation.await.expect("it does not panic");
        });
    }
}

#[test]
fn a_computation_that_is_dropped_ends_after_its_iterator() {
    const ITEMS: usize = 1000;
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let runtime = runtime(workers);
        let [seen, begun, dropped] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let inner = [&seen, &begun, &dropped].map(Arc::clone);
        // Gone when the computation has ended.
        let (goes_on, ended) = mpsc::channel();
        let iterates = move || {
            let [seen, begun, dropped] = &inner;
            (0..ITEMS)
                .par()
                .runner(Runner::fixed_with_pool(Workers::current()))
                .chunk_size(1)
                .for_each(|_| {
                    begun.store(1, Relaxed);
                    while dropped.load(SeqCst) == 0 {
                        thread::yield_now();
                    }
                    seen.fetch_add(1, Relaxed);
                });
            once_each(&Workers::current());
            goes_on.send("the next iterator begins").unwrap();
        };
        let inside = runtime.enter();
        let mut computation = Box::pin(ws::compute(iterates));
        let polled = computation
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        while begun.load(Relaxed) == 0 {
            thread::yield_now();
        }
        drop(computation);
        drop(inside);
        dropped.store(1, SeqCst);
        assert_eq!(ended.recv(), Err(mpsc::RecvError));
        assert_eq!(seen.load(Relaxed), ITEMS);
    }
}

#[test]
fn a_panic_reaches_the_caller() {
    let _limit = Limit::new(2);
    let runtime = runtime(2);
    runtime.block_on(async {
        let result = catch_unwind(AssertUnwindSafe(|| {
            (0..1000)
                .par()
                .runner(Runner::fixed_with_pool(Workers::current()))
                .for_each(|number| {
                    assert_ne!(number, 500, "the one that panics");
                });
        }));
        assert!(result.is_err());
        once_each(&Workers::current());
    });
}

#[test]
fn outside_of_a_runtime_there_is_no_pool() {
    assert!(Workers::try_current().is_err());
}
