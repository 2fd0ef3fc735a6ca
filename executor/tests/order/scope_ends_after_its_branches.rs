//! J5: a `scope` ends after everything that was spawned in it, from wherever, and a panic reaches
//! its caller then. J2: while it waits, nothing foreign runs on its thread.
//!
//! It fails when `drain` in `fork_join/scope.rs` does not wait for branches that are out, when
//! `fail` in `fork_join/scope.rs` keeps no panic, and when `take_newest_of` in `branch/jobs.rs`
//! does not ask to which scope a job belongs.

use crate::common;

use std::{
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use common::{Gate, listen_to_panics, runtime};
use ws_executor::{Scope, join, scope};

fn tree<'scope>(scope: &Scope<'scope>, depth: usize, leaves: &'scope AtomicUsize) {
    if depth == 0 {
        leaves.fetch_add(1, SeqCst);
        return;
    }
    for _ in 0..2 {
        scope.spawn(move |scope| tree(scope, depth - 1, leaves));
    }
}

common::with_workers! {
    fn all_branches_have_ended(workers: usize) {
        let runtime = runtime(workers);
        for _ in 0..20 {
            let mut touched = vec![0; 1000];
            let leaves = AtomicUsize::new(0);
            runtime.block_on(async {
                scope(|scope| {
                    for number in &mut touched {
                        scope.spawn(|_| *number += 1);
                    }
                });
                scope(|scope| tree(scope, 10, &leaves));
            });
            assert!(touched.iter().all(|&number| number == 1));
            assert_eq!(leaves.into_inner(), 1024);
        }
    }

    fn from_inside_joins_and_other_scopes(workers: usize) {
        let runtime = runtime(workers);
        for _ in 0..50 {
            let ran = AtomicUsize::new(0);
            let count = |_: &Scope<'_>| { ran.fetch_add(1, SeqCst); };
            runtime.block_on(async {
                scope(|outer| {
                    outer.spawn(count);
                    join(|| outer.spawn(count), || outer.spawn(count));
                    scope(|inner| {
                        inner.spawn(count);
                        outer.spawn(count);
                        inner.spawn(count);
                        join(|| outer.spawn(count), || inner.spawn(count));
                        inner.spawn(|_| outer.spawn(count));
                    });
                    outer.spawn(|own| {
                        own.spawn(count);
                        join(|| own.spawn(count), || own.spawn(count));
                        own.spawn(count);
                    });
                });
            });
            assert_eq!(ran.into_inner(), 13);
        }
    }

    fn a_panic_reaches_the_caller_after_the_others(workers: usize) {
        listen_to_panics();
        let runtime = runtime(workers);
        for _ in 0..20 {
            let ran = AtomicUsize::new(0);
            let result = runtime.block_on(async {
                catch_unwind(AssertUnwindSafe(|| {
                    scope(|scope| {
                        for number in 0..20 {
                            let ran = &ran;
                            scope.spawn(move |_| {
                                ran.fetch_add(1, SeqCst);
                                if number == 7 {
                                    panic_any("expected: in a branch");
                                }
                            });
                        }
                    });
                }))
            });
            assert_eq!(result.unwrap_err().downcast_ref(), Some(&"expected: in a branch"));
            assert_eq!(ran.into_inner(), 20);
            let ran = AtomicUsize::new(0);
            let result = runtime.block_on(async {
                catch_unwind(AssertUnwindSafe(|| {
                    scope(|scope| {
                        scope.spawn(|_| {
                            ran.fetch_add(1, SeqCst);
                            panic_any("expected: in a branch too");
                        });
                        panic_any("expected: in the closure");
                    });
                }))
            });
            assert_eq!(result.unwrap_err().downcast_ref(), Some(&"expected: in the closure"));
            assert_eq!(ran.into_inner(), 1);
        }
    }

    /// A branch of the outer scope wants the lock that is held across the inner one.
    fn an_enclosing_scope_does_not_run_inside(workers: usize) {
        let runtime = runtime(workers);
        let lock = Mutex::new(0);
        runtime.block_on(async {
            for _ in 0..50 {
                scope(|outer| {
                    let held = lock.lock().unwrap();
                    scope(|inner| {
                        outer.spawn(|_| *lock.lock().unwrap() += 1);
                        inner.spawn(|_| ());
                        outer.spawn(|_| *lock.lock().unwrap() += 1);
                        inner.spawn(|_| ());
                    });
                    drop(held);
                });
            }
        });
        assert_eq!(lock.into_inner().unwrap(), 100);
    }

    fn on_a_thread_that_entered_a_runtime(workers: usize) {
        let runtime = runtime(workers);
        let _entered = runtime.enter();
        let leaves = AtomicUsize::new(0);
        scope(|scope| tree(scope, 6, &leaves));
        assert_eq!(leaves.into_inner(), 64);
    }
}

/// The oldest branch is taken by another worker, and its scope waits for it.
#[test]
fn it_waits_for_a_branch_that_was_stolen() {
    common::limited(|| {
        let runtime = runtime(2);
        let (taken, own, ended) = (Gate::default(), Gate::default(), AtomicUsize::new(0));
        runtime.block_on(async {
            scope(|scope| {
                scope.spawn(|_| {
                    taken.open();
                    own.pass();
                    ended.fetch_add(1, SeqCst);
                });
                taken.pass();
                scope.spawn(|_| own.open());
            });
            assert_eq!(ended.load(SeqCst), 1);
        });
    });
}
