//! S3: a worker that loses its permit in the middle of a step neither spins on nor polls anything.
//!
//! It loses it in a search, since it lends it to a thread that wants one before it takes a branch
//! (*Give way at a fork*), or the monitor takes it; or in a waker that a step wakes, which
//! announces a block, or takes so much time that the monitor takes it (*Wakers in a step*). Each of
//! these fails when one look at the permit is left out. The table names the place of that look:
//!
//! | test | without the look |
//! | --- | --- |
//! | `a_permit_is_lent_before_a_branch_is_taken` | at `Search::Nothing` |
//! | `a_permit_is_revoked_while_a_timer_of_another_fires` | at `Search::Again` |
//! | `a_permit_is_revoked_in_the_middle_of_a_search` | at `Search::Found` |
//! | `a_permit_is_revoked_before_a_branch_is_claimed` | at `Search::Branch` |
//! | `a_timer_blocks_in_the_middle_of_a_step` | after the timers of a 16th tick |
//! | `a_permit_is_revoked_while_a_timer_fires_for_one_that_ran_dry` | after the timers in `beyond_local` |
//! | `a_permit_is_revoked_while_the_netpoll_is_looked_at` | after the netpoll in `beyond_local` |
//! | `what_the_netpoll_wakes_blocks_at_a_61st_tick` | after the netpoll in `look_for_all` |
//! | `a_permit_is_revoked_before_a_task_is_drawn` | after the netpoll in `draw` |
//!
//! *What a batch is worth*: `what_is_woken_behind_other_work_is_for_others` fails if one task is
//! always left for this thread, `another_is_woken_in_the_middle_of_a_batch` (I5) if the others hear
//! of it at its end, or of the first task.
//! `one_that_spins_is_not_relied_upon_for_a_batch_of_tasks` fails if this thread is relied upon as
//! a spinner.
//!
//! *The rescue steal*: `a_queue_that_stands_still_comes_before_what_the_netpoll_brings` fails if
//! one is taken from that has moved or was not seen for long, if more or fewer are taken, and if
//! what the netpoll brought comes first; `nothing_is_taken_for_which_there_is_no_room` without the
//! look at the room.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io::Write,
    ops::Range,
    sync::{Arc as Shares, Mutex},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use ws_reactor::{Direction, Interest, Registration, pipe};

use super::{Step, Worker};
use crate::{
    block_in_place,
    branch::BranchDeque,
    context,
    fork_join::tests::limited,
    join,
    permit::{
        env::{Env, PeerEnv},
        idle::{Permit, WorkerState},
        sleep::Sleeper,
    },
    policy::constants::{GLOBAL_TICK, NETPOLL_PERIOD, RESCUE_AFTER, TIMER_TICK},
    queue::CAPACITY,
    recorder::{EventKind, Level},
    runtime::{Builder, Handle, Runtime, Sysmon},
    sched::{
        shutdown::tests::{end, next, take_started},
        sim_threads::SimThreads,
        worker::Scope,
    },
    scope, spawn, spawn_local,
    sync::atomic::Ordering::Relaxed,
    timer::Clock,
};

mod branches;
mod calls;
mod detached;
mod exchange;
mod fib_4;
mod helpers;
mod in_block_on;
mod looks;
mod moves;
mod near;
mod netpoll;
mod order;

pub(in crate::sched) use netpoll::{idle_task, recorded_netpolls};

/// Two permits, and threads that are steps of this one.
pub(crate) fn runtime() -> Runtime {
    Builder::new()
        .workers(2)
        .sysmon(Sysmon::Off)
        .stall_threshold(None)
        .build_with(Clock::stopped())
        .unwrap()
}

/// A thread with a P, and a permit if one is free.
pub(crate) fn thread(runtime: &Runtime) -> Worker {
    let shared = runtime.handle().shared();
    let processor = shared.take_processor().expect("there is room for it");
    let worker = Worker::new(shared.clone(), processor, Scope::All, None);
    worker.own_peer().state().arrive();
    worker.try_run();
    worker
}

/// The same, with the second permit gone to a thread that computes: one that could have a branch
/// for others.
fn searcher_and_computer(runtime: &Runtime) -> (Worker, Worker) {
    let (searcher, computer) = (thread(runtime), thread(runtime));
    // The first fork makes its branch deque ready, so that it can be asked.
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

/// It has a task to run, which is put away.
#[track_caller]
fn finds_a_task(worker: &Worker) {
    match step(worker) {
        Step::Run(task) => worker.dispose(task),
        other => panic!("it has work: {other:?}"),
    }
}

/// The searcher lent its permit, and is about to park without anything.
#[track_caller]
fn assert_parks(searcher: &Worker, step: &Step) {
    assert!(matches!(step, Step::Park), "it polls without a permit");
    assert!(!searcher.own_peer().state().has_permit());
    assert!(!searcher.spins(), "it spins on");
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
    let clock = worker.env().time.clock();
    let key = worker
        .own_peer()
        .timers
        .arm(clock.now_ns() + 1, waker)
        .map_err(|_| "the runtime goes on");
    assert!(key.is_ok());
    clock.advance(Duration::from_nanos(1));
}

/// The next step of that thread is its `tick`-th.
fn count_to(worker: &Worker, tick: u64) {
    worker.own_peer().progress.ticks.store(tick - 1, Relaxed);
    worker.p.clocks.due.set(tick);
    worker.p.clocks.looked.set((tick - 1, worker.now()));
    worker.p.clocks.look.set(tick.next_multiple_of(GLOBAL_TICK));
    worker.p.clocks.looked_around.set(0);
}

/// A permit that was taken from a thread, as the monitor takes it, once its waker is woken.
struct Revoked(Shares<Mutex<Option<Permit>>>, Waker);

impl Revoked {
    /// Afterwards it spawns so many tasks, which go to the global queue.
    fn from(worker: &Worker, tasks: usize) -> Self {
        let (shared, index) = (worker.shared().clone(), worker.index());
        let taken = Shares::new(Mutex::new(None));
        let keep = taken.clone();
        let waker = hook(move || {
            *keep.lock().unwrap() = shared.peer(index).state().revoke();
            (0..tasks).for_each(|_| drop(spawn(async {})));
        });
        Self(taken, waker)
    }

    fn give_back(self, runtime: &Runtime) {
        let permit = self.0.lock().unwrap().take().expect("it had one");
        runtime.handle().shared().idle().release(permit, None);
    }
}

/// Wakes that waker in the next search, where it claims a branch.
fn before_a_claim(runtime: &Runtime, waker: &Waker) {
    let claim = &runtime.handle().shared().processors.before_claim;
    claim.wake_next(waker.clone());
}

/// A waker that blocks: the permit goes to a thread that is started for the queue, and there is
/// none when it is back.
fn blocker() -> Waker {
    hook(|| block_in_place(|| ()))
}

#[test]
fn a_timer_blocks_in_the_middle_of_a_step() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    context::with_worker_frame(&worker, || drop(spawn_local(async {})));
    context::with_worker_frame(&worker, || drop(spawn(async {})));
    is_due(&worker, blocker());
    count_to(&worker, TIMER_TICK);
    let found = step(&worker);
    assert_parks(&worker, &found);
    assert!(worker.has_private(), "it keeps what nobody else may run");
    end(runtime, [worker, other]);
}

#[test]
fn a_permit_is_revoked_while_a_timer_fires_for_one_that_ran_dry() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let revoked = Revoked::from(&worker, 1);
    is_due(&worker, revoked.1.clone());
    let found = step(&worker);
    assert_parks(&worker, &found);
    revoked.give_back(&runtime);
    end(runtime, [worker, other]);
}

#[test]
fn a_permit_is_revoked_in_the_middle_of_a_search() {
    let runtime = runtime();
    let (searcher, computer) = searcher_and_computer(&runtime);
    context::with_worker_frame(&computer, || drop(spawn(async {})));
    let revoked = Revoked::from(&searcher, 0);
    before_a_claim(&runtime, &revoked.1);
    let found = step(&searcher);
    let counters = &searcher.peer().counters;
    assert_eq!((counters.searches.get(), counters.steals.get()), (1, 1));
    let timed = searcher.p.sampling.stole_at.get();
    assert_eq!(timed, None, "what it stole runs elsewhere");
    assert_parks(&searcher, &found);
    revoked.give_back(&runtime);
    end(runtime, [searcher, computer]);
}

#[test]
fn a_pinned_task_that_is_woken_in_the_middle_of_a_search_runs_in_the_same_step() {
    let runtime = runtime();
    let (searcher, computer) = searcher_and_computer(&runtime);
    let slot = Shares::new(Mutex::new(None));
    let keeps = slot.clone();
    let pinned = poll_fn(move |cx| {
        *keeps.lock().unwrap() = Some(cx.waker().clone());
        Poll::<()>::Pending
    });
    context::with_worker_frame(&searcher, || drop(spawn_local(pinned)));
    let polls = || {
        let task = next(&searcher);
        context::with_worker_frame(&searcher, || searcher.poll(task));
    };
    polls();
    let waker = slot.lock().unwrap().take().expect("it was polled");
    let wakes = hook(move || context::as_another_thread(|| waker.wake_by_ref()));
    before_a_claim(&runtime, &wakes);
    polls();
    assert_eq!(searcher.own_peer().counters.searches.get(), 1);
    end(runtime, [searcher, computer]);
}

#[test]
fn a_permit_is_revoked_while_a_timer_of_another_fires() {
    let runtime = runtime();
    let (searcher, computer) = searcher_and_computer(&runtime);
    let revoked = Revoked::from(&searcher, 1);
    is_due(&computer, revoked.1.clone());
    let found = step(&searcher);
    assert_parks(&searcher, &found);
    assert!(searcher.env().has_queued(), "what it woke is for others");
    revoked.give_back(&runtime);
    end(runtime, [searcher, computer]);
}

#[test]
fn a_permit_is_revoked_before_a_branch_is_claimed() {
    thread_local! {
        /// What is forked has to be `Send`, and a worker is not.
        static SEARCHER: RefCell<Option<Worker>> = const { RefCell::new(None) };
    }
    let runtime = runtime();
    let (searcher, computer) = searcher_and_computer(&runtime);
    let revoked = Revoked::from(&searcher, 0);
    before_a_claim(&runtime, &revoked.1);
    let branch_deque = computer.own_peer().queues.branch_deque.clone();
    branch_deque.ask_as_helper();
    SEARCHER.set(Some(searcher));
    let mut ran = false;
    context::with_worker_frame(&computer, || {
        join(
            || {
                assert!(branch_deque.has_shared());
                SEARCHER.with_borrow(|searcher| {
                    let searcher = searcher.as_ref().expect("it is there");
                    let found = context::as_another_thread(|| step(searcher));
                    assert_parks(searcher, &found);
                });
                assert!(!branch_deque.has_shared(), "it was not claimed");
            },
            || ran = true,
        )
    });
    let searcher = SEARCHER.take().expect("it is there");
    assert!(ran, "the branch went back");
    revoked.give_back(&runtime);
    end(runtime, [searcher, computer]);
}

// Its own and another's.
#[test]
fn timers_that_fire_are_counted() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let timers = || worker.own_peer().counters.timers.get();
    is_due(&worker, Waker::noop().clone());
    assert_eq!((worker.fire_own_timers(), timers()), (1, 1));
    is_due(&other, Waker::noop().clone());
    is_due(&other, Waker::noop().clone());
    assert_eq!((worker.fire_all_timers(), timers()), (2, 3));
    end(runtime, [worker, other]);
}

#[test]
fn no_steal_is_timed_where_nothing_is_recorded() {
    for (level, is_timed) in [(Level::Off, false), (Level::Sparse, true)] {
        let runtime = runtime();
        runtime.handle().record(level);
        let worker = thread(&runtime);
        // One in eight is.
        (1..=8).for_each(|steals| worker.time_steal(steals));
        assert_eq!(worker.p.sampling.stole_at.get().is_some(), is_timed);
        worker.forget_steal();
        end(runtime, [worker]);
    }
}

/// A pipe that the netpoll watches, and that nobody has written to.
pub(in crate::sched) struct Events {
    sender: pipe::Sender,
    receiver: pipe::Receiver,
    registration: Registration,
}

impl Events {
    pub(in crate::sched) fn new(runtime: &Runtime) -> Self {
        let (sender, mut receiver) = pipe::new().unwrap();
        let netpoll = &runtime.handle().shared().io.netpoll;
        let registration = Registration::new(netpoll, &mut receiver, Interest::READABLE).unwrap();
        Self {
            sender,
            receiver,
            registration,
        }
    }

    /// Has the netpoll wake that waker at the next look.
    pub(in crate::sched) fn bring(&mut self, waker: &Waker) {
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

/// Their wakers are no code of a user's, which would end the spin before the batch does.
#[test]
fn one_that_spins_is_not_relied_upon_for_a_batch_of_tasks() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let idle = [(); 2].map(|()| idle_task(&worker, || ()));
    // The thread that was woken when they were spawned has nothing to do.
    take_started(&runtime);
    idle.into_iter().for_each(|waker| is_due(&worker, waker));
    assert!(worker.begin_search());
    let Step::Run(task) = step(&worker) else {
        panic!("they are due");
    };
    let sim_threads = &worker.env().threads.sim_threads;
    assert_eq!(sim_threads.as_ref().map(SimThreads::len), Some(1));
    worker.dispose(task);
    end(runtime, [worker]);
}

#[test]
fn a_permit_is_revoked_before_a_task_is_drawn() {
    let runtime = Builder::new()
        .clock(crate::runtime::Clock::Paused)
        .build()
        .unwrap();
    let worker = thread(&runtime);
    let mut events = Events::new(&runtime);
    let revoked = Revoked::from(&worker, 0);
    context::with_worker_frame(&worker, || drop(spawn(async {})));
    events.bring(&revoked.1);
    count_to(&worker, GLOBAL_TICK);
    let found = step(&worker);
    assert_parks(&worker, &found);
    revoked.give_back(&runtime);
    end(runtime, [worker]);
}
