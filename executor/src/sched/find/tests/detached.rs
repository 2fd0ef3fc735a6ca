//! J6: beside a thread that computes without a permit nobody takes a branch for which there is no
//! core (*Detached computations* in `fork_join/owner.rs`). The first fails if a search does not
//! count them, if the last look before a sleep does not, and if either counts one that blocks; the
//! second if a thread that was asked for a branch wakes another for it all the same.

use super::{branches::THIEF, *};

/// A thread that lost its permit in the middle of a poll, in which it computes. All permits are
/// taken, or one is free.
fn detached(runtime: &Runtime) -> Worker {
    let worker = thread(runtime);
    if let Some(permit) = worker.own_peer().state.revoke() {
        worker.env().release(permit, None);
    }
    worker.own_peer().progress.running.store(1, Relaxed);
    worker.own_peer().flags.computes.set(true);
    worker
}

fn end_detached(worker: &Worker) {
    worker.own_peer().progress.running.store(0, Relaxed);
}

#[test]
fn a_search_leaves_branches_to_detached_computations() {
    let runtime = runtime();
    let (searcher, computer) = searcher_and_computer(&runtime);
    let detached = detached(&runtime);
    let shared = runtime.handle().shared();
    let (branch_deque, computes) = (
        &computer.own_peer().queues.branch_deque,
        &detached.own_peer().flags.computes,
    );
    THIEF.set(Some(searcher));
    let mut ran = false;
    let searches = || {
        assert!(branch_deque.has_shared(), "a helper asked");
        let searcher = THIEF.take().expect("it is here");
        assert!(matches!(step(&searcher), Step::Park));
        assert!(!shared.any_work(), "it would not sleep");
        // It blocks.
        computes.set(false);
        assert!(shared.any_work());
        let Step::Branch(branch) = step(&searcher) else {
            panic!("its core is free");
        };
        context::with_worker_frame(&searcher, || {
            crate::branch::run_claimed(branch, searcher.index(), 0)
        });
        THIEF.set(Some(searcher));
    };
    context::with_worker_frame(&computer, || {
        branch_deque.ask_as_helper();
        join(searches, || ran = true);
    });
    assert!(ran);
    end_detached(&detached);
    let searcher = THIEF.take().expect("it is back");
    end(runtime, [searcher, computer, detached]);
}

#[test]
fn one_that_is_asked_wakes_nobody_beside_a_detached_computation() {
    let runtime = runtime();
    let owner = thread(&runtime);
    let detached = detached(&runtime);
    let shared = runtime.handle().shared();
    let (branch_deque, computes) = (
        &owner.own_peer().queues.branch_deque,
        &detached.own_peer().flags.computes,
    );
    let free = || {
        branch_deque.ask();
        join(|| shared.idle.free(), || ()).0
    };
    context::with_worker_frame(&owner, || {
        assert_eq!(free(), 1, "it would not take the branch");
        computes.set(false);
        assert_eq!(free(), 0);
    });
    end_detached(&detached);
    end(runtime, [owner, detached]);
}
