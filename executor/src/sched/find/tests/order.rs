//! F4, L4: the order of a step: what a slice that is over does, how much of the global queue a
//! thread takes, and when.

use std::future::poll_fn;

use super::*;
use crate::{
    cell::Id,
    policy::constants::{FILLS_TO, SLICE, SLOW_TICK},
    sched::{Root, Shared, processor::attention},
    sync::atomic::AtomicBool,
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

fn asks(worker: &Worker, bit: u32) {
    worker.own_peer().attention.fetch_or(bit, Relaxed);
}

fn is_asked(worker: &Worker, bit: u32) -> bool {
    worker.own_peer().attention.load(Relaxed) & bit != 0
}

/// Alone with the only permit.
pub(super) fn alone() -> (Runtime, Worker) {
    let builder = Builder::new().workers(1).sysmon(false);
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
    worker.p.clocks.slice_began.set(Some(1));
    asks(&worker, attention::SLICE);
    assert!(worker.slice_is_over());
    assert_eq!(runs(&worker), ids[0], "the queue has its turn");
    assert!(!worker.slice_is_over());
    assert_eq!(worker.p.clocks.slice_began.get(), None, "a new one begins");
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
    asks(&worker, attention::GLOBAL);
    assert!(!worker.slice_is_over());
    worker.p.clocks.slice_began.set(Some(1));
    count_to(&worker, 1);
    assert_eq!(runs(&worker), ids[1]);
    assert_eq!(worker.p.clocks.slice_began.get(), Some(1), "it goes on");
    assert_eq!(runs(&worker), ids[0]);
    assert_eq!(
        worker.p.clocks.slice_began.get(),
        None,
        "the queue has its turn"
    );
    end(runtime, [worker]);
}

#[test]
fn who_is_asked_takes_from_the_global_queue_at_every_fourth_tick() {
    let (runtime, worker) = alone();
    let own = spawned(&worker, 5);
    let others = foreign(&runtime, 2);
    let counted = || worker.own_peer().counters.global.get();
    asks(&worker, attention::GLOBAL);
    count_to(&worker, SLOW_TICK - 1);
    assert_eq!(runs(&worker), own[4], "not in between");
    assert_eq!(runs(&worker), others[0]);
    assert_eq!(counted(), 1);
    count_to(&worker, 2 * SLOW_TICK);
    assert_eq!(runs(&worker), others[1]);
    assert_eq!(counted(), 2);
    assert!(is_asked(&worker, attention::GLOBAL));
    count_to(&worker, 3 * SLOW_TICK);
    assert_eq!(runs(&worker), own[0], "nothing is left there");
    assert!(!is_asked(&worker, attention::GLOBAL), "so that is over");
    foreign(&runtime, 1);
    asks(&worker, attention::SLICE);
    count_to(&worker, 4 * SLOW_TICK);
    assert_eq!(runs(&worker), own[1], "it was asked for something else");
    end(runtime, [worker]);
}

#[test]
fn who_is_asked_has_its_timers_and_its_sample_in_time() {
    let (runtime, worker) = alone();
    let others = foreign(&runtime, 3);
    asks(&worker, attention::GLOBAL);
    assert!(TIMER_TICK.is_multiple_of(SLOW_TICK));
    let woken = Shares::new(AtomicBool::new(false));
    let wakes = woken.clone();
    is_due(&worker, hook(move || wakes.store(true, Relaxed)));
    count_to(&worker, TIMER_TICK);
    worker.peer().lane.look_at_next(false);
    assert_eq!(runs(&worker), others[0]);
    assert!(woken.load(Relaxed), "its timer was fired");
    assert!(worker.peer().lane.get().is_looked_at(), "a poll was chosen");
    end(runtime, [worker]);
}

#[test]
fn who_is_in_block_on_takes_nothing_though_it_is_asked() {
    let (runtime, mut worker) = alone();
    worker.scope = Scope::Own;
    let own = spawned(&worker, 1);
    // In a `block_on` what is spawned may go to others; this was put here.
    foreign(&runtime, 1);
    asks(&worker, attention::GLOBAL);
    count_to(&worker, SLOW_TICK);
    assert_eq!(runs(&worker), own[0]);
    assert!(!is_asked(&worker, attention::GLOBAL));
    worker.scope = Scope::All;
    end(runtime, [worker]);
}

#[test]
fn who_has_nothing_takes_its_share_of_the_global_queue() {
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

#[test]
fn who_has_little_fills_half_of_its_queue_at_a_61st_tick() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    spawned(&worker, 4);
    let ids = foreign(&runtime, 1000);
    count_to(&worker, GLOBAL_TICK);
    assert_eq!(runs(&worker), ids[0]);
    let half = FILLS_TO;
    // What it runs is one of the batch.
    assert_eq!(worker.p.lrq.len(), half - 1);
    count_to(&worker, GLOBAL_TICK);
    assert_eq!(runs(&worker), ids[half - 3]);
    assert_eq!(worker.p.lrq.len(), half - 1, "one is little");
    end(runtime, [worker, other]);
}

#[test]
fn a_batch_wakes_for_all_but_the_one_that_is_for_itself() {
    let started = |tasks: usize| {
        let builder = Builder::new().workers(8).sysmon(false);
        let builder = builder.stall_threshold(None);
        let runtime = builder.build_with(Clock::stopped()).unwrap();
        let worker = thread(&runtime);
        let wakers = Shares::new(Mutex::new(Vec::new()));
        context::with_worker_frame(&worker, || {
            for _ in 0..tasks {
                let wakers = wakers.clone();
                drop(spawn(poll_fn(move |cx| {
                    wakers.lock().unwrap().push(cx.waker().clone());
                    Poll::<()>::Pending
                })));
                take_started(&runtime);
                let Step::Run(task) = worker.step() else {
                    panic!("it was spawned here");
                };
                worker.poll(task);
            }
        });
        take_started(&runtime);
        let wakers = std::mem::take(&mut *wakers.lock().unwrap());
        wakers.into_iter().for_each(|waker| is_due(&worker, waker));
        finds_a_task(&worker);
        let started = take_started(&runtime);
        assert_eq!(worker.p.lrq.len(), tasks - 1, "all are in the queue");
        end(runtime, [worker]);
        started
    };
    assert_eq!([1, 2, 3, 4].map(started), [0, 1, 2, 3]);
}

#[test]
fn the_milliseconds_are_those_of_the_last_look_at_the_clock() {
    let (runtime, worker) = alone();
    worker
        .env()
        .time
        .clock()
        .advance(Duration::from_millis(1234));
    is_due(&worker, spawner(1));
    finds_a_task(&worker);
    assert_eq!(worker.p.clocks.now_ms.get(), 1234);
    end(runtime, [worker]);
}

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
fn who_is_in_block_on_leaves_a_permit_to_others() {
    let runtime = runtime();
    let (mut worker, other) = in_block_on(&runtime, true);
    foreign(&runtime, 1);
    assert!(leaves(&mut worker));
    assert_eq!(take_started(&runtime), 1, "a thread is there for it");
    end(runtime, [worker, other]);
}

#[test]
fn who_is_in_block_on_keeps_its_permit_where_nothing_waits() {
    let runtime = runtime();
    let (mut worker, other) = in_block_on(&runtime, true);
    assert!(!leaves(&mut worker));
    end(runtime, [worker, other]);
}

#[test]
fn who_is_in_block_on_keeps_its_permit_where_no_thread_is_to_be_had() {
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
fn who_is_in_block_on_keeps_its_permit_where_another_takes_what_waits() {
    let runtime = runtime();
    let (mut worker, other) = in_block_on(&runtime, false);
    foreign(&runtime, 1);
    assert!(!leaves(&mut worker));
    end(runtime, [worker, other]);
}

pub(super) fn advance(worker: &Worker, time: Duration) {
    worker.env().time.clock().advance(time);
}

#[test]
fn a_slice_is_over_ten_milliseconds_after_the_first_look_at_the_clock() {
    let (runtime, worker) = alone();
    advance(&worker, Duration::from_millis(7));
    spawned(&worker, 3);
    let look = || {
        count_to(&worker, GLOBAL_TICK);
        finds_a_task(&worker);
    };
    worker.p.clocks.slice_began.set(None);
    // A lone `runnext` goes on with the slice, and all of these are run from there.
    let next = || {
        let task = worker.p.lrq.pop().expect("there are three");
        assert!(worker.p.runnext.put(task).is_none());
        look();
    };
    look();
    assert_eq!(worker.p.clocks.now_ms.get(), 7);
    let began = worker.p.clocks.slice_began.get();
    assert_eq!(began, Some(worker.now()), "it was not known before");
    advance(&worker, SLICE - Duration::from_nanos(1));
    next();
    assert!(!worker.slice_is_over());
    assert_eq!(worker.p.clocks.slice_began.get(), began);
    assert_eq!(worker.p.clocks.now_ms.get(), 16);
    advance(&worker, Duration::from_nanos(1));
    next();
    assert!(worker.slice_is_over());
    assert_eq!(worker.p.clocks.now_ms.get(), 17);
    end(runtime, [worker]);
}

#[test]
fn who_has_its_share_takes_one_at_a_61st_tick() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    // Four in the queue, and one next.
    spawned(&worker, 5);
    let mut ids = foreign(&runtime, 9).into_iter();
    // Of nine four are its share, which it has; it has less than five of ten.
    count_to(&worker, GLOBAL_TICK);
    assert_eq!(Some(runs(&worker)), ids.next());
    assert_eq!(worker.p.lrq.len(), 4);
    ids = ids
        .chain(foreign(&runtime, 2))
        .collect::<Vec<_>>()
        .into_iter();
    count_to(&worker, GLOBAL_TICK);
    assert_eq!(Some(runs(&worker)), ids.next());
    assert_eq!(
        worker.p.lrq.len(),
        9,
        "half of ten and one, but for the first"
    );
    end(runtime, [worker, other]);
}

#[test]
fn a_child_that_was_just_forked_waits_where_others_come_first() {
    let (runtime, worker) = alone();
    let fork = || {
        let task = worker.p.lrq.pop().expect("there are some");
        worker.p.forks.put_child(task);
    };
    spawned(&worker, 5);
    let others = foreign(&runtime, 2);
    fork();
    count_to(&worker, GLOBAL_TICK);
    assert_eq!(runs(&worker), others[0]);
    assert!(!worker.p.forks.has_child(), "it is no child of that one");
    assert!(!worker.p.runnext.is_empty(), "it is next");
    fork();
    asks(&worker, attention::GLOBAL);
    count_to(&worker, SLOW_TICK);
    assert_eq!(runs(&worker), others[1]);
    assert!(!worker.p.forks.has_child());
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
        worker.p.forks.used.set(true);
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

#[test]
fn who_wants_a_permit_gets_it_at_a_61st_tick() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let wants = wanting(&runtime);
    let ids = spawned(&worker, 2);
    count_to(&worker, GLOBAL_TICK - 1);
    assert_eq!(runs(&worker), ids[1]);
    assert_eq!(wants.own_peer().state().load(), WorkerState::Wanting);
    let found = step(&worker);
    assert_parks(&worker, &found);
    assert_eq!(wants.own_peer().state().load(), WorkerState::Running);
    assert!(worker.env().has_queued(), "what was here is for others");
    end(runtime, [worker, other, wants]);
}

#[test]
fn who_has_work_looks_at_the_netpoll_now_and_then() {
    let (runtime, worker) = alone();
    let _events = Events::new(&runtime);
    let looks = |later| {
        advance(&worker, later);
        spawned(&worker, 1);
        count_to(&worker, GLOBAL_TICK);
        runs(&worker);
        worker.own_peer().counters.netpolls.get()
    };
    assert_eq!(looks(NETPOLL_PERIOD), 1);
    assert_eq!(looks(NETPOLL_PERIOD - Duration::from_nanos(1)), 1);
    assert_eq!(looks(Duration::from_nanos(1)), 2);
    assert_eq!(looks(Duration::ZERO), 2);
    end(runtime, [worker]);
}

/// A thread with a root that is due, and without a permit.
fn without_permit(runtime: &Runtime, scope: Scope) -> Worker {
    let shared = runtime.handle().shared();
    let processor = shared.take_processor().expect("there is room for it");
    let root = Root::new();
    root.settle(shared, None);
    let worker = Worker::new(shared.clone(), processor, scope, Some(root));
    worker.own_peer().state().arrive();
    worker
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
