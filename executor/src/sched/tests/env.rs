//! What a release owes, and what is heard (L6), as far as the models do not show it: how many
//! threads are woken, and for what. Threads that the runtime starts wait in `SimThreads`.

use std::task::Waker;

use ws_reactor::{Interest, Registration, pipe};

use crate::{
    context,
    permit::{
        env::{Env, PeerEnv},
        idle::Spinning,
        phase::ShutdownEnv,
        sleep::Sleeper,
    },
    queue::local_queue,
    runtime::{Builder, Runtime, Sysmon},
    sched::{
        Root, Shared,
        shutdown::tests::{end, take_started},
        worker::{Scope, Worker},
    },
    spawn,
    sync::atomic::Ordering::Relaxed,
    timer::Clock,
};

/// Four permits, and threads that are steps of this one.
fn runtime() -> Runtime {
    let builder = Builder::new().workers(4).sysmon(Sysmon::Off);
    let builder = builder.stall_threshold(None);
    builder.build_with(Clock::stopped()).unwrap()
}

fn shared(runtime: &Runtime) -> &Shared {
    runtime.handle().shared()
}

/// A thread with a permit and so many tasks, for which nobody was woken.
fn thread(runtime: &Runtime, tasks: usize) -> Worker {
    let shared = runtime.handle().shared();
    let processor = shared.take_processor().expect("there is room for it");
    let worker = Worker::new(shared.clone(), processor, Scope::All, None);
    worker.own_peer().state().arrive();
    let idle = shared.idle();
    let permits: Vec<_> = std::iter::from_fn(|| idle.acquire()).collect();
    let mut permits = permits.into_iter();
    worker
        .own_peer()
        .state()
        .run(permits.next().expect("four are free"));
    context::with_worker_frame(&worker, || (0..tasks).for_each(|_| drop(spawn(async {}))));
    permits.for_each(|permit| idle.release(permit, None));
    worker
}

#[test]
fn a_revocation_wakes_as_many_as_the_queue_is_worth() {
    let runtime = runtime();
    let worker = thread(&runtime, 5);
    let (scratch, _) = local_queue();
    assert!(shared(&runtime).revoke(worker.own_peer(), &scratch));
    assert_eq!(shared(&runtime).grq().len(), 5, "one was in `runnext`");
    assert!(worker.own_peer().flags.gave_away.load(Relaxed));
    assert_eq!(take_started(&runtime), 2, "half of the machine");
    assert!(
        !shared(&runtime).revoke(worker.own_peer(), &scratch),
        "once"
    );
    end(runtime, [worker]);
}

#[test]
fn a_revocation_of_one_that_has_nothing_wakes_one_for_the_netpoll() {
    let runtime = runtime();
    let worker = thread(&runtime, 0);
    let (scratch, _) = local_queue();
    assert!(shared(&runtime).revoke(worker.own_peer(), &scratch));
    assert!(!worker.own_peer().flags.gave_away.load(Relaxed));
    assert_eq!(take_started(&runtime), 1);
    worker.try_run();
    shared(&runtime).netpoll_waiter().store(1, Relaxed);
    assert!(shared(&runtime).revoke(worker.own_peer(), &scratch));
    assert_eq!(take_started(&runtime), 0, "somebody waits there");
    shared(&runtime).netpoll_waiter().store(0, Relaxed);
    end(runtime, [worker]);
}

#[test]
fn what_a_revocation_finds_after_the_end_is_dropped() {
    let runtime = runtime();
    let worker = thread(&runtime, 1);
    let env = shared(&runtime);
    // Its wake is on its way meanwhile.
    let late = worker.p.runnext.take().expect("it is next");
    env.begin_shutdown();
    env.help_to_clear();
    assert!(env.phase().is_closed() && env.live_tasks() == 1);
    assert!(worker.p.lrq.push(late).is_ok());
    let (scratch, _) = local_queue();
    assert!(env.revoke(worker.own_peer(), &scratch));
    assert_eq!((env.grq().len(), env.live_tasks()), (0, 0));
    end(runtime, [worker]);
}

#[test]
fn a_refusal_wakes_those_that_wait_for_a_root() {
    let runtime = runtime();
    let worker = thread(&runtime, 0);
    let env = shared(&runtime);
    let processor = env.take_processor().expect("there is room for it");
    let root = Root::new();
    root.settle(&runtime.handle().shared().io.netpoll, None);
    *processor.peer.thread.root.lock() = Some(root.clone());
    processor.peer.state.arrive();
    assert!(processor.peer.state.wait().is_none(), "it had none");
    let idle = env.idle();
    let permits: Vec<_> = std::iter::from_fn(|| idle.acquire()).collect();
    let mut permits = permits.into_iter();
    drop(runtime.spawn(async {}));
    let permit = permits.next().expect("three are free");
    env.refused(permit, idle.spin());
    assert!(root.parker().is_notified());
    assert!(!worker.own_peer().parker().is_notified(), "it runs");
    permits.for_each(|permit| idle.release(permit, None));
    env.refusal().store(false, Relaxed);
    *processor.peer.thread.root.lock() = None;
    assert!(processor.peer.state.vacate().is_none());
    env.return_processor(processor);
    end(runtime, [worker]);
}

#[test]
fn the_last_spinner_sees_to_what_is_left() {
    let runtime = runtime();
    let worker = thread(&runtime, 0);
    let env = shared(&runtime);
    env.stop_spinning(env.idle().spin());
    assert_eq!(take_started(&runtime), 0, "nothing is left");
    let (first, last) = (env.idle().spin(), env.idle().spin());
    drop(runtime.spawn(async {}));
    assert_eq!(
        env.threads.sim_threads.as_ref().map(|it| it.len()),
        Some(0),
        "they spin"
    );
    env.stop_spinning(first);
    assert_eq!(
        env.threads.sim_threads.as_ref().map(|it| it.len()),
        Some(0),
        "one spins"
    );
    env.stop_spinning(last);
    assert_eq!(take_started(&runtime), 1);
    end(runtime, [worker]);
}

#[test]
fn somebody_is_sent_to_the_netpoll_where_all_are_idle() {
    let runtime = runtime();
    let env = shared(&runtime);
    let arrivals = || {
        env.threads.sim_threads.as_ref().map_or(0, |sim_threads| {
            sim_threads
                .take()
                .into_iter()
                .map(|processor| {
                    // It goes as it came, and sends nobody in turn.
                    let permit = processor.peer.state.vacate().expect("it runs");
                    env.return_processor(processor);
                    env.thread_gone();
                    env.idle().release(permit, Some(Spinning::take_over()));
                })
                .count()
        })
    };
    let sent = || {
        env.ensure_poller();
        arrivals()
    };
    assert_eq!(sent(), 0, "there is nothing to wait for");
    env.heard();
    assert_eq!(arrivals(), 1, "there is, says who calls");
    let (_sender, mut receiver) = pipe::new().unwrap();
    let source = Registration::new(&env.io.netpoll, &mut receiver, Interest::READABLE).unwrap();
    assert_eq!(arrivals(), 1, "a registration is heard");
    assert_eq!(sent(), 1);
    let waker = || Waker::noop().clone();
    let timers = env.foreign_timers();
    assert!(timers.arm(2000, waker()).is_ok());
    assert_eq!(arrivals(), 1, "so is a timer");
    let key = timers.arm(3000, waker()).unwrap();
    assert_eq!(
        arrivals(),
        0,
        "the first one is heard, and this one with it"
    );
    assert!(timers.reset(key, 1000).is_some());
    assert_eq!(arrivals(), 1, "it was brought forward");
    let permit = env.idle().acquire().expect("four are free");
    assert_eq!(sent(), 0, "who runs looks there before it sleeps");
    assert!(timers.arm(900, waker()).is_ok());
    assert_eq!(arrivals(), 0, "whoever arms");
    env.idle().release(permit, None);
    env.netpoll_waiter().store(1, Relaxed);
    assert_eq!(sent(), 0, "somebody is there");
    assert!(timers.arm(800, waker()).is_ok());
    assert_eq!(arrivals(), 0, "also for this one");
    env.netpoll_waiter().store(0, Relaxed);
    source.deregister(&mut receiver).unwrap();
    runtime.shutdown_background();
}
