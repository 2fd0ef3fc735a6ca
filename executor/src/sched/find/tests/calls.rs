//! *Calls* in `blocking.rs`: what a thread without a permit takes from the global queue, and what
//! one takes that has run dry.

use std::future::pending;

use super::{
    order::{self, foreign, runs},
    *,
};
use crate::{cell::Id, task};

/// A call of `spawn_blocking`, from outside.
fn call(runtime: &Runtime) -> Id {
    runtime.handle().spawn_blocking(|| ()).id()
}

/// Others have both permits.
fn without_permit(runtime: &Runtime) -> (Worker, [Worker; 2]) {
    let others = [thread(runtime), thread(runtime)];
    (thread(runtime), others)
}

#[test]
fn one_that_has_no_permit_takes_a_call_and_nothing_else() {
    let runtime = runtime();
    let (worker, [first, second]) = without_permit(&runtime);
    foreign(&runtime, 2);
    let found = step(&worker);
    assert_parks(&worker, &found);
    let call = call(&runtime);
    assert_eq!(runs(&worker), call);
    assert_eq!(worker.own_peer().counters.global.get(), 1);
    let found = step(&worker);
    assert_parks(&worker, &found);
    end(runtime, [first, second, worker]);
}

#[test]
fn one_that_has_no_permit_takes_no_call_while_something_urgent_is_queued() {
    let runtime = runtime();
    let (worker, [first, second]) = without_permit(&runtime);
    let call = call(&runtime);
    let spawn = |priority: i64| {
        let _entered = runtime.enter();
        drop(task::Builder::new().priority(priority).spawn(async {}));
    };
    spawn(1);
    let found = step(&worker);
    assert_parks(&worker, &found);
    let urgent = worker.env().queues.ordered.pop().expect("it is queued");
    let _ = urgent.cancel();
    spawn(-1);
    assert_eq!(runs(&worker), call);
    end(runtime, [first, second, worker]);
}

#[test]
fn one_that_has_run_dry_takes_nothing_behind_a_call() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let before = foreign(&runtime, 2);
    let call = call(&runtime);
    foreign(&runtime, 20);
    assert_eq!(runs(&worker), before[0]);
    assert_eq!(worker.p.lrq.len(), 2);
    assert_eq!([runs(&worker), runs(&worker)], [before[1], call]);
    assert_eq!(worker.env().queues.grq.len(), 20);
    end(runtime, [worker, other]);
}

/// What is pinned to a thread, or its root, would wait for the call.
#[test]
fn one_that_is_bound_takes_no_call_without_a_permit() {
    let runtime = runtime();
    let (pinned, [first, second]) = without_permit(&runtime);
    context::with_worker_frame(&pinned, || drop(spawn_local(pending::<()>())));
    let rooted = order::without_permit(&runtime, Scope::All);
    call(&runtime);
    for bound in [&pinned, &rooted] {
        let found = step(bound);
        assert_parks(bound, &found);
    }
    assert_eq!(pinned.env().queues.grq.len(), 1);
    end(runtime, [first, second, pinned, rooted]);
}
