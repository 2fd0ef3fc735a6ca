//! What the netpoll brings, and which threads are woken for it.

use super::*;

#[test]
fn a_queue_that_stands_still_comes_before_what_the_netpoll_brings() {
    const BROUGHT: usize = 9;
    let runtime = runtime();
    let (searcher, victim) = (thread(&runtime), thread(&runtime));
    let ran = Shares::new(Mutex::new(Vec::new()));
    let logger = |name| {
        let ran = ran.clone();
        move || ran.lock().unwrap().push(name)
    };
    let mut events = [(); 2].map(|()| Events::new(&runtime));
    let brought = [(); 2].map(|()| idle_task(&searcher, logger(BROUGHT)));
    ran.lock().unwrap().clear();
    let spawn_on_victim = |names: Range<usize>| {
        context::with_worker_frame(&victim, || {
            names
                .map(logger)
                .for_each(|log| drop(spawn(async move { log() })));
        });
        // What runs next is not taken.
        finds_a_task(&victim);
    };
    spawn_on_victim(0..5);
    let clock = searcher.env().time.clock();
    let mut dry_pass = |after: Duration| {
        clock.advance(after);
        std::iter::zip(&mut events, &brought).for_each(|(events, waker)| events.bring(waker));
        loop {
            let Step::Run(task) = step(&searcher) else {
                panic!("what was brought is there");
            };
            context::with_worker_frame(&searcher, || searcher.poll(task));
            let mut ran = ran.lock().unwrap();
            if ran.iter().filter(|name| **name == BROUGHT).count() == brought.len() {
                return std::mem::take(&mut *ran);
            }
        }
    };
    let none = [BROUGHT; 2];
    assert_eq!(dry_pass(RESCUE_AFTER), none, "it was not seen before");
    assert_eq!(
        dry_pass(RESCUE_AFTER / 2),
        none,
        "it has not stood still for long"
    );
    assert_eq!(
        dry_pass(RESCUE_AFTER / 2),
        [0, 1, BROUGHT, BROUGHT],
        "as many as were brought"
    );
    assert_eq!(
        dry_pass(Duration::ZERO),
        [2, 3, BROUGHT, BROUGHT],
        "and the others"
    );
    assert_eq!(searcher.own_peer().counters.stolen.get(), 4);
    spawn_on_victim(5..8);
    assert_eq!(dry_pass(RESCUE_AFTER), none, "it has moved");
    end(runtime, [searcher, victim]);
}

#[test]
fn nothing_is_taken_for_which_there_is_no_room() {
    let runtime = runtime();
    let (searcher, victim) = (thread(&runtime), thread(&runtime));
    context::with_worker_frame(&victim, || (0..4).for_each(|_| drop(spawn(async {}))));
    let rescue = |brought: u64| {
        searcher.env().io.last_look.store(searcher.now(), Relaxed);
        searcher.env().time.clock().advance(RESCUE_AFTER);
        searcher.rescue_steal(brought as usize);
        searcher.p.lrq.len()
    };
    assert_eq!(rescue(1), 0, "it was not seen before");
    assert_eq!(rescue(CAPACITY), 0);
    assert_eq!(rescue(CAPACITY - 1), 1);
    end(runtime, [searcher, victim]);
}

/// What the netpoll brought waits behind what was stolen.
#[test]
fn another_is_woken_after_a_rescue_steal() {
    let builder = Builder::new().workers(3).sysmon(Sysmon::Off);
    let builder = builder.stall_threshold(None);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let (searcher, victim) = (thread(&runtime), thread(&runtime));
    let idle = &runtime.handle().shared().idle;
    let permit = idle.acquire().expect("one is free");
    context::with_worker_frame(&victim, || (0..2).for_each(|_| drop(spawn(async {}))));
    // Nobody was woken for these.
    idle.release(permit, None);
    let rescue = || {
        let shared = searcher.env();
        shared.io.last_look.store(searcher.now(), Relaxed);
        shared.time.clock().advance(RESCUE_AFTER);
        searcher.rescue_steal(1);
        let started = shared.threads.sim_threads.as_ref().map(SimThreads::len);
        (searcher.p.lrq.len(), started)
    };
    assert_eq!(rescue(), (0, Some(0)), "it was not seen before");
    assert_eq!(rescue(), (1, Some(1)));
    end(runtime, [searcher, victim]);
}

#[test]
fn a_permit_is_revoked_while_the_netpoll_is_looked_at() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let mut events = Events::new(&runtime);
    let revoked = Revoked::from(&worker, 1);
    events.bring(&revoked.1);
    let found = step(&worker);
    assert_parks(&worker, &found);
    revoked.give_back(&runtime);
    end(runtime, [worker, other]);
}

/// How many wakers the looks at the netpoll brought, by the recording.
pub(in crate::sched) fn recorded_netpolls(runtime: &Runtime) -> Vec<u64> {
    let events = runtime.handle().recording().events.into_iter();
    let netpolls = events.filter(|event| event.kind == EventKind::Netpoll);
    netpolls.map(|event| event.number).collect()
}

#[test]
fn a_look_at_the_netpoll_that_brings_something_is_recorded() {
    let runtime = runtime();
    runtime.handle().record(Level::Full);
    let worker = thread(&runtime);
    let mut events = Events::new(&runtime);
    let look = || context::with_worker_frame(&worker, || worker.look_at_netpoll());
    look();
    assert_eq!(recorded_netpolls(&runtime), []);
    events.bring(Waker::noop());
    look();
    assert_eq!(recorded_netpolls(&runtime), [1]);
    drop(events);
    end(runtime, [worker]);
}

#[test]
fn what_the_netpoll_wakes_blocks_at_a_61st_tick() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let mut events = Events::new(&runtime);
    context::with_worker_frame(&worker, || drop(spawn(async {})));
    events.bring(&blocker());
    worker.env().time.clock().advance(NETPOLL_PERIOD);
    count_to(&worker, GLOBAL_TICK);
    let found = step(&worker);
    assert_parks(&worker, &found);
    end(runtime, [worker, other]);
}

/// The waker of a task that is idle on this P, and does that at each of its polls.
pub(in crate::sched) fn idle_task(worker: &Worker, at_poll: impl Fn() + Send + 'static) -> Waker {
    let slot = Shares::new(Mutex::new(None));
    let task = {
        let slot = slot.clone();
        poll_fn(move |cx| {
            at_poll();
            *slot.lock().unwrap() = Some(cx.waker().clone());
            Poll::<()>::Pending
        })
    };
    context::with_worker_frame(worker, || drop(spawn(task)));
    let Step::Run(task) = step(worker) else {
        panic!("it is there");
    };
    context::with_worker_frame(worker, || worker.poll(task));
    slot.lock().unwrap().take().expect("it was polled")
}

#[test]
fn what_is_woken_behind_other_work_is_for_others() {
    let pinned: fn() = || drop(spawn_local(async {}));
    let lone: fn() = || drop(spawn(async {}));
    for (first, woken) in [(pinned, 1), (lone, 1), ((|| ()) as fn(), 0)] {
        let runtime = runtime();
        let worker = thread(&runtime);
        let mut events = Events::new(&runtime);
        let idle = idle_task(&worker, || ());
        context::with_worker_frame(&worker, first);
        // The thread that was woken for a lone `runnext` finds nothing, and gives its permit back.
        take_started(&runtime);
        events.bring(&idle);
        worker.env().time.clock().advance(NETPOLL_PERIOD);
        count_to(&worker, GLOBAL_TICK);
        finds_a_task(&worker);
        assert_eq!(take_started(&runtime), woken);
        end(runtime, [worker]);
    }
}

#[test]
fn another_is_woken_in_the_middle_of_a_batch() {
    for spins in [false, true] {
        let runtime = runtime();
        let worker = thread(&runtime);
        let idle = [(); 3].map(|()| idle_task(&worker, || ()));
        // The thread that was woken when they were spawned has nothing to do.
        take_started(&runtime);
        let started = Shares::new(Mutex::new(Vec::new()));
        for waker in idle {
            let (handle, started) = (runtime.handle().clone(), started.clone());
            let now = move || {
                handle
                    .shared()
                    .threads
                    .sim_threads
                    .as_ref()
                    .map(SimThreads::len)
            };
            is_due(
                &worker,
                hook(move || {
                    started.lock().unwrap().extend(now());
                    waker.wake_by_ref();
                }),
            );
        }
        assert!(!spins || worker.begin_search());
        finds_a_task(&worker);
        // The thread that is awake takes the first.
        assert_eq!(*started.lock().unwrap(), [0, 0, 1], "a spinner: {spins}");
        assert_eq!(take_started(&runtime), 1, "one permit is free");
        end(runtime, [worker]);
    }
}
