//! What others take of a P, and what its own thread thinks that it has.

use crate::{
    cell::{Id, Task},
    context, join,
    permit::{env::Env, sleep::Sleeper},
    queue::local_queue,
    runtime::{Builder, Runtime, Sysmon},
    sched::{
        Shared,
        find::tests::{runtime, thread},
        shutdown::tests::end,
        worker::{Step, Worker},
    },
    spawn,
    sync::atomic::Ordering::Relaxed,
    task::yield_now,
    timer::Clock,
};

/// Two threads with both permits: nobody is woken for what is queued.
fn both() -> (Runtime, Worker, Worker) {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    (runtime, worker, other)
}

/// A task that was just spawned there, and is in no queue.
fn task(worker: &Worker) -> Task {
    context::with_worker_frame(worker, || drop(spawn(async {})));
    worker.p.runnext.take().expect("it was spawned")
}

/// What came out of a queue is dropped instead of being run.
fn ends(task: Option<Task>) {
    Shared::cancel(task.expect("it was there"));
}

/// A task in each place of that P: the child that its poll has forked, a parent, what is next, and
/// what is queued.
fn fill(worker: &Worker) -> Vec<Id> {
    let p = &worker.p;
    let tasks = [(); 4].map(|()| task(worker));
    let ids = tasks.iter().map(|task| task.header().id()).collect();
    let [child, parent, next, queued] = tasks;
    p.forks.put_child(child, &p.peer.queues);
    worker.push_parent(parent);
    worker.push_next(next);
    worker.push_back(queued);
    ids
}

/// What is in the global queue, in the order of spawning.
fn global(worker: &Worker) -> Vec<Id> {
    let tasks = std::iter::from_fn(|| worker.env().queues.grq.pop());
    let mut ids: Vec<_> = tasks
        .map(|task| {
            let id = task.header().id();
            Shared::cancel(task);
            id
        })
        .collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_revocation_takes_all_that_others_could_run() {
    let (runtime, worker, other) = both();
    let ids = fill(&worker);
    assert!(!worker.own_peer().flags.gave_away.load(Relaxed));
    let (scratch, _) = local_queue();
    assert!(worker.env().revoke(worker.own_peer(), &scratch));
    assert_eq!(global(&worker), ids);
    assert!(worker.own_peer().flags.gave_away.load(Relaxed));
    end(runtime, [worker, other]);
}

#[test]
fn one_that_hands_in_keeps_nothing_that_others_could_run() {
    let (runtime, worker, other) = both();
    let ids = fill(&worker);
    worker.flush();
    assert_eq!(global(&worker), ids);
    end(runtime, [worker, other]);
}

#[test]
fn after_a_revocation_the_next_fork_comes_by() {
    let (runtime, worker, other) = both();
    let shared = runtime.handle().shared();
    // Nobody is woken for the netpoll's sake, so the permit is free.
    shared.io.waiter.store(other.index() + 1, Relaxed);
    context::with_worker_frame(&worker, || {
        join(|| (), || ());
        let (scratch, _) = local_queue();
        assert!(shared.revoke(worker.own_peer(), &scratch));
        assert!(!worker.own_peer().state.has_permit());
        join(|| (), || ());
        assert!(worker.own_peer().state.has_permit(), "it asked for another");
    });
    shared.io.waiter.store(0, Relaxed);
    end(runtime, [worker, other]);
}

/// Somebody spins, so nobody is woken for it, and it waits for its own thread, which may not come
/// for long.
#[test]
fn the_last_look_finds_what_was_left_alone() {
    let builder = Builder::new().workers(3).sysmon(Sysmon::Off);
    let builder = builder.stall_threshold(None);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let (searcher, poller) = (thread(&runtime), thread(&runtime));
    poller.p.tick();
    assert!(searcher.begin_search());
    context::with_worker_frame(&poller, || drop(spawn(async {})));
    assert!(!poller.p.runnext.is_empty());
    assert!(searcher.begin_park(), "somebody has to be there for it");
    poller.p.tick();
    assert!(!searcher.begin_park(), "its thread has come back to it");
    end(runtime, [searcher, poller]);
}

#[test]
fn what_is_plain_is_in_one_of_three_places() {
    let (runtime, worker, other) = both();
    let p = &worker.p;
    assert!(!p.has_plain());
    worker.push_next(task(&worker));
    assert!(p.has_plain() && p.lrq.is_empty() && p.forks.parents.is_empty());
    ends(p.runnext.take());
    worker.push_back(task(&worker));
    assert!(p.has_plain() && p.runnext.is_empty() && p.forks.parents.is_empty());
    ends(p.lrq.pop());
    worker.push_parent(task(&worker));
    assert!(p.has_plain() && p.runnext.is_empty() && p.lrq.is_empty());
    ends(p.forks.parents.pop());
    assert!(!p.has_plain());
    end(runtime, [worker, other]);
}

/// Fails if a parent goes before the child that it has forked.
#[test]
fn a_child_comes_before_its_parent() {
    let (runtime, worker, other) = both();
    let p = &worker.p;
    let [child, parent] = [(); 2].map(|()| task(&worker));
    let ids = [&child, &parent].map(|task| task.header().id());
    p.forks.put_child(child, &p.peer.queues);
    worker.push_parent(parent);
    let popped = [(); 2].map(|()| {
        let task = p.forks.pop().expect("there are two");
        let id = task.header().id();
        Shared::cancel(task);
        id
    });
    assert_eq!(popped, ids);
    end(runtime, [worker, other]);
}

/// Its P has forked before: a child is one that is there still.
#[test]
fn one_that_yields_without_a_child_is_no_parent() {
    let (runtime, worker, other) = both();
    worker
        .p
        .forks
        .put_child(task(&worker), &worker.peer().queues);
    ends(worker.p.forks.take_child());
    context::with_worker_frame(&worker, || {
        drop(spawn(yield_now()));
        match worker.step() {
            Step::Run(task) => worker.poll(task),
            other => panic!("it was spawned: {other:?}"),
        }
    });
    assert_eq!((worker.p.lrq.len(), worker.parents()), (1, 0));
    end(runtime, [worker, other]);
}
