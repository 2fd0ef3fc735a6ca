//! *The spinning hand-over*: `sched/idle.rs`.
//!
//! | model | shows | bound | time | killed by it |
//! | --- | --- | --- | --- | --- |
//!
//! Threads that sleep while work waits are a deadlock, which loom reports.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst as Observer},
};

use super::{
    explore,
    floor::{Found, Job, Worker, floor},
};
use crate::{sched::park::Parker, sync::thread};

/// Two jobs of which neither ends before the other has begun: so two threads are needed.
struct Pair {
    begun: AtomicUsize,
    both: Parker,
}

impl Pair {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            begun: AtomicUsize::new(0),
            both: Parker::new(),
        })
    }

    fn do_one(&self) {
        if self.begun.fetch_add(1, Observer) == 0 {
            self.both.park();
        } else {
            self.both
                .unpark(|| unreachable!("nobody waits in a netpoll here"));
        }
    }
}

fn number(found: Found) -> usize {
    match found {
        Found::Job(number) => number,
        Found::Closed => unreachable!("the floor stays open"),
    }
}

/// A worker that takes one job of a pair.
fn takes_one(worker: Worker, pair: &Arc<Pair>) -> thread::JoinHandle<()> {
    let pair = pair.clone();
    thread::spawn(move || {
        number(worker.next());
        pair.do_one();
    })
}

#[test]
fn nobody_sleeps_while_work_waits() {
    explore(3, || {
        let (floor, workers) = floor(1, 1);
        let mut workers = workers.into_iter();
        let worker = workers.next().unwrap().arrive().start_spinning();
        let submitter = {
            let floor = floor.clone();
            thread::spawn(move || floor.push_foreign(Job::new(0)))
        };
        assert_eq!(number(worker.next()), 0);
        submitter.join().unwrap();
        floor.assert_settled();
    });
}

#[test]
fn work_that_came_while_no_permit_was_free_is_found() {
    explore(3, || {
        let (floor, workers) = floor(1, 1);
        let mut workers = workers.into_iter();
        // It does not spin: half of those that are busy do already, say.
        let worker = workers.next().unwrap().arrive();
        let submitter = {
            let floor = floor.clone();
            thread::spawn(move || floor.push_foreign(Job::new(0)))
        };
        assert_eq!(number(worker.park_and_next()), 0);
        submitter.join().unwrap();
        floor.assert_settled();
    });
}

#[test]
fn the_last_spinner_wakes_another() {
    explore(2, || {
        let (floor, workers) = floor(2, 2);
        let mut workers = workers.into_iter();
        let sleeper = workers.next().unwrap().arrive().lie_down();
        let spinner = workers.next().unwrap().arrive().start_spinning();
        let pair = Pair::new();
        let other = {
            let pair = pair.clone();
            thread::spawn(move || {
                number(sleeper.sleep_and_next());
                pair.do_one();
            })
        };
        let spinner = takes_one(spinner, &pair);
        floor.push_foreign(Job::new(0));
        floor.push_foreign(Job::new(1));
        spinner.join().unwrap();
        other.join().unwrap();
        floor.assert_settled();
    });
}

#[test]
fn a_thief_comes_while_its_victim_is_busy() {
    explore(3, || {
        let (floor, workers) = floor(2, 2);
        let mut workers = workers.into_iter();
        let victim = workers.next().unwrap().arrive();
        let thief = workers.next().unwrap().arrive().start_spinning();
        let pair = Pair::new();
        let thief = takes_one(thief, &pair);
        victim.push_back(Job::new(0));
        // Its poll lasts until the job was taken.
        pair.do_one();
        thief.join().unwrap();
        floor.assert_settled();
    });
}

#[test]
fn a_batch_wakes_one_after_the_other() {
    explore(2, || {
        let (floor, workers) = floor(2, 2);
        let pair = Pair::new();
        let sleepers: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.arrive().lie_down())
            .collect();
        let sleepers: Vec<_> = sleepers
            .into_iter()
            .map(|sleeper| {
                let pair = pair.clone();
                thread::spawn(move || {
                    number(sleeper.sleep_and_next());
                    pair.do_one();
                })
            })
            .collect();
        floor.push_batch([Job::new(0), Job::new(1)]);
        for sleeper in sleepers {
            sleeper.join().unwrap();
        }
        floor.assert_settled();
    });
}

#[test]
fn a_thread_that_could_not_be_started_strands_nothing() {
    explore(3, || {
        // One thread, at the cap, and two permits: the second wakes nobody.
        let (floor, workers) = floor(2, 1);
        let mut workers = workers.into_iter();
        let worker = workers.next().unwrap().arrive();
        let submitter = {
            let floor = floor.clone();
            thread::spawn(move || floor.push_foreign(Job::new(0)))
        };
        floor.push_foreign(Job::new(1));
        let found = number(worker.next()) + number(worker.next());
        assert_eq!(found, 1);
        submitter.join().unwrap();
        floor.assert_settled();
    });
}
