//! J1: the branches of a scope are jobs. Any idle worker sees them at once, whoever spawned them
//! and from wherever, and no branch runs on top of another one's stack frame. J5: the scope ends
//! after all of them.
//!
//! It fails when a branch runs what it has spawned before it ends (`run` in `fork_join/scope.rs`),
//! when `spawn` wakes nobody, when the owner of a scope does not look at other workers' lists
//! before it sleeps, and when a runtime without a monitor heeds the back-off (`wake_for_a_job`
//! in `fork_join/owner.rs`).

use crate::common;

use std::sync::{
    Arc, Barrier,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use common::{GRACE, Gate, runtime, scaled};
use ws_executor::{
    Scope, block_in_place, join,
    runtime::{Builder, Runtime, Sysmon},
    scope,
};

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

fn without_a_monitor(workers: usize) -> Runtime {
    let builder = Builder::new().workers(workers).max_threads(workers + 1);
    builder
        .sysmon(Sysmon::Off)
        .shutdown_grace(GRACE)
        .build()
        .unwrap()
}

/// Wake-ups that were in vain keep no worker from branches that wait for each other.
#[test]
fn branches_wait_for_each_other_after_many_small_ones() {
    common::limited(|| {
        const BRANCHES: usize = 4;
        let runtime = without_a_monitor(BRANCHES);
        for _ in 0..scaled(20) {
            let barrier = Barrier::new(BRANCHES);
            runtime.block_on(async {
                for _ in 0..1000 {
                    scope(|scope| (0..2).for_each(|_| scope.spawn(|_| ())));
                }
                scope(|scope| {
                    for _ in 0..BRANCHES {
                        scope.spawn(|_| _ = barrier.wait());
                    }
                });
            });
        }
    });
}

/// A tree each of whose branches has a scope of its own inside.
fn tree<'scope>(scope: &Scope<'scope>, depth: usize, ran: &'scope AtomicUsize) {
    ran.fetch_add(1, SeqCst);
    if depth == 0 {
        return;
    }
    for _ in 0..3 {
        scope.spawn(move |outer| {
            let inside = AtomicUsize::new(0);
            ws_executor::scope(|inner| chain(inner, 3, &inside));
            assert_eq!(inside.into_inner(), 4);
            tree(outer, depth - 1, ran);
        });
    }
}

/// No thread can be had beside those that wait for their scopes.
#[test]
fn scopes_end_where_there_are_no_more_threads() {
    common::limited(|| {
        for workers in [1, 2, 4] {
            let runtime = without_a_monitor(workers);
            let tasks = (0..8).map(|_| {
                runtime.spawn(async {
                    let ran = AtomicUsize::new(0);
                    scope(|scope| tree(scope, 5, &ran));
                    ran.into_inner()
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                assert_eq!(runtime.block_on(task).unwrap(), 364);
            }
        }
    });
}

/// Three threads: one blocks, one runs a branch that waits for what it has spawned, and the owner
/// of the scope.
#[test]
fn the_owner_runs_what_nobody_else_can() {
    common::limited(|| {
        let runtime = without_a_monitor(2);
        let [blocks, over]: [Arc<Gate>; 2] = Default::default();
        let held = runtime.spawn({
            let (blocks, over) = (blocks.clone(), over.clone());
            async move {
                block_in_place(|| {
                    blocks.open();
                    over.pass();
                });
            }
        });
        blocks.pass();
        let owner = runtime.spawn(async {
            let (begun, ran) = (Gate::default(), Gate::default());
            scope(|scope| {
                scope.spawn(|scope| {
                    scope.spawn(|_| ran.open());
                    begun.open();
                    ran.pass();
                });
                begun.pass();
            });
        });
        // No worker of its own: this thread is no third one for the branch.
        let owner = common::block_on_elsewhere(owner);
        over.open();
        owner.unwrap();
        common::block_on_elsewhere(held).unwrap();
    });
}

/// The closure's own threads spawn, and another runtime's workers.
#[test]
fn strangers_spawn_into_a_scope() {
    common::limited(|| {
        let (runtime, other) = (runtime(2), runtime(2));
        for _ in 0..scaled(50) {
            let ran = AtomicUsize::new(0);
            let count = |_: &Scope<'_>| _ = ran.fetch_add(1, SeqCst);
            runtime.block_on(async {
                scope(|outer| {
                    std::thread::scope(|threads| {
                        threads.spawn(|| outer.spawn(count));
                        threads.spawn(|| {
                            other.block_on(async {
                                scope(|inner| {
                                    inner.spawn(|_| outer.spawn(count));
                                    outer.spawn(count);
                                });
                            });
                        });
                    });
                });
            });
            assert_eq!(ran.into_inner(), 3);
        }
    });
}
