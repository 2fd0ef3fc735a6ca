//! What a thread does that waits for its own root in a `block_on`: when it goes on, what it makes
//! of what is not its own, and whom it stands in for (L5, *Standing in* in `block_on.rs`).

use std::{future::pending, iter};

use super::*;
use crate::{sched::find::tests::idle_task, spawn};

/// The waker is due now.
fn is_due(worker: &Worker, waker: Waker) {
    arm(worker, Duration::from_nanos(1), waker);
    advance(worker, Duration::from_nanos(1));
}

fn wait_for_root(worker: &Worker, root: &Root) {
    context::with_worker_frame(worker, || worker.wait_for_root(root));
    assert!(root.is_notified());
    assert!(worker.own_peer().state.has_permit(), "one is free");
    assert!(!worker.next.stands_in.get(), "it has its own to do");
}

#[test]
fn one_that_waits_for_its_root_fires_timers_and_goes_on_with_a_permit() {
    let runtime = runtime();
    let (worker, root) = with_root(&runtime, Scope::Own);
    worker.try_run();
    assert!(root.take(), "it was due");
    is_due(&worker, root.clone().into());
    wait_for_root(&worker, &root);
    assert_eq!(worker.own_peer().counters.netpolls.get(), 1);
    assert!(!worker.brought.passed_on.get(), "all of it was its own");
    assert!(root.take());
    let idle = idle_task(&worker, || ());
    is_due(&worker, idle);
    is_due(&worker, root.clone().into());
    wait_for_root(&worker, &root);
    assert!(
        worker.brought.passed_on.get(),
        "it has no permit for a task"
    );
    assert!(worker.shared().has_queued());
    end(runtime, [worker]);
}

/// What `f` queues wakes nobody, for no permit is free meanwhile.
fn unheard(runtime: &Runtime, f: impl FnOnce()) {
    let idle = &runtime.handle().shared().idle;
    let permits: Vec<_> = iter::from_fn(|| idle.acquire()).collect();
    f();
    permits
        .into_iter()
        .for_each(|permit| idle.release(permit, None));
}

/// A task that is for all is queued, and no thread can be had for it: there is one, which is stuck.
fn without_threads(runtime: &Runtime) {
    let shared = runtime.handle().shared();
    unheard(runtime, || drop(runtime.spawn(async {})));
    shared.threads.refused.store(true, Relaxed);
    shared.threads.counts.lock().count = 1;
}

fn with_threads(runtime: &Runtime) {
    let shared = runtime.handle().shared();
    shared.threads.refused.store(false, Relaxed);
    let sim_threads = shared
        .threads
        .sim_threads
        .as_ref()
        .expect("its clock is virtual");
    shared.threads.counts.lock().count = sim_threads.len();
}

/// Spawns, where it cannot run that itself.
fn spawns(runtime: &Runtime, worker: &Worker) {
    unheard(runtime, || {
        context::with_worker_frame(worker, || drop(spawn(pending::<()>())));
    });
    // That is another reason.
    worker.own_peer().flags.gave_away.store(false, Relaxed);
}

#[test]
fn one_that_gave_its_own_away_stands_in_where_no_thread_can_be_had() {
    let runtime = runtime();
    let (worker, _) = with_root(&runtime, Scope::Own);
    let shared = runtime.handle().shared();
    without_threads(&runtime);
    assert!(!worker.must_stand_in(), "what waits is not its own");
    worker.own_peer().flags.gave_away.store(true, Relaxed);
    assert!(worker.must_stand_in());
    shared.threads.refused.store(false, Relaxed);
    assert!(!worker.must_stand_in(), "no thread was refused");
    shared.threads.refused.store(true, Relaxed);
    unheard(&runtime, || {
        assert!(!worker.must_stand_in(), "no permit is free");
    });
    assert!(worker.must_stand_in());
    shared.drain_global();
    assert!(!worker.must_stand_in(), "nothing waits");
    with_threads(&runtime);
    end(runtime, [worker]);
}

#[test]
fn one_that_waits_for_its_root_stands_in_where_there_is_no_thread_at_all() {
    let runtime = runtime();
    let (worker, _) = with_root(&runtime, Scope::Own);
    without_threads(&runtime);
    assert!(!worker.must_stand_in());
    runtime.handle().shared().threads.counts.lock().count = 0;
    assert!(worker.must_stand_in());
    with_threads(&runtime);
    end(runtime, [worker]);
}

#[test]
fn one_that_has_spawned_stands_in_unless_a_thread_would_come() {
    let runtime = runtime();
    let other = thread(&runtime);
    assert!(!other.begin_park(), "nothing is queued");
    let (worker, _) = with_root(&runtime, Scope::Own);
    without_threads(&runtime);
    spawns(&runtime, &worker);
    assert!(!worker.must_stand_in(), "one is parked");
    assert!(other.unpark_without_permit(), "nobody has woken it");
    assert!(worker.must_stand_in());
    // What it has spawned ends, and another's is queued.
    runtime.handle().shared().drain_global();
    without_threads(&runtime);
    assert!(!worker.must_stand_in(), "nothing of its own is alive");
    with_threads(&runtime);
    end(runtime, [other, worker]);
}

#[test]
fn what_an_earlier_thread_has_spawned_is_not_its_own() {
    let runtime = runtime();
    let earlier = thread(&runtime);
    let alive = idle_task(&earlier, || ());
    let index = earlier.index();
    earlier.leave();
    let (worker, _) = with_root(&runtime, Scope::Own);
    assert_eq!(worker.index(), index, "it has the same P");
    without_threads(&runtime);
    assert!(!worker.must_stand_in());
    spawns(&runtime, &worker);
    assert!(worker.must_stand_in());
    with_threads(&runtime);
    drop(alive);
    end(runtime, [worker]);
}
