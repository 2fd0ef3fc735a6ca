//! Machines: their steps, their clock, and their end.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use super::*;
use crate::{rng::Rng, spawn, spawn_blocking, spawn_local, task::yield_now, time::sleep};

fn machine(workers: usize) -> Machine {
    Machine::new(Builder::new().workers(workers).seed(1)).unwrap()
}

/// Until all wait.
fn run(machine: &Machine) {
    while machine.step(|_| 0) {}
}

/// Until nothing waits for a timer either.
fn run_through(machine: &Machine) {
    run(machine);
    while let Some(next) = machine.next_timer() {
        machine.jump_to(next);
        run(machine);
    }
}

#[test]
fn a_machine_does_nothing_between_steps() {
    let machine = machine(1);
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    let task = machine.handle().spawn(async move {
        for _ in 0..3 {
            counted.fetch_add(1, Relaxed);
            yield_now().await;
        }
    });
    assert_eq!(polls.load(Relaxed), 0);
    while polls.load(Relaxed) == 0 {
        assert!(machine.step(|_| 0));
    }
    assert_eq!(polls.load(Relaxed), 1, "a step is one poll");
    run(&machine);
    assert!(task.is_finished());
    assert!(!machine.step(|_| unreachable!("there is no choice")));
    machine.end();
}

#[test]
fn its_clock_is_the_callers() {
    let machine = machine(2);
    let woken = Arc::new(Mutex::new(Vec::new()));
    for seconds in [3, 1, 2] {
        let woken = woken.clone();
        let sleeps = async move {
            sleep(Duration::from_secs(seconds)).await;
            woken.lock().unwrap().push(seconds);
        };
        machine.handle().spawn(sleeps);
    }
    run(&machine);
    assert_eq!(machine.now(), 0);
    for second in 1..=3 {
        let next = machine.next_timer().unwrap();
        assert_eq!(next, second * 1_000_000_000);
        machine.jump_to(next - 1);
        run(&machine);
        assert_eq!(woken.lock().unwrap().len() as u64, second - 1);
        machine.jump_to(next);
        run(&machine);
        assert_eq!(woken.lock().unwrap().len() as u64, second);
    }
    assert_eq!(machine.next_timer(), None);
    machine.end();
}

#[test]
fn blocking_calls_and_pinned_tasks_run_in_steps() {
    let machine = machine(1);
    let all = machine.handle().spawn(async {
        let local = spawn_local(async { 1 });
        let (blocking, task) = (spawn_blocking(|| 2), spawn(async { 3 }));
        local.await.unwrap() + blocking.await.unwrap() + task.await.unwrap()
    });
    run_through(&machine);
    assert!(all.is_finished());
    machine.end();
}

/// Counts itself when it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

// Fails if it waits for threads, which there are not.
#[test]
fn a_drop_is_an_end() {
    let owned = Arc::new(());
    let machine = machine(2);
    let held = owned.clone();
    drop(machine.handle().spawn(async move {
        sleep(Duration::from_secs(3600)).await;
        drop(held);
    }));
    run(&machine);
    drop(machine);
    assert_eq!(Arc::strong_count(&owned), 1);
}

#[test]
fn the_end_drops_what_is_left() {
    let machine = machine(2);
    let drops = Arc::new(AtomicUsize::new(0));
    let waits = |drops: &Arc<AtomicUsize>| {
        let counted = Counted(drops.clone());
        async move {
            let _counted = counted;
            pending::<()>().await;
        }
    };
    let handle = machine.handle().clone();
    handle.spawn(waits(&drops));
    let parent = drops.clone();
    handle.spawn(async move {
        spawn(waits(&parent));
        spawn_local(waits(&parent));
        sleep(Duration::from_secs(1)).await;
    });
    run(&machine);
    handle.spawn(waits(&drops));
    machine.end();
    assert_eq!(drops.load(Relaxed), 4, "one of them was never polled");
}

/// What tasks that steal from each other did, in its order: the thread of each poll.
fn story(seed: u64) -> Vec<(usize, usize)> {
    let machine = Machine::new(Builder::new().workers(4).seed(seed)).unwrap();
    let story = Arc::new(Mutex::new(Vec::new()));
    let told = story.clone();
    machine.handle().spawn(async move {
        for task in 0..20 {
            let told = told.clone();
            spawn(async move {
                for _ in 0..5 {
                    let thread = crate::netpoll::worker_index().unwrap();
                    told.lock().unwrap().push((task, thread));
                    yield_now().await;
                }
            });
        }
    });
    let rng = Rng::new(seed, 0);
    while machine.step(|threads| rng.below(threads)) {}
    machine.end();
    Arc::into_inner(story).unwrap().into_inner().unwrap()
}

#[test]
fn the_same_choices_give_the_same_run() {
    let first = story(7);
    assert_eq!(first.len(), 100);
    let threads = first.iter().map(|(_, thread)| thread);
    assert_eq!(threads.collect::<std::collections::BTreeSet<_>>().len(), 4);
    assert_eq!(first, story(7));
    assert_ne!(first, story(8));
}

#[test]
fn the_thread_in_the_netpoll_is_woken_once() {
    let machine = machine(2);
    assert!(!machine.wake_poller(), "no thread was started");
    machine.handle().spawn(pending::<()>());
    run(&machine);
    assert!(machine.wake_poller());
    assert!(!machine.wake_poller(), "it is awake");
    assert!(machine.step(|_| 0));
    run(&machine);
    assert!(machine.wake_poller(), "it has gone back");
    machine.end();
}

#[test]
fn panics_that_nobody_joins_are_told() {
    let machine = machine(1);
    let joined = machine.handle().spawn(async { panic!("planted") });
    drop(machine.handle().spawn(async { panic!("planted") }));
    run(&machine);
    let told = machine.take_panics();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("spawned at executor/src/sim/tests.rs"),
        "{told:?}"
    );
    assert!(machine.take_panics().is_empty());
    drop(joined);
    assert!(machine.end().is_empty());
}

#[test]
fn a_panic_of_a_destructor_is_told_by_the_end() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("planted");
        }
    }
    let machine = machine(1);
    let panics = Panics;
    drop(machine.handle().spawn(async move {
        let _panics = panics;
        pending::<()>().await;
    }));
    run(&machine);
    assert_eq!(machine.end().len(), 1);
}

#[test]
fn ids_of_a_thread_begin_with_one() {
    let ids = || {
        own_ids(true);
        let machine = machine(1);
        let tasks = [(); 3].map(|()| machine.handle().spawn(async {}));
        let ids = tasks.map(|task| task.id().as_u64());
        run(&machine);
        machine.end();
        own_ids(false);
        ids
    };
    let first = ids();
    let of_process = machine(1).handle().spawn(async {}).id();
    assert_eq!(ids(), first);
    assert_eq!(first[0], 1);
    assert_ne!(of_process.as_u64(), 4, "the process has its own count");
}

/// Fails if a call that takes time gives its place back too early, twice or never.
#[test]
fn a_call_keeps_its_place_as_long_as_it_takes() {
    // There is room for one call.
    let machine = Machine::new(Builder::new().workers(1).max_threads(3).seed(1)).unwrap();
    let begun = Arc::new(AtomicUsize::new(0));
    let call = || {
        let begun = begun.clone();
        machine.handle().spawn_blocking(move || {
            begun.fetch_add(1, Relaxed);
            take_time(1_000_000_000)
        })
    };
    let calls: Vec<_> = (0..4).map(|_| call()).collect();
    for second in 1..=4 {
        run(&machine);
        assert_eq!(begun.load(Relaxed), second);
        machine.jump_to(second as u64 * 1_000_000_000);
    }
    run(&machine);
    assert!(calls.iter().all(|call| call.is_finished()));

    // One that is dropped while it takes its time.
    let dropped = call();
    let next = call();
    run(&machine);
    assert_eq!(begun.load(Relaxed), 5);
    dropped.abort();
    run(&machine);
    assert_eq!(begun.load(Relaxed), 6);
    run_through(&machine);
    assert!(next.is_finished());
    machine.end();
}
