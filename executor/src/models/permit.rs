//! Permits and standings: `sched/idle.rs`, *Parking is a claim* and *Pinned work*.
//!
//! | model | shows | bound | time | killed by it |
//! | --- | --- | --- | --- | --- |
//!
//! Each ends with a count of all permits: the free ones and those of the Ps that run are as many as
//! there were. A thread that waits for a permit which nobody will hand to it is a deadlock.

use std::sync::Arc;

use super::{
    explore,
    floor::{Floor, Found, Job, Worker, floor},
};
use crate::sync::thread;

/// Plays sysmon: takes the permit of a P that seems stuck.
fn revoke(floor: &Floor, index: usize) {
    if let Some(permit) = floor.peer(index).standing.revoke() {
        floor.release(permit, None);
    }
}

fn number(found: Found) -> usize {
    match found {
        Found::Job(number) => number,
        Found::Closed => unreachable!("the floor stays open"),
    }
}

/// Has pinned work and, so far, no permit.
fn wants_one(worker: Worker) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        worker.get_permit();
        assert_eq!(number(worker.next()), 7);
        worker.leave();
    })
}

fn arrived<const N: usize>(permits: usize) -> (Arc<Floor>, [Worker; N]) {
    let (floor, workers) = floor(permits, N);
    let workers: Vec<_> = workers.into_iter().map(Worker::arrive).collect();
    let Ok(workers) = <[Worker; N]>::try_from(workers) else {
        unreachable!("as many as were asked for");
    };
    (floor, workers)
}

#[test]
fn an_owner_leaves_while_it_is_revoked() {
    explore(3, || {
        let (floor, [owner]) = arrived(1);
        let sysmon = {
            let floor = floor.clone();
            thread::spawn(move || revoke(&floor, 0))
        };
        owner.leave();
        sysmon.join().unwrap();
        floor.assert_settled();
        assert_eq!(floor.idle.free(), 1);
    });
}

#[test]
fn an_owner_parks_while_it_is_revoked_and_woken() {
    explore(3, || {
        let (floor, [owner]) = arrived(1);
        let sysmon = {
            let floor = floor.clone();
            thread::spawn(move || {
                revoke(&floor, 0);
                floor.push_foreign(Job::new(0));
            })
        };
        assert_eq!(number(owner.next()), 0);
        sysmon.join().unwrap();
        floor.assert_settled();
    });
}

#[test]
fn a_thief_relieves_a_thread_that_was_revoked() {
    explore(2, || {
        let (floor, [stuck, thief]) = arrived(1);
        let thief = thread::spawn(move || takes_the_only_job(&thief));
        stuck.push_back(Job::new(0));
        revoke(&floor, 0);
        // It returns from its poll, and may be the first to come by.
        let found = takes_the_only_job(&stuck);
        assert!(thief.join().unwrap() ^ found, "the job was done once");
        floor.assert_settled();
    });
}

/// Whether it was this worker that got it; who does sends the others home.
fn takes_the_only_job(worker: &Worker) -> bool {
    match worker.next() {
        Found::Job(_) => {
            worker.floor.close();
            true
        }
        Found::Closed => false,
    }
}

#[test]
fn two_wakers_and_an_owner_that_stands_up() {
    explore(2, || {
        let (floor, [owner]) = arrived(2);
        let waker = {
            let floor = floor.clone();
            thread::spawn(move || floor.push_foreign(Job::new(1)))
        };
        let owner = thread::spawn(move || number(owner.next()) + number(owner.next()));
        floor.push_foreign(Job::new(2));
        waker.join().unwrap();
        assert_eq!(owner.join().unwrap(), 3);
        floor.assert_settled();
    });
}

#[test]
fn pinned_work_gets_the_permit_that_is_released() {
    explore(3, || {
        let (floor, [owner, wanting]) = arrived(1);
        floor.push_pinned(1, Job::new(7));
        let wanting = wants_one(wanting);
        owner.leave();
        wanting.join().unwrap();
        floor.assert_settled();
    });
}

#[test]
fn two_that_want_a_permit_get_it_in_turn() {
    explore(2, || {
        let (floor, [owner, first, second]) = arrived(1);
        floor.push_pinned(1, Job::new(7));
        floor.push_pinned(2, Job::new(7));
        let wanting = [wants_one(first), wants_one(second)];
        owner.leave();
        for wanting in wanting {
            wanting.join().unwrap();
        }
        floor.assert_settled();
    });
}

#[test]
fn a_busy_worker_lends_its_permit() {
    explore(3, || {
        let (floor, [owner, wanting]) = arrived(1);
        floor.push_pinned(1, Job::new(7));
        let wanting = {
            let floor = floor.clone();
            thread::spawn(move || {
                wanting.get_permit();
                assert_eq!(number(wanting.next()), 7);
                // What comes now is for who lent it.
                floor.push_foreign(Job::new(0));
                wanting.leave();
            })
        };
        if !floor.idle.wanting().is_empty() && floor.idle.free() == 0 {
            owner.lend_permit();
        }
        assert_eq!(number(owner.next()), 0);
        owner.leave();
        wanting.join().unwrap();
        floor.assert_settled();
    });
}
