//! J5: a `join` ends after both of its branches, also if one panics, and the panic reaches its
//! caller.
//!
//! It fails when `Abandon` in `fork_join/steps.rs` does not wait for a branch that is out, forgets
//! one that nobody has begun, drops it before the panic goes on, or lets the panic of a destructor
//! out.

use crate::common;

use std::{
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread,
};

use common::{Gate, OnDrop, listen_to_panics, runtime};
use ws_executor::{
    join,
    runtime::{Builder, Runtime, Sysmon},
};

fn message(result: Result<(), Box<dyn std::any::Any + Send>>) -> &'static str {
    result.unwrap_err().downcast_ref::<&'static str>().unwrap()
}

fn caught(f: impl FnOnce()) -> &'static str {
    message(catch_unwind(AssertUnwindSafe(f)))
}

common::with_workers! {
    fn the_panic_of_either_branch_reaches_the_caller(workers: usize) {
        listen_to_panics();
        let runtime = runtime(workers);
        runtime.block_on(async {
            for _ in 0..100 {
                let first = caught(|| { join(|| panic_any("expected: first"), || ()); });
                let second = caught(|| { join(|| (), || panic_any("expected: second")); });
                let both = caught(|| {
                    join(|| panic_any("expected: a"), || panic_any("expected: b"));
                });
                assert_eq!((first, second, both), ("expected: first", "expected: second", "expected: a"));
            }
        });
        // The deque is in order afterwards.
        assert_eq!(runtime.block_on(async { join(|| 1, || 2) }), (1, 2));
    }

    fn a_panic_deep_in_a_tree_ends_all_of_it(workers: usize) {
        listen_to_panics();
        static ALIVE: AtomicUsize = AtomicUsize::new(0);
        fn tree(depth: usize, path: usize) {
            ALIVE.fetch_add(1, SeqCst);
            let _ended = OnDrop(|| { ALIVE.fetch_sub(1, SeqCst); });
            if depth == 0 {
                if path == 0b101_1010 {
                    panic_any("expected: a leaf");
                }
                return;
            }
            join(|| tree(depth - 1, path << 1), || tree(depth - 1, path << 1 | 1));
        }
        runtime(workers).block_on(async {
            for _ in 0..50 {
                assert_eq!(caught(|| tree(7, 0)), "expected: a leaf");
            }
        });
    }

    fn a_branch_that_did_not_begin_is_dropped(workers: usize) {
        listen_to_panics();
        let runtime = runtime(workers);
        for _ in 0..100 {
            let dropped = AtomicUsize::new(0);
            let count = OnDrop(|| { dropped.fetch_add(1, SeqCst); });
            let message = runtime.block_on(async {
                caught(|| { join(|| panic_any("expected: early"), move || drop(count)); })
            });
            assert_eq!((message, dropped.load(SeqCst)), ("expected: early", 1));
        }
    }
}

/// A thread that computes alone keeps its permit, also where the monitor would take it for one that
/// blocks.
fn alone() -> Runtime {
    Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap()
}

/// What the second branch would have had is dropped by a thread that panics, so a guard there sees
/// that it is not as it should be: whether others may take that branch, as they may the first one
/// of a `block_on`, or not.
#[test]
fn a_branch_that_did_not_begin_is_dropped_in_a_panic() {
    listen_to_panics();
    for others_may_take_it in [true, false] {
        let panics = AtomicUsize::new(0);
        let guard = OnDrop(|| {
            panics.fetch_add(usize::from(thread::panicking()), SeqCst);
        });
        let message = alone().block_on(async {
            if !others_may_take_it {
                join(|| (), || ());
            }
            caught(|| {
                join(|| panic_any("expected: early"), move || drop(guard));
            })
        });
        assert_eq!((message, panics.load(SeqCst)), ("expected: early", 1));
    }
}

/// So is what it has returned.
#[test]
fn the_result_of_a_branch_that_was_stolen_is_dropped_in_a_panic() {
    common::limited(|| {
        listen_to_panics();
        let (begun, panics) = (Gate::default(), AtomicUsize::new(0));
        let guard = OnDrop(|| {
            panics.fetch_add(usize::from(thread::panicking()), SeqCst);
        });
        let message = runtime(2).block_on(async {
            caught(|| {
                join(
                    || {
                        begun.pass();
                        panic_any("expected: beside a thief");
                    },
                    || {
                        begun.open();
                        guard
                    },
                );
            })
        });
        assert_eq!(
            (message, panics.load(SeqCst)),
            ("expected: beside a thief", 1)
        );
    });
}

common::with_workers! {
    /// The second branch panics: nobody gets what the first one returned, and it is dropped, once.
    ///
    /// Fails if the result of the first is forgotten then (`First` in `fork_join/steps.rs` without
    /// its `Drop`).
    fn the_result_of_the_other_branch_is_dropped(workers: usize) {
        listen_to_panics();
        runtime(workers).block_on(async {
            let dropped = AtomicUsize::new(0);
            let result = || OnDrop(|| { dropped.fetch_add(1, SeqCst); });
            let message = caught(|| { join(result, || panic_any("expected: late")); });
            assert_eq!((message, dropped.load(SeqCst)), ("expected: late", 1));
            let (first, second) = join(result, result);
            assert_eq!(dropped.load(SeqCst), 1, "they are alive");
            drop((first, second));
            assert_eq!(dropped.load(SeqCst), 3);
        });
    }
}

/// The first branch panics while the second runs elsewhere: the caller sees the panic when that has
/// ended.
#[test]
fn the_caller_sees_a_panic_after_the_other_branch_has_ended() {
    common::limited(|| {
        listen_to_panics();
        let (begun, ended) = (Gate::default(), AtomicBool::new(false));
        runtime(2).block_on(async {
            let message = caught(|| {
                join(
                    || {
                        begun.pass();
                        panic_any("expected: beside a branch");
                    },
                    || {
                        begun.open();
                        // The panic has begun when its message was heard.
                        while common::panics_of("expected: beside a branch") == 0
                            && common::panics_of("expected: not text") == 0
                        {
                            std::thread::yield_now();
                        }
                        ended.store(true, SeqCst);
                        panic_any("expected: second to panic");
                    },
                );
            });
            assert!(ended.load(SeqCst), "its frame was left before");
            assert_eq!(message, "expected: beside a branch");
        });
    });
}

#[test]
fn a_destructor_that_panics_after_a_panic_does_not_abort() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic_any("expected: in drop");
        }
    }
    common::limited(|| {
        listen_to_panics();
        let begun = Gate::default();
        let message = runtime(2).block_on(async {
            caught(|| {
                join(
                    || {
                        begun.pass();
                        panic_any("expected: before");
                    },
                    || {
                        begun.open();
                        Bomb
                    },
                );
            })
        });
        assert_eq!(message, "expected: before");
    });
}
