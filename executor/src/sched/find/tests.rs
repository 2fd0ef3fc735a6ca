//! S3: a thread that loses its permit in the middle of a search neither lingers as a spinner nor polls anything: it
//! lends the permit to who wants one before it takes a branch (*Give way at a fork*), or sysmon takes it.
//!
//! Each fails when `beyond_local` does not ask for the permit there: the first at `Search::Nothing`, the one with a
//! timer at `Search::Again`, and the one that is revoked at `Search::Found`. The same at `Search::Branch` has no test:
//! there the permit would have to go between a look at it and the claim, which is the next step.
//!
//! *The queues that stand still*: each of these two fails without its half of `steal_from_the_still`: the look at the
//! others, and the one at the room.
//!
//! Branches of a join: the first of the two fails if a steal is no ask, of the victim or of the thief (*After a steal*
//! in `fork_join/owner.rs`), the second if a shared branch counts among what others need a computing thread's permit for.

use std::{
    cell::Cell,
    io::Write,
    sync::{Arc as Shares, Mutex},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use ws_reactor::{Direction, Interest, Registration, pipe};

use super::{Step, Worker};
use crate::{
    context,
    fork_join::Lane,
    join,
    queue::CAPACITY,
    runtime::{Builder, Runtime},
    sched::{
        ground::{Bed, Ground},
        idle::Stands,
        sleep::Sleeper,
        sysmon::Monitor,
        worker::Scope,
    },
    spawn,
    sync::atomic::Ordering::Relaxed,
    time::Clock,
};

/// Two permits, and threads that are steps of this one.
fn runtime() -> Runtime {
    Builder::new()
        .workers(2)
        .sysmon(false)
        .stall_threshold(None)
        .build_with(Clock::stopped())
        .unwrap()
}

/// A thread with a P, and a permit if one is free.
fn thread(runtime: &Runtime) -> Worker {
    let shared = runtime.handle().shared();
    let processor = shared.take_processor().expect("there is room for it");
    let worker = Worker::new(shared.clone(), processor, Scope::All, None);
    worker.bed().standing().arrive();
    worker.try_run();
    worker
}

/// The same, with the second permit gone to a thread that computes: one that could have a branch for others.
fn searcher_and_computer(runtime: &Runtime) -> (Worker, Worker) {
    let (searcher, computer) = (thread(runtime), thread(runtime));
    // The first fork makes its lane ready, so that it can be asked.
    context::with_worker_frame(&computer, || join(|| (), || ()));
    (searcher, computer)
}

fn wanting(runtime: &Runtime) -> Worker {
    let worker = thread(runtime);
    assert!(!worker.ask_for_permit(), "both are taken");
    worker
}

fn step(worker: &Worker) -> Step {
    context::with_worker_frame(worker, || worker.step())
}

/// The searcher lent its permit, and is about to park without anything.
#[track_caller]
fn assert_parks(searcher: &Worker, step: &Step) {
    assert!(matches!(step, Step::Park), "it polls without a permit");
    assert!(!searcher.bed().standing().has_permit());
    assert_eq!(searcher.ground().idle().spinning(), 0, "it lingers");
}

fn end(runtime: Runtime, workers: impl IntoIterator<Item = Worker>) {
    runtime.handle().shared().drain_global();
    workers.into_iter().for_each(Worker::leave);
    runtime.shutdown_background();
}

/// Does something when it is woken.
struct Hook(Box<dyn Fn() + Send + Sync>);

impl Wake for Hook {
    fn wake(self: Shares<Self>) {
        self.0();
    }
}

fn hook(f: impl Fn() + Send + Sync + 'static) -> Waker {
    Shares::new(Hook(Box::new(f))).into()
}

/// A timer of that thread is due now.
fn is_due(worker: &Worker, waker: Waker) {
    let clock = worker.ground().time.clock();
    let key = worker
        .bed()
        .timers
        .arm(clock.now_ns() + 1, waker)
        .map_err(|_| "the runtime goes on");
    assert!(key.is_ok());
    clock.advance(Duration::from_nanos(1));
}

#[test]
fn a_permit_is_lent_in_the_wait_for_a_branch() {
    let runtime = runtime();
    let (searcher, computer) = searcher_and_computer(&runtime);
    let wanting = wanting(&runtime);
    let found = step(&searcher);
    assert_parks(&searcher, &found);
    assert_eq!(wanting.bed().standing().load(), Stands::Running);
    end(runtime, [searcher, computer, wanting]);
}

#[test]
fn a_timer_fires_after_a_permit_was_lent() {
    let runtime = runtime();
    let (searcher, computer) = searcher_and_computer(&runtime);
    let wanting = wanting(&runtime);
    let handle = runtime.handle().clone();
    is_due(&computer, hook(move || drop(handle.spawn(async {}))));
    let found = step(&searcher);
    assert_parks(&searcher, &found);
    assert!(searcher.ground().has_queued(), "what it woke is for others");
    assert_eq!(wanting.bed().standing().load(), Stands::Running);
    end(runtime, [searcher, computer, wanting]);
}

#[test]
fn a_permit_is_revoked_before_the_search_finds_something() {
    let runtime = runtime();
    let (searcher, computer) = searcher_and_computer(&runtime);
    context::with_worker_frame(&computer, || {
        (0..2).for_each(|_| drop(spawn(async {})));
    });
    let taken = Shares::new(Mutex::new(None));
    let (shared, index, keep) = (
        runtime.handle().shared().clone(),
        searcher.index(),
        taken.clone(),
    );
    is_due(
        &searcher,
        hook(move || *keep.lock().unwrap() = shared.peer(index).standing().revoke()),
    );
    let found = step(&searcher);
    let permit = taken.lock().unwrap().take().expect("it had one");
    assert_parks(&searcher, &found);
    assert!(
        searcher.ground().has_queued(),
        "what it found is for others"
    );
    searcher.ground().idle().release(permit, None);
    end(runtime, [searcher, computer]);
}

/// A pipe that the netpoll watches, and that nobody has written to.
struct Events {
    sender: pipe::Sender,
    receiver: pipe::Receiver,
    registration: Registration,
}

impl Events {
    fn new(runtime: &Runtime) -> Self {
        let (sender, mut receiver) = pipe::new().unwrap();
        let netpoll = &runtime.handle().shared().netpoll;
        let registration = Registration::new(netpoll, &mut receiver, Interest::READABLE).unwrap();
        Self {
            sender,
            receiver,
            registration,
        }
    }

    /// Has the netpoll wake that waker at the next look.
    fn bring(&mut self, waker: &Waker) {
        let mut cx = Context::from_waker(waker);
        while let Poll::Ready(ready) = self.registration.poll_ready(&mut cx, Direction::Read) {
            self.registration.clear_ready(ready.unwrap());
        }
        assert_eq!(self.sender.write(b"x").unwrap(), 1);
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.registration.deregister(&mut self.receiver).unwrap();
    }
}

/// A waker that spawns so many tasks where it is woken.
fn spawner(tasks: usize) -> Waker {
    hook(move || (0..tasks).for_each(|_| drop(spawn(async {}))))
}

#[test]
fn a_queue_that_stands_still_comes_before_what_the_netpoll_brings() {
    let runtime = runtime();
    let (searcher, victim) = (thread(&runtime), thread(&runtime));
    let mut events = Events::new(&runtime);
    context::with_worker_frame(&victim, || {
        (0..5).for_each(|_| drop(spawn(async {})));
    });
    assert!(matches!(step(&victim), Step::Run(_)));
    let mut dry_pass = || {
        events.bring(&spawner(1));
        assert!(matches!(step(&searcher), Step::Run(_)));
        searcher.bed().counters.stolen.get()
    };
    assert_eq!(dry_pass(), 0, "it has moved since the beginning");
    assert_eq!(dry_pass(), 2, "half of the four that are left");
    end(runtime, [searcher, victim]);
}

#[test]
fn a_full_queue_takes_nothing_from_one_that_stands_still() {
    let runtime = runtime();
    let (searcher, victim) = (thread(&runtime), thread(&runtime));
    let mut events = Events::new(&runtime);
    context::with_worker_frame(&victim, || {
        (0..CAPACITY).for_each(|_| drop(spawn(async {})));
    });
    events.bring(&spawner(CAPACITY as usize));
    assert!(matches!(step(&searcher), Step::Run(_)));
    assert_eq!(searcher.bed().counters.stolen.get(), 0);
    end(runtime, [searcher, victim]);
}

thread_local! {
    /// A worker for a closure that must be `Send`, although it stays here.
    static THIEF: Cell<Option<Worker>> = const { Cell::new(None) };
}

#[test]
fn after_a_steal_both_share_a_branch() {
    let runtime = runtime();
    let (owner, thief) = (thread(&runtime), thread(&runtime));
    let shared = runtime.handle().shared().clone();
    let lane = |index| &shared.peer(index).lane;
    let shares = |index| join(|| lane(index).has_shared(), || ()).0;
    let (own, other) = (owner.index(), thief.index());
    for worker in [&owner, &thief] {
        context::with_worker_frame(worker, || {
            shares(worker.index());
            assert!(
                !shares(worker.index()),
                "nobody has asked since the first fork"
            );
        });
    }
    THIEF.set(Some(thief));
    let (owners, thiefs) = context::with_worker_frame(&owner, || {
        lane(own).ask_as_helper();
        let steal = || {
            let branch = Lane::claim(lane(own), 0).expect("it was promoted");
            let thief = THIEF.take().expect("it is here");
            context::with_worker_frame(&thief, || branch.run(other, 0));
            THIEF.set(Some(thief));
            shares(own)
        };
        join(steal, || shares(other))
    });
    assert!(owners, "the victim shares nothing");
    assert!(thiefs, "the thief shares nothing");
    end(runtime, [owner, THIEF.take().expect("it is back")]);
}

#[test]
fn a_shared_branch_takes_no_permit_from_who_computes() {
    let runtime = runtime();
    let (owner, other) = (thread(&runtime), thread(&runtime));
    let shared = runtime.handle().shared().clone();
    let mut monitor = Monitor::new(&shared);
    let peer = shared.peer(owner.index());
    peer.running.store(1, Relaxed);
    let mut look_after_a_slice = || {
        for _ in 0..2 {
            monitor.look();
            shared.time.clock().advance(2 * super::SLICE);
        }
        monitor.look();
        peer.standing.load()
    };
    context::with_worker_frame(&owner, || {
        peer.lane.ask_as_helper();
        let looks = || {
            assert!(peer.lane.has_shared());
            assert_eq!(look_after_a_slice(), Stands::Running);
            drop(runtime.spawn(async {}));
            assert_eq!(look_after_a_slice(), Stands::Stuck, "others need it");
        };
        join(looks, || ());
    });
    peer.running.store(0, Relaxed);
    end(runtime, [owner, other]);
}
