//! The clock of a paused runtime and its draw, a step at a time. Threads are steps of this one, and
//! where one of them would wait in the netpoll, an interrupt is there already.

mod deadlock;
mod shuffle;

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
