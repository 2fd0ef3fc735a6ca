//! O1, O3, O4, O5: what a step takes where tasks have a priority, and how much of what others have.
//! But for the first test all are steps of this thread, so that the order is exact.

use std::sync::{Barrier, Mutex};

use super::{ANY, TURNS, Tick, Turn};
use crate::{
    cell::Task,
    context,
    permit::{
        env::{Env, PeerEnv},
        sleep::Sleeper,
    },
    policy::constants::{GLOBAL_TICK, OWN_MAX, TURN_TICKS},
    queue::local_queue,
    runtime::{Builder, Priorities, Runtime, Sysmon},
    sched::{
        Shared,
        find::tests::thread,
        shutdown::tests::end,
        worker::{Step, Worker},
    },
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{self, Priority},
    timer::Clock,
};

/// It goes to the queue that all share with the rest: a busy thread takes nothing low from another
/// P.
#[test]
fn a_revocation_takes_what_is_ordered() {
    let runtime = Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap();
    let (filled, over) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (told, held) = (filled.clone(), over.clone());
    let stuck = runtime.spawn(async move {
        for priority in [-1, 0, 1] {
            let task = task::Builder::new().priority(priority);
            drop(task.spawn(async {}));
        }
        told.wait();
        held.wait();
    });
    filled.wait();
    let shared = runtime.handle().shared();
    let ordered = || shared.metrics().processors[0].ordered_queue;
    assert_eq!(ordered(), 2);
    assert!(shared.revoke(shared.peer(0), &local_queue().0));
    // Long before a thief could have come for them.
    assert_eq!(ordered(), 0);
    over.wait();
    runtime.block_on(stuck).unwrap();
}

/// So many threads, which have all permits: nobody is woken for what is queued.
fn threads(workers: usize, priorities: Priorities) -> (Runtime, Vec<Worker>) {
    let builder = Builder::new().workers(workers).sysmon(Sysmon::Off).seed(1);
    let builder = builder.stall_threshold(None).priorities(priorities);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let workers = (0..workers).map(|_| thread(&runtime)).collect();
    (runtime, workers)
}

fn alone(priorities: Priorities) -> (Runtime, Worker) {
    let (runtime, mut workers) = threads(1, priorities);
    (runtime, workers.pop().expect("it is one"))
}

/// Spawns tasks of these priorities on that thread.
fn spawn(worker: &Worker, priorities: &[i64]) {
    context::with_worker_frame(worker, || {
        for &priority in priorities {
            drop(task::Builder::new().priority(priority).spawn(async {}));
        }
    });
}

/// From outside: into the queues that all share.
fn share(runtime: &Runtime, priorities: &[i64]) {
    for &priority in priorities {
        let task = task::Builder::new().priority(priority);
        drop(task.spawn_on(async {}, runtime.handle()));
    }
}

/// What came out of a queue is dropped instead of being run. Its priority.
fn ends(task: Task) -> i64 {
    let priority = task.header().priority();
    Shared::cancel(task);
    priority
}

/// The priority of what the step runs.
#[track_caller]
fn runs(worker: &Worker) -> i64 {
    match context::with_worker_frame(worker, || worker.step()) {
        Step::Run(task) => ends(task),
        other => panic!("it has work: {other:?}"),
    }
}

/// How many tasks are in its own ordered queue.
fn own(worker: &Worker) -> usize {
    worker
        .own_peer()
        .ordered()
        .map_or(0, |ordered| ordered.len())
}

/// It has no turn for those below any more.
fn without_turns(worker: &Worker) {
    worker.p.priority_queues.next_turn.set(u64::MAX);
}

/// It does not look at what all others publish any more.
fn without_looks(worker: &Worker) {
    worker.p.priority_queues.next_look.set(u64::MAX);
}

#[test]
fn the_default_ones_are_between_those_above_and_those_below() {
    let (runtime, worker) = alone(Priorities::Fair);
    spawn(&worker, &[-1, 0, 2, i64::MIN, 1, 0]);
    assert_eq!([(); 6].map(|()| runs(&worker)), [2, 1, 0, 0, -1, i64::MIN]);
    end(runtime, [worker]);
}

#[test]
fn its_own_come_before_what_is_shared_unless_that_is_above() {
    let (runtime, worker) = alone(Priorities::Fair);
    spawn(&worker, &[5, -5]);
    share(&runtime, &[4]);
    assert_eq!(runs(&worker), 5);
    share(&runtime, &[5]);
    spawn(&worker, &[5]);
    let taken = own(&worker);
    assert_eq!(runs(&worker), 5);
    assert_eq!(own(&worker), taken - 1, "they were level");
    assert_eq!([(); 3].map(|()| runs(&worker)), [5, 4, -5]);
    end(runtime, [worker]);
}

#[test]
fn after_sixty_of_its_own_what_is_shared_has_its_turn() {
    let (runtime, worker) = alone(Priorities::Fair);
    without_turns(&worker);
    spawn(&worker, &[9; 2 * OWN_MAX as usize + 1]);
    for _ in 0..2 {
        share(&runtime, &[-7]);
        (0..OWN_MAX).for_each(|_| assert_eq!(runs(&worker), 9));
        assert_eq!(runs(&worker), -7);
    }
    assert_eq!(runs(&worker), 9);
    end(runtime, [worker]);
}

#[test]
fn one_that_takes_of_what_is_shared_takes_its_share() {
    let (runtime, workers) = threads(2, Priorities::Fair);
    share(&runtime, &[1; 10]);
    let task = workers[0].take_shared(ANY).expect("ten are there");
    assert_eq!(ends(task), 1);
    assert_eq!(own(&workers[0]), 5, "half and one, but for the first");
    assert_eq!(workers[0].env().queues.ordered.len(), 4);
    end(runtime, workers);
}

#[test]
fn a_thief_takes_from_one_that_has_the_highest() {
    let (runtime, workers) = threads(4, Priorities::Fair);
    let thief = &workers[0];
    let levels: [&[i64]; 3] = [&[3, 3], &[7, 7, 2, 7, 2], &[5]];
    // In another order each time.
    for round in 1..=8 {
        for (victim, levels) in workers[1..].iter().zip(levels) {
            spawn(victim, levels);
        }
        assert!(thief.steal_ordered(8).is_none(), "nobody has one so high");
        let task = thief.steal_ordered(ANY).expect("three have some");
        assert_eq!(ends(task), 7);
        let left = [0, 1, 2, 3].map(|at| own(&workers[at]));
        assert_eq!(left, [2, 2, 2, 1], "the upper half of five");
        assert_eq!(thief.own_peer().counters.stolen.get(), 3 * round);
        let left = workers
            .iter()
            .flat_map(|worker| worker.p.priority_queues.drain());
        left.for_each(Shared::cancel);
    }
    end(runtime, workers);
}

/// The other one may be stuck: one that is busy takes only what is above all that it has.
#[test]
fn one_that_is_busy_takes_what_is_above_all_that_is_at_hand() {
    let first = |own: &[i64], shared: &[i64], theirs: i64| {
        let (runtime, workers) = threads(2, Priorities::Fair);
        spawn(&workers[0], own);
        share(&runtime, shared);
        spawn(&workers[1], &[theirs]);
        let first = runs(&workers[0]);
        end(runtime, workers);
        first
    };
    assert_eq!(first(&[3, 0], &[], 5), 5);
    assert_eq!(first(&[5, 0], &[], 3), 5);
    assert_eq!(first(&[0], &[3], 5), 5);
    assert_eq!(first(&[0], &[5], 3), 5);
    assert_eq!(first(&[0], &[], -1), 0, "it is not above the default");
    assert_eq!(first(&[-1, 0], &[], i64::MAX), i64::MAX);
    assert_eq!(first(&[i64::MAX], &[], 1), i64::MAX);
}

#[test]
fn the_next_look_at_others_is_some_ticks_later() {
    let (runtime, workers) = threads(2, Priorities::Fair);
    let [worker, other] = &workers[..] else {
        panic!("there are two");
    };
    spawn(worker, &[1; 100]);
    without_turns(worker);
    assert_eq!(runs(worker), 1);
    spawn(other, &[2]);
    let looked_at = worker.own_peer().progress.ticks.load(Relaxed);
    while runs(worker) == 1 {}
    assert_eq!(
        worker.own_peer().progress.ticks.load(Relaxed) - looked_at,
        TURN_TICKS
    );
    end(runtime, workers);
}

#[test]
fn one_that_has_nothing_steals_what_is_above_the_shared_ones() {
    let first = |own: &[i64]| {
        let (runtime, workers) = threads(2, Priorities::Fair);
        without_looks(&workers[0]);
        spawn(&workers[0], own);
        share(&runtime, &[5]);
        spawn(&workers[1], &[7]);
        let first = runs(&workers[0]);
        end(runtime, workers);
        first
    };
    assert_eq!(first(&[]), 7);
    assert_eq!(first(&[0]), 5, "it has a plain one");
    assert_eq!(first(&[-1]), 5, "it has an ordered one");
}

#[test]
fn the_global_queue_waits_for_those_above_where_order_is_strict() {
    let first = |priorities, own: i64| {
        let (runtime, worker) = alone(priorities);
        spawn(&worker, &[own]);
        share(&runtime, &[0]);
        worker
            .own_peer()
            .progress
            .ticks
            .store(GLOBAL_TICK - 1, Relaxed);
        let first = runs(&worker);
        end(runtime, [worker]);
        first
    };
    assert_eq!(first(Priorities::Strict, 1), 1);
    assert_eq!(first(Priorities::Strict, -1), 0);
    assert_eq!(first(Priorities::Fair, 1), 0);
}

#[test]
fn a_turn_is_due_some_ticks_after_somebody_began_to_wait() {
    let (runtime, worker) = alone(Priorities::Fair);
    let is_due = |ticks: &[u64]| -> Vec<bool> {
        let due = ticks.iter().map(|&tick| worker.turn_is_due(Tick(tick)));
        due.collect()
    };
    assert_eq!(is_due(&[1, 100]), [false, false], "nobody waits");
    spawn(&worker, &[1]);
    let from = 200;
    let next = from + TURN_TICKS;
    assert_eq!(is_due(&[from, next - 1, next]), [false, false, true]);
    let later = next + TURN_TICKS;
    assert_eq!(is_due(&[later - 1, later]), [false, true]);
    assert_eq!(runs(&worker), 1);
    assert_eq!(is_due(&[later + TURN_TICKS]), [false], "nobody waits");
    share(&runtime, &[-1]);
    let from = 500;
    assert_eq!(is_due(&[from, from + TURN_TICKS]), [false, true]);
    end(runtime, [worker]);
}

#[test]
fn a_turn_is_for_the_lowest_unless_order_is_strict() {
    for (priorities, first) in [(Priorities::Fair, -1), (Priorities::Strict, 1)] {
        let (runtime, worker) = alone(priorities);
        spawn(&worker, &[1, -1]);
        worker.p.priority_queues.next_turn.set(1);
        assert_eq!(runs(&worker), first);
        end(runtime, [worker]);
    }
}

/// Whose turn it is: that of a task of this priority, or of the plain queues.
#[derive(Debug, PartialEq, Eq)]
enum Whose {
    Of(i64),
    Plain,
}

fn turn(worker: &Worker) -> Option<Whose> {
    Some(match worker.take_turn()? {
        Turn::Of(task) => Whose::Of(ends(task)),
        Turn::Plain => Whose::Plain,
    })
}

#[test]
fn four_have_a_turn_each() {
    use Whose::{Of, Plain};
    let (runtime, worker) = alone(Priorities::Fair);
    spawn(&worker, &[5, -5, 0]);
    share(&runtime, &[9, -3, -9]);
    let turns = |count| -> Vec<_> { (0..count).filter_map(|_| turn(&worker)).collect() };
    // The lowest of both, what is plain, one level of its own, and one of the shared ones; then the
    // first again.
    assert_eq!(turns(TURNS), [Of(-9), Plain, Of(-5), Of(-3)]);
    assert_eq!(
        turns(1),
        [Of(5)],
        "the lowest of its own, for the other is above"
    );
    // It has nothing else of its own now.
    assert_eq!(turns(2), [Plain, Of(9)]);
    assert_eq!(turns(2), [Plain, Plain], "all that is left");
    worker.p.runnext.take().into_iter().for_each(Shared::cancel);
    assert_eq!(turn(&worker), None);
    end(runtime, [worker]);
}

#[test]
fn where_nothing_is_plain_the_turn_goes_on() {
    let (runtime, worker) = alone(Priorities::Fair);
    spawn(&worker, &[5]);
    share(&runtime, &[9]);
    worker.p.priority_queues.turn.set(1);
    assert_eq!(turn(&worker), Some(Whose::Of(5)));
    assert_eq!(turn(&worker), Some(Whose::Of(9)));
    assert_eq!(turn(&worker), None);
    end(runtime, [worker]);
}

#[test]
fn a_queue_that_runs_over_is_counted() {
    let (runtime, worker) = alone(Priorities::Fair);
    let (shared, counters) = (worker.shared(), &worker.own_peer().counters);
    while shared.queues.ordered.is_empty() {
        assert_eq!(counters.overflows.get(), 0);
        spawn(&worker, &[1]);
    }
    assert_eq!(counters.overflows.get(), 1);
    assert!(worker.own_peer().flags.gave_away.load(Relaxed));
    end(runtime, [worker]);
}

#[test]
fn what_is_handed_in_or_left_behind_is_for_all() {
    let (runtime, worker) = alone(Priorities::Fair);
    spawn(&worker, &[1, -1]);
    let shared = worker.shared().clone();
    worker.flush();
    assert_eq!((own(&worker), shared.queues.ordered.len()), (0, 2));
    assert!(worker.own_peer().flags.gave_away.load(Relaxed));
    spawn(&worker, &[1]);
    let index = worker.index();
    worker.leave();
    assert!(shared.peer(index).ordered().is_some_and(|it| it.is_empty()));
    assert_eq!(shared.queues.ordered.len(), 3);
    end(runtime, []);
}

#[test]
fn one_that_clears_away_takes_what_another_has() {
    let (runtime, workers) = threads(2, Priorities::Fair);
    spawn(&workers[1], &[-2, 4, 1, 3]);
    let task = workers[0]
        .steal_ordered_from(workers[1].own_peer())
        .map(ends);
    let shared = workers[0].env().queues.ordered.top();
    let left = own(&workers[1]);
    // Before anything fails: a runtime's end could not go on without it.
    end(runtime, workers);
    assert_eq!(task, Some(4));
    assert_eq!((shared, left), (Some(3), 2), "the lower half stays");
}

#[test]
fn a_poll_finds_the_priority_of_its_task() {
    let (runtime, worker) = alone(Priorities::Fair);
    let seen = Arc::new(Mutex::new(Vec::new()));
    context::with_worker_frame(&worker, || {
        for priority in [7, 0, -1] {
            let seen = seen.clone();
            let task = task::Builder::new().priority(priority);
            drop(task.spawn(async move { seen.lock().unwrap().push(Priority::current().get()) }));
        }
        for _ in 0..3 {
            match worker.step() {
                Step::Run(task) => worker.poll(task),
                other => panic!("three were spawned: {other:?}"),
            }
        }
    });
    assert_eq!(*seen.lock().unwrap(), [7, 0, -1]);
    assert_eq!(
        worker.running_task().map(|task| task.header().priority()),
        None,
        "it polls nothing"
    );
    end(runtime, [worker]);
}
