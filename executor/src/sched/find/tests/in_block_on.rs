//! L4, L6: a thread in `block_on`: when it leaves its permit to others, and what it takes.

use super::{
    order::{alone, asks, foreign, runs, spawned, without_permit},
    *,
};
use crate::sched::processor::attention;

/// Two threads with both permits. The first is in a `block_on` and has a task; the second is in one
/// too, or takes any.
fn in_block_on(runtime: &Runtime, both: bool) -> (Worker, Worker) {
    let (mut worker, other) = (thread(runtime), thread(runtime));
    worker.scope = Scope::Own;
    worker.own_peer().flags.own.store(true, Relaxed);
    other.own_peer().flags.own.store(both, Relaxed);
    spawned(&worker, 1);
    (worker, other)
}

/// Whether it gives up its permit at a 61st tick.
fn leaves(worker: &mut Worker) -> bool {
    count_to(worker, GLOBAL_TICK);
    let found = step(worker);
    worker.scope = Scope::All;
    match found {
        Step::Run(task) => {
            assert!(worker.own_peer().state().has_permit());
            worker.dispose(task);
            false
        }
        Step::Park => {
            assert!(!worker.own_peer().state().has_permit());
            true
        }
        other => panic!("it has one task: {other:?}"),
    }
}

#[test]
fn one_that_is_in_block_on_leaves_a_permit_to_others() {
    let runtime = runtime();
    let (mut worker, other) = in_block_on(&runtime, true);
    foreign(&runtime, 1);
    assert!(leaves(&mut worker));
    assert_eq!(take_started(&runtime), 1, "a thread is there for it");
    end(runtime, [worker, other]);
}

#[test]
fn one_that_is_in_block_on_keeps_its_permit_where_nothing_waits() {
    let runtime = runtime();
    let (mut worker, other) = in_block_on(&runtime, true);
    assert!(!leaves(&mut worker));
    end(runtime, [worker, other]);
}

#[test]
fn one_that_is_in_block_on_keeps_its_permit_where_no_thread_is_to_be_had() {
    let runtime = runtime();
    let (mut worker, other) = in_block_on(&runtime, true);
    foreign(&runtime, 1);
    let shared = runtime.handle().shared();
    shared.threads.refused.store(true, Relaxed);
    assert!(!leaves(&mut worker));
    shared.threads.refused.store(false, Relaxed);
    end(runtime, [worker, other]);
}

#[test]
fn one_that_is_in_block_on_keeps_its_permit_where_another_takes_what_waits() {
    let runtime = runtime();
    let (mut worker, other) = in_block_on(&runtime, false);
    foreign(&runtime, 1);
    assert!(!leaves(&mut worker));
    end(runtime, [worker, other]);
}

/// A timer that is not due yet, which nobody waits for.
fn awaits(worker: &Worker) {
    let later = worker.now() + 1_000_000_000;
    let armed = worker.own_peer().timers.arm(later, Waker::noop().clone());
    assert!(armed.is_ok(), "the runtime goes on");
}

#[test]
fn one_that_is_in_block_on_leaves_a_permit_to_one_that_waits_for_timers() {
    let runtime = runtime();
    let (mut worker, other) = in_block_on(&runtime, true);
    awaits(&worker);
    assert!(leaves(&mut worker));
    end(runtime, [worker, other]);
}

#[test]
fn one_that_is_in_block_on_keeps_its_permit_where_one_is_free() {
    let builder = Builder::new().workers(3).sysmon(Sysmon::Off);
    let builder = builder.stall_threshold(None);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let (mut worker, other) = in_block_on(&runtime, true);
    take_started(&runtime);
    assert!(runtime.handle().shared().idle().free() > 0);
    awaits(&worker);
    assert!(!leaves(&mut worker));
    end(runtime, [worker, other]);
}

#[test]
fn one_that_is_in_block_on_keeps_its_permit_where_there_are_as_many_threads_as_may_be() {
    let runtime = runtime();
    let (mut worker, other) = in_block_on(&runtime, true);
    foreign(&runtime, 1);
    let shared = runtime.handle().shared();
    let most = shared.config.max_threads;
    let before = std::mem::replace(&mut shared.threads.counts.lock().count, most);
    assert!(!leaves(&mut worker));
    shared.threads.counts.lock().count = before;
    end(runtime, [worker, other]);
}

#[test]
fn one_that_leaves_its_tasks_to_others_keeps_none() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    spawned(&worker, 2);
    asks(&worker, attention::ROOT_WAITS);
    assert!(matches!(step(&worker), Step::Park));
    assert_eq!(worker.env().queues.grq.len(), 2);
    end(runtime, [worker, other]);
}

/// Even if its root waits for a timer or a source.
#[test]
fn one_that_stands_in_takes_what_waits_once() {
    let runtime = runtime();
    let (mut worker, other) = (thread(&runtime), thread(&runtime));
    worker.scope = Scope::Own;
    asks(&worker, attention::ROOT_WAITS);
    let task = foreign(&runtime, 1)[0];
    worker.next.stands_in.set(true);
    assert_eq!(runs(&worker), task);
    worker.own_peer().attention.store(0, Relaxed);
    foreign(&runtime, 1);
    assert!(matches!(step(&worker), Step::Park), "it is its root's");
    worker.scope = Scope::All;
    end(runtime, [worker, other]);
}

#[test]
fn a_root_is_polled_without_a_permit_by_its_own_thread_alone() {
    let (runtime, other) = alone();
    let worker = without_permit(&runtime, Scope::Own);
    assert!(matches!(step(&worker), Step::Root));
    assert!(matches!(step(&worker), Step::Park), "it was polled");
    let runs_all = without_permit(&runtime, Scope::All);
    assert!(matches!(step(&runs_all), Step::Park), "it is a worker");
    asks(&runs_all, attention::SHUTDOWN);
    assert!(matches!(step(&runs_all), Step::Root), "it goes on");
    assert!(matches!(step(&runs_all), Step::Park));
    end(runtime, [other, worker, runs_all]);
}

#[test]
fn a_root_goes_on_in_a_shutdown_and_what_is_pinned_does_not() {
    let (runtime, other) = alone();
    let worker = without_permit(&runtime, Scope::Own);
    context::with_worker_frame(&worker, || drop(spawn_local(async {})));
    assert!(worker.p.has_pinned());
    asks(&worker, attention::SHUTDOWN);
    assert!(matches!(step(&worker), Step::Root));
    assert!(!worker.p.has_pinned());
    end(runtime, [other, worker]);
}
