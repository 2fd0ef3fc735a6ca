//! O5: the lowest priority moves. However many others are ready, a task of it is polled at least
//! once in 250 ticks of its worker, and those between have their turn as well; unless the runtime
//! has strict priorities.
//!
//! They fail without `take_turn` in `sched/priority.rs`; the one for strict priorities, with it.

use crate::common;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use common::{Count, Gate, limited};
use ws_executor::{
    runtime::{Builder, Priorities, Runtime, Sysmon},
    task::{self, Priority},
};

/// What `Priority` promises.
const BOUND: usize = 250;

fn one_worker(priorities: Priorities) -> Runtime {
    // No monitor: on a busy machine it would end slices, and the order would not be the queue's
    // alone.
    let builder = Builder::new().workers(1).sysmon(Sysmon::Off);
    builder.priorities(priorities).build().unwrap()
}

/// Tasks that are always ready, and what they were polled.
#[derive(Clone, Default)]
struct Crowd {
    stop: Arc<AtomicBool>,
    /// All polls of all of them.
    polls: Arc<AtomicUsize>,
}

/// One of the crowd that is watched.
#[derive(Clone, Default)]
struct Watched {
    /// At which poll of the crowd it was polled.
    at: Arc<Mutex<Vec<usize>>>,
    count: Arc<Count>,
}

impl Watched {
    /// The longest time between two of its polls, in polls of the crowd.
    fn longest_wait(&self) -> usize {
        let at = self.at.lock().unwrap();
        at.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
    }
}

impl Crowd {
    async fn always_ready(self, watched: Option<Watched>) {
        while !self.stop.load(Relaxed) {
            let now = self.polls.fetch_add(1, Relaxed);
            if let Some(watched) = &watched {
                watched.at.lock().unwrap().push(now);
                watched.count.add();
            }
            task::yield_now().await;
        }
    }

    fn spawn(&self, runtime: &Runtime, priority: impl Into<Priority>, count: usize) {
        let priority = priority.into();
        for _ in 0..count {
            let task = task::Builder::new().priority(priority);
            drop(task.spawn_on(self.clone().always_ready(None), runtime.handle()));
        }
    }

    fn spawn_watched(&self, runtime: &Runtime, priority: impl Into<Priority>) -> Watched {
        let watched = Watched::default();
        let task = task::Builder::new().priority(priority);
        let future = self.clone().always_ready(Some(watched.clone()));
        drop(task.spawn_on(future, runtime.handle()));
        watched
    }
}

/// How often a watched task is polled before a test ends.
const TURNS: usize = 30;

fn the_lowest_of(high: usize, middle: usize, default: usize) {
    let runtime = one_worker(Priorities::Fair);
    let crowd = Crowd::default();
    crowd.spawn(&runtime, Priority::HIGHEST, high);
    crowd.spawn(&runtime, 5, middle);
    crowd.spawn(&runtime, Priority::DEFAULT, default);
    let lowest = crowd.spawn_watched(&runtime, Priority::LOWEST);
    lowest.count.wait_for(TURNS);
    crowd.stop.store(true, Relaxed);
    let longest = lowest.longest_wait();
    assert!(longest <= BOUND, "it waited for {longest} polls");
    assert!(longest > 20, "and is the lowest: {longest}");
}

#[test]
fn it_has_its_turn_beside_one_of_the_highest() {
    limited(|| the_lowest_of(1, 0, 0));
}

#[test]
fn it_has_its_turn_beside_the_default_ones() {
    limited(|| the_lowest_of(0, 0, 20));
}

#[test]
fn it_has_its_turn_beside_many_of_each() {
    limited(|| the_lowest_of(50, 50, 50));
}

#[test]
fn it_has_its_turn_beside_more_than_fit() {
    limited(|| the_lowest_of(400, 400, 400));
}

#[test]
fn so_has_every_other_level() {
    limited(|| {
        let runtime = one_worker(Priorities::Fair);
        let crowd = Crowd::default();
        crowd.spawn(&runtime, Priority::HIGHEST, 10);
        crowd.spawn(&runtime, Priority::LOWEST, 10);
        let between: Vec<_> = [-2, -1, 0, 1, 2]
            .map(|priority| crowd.spawn_watched(&runtime, priority))
            .into();
        for watched in &between {
            watched.count.wait_for(5);
        }
        crowd.stop.store(true, Relaxed);
    });
}

#[test]
fn strict_priorities_do_without() {
    limited(|| {
        let runtime = one_worker(Priorities::Strict);
        let crowd = Crowd::default();
        // All are there before the first one runs.
        let (begun, gate) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        let (told, held) = (begun.clone(), gate.clone());
        drop(runtime.spawn(async move {
            told.open();
            held.pass();
        }));
        begun.pass();
        let highest = crowd.spawn_watched(&runtime, Priority::HIGHEST);
        let others = [5, 0, -5].map(|priority| crowd.spawn_watched(&runtime, priority));
        gate.open();
        highest.count.wait_for(10 * BOUND);
        let polls = others.each_ref().map(|other| other.count.get());
        crowd.stop.store(true, Relaxed);
        assert_eq!(polls, [0, 0, 0]);
    });
}

common::with_workers! {
    /// Whatever the number of workers, all levels move.
    fn every_level_moves(workers: usize) {
        let runtime = Builder::new().workers(workers).build().unwrap();
        let crowd = Crowd::default();
        crowd.spawn(&runtime, Priority::HIGHEST, 20 * workers);
        crowd.spawn(&runtime, Priority::DEFAULT, 20 * workers);
        let watched = [Priority::LOWEST, Priority::new(-1), Priority::DEFAULT, Priority::new(1)]
            .map(|priority| crowd.spawn_watched(&runtime, priority));
        for watched in &watched {
            watched.count.wait_for(TURNS);
        }
        crowd.stop.store(true, Relaxed);
    }
}
