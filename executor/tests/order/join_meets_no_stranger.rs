//! J2: at a join whose branch is not ready, a worker runs nothing but descendants of that branch.
//!
//! So a lock that is held across a join cannot meet itself: the case of rayon #592, where a thread
//! that waits in a join, with a lock in its hands, picks up another job that wants the same lock.
//!
//! It fails when `help` in `fork_join/owner.rs` takes whatever branch is shared, and when `stall`
//! there sleeps with its permit, does not ask anew when it has given that up, or helps while it
//! unwinds.

use crate::common;

use std::{
    cell::Cell,
    hint,
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use common::{Count, Gate, runtime};
use futures::future::join_all;
use ws_executor::{
    join,
    runtime::{Builder, Sysmon},
    spawn,
};

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

    /// Each task marks its thread while it is inside a join; a task or a branch of another that
    /// began there would find the mark.
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

/// Three permits are taken: by a thread at a waiting join, by the thief of its branch, and by
/// another thread that shares one. That is for a thread which has the permit that the first gives
/// up.
#[test]
fn a_waiting_join_leaves_the_branch_of_a_stranger_to_others() {
    #[derive(Default)]
    struct Steps {
        stolen: Gate,
        shared: Gate,
        taken: Gate,
    }
    common::limited(|| {
        let runtime = Builder::new()
            .workers(3)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        let steps = common::forever(Steps::default());
        let stalled = runtime.spawn(async {
            join(
                || steps.shared.pass(),
                || {
                    steps.stolen.open();
                    steps.taken.pass();
                },
            );
            thread::current().id()
        });
        steps.stolen.pass();
        let stranger = runtime.spawn(async {
            let first = || {
                steps.shared.open();
                steps.taken.pass();
            };
            let second = || {
                steps.taken.open();
                thread::current().id()
            };
            join(first, second).1
        });
        runtime.block_on(async {
            assert_ne!(stalled.await.unwrap(), stranger.await.unwrap());
        });
    });
}

/// The thief is held in the branch, and has forked nothing: its owner lets another thread have its
/// permit, and a task runs there.
#[test]
fn a_waiting_join_gives_its_permit_to_another_thread() {
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
                    // This thread sits here; the other one is at a waiting join. Only a third can
                    // run the task.
                    ran.wait_for(1);
                    end.open();
                },
            );
        });
        end.pass();
        assert_eq!(ran.get(), 1);
    });
}

/// The same without the monitor, which takes the permit of a thread that sleeps with it.
#[test]
fn a_waiting_join_gives_its_permit_up_by_itself() {
    common::limited(|| {
        let runtime = Builder::new()
            .workers(2)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        let (begun, ran) = common::forever((Gate::default(), Count::new()));
        let task = runtime.spawn(async move {
            join(
                || begun.pass(),
                || {
                    begun.open();
                    // The second runs next here, so the first is for others.
                    drop(spawn(async { ran.add() }));
                    drop(spawn(async {}));
                    ran.wait_for(1);
                },
            );
        });
        runtime.block_on(task).unwrap();
        assert_eq!(ran.get(), 1);
    });
}

/// Forks until it is true: what waits for a thread that asks is promoted at one of these forks.
fn fork_until(done: &AtomicBool) {
    while !done.load(SeqCst) {
        join(|| (), || ());
    }
}

/// A thread that waits at a waiting join helps, or gives its permit to a thread that asks: so what
/// the thief forks is taken, at every such join. An ask that was forgotten left the thief alone for
/// good.
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

/// A thread that unwinds helps nobody, so nobody has asked the thief when its permit comes free.
#[test]
fn what_a_thief_forks_is_taken_while_the_owner_unwinds() {
    common::limited(|| {
        common::listen_to_panics();
        let runtime = Builder::new()
            .workers(2)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        let (begun, taken) = common::forever((Gate::default(), AtomicBool::new(false)));
        let task = runtime.spawn(async {
            let unwinds = || {
                begun.pass();
                panic_any("expected: beside a thief");
            };
            let stolen = || {
                // Whoever has asked so far is answered.
                join(|| (), || ());
                begun.open();
                join(|| fork_until(taken), || taken.store(true, SeqCst));
            };
            catch_unwind(AssertUnwindSafe(|| join(unwinds, stolen))).is_err()
        });
        assert!(runtime.block_on(task).unwrap());
    });
}

/// A thread whose first branch panicked waits for the second one, and helps with nothing: what it
/// ran could not unwind.
#[test]
fn one_that_unwinds_runs_no_branch() {
    common::limited(|| {
        common::listen_to_panics();
        let runtime = runtime(2);
        for _ in 0..common::scaled(20) {
            let begun = Gate::default();
            let ran = Mutex::new(None);
            let first = || {
                begun.pass();
                panic_any("expected: in the first branch");
            };
            let second = || {
                begun.open();
                let own = thread::current().id();
                // Until another thread has a branch of this one.
                loop {
                    let moment = || (0..1000).for_each(|_| hint::spin_loop());
                    let by = || (thread::current().id(), thread::panicking());
                    let ((), (by, panicking)) = join(moment, by);
                    if by != own {
                        *ran.lock().unwrap() = Some(panicking);
                        return;
                    }
                }
            };
            let result = runtime.block_on(async {
                catch_unwind(AssertUnwindSafe(|| join(first, second))).map(drop)
            });
            assert!(result.is_err());
            assert_eq!(
                ran.into_inner().unwrap(),
                Some(false),
                "run while it unwinds"
            );
        }
    });
}
