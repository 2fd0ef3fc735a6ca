//! *All Ps*: what a walk costs follows from the threads that there are, not from those that there
//! ever were. Walks are counted by the Ps that they visit. F1: a search reaches every thread that
//! there is, also where others have gone.
//!
//! These fail when a P stays listed without a thread (`AllPs::give_back`), and when one that has
//! tasks or timers does not.

use std::{collections::BTreeMap, iter};

use super::*;
use crate::monitor::{Monitor, tests::eventually};

/// As many blocking calls at a time as a runtime with two workers had room for.
const BURST: usize = 480;

fn processor(shared: &Shared) -> Box<Processor> {
    shared.take_processor().expect("there is room for it")
}

/// Indices of the Ps that a walk for work visits.
fn occupied(shared: &Shared) -> Vec<usize> {
    shared.peers().map(|peer| peer.index).collect()
}

/// How many Ps each walk visits.
fn visits(shared: &Arc<Shared>) -> BTreeMap<&'static str, u64> {
    let counted = |walk: &mut dyn FnMut()| {
        let before = shared.processors.visits.get();
        walk();
        shared.processors.visits.get() - before
    };
    let mut monitor = Monitor::new(shared);
    let mut wakers = Vec::new();
    // A deadline look takes shards that have become empty off its list, and a count of the living
    // does the same.
    shared.next_deadline();
    shared.live_tasks();
    BTreeMap::from([
        ("the last look", counted(&mut || _ = shared.any_left())),
        ("a look for tasks", counted(&mut || _ = shared.any_task())),
        (
            "a deadline look",
            counted(&mut || _ = shared.next_deadline()),
        ),
        (
            "timers",
            counted(&mut || _ = shared.fire_due(0, &mut wakers)),
        ),
        ("live tasks", counted(&mut || _ = shared.live_tasks())),
        ("a dump", counted(&mut || _ = shared.dump())),
        ("a sweep", counted(&mut || shared.cancel_all(drop))),
        ("detached", counted(&mut || _ = shared.detached_count())),
        ("asks", counted(&mut || shared.ask_at_forks())),
        ("the monitor", counted(&mut || _ = monitor.look())),
    ])
}

/// How many victims one search looks at that finds nothing.
fn victims(worker: &Worker) -> u64 {
    let victims = &worker.peer().counters.victims;
    let before = victims.get();
    assert!(matches!(worker.step(), Step::Park), "there is nothing");
    victims.get() - before
}

/// Threads that come, spawn, sleep, and go.
fn burst(runtime: &Runtime) {
    let threads: Vec<_> = (0..BURST).map(|_| sits_down(runtime)).collect();
    let waker = Waker::noop();
    for thread in threads {
        spawn_here(&thread, async {});
        let timers = &thread.p.peer.timers;
        let Ok(key) = timers.arm(1_000_000, waker.clone()) else {
            panic!("the runtime goes on");
        };
        timers.cancel(key);
        thread.leave();
    }
}

/// A thread with one of so many permits.
fn roomy(workers: usize) -> (Runtime, Worker) {
    let builder = Builder::new().workers(workers).max_threads(BURST);
    let builder = builder.sysmon(Sysmon::Off);
    let builder = builder.stall_threshold(None);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let worker = sits_down(&runtime);
    (runtime, worker)
}

#[test]
fn after_a_burst_of_threads_every_walk_visits_as_many_as_before() {
    let (runtime, worker) = roomy(1);
    let shared = shared(&runtime);
    let other = sits_down(&runtime);
    let before = (visits(shared), victims(&worker));
    assert_eq!(before.1, 4, "four rounds over one other");
    burst(&runtime);
    poll(&worker, BURST);
    assert_eq!(shared.peer_count(), 2 + BURST);
    assert_eq!((visits(shared), victims(&worker)), before);
    end(runtime, [worker, other]);
}

#[test]
fn after_a_burst_a_shutdown_visits_as_many_as_without() {
    let shutdown = |with_burst: bool| {
        let (runtime, worker) = roomy(1);
        if with_burst {
            burst(&runtime);
            poll(&worker, BURST);
        }
        shared(&runtime).live_tasks();
        shared(&runtime).next_deadline();
        let spawned: Vec<_> = (0..10).map(|_| spawn_here(&worker, pending())).collect();
        poll(&worker, spawned.len());
        let shared = shared(&runtime).clone();
        let before = shared.processors.visits.get();
        worker.leave();
        runtime.shutdown_timeout(Duration::ZERO);
        shared.processors.visits.get() - before
    };
    assert_eq!(shutdown(true), shutdown(false));
}

/// Whether a runtime ends is asked where the last task of a table ends, and not where each does.
#[test]
fn a_shutdown_with_many_tasks_visits_as_many_as_with_few() {
    let shutdown = |tasks: usize| {
        let (runtime, worker) = roomy(1);
        let threads: Vec<_> = (0..BURST).map(|_| sits_down(&runtime)).collect();
        (0..tasks).for_each(|_| _ = spawn_here(&worker, pending()));
        poll(&worker, tasks);
        let shared = shared(&runtime);
        let before = shared.processors.visits.get();
        assert!(shared.begin_shutdown());
        worker.clear_away();
        let visited = shared.processors.visits.get() - before;
        end(runtime, threads.into_iter().chain([worker]));
        visited
    };
    assert_eq!(shutdown(1000), shutdown(10));
}

/// Each thread does so at the end of a runtime, so a walk of each costs the square of their number.
/// One is over the live tables, and one over the queues.
#[test]
fn a_thread_that_clears_away_where_nothing_is_left_walks_twice() {
    let (runtime, worker) = roomy(1);
    let threads: Vec<_> = (0..BURST).map(|_| sits_down(&runtime)).collect();
    let shared = shared(&runtime);
    assert_eq!(shared.live_tasks(), 0);
    assert!(shared.begin_shutdown());
    let before = shared.processors.visits.get();
    worker.clear_away();
    let visited = shared.processors.visits.get() - before;
    assert_eq!(visited as usize, 2 * (BURST + 1), "all, and itself");
    end(runtime, threads.into_iter().chain([worker]));
}

/// With threads, calls and their keep-alive.
#[test]
fn after_a_burst_of_blocking_calls_few_are_visited() {
    let keep_alive = Duration::from_millis(1);
    let builder = Builder::new().workers(2).keep_alive(keep_alive);
    let runtime = builder.sysmon(Sysmon::Off).build().unwrap();
    let (begun, begins) = mpsc::channel();
    let gate = Shares::new(std::sync::RwLock::new(()));
    let closed = gate.write().unwrap();
    let calls: Vec<_> = (0..BURST)
        .map(|_| {
            let (begun, gate) = (begun.clone(), gate.clone());
            runtime.handle().spawn_blocking(move || {
                begun.send(()).unwrap();
                drop(gate.read().unwrap());
            })
        })
        .collect();
    assert_eq!(begins.iter().take(BURST).count(), BURST);
    drop(closed);
    calls
        .into_iter()
        .for_each(|call| runtime.block_on(call).unwrap());
    let shared = shared(&runtime);
    assert!(shared.peer_count() >= BURST);
    // The one that waits in the netpoll stays.
    eventually("the others have gone", || occupied(shared).len() <= 1);
    // A P whose last task left its table after its thread was gone is taken off by the next walk,
    // once.
    assert_eq!(shared.live_tasks(), 0);
    assert!(shared.dump().is_empty());
    // The monitor has some ten walks.
    let visits = visits(shared);
    assert!(visits.values().all(|&visited| visited < 20), "{visits:?}");
}

#[test]
fn the_vacant_one_of_the_lowest_index_is_taken_before_a_new_one_is_made() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    let mut taken: Vec<_> = iter::from_fn(|| shared.take_processor()).collect();
    assert_eq!(taken.len(), 3, "two for each thread, and one has a thread");
    assert_eq!(shared.peer_count(), 4);
    assert_eq!(occupied(shared), [0, 1, 2, 3]);
    for at in [1, 0, 0] {
        shared.return_processor(taken.remove(at));
    }
    assert_eq!(occupied(shared), [0]);
    for index in 1..4 {
        let again = processor(shared);
        assert_eq!(again.peer.index, index);
        taken.push(again);
    }
    assert!(shared.take_processor().is_none());
    assert_eq!((occupied(shared).len(), shared.peer_count()), (4, 4));
    let all = taken.into_iter();
    all.for_each(|processor| shared.return_processor(processor));
    end(runtime, [worker]);
}

/// F1: also where those that have gone leave gaps.
#[test]
fn a_search_reaches_every_thread_that_there_is() {
    const GONE: [usize; 6] = [1, 3, 63, 64, 100, 128];
    // No permit is left, so that nobody is started.
    let (runtime, worker) = roomy(131 - GONE.len());
    let (mut threads, mut gone) = (Vec::new(), Vec::new());
    for index in 1..=130 {
        if GONE.contains(&index) {
            gone.push(processor(shared(&runtime)));
        } else {
            threads.push(sits_down(&runtime));
        }
    }
    let gone = gone.into_iter();
    gone.for_each(|processor| shared(&runtime).return_processor(processor));
    for thread in &threads {
        spawn_here(thread, async {});
    }
    // Each has one alone in its `runnext`, so that four rounds are needed for each.
    for left in (0..threads.len()).rev() {
        poll(&worker, 1);
        let shared = shared(&runtime);
        let alone = shared
            .peers()
            .filter(|it| it.queues.runnext.peek().is_some());
        assert_eq!(alone.count(), left);
    }
    assert_eq!(victims(&worker), 4 * threads.len() as u64);
    threads.push(worker);
    end(runtime, threads);
}

#[test]
fn timers_of_a_thread_that_has_gone_are_looked_at_until_they_are_over() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    let listed = || shared.time.listed.len();
    let gone = processor(shared);
    let timers = gone.peer.timers.clone();
    shared.return_processor(gone);
    assert_eq!(listed(), 0, "it never had one");
    // A sleep that was made there is polled elsewhere.
    let woken = Shares::<Counts>::default();
    let waker = Waker::from(woken.clone());
    for deadline in [10, 30] {
        arm(&timers, deadline, &waker);
    }
    assert_eq!((listed(), shared.next_deadline()), (1, Some(10)));
    let mut wakers = Vec::new();
    assert_eq!(shared.fire_due(10, &mut wakers), 1);
    assert_eq!((listed(), shared.next_deadline()), (1, Some(30)));
    assert_eq!(shared.fire_due(30, &mut wakers), 1);
    assert_eq!((shared.next_deadline(), listed()), (None, 0));
    arm(&timers, 40, &waker);
    assert_eq!((listed(), shared.next_deadline()), (1, Some(40)));
    // With a thread it stays, so that one sleep after the other costs no more than a look.
    let again = processor(shared);
    assert_eq!(shared.fire_due(40, &mut wakers), 1);
    assert_eq!((shared.next_deadline(), listed()), (None, 1));
    // One that is over, and one that never comes: the end comes to it.
    shared.return_processor(again);
    arm(&timers, u64::MAX, &waker);
    assert_eq!((shared.next_deadline(), listed()), (None, 0));
    wakers.clear();
    end(runtime, [worker]);
    assert_eq!(woken.get(), 1, "it learned of the end");
}

#[test]
fn tasks_of_a_thread_that_has_gone_are_seen_until_they_are_over() {
    let (runtime, worker) = roomy(2);
    let shared = shared(&runtime);
    let gone = sits_down(&runtime);
    let (sender, receiver) = futures::channel::oneshot::channel::<()>();
    let id = spawn_here(&gone, async { _ = receiver.await });
    poll(&gone, 1);
    let index = gone.index();
    gone.leave();
    // So that nobody is started.
    let permit = shared.idle.acquire().expect("it had one");
    let listed = || shared.processors.allp.populated().collect::<Vec<_>>();
    assert_eq!((occupied(shared), listed()), (vec![0], vec![0, index]));
    let ids: Vec<_> = shared.dump().iter().map(|task| task.id).collect();
    assert_eq!((shared.live_tasks(), ids), (1, vec![id]));
    sender.send(()).unwrap();
    poll(&worker, 1);
    assert_eq!((shared.live_tasks(), listed()), (0, vec![0]));
    // Nor is it forgotten while it has a thread again.
    let again = processor(shared);
    assert_eq!((shared.live_tasks(), listed()), (0, vec![0, index]));
    shared.return_processor(again);
    assert_eq!(listed(), [0]);
    shared.idle.release(permit, None);
    end(runtime, [worker]);
}

#[test]
fn what_a_thread_that_has_gone_did_is_counted() {
    let (runtime, worker) = roomy(2);
    let polls = || {
        let metrics = runtime.handle().metrics();
        metrics.processors.iter().map(|it| it.polls).sum::<u64>()
    };
    let gone = sits_down(&runtime);
    spawn_here(&gone, async {});
    poll(&gone, 1);
    assert_eq!(polls(), 1);
    gone.leave();
    assert_eq!(polls(), 1);
    end(runtime, [worker]);
}
