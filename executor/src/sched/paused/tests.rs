//! The clock of a paused runtime and its draw, a step at a time. Threads are steps of this one, and
//! where one of them would wait in the netpoll, an interrupt is there already.

use std::{
    cell::Cell,
    collections::BTreeSet,
    future::{pending, poll_fn},
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc as Shares,
    task::{Context, Poll},
};

use ws_reactor::{Direction, Interest, Registration, pipe};

use super::*;
use crate::{
    block_on::nested::wait_alone,
    context,
    permit::sleep::{Look, Sleeper},
    queue::CAPACITY,
    runtime::{Builder, Clock, Runtime},
    sched::{
        Root,
        find::tests::thread,
        shutdown::tests::end,
        worker::{Scope, Step, Worker},
    },
    spawn, spawn_local,
    sync::Mutex,
};

fn runtime_with(deadlock_after: Duration) -> Runtime {
    let builder = Builder::new().clock(Clock::Paused).seed(1);
    builder.deadlock_after(deadlock_after).build().unwrap()
}

/// What cannot be woken now is a deadlock.
fn runtime() -> Runtime {
    runtime_with(Duration::ZERO)
}

fn paused(shared: &Shared) -> &Paused {
    shared.time.paused.as_ref().expect("its time is virtual")
}

fn is_stuck(shared: &Shared) -> bool {
    paused(shared).state.lock().stuck
}

fn awake(shared: &Shared) -> usize {
    paused(shared).state.lock().awake
}

fn now_ns(shared: &Shared) -> u64 {
    shared.time.clock().now_ns()
}

/// A thread that has begun to park, and is about to sleep: nobody has the permit.
fn parked(runtime: &Runtime) -> Worker {
    let worker = thread(runtime);
    assert!(!worker.begin_park(), "nothing is queued");
    worker
}

/// A root that waits.
fn waiting_root() -> SharedRoot {
    let root = Root::new();
    assert!(root.take(), "its first poll is due");
    root
}

/// Whether the thread in the netpoll was interrupted since this was last asked.
fn is_interrupted(shared: &Shared) -> bool {
    let mut poller = shared.io.netpoll.try_poller().expect("nobody is there");
    poller.prepare();
    let waited = poller.wait(Some(Instant::now()), &mut Vec::new());
    waited.unwrap().interrupted
}

/// The thread sleeps once. Whether it waited in the netpoll, from where it is called back at once.
fn waits(worker: &Worker) -> bool {
    let shared = worker.env();
    shared.io.netpoll.interrupt();
    assert!(!worker.wait_paused(paused(shared), &worker.own_peer().thread.parker, None));
    !is_interrupted(shared)
}

/// Nobody is woken for it: the thread goes to the netpoll.
fn arm(worker: &Worker, deadline: u64) {
    worker.shared().enter_netpoll(worker.index());
    let key = worker
        .own_peer()
        .timers
        .arm(deadline, Waker::noop().clone());
    worker.shared().leave_netpoll();
    assert!(key.is_ok(), "the runtime goes on");
}

// --- which thread is awake, which one waits, and which one holds the clock ---

#[test]
fn the_last_one_to_lie_down_learns_of_it() {
    let paused = Paused::new(1, Duration::ZERO, true);
    paused.wake_up();
    paused.wake_up();
    assert!(!paused.fall_asleep());
    paused.wake_up();
    assert!(!paused.fall_asleep());
    assert!(paused.fall_asleep());
}

// It took its notification, polled, and sleeps again: each word by itself says that all wait.
#[test]
fn the_clock_stays_if_a_thread_was_awake_while_the_words_were_read() {
    let paused = &Paused::new(1, Duration::ZERO, true);
    assert!(paused.holds_in_sleep(|| true));
    assert!(!paused.holds_in_sleep(|| false));
    let reads = |nap: fn(&Paused)| {
        paused.holds_in_sleep(|| {
            nap(paused);
            true
        })
    };
    assert!(!reads(|paused| {
        paused.wake_up();
        paused.fall_asleep();
    }));
    assert!(!reads(Paused::wake_up));
    assert!(!paused.holds_in_sleep(|| true), "it is still awake");
    assert!(paused.fall_asleep());
    assert!(paused.holds_in_sleep(|| true));
}

#[test]
fn time_passes_while_somebody_waits_and_nobody_holds_it() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let paused = paused(shared);
    paused.wake_up();
    let answers = || (paused.has_roots(), paused.may_pass(5), paused.may_judge());
    assert_eq!(answers(), (false, false, false));
    let (first, second) = (
        shared.enroll(&waiting_root()),
        shared.enroll(&waiting_root()),
    );
    assert_eq!(answers(), (true, true, true));
    drop(first);
    assert_eq!(answers(), (true, true, true), "one is left");
    paused.state.lock().holds = 1;
    assert_eq!(answers(), (true, false, false));
    paused.state.lock().holds = 0;
    paused.state.lock().stuck = true;
    assert_eq!(answers(), (true, true, false), "that was said");
    drop(second);
    assert_eq!(answers(), (false, false, false));
    let _third = shared.enroll(&waiting_root());
    assert_eq!(answers(), (true, true, true), "it is another time");
}

#[test]
fn the_root_that_ends_is_the_one_that_is_forgotten() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let paused = paused(shared);
    paused.wake_up();
    let (first, second) = (waiting_root(), waiting_root());
    let _first = shared.enroll(&first);
    let second_enrolled = shared.enroll(&second);
    second.wake_by_ref();
    assert!(paused.any_root_notified());
    drop(second_enrolled);
    assert!(!paused.any_root_notified());
    first.wake_by_ref();
    assert!(paused.any_root_notified());
}

#[test]
fn a_root_counts_as_woken_where_its_thread_can_poll_it() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let paused = paused(shared);
    paused.wake_up();
    let [below, middle, above, other] = [(); 4].map(|()| waiting_root());
    let enrolled = [&below, &middle, &above].map(|root| shared.enroll(root));
    let beside = || shared.enroll(&other);
    let beside = thread::scope(|scope| scope.spawn(beside).join().unwrap());
    below.wake_by_ref();
    middle.wake_by_ref();
    assert!(!paused.any_root_notified(), "they wait for the one above");
    above.wake_by_ref();
    assert!(paused.any_root_notified());
    let [first, second, third] = enrolled;
    above.take();
    assert!(!paused.any_root_notified());
    other.wake_by_ref();
    assert!(paused.any_root_notified(), "it has a thread of its own");
    drop(beside);
    drop(third);
    assert!(paused.any_root_notified(), "now it is its turn");
    middle.take();
    assert!(!paused.any_root_notified());
    drop(second);
    assert!(paused.any_root_notified());
    drop(first);
    assert!(!paused.any_root_notified());
}

#[test]
fn the_clock_is_held_until_the_last_one_lets_go() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    // Somebody is awake, and is to ask.
    paused(shared).wake_up();
    let _enrolled = shared.enroll(&waiting_root());
    let may_pass = || paused(shared).may_pass(5);
    shared.hold_clock();
    shared.hold_clock();
    assert!(!may_pass());
    shared.let_clock_go();
    assert!(!may_pass());
    shared.let_clock_go();
    assert!(may_pass());
}

#[test]
fn an_advance_lets_time_pass_as_far_as_it_goes() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    // Somebody is awake, and looks later.
    paused(shared).wake_up();
    let _enrolled = shared.enroll(&waiting_root());
    let may_pass = |deadline| paused(shared).may_pass(deadline);
    shared.hold_clock();
    let poll = |place: &mut Option<usize>, until| {
        let mut cx = Context::from_waker(Waker::noop());
        shared.poll_advance(place, until, &mut cx).is_ready()
    };
    let (mut five, mut nine) = (None, None);
    assert!(!poll(&mut five, 5) && !poll(&mut nine, 9));
    assert!(may_pass(9) && !may_pass(10));
    assert_eq!(paused(shared).next_advance(), Some(5));
    let mut ready = Vec::new();
    paused(shared).end_advances(5, &mut ready);
    assert_eq!(ready.len(), 1, "each at its own time");
    assert!(poll(&mut five, 5) && !poll(&mut nine, 9));
    assert_eq!(paused(shared).next_advance(), Some(9));
    shared.leave_advance(five.unwrap());
    assert!(may_pass(9), "the other one goes on");
    shared.leave_advance(nine.unwrap());
    assert!(!may_pass(1));
}

// --- which thread is woken to look at the clock ---

#[test]
fn one_that_lets_the_clock_go_calls_the_one_that_can_move_it() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = parked(&runtime);
    worker.shared().enter_netpoll(worker.index());
    let interrupts = || {
        shared.hold_clock();
        shared.let_clock_go();
        is_interrupted(shared)
    };
    assert!(!interrupts(), "it is awake, and looks before it sleeps");
    paused(shared).fall_asleep();
    assert!(interrupts());
    paused(shared).wake_up();
    worker.shared().leave_netpoll();
    end(runtime, [worker]);
}

#[test]
fn a_thread_goes_to_the_netpoll_where_a_root_waits() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = parked(&runtime);
    shared.have_a_look(paused(shared));
    assert!(!worker.own_peer().state.has_permit(), "nobody waits");
    let enrolled = shared.enroll(&waiting_root());
    shared.have_a_look(paused(shared));
    assert_eq!(worker.check_before_sleep(), Look::Up, "it was woken");
    assert!(!is_interrupted(shared), "nobody was there");
    drop(enrolled);
    end(runtime, [worker]);
}

#[test]
fn the_last_one_to_leave_calls_the_one_in_the_netpoll() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let [first, second, polls] = [(); 3].map(|()| thread(&runtime));
    polls.shared().enter_netpoll(polls.index());
    paused(shared).fall_asleep();
    first.leave();
    assert!(!is_interrupted(shared), "the second is awake");
    second.leave();
    assert!(is_interrupted(shared));
    paused(shared).wake_up();
    polls.shared().leave_netpoll();
    end(runtime, [polls]);
}

#[test]
fn one_that_waits_above_a_poll_sleeps() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = thread(&runtime);
    worker.shared().enter_netpoll(worker.index());
    let parks = Cell::new(0);
    let park = |sleepers, interrupts| {
        parks.set(parks.get() + 1);
        assert_eq!(awake(shared), sleepers);
        assert_eq!(is_interrupted(shared), interrupts);
    };
    paused(shared).wake_up();
    shared.park_above(true, || park(1, false));
    assert_eq!(awake(shared), 2);
    paused(shared).fall_asleep();
    shared.park_above(true, || park(0, true));
    assert_eq!(awake(shared), 1);
    // It is none of this runtime's threads.
    shared.park_above(false, || park(1, false));
    paused(shared).fall_asleep();
    shared.park_above(false, || park(0, true));
    assert_eq!(awake(shared), 0);
    paused(shared).wake_up();
    assert_eq!(parks.get(), 4);
    worker.shared().leave_netpoll();
    end(runtime, [worker]);
}

// The thread polls a root of this runtime, and is one of another.
#[test]
fn the_one_in_the_netpoll_looks_again_when_a_strangers_root_ends_or_waits() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = thread(&runtime);
    worker.shared().enter_netpoll(worker.index());
    let root = Root::new();
    let ends = || drop(shared.enroll(&root));
    ends();
    assert!(!is_interrupted(shared), "a thread is awake");
    paused(shared).fall_asleep();
    ends();
    assert!(is_interrupted(shared));
    let waker = Waker::from(root.clone());
    let waits_once = poll_fn(|cx| {
        if is_interrupted(shared) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    let waits_once = pin!(waits_once);
    // Otherwise this goes on for ever.
    wait_alone(shared, &root, &waker, waits_once);
    paused(shared).wake_up();
    worker.shared().leave_netpoll();
    end(runtime, [worker]);
}

#[test]
fn one_that_finds_another_in_the_netpoll_sleeps_elsewhere() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = parked(&runtime);
    let sleep = |keep_alive| {
        worker.wait_paused(paused(shared), &worker.own_peer().thread.parker, keep_alive)
    };
    let poller = shared.io.netpoll.try_poller().expect("nobody is there");
    worker.shared().enter_netpoll(worker.index());
    assert!(sleep(Some(Duration::ZERO)), "it slept for long enough");
    drop(poller);
    assert!(is_interrupted(shared), "it was the last to fall asleep");
    let poller = shared.io.netpoll.try_poller();
    shared.unpark(worker.own_peer());
    assert!(!sleep(Some(Duration::MAX)), "it was woken");
    drop(poller);
    assert_eq!(awake(shared), 1);
    worker.shared().leave_netpoll();
    end(runtime, [worker]);
}

// --- the jump ---

#[test]
fn all_wait_where_nothing_is_queued_and_nobody_was_woken() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = thread(&runtime);
    drop(runtime.spawn(async {}));
    let task = shared.queues.grq.pop().expect("the permit is taken");
    assert!(!worker.begin_park(), "nothing else is queued");
    let all_wait = || shared.all_wait(paused(shared));
    assert!(all_wait());
    let permit = shared.idle.acquire().expect("nobody has it");
    assert!(!all_wait(), "somebody was handed it");
    shared.idle.release(permit, None);
    shared.idle.wanting().insert(worker.index());
    assert!(!all_wait(), "somebody asks for a permit");
    shared.idle.wanting().remove(worker.index());
    shared.queues.grq.push(task);
    assert!(!all_wait(), "it is queued for all");
    let task = shared.queues.grq.pop().expect("it is there");
    assert!(worker.p.runnext.put(task).is_none());
    assert!(!all_wait(), "its thread runs it next");
    let task = worker.p.runnext.take().expect("it is there");
    worker.own_peer().queues.inbox.push(task);
    assert!(!all_wait(), "its thread was woken for it");
    let task = worker.own_peer().queues.inbox.pop().expect("it is there");
    let root = Root::new();
    let enrolled = shared.enroll(&root);
    assert!(!all_wait(), "it is to be polled");
    root.take();
    assert!(all_wait());
    worker.dispose(task);
    drop(enrolled);
    end(runtime, [worker]);
}

#[test]
fn the_clock_jumps_from_one_timer_to_the_next() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = parked(&runtime);
    let enrolled = shared.enroll(&waiting_root());
    arm(&worker, 500);
    arm(&worker, 300);
    for at in [300, 500] {
        assert!(!waits(&worker));
        assert_eq!(now_ns(shared), at);
        assert_eq!(worker.brought.ready.take().len(), 1, "one was due");
    }
    drop(enrolled);
    end(runtime, [worker]);
}

#[test]
fn the_clock_stands_still_while_anything_can_go_on() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = parked(&runtime);
    arm(&worker, 300);
    let stands = || {
        let waited = waits(&worker);
        assert_eq!(now_ns(shared), 0);
        waited
    };
    assert!(stands(), "nobody waits for it");
    let enrolled = shared.enroll(&waiting_root());
    paused(shared).wake_up();
    assert!(stands(), "a thread is awake");
    paused(shared).fall_asleep();
    let permit = shared.idle.acquire().expect("nobody has it");
    assert!(stands(), "a thread was woken");
    shared.idle.release(permit, None);
    shared.hold_clock();
    assert!(stands(), "it is held");
    shared.let_clock_go();
    assert!(!waits(&worker));
    assert_eq!(now_ns(shared), 300);
    drop(enrolled);
    end(runtime, [worker]);
}

/// A pipe that the netpoll watches. The permit is taken, so that nobody is woken to wait for it.
fn watched(shared: &Shared) -> (pipe::Sender, pipe::Receiver, Registration) {
    let (sender, mut receiver) = pipe::new().unwrap();
    let source = Registration::new(&shared.io.netpoll, &mut receiver, Interest::READABLE);
    (sender, receiver, source.unwrap())
}

#[test]
fn what_the_netpoll_has_comes_before_the_next_timer() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = thread(&runtime);
    let (mut sender, mut receiver, source) = watched(shared);
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(ready) = source.poll_ready(&mut cx, Direction::Read) {
        source.clear_ready(ready.unwrap());
    }
    assert!(!worker.begin_park(), "nothing is queued");
    let enrolled = shared.enroll(&waiting_root());
    arm(&worker, 300);
    sender.write_all(b"x").unwrap();
    assert!(!waits(&worker));
    assert_eq!(now_ns(shared), 0);
    assert_eq!(worker.brought.ready.take().len(), 1);
    assert!(!waits(&worker));
    assert_eq!(now_ns(shared), 300, "nothing else has come");
    source.deregister(&mut receiver).unwrap();
    drop(enrolled);
    end(runtime, [worker]);
}

// --- nothing can wake ---

#[test]
fn it_is_a_deadlock_where_nothing_can_wake() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = parked(&runtime);
    let root = waiting_root();
    let enrolled = shared.enroll(&root);
    let panics = || catch_unwind(AssertUnwindSafe(|| shared.assert_not_stuck())).is_err();
    assert!(!panics());
    assert!(waits(&worker), "a thread of others could be at it");
    assert!(is_stuck(shared) && panics());
    assert!(root.is_notified(), "its thread is to hear of it");
    paused(shared).wake_up();
    let nested = || shared.park_above(true, || ());
    assert!(catch_unwind(AssertUnwindSafe(nested)).is_err());
    paused(shared).fall_asleep();
    drop(enrolled);
    end(runtime, [worker]);
}

#[test]
fn a_hold_puts_the_verdict_off() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = parked(&runtime);
    let enrolled = shared.enroll(&waiting_root());
    shared.hold_clock();
    assert!(waits(&worker));
    assert!(!is_stuck(shared));
    shared.let_clock_go();
    assert!(waits(&worker));
    assert!(is_stuck(shared));
    drop(enrolled);
    end(runtime, [worker]);
}

#[test]
fn a_socket_may_wake_at_any_time() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = thread(&runtime);
    let (_sender, mut receiver, source) = watched(shared);
    assert!(!worker.begin_park(), "nothing is queued");
    let enrolled = shared.enroll(&waiting_root());
    assert!(waits(&worker));
    assert!(!is_stuck(shared));
    source.deregister(&mut receiver).unwrap();
    assert!(waits(&worker));
    assert!(is_stuck(shared));
    drop(enrolled);
    end(runtime, [worker]);
}

/// Whether it is one after a wait that `deadlock_after` ends, or an interrupt.
fn is_given(shared: &Shared, ready: &mut Vec<Waker>) -> bool {
    shared.io.netpoll.interrupt();
    let mut poller = shared.io.netpoll.try_poller().expect("nobody is there");
    poller.prepare();
    shared.wait_for_the_verdict(paused(shared), &mut poller, ready);
    std::mem::take(&mut paused(shared).state.lock().stuck)
}

#[test]
fn what_came_while_the_verdict_was_waited_for_is_no_deadlock() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = parked(&runtime);
    paused(shared).fall_asleep();
    assert!(is_given(shared, &mut Vec::new()));
    let mut came = vec![Waker::noop().clone()];
    assert!(!is_given(shared, &mut came), "the netpoll brought it");
    let permit = shared.idle.acquire().expect("nobody has it");
    assert!(!is_given(shared, &mut Vec::new()), "somebody was woken");
    shared.idle.release(permit, None);
    paused(shared).wake_up();
    assert!(!is_given(shared, &mut Vec::new()), "somebody is awake");
    paused(shared).fall_asleep();
    assert!(is_given(shared, &mut Vec::new()), "all of that is over");
    arm(&worker, 300);
    assert!(!is_given(shared, &mut Vec::new()), "a timer was armed");
    paused(shared).wake_up();
    end(runtime, [worker]);
}

#[test]
fn there_is_no_verdict_before_the_time_is_over() {
    let runtime = runtime_with(Duration::from_secs(3600));
    let shared = runtime.handle().shared();
    assert!(!is_given(shared, &mut Vec::new()));
    assert!(!is_interrupted(shared), "that ended the wait");
}

#[test]
fn a_verdict_names_some_of_those_that_wait() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = thread(&runtime);
    let verdict = |tasks| {
        let _entered = runtime.enter();
        for _ in 0..tasks {
            let named = crate::task::Builder::new().name("waits");
            drop(named.spawn(pending::<()>()));
        }
        shared.verdict(paused(shared))
    };
    let text = verdict(NAMED_MAX);
    let names = |text: &str| text.matches("\"waits\" waits, spawned at").count();
    assert!(text.starts_with("deadlock: "), "{text}");
    assert_eq!(names(&text), NAMED_MAX);
    assert!(!text.contains("\n  and"), "these are all: {text}");
    let text = verdict(1);
    assert_eq!(names(&text), NAMED_MAX);
    assert!(text.ends_with("\n  and 1 more"), "{text}");
    end(runtime, [worker]);
}

// --- the shuffle ---

/// A thread with the permit, and a root that is due.
fn with_root(runtime: &Runtime) -> (Worker, SharedRoot) {
    let shared = runtime.handle().shared();
    let processor = shared.take_processor().expect("there is room for it");
    let root = Root::new();
    let worker = Worker::new(shared.clone(), processor, Scope::All, Some(root.clone()));
    worker.arrive();
    (worker, root)
}

#[test]
fn whatever_is_ready_is_drawn_once_at_any_place() {
    const READY: usize = 8;
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let (worker, root) = with_root(&runtime);
    let ran = Shares::new(Mutex::new(Vec::new()));
    let note = |number: usize| {
        let ran = ran.clone();
        async move { ran.lock().push(number) }
    };
    let (mut first, mut last) = (BTreeSet::new(), BTreeSet::new());
    context::with_worker_frame(&worker, || {
        for _ in 0..200 {
            // The root is number 0. Of those that are spawned the last is `runnext`, and one is
            // made a parent.
            root.wake_by_ref();
            (1..3).for_each(|number| drop(spawn_local(note(number))));
            (3..READY).for_each(|number| drop(spawn(note(number))));
            let parent = worker.p.lrq.pop().expect("there are four");
            worker.p.forks.parents.push(parent);
            for _ in 0..READY {
                match worker.draw(paused(shared)) {
                    Some(Step::Run(task)) => worker.poll(task),
                    Some(Step::Root) => ran.lock().push(0),
                    other => panic!("something is left: {other:?}"),
                }
            }
            assert!(worker.draw(paused(shared)).is_none());
            let mut order = std::mem::take(&mut *ran.lock());
            first.insert(order[0]);
            last.insert(order[READY - 1]);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..READY));
        }
    });
    assert!(first.into_iter().eq(0..READY));
    assert!(last.into_iter().eq(0..READY));
    end(runtime, [worker]);
}

/// What is drawn is polled. How many steps it was.
fn draw_all(worker: &Worker) -> usize {
    let draw = || worker.draw(paused(worker.env()));
    context::with_worker_frame(worker, || {
        std::iter::from_fn(draw)
            .map(|step| match step {
                Step::Run(task) => worker.poll(task),
                other => panic!("there are tasks alone: {other:?}"),
            })
            .count()
    })
}

#[test]
fn what_comes_from_outside_is_drawn_with_the_rest() {
    let runtime = runtime();
    let worker = thread(&runtime);
    drop(runtime.spawn(async {}));
    context::with_worker_frame(&worker, || drop(spawn_local(async {})));
    let pinned = worker.p.pop_pinned().expect("it was spawned here");
    worker.env().push_foreign(pinned);
    assert!(!worker.own_peer().queues.inbox.is_empty());
    assert_eq!(draw_all(&worker), 2);
    assert_eq!(worker.own_peer().counters.global.get(), 1);
    end(runtime, [worker]);
}

#[test]
fn a_full_queue_leaves_the_others_where_they_are() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let capacity = CAPACITY as usize;
    // All but the last one, which is `runnext`, are in the queue.
    context::with_worker_frame(&worker, || {
        (0..=capacity).for_each(|_| drop(spawn(async {})));
    });
    assert_eq!(worker.p.lrq.room(), 0);
    drop(runtime.spawn(async {}));
    worker.gather();
    assert_eq!(worker.env().queues.grq.len(), 1);
    assert_eq!(draw_all(&worker), capacity + 2, "they have their turn");
    end(runtime, [worker]);
}
