//! A thread's steps on its way to a permit, to sleep and back, one at a time. What wakers and hooks
//! do in the middle of them is in `wait/tests.rs`, and what others do meanwhile in `models::idle`
//! and `models::permit`.

use std::{sync::atomic::AtomicUsize, thread};

use crate::{
    context,
    permit::{
        env::{Env, PeerEnv},
        idle::WorkerState,
        phase::ShutdownEnv,
        sleep::{Awake, Look, Sleeper, Slept},
    },
    runtime::{Builder, Runtime, Sysmon},
    sched::{
        find::tests::{runtime, thread as worker},
        shutdown::tests::end,
        worker::Worker,
    },
    spawn,
    sync::atomic::Ordering::Relaxed,
    timer::Clock,
};

const IN_VAIN: Slept = Slept {
    expired: false,
    ready: false,
};
const READY: Slept = Slept {
    ready: true,
    ..IN_VAIN
};
const EXPIRED: Slept = Slept {
    expired: true,
    ..IN_VAIN
};

fn stands(worker: &Worker) -> WorkerState {
    worker.own_peer().state().load()
}

#[test]
fn no_more_than_half_of_those_that_are_busy_search() {
    let runtime = runtime();
    let (first, second) = (worker(&runtime), worker(&runtime));
    assert!(first.begin_search());
    assert!(first.begin_search(), "it does already");
    assert!(!second.begin_search(), "one of two is enough");
    assert!(first.spins() && !second.spins());
    assert_eq!(runtime.handle().shared().idle.spinning(), 1);
    first.found_work();
    assert!(second.begin_search());
    end(runtime, [first, second]);
}

#[test]
fn one_that_was_woken_for_nothing_sleeps_on() {
    let runtime = runtime();
    let sleeper = worker(&runtime);
    assert!(!sleeper.begin_park(), "nothing is queued");
    assert_eq!(sleeper.after_sleep(IN_VAIN), None);
    assert_eq!(stands(&sleeper), WorkerState::Parked);
    assert_eq!(runtime.handle().shared().idle.free(), 2);
    end(runtime, [sleeper]);
}

/// I5: thieves pass by a P whose bit is set. It fails if only wakers clear the bit.
#[test]
fn a_bit_that_its_waker_left_behind_is_cleared_by_its_thread() {
    let runtime = runtime();
    let sleeper = worker(&runtime);
    assert!(!sleeper.begin_park(), "nothing is queued");
    let idle = &runtime.handle().shared().idle;
    // The waker cleared an earlier bit, and comes between the worker state and this one.
    let (permit, spinning) = idle.submit(1).expect("nobody runs");
    let handed = sleeper.own_peer().state().hand_to_parked(permit);
    handed.expect("it is parked");
    spinning.hand_over();
    assert!(idle.parked().contains(sleeper.index()));
    assert_eq!(sleeper.check_before_sleep(), Look::Up);
    assert!(!idle.parked().contains(sleeper.index()));
    sleeper.found_work();
    end(runtime, [sleeper]);
}

/// It would be lost for good.
#[test]
fn a_permit_that_comes_beside_another_goes_back() {
    for spins in [false, true] {
        let runtime = runtime();
        let sleeper = worker(&runtime);
        assert!(!sleeper.begin_park(), "nothing is queued");
        let idle = &runtime.handle().shared().idle;
        let own = idle.acquire().expect("nobody runs");
        drop(runtime.handle().spawn(async {}));
        assert_eq!(
            stands(&sleeper),
            WorkerState::Running,
            "it was handed the other"
        );
        sleeper.unpark_self(own, spins.then(|| idle.spin()));
        assert_eq!(idle.free(), 1);
        assert_eq!(idle.spinning(), 1, "what came with the other is its own");
        assert!(sleeper.spins());
        end(runtime, [sleeper]);
    }
}

#[test]
fn one_that_was_brought_something_wakes_up_with_a_free_permit() {
    let runtime = runtime();
    let sleeper = worker(&runtime);
    assert!(!sleeper.begin_park(), "nothing is queued");
    assert_eq!(sleeper.after_sleep(READY), Some(Awake::Go));
    assert_eq!(stands(&sleeper), WorkerState::Running);
    assert_eq!(runtime.handle().shared().idle.free(), 1);
    end(runtime, [sleeper]);
}

#[test]
fn one_that_slept_in_vain_for_long_ends_unless_something_lives_here() {
    let runtime = runtime();
    let sleeper = worker(&runtime);
    assert!(!sleeper.begin_park(), "nothing is queued");
    sleeper.p.pinned.live.set(1);
    assert_eq!(sleeper.after_sleep(EXPIRED), None);
    assert_eq!(stands(&sleeper), WorkerState::Parked);
    sleeper.p.pinned.live.set(0);
    assert_eq!(sleeper.after_sleep(EXPIRED), Some(Awake::Leave));
    assert_eq!(
        stands(&sleeper),
        WorkerState::Stuck,
        "it takes no permit along"
    );
    end(runtime, [sleeper]);
}

#[test]
fn one_that_has_a_permit_asks_for_no_other() {
    let runtime = runtime();
    let holder = worker(&runtime);
    assert!(holder.ask_for_permit());
    assert_eq!(runtime.handle().shared().idle.free(), 1);
    end(runtime, [holder]);
}

#[test]
fn one_that_wants_a_permit_knows_whether_it_was_handed_one() {
    let runtime = runtime();
    let (wants, others) = (worker(&runtime), [worker(&runtime), worker(&runtime)]);
    let idle = &runtime.handle().shared().idle;
    wants.begin_blocking();
    others[1].try_run();
    for answered in [false, true] {
        assert!(!wants.ask_for_permit(), "all are taken");
        assert_eq!(stands(&wants), WorkerState::Wanting);
        if answered {
            others[1].begin_blocking();
        }
        assert_eq!(wants.was_answered(), answered);
        assert!(idle.wanting().is_empty());
        let expected = if answered {
            WorkerState::Running
        } else {
            WorkerState::Stuck
        };
        assert_eq!(stands(&wants), expected);
    }
    let [first, second] = others;
    end(runtime, [wants, first, second]);
}

/// The only permit goes to another thread, and what was queued with it. Whatever wakes it
/// meanwhile, it sleeps until somebody hands it one.
#[test]
fn one_that_gives_way_waits_for_the_next_permit() {
    const NONE: usize = usize::MAX;
    let builder = Builder::new().workers(1).sysmon(Sysmon::Off);
    let builder = builder.stall_threshold(None);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let shared = runtime.handle().shared();
    let sim_threads = shared
        .threads
        .sim_threads
        .as_ref()
        .expect("its clock is virtual");
    let index = AtomicUsize::new(NONE);
    let give_way = |runtime: &Runtime| {
        let worker = worker(runtime);
        context::with_worker_frame(&worker, || drop(spawn(async {})));
        index.store(worker.index(), Relaxed);
        worker.give_way(worker.own_peer().parker());
        let stands = stands(&worker);
        worker.leave();
        stands
    };
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| give_way(&runtime));
        let until = |done: &dyn Fn() -> bool| {
            while !done() && !sleeper.is_finished() {
                thread::yield_now();
            }
        };
        until(&|| sim_threads.len() == 1);
        assert_eq!(sim_threads.len(), 1, "another has its permit");
        let parker = shared.peer(index.load(Relaxed)).parker();
        // Once it sleeps anew after the first, it has taken note that there was none.
        for _ in 0..2 {
            parker.unpark(|| unreachable!("it does not wait in the netpoll"));
            until(&|| !parker.is_notified());
        }
        assert!(!sleeper.is_finished(), "it goes on without a permit");
        let flushed = shared.queues.grq.len();
        shared.drain_global();
        for started in sim_threads.take() {
            Worker::begin(shared, started).leave();
            shared.thread_gone();
        }
        assert_eq!(sleeper.join().unwrap(), WorkerState::Running);
        assert_eq!(flushed, 1, "what it had is for others");
    });
    end(runtime, []);
}
