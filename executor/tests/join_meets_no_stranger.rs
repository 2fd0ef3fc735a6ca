//! J2: at a join whose branch is not ready, a worker runs nothing but descendants of that branch.
//!
//! So a lock that is held across a join cannot meet itself: the case of rayon #592, where a thread that
//! waits in a join, with a lock in its hands, picks up another job that wants the same lock.

mod common;

use std::{
    cell::Cell,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use common::{Count, Gate, runtime};
use futures::future::join_all;
use ws_executor::join;

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

common::with_workers! {
    fn a_lock_that_is_held_across_a_join_is_not_met_again(workers: usize) {
        fn locked(lock: &Mutex<u64>) {
            let mut sum = lock.lock().unwrap();
            let (a, b) = join(|| fib(10), || fib(11));
            *sum += a + b;
        }
        let runtime = runtime(workers);
        let lock = common::forever(Mutex::new(0));
        runtime.block_on(async {
            let tasks: Vec<_> = (0..100).map(|_| ws_executor::spawn(async { locked(lock) })).collect();
            for task in join_all(tasks).await {
                task.unwrap();
            }
        });
        // And as branches of one another, which is where rayon hangs.
        fn tree(lock: &Mutex<u64>, depth: usize) {
            if depth == 0 {
                locked(lock);
            } else {
                join(|| tree(lock, depth - 1), || tree(lock, depth - 1));
            }
        }
        runtime.block_on(async { tree(lock, 6) });
        assert_eq!(*lock.lock().unwrap(), 164 * (55 + 89));
    }

    /// Each task marks its thread while it is inside a join; a task or a branch of another that began
    /// there would find the mark.
    fn no_task_runs_inside_a_join(workers: usize) {
        thread_local! {
            static INSIDE: Cell<usize> = const { Cell::new(0) };
        }
        let runtime = runtime(workers);
        let met = common::forever(AtomicUsize::new(0));
        runtime.block_on(async {
            let tasks: Vec<_> = (1..=50)
                .map(|task| {
                    ws_executor::spawn(async move {
                        fn branch(task: usize, depth: usize, met: &AtomicUsize) {
                            let before = INSIDE.replace(task);
                            if before != 0 && before != task {
                                met.fetch_add(1, SeqCst);
                            }
                            if depth > 0 {
                                join(
                                    || branch(task, depth - 1, met),
                                    || branch(task, depth - 1, met),
                                );
                            }
                            INSIDE.set(before);
                        }
                        branch(task, 8, met);
                    })
                })
                .collect();
            for task in join_all(tasks).await {
                task.unwrap();
            }
        });
        assert_eq!(met.load(SeqCst), 0);
    }
}

/// The thief is held in the branch, and has forked nothing: its owner lets another thread have its
/// permit, and a task runs there.
#[test]
fn a_stalled_join_gives_its_permit_to_another_thread() {
    common::limited(|| {
        let runtime = runtime(2);
        let (begun, end) = (Gate::default(), Gate::default());
        let ran = common::forever(Count::new());
        runtime.block_on(async {
            // Into this thread's own queue: nobody else polls it while two permits are taken.
            join(
                || begun.pass(),
                || {
                    begun.open();
                    ws_executor::spawn(async { ran.add() });
                    // This thread sits here; the other one is stalled. Only a third can run the task.
                    ran.wait_for(1);
                    end.open();
                },
            );
        });
        end.pass();
        assert_eq!(ran.get(), 1);
    });
}

/// Forks until it is true: what waits for somebody hungry is promoted at one of these forks.
fn fork_until(done: &AtomicBool) {
    while !done.load(SeqCst) {
        join(|| (), || ());
    }
}

/// Who waits at a stalled join helps, or gives its permit to somebody who asks: so what the thief forks is taken,
/// at every such join. An ask that was forgotten left the thief alone for good.
#[test]
fn what_a_thief_forks_is_taken_while_the_owner_waits() {
    common::limited(|| {
        runtime(2).block_on(async {
            for _ in 0..500 {
                let (taken, helped) = (AtomicBool::new(false), AtomicBool::new(false));
                join(
                    || fork_until(&taken),
                    || {
                        taken.store(true, SeqCst);
                        join(|| fork_until(&helped), || helped.store(true, SeqCst));
                    },
                );
            }
        });
    });
}
