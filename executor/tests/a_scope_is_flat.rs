//! J1: the branches of a scope are jobs. Any idle worker sees them at once, whoever spawned them and from wherever, and no
//! branch runs on top of another one's stack frame. J5: the scope ends after all of them.
//!
//! It fails when a branch runs what it has spawned before it ends (`run` in `fork_join/scope.rs`), when `spawn` wakes nobody,
//! and when the owner of a scope does not look at other workers' lists before it sleeps.

mod common;

use std::sync::{
    Barrier,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use common::{Gate, runtime, scaled};
use ws_executor::{Scope, join, scope};

/// Each branch spawns the next one.
fn chain<'scope>(scope: &Scope<'scope>, left: usize, ran: &'scope AtomicUsize) {
    ran.fetch_add(1, SeqCst);
    if left > 0 {
        scope.spawn(move |scope| chain(scope, left - 1, ran));
    }
}

common::with_workers! {
    fn a_chain_of_branches_needs_no_stack(workers: usize) {
        let links = scaled(200_000);
        let ran = AtomicUsize::new(0);
        runtime(workers).block_on(async { scope(|scope| chain(scope, links, &ran)) });
        assert_eq!(ran.into_inner(), links + 1);
    }

    fn a_wide_scope_needs_no_stack(workers: usize) {
        let branches = scaled(200_000);
        let ran = AtomicUsize::new(0);
        runtime(workers).block_on(async {
            scope(|scope| {
                for _ in 0..branches {
                    scope.spawn(|_| _ = ran.fetch_add(1, SeqCst));
                }
            });
        });
        assert_eq!(ran.into_inner(), branches);
    }
}

#[test]
fn branches_wait_for_each_other() {
    common::limited(|| {
        const BRANCHES: usize = 4;
        let runtime = runtime(BRANCHES);
        for _ in 0..scaled(100) {
            let barrier = Barrier::new(BRANCHES);
            runtime.block_on(async {
                scope(|scope| {
                    for _ in 0..BRANCHES {
                        scope.spawn(|_| _ = barrier.wait());
                    }
                });
            });
        }
    });
}

#[test]
fn those_of_a_branch_wait_for_each_other() {
    common::limited(|| {
        const BRANCHES: usize = 4;
        let runtime = runtime(BRANCHES);
        for _ in 0..scaled(100) {
            let barrier = Barrier::new(BRANCHES);
            let barrier = &barrier;
            runtime.block_on(async {
                scope(|scope| {
                    scope.spawn(move |scope| {
                        for _ in 0..BRANCHES {
                            scope.spawn(move |_| _ = barrier.wait());
                        }
                    });
                });
            });
        }
    });
}

/// While the closure goes on, other workers run what it has spawned, from inside of whatever.
#[test]
fn a_branch_is_seen_at_once() {
    common::limited(|| {
        let runtime = runtime(2);
        for _ in 0..scaled(20) {
            let gates: [Gate; 3] = Default::default();
            let [closure, inside_join, inside_scope] = &gates;
            runtime.block_on(async {
                scope(|outer| {
                    outer.spawn(|_| closure.open());
                    closure.pass();
                    join(
                        || {
                            outer.spawn(|_| inside_join.open());
                            inside_join.pass();
                        },
                        || (),
                    );
                    scope(|_| {
                        outer.spawn(|_| inside_scope.open());
                        inside_scope.pass();
                    });
                });
            });
        }
    });
}

/// One of four workers' branches blocks; the three others have the rest.
#[test]
fn a_branch_that_blocks_holds_up_no_other() {
    common::limited(|| {
        const BRANCHES: usize = 1000;
        let runtime = runtime(4);
        let (ended, all) = (common::Count::new(), Gate::default());
        runtime.block_on(async {
            scope(|scope| {
                for _ in 1..BRANCHES {
                    scope.spawn(|_| ended.add());
                }
                // The newest, so it runs here.
                scope.spawn(|_| {
                    ended.wait_for(BRANCHES - 1);
                    all.open();
                });
            });
        });
        all.pass();
    });
}
