//! L2: whose permit the monitor takes, and when.
//!
//! *A short wait*: the first test fails if the wait is longer or shorter, or the next look is not
//! when it is over; the second if what came of a wait is not counted, in vain or not, the third if
//! that is only counted where somebody needs the permit still, and the fourth if the short wait
//! outlasts a slice.
//!
//! *Starting a process*: that test fails if such a thread counts as one that blocks, or keeps its
//! permit beyond a slice, or afterwards.
//!
//! J6, *Detached computations*: the first test of computations that fork fails if a look takes all
//! their permits, or hurries, or comes at once for another, and if as many as there are lose it one
//! by one; the next if a detached computation is not seen to block or to end, or no thread hears of
//! it; the others if a thread that sleeps or blocks is one, and if the monitor does not stay awake
//! beside one.
//!
//! Branches of a join: the third test from the end fails if the thread that runs one does not give
//! way in the middle of a leaf, or at once, or if others do so; the next if it does so for another
//! computation, or if it is not noted which thread forks; the last if a shared branch counts among
//! what others need a computing thread's permit for, or if a thread that shares one does not give
//! way.

use super::{super::*, Watched};
use crate::{
    context, join,
    permit::{env::PeerEnv, idle::WorkerState, phase::ShutdownEnv, sleep::Sleeper},
    policy::constants::{FORK_SLICE, LOOK_NS, PACE_BUSY, SHORT_WAIT_NS, SLICE_NS},
    runtime::{Builder, Runtime, Sysmon},
    sched::{
        find::tests::{runtime, thread},
        processor::BRANCH,
        processor::Peer,
        shutdown::tests::end,
        worker::Worker,
    },
    timer::Clock,
};

const SHORT_WAIT: Duration = Duration::from_nanos(SHORT_WAIT_NS);
const SLICE: Duration = Duration::from_nanos(SLICE_NS);

/// Two threads with both permits, and the monitor. The first thread is in a poll, and a task waits
/// for one of the two.
struct Beside {
    runtime: Runtime,
    poller: Worker,
    other: Worker,
    monitor: Monitor,
}

impl Beside {
    fn new() -> Self {
        let runtime = runtime();
        let (poller, other) = (thread(&runtime), thread(&runtime));
        let monitor = Monitor::new(runtime.handle().shared());
        poller.own_peer().progress.running.store(1, Relaxed);
        drop(runtime.spawn(async {}));
        Self {
            runtime,
            poller,
            other,
            monitor,
        }
    }

    /// The next poll of the first thread begins, and the monitor sees it.
    fn begins(&mut self) {
        self.poller.own_peer().progress.ticks.fetch_add(1, Relaxed);
        self.blocks(false);
        self.monitor.look();
    }

    /// It blocks, or does no more.
    fn blocks(&self, blocks: bool) {
        let sim_threads = self.poller.env().threads.sim_threads.as_ref();
        let sim_threads = sim_threads.expect("the clock is virtual");
        sim_threads.set_blocked(self.poller.own_peer().index, blocks);
    }

    /// So much later the monitor looks. Whether the permit is still there.
    fn keeps_it(&mut self, after: Duration) -> bool {
        self.poller.env().time.clock().advance(after);
        self.monitor.look();
        self.poller.own_peer().state().has_permit()
    }

    /// It blocks for longer than a short wait. Whether the monitor waited for it.
    fn is_waited_for(&mut self) -> bool {
        self.begins();
        self.blocks(true);
        let waited = self.keeps_it(PACE_FAST);
        if waited {
            assert!(!self.keeps_it(SHORT_WAIT), "that is long enough");
        }
        self.comes_back();
        waited
    }

    /// Its permit, which a thread got that was started for it, is its own again.
    fn comes_back(&self) {
        comes_back(&self.runtime, &self.poller);
    }

    fn end(self) {
        self.poller.own_peer().progress.running.store(0, Relaxed);
        end(self.runtime, [self.poller, self.other]);
    }
}

/// The permit that the monitor took from it, and that a thread got which was started for it, is its
/// own again.
fn comes_back(runtime: &Runtime, thread: &Worker) {
    let shared = runtime.handle().shared();
    let sim_threads = shared
        .threads
        .sim_threads
        .as_ref()
        .expect("the clock is virtual");
    for processor in sim_threads.take() {
        let started = Worker::begin(shared, processor);
        let permit = started.own_peer().state().revoke();
        let permit = permit.expect("it was handed over");
        thread.own_peer().state().run(permit);
        started.leave();
        shared.thread_gone();
    }
}

#[test]
fn a_short_wait_keeps_the_permit() {
    let mut beside = Beside::new();
    beside.begins();
    beside.blocks(true);
    assert!(beside.keeps_it(PACE_FAST));
    let Rest::For(rest) = beside.monitor.rest() else {
        panic!("work waits");
    };
    assert_eq!(
        rest,
        SHORT_WAIT - PACE_FAST,
        "it looks when the wait is over"
    );
    assert!(!beside.keeps_it(rest), "it has waited long enough");
    beside.comes_back();
    beside.begins();
    beside.blocks(true);
    assert!(!beside.keeps_it(SHORT_WAIT), "nobody looked for so long");
    beside.end();
}

#[test]
fn a_thread_that_starts_a_process_has_its_slice() {
    let mut beside = Beside::new();
    beside.begins();
    beside.poller.mark_start_of_process(true);
    beside.blocks(true);
    assert!(beside.keeps_it(2 * SHORT_WAIT), "its core is not free");
    assert!(!beside.keeps_it(SLICE), "it has had its slice");
    beside.comes_back();
    beside.poller.mark_start_of_process(false);
    beside.begins();
    beside.blocks(true);
    assert!(!beside.keeps_it(2 * SHORT_WAIT), "it blocks");
    beside.comes_back();
    beside.end();
}

#[test]
fn one_that_waits_for_long_is_mostly_not_waited_for() {
    let mut beside = Beside::new();
    let waits: Vec<_> = (0..8).map(|_| beside.is_waited_for()).collect();
    assert_eq!(waits, [true, true, false, true, false, false, true, false]);
    // Let pass three times more; then one is short, and the poll goes on or is over.
    (0..3).for_each(|_| assert!(!beside.is_waited_for()));
    for ends in [false, true] {
        beside.begins();
        beside.blocks(true);
        assert!(beside.keeps_it(PACE_FAST));
        if ends {
            beside.begins();
        } else {
            beside.blocks(false);
            assert!(beside.keeps_it(PACE_FAST));
        }
        let waits: Vec<_> = (0..3).map(|_| beside.is_waited_for()).collect();
        assert_eq!(waits, [true, true, false]);
    }
    beside.end();
}

#[test]
fn a_long_wait_that_nobody_minds_is_no_short_one() {
    let mut beside = Beside::new();
    for _ in 0..2 {
        beside.begins();
        beside.blocks(true);
        assert!(beside.keeps_it(PACE_FAST));
        beside.runtime.handle().shared().drain_global();
        assert!(beside.keeps_it(SHORT_WAIT), "nobody needs it any more");
        beside.begins();
        drop(beside.runtime.spawn(async {}));
    }
    assert!(!beside.is_waited_for());
    beside.end();
}

#[test]
fn one_that_has_had_its_slice_is_not_waited_for() {
    let mut beside = Beside::new();
    beside.begins();
    assert!(beside.keeps_it(SLICE - PACE_FAST), "it computes");
    beside.blocks(true);
    assert!(!beside.keeps_it(PACE_FAST));
    beside.comes_back();
    beside.begins();
    assert!(beside.keeps_it(SLICE - 2 * PACE_FAST), "it computes");
    beside.blocks(true);
    assert!(beside.keeps_it(PACE_FAST));
    let Rest::For(rest) = beside.monitor.rest() else {
        panic!("work waits");
    };
    assert_eq!(rest, PACE_FAST, "it looks when the slice is over");
    beside.end();
}

#[test]
fn a_short_wait_is_waited_for_by_many_looks() {
    let mut beside = Beside::new();
    beside.begins();
    assert!(beside.keeps_it(2 * SHORT_WAIT), "it computes");
    beside.blocks(true);
    for looks in 1..=10 {
        assert!(beside.keeps_it(SHORT_WAIT / 20), "after {looks} looks");
    }
    assert!(!beside.keeps_it(SHORT_WAIT / 2));
    beside.end();
}

#[test]
fn one_that_computes_for_a_slice_gives_its_permit_to_what_is_queued() {
    // In the ring of another, or with one that has forked.
    for has_forked in [false, true] {
        let mut watched = Watched::new(runtime(), 2);
        watched.begins();
        assert!(!watched.looks_after(SLICE), "nobody needs it");
        assert!(watched.peer().state.has_permit());
        let (task, other) = (watched.task(), &watched.threads[1].p);
        if has_forked {
            other.forks.parents.push(task);
        } else {
            assert!(other.lrq.push(task).is_ok());
        }
        assert!(watched.looks_after(PACE_FAST), "it had to act");
        assert!(!watched.peer().state.has_permit());
        watched.end();
    }
}

#[test]
fn one_that_asked_for_a_permit_gets_it_from_the_next_look_too() {
    let mut watched = Watched::new(runtime(), 2);
    watched.begins();
    watched.shared().need_permit();
    assert!(
        !watched.looks_after(SLICE - PACE_FAST),
        "its slice is not over"
    );
    // What was queued was taken meanwhile; more may come to the thread that asked.
    assert!(watched.looks_after(PACE_FAST));
    assert!(!watched.peer().state.has_permit());
    watched.end();
}

#[test]
fn of_computations_that_fork_one_a_look_loses_its_permit() {
    for slice in [FORK_SLICE, SLICE] {
        let mut watched = Watched::new(runtime(), 2);
        let shared = watched.runtime.handle().shared().clone();
        let permits = || {
            let has_permit =
                |peer: &&Peer| peer.state.has_permit() && peer.progress.running.load(Relaxed) != 0;
            shared.peers().filter(has_permit).count()
        };
        for thread in &watched.threads {
            thread.own_peer().progress.running.store(BRANCH, Relaxed);
        }
        watched.begins();
        watched.wants();
        watched.shared().need_permit();
        assert!(!watched.looks_after(slice), "there is no hurry");
        assert_eq!(permits(), 1, "who got the other takes what is queued");
        assert_ne!(watched.rest(), PACE_FAST, "it does not ask at once again");
        watched.looks_after(PACE_BUSY);
        // Half of the workers before their slice is over.
        assert_eq!(permits(), usize::from(slice == FORK_SLICE));
        watched.looks_after(SLICE);
        assert_eq!(permits(), 0);
        watched.threads[1]
            .own_peer()
            .progress
            .running
            .store(0, Relaxed);
        watched.end();
    }
}

#[test]
fn one_that_computes_on_is_a_detached_computation_until_it_blocks() {
    let mut watched = Watched::new(runtime(), 2);
    let shared = watched.runtime.handle().shared().clone();
    let branch_deque = &shared.peer(1).queues.branch_deque;
    let forks =
        |watched: &Watched| context::with_worker_frame(&watched.threads[1], || join(|| (), || ()));
    for over in [false, true] {
        watched.blocks(false);
        watched.begins();
        assert!(!watched.peer().is_detached(), "it has a permit");
        watched.wants();
        watched.looks_after(SLICE);
        assert!(watched.peer().is_detached());
        forks(&watched);
        watched.looks_after(PACE_BUSY);
        assert!(watched.peer().is_detached(), "it computes on");
        assert!(branch_deque.ask(), "nobody asks for a core");
        forks(&watched);
        if over {
            watched.begins();
        } else {
            watched.blocks(true);
            watched.looks_after(PACE_BUSY);
        }
        assert!(!watched.peer().is_detached());
        assert!(!branch_deque.ask(), "its core is free, and nobody asks");
        comes_back(&watched.runtime, &watched.threads[0]);
    }
    watched.end();
}

#[test]
fn one_that_mostly_sleeps_is_no_detached_computation() {
    let mut watched = Watched::new(runtime(), 2);
    watched.begins();
    watched.wants();
    watched.looks_after(SLICE);
    // What it has used is the time, in a simulation.
    let mut is_detached_after = |ran, sleeps| {
        let then = watched.shared().time.clock().now_ns() + LOOK_NS;
        watched.blocks(sleeps);
        // One that sleeps has used nothing at all, in a simulation.
        let used = if sleeps { 0 } else { then };
        watched.monitor.memory.seen[0].share.cpu = Some(used.saturating_sub(ran));
        watched.looks_after(PACE_BUSY);
        watched.peer().is_detached()
    };
    let quarter = LOOK_NS / 4;
    assert!(is_detached_after(quarter, false));
    assert!(is_detached_after(quarter - 1, false), "it waits for a core");
    assert!(!is_detached_after(0, true));
    assert!(
        !is_detached_after(quarter - 1, false),
        "it was, and is not seen to compute"
    );
    assert!(is_detached_after(quarter, false));
    watched.end();
}

#[test]
fn one_that_comes_back_from_a_block_without_a_permit_is_a_detached_computation() {
    let builder = Builder::new().workers(1).stall_threshold(None);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let shared = runtime.handle().shared();
    let worker = thread(&runtime);
    worker.own_peer().progress.running.store(1, Relaxed);
    assert!(worker.announce_blocking());
    let permit = shared.idle.acquire().expect("it was released");
    assert!(!worker.own_peer().is_detached(), "it blocks");
    worker.end_blocking();
    assert!(worker.own_peer().is_detached());
    shared.idle.release(permit, None);
    worker.own_peer().progress.running.store(0, Relaxed);
    end(runtime, [worker]);
}

#[test]
fn the_monitor_is_awake_beside_a_detached_computation() {
    let mut watched = Watched::new(runtime(), 2);
    watched.begins();
    watched.wants();
    watched.looks_after(SLICE);
    let shared = watched.runtime.handle().shared().clone();
    shared.drain_global();
    comes_back(&watched.runtime, &watched.threads[0]);
    for thread in &watched.threads {
        let permit = thread.own_peer().state().revoke().expect("it had one");
        shared.idle.release(permit, None);
    }
    let monitor = &mut watched.monitor;
    let mut sleeps = || (0..20).any(|_| matches!(monitor.rest(), Rest::ForGood(_)));
    assert!(!sleeps());
    shared.peer(0).flags.computes.set(false);
    assert!(sleeps(), "it would never");
    watched.end();
}

#[test]
fn one_that_blocks_is_no_detached_computation() {
    let mut watched = Watched::new(runtime(), 2);
    watched.begins();
    watched.wants();
    watched.blocks(true);
    watched.looks_after(SLICE);
    assert!(!watched.peer().state.has_permit());
    assert!(!watched.peer().is_detached());
    watched.end();
}

#[test]
fn a_computation_that_forks_gives_way_in_the_middle_of_a_leaf() {
    let slice = FORK_SLICE;
    let almost = slice - Duration::from_nanos(1);
    let mut watched = Watched::new(runtime(), 2);
    let has_permit = |watched: &Watched| watched.peer().state.has_permit();
    watched.wants();
    watched.begins();
    watched.looks_after(SLICE - slice);
    assert!(has_permit(&watched), "it does not fork");
    watched.peer().progress.running.store(BRANCH, Relaxed);
    watched.begins();
    watched.looks_after(almost);
    assert!(has_permit(&watched), "it is too early");
    watched.looks_after(slice - almost);
    assert!(!has_permit(&watched), "a branch that was stolen");
    watched.end();
}

#[test]
fn one_that_has_forked_gives_way_to_tasks_in_the_middle_of_a_leaf() {
    let has_permit = |watched: &Watched| watched.peer().state.has_permit();
    let forks = |watched: &Watched| watched.threads[0].come_to_a_fork();
    // Beside a computation that waits for a permit at a fork.
    let mut watched = Watched::new(runtime(), 3);
    assert!(!watched.threads[2].ask_for_permit(), "both are taken");
    watched.begins();
    forks(&watched);
    watched.looks_after(SLICE - FORK_SLICE);
    assert!(has_permit(&watched), "that one can wait");
    watched.wants();
    watched.begins();
    watched.looks_after(FORK_SLICE);
    assert!(has_permit(&watched), "it has not forked in this poll");
    forks(&watched);
    watched.looks_after(FORK_SLICE);
    assert!(!has_permit(&watched));
    watched.end();
}

/// What becomes of a thread that shares a branch, while another is in a poll and computes, or
/// blocks.
fn beside_a_shared_branch(blocks: bool) -> WorkerState {
    let mut watched = Watched::new(runtime(), 2);
    let shared = watched.runtime.handle().shared().clone();
    let owner = watched.threads.pop().expect("there are two");
    let peer = shared.peer(0);
    let result = context::with_worker_frame(&owner, || {
        owner.branch_deque().ask_as_helper();
        let looks = || {
            assert!(shared.peer(1).queues.branch_deque.has_shared());
            let sim_threads = shared
                .threads
                .sim_threads
                .as_ref()
                .expect("the clock is virtual");
            let mut monitor = Monitor::new(&shared);
            monitor.look();
            sim_threads.set_blocked(0, blocks);
            for _ in 0..2 {
                shared.time.clock().advance(SHORT_WAIT);
                monitor.look();
            }
            peer.state.load()
        };
        join(looks, || ()).0
    });
    watched.threads.push(owner);
    watched.end();
    result
}

#[test]
fn a_shared_branch_takes_the_permit_of_one_that_blocks() {
    assert_eq!(beside_a_shared_branch(true), WorkerState::Stuck);
    assert_eq!(beside_a_shared_branch(false), WorkerState::Running);
}

/// What the others need is asked for once in a look. A detached computation that is seen to block
/// changes that.
#[test]
fn one_that_is_looked_at_after_a_detached_computation_that_blocks_gives_its_permit_to_a_branch() {
    let builder = Builder::new().workers(3).sysmon(Sysmon::Off);
    let builder = builder.stall_threshold(None);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let shared = runtime.handle().shared().clone();
    let threads = [(); 4].map(|()| thread(&runtime));
    let [first, detached, second] = [0, 1, 2].map(|index| shared.peer(index));
    let owner = &threads[3];
    let are_in_a_poll = |polls: bool| {
        for peer in [first, detached, second] {
            peer.progress.running.store(u64::from(polls), Relaxed);
        }
    };
    are_in_a_poll(true);
    let permit = detached.state.revoke().expect("three are free");
    owner.own_peer().state().run(permit);
    let mut monitor = Monitor::new(&shared);
    monitor.look();
    detached.flags.computes.set(true);
    let blocks = |index| {
        let sim_threads = shared.threads.sim_threads.as_ref();
        let sim_threads = sim_threads.expect("the clock is virtual");
        sim_threads.set_blocked(index, true);
    };
    let mut look_after = |time| {
        shared.time.clock().advance(time);
        monitor.look();
        [first, second].map(|peer| peer.state.load())
    };
    context::with_worker_frame(owner, || {
        owner.branch_deque().ask_as_helper();
        let looks = || {
            assert!(shared.peer(3).queues.branch_deque.has_shared());
            [0, 2].into_iter().for_each(blocks);
            assert_eq!(
                look_after(SLICE),
                [WorkerState::Running; 2],
                "there is a detached computation"
            );
            blocks(1);
            let states = [WorkerState::Running, WorkerState::Stuck];
            assert_eq!(look_after(PACE_BUSY), states);
        };
        join(looks, || ());
    });
    are_in_a_poll(false);
    end(runtime, threads);
}

#[test]
fn a_shared_branch_takes_no_permit_from_one_that_computes() {
    let runtime = runtime();
    let (owner, other) = (thread(&runtime), thread(&runtime));
    let shared = runtime.handle().shared().clone();
    let mut monitor = Monitor::new(&shared);
    let peer = shared.peer(owner.index());
    peer.progress.running.store(1, Relaxed);
    let mut look_after = |time| {
        shared.time.clock().advance(time);
        monitor.look();
        peer.state.load()
    };
    look_after(Duration::ZERO);
    context::with_worker_frame(&owner, || {
        peer.queues.branch_deque.ask_as_helper();
        let looks = || {
            assert!(peer.queues.branch_deque.has_shared());
            assert_eq!(look_after(SLICE), WorkerState::Running);
            drop(runtime.spawn(async {}));
            // As if it were another poll.
            peer.progress.ticks.fetch_add(1, Relaxed);
            assert_eq!(look_after(Duration::ZERO), WorkerState::Running);
            assert_eq!(look_after(FORK_SLICE), WorkerState::Stuck, "others need it");
        };
        join(looks, || ());
    });
    peer.progress.running.store(0, Relaxed);
    end(runtime, [owner, other]);
}

/// Longer than a slice and a short wait together.
const BACK: Duration = Duration::from_secs(60);

impl Beside {
    /// The system's clock goes back in the middle of a poll, and the monitor looks.
    fn goes_back_in_a_poll(blocks: bool) -> Self {
        let mut beside = Self::new();
        let clock = beside.poller.env().time.clock();
        clock.advance(2 * BACK);
        beside.begins();
        beside.blocks(blocks);
        let clock = beside.poller.env().time.clock();
        clock.set(clock.now_ns() - BACK.as_nanos() as u64);
        assert!(beside.keeps_it(Duration::ZERO));
        beside
    }
}

// Fails if the spans of a poll do not begin anew: the permit is kept until the clock has caught up.
#[test]
fn a_clock_that_goes_back_lengthens_no_slice() {
    let mut beside = Beside::goes_back_in_a_poll(false);
    let slice = (0..20).position(|_| !beside.keeps_it(Duration::from_millis(2)));
    assert!(slice.is_some(), "it had its slice");
    beside.comes_back();
    beside.end();
}

#[test]
fn a_clock_that_goes_back_lengthens_no_short_wait() {
    let mut beside = Beside::goes_back_in_a_poll(true);
    assert!(beside.keeps_it(SHORT_WAIT - Duration::from_nanos(1)));
    assert!(!beside.keeps_it(Duration::from_nanos(1)), "it is over");
    beside.comes_back();
    beside.end();
}
