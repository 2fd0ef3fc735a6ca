//! F4, L4: the order of a step: what a slice that is over does, how much of the global queue a
//! thread takes, and when.

use std::future::poll_fn;

use super::*;
use crate::{
    cell::{DEFAULT_PRIORITY, Id},
    fork,
    sched::{Root, Shared, processor::attention},
    sync::atomic::AtomicBool,
    task,
};

/// Spawns so many tasks on that thread, or from outside: their ids.
pub(super) fn spawned(worker: &Worker, tasks: usize) -> Vec<Id> {
    context::with_worker_frame(worker, || {
        (0..tasks).map(|_| spawn(async {}).id()).collect()
    })
}

pub(super) fn foreign(runtime: &Runtime, tasks: usize) -> Vec<Id> {
    (0..tasks).map(|_| runtime.spawn(async {}).id()).collect()
}

/// What the step runs; it is not run.
#[track_caller]
pub(super) fn runs(worker: &Worker) -> Id {
    match step(worker) {
        Step::Run(task) => {
            let id = task.header().id();
            Shared::cancel(task);
            id
        }
        other => panic!("it has work: {other:?}"),
    }
}

pub(super) fn asks(worker: &Worker, bit: u32) {
    worker.own_peer().attention.fetch_or(bit, Relaxed);
}

/// Alone with the only permit.
pub(super) fn alone() -> (Runtime, Worker) {
    let builder = Builder::new().workers(1).sysmon(Sysmon::Off);
    let builder = builder.stall_threshold(None);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let worker = thread(&runtime);
    (runtime, worker)
}

#[test]
fn a_slice_that_is_over_sends_runnext_to_the_back() {
    let (runtime, worker) = alone();
    let ids = spawned(&worker, 3);
    assert!(!worker.slice_is_over());
    assert_eq!(runs(&worker), ids[2], "the last one spawned is next");
    let next = spawned(&worker, 1)[0];
    worker.p.clocks.slice_tick.set(0);
    asks(&worker, attention::SLICE);
    assert!(worker.slice_is_over());
    assert_eq!(runs(&worker), ids[0], "the queue has its turn");
    assert!(!worker.slice_is_over());
    let ticks = worker.own_peer().progress.ticks.load(Relaxed);
    assert_eq!(worker.p.clocks.slice_tick.get(), ticks, "a new one");
    assert_eq!(runs(&worker), ids[1]);
    assert_eq!(runs(&worker), next, "it waits behind the others");
    end(runtime, [worker]);
}

#[test]
fn a_slice_that_is_over_leaves_a_lone_task_where_it_is() {
    let (runtime, worker) = alone();
    spawned(&worker, 1);
    asks(&worker, attention::SLICE);
    worker.attend();
    assert!(worker.p.lrq.is_empty() && !worker.p.runnext.is_empty());
    assert!(!worker.slice_is_over());
    end(runtime, [worker]);
}

#[test]
fn another_reason_does_not_end_the_slice() {
    let (runtime, worker) = alone();
    let ids = spawned(&worker, 2);
    asks(&worker, attention::PAUSED);
    assert!(!worker.slice_is_over());
    count_to(&worker, 1);
    assert_eq!(runs(&worker), ids[1]);
    let began = || worker.p.clocks.slice_tick.get();
    assert_eq!(began(), 0, "it goes on");
    assert_eq!(runs(&worker), ids[0]);
    assert_eq!(began(), 2, "the queue has its turn");
    end(runtime, [worker]);
}

#[test]
fn one_that_has_nothing_takes_its_share_of_the_global_queue() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let ids = foreign(&runtime, 20);
    assert_eq!(runs(&worker), ids[0]);
    assert_eq!(
        worker.p.lrq.len(),
        10,
        "half of it and one more, but for the first"
    );
    assert_eq!(worker.own_peer().counters.global.get(), 11);
    assert_eq!(runs(&worker), ids[1]);
    end(runtime, [worker, other]);
}

/// The wakers of so many tasks that were polled once, and wait.
fn wait(runtime: &Runtime, worker: &Worker, tasks: usize, priority: i64) -> Vec<Waker> {
    let wakers = Shares::new(Mutex::new(Vec::new()));
    context::with_worker_frame(worker, || {
        for _ in 0..tasks {
            let wakers = wakers.clone();
            let builder = task::Builder::new().priority(priority);
            drop(builder.spawn(poll_fn(move |cx| {
                wakers.lock().unwrap().push(cx.waker().clone());
                Poll::<()>::Pending
            })));
            take_started(runtime);
            let Step::Run(task) = worker.step() else {
                panic!("it was spawned here");
            };
            worker.poll(task);
        }
    });
    take_started(runtime);
    std::mem::take(&mut *wakers.lock().unwrap())
}

#[test]
fn a_batch_wakes_for_all_but_the_one_that_is_for_itself() {
    let started = |tasks: usize| {
        let builder = Builder::new().workers(8).sysmon(Sysmon::Off);
        let builder = builder.stall_threshold(None);
        let runtime = builder.build_with(Clock::stopped()).unwrap();
        let worker = thread(&runtime);
        let wakers = wait(&runtime, &worker, tasks, DEFAULT_PRIORITY);
        wakers.into_iter().for_each(|waker| is_due(&worker, waker));
        finds_a_task(&worker);
        let started = take_started(&runtime);
        assert_eq!(worker.p.lrq.len(), tasks - 1, "all are in the queue");
        end(runtime, [worker]);
        started
    };
    assert_eq!([1, 2, 3, 4].map(started), [0, 1, 2, 3]);
}

pub(super) fn advance(worker: &Worker, time: Duration) {
    worker.env().time.clock().advance(time);
}

#[test]
fn a_child_that_was_just_forked_waits_where_others_come_first() {
    let (runtime, worker) = alone();
    let fork = || {
        let task = worker.p.lrq.pop().expect("there are some");
        worker.p.forks.put_child(task, &worker.peer().queues);
    };
    spawned(&worker, 5);
    let other = foreign(&runtime, 1)[0];
    fork();
    count_to(&worker, GLOBAL_TICK);
    assert_eq!(runs(&worker), other);
    assert!(!worker.p.forks.has_child(), "it is no child of that one");
    assert!(!worker.p.runnext.is_empty(), "it is next");
    fork();
    context::with_worker_frame(&worker, || drop(spawn_local(async {})));
    count_to(&worker, 1);
    let Step::Run(pinned) = step(&worker) else {
        panic!("it is pinned");
    };
    assert!(pinned.header().is_pinned() && !worker.p.forks.has_child());
    context::with_worker_frame(&worker, || worker.poll(pinned));
    end(runtime, [worker]);
}

#[test]
fn a_parent_comes_before_the_queue_but_at_each_16th_tick() {
    let (runtime, worker) = alone();
    let ids = spawned(&worker, 5);
    assert_eq!(runs(&worker), ids[4], "the last one spawned is next");
    // The first in the queue forks, and its child has run.
    let fork = || {
        let task = worker.p.lrq.pop().expect("there are some");
        worker.p.forks.parents.push(task);
    };
    fork();
    count_to(&worker, 1);
    assert_eq!(runs(&worker), ids[0]);
    fork();
    count_to(&worker, TIMER_TICK);
    assert_eq!(runs(&worker), ids[2], "the queue has its turn");
    assert_eq!(runs(&worker), ids[1]);
    fork();
    count_to(&worker, TIMER_TICK);
    assert_eq!(runs(&worker), ids[3], "nothing is in the queue");
    end(runtime, [worker]);
}

#[test]
fn others_have_their_turn_after_what_is_pinned() {
    let (runtime, worker) = alone();
    spawned(&worker, 2);
    context::with_worker_frame(&worker, || {
        (0..2).for_each(|_| drop(spawn_local(async {})));
    });
    let is_pinned = || {
        let Step::Run(task) = step(&worker) else {
            panic!("there are four");
        };
        let pinned = task.header().is_pinned();
        context::with_worker_frame(&worker, || worker.poll(task));
        pinned
    };
    count_to(&worker, 1);
    assert_eq!([(); 4].map(|()| is_pinned()), [true, false, true, false]);
    end(runtime, [worker]);
}

/// A thread with a root that is due, and without a permit.
pub(super) fn without_permit(runtime: &Runtime, scope: Scope) -> Worker {
    let shared = runtime.handle().shared();
    let processor = shared.take_processor().expect("there is room for it");
    let root = Root::new();
    root.settle(&shared.io.netpoll, None);
    let worker = Worker::new(shared.clone(), processor, scope, Some(root));
    worker.own_peer().state().arrive();
    worker
}

/// A batch of tasks with a priority is worth as many threads as one of others.
#[test]
fn what_a_batch_wakes_with_a_priority_is_for_others_too() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let wakers = wait(&runtime, &worker, 2, DEFAULT_PRIORITY + 1);
    wakers.into_iter().for_each(|waker| is_due(&worker, waker));
    context::with_worker_frame(&worker, || worker.fire_own_timers());
    assert_eq!(take_started(&runtime), 1, "the second one is for it");
    end(runtime, [worker]);
}

/// As what is pinned does, or what is next.
#[test]
fn a_child_that_was_just_forked_comes_before_what_a_batch_wakes() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let idle = idle_task(&worker, || ());
    spawned(&worker, 1);
    let child = worker.p.runnext.take().expect("it was spawned");
    worker.p.forks.put_child(child, &worker.peer().queues);
    take_started(&runtime);
    is_due(&worker, idle);
    context::with_worker_frame(&worker, || worker.fire_own_timers());
    assert_eq!(take_started(&runtime), 1, "what was woken is for others");
    end(runtime, [worker]);
}

/// If the same poll waits for the child, another thread has to see the child.
#[test]
fn one_that_loses_its_permit_forks_for_others() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let revoked = Revoked::from(&worker, 0);
    let (revoke, shared) = (revoked.1.clone(), worker.shared().clone());
    let waits = Shares::new(AtomicBool::new(false));
    let seen = waits.clone();
    context::with_worker_frame(&worker, || {
        drop(spawn(async move {
            revoke.wake();
            let mut child = std::pin::pin!(fork(async {}));
            poll_fn(|cx| Poll::Ready(child.as_mut().poll(cx).is_ready())).await;
            seen.store(!shared.queues.grq.is_empty(), Relaxed);
        }));
        match worker.step() {
            Step::Run(task) => worker.poll(task),
            other => panic!("it was spawned here: {other:?}"),
        }
    });
    assert!(waits.load(Relaxed), "in the middle of the poll");
    revoked.give_back(&runtime);
    end(runtime, [worker, other]);
}

/// What is pinned had its turn just now.
#[test]
fn one_that_has_run_what_is_pinned_is_woken_for_itself() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let idle = idle_task(&worker, || ());
    context::with_worker_frame(&worker, || drop(spawn_local(async {})));
    worker.next.private_last.set(true);
    take_started(&runtime);
    is_due(&worker, idle);
    context::with_worker_frame(&worker, || worker.fire_own_timers());
    assert_eq!(take_started(&runtime), 0, "it runs that next");
    end(runtime, [worker]);
}
