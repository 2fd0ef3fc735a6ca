//! S3: who loses its permit in the middle of a step neither lingers as a spinner nor polls anything.
//!
//! It loses it in a search, since it lends it to who wants one before it takes a branch (*Give way at a fork*), or sysmon
//! takes it; or in a waker that a step wakes, which announces a block, or takes so long that sysmon takes it (*Wakers in a
//! step*). Each of these fails when one look at the permit is left out, by the place of which it is named here:
//!
//! | test | without the look |
//! | --- | --- |
//! | `a_permit_is_lent_in_the_wait_for_a_branch` | at `Search::Nothing` |
//! | `a_timer_fires_after_a_permit_was_lent` | at `Search::Again` |
//! | `a_permit_is_revoked_in_the_middle_of_a_search` | at `Search::Found` |
//! | `a_permit_is_revoked_before_a_branch_is_claimed` | at `Search::Branch` |
//! | `a_timer_blocks_in_the_middle_of_a_step` | after the timers of a 16th tick |
//! | `a_permit_is_revoked_while_a_timer_fires_for_who_ran_dry` | after the timers in `beyond_local` |
//! | `a_permit_is_revoked_while_the_netpoll_is_looked_at` | after the netpoll in `beyond_local` |
//! | `what_the_netpoll_wakes_blocks_at_a_61st_tick` | after the netpoll in `every_61st` |
//! | `a_permit_is_revoked_before_a_task_is_drawn` | after the netpoll in `draw` |
//!
//! *What a batch is worth*: `what_is_woken_behind_other_work_is_for_others` fails if one task is always left for this thread.
//!
//! *The queues that stand still*: each of these two fails without its half of `steal_from_the_still`: the look at the
//! others, and the one at the room.
//!
//! J1, branches of a join: the first test fails if a steal is no ask, of the victim or of the thief (*After a steal* in
//! `fork_join/owner.rs`), the second if a scope hears who asks where it has nothing for them, the third if
//! whoever takes a branch back that was shared for long shares no other, or shares one after any, the next if a search takes branches in its first round, the last if `wait_for_a_branch` does not
//! note what it takes.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io::Write,
    sync::{Arc as Shares, Mutex},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use ws_reactor::{Direction, Interest, Registration, pipe};

use super::{GLOBAL_TICK, NETPOLL_PERIOD, Step, TIMER_TICK, Worker};
use crate::{
    block_in_place, context,
    events::EventKind,
    fork_join::Lane,
    join,
    queue::CAPACITY,
    runtime::{Builder, Handle, Runtime},
    sched::{
        ground::{Bed, Ground},
        idle::{Permit, Stands},
        paused::TURN,
        shutdown::tests::{end, leave_the_stage},
        sleep::Sleeper,
        worker::Scope,
    },
    scope, spawn, spawn_local,
    sync::atomic::Ordering::Relaxed,
    time::Clock,
};

mod calls;
mod exchange;
mod fib_4;
mod order;
mod strays;

/// Two permits, and threads that are steps of this one.
pub(in crate::sched) fn runtime() -> Runtime {
    Builder::new()
        .workers(2)
        .sysmon(false)
        .stall_threshold(None)
        .build_with(Clock::stopped())
        .unwrap()
}

/// A thread with a P, and a permit if one is free.
pub(in crate::sched) fn thread(runtime: &Runtime) -> Worker {
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
    assert!(!searcher.bed().standing().has_permit());
    assert!(!searcher.spins(), "it lingers");
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

/// The next step of that thread is its `tick`-th.
fn count_to(worker: &Worker, tick: u64) {
    worker.bed().ticks.store(tick - 1, Relaxed);
}

/// A permit that was taken from a thread, as sysmon takes it, once its waker is woken.
struct Revoked(Shares<Mutex<Option<Permit>>>, Waker);

impl Revoked {
    /// Afterwards it spawns so many tasks, which go to the global queue.
    fn from(worker: &Worker, tasks: usize) -> Self {
        let (shared, index) = (worker.shared().clone(), worker.index());
        let taken = Shares::new(Mutex::new(None));
        let keep = taken.clone();
        let waker = hook(move || {
            *keep.lock().unwrap() = shared.peer(index).standing().revoke();
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
    let stage = &runtime.handle().shared().stage;
    let stage = stage.as_ref().expect("its clock is virtual");
    *stage.before_claim.lock() = Some(waker.clone());
}

/// A waker that blocks: the permit goes to a thread that is started for the queue, and there is none when it is back.
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
fn a_permit_is_revoked_while_a_timer_fires_for_who_ran_dry() {
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
    assert_parks(&searcher, &found);
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
    let lane = computer.bed().lane.clone();
    lane.ask_as_helper();
    SEARCHER.set(Some(searcher));
    let mut ran = false;
    context::with_worker_frame(&computer, || {
        join(
            || {
                assert!(lane.has_shared());
                SEARCHER.with_borrow(|searcher| {
                    let searcher = searcher.as_ref().expect("it is there");
                    let found = context::apart(|| step(searcher));
                    assert_parks(searcher, &found);
                });
                assert!(!lane.has_shared(), "it was not claimed");
            },
            || ran = true,
        )
    });
    let searcher = SEARCHER.take().expect("it is there");
    assert!(ran, "the branch went back");
    revoked.give_back(&runtime);
    end(runtime, [searcher, computer]);
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
        let netpoll = &runtime.handle().shared().netpoll;
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

#[test]
fn a_queue_that_stands_still_comes_before_what_the_netpoll_brings() {
    let runtime = runtime();
    let (searcher, victim) = (thread(&runtime), thread(&runtime));
    let mut events = Events::new(&runtime);
    context::with_worker_frame(&victim, || {
        (0..5).for_each(|_| drop(spawn(async {})));
    });
    finds_a_task(&victim);
    let mut dry_pass = || {
        events.bring(&spawner(1));
        finds_a_task(&searcher);
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
    finds_a_task(&searcher);
    assert_eq!(searcher.bed().counters.stolen.get(), 0);
    end(runtime, [searcher, victim]);
}

#[test]
fn pinned_work_comes_before_a_queue_that_stands_still() {
    let runtime = runtime();
    let (searcher, victim) = (thread(&runtime), thread(&runtime));
    let mut events = Events::new(&runtime);
    context::with_worker_frame(&victim, || {
        (0..4).for_each(|_| drop(spawn(async {})));
    });
    let pins = hook(|| drop(spawn_local(async {})));
    for _ in 0..2 {
        events.bring(&pins);
        let Step::Run(task) = step(&searcher) else {
            panic!("it was woken");
        };
        assert!(task.header().is_pinned());
        assert_eq!(searcher.bed().counters.stolen.get(), 0);
        context::with_worker_frame(&searcher, || searcher.poll(task));
    }
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
fn a_scope_whose_branch_was_stolen_forgets_nobody_who_asked() {
    let runtime = runtime();
    let (owner, thief) = (thread(&runtime), thread(&runtime));
    let shared = runtime.handle().shared().clone();
    let lane = &shared.peer(owner.index()).lane;
    let mut ran = false;
    context::with_worker_frame(&owner, || {
        lane.ask_as_helper();
        scope(|scope| {
            scope.spawn(|_| ran = true);
            let branch = Lane::claim(lane, 0).expect("it was promoted");
            context::with_worker_frame(&thief, || branch.run(thief.index(), 0));
            lane.ask();
        });
        assert!(!lane.ask(), "nobody asks for the next one");
    });
    assert!(ran);
    end(runtime, [owner, thief]);
}

#[test]
fn who_takes_back_what_was_shared_for_long_shares_the_next() {
    let runtime = runtime();
    let owner = thread(&runtime);
    let shared = runtime.handle().shared().clone();
    let lane = &shared.peer(owner.index()).lane;
    let shares = || join(|| lane.has_shared(), || ()).0;
    context::with_worker_frame(&owner, || {
        shares();
        for (micros, far_apart) in [(99, false), (100, true), (99, false)] {
            lane.ask_as_helper();
            let first = || {
                assert!(lane.has_shared(), "somebody asked");
                shared.time.clock().advance(Duration::from_micros(micros));
            };
            join(first, || ());
            assert_eq!(shares(), far_apart, "after {micros} us");
            assert!(!shares(), "once: that one was taken back at once");
        }
    });
    end(runtime, [owner]);
}

#[test]
fn a_search_takes_tasks_of_any_before_branches() {
    // In whatever order it comes to the two.
    for _ in 0..20 {
        let builder = Builder::new().workers(3).sysmon(false);
        let runtime = builder.build_with(Clock::stopped()).unwrap();
        let [forks, has_tasks, searches] = [(); 3].map(|()| thread(&runtime));
        context::with_worker_frame(&has_tasks, || (0..2).for_each(|_| drop(spawn(async {}))));
        let shared = runtime.handle().shared().clone();
        let lane = &shared.peer(forks.index()).lane;
        THIEF.set(Some(searches));
        let search = || {
            assert!(lane.has_shared());
            let thief = THIEF.take().expect("it is here");
            let task = match step(&thief) {
                Step::Run(task) => task,
                other => panic!("a task waits: {other:?}"),
            };
            context::with_worker_frame(&thief, || thief.poll(task));
            THIEF.set(Some(thief));
        };
        context::with_worker_frame(&forks, || {
            lane.ask_as_helper();
            join(search, || ());
        });
        let searches = THIEF.take().expect("it is back");
        end(runtime, [forks, has_tasks, searches]);
    }
}

/// The search finds nothing in its four rounds, and its victim forks while it waits for that.
#[test]
fn a_branch_that_a_search_has_waited_for_is_in_the_log() {
    thread_local! {
        static WORKERS: RefCell<Option<(Worker, Worker)>> = const { RefCell::new(None) };
    }
    /// The victim forks once more after so many looks at it.
    fn forks_after(handle: Handle, looks: u32) {
        let waker = hook({
            let handle = handle.clone();
            move || match looks {
                0 => WORKERS.with_borrow(|workers| {
                    let (_, computer) = workers.as_ref().expect("they are there");
                    context::with_worker_frame(computer, || join(|| (), || ()));
                }),
                _ => forks_after(handle.clone(), looks - 1),
            }
        });
        let stage = handle.shared().stage.as_ref();
        *stage.expect("its clock is virtual").before_claim.lock() = Some(waker);
    }
    let runtime = Builder::new()
        .workers(2)
        .sysmon(false)
        .stall_threshold(None)
        .events(100)
        .build_with(Clock::stopped())
        .unwrap();
    let (searcher, computer) = searcher_and_computer(&runtime);
    let (thief, victim) = (searcher.index(), computer.index());
    WORKERS.set(Some((searcher, computer)));
    let mut ran = false;
    WORKERS.with_borrow(|workers| {
        let (_, computer) = workers.as_ref().expect("they are there");
        let look = || {
            forks_after(runtime.handle().clone(), 4);
            WORKERS.with_borrow(|workers| {
                let (searcher, _) = workers.as_ref().expect("they are there");
                let found = step(searcher);
                // It goes back to its owner.
                assert!(matches!(found, Step::Branch(_)), "{found:?}");
            });
        };
        context::with_worker_frame(computer, || join(look, || ran = true));
    });
    assert!(ran);
    let events = runtime.handle().events();
    let stolen = events
        .iter()
        .filter(|it| it.kind == EventKind::BranchStolen);
    let stolen: Vec<_> = stolen.map(|it| (it.processor, it.number)).collect();
    assert_eq!(stolen, [(Some(thief), victim as u64)]);
    let (searcher, computer) = WORKERS.take().expect("they are there");
    end(runtime, [searcher, computer]);
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

#[test]
fn what_the_netpoll_wakes_blocks_at_a_61st_tick() {
    let runtime = runtime();
    let (worker, other) = (thread(&runtime), thread(&runtime));
    let mut events = Events::new(&runtime);
    context::with_worker_frame(&worker, || drop(spawn(async {})));
    events.bring(&blocker());
    worker.ground().time.clock().advance(NETPOLL_PERIOD);
    count_to(&worker, GLOBAL_TICK);
    let found = step(&worker);
    assert_parks(&worker, &found);
    end(runtime, [worker, other]);
}

/// The waker of a task that is idle on this P.
pub(in crate::sched) fn idle_task(worker: &Worker) -> Waker {
    let slot = Shares::new(Mutex::new(None));
    let task = {
        let slot = slot.clone();
        poll_fn(move |cx| {
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
        let idle = idle_task(&worker);
        context::with_worker_frame(&worker, first);
        // Who was woken for a lone `runnext` finds nothing, and gives its permit back.
        leave_the_stage(&runtime);
        events.bring(&idle);
        worker.ground().time.clock().advance(NETPOLL_PERIOD);
        count_to(&worker, GLOBAL_TICK);
        finds_a_task(&worker);
        assert_eq!(leave_the_stage(&runtime), woken);
        end(runtime, [worker]);
    }
}

#[test]
fn a_permit_is_revoked_before_a_task_is_drawn() {
    let runtime = Builder::new().paused(true).build().unwrap();
    let worker = thread(&runtime);
    let mut events = Events::new(&runtime);
    let revoked = Revoked::from(&worker, 0);
    context::with_worker_frame(&worker, || drop(spawn(async {})));
    events.bring(&revoked.1);
    count_to(&worker, TURN);
    let found = step(&worker);
    assert_parks(&worker, &found);
    revoked.give_back(&runtime);
    end(runtime, [worker]);
}
