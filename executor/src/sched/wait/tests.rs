//! I5: wakers and hooks that block on their parked thread. Each looks, in the middle of the block,
//! whether somebody else was woken for what is queued, and fails if the threads that pushed relied
//! on the thread that is blocked: where `is_awake` does not take note of a hand-over, or
//! `after_sleep` does not wake up before it wakes. Two more fail if it parks again with a permit,
//! and if a call that was handed to it stays with it while it blocks (S2).
//!
//! Behind these: where a thread waits, what it wakes up for, and when it ends. What one does that
//! waits for its own root is in `tests/root.rs`.

mod root;

use std::{
    sync::{
        Arc as Shares, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Wake, Waker},
    time::Duration,
};

use super::{Shared, Sleeper, Slept, Worker};
use crate::{
    block_in_place, context,
    permit::{
        env::Env,
        phase::ShutdownEnv,
        sleep::{Awake, Look},
    },
    policy::constants::{SLACK_AFTER, SLACK_TIMERS, TIMER_SLACK},
    recorder::Level,
    runtime::{Builder, Handle, Runtime, Sysmon},
    sched::{
        Root,
        find::tests::{Events, recorded_netpolls},
        processor::{BRANCH, ROOT},
        shutdown,
        sim_threads::SimThreads,
        worker::{Scope, Step},
    },
    sync::Arc,
    timer::Clock,
};

const READY: Slept = Slept {
    expired: false,
    ready: true,
};

/// Two permits, and threads that are steps of this one.
fn runtime() -> Runtime {
    let builder = Builder::new().workers(2).sysmon(Sysmon::Off);
    let builder = builder.stall_threshold(None);
    builder.build_with(Clock::stopped()).unwrap()
}

fn thread(runtime: &Runtime) -> Worker {
    let shared = runtime.handle().shared();
    let processor = shared.take_processor().expect("there is room for it");
    let worker = Worker::new(shared.clone(), processor, Scope::All, None);
    worker.own_peer().state.arrive();
    worker.try_run();
    worker
}

/// A thread with a root that is due, and without a permit: in a `block_on`, or, if it takes
/// anything, in `Runtime::run`.
fn with_root(runtime: &Runtime, scope: Scope) -> (Worker, Shares<Root>) {
    let shared = runtime.handle().shared();
    let processor = shared.take_processor().expect("there is room for it");
    let root = Root::new();
    root.settle(&shared.io.netpoll, None);
    let worker = Worker::new(shared.clone(), processor, scope, Some(root.clone()));
    worker.own_peer().state.arrive();
    (worker, root)
}

/// Blocks where it is woken, and then counts the threads that were started by the end of that.
struct Blocks {
    shared: Arc<Shared>,
    meanwhile: Box<dyn Fn() + Send + Sync>,
    started: AtomicUsize,
}

impl Wake for Blocks {
    fn wake(self: Shares<Self>) {
        block_in_place(|| {
            (self.meanwhile)();
            let sim_threads = self.shared.threads.sim_threads.as_ref();
            self.started
                .store(sim_threads.map_or(0, SimThreads::len), Relaxed);
        });
    }
}

/// The netpoll has brought that waker to a parked thread, before what it has brought already.
fn bring(worker: &Worker, meanwhile: impl Fn() + Send + Sync + 'static) -> usize {
    let waker = Shares::new(Blocks {
        shared: worker.shared().clone(),
        meanwhile: Box::new(meanwhile),
        started: AtomicUsize::new(0),
    });
    let first = Waker::from(waker.clone());
    worker.brought.ready.borrow_mut().insert(0, first);
    context::with_worker_frame(worker, || worker.after_sleep(READY));
    waker.started.load(Relaxed)
}

fn end(runtime: Runtime, workers: impl IntoIterator<Item = Worker>) {
    let shared = runtime.handle().shared().clone();
    shutdown::tests::end(runtime, workers);
    assert_eq!(shared.idle.spinning(), 0);
    assert_eq!(shared.idle.free(), 2);
}

#[test]
fn one_that_was_handed_a_permit_takes_note_before_it_blocks() {
    let runtime = runtime();
    let worker = thread(&runtime);
    assert!(!worker.begin_park(), "nothing is queued");
    drop(runtime.handle().spawn(async {}));
    assert!(worker.own_peer().state.has_permit(), "it was woken for it");
    assert_eq!(bring(&worker, || ()), 1);
    assert_eq!(worker.check_before_sleep(), Look::Up);
    end(runtime, [worker]);
}

#[test]
fn a_hook_takes_note_before_it_blocks() {
    let runtime = runtime();
    let worker = thread(&runtime);
    assert!(!worker.begin_park(), "nothing is queued");
    drop(runtime.handle().spawn(async {}));
    let sim_threads = runtime.handle().shared().threads.sim_threads.as_ref();
    let started = context::with_worker_frame(&worker, || {
        block_in_place(|| sim_threads.map_or(0, SimThreads::len))
    });
    assert_eq!(started, 1);
    assert_eq!(worker.check_before_sleep(), Look::Up);
    assert!(!worker.spins(), "it has given that up");
    end(runtime, [worker]);
}

/// A task comes while the thread is in its hook, and nobody is woken for it: the thread wakes up
/// again before it sleeps.
#[test]
fn one_that_wakes_up_between_its_hooks_has_called_both() {
    let own = Shares::new(Mutex::new(None::<Handle>));
    let parked = Shares::new(AtomicUsize::new(0));
    let unparked = Shares::new(AtomicUsize::new(0));
    let (cell, parks, unparks) = (own.clone(), parked.clone(), unparked.clone());
    let builder = Builder::new().workers(2).sysmon(Sysmon::Off);
    let builder = builder.stall_threshold(None).on_thread_park(move || {
        parks.fetch_add(1, Relaxed);
        let handle = cell.lock().unwrap().take().expect("it parks once");
        let idle = &handle.shared().idle;
        let permits = [idle.acquire(), idle.acquire()];
        drop(handle.spawn(async {}));
        for permit in permits {
            idle.release(permit.expect("nobody runs"), None);
        }
    });
    let builder = builder.on_thread_unpark(move || _ = unparks.fetch_add(1, Relaxed));
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    *own.lock().unwrap() = Some(runtime.handle().clone());
    let worker = thread(&runtime);
    assert_eq!(worker.park(), Awake::Go);
    assert!(worker.own_peer().state.has_permit());
    assert_eq!((parked.load(Relaxed), unparked.load(Relaxed)), (1, 1));
    context::with_worker_frame(&worker, || match worker.step() {
        Step::Run(task) => worker.poll(task),
        _ => panic!("the task waits in the queue for all"),
    });
    end(runtime, [worker]);
}

/// All permits are taken: one of them by the thread with that index.
fn give_back(runtime: &Runtime, index: usize) -> impl Fn() + Send + Sync + 'static {
    let handle = runtime.handle().clone();
    move || {
        let shared = handle.shared();
        let permit = shared.peer(index).state.revoke().expect("it has one");
        shared.release(permit, None);
    }
}

#[test]
fn one_that_comes_back_with_a_permit_does_not_lie_down_with_it() {
    struct Spawns;
    impl Wake for Spawns {
        fn wake(self: Shares<Self>) {
            drop(crate::spawn(async {}));
        }
    }
    let runtime = runtime();
    let (worker, others) = (thread(&runtime), [thread(&runtime), thread(&runtime)]);
    worker.p.tick();
    assert!(!worker.begin_park(), "nothing is queued");
    others[1].try_run();
    worker
        .brought
        .ready
        .borrow_mut()
        .push(Shares::new(Spawns).into());
    bring(&worker, give_back(&runtime, others[1].index()));
    assert!(worker.own_peer().state.has_permit(), "its queue has tasks");
    context::with_worker_frame(&worker, || match worker.step() {
        Step::Run(task) => worker.poll(task),
        _ => panic!("the task is not in its queue"),
    });
    let [first, second] = others;
    end(runtime, [worker, first, second]);
}

/// No thief looks at a P that is parked. So a thread whose permit was taken in the middle of a push
/// must not lie down on what it pushed.
#[test]
fn one_that_loses_its_permit_again_leaves_its_tasks_to_others() {
    struct Does<F>(F);
    impl<F: Fn() + Send + Sync + 'static> Wake for Does<F> {
        fn wake(self: Shares<Self>) {
            (self.0)();
        }
    }
    let runtime = runtime();
    let (worker, others) = (thread(&runtime), [thread(&runtime), thread(&runtime)]);
    assert!(!worker.begin_park(), "nothing is queued");
    others[1].try_run();
    let spawns = Does(|| drop(crate::spawn(async {})));
    let taken_again = Does(give_back(&runtime, worker.index()));
    worker
        .brought
        .ready
        .borrow_mut()
        .push(Shares::new(spawns).into());
    worker
        .brought
        .ready
        .borrow_mut()
        .push(Shares::new(taken_again).into());
    bring(&worker, give_back(&runtime, others[1].index()));
    assert!(!worker.own_peer().state.has_permit());
    assert!(worker.p.lrq.is_empty() && worker.p.runnext.is_empty());
    assert!(worker.shared().has_queued(), "others find it");
    let [first, second] = others;
    end(runtime, [worker, first, second]);
}

#[test]
fn a_call_that_was_handed_over_does_not_wait_for_a_block() {
    let runtime = runtime();
    let worker = thread(&runtime);
    assert!(!worker.begin_park(), "nothing is queued");
    drop(runtime.handle().spawn(async {}));
    let call = worker.shared().pop_queued().expect("it was queued");
    assert!(
        worker.own_peer().thread.handed.put(call).is_ok(),
        "there is none yet"
    );
    bring(&worker, || ());
    assert!(
        worker.own_peer().thread.handed.take().is_none(),
        "it is with others"
    );
    assert!(worker.shared().has_queued());
    end(runtime, [worker]);
}

#[test]
fn one_that_wakes_without_a_permit_is_handed_none() {
    let runtime = runtime();
    let (worker, others) = (thread(&runtime), [thread(&runtime), thread(&runtime)]);
    assert!(!worker.begin_park(), "nothing is queued");
    let third = others[1].index();
    others[1].try_run();
    let handle = runtime.handle().clone();
    let started = bring(&worker, move || {
        let shared = handle.shared();
        let permit = shared.peer(third).state.revoke().expect("it has one");
        shared.release(permit, None);
        drop(handle.spawn(async {}));
    });
    assert_eq!(started, 1);
    let [first, second] = others;
    end(runtime, [worker, first, second]);
}

/// A timer of that thread, so much later. Nobody is woken for it: the thread goes to the netpoll.
fn arm(worker: &Worker, later: Duration, waker: Waker) {
    let at = worker.now() + later.as_nanos() as u64;
    worker.shared().enter_netpoll(worker.index());
    assert!(worker.own_peer().timers.arm(at, waker).is_ok());
    worker.shared().leave_netpoll();
}

fn advance(worker: &Worker, time: Duration) {
    worker.env().time.clock().advance(time);
}

/// It sleeps once, and is woken already.
fn wait(worker: &Worker) -> Slept {
    worker.own_peer().thread.parker.unpark(|| ());
    worker.wait()
}

/// Whether that thread waits in the netpoll. It is woken already.
fn polls(worker: &Worker) -> bool {
    let polls = || worker.own_peer().counters.netpolls.get();
    let before = polls();
    worker.own_peer().thread.parker.unpark(|| ());
    worker.wait_on(&worker.own_peer().thread.parker, None);
    polls() != before
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_wait_in_the_netpoll_brings_the_timers_that_are_due() {
    let runtime = runtime();
    let worker = thread(&runtime);
    assert!(!worker.begin_park(), "nothing is queued");
    let slept = wait(&worker);
    assert!(!slept.ready && !slept.expired);
    let later = Duration::from_millis(1234);
    arm(&worker, later, Waker::noop().clone());
    advance(&worker, later);
    let slept = wait(&worker);
    assert!(slept.ready && !slept.expired);
    assert_eq!(worker.p.clocks.now_ms.get(), 1234, "it knows the time");
    let counters = &worker.own_peer().counters;
    assert_eq!((counters.netpolls.get(), counters.timers.get()), (2, 1));
    assert_eq!(worker.after_sleep(slept), Some(Awake::Go));
    assert!(worker.own_peer().state.has_permit());
    end(runtime, [worker]);
}

/// So many timers at the end of a wait, and so much later as many again, so many times; then a
/// single one. How long a thread that sleeps lets it wait.
fn waits_after(worker: &Worker, burst: usize, later: u64, times: usize) -> u64 {
    let due = |count: usize, later: u64| {
        let later = Duration::from_nanos(later);
        for _ in 0..count {
            arm(worker, later, Waker::noop().clone());
        }
        advance(worker, later);
        assert!(wait(worker).ready);
        worker.brought.ready.take();
    };
    // The last one is long ago.
    advance(worker, HOUR);
    (0..times).for_each(|_| due(burst, later));
    arm(worker, Duration::from_nanos(1), Waker::noop().clone());
    let next = worker.env().next_wake_up().expect("one is armed") - worker.now();
    due(0, HOUR.as_nanos() as u64);
    next
}

#[test]
fn a_burst_of_timers_that_lasts_fires_together() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let each = TIMER_SLACK / 2;
    let lasts = (SLACK_AFTER / each) as usize + 1;
    assert_eq!(waits_after(&worker, SLACK_TIMERS, each, lasts), TIMER_SLACK);
    assert_eq!(
        waits_after(&worker, SLACK_TIMERS, each, lasts - 1),
        1,
        "not yet"
    );
    assert_eq!(
        waits_after(&worker, SLACK_TIMERS - 1, each, lasts),
        1,
        "too few"
    );
    assert_eq!(
        waits_after(&worker, SLACK_TIMERS, 2 * TIMER_SLACK + 1, lasts),
        1,
        "one after the other"
    );
    assert_eq!(
        waits_after(&worker, SLACK_TIMERS, 2 * TIMER_SLACK, lasts),
        TIMER_SLACK
    );
    // Without slack, and after timers had some.
    arm(&worker, HOUR, Waker::noop().clone());
    let hour = worker.now() + HOUR.as_nanos() as u64;
    assert_eq!(worker.env().next_wake_up(), Some(hour));
    end(runtime, [worker]);
}

/// Many timers at the end of each wait, up to this moment: timers get slack.
fn lasts(worker: &Worker) {
    for later in (0..=SLACK_AFTER).step_by(TIMER_SLACK as usize) {
        worker
            .env()
            .io
            .timer_slack
            .came(SLACK_TIMERS, worker.now() + later);
    }
    advance(worker, Duration::from_nanos(SLACK_AFTER));
}

/// More than one hold of the lock takes are due at once.
#[test]
fn what_was_due_when_a_burst_came_does_not_wait_for_the_next() {
    let runtime = runtime();
    let worker = thread(&runtime);
    lasts(&worker);
    for _ in 0..1_000 {
        arm(&worker, Duration::ZERO, Waker::noop().clone());
    }
    assert!(wait(&worker).ready);
    let fired = worker.brought.ready.take().len();
    assert!((SLACK_TIMERS..1_000).contains(&fired), "{fired}");
    assert!(worker.env().next_wake_up() <= Some(worker.now()));
    end(runtime, [worker]);
}

#[test]
fn one_that_lets_a_burst_gather_is_brought_what_comes_meanwhile() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let mut events = Events::new(&runtime);
    // Longer from now, by the system's clock, than any test waits.
    advance(&worker, HOUR);
    lasts(&worker);
    arm(&worker, Duration::from_nanos(1), Waker::noop().clone());
    advance(&worker, Duration::from_nanos(1));
    events.bring(Waker::noop());
    worker.wait_on(&worker.own_peer().thread.parker, None);
    assert_eq!(
        worker.brought.ready.take().len(),
        2,
        "it did not wait at all"
    );
    drop(events);
    end(runtime, [worker]);
}

#[test]
fn one_that_waits_for_a_timer_is_brought_what_comes_before() {
    let runtime = runtime();
    runtime.handle().record(Level::Full);
    let worker = thread(&runtime);
    let mut events = Events::new(&runtime);
    arm(&worker, HOUR, Waker::noop().clone());
    events.bring(Waker::noop());
    worker.wait_on(&worker.own_peer().thread.parker, None);
    assert_eq!(worker.brought.ready.take().len(), 1);
    assert_eq!(recorded_netpolls(&runtime), [1]);
    advance(&worker, HOUR);
    assert!(polls(&worker));
    assert_eq!(worker.brought.ready.take().len(), 1, "that is the timer");
    drop(events);
    end(runtime, [worker]);
}

#[test]
fn one_that_is_in_block_on_waits_in_the_netpoll_where_something_is_awaited() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let (in_block_on, _) = with_root(&runtime, Scope::Own);
    assert!(polls(&worker), "something may come to be awaited");
    assert!(!polls(&in_block_on), "its parker is woken more cheaply");
    arm(&worker, HOUR, Waker::noop().clone());
    assert!(polls(&worker));
    assert!(polls(&in_block_on));
    // What it found there last was not its own.
    in_block_on.brought.passed_on.set(true);
    assert!(polls(&in_block_on), "there is nobody else");
    in_block_on.shared().threads.counts.lock().count += 1;
    assert!(!polls(&in_block_on), "that is for the workers");
    in_block_on.shared().threads.counts.lock().count -= 1;
    advance(&worker, HOUR);
    assert!(polls(&worker), "the timer is due");
    end(runtime, [worker, in_block_on]);
}

#[test]
fn a_thread_without_a_permit_leaves_the_netpoll_to_those_with_one() {
    let runtime = runtime();
    let [worker, other, third] = [(); 3].map(|()| thread(&runtime));
    third.shared().threads.counts.lock().count += 3;
    assert!(!third.begin_park(), "nothing is queued");
    assert!(polls(&third), "it has found nothing so far");
    arm(&worker, HOUR, Waker::noop().clone());
    advance(&worker, HOUR);
    let slept = third.wait();
    assert_eq!(third.after_sleep(slept), None, "every permit is taken");
    assert!(!polls(&third), "that is for the others");
    assert!(other.own_peer().state.has_permit());
    assert!(!other.begin_park());
    assert!(
        polls(&third),
        "a permit is free: it may be the only one that comes"
    );
    let permit = third.shared().idle.acquire().expect("it is free");
    assert!(!polls(&third));
    third.wakes_up();
    assert!(polls(&third), "it has run since then");
    third.shared().idle.release(permit, None);
    third.shared().threads.counts.lock().count -= 3;
    end(runtime, [worker, other, third]);
}

#[test]
fn one_that_waits_in_the_netpoll_is_the_last_to_be_woken() {
    for poller in [0, 1] {
        let runtime = runtime();
        let workers = [thread(&runtime), thread(&runtime)];
        for worker in &workers {
            assert!(!worker.begin_park(), "nothing is queued");
        }
        let (poller, other) = (&workers[poller], &workers[1 - poller]);
        poller.shared().enter_netpoll(poller.index());
        drop(runtime.spawn(async {}));
        assert!(!poller.own_peer().state.has_permit());
        assert!(other.own_peer().state.has_permit());
        poller.shared().leave_netpoll();
        assert_eq!(other.check_before_sleep(), Look::Up);
        assert!(other.spins(), "it searches from now on");
        end(runtime, workers);
    }
}

#[test]
fn one_that_is_relied_upon_does_not_end_however_long_it_sleeps() {
    const IN_VAIN: Slept = Slept {
        expired: true,
        ready: false,
    };
    let runtime = runtime();
    let worker = thread(&runtime);
    let (bound, root) = with_root(&runtime, Scope::All);
    assert!(root.take(), "it was due");
    assert!(
        !worker.begin_park() && !bound.begin_park(),
        "nothing is queued"
    );
    assert_eq!(bound.after_sleep(IN_VAIN), None, "it has a root");
    worker.p.pinned.live.set(1);
    assert_eq!(worker.after_sleep(IN_VAIN), None, "a task is pinned to it");
    worker.p.pinned.live.set(0);
    assert_eq!(worker.after_sleep(IN_VAIN), Some(Awake::Leave));
    assert!(bound.unpark_without_permit(), "it was handed nothing");
    end(runtime, [worker, bound]);
}

#[test]
fn one_that_has_a_root_wakes_up_at_the_end_for_what_is_pinned_alone() {
    let runtime = runtime();
    let (worker, root) = with_root(&runtime, Scope::All);
    assert!(root.take(), "it was due");
    assert!(!worker.begin_park(), "nothing is queued");
    worker.shared().tell(worker.own_peer());
    assert_eq!(
        worker.check_before_sleep(),
        Look::Nothing,
        "its root goes on"
    );
    worker.p.pinned.live.set(1);
    assert_eq!(worker.check_before_sleep(), Look::Up);
    worker.p.pinned.live.set(0);
    end(runtime, [worker]);
}

/// What a P says of a task that it polls.
const TASK: u64 = 1 << 32;

/// Whether that thread would wait for a permit, in a poll of this. All are taken.
fn waits_for_a_permit(worker: &Worker, running: u64) -> bool {
    worker.own_peer().progress.running.store(running, Relaxed);
    let waits = !worker.ask_for_permit();
    assert!(!worker.own_peer().state.has_permit());
    if waits {
        assert!(!worker.was_answered(), "nobody has given it one");
    }
    worker.own_peer().progress.running.store(0, Relaxed);
    waits
}

#[test]
fn a_root_that_is_due_needs_no_permit_but_in_another_poll() {
    let runtime = runtime();
    let [first, second] = [thread(&runtime), thread(&runtime)];
    let (worker, root) = with_root(&runtime, Scope::Own);
    let waits = |running| waits_for_a_permit(&worker, running);
    assert_eq!(
        [0, ROOT, BRANCH, TASK].map(waits),
        [false, false, true, true]
    );
    assert!(root.take());
    assert_eq!([0, ROOT, TASK].map(waits), [true; 3], "it is not due");
    worker.shared().tell(worker.own_peer());
    assert_eq!(
        [0, ROOT, TASK].map(waits),
        [false; 3],
        "nothing is polled any more"
    );
    end(runtime, [first, second, worker]);
}

#[test]
fn above_a_poll_no_permit_is_needed_when_its_own_root_is_due() {
    let runtime = runtime();
    let [first, second] = [thread(&runtime), thread(&runtime)];
    let worker = thread(&runtime);
    let root = Root::new();
    worker.nested.above.replace(Some(root.clone()));
    assert!(!waits_for_a_permit(&worker, TASK));
    assert!(root.take());
    assert!(waits_for_a_permit(&worker, TASK), "it is not due");
    worker.shared().tell(worker.own_peer());
    assert!(!waits_for_a_permit(&worker, TASK));
    worker.nested.above.replace(None);
    end(runtime, [first, second, worker]);
}
