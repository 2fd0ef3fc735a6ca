//! What a thread makes of what it has polled, what it does where it comes to a fork, and what it
//! leaves behind.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc as Shares, Mutex},
    task::Poll,
};

use super::*;
use crate::{
    block_in_place, context, fork, join,
    permit::{idle::WorkerState, sleep::Look},
    policy::constants::FORK_SLICE,
    runtime::{Builder, Runtime, Sysmon, UnhandledPanic},
    sched::{
        find::tests::{runtime, thread},
        shutdown::tests::end,
    },
    spawn,
    task::{self, JoinHandle},
    timer::Clock,
};

impl Worker {
    /// How many tasks on the fork deque wait for their child.
    pub(crate) fn parents(&self) -> usize {
        self.p.forks.parents.len()
    }

    /// Whether a task has said that it goes on.
    pub(crate) fn has_goes_on(&self) -> bool {
        self.p.poll.goes_on.get().is_some()
    }
}

/// It polls what it comes to next.
#[track_caller]
fn polls(worker: &Worker) {
    context::with_worker_frame(worker, || match worker.step() {
        Step::Run(task) => worker.poll(task),
        other => panic!("it has a task: {other:?}"),
    });
}

/// A task that is for all, for which nobody is woken: no permit is free meanwhile.
fn queued(runtime: &Runtime) {
    let idle = &runtime.handle().shared().idle;
    let permits: Vec<_> = std::iter::from_fn(|| idle.acquire()).collect();
    drop(runtime.spawn(async {}));
    permits
        .into_iter()
        .for_each(|permit| idle.release(permit, None));
}

#[test]
fn a_wait_is_over_at_once_where_the_clock_stands_still() {
    const WAIT: Duration = Duration::from_micros(10);
    let paused = Builder::new()
        .clock(crate::runtime::Clock::Paused)
        .build()
        .unwrap();
    for (runtime, wait) in [(runtime(), 10_000), (paused, 0)] {
        let worker = thread(&runtime);
        let clock = worker.shared().time.clock();
        clock.advance(Duration::from_secs(1));
        assert_eq!(worker.until(WAIT), 1_000_000_000 + wait);
        end(runtime, [worker]);
    }
}

#[test]
fn one_that_leaves_gives_what_it_has_to_others() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    context::with_worker_frame(&worker, || {
        (0..3).for_each(|_| drop(spawn(async {})));
        drop(task::Builder::new().priority(1).spawn(async {}));
    });
    worker.leave();
    let shared = runtime.handle().shared();
    assert_eq!(
        (shared.queues.grq.len(), shared.queues.ordered.len()),
        (3, 1)
    );
    end(runtime, [other]);
}

#[test]
fn a_thread_polls_no_root_any_more_when_that_has_ended() {
    let runtime = runtime();
    let shared = runtime.handle().shared().clone();
    let running = || shared.peer(0).progress.running.load(Relaxed);
    runtime.block_on(async {
        // It has a P from here on.
        drop(spawn(async {}));
        assert_eq!(running(), ROOT);
    });
    assert_eq!(running(), 0);
    end(runtime, []);
}

#[test]
fn a_panic_ends_the_runtime_where_that_was_asked_for() {
    let builder = Builder::new()
        .workers(1)
        .unhandled_panic(UnhandledPanic::ShutdownRuntime);
    let builder = builder.sysmon(Sysmon::Off).stall_threshold(None);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let worker = thread(&runtime);
    let ends = |panics: bool| {
        context::with_worker_frame(&worker, || {
            drop(spawn(async move { assert!(!panics, "expected") }));
        });
        polls(&worker);
        worker.shared().end.phase.is_closing()
    };
    assert!(!ends(false));
    assert!(ends(true));
    end(runtime, [worker]);
}

thread_local! {
    /// A worker for a closure that must be `Send`, although it stays here.
    static THIEF: Cell<Option<Worker>> = const { Cell::new(None) };
}

#[test]
fn a_stolen_branch_is_a_poll_of_its_thief() {
    let runtime = runtime();
    let (owner, thief) = (thread(&runtime), thread(&runtime));
    let index = thief.index();
    THIEF.set(Some(thief));
    let steal = || {
        let thief = THIEF.take().expect("it is here");
        context::with_worker_frame(&thief, || match thief.step() {
            Step::Branch(branch) => {
                assert!(thief.spins());
                thief.run_branch(branch);
            }
            other => panic!("one is shared: {other:?}"),
        });
        THIEF.set(Some(thief));
    };
    let observe = || {
        context::with_worker(|worker| {
            let worker = worker.expect("it runs on a P");
            (worker.index(), worker.peer().progress.running.load(Relaxed))
        })
    };
    let ((), observed) = context::with_worker_frame(&owner, || {
        // The first fork makes its branch deque ready, so that it can be asked.
        join(|| (), || ());
        owner.branch_deque().ask_as_helper();
        join(steal, observe)
    });
    assert_eq!(observed, (index, BRANCH));
    let thief = THIEF.take().expect("it is back");
    assert_eq!(thief.peer().progress.running.load(Relaxed), 0);
    assert_eq!(thief.peer().counters.polls.get(), 1);
    assert!(!thief.spins(), "it has found something");
    end(runtime, [owner, thief]);
}

#[test]
fn a_call_that_is_passed_on_runs_on_the_thread_that_it_is_handed_to() {
    let runtime = runtime();
    let (bound, other) = (thread(&runtime), thread(&runtime));
    assert!(!other.begin_park(), "nothing is queued");
    let polled = Shares::new(Mutex::new(Vec::new()));
    let call = {
        let polled = polled.clone();
        poll_fn(move |cx| {
            let mut polled = polled.lock().unwrap();
            context::with_worker(|worker| {
                let worker = worker.expect("it is polled by one");
                polled.push(worker.index());
                worker.p.poll.passes_on.set(polled.len() == 1);
            });
            if polled.len() == 1 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
    };
    let idle = &runtime.handle().shared().idle;
    // Nobody is woken for it before.
    let permit = idle.acquire().expect("one is free");
    context::with_worker_frame(&bound, || drop(spawn(call)));
    idle.release(permit, None);
    polls(&bound);
    assert_eq!(other.check_before_sleep(), Look::Up);
    context::with_worker_frame(&other, || other.run_handed());
    let indices = vec![bound.index(), other.index()];
    assert_eq!(*polled.lock().unwrap(), indices);
    end(runtime, [bound, other]);
}

/// Forks, and then does something more in the same poll.
fn forks_and(mut then: impl FnMut() + Send + 'static) -> impl Future<Output = ()> + Send {
    poll_fn(move |cx| {
        assert!(pin!(fork(async {})).poll(cx).is_pending());
        then();
        Poll::Pending
    })
}

/// Two threads with both permits. The first thread has that task.
fn with_task(task: impl Future<Output = ()> + Send + 'static) -> (Runtime, Worker, Worker) {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    context::with_worker_frame(&worker, || drop(spawn(task)));
    (runtime, worker, other)
}

#[test]
fn a_parent_waits_on_the_fork_deque() {
    let (runtime, worker, other) = with_task(forks_and(|| ()));
    polls(&worker);
    assert_eq!(worker.parents(), 1);
    assert!(worker.p.forks.has_child());
    end(runtime, [worker, other]);
}

#[test]
fn a_parent_with_a_priority_waits_among_its_equals() {
    let handle = Shares::new(Mutex::new(None::<JoinHandle<()>>));
    let own = handle.clone();
    let parent = forks_and(move || {
        let own = own.lock().unwrap();
        own.as_ref().expect("it is spawned").set_priority(1);
    });
    let (runtime, worker, other) = with_task(async {});
    polls(&worker);
    context::with_worker_frame(&worker, || *handle.lock().unwrap() = Some(spawn(parent)));
    polls(&worker);
    assert_eq!(worker.parents(), 0);
    assert!(!worker.p.priority_queues.is_empty());
    assert!(!worker.p.forks.has_child() && !worker.p.runnext.is_empty());
    end(runtime, [worker, other]);
}

#[test]
fn a_parent_whose_thread_lost_its_permit_is_for_all() {
    let taken = Shares::new(Mutex::new(None));
    let keep = taken.clone();
    let parent = forks_and(move || {
        context::with_worker(|worker| {
            let worker = worker.expect("it is polled by one");
            *keep.lock().unwrap() = worker.peer().state.revoke();
        });
    });
    let (runtime, worker, other) = with_task(parent);
    polls(&worker);
    assert_eq!(worker.parents(), 0);
    let shared = runtime.handle().shared();
    assert_eq!(shared.queues.grq.len(), 2, "its child is, too");
    let permit = taken.lock().unwrap().take().expect("it had one");
    shared.idle.release(permit, None);
    end(runtime, [worker, other]);
}

#[test]
fn a_fork_takes_no_permit_where_its_thread_blocks_or_lies() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let forks = || {
        worker.come_to_a_fork();
        worker.peer().state.load()
    };
    context::with_worker_frame(&worker, || {
        assert_eq!(block_in_place(forks), WorkerState::Stuck);
        assert!(!worker.begin_park(), "nothing is queued");
        assert_eq!(forks(), WorkerState::Parked);
    });
    end(runtime, [worker, other]);
}

#[test]
fn without_sysmon_nobody_gives_way_at_a_fork() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let shared = runtime.handle().shared();
    queued(&runtime);
    shared.time.clock().advance(FORK_SLICE);
    shared.ask_at_forks();
    // A thread that gave way would not sleep for long.
    worker.peer().thread.parker.unpark(|| ());
    context::with_worker_frame(&worker, || worker.come_to_a_fork());
    assert!(worker.peer().state.has_permit());
    assert!(shared.is_asked_at_forks(), "nobody has heard it");
    end(runtime, [worker]);
}

#[test]
fn one_that_comes_back_from_a_block_without_a_permit_waits_at_its_next_fork() {
    // With one worker nobody is woken for a branch.
    let builder = Builder::new().workers(1).sysmon(Sysmon::Off);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let worker = thread(&runtime);
    let idle = &runtime.handle().shared().idle;
    worker.peer().progress.running.store(1, Relaxed);
    // Its first fork notes the threads that ask.
    context::with_worker_frame(&worker, || join(|| (), || ()));
    assert!(worker.announce_blocking());
    let permit = idle.acquire().expect("it was released");
    worker.end_blocking();
    assert!(!worker.peer().is_detached(), "nobody would end that");
    assert!(!worker.branch_deque().ask(), "it does not come by");
    idle.release(permit, None);
    worker.peer().progress.running.store(0, Relaxed);
    end(runtime, [worker]);
}

#[test]
fn one_that_comes_back_from_a_block_knows_what_time_it_is() {
    let builder = Builder::new().workers(1).sysmon(Sysmon::Off);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let worker = thread(&runtime);
    assert!(worker.announce_blocking());
    let clock = &runtime.handle().shared().time;
    clock.clock().advance(Duration::from_secs(3));
    worker.end_blocking();
    assert_eq!(worker.peer().progress.now_ms.load(Relaxed), 3000);
    end(runtime, [worker]);
}

/// Whether it gives way at a fork, the given time after it got its permit.
fn gives_way(worker: &Worker, after: Duration) -> bool {
    let since = worker.now() - after.as_nanos() as u64;
    worker.p.clocks.forks_since.set(since);
    worker.is_asked_at_fork()
}

#[test]
fn one_that_is_asked_at_a_fork_gives_way_after_its_slice_and_once() {
    const NS: Duration = Duration::from_nanos(1);
    let runtime = runtime();
    let worker = thread(&runtime);
    let shared = runtime.handle().shared();
    shared.time.clock().advance(Duration::from_secs(1));
    queued(&runtime);
    assert!(!gives_way(&worker, FORK_SLICE), "nobody asks");
    shared.ask_at_forks();
    assert!(!gives_way(&worker, FORK_SLICE - NS), "it is too early");
    assert!(gives_way(&worker, FORK_SLICE));
    assert!(!gives_way(&worker, FORK_SLICE), "one has heard it");
    shared.ask_at_forks();
    shared.drain_global();
    assert!(!gives_way(&worker, FORK_SLICE), "nothing waits");
    end(runtime, [worker]);
}

#[test]
fn the_root_of_a_block_on_does_not_give_way_at_a_fork() {
    let runtime = runtime();
    let mut worker = thread(&runtime);
    let shared = runtime.handle().shared();
    shared.time.clock().advance(Duration::from_secs(1));
    queued(&runtime);
    for (scope, running, gives) in [
        (Scope::Own, ROOT, false),
        (Scope::Own, 1 << 32, true),
        (Scope::All, ROOT, true),
    ] {
        shared.ask_at_forks();
        worker.scope = scope;
        worker.peer().progress.running.store(running, Relaxed);
        assert_eq!(gives_way(&worker, FORK_SLICE), gives);
    }
    worker.peer().progress.running.store(0, Relaxed);
    end(runtime, [worker]);
}
