//! Models that loom would not come to an end with: all parties at once, more of them, and more
//! work. Shuttle runs them, in random schedules.
//!
//! | model | parties | shows |
//! | --- | --- | --- |
//! | `every_job_is_done_once` | four workers with two permits, two submitters, one that wants a permit for pinned work, and the monitor, which revokes | each job runs once, nobody sleeps while work waits (that is a deadlock), and no permit is lost or doubled |
//! | `a_worker_for_each_permit` | three workers with three permits, a submitter of batches, and the monitor | the same where nobody has to wait for a permit |
//! | `everybody_at_the_end` in `shutdown.rs` | two threads, two wakers, a foreign thread with a task, and a thread that shuts down and waits | each future is dropped once, and the runtime goes |
//!
//! Seen to fail under `permit_unpark_looks_first`: that is how the fault was found that the mutant
//! brings back, in which three threads have to meet. Shuttle is sequentially consistent: a missing
//! fence it cannot see.

use std::sync::{
    Arc,
    atomic::{AtomicUsize as Counter, Ordering::SeqCst as Observer},
};

use super::{
    both_ways::{Turn, explore},
    mock::{Found, Job, MockEnv, Worker, mock},
    permit::{get_one_and_leave, revoke},
};
use crate::{permit::env::Env, sync::thread};

/// A job with a number below this puts another one into the ring of the thread that does it, with
/// that much added.
const PARENTS: usize = 100;
/// The pinned job.
const PINNED: usize = 7;

/// How often each job was done, and how many are to be done yet.
struct Tally {
    done: Vec<Counter>,
    left: Counter,
}

impl Tally {
    fn new(parents: usize) -> Arc<Self> {
        Arc::new(Self {
            done: (0..PARENTS + parents).map(|_| Counter::new(0)).collect(),
            left: Counter::new(2 * parents),
        })
    }

    /// A worker that does what it finds until all is done. The one that does the last job lets the
    /// others end.
    fn work(self: Arc<Self>, worker: Worker) {
        while let Found::Job(number) = worker.next() {
            if number < PARENTS {
                worker.push_back(Job::new(PARENTS + number));
            }
            self.done[number].fetch_add(1, Observer);
            if self.left.fetch_sub(1, Observer) == 1 {
                worker.mock.close();
            }
        }
        worker.leave();
    }

    fn assert_done(&self, parents: usize) {
        for number in (0..parents).chain(PARENTS..PARENTS + parents) {
            assert_eq!(self.done[number].load(Observer), 1, "job {number}");
        }
    }
}

/// Takes the permits of all Ps in turn, a few times.
fn monitor(mock: &MockEnv, ps: usize) {
    for round in 0..2 * ps {
        revoke(mock, round % ps);
        thread::yield_now();
    }
}

type Party = Box<dyn FnOnce()>;

#[test]
fn every_job_is_done_once() {
    const EACH: usize = 4;
    explore(4, |turn: Turn| {
        let (mock, [a, b, c, d, wanting]) = mock(2);
        let tally = Tally::new(2 * EACH);
        mock.push_pinned(4, Job::new(PINNED));
        let mut parties: Vec<Party> = Vec::new();
        // Two have a permit, and two begin asleep.
        for worker in [a.arrive(), b.arrive(), c.arrive(), d.arrive()] {
            let tally = tally.clone();
            parties.push(Box::new(move || tally.work(worker)));
        }
        let wanting = wanting.arrive();
        parties.push(Box::new(move || get_one_and_leave(wanting)));
        for first in [0, EACH] {
            let mock = mock.clone();
            parties.push(Box::new(move || {
                for number in first..first + EACH {
                    mock.push_foreign(Job::new(number));
                }
            }));
        }
        let parties: [Party; 7] = parties.try_into().ok().expect("there are seven");
        let revoker = mock.clone();
        turn.race(move || monitor(&revoker, 4), parties);
        tally.assert_done(2 * EACH);
        mock.assert_settled();
    });
}

#[test]
fn a_worker_for_each_permit() {
    const BATCH: usize = 3;
    explore(4, |turn: Turn| {
        let (mock, [a, b, c]) = mock(3);
        let tally = Tally::new(2 * BATCH);
        let workers = [a.arrive().asleep(), b.arrive().asleep(), c.arrive()];
        let workers = workers.map(|worker| {
            let tally = tally.clone();
            Box::new(move || tally.work(worker)) as Party
        });
        let revoker = mock.clone();
        let [a, b, c] = workers;
        let submitter = mock.clone();
        let submits = move || {
            submitter.push_all((0..BATCH).map(Job::new));
            submitter.push_all((BATCH..2 * BATCH).map(Job::new));
        };
        turn.race(submits, [a, b, c, Box::new(move || monitor(&revoker, 3))]);
        tally.assert_done(2 * BATCH);
        mock.assert_settled();
        assert_eq!(mock.idle().free(), 3);
    });
}
