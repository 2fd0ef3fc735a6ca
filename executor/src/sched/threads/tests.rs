//! How many threads there may be, what is said where no more can be had, and to which of them a
//! call is handed. Threads that the runtime starts wait in `SimThreads`, but for those that are
//! asked for their names.

use std::sync::Barrier;

use super::*;
use crate::{
    permit::sleep::{Look, Sleeper},
    runtime::{Builder, Runtime, Sysmon},
    sched::{
        find::tests::{runtime, thread},
        shutdown::tests::{end, reported, take_started},
    },
};

fn shared(runtime: &Runtime) -> &Arc<Shared> {
    runtime.handle().shared()
}

/// As if so many threads existed.
fn count(shared: &Shared, threads: usize) {
    shared.threads.counts.lock().count = threads;
}

#[test]
fn a_thread_can_be_had_where_one_sleeps_or_may_be_started() {
    let runtime = runtime();
    let shared = shared(&runtime);
    let worker = thread(&runtime);
    let most = shared.config.max_threads;
    // Any thread, and one that is not bound.
    let could_have = || {
        (
            shared.could_have_a_thread(),
            shared.could_have_an_unbound_thread(),
        )
    };
    count(shared, most - 1);
    assert_eq!(could_have(), (true, true), "one more may be started");
    shared.threads.refused.store(true, Relaxed);
    assert_eq!(could_have(), (true, false), "the last one was refused");
    shared.threads.refused.store(false, Relaxed);
    count(shared, most);
    assert_eq!(could_have(), (false, false), "there are as many as may be");
    assert!(!worker.begin_park(), "nothing is queued");
    assert_eq!(could_have(), (true, true), "one sleeps");
    worker.own_peer().flags.bound.store(true, Relaxed);
    assert_eq!(could_have(), (true, false), "it is bound");
    worker.own_peer().flags.bound.store(false, Relaxed);
    shared.threads.refused.store(true, Relaxed);
    assert_eq!(could_have(), (true, true), "who sleeps is not started");
    shared.threads.refused.store(false, Relaxed);
    count(shared, 0);
    end(runtime, [worker]);
}

#[test]
fn a_runtime_has_threads_from_the_first_that_is_started() {
    let runtime = runtime();
    let shared = shared(&runtime);
    assert!(!shared.has_threads());
    drop(runtime.spawn(async {}));
    assert!(shared.has_threads());
    shared.drain_global();
    assert_eq!(take_started(&runtime), 1);
    assert!(!shared.has_threads());
    end(runtime, []);
}

#[test]
fn that_no_thread_can_be_had_is_said_once() {
    let runtime = runtime();
    let shared = shared(&runtime);
    count(shared, shared.config.max_threads);
    let said = reported(|| (0..3).for_each(|_| drop(runtime.spawn(async {}))));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("Builder::max_threads"), "{said:?}");
    count(shared, 0);
    end(runtime, []);
}

#[test]
fn that_none_is_started_at_the_end_is_not_worth_a_word() {
    let runtime = runtime();
    let shared = shared(&runtime);
    shared.begin_shutdown();
    assert!(reported(|| shared.wake_for(1)).is_empty());
    end(runtime, []);
}

#[test]
fn threads_are_numbered_from_one() {
    let builder = Builder::new().workers(2).thread_name("numbered");
    // If the monitor took the permit of the thread that waits at the barrier, a third would come.
    let runtime = builder.sysmon(Sysmon::Off).build().unwrap();
    let together = Arc::new(Barrier::new(2));
    let tasks = [(); 2].map(|()| {
        let together = together.clone();
        runtime.spawn(async move {
            together.wait();
            thread::current().name().map(str::to_owned)
        })
    });
    let mut names = tasks.map(|task| runtime.block_on(task).unwrap());
    names.sort();
    let expected = ["numbered-1", "numbered-2"].map(|name| Some(name.to_owned()));
    assert_eq!(names, expected);
}

/// A call that was queued for all, while nobody could be woken for it.
fn call(runtime: &Runtime) -> Task {
    drop(runtime.handle().spawn_blocking(|| ()));
    shared(runtime).pop_queued().expect("it was queued")
}

#[test]
fn a_call_is_handed_to_one_that_sleeps_and_is_not_bound() {
    let runtime = runtime();
    let workers = [thread(&runtime), thread(&runtime)];
    let call = call(&runtime);
    let id = call.header().id();
    for worker in &workers {
        assert!(!worker.begin_park(), "nothing is queued");
    }
    let [bound, other] = &workers;
    bound.own_peer().flags.bound.store(true, Relaxed);
    let idle = &shared(&runtime).idle;
    let permit = idle.acquire().expect("both sleep");
    assert!(
        shared(&runtime)
            .hand_call(call, permit, idle.spin())
            .is_ok()
    );
    assert_eq!(bound.own_peer().state.load(), WorkerState::Parked);
    assert_eq!(other.check_before_sleep(), Look::Up, "it has the permit");
    let handed = other
        .own_peer()
        .thread
        .handed
        .take()
        .expect("it was handed over");
    assert_eq!(handed.header().id(), id);
    let _ = handed.cancel();
    end(runtime, workers);
}

#[test]
fn a_call_that_nobody_can_be_had_for_comes_back() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let other = thread(&runtime);
    let call = call(&runtime);
    let id = call.header().id();
    assert!(!other.begin_park(), "nothing is queued");
    other.own_peer().flags.bound.store(true, Relaxed);
    let shared = shared(&runtime);
    count(shared, shared.config.max_threads);
    let permit = shared.idle.acquire().expect("one sleeps");
    let back = shared.hand_call(call, permit, shared.idle.spin());
    let back = back.expect_err("one is bound, and none may be started");
    assert_eq!(back.header().id(), id);
    assert_eq!((shared.idle.free(), shared.idle.spinning()), (1, 0));
    let _ = back.cancel();
    count(shared, 0);
    end(runtime, [worker, other]);
}

/// Fails if a call that has begun counts as one that waits, and if one that never begins does for
/// ever, or is counted out twice.
#[test]
fn blocking_calls_are_counted_until_they_begin_or_go() {
    let runtime = crate::runtime::Builder::new()
        .workers(1)
        .max_threads(3)
        .build()
        .unwrap();
    let calls = || shared(&runtime).threads.blocking.calls();
    let (tell, begun) = std::sync::mpsc::channel();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let runs = runtime.handle().spawn_blocking(move || {
        tell.send(()).unwrap();
        let _ = gate.recv();
    });
    begun.recv().unwrap();
    assert_eq!(calls(), 0);
    let waits = runtime.handle().spawn_blocking(|| ());
    assert_eq!(calls(), 1);
    waits.abort();
    assert!(runtime.block_on(waits).is_err());
    assert_eq!(calls(), 0);
    drop(open);
    runtime.block_on(runs).unwrap();
    assert_eq!(calls(), 0);
}
