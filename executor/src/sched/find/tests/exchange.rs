//! L4, H1, bound: LRQ: *the exchange*: what waits in the global queue for what is here; and where a
//! task goes on if the local queue is full.

use super::{
    order::{advance, alone, foreign, runs, spawned},
    *,
};
use crate::{
    policy::{
        constants::{EXCHANGE_FEW, EXCHANGE_TICK, EXCHANGE_TICK_SHORT, EXCHANGED_MAX},
        tick::Tick,
    },
    sched::{Shared, find::is_call},
    task::spawn_blocking,
};

#[test]
fn what_waits_in_the_global_queue_is_exchanged_for_what_is_here() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let capacity = CAPACITY as usize;
    spawned(&worker, capacity - 9);
    // One more of them is `runnext`.
    let (room, here) = (worker.p.lrq.room(), worker.p.lrq.len());
    assert_eq!((room, here), (10, capacity - 10));
    let exchange = || {
        worker.exchange(EXCHANGED_MAX);
        let grq = &worker.env().queues.grq;
        (
            worker.p.lrq.len(),
            grq.len(),
            worker.own_peer().counters.global.get(),
        )
    };
    foreign(&runtime, 2 * EXCHANGE_FEW);
    assert_eq!(
        exchange(),
        (here, 2 * EXCHANGE_FEW, 0),
        "there is room for them"
    );
    foreign(&runtime, here - 2 * EXCHANGE_FEW);
    // Half of them, for there are two workers. For ten there is room; as many as the others go
    // back.
    let counts = (capacity, here - 10, here as u64 / 2);
    assert_eq!(exchange(), counts);
    Shared::cancel(worker.p.lrq.pop().expect("it is full"));
    foreign(&runtime, 1000);
    let waits = 1000 + counts.1;
    let taken = counts.2 + EXCHANGED_MAX as u64;
    assert_eq!(
        exchange(),
        (capacity, waits - 1, taken),
        "no more than half a queue"
    );
    end(runtime, [worker, other]);
}

#[test]
fn a_few_that_wait_are_left_to_the_61st_ticks() {
    let (runtime, worker) = alone();
    spawned(&worker, CAPACITY as usize + 1);
    foreign(&runtime, EXCHANGE_FEW);
    worker.exchange(EXCHANGED_MAX);
    assert_eq!(worker.own_peer().counters.global.get(), 0);
    foreign(&runtime, 1);
    worker.exchange(EXCHANGED_MAX);
    assert_eq!(
        worker.own_peer().counters.global.get(),
        EXCHANGE_FEW as u64 + 1
    );
    end(runtime, [worker]);
}

/// It would wait for half a queue behind what the exchange leaves here.
#[test]
fn a_fresh_task_is_not_exchanged_but_run() {
    let (runtime, worker) = alone();
    spawned(&worker, CAPACITY as usize + 1);
    foreign(&runtime, 2 * EXCHANGED_MAX);
    for task in worker.env().queues.grq.take(usize::MAX) {
        worker.push_again(task);
    }
    let fresh = foreign(&runtime, 2);
    count_to(&worker, GLOBAL_TICK);
    assert_eq!(runs(&worker), fresh[0]);
    // It is the turn of those that go on.
    count_to(&worker, EXCHANGE_TICK_SHORT);
    assert_eq!(runs(&worker), fresh[1]);
    assert_eq!(
        worker.own_peer().counters.global.get(),
        2 + EXCHANGED_MAX as u64
    );
    end(runtime, [worker]);
}

/// Without the time, the second exchange comes 1,098 ticks after the first; without the ticks, the
/// third never does; without the note of when it was, each 366th tick has one.
#[test]
fn an_exchange_is_due_by_time_or_by_many_ticks() {
    let (runtime, worker) = alone();
    let due = |turn: u64| worker.exchange_is_due(Tick(turn * EXCHANGE_TICK));
    let later = |ms: u32| {
        worker
            .p
            .clocks
            .now_ms
            .set(worker.p.clocks.now_ms.get().wrapping_add(ms))
    };
    let (all, half) = (Some(CAPACITY as usize), Some(EXCHANGED_MAX));
    worker.p.clocks.now_ms.set(u32::MAX);
    assert_eq!(due(1), all, "long ago");
    later(1);
    assert_eq!(due(2), None, "of whole milliseconds, one may be none");
    later(1);
    assert_eq!(
        due(4),
        all,
        "two milliseconds, though 0 comes after the last"
    );
    assert_eq!(due(5), None);
    later(1);
    assert_eq!(due(6), None, "twice as many are not enough");
    assert_eq!(due(7), half, "three times as many are, however short");
    later(1);
    assert_eq!(due(8), None, "that one counts too");
    end(runtime, [worker]);
}

/// A task that goes on where the queue is full: a new one would send half of it away.
#[test]
fn one_that_goes_on_sends_nothing_away_that_has_not_had_its_turn() {
    let (runtime, worker) = alone();
    let here = spawned(&worker, CAPACITY as usize);
    let mut from_all = foreign(&runtime, 2).into_iter();
    let again = || {
        let task = worker.env().queues.grq.pop().expect("two wait there");
        let id = task.header().id();
        worker.push_again(task);
        id
    };
    // One of them is `runnext`.
    assert_eq!(Some(again()), from_all.next(), "there is room for one");
    assert_eq!((worker.p.lrq.room(), worker.env().queues.grq.len()), (0, 1));
    assert_eq!(Some(again()), from_all.next());
    assert_eq!((worker.p.lrq.room(), worker.env().queues.grq.len()), (0, 1));
    assert_eq!(worker.own_peer().counters.overflows.get(), 0);
    assert!(
        worker.own_peer().flags.gave_away.load(Relaxed),
        "who leaves has to know"
    );
    let next = worker.p.runnext.take().expect("it was spawned last");
    Shared::cancel(next);
    assert_eq!(runs(&worker), here[0], "it is the first still");
    end(runtime, [worker]);
}

#[test]
fn an_exchange_has_its_turn_at_a_61st_tick() {
    let (runtime, worker) = alone();
    let taken_at = |tick: u64, ms: u64| {
        advance(&worker, Duration::from_millis(ms));
        let room = worker.p.lrq.room();
        spawned(&worker, room);
        foreign(&runtime, 1000);
        let before = worker.own_peer().counters.global.get();
        count_to(&worker, tick);
        finds_a_task(&worker);
        worker.own_peer().counters.global.get() - before
    };
    let (all, half) = (CAPACITY, EXCHANGED_MAX as u64);
    assert_eq!(taken_at(GLOBAL_TICK, 5), 1, "a full queue has a turn first");
    assert_eq!(taken_at(EXCHANGE_TICK, 5), all + 1);
    assert_eq!(taken_at(EXCHANGE_TICK, 1), 1, "the last one was just now");
    let short = EXCHANGE_TICK + EXCHANGE_TICK_SHORT;
    assert_eq!(taken_at(short, 0), half + 1);
    end(runtime, [worker]);
}

/// A call has not had its turn, and is looked for among the fresh ones. The others have had one.
#[test]
fn what_goes_back_in_an_exchange_goes_where_it_belongs() {
    let (runtime, worker) = alone();
    let call = context::with_worker_frame(&worker, || spawn_blocking(|| ()).id());
    spawned(&worker, CAPACITY as usize);
    foreign(&runtime, EXCHANGE_FEW + 1);
    worker.exchange(EXCHANGED_MAX);
    let grq = &worker.env().queues.grq;
    assert_eq!(grq.len(), EXCHANGE_FEW + 1, "as many as came");
    let found = grq.pop_near(1, is_call).expect("it is the only fresh one");
    assert_eq!(found.header().id(), call);
    Shared::cancel(found);
    let fresh = foreign(&runtime, 1)[0];
    let first = grq.pop().expect("there are some");
    assert_eq!(first.header().id(), fresh, "it waits behind none of them");
    Shared::cancel(first);
    end(runtime, [worker]);
}
