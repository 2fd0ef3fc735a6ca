//! F4, L4: *the look for all*: when it comes, what it takes, and whose slice it ends.

use super::{
    order::{advance, alone, foreign, runs, spawned},
    *,
};
use crate::{
    policy::{
        constants::{FILLS_TO, NEXT_SLICE},
        tick::Tick,
    },
    sync::atomic::AtomicBool,
};

#[test]
fn one_that_has_little_fills_half_of_its_queue_at_a_61st_tick() {
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

#[test]
fn runnext_gives_way_to_a_queue_after_its_slice_beside_one() {
    let (runtime, worker) = alone();
    let look = || {
        count_to(&worker, GLOBAL_TICK);
        runs(&worker)
    };
    let ids = spawned(&worker, 4);
    advance(&worker, NEXT_SLICE - Duration::from_nanos(1));
    assert_eq!(look(), ids[3], "it is not over");
    let next = spawned(&worker, 1)[0];
    let other = foreign(&runtime, 1)[0];
    advance(&worker, Duration::from_nanos(1));
    assert_eq!(look(), other, "at a look the global queue is first");
    assert!(!worker.slice_is_over(), "no poll is asked to yield");
    let order = [(); 4].map(|()| runs(&worker));
    assert_eq!(order, [ids[0], ids[1], ids[2], next]);
    // Alone it keeps the slice that it has.
    spawned(&worker, 1);
    worker.p.clocks.slice_tick.set(0);
    advance(&worker, NEXT_SLICE);
    look();
    assert_eq!(worker.p.clocks.slice_tick.get(), 0);
    end(runtime, [worker]);
}

/// One task wakes another and yields, and so on: the queue has its turn at each second tick, and
/// the woken task runs before the one that woke it, however late the look is.
#[test]
fn a_queue_that_had_its_turn_just_now_does_not_end_a_slice() {
    let (runtime, worker) = alone();
    let ids = spawned(&worker, 3);
    count_to(&worker, GLOBAL_TICK - 2);
    worker.p.clocks.looked.set((0, worker.now()));
    assert_eq!(runs(&worker), ids[2]);
    assert_eq!(runs(&worker), ids[0], "a new slice begins");
    let woken = spawned(&worker, 1)[0];
    advance(&worker, Duration::from_secs(1));
    assert_eq!(runs(&worker), woken, "at the look");
    assert_eq!(runs(&worker), ids[1]);
    end(runtime, [worker]);
}

/// The first of its ticks are no part of the slice before.
#[test]
fn a_slice_that_begins_in_the_step_of_a_look_is_a_whole_one() {
    let (runtime, worker) = alone();
    let ids = spawned(&worker, 4);
    advance(&worker, NEXT_SLICE);
    count_to(&worker, GLOBAL_TICK);
    assert_eq!(runs(&worker), ids[0], "the slice before is over");
    let next = spawned(&worker, 1)[0];
    let tick = 2 * GLOBAL_TICK;
    worker.own_peer().progress.ticks.store(tick - 1, Relaxed);
    worker.p.clocks.due.set(tick);
    assert_eq!(runs(&worker), next, "at the next look no time has passed");
    assert_eq!(worker.p.clocks.looked.get().0, tick);
    end(runtime, [worker]);
}

/// A slice that begins between two looks has a part of the time between them.
#[test]
fn a_slice_began_when_its_tick_says() {
    let (runtime, worker) = alone();
    let clocks = &worker.p.clocks;
    clocks.looked.set((100, 1_000));
    clocks.slice_tick.set(110);
    clocks.looks(Tick(140), 5_000);
    assert_eq!(clocks.slice_began.get(), 2_000, "three quarters ago");
    clocks.looks(Tick(180), 9_000);
    assert_eq!(clocks.slice_began.get(), 2_000, "it goes on");
    end(runtime, [worker]);
}

/// After a sleep the time counts from its end, and so do the ticks.
#[test]
fn a_slice_that_begins_after_a_sleep_is_a_whole_one() {
    // Whether it goes on at a look so many ticks later, and when the next look is.
    let look = |ticks: u64, later: Duration| {
        let (runtime, worker) = alone();
        let ids = spawned(&worker, 2);
        let clocks = &worker.p.clocks;
        count_to(&worker, 101);
        advance(&worker, Duration::from_secs(1));
        worker.p.begins(worker.now());
        assert_eq!(clocks.now_ms.get(), 1000);
        advance(&worker, later);
        let tick = 100 + ticks;
        worker.own_peer().progress.ticks.store(tick - 1, Relaxed);
        clocks.look.set(tick);
        clocks.due.set(tick);
        let goes_on = runs(&worker) == ids[1];
        let next = clocks.look.get() - tick;
        end(runtime, [worker]);
        (goes_on, next)
    };
    assert_eq!(look(5, NEXT_SLICE - Duration::from_nanos(1)), (true, 10));
    assert_eq!(look(5, NEXT_SLICE), (false, 10));
    assert_eq!(look(2, NEXT_SLICE), (true, 5), "it has had two ticks");
}

#[test]
fn what_is_taken_at_a_look_comes_before_one_that_has_had_its_slice() {
    let (runtime, worker) = alone();
    let own = spawned(&worker, 2);
    let others = foreign(&runtime, 3);
    advance(&worker, NEXT_SLICE);
    count_to(&worker, GLOBAL_TICK);
    let order = [(); 5].map(|()| runs(&worker));
    assert_eq!(order, [others[0], own[0], others[1], others[2], own[1]]);
    end(runtime, [worker]);
}

/// The number of ticks to the next look, after a look at the clock that says so.
#[test]
fn a_look_for_all_comes_sooner_where_polls_take_long() {
    let (runtime, worker) = alone();
    let own = spawned(&worker, 30);
    let others = foreign(&runtime, 3);
    count_to(&worker, GLOBAL_TICK);
    // 61 polls of 10 us. The slice goes on all the time.
    worker.p.clocks.slice_tick.set(u64::MAX);
    worker.p.clocks.looked.set((0, worker.now()));
    advance(&worker, Duration::from_micros(610));
    assert_eq!(runs(&worker), others[0]);
    assert_eq!(runs(&worker), own[29]);
    for task in &own[..8] {
        assert_eq!(runs(&worker), *task);
    }
    // These ten took a millisecond.
    advance(&worker, Duration::from_millis(1));
    assert_eq!(runs(&worker), others[1], "the tenth");
    for task in &own[8..12] {
        assert_eq!(runs(&worker), *task);
    }
    assert_eq!(runs(&worker), others[2], "the fifth");
    end(runtime, [worker]);
}

/// With looks at every fourth tick, each 16th tick would be one of them, and fire no timers.
#[test]
fn looks_that_always_bring_something_leave_ticks_to_the_timers() {
    let (runtime, worker) = alone();
    spawned(&worker, 200);
    foreign(&runtime, 20);
    worker.p.clocks.slice_tick.set(u64::MAX);
    let fired = Shares::new(AtomicBool::new(false));
    let fires = fired.clone();
    is_due(&worker, hook(move || fires.store(true, Relaxed)));
    // So that no look fires it.
    worker.env().io.last_look.store(u64::MAX / 2, Relaxed);
    count_to(&worker, TIMER_TICK * GLOBAL_TICK);
    let slow = |ticks: usize| {
        (0..ticks).any(|_| {
            advance(&worker, Duration::from_micros(100));
            runs(&worker);
            fired.load(Relaxed)
        })
    };
    assert!(slow(100));
    assert!(!worker.env().queues.grq.is_empty(), "each look brought one");
    end(runtime, [worker]);
}

#[test]
fn one_that_has_its_share_takes_one_at_a_61st_tick() {
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
fn one_that_wants_a_permit_gets_it_at_a_61st_tick() {
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
fn one_that_has_work_looks_at_the_netpoll_now_and_then() {
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

/// A thread that has work fires others' timers, but not at each look.
#[test]
fn others_timers_have_their_turn_at_a_look_now_and_then() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let fired = |later| {
        is_due(&other, Waker::noop().clone());
        advance(&worker, later);
        spawned(&worker, 1);
        count_to(&worker, GLOBAL_TICK);
        runs(&worker);
        worker.own_peer().counters.timers.get()
    };
    assert_eq!(fired(NETPOLL_PERIOD), 1);
    assert_eq!(
        fired(Duration::ZERO),
        1,
        "no source, and a look all the same"
    );
    assert_eq!(fired(NETPOLL_PERIOD), 3);
    end(runtime, [worker, other]);
}

/// 25 polls of 20 us, and a look at each fifth.
#[test]
fn where_looks_come_soon_not_each_has_the_netpoll() {
    let (runtime, worker) = alone();
    let _events = Events::new(&runtime);
    spawned(&worker, 40);
    worker.p.clocks.slice_tick.set(u64::MAX);
    let netpolls = || worker.own_peer().counters.netpolls.get();
    count_to(&worker, GLOBAL_TICK);
    advance(&worker, NETPOLL_PERIOD);
    runs(&worker);
    assert_eq!(netpolls(), 1);
    let polls = |polls: u32| {
        for _ in 0..polls {
            advance(&worker, Duration::from_micros(20));
            runs(&worker);
        }
    };
    polls(24);
    assert_eq!(netpolls(), 1, "61 ticks have not gone by");
    polls(1);
    assert_eq!(netpolls(), 2, "but half a millisecond has");
    end(runtime, [worker]);
}
