//! Where tasks go that become runnable on a worker's thread, and which thread is woken for them;
//! and which calls a bound thread passes on, and to which thread. The threads are steps of this
//! one.

use std::{
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use super::*;
use crate::{
    context,
    permit::{
        phase::ShutdownEnv,
        sleep::{Look, Sleeper},
    },
    policy::constants::{CALL_MOVES_MAX, WAKE_USEFUL_AFTER},
    queue::{CAPACITY, OrderedStealer},
    runtime::{Builder, Runtime, Sysmon},
    sched::{
        find::tests::{runtime, thread},
        shutdown::tests::{alone, end, next, take_started},
    },
    spawn, spawn_local, spawn_pinned, task,
    timer::Clock,
};

fn poll(worker: &Worker, task: Task) {
    context::with_worker_frame(worker, || worker.poll(task));
}

/// Leaves a task alone in `runnext`, and comes back so much later. Whether somebody was woken for
/// it.
fn is_offered(runtime: &Runtime, worker: &Worker, later: Duration) -> bool {
    context::with_worker_frame(worker, || drop(spawn(async {})));
    let woken = take_started(runtime);
    worker.env().time.clock().advance(later);
    poll(worker, next(worker));
    woken > 0
}

/// Which of so many in a row are.
fn offered(later: Duration, tasks: usize) -> Vec<usize> {
    let runtime = runtime();
    let worker = thread(&runtime);
    worker.env().time.clock().advance(Duration::from_millis(1));
    let offered = (0..tasks)
        .filter(|_| is_offered(&runtime, &worker, later))
        .collect();
    end(runtime, [worker]);
    offered
}

#[test]
fn a_task_that_has_to_wait_is_offered_each_time() {
    assert_eq!(offered(WAKE_USEFUL_AFTER, 14), Vec::from_iter(0..14));
}

#[test]
fn where_its_thread_is_soon_back_a_task_is_offered_less_and_less() {
    let soon = WAKE_USEFUL_AFTER - Duration::from_nanos(1);
    assert_eq!(offered(soon, 14), [0, 1, 2, 3, 5, 8, 13]);
}

// For a task that is alone in `runnext`, and for one in the queue.
#[test]
fn one_that_is_woken_for_a_task_is_counted() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let wakeups = || worker.own_peer().counters.wakeups.get();
    for woken in 1..=2 {
        context::with_worker_frame(&worker, || drop(spawn(async {})));
        assert_eq!(wakeups(), woken);
        // Nobody spins any more.
        assert_eq!(take_started(&runtime), 1);
    }
    assert_eq!(worker.p.lrq.len(), 1);
    end(runtime, [worker]);
}

#[test]
fn what_is_woken_goes_where_its_kind_says() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let plain: fn() = || drop(spawn(async {}));
    let named: fn() = || drop(task::Builder::new().name("it").spawn(async {}));
    let urgent: fn() = || drop(task::Builder::new().priority(1).spawn(async {}));
    let pinned: fn() = || drop(spawn_local(async {}));
    // How many are next, in the ordered queue, and in the pinned one.
    let places = [
        (plain, [1, 0, 0]),
        (named, [1, 0, 0]),
        (urgent, [0, 1, 0]),
        (pinned, [0, 0, 1]),
    ];
    for (spawns, place) in places {
        context::with_worker_frame(&worker, spawns);
        let task = next(&worker);
        context::with_worker_frame(&worker, || worker.push_woken(task));
        let p = &worker.p;
        let ordered = worker
            .peer()
            .queues
            .ordered
            .get()
            .map_or(0, OrderedStealer::len);
        let found = [
            usize::from(!p.runnext.is_empty()),
            ordered,
            p.pinned.ready.borrow().len(),
        ];
        assert_eq!(found, place);
        poll(&worker, next(&worker));
    }
    end(runtime, [worker, other]);
}

#[test]
fn a_thread_uses_its_ids_up_before_it_takes_more() {
    let (runtime, worker) = alone();
    let id = || worker.parts(None, Location::caller()).birth.id.as_u64();
    let (_, last) = Shared::id_block();
    worker.p.spawns.ids.set((last - 2, last));
    assert_eq!([id(), id()], [last - 2, last - 1]);
    assert!(id() >= last, "that is another's");
    end(runtime, [worker]);
}

#[test]
fn a_pinned_task_is_made_by_its_own_thread() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let parts = other.parts(None, Location::caller());
    let made = catch_unwind(AssertUnwindSafe(|| {
        Shared::new_pinned_task(&worker, async {}, parts)
    }));
    assert!(made.is_err(), "the other one would run it");
    end(runtime, [worker, other]);
}

/// How many tasks were spawned on that thread, as users read it.
fn spawned(runtime: &Runtime, worker: &Worker) -> u64 {
    runtime.metrics().processors[worker.index()].spawned
}

#[test]
fn a_task_for_all_counts_where_it_was_spawned_unless_it_is_refused() {
    let (runtime, worker) = alone();
    let spawns = || context::with_worker_frame(&worker, || drop(spawn_pinned(|| async {})));
    spawns();
    assert_eq!(spawned(&runtime, &worker), 1);
    runtime.handle().shared().begin_shutdown();
    spawns();
    assert_eq!(spawned(&runtime, &worker), 1, "it was refused");
    end(runtime, [worker]);
}

#[test]
fn a_pinned_task_and_its_carrier_count_as_one_also_if_the_end_refuses_the_task() {
    for refuses in [false, true] {
        let (runtime, worker) = alone();
        context::with_worker_frame(&worker, || drop(spawn_pinned(|| async {})));
        let carrier = next(&worker);
        if refuses {
            runtime.handle().shared().begin_shutdown();
        }
        poll(&worker, carrier);
        assert_eq!(worker.p.pinned.has_live(), !refuses);
        assert_eq!(spawned(&runtime, &worker), 1, "refuses: {refuses}");
        end(runtime, [worker]);
    }
}

// --- calls ---

/// Where a new call goes from a thread that has so many tasks in its queue. One counts: the local
/// queue, the ordered one, the global one, the shared ordered one.
fn place_of_call(waiting: usize, priority: i64, scope: Scope) -> [usize; 4] {
    let runtime = runtime();
    let (mut worker, other) = (thread(&runtime), thread(&runtime));
    // One more is next, and a call that comes before it sends it to the queue.
    context::with_worker_frame(&worker, || {
        (0..=waiting).for_each(|_| drop(spawn(async {})));
    });
    assert_eq!(worker.p.lrq.len(), waiting);
    worker.scope = scope;
    context::with_worker_frame(&worker, || {
        let call = task::Builder::new().priority(priority);
        drop(call.spawn_blocking(|| ()));
    });
    worker.scope = Scope::All;
    let shared = runtime.handle().shared();
    let place = [
        worker.p.lrq.len() - waiting,
        worker
            .peer()
            .queues
            .ordered
            .get()
            .map_or(0, OrderedStealer::len),
        shared.queues.grq.len(),
        shared.queues.ordered.len(),
    ];
    let given_away = place[2] + place[3] > 0;
    assert_eq!(worker.peer().flags.gave_away.load(Relaxed), given_away);
    end(runtime, [worker, other]);
    place
}

#[test]
fn a_call_runs_next_where_few_tasks_wait_and_goes_to_all_where_more_do() {
    let few = CALL_MOVES_MAX;
    assert_eq!(place_of_call(few, 0, Scope::All), [1, 0, 0, 0]);
    assert_eq!(place_of_call(few + 1, 0, Scope::All), [0, 0, 1, 0]);
    assert_eq!(place_of_call(few + 1, 1, Scope::All), [0, 1, 0, 0]);
}

#[test]
fn a_call_of_a_block_on_goes_to_all() {
    assert_eq!(place_of_call(0, 0, Scope::Own), [0, 0, 1, 0]);
    assert_eq!(place_of_call(0, 1, Scope::Own), [0, 0, 0, 1]);
}

/// Whether this thread would pass a call on, which the end of the call's poll is told as well.
fn passes_on(worker: &Worker) -> bool {
    let passes_on = worker.passes_call_on();
    assert_eq!(worker.p.poll.passes_on.take(), passes_on);
    passes_on
}

/// Gives it something that waits for it alone.
fn bind(worker: &Worker) {
    context::with_worker_frame(worker, || drop(spawn_local(pending::<()>())));
}

fn builder() -> Builder {
    Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .stall_threshold(None)
}

#[test]
fn a_bound_thread_passes_calls_on_while_another_can_be_had() {
    let runtime = builder().build().unwrap();
    let worker = thread(&runtime);
    let shared = runtime.handle().shared();
    assert!(!passes_on(&worker), "nothing waits for it alone");
    bind(&worker);
    assert!(passes_on(&worker));
    shared.threads.counts.lock().count = shared.config.max_threads;
    assert!(!passes_on(&worker), "no other can be had");
    shared.threads.counts.lock().count = 0;
    shared.begin_shutdown();
    assert!(!passes_on(&worker), "none is started any more");
    end(runtime, [worker]);
}

#[test]
fn under_the_simulator_no_call_is_passed_on_but_in_virtual_time() {
    let stepped = builder().build_with(Clock::stopped());
    let paused = builder().clock(crate::runtime::Clock::Paused).build();
    for (runtime, passes) in [(stepped, false), (paused, true)] {
        let runtime = runtime.unwrap();
        let worker = thread(&runtime);
        bind(&worker);
        assert_eq!(passes_on(&worker), passes);
        end(runtime, [worker]);
    }
}

/// A call that was queued for all, while nobody could be woken for it.
fn call(runtime: &Runtime) -> Task {
    drop(runtime.handle().spawn_blocking(|| ()));
    let shared = runtime.handle().shared();
    shared.pop_queued().expect("it was queued")
}

#[test]
fn a_call_is_passed_on_with_a_free_permit_or_else_with_the_own() {
    for is_free in [true, false] {
        let runtime = runtime();
        let (worker, sleeper) = (thread(&runtime), thread(&runtime));
        let idle = &runtime.handle().shared().idle;
        let call = call(&runtime);
        let id = call.header().id();
        assert!(!sleeper.begin_park(), "nothing is queued");
        let permit = if is_free { None } else { idle.acquire() };
        worker.pass_on(call);
        assert_eq!(worker.peer().state.has_permit(), is_free);
        assert_eq!(worker.peer().counters.wakeups.get(), 1);
        assert_eq!(sleeper.check_before_sleep(), Look::Up);
        assert!(sleeper.peer().state.has_permit());
        let handed = sleeper
            .peer()
            .thread
            .handed
            .take()
            .expect("it was handed over");
        assert_eq!(handed.header().id(), id);
        let _ = handed.cancel();
        if let Some(permit) = permit {
            idle.release(permit, None);
        }
        end(runtime, [worker, sleeper]);
    }
}

#[test]
fn one_that_has_no_permit_leaves_the_call_to_all() {
    let runtime = runtime();
    let (worker, sleeper) = (thread(&runtime), thread(&runtime));
    let shared = runtime.handle().shared();
    let call = call(&runtime);
    assert!(!sleeper.begin_park(), "nothing is queued");
    let taken = worker.peer().state.revoke().expect("it has one");
    worker.pass_on(call);
    assert_eq!(shared.queues.grq.len(), 1);
    assert!(sleeper.peer().thread.handed.take().is_none());
    assert_eq!(
        sleeper.check_before_sleep(),
        Look::Up,
        "it was woken for that"
    );
    shared.idle.release(taken, None);
    end(runtime, [worker, sleeper]);
}

/// A thread in `block_on` has to know: it stands in for others then.
#[test]
fn one_that_gives_away_what_it_made_runnable_takes_note_of_it() {
    let runtime = runtime();
    let (first, second) = (thread(&runtime), thread(&runtime));
    let without_permit = thread(&runtime);
    let spawns = |worker: &Worker, tasks: usize| {
        context::with_worker_frame(worker, || (0..tasks).for_each(|_| drop(spawn(async {}))));
    };
    let takes_note = |worker: &Worker| worker.peer().flags.gave_away.swap(false, Relaxed);
    spawns(&first, CAPACITY as usize + 1);
    assert!(!takes_note(&first), "all are here");
    spawns(&first, 1);
    assert!(takes_note(&first), "half a queue");
    spawns(&without_permit, 1);
    assert!(takes_note(&without_permit), "a new one");
    let task = runtime.handle().shared().queues.grq.pop();
    without_permit.push_back(task.expect("it is for others"));
    assert!(takes_note(&without_permit), "one that goes on");
    end(runtime, [first, second, without_permit]);
}
