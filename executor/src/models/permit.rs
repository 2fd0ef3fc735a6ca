//! Permits and standings: `sched/idle.rs`, *Parking is a claim* and *Pinned work*.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `an_owner_leaves_while_it_is_revoked` | the permit is released once | 3 | 0.1 | `permit_leave_stores`, `permit_revoke_stores` |
//! | `an_owner_parks_while_it_is_revoked_and_woken` | the same, and the owner is woken | 3 | 0.8 | `permit_lost_park_releases` |
//! | `a_thief_relieves_a_thread_that_was_revoked` | the same while the stuck one comes back, and both want that work | 2 | 0.9 | also `permit_lost_park_releases` |
//! | `work_beside_a_stuck_poll_is_taken` | who gets the released permit takes the work of the one that is stuck | 3 | 1.6 | `permit_revoke_keeps_the_ring` |
//! | `a_child_of_a_stuck_poll_is_taken` | the same for the child that it has forked | 3 | 1.6 | `permit_revoke_leaves_the_child` |
//! | `a_permit_that_is_revoked_goes_to_what_waits` | the same for work that came while no permit was free | 2 | 1.2 | `permit_revoke_does_not_look` |
//! | `a_thread_that_leaves_wakes_another_for_what_waits` | the same when the permit is given up | 3 | 1.2 | `permit_release_does_not_look` |
//! | `a_permit_is_revoked_before_its_thread_is_awake` | a permit that was handed over is taken away before the woken thread looks: it gives up the spinning that came with it | 3 | 0.6 | `permit_regain_keeps_the_spinner`, `permit_revoked_sleeper_sleeps_on` |
//! | `a_thread_gets_up_while_its_permit_comes_and_goes` | the same for a thread that gets up by itself, for pinned work, while a thread that was to be started is refused | 2 | 0.8 | `permit_rise_looks_first`, `permit_refusal_forgets_who_wants` |
//! | `what_relied_on_a_thread_that_was_revoked_asleep_is_taken` | the same, and another job was pushed in reliance on that spinner | 1 | 1.7 | `permit_regain_does_not_look` |
//! | `a_waker_and_an_owner_that_stands_up` | of a waker and the owner one makes the P run | 2 | 0.7 | also `idle_no_last_look` |
//! | `pinned_work_gets_the_permit_that_is_released` | who wants a permit and who releases one see each other | 3 | 0.7 | `permit_release_forgets_who_wants`, `permit_want_no_fence` |
//! | `two_that_want_a_permit_get_it_in_turn` | the same with two who want one | 2 | 15.4 | `permit_wanting_looks_once` |
//! | `two_permits_for_one_that_wants_one` | two permits come to one who wants one: one goes back | 3 | 1.2 | `permit_hand_stores` |
//! | `a_busy_worker_lends_its_permit` | a permit is lent, and comes back with the next work | 2 | 0.8 | `permit_awake_stores` |
//!
//! Each ends with a count of all permits: the free ones and those of the Ps that run are as many as
//! there were. A thread that waits for a permit which nobody will hand to it is a deadlock.

use std::sync::Arc;

use super::{
    both_ways::explore,
    floor::{Floor, Found, Job, Pair, Worker, floor, number},
};
use crate::{
    queue::local_queue,
    sched::{
        ground::{Bed, Ground},
        park::Parker,
        sleep::Sleeper,
    },
};

/// Plays sysmon: takes the permit of a P that seems stuck.
pub(super) fn revoke(floor: &Floor, index: usize) {
    let (scratch, _) = local_queue();
    floor.revoke(floor.peer(index), &scratch);
}

/// Has pinned work and, so far, no permit.
pub(super) fn get_one_and_leave(worker: Worker) {
    worker.get_permit(worker.bed().parker());
    assert_eq!(number(worker.next()), 7);
    worker.leave();
}

fn arrived<const N: usize>(permits: usize) -> (Arc<Floor>, [Worker; N]) {
    let (floor, workers) = floor(permits);
    (floor, workers.map(Worker::arrive))
}

#[test]
fn an_owner_leaves_while_it_is_revoked() {
    explore(3, |turn| {
        let (floor, [owner]) = arrived(1);
        let sysmon = floor.clone();
        turn.race(|| owner.leave(), [move || revoke(&sysmon, 0)]);
        floor.assert_settled();
        assert_eq!(floor.idle().free(), 1);
    });
}

#[test]
fn an_owner_parks_while_it_is_revoked_and_woken() {
    explore(3, |turn| {
        let (floor, [owner]) = arrived(1);
        let sysmon = floor.clone();
        let revokes_and_submits = move || {
            revoke(&sysmon, 0);
            sysmon.push_foreign(Job::new(0));
        };
        let work = move || assert_eq!(number(owner.next()), 0);
        turn.race(work, [revokes_and_submits]);
        floor.assert_settled();
    });
}

#[test]
fn a_thief_relieves_a_thread_that_was_revoked() {
    explore(2, |turn| {
        let (floor, [stuck, thief]) = arrived(1);
        stuck.push_back(Job::new(0));
        let sysmon = floor.clone();
        let stuck = move || {
            revoke(&sysmon, 0);
            // It returns from its poll, and may be the first to come by.
            takes_the_only_job(&stuck)
        };
        let (it, [other]) = turn.race(stuck, [move || takes_the_only_job(&thief)]);
        assert!(it ^ other, "the job is done once");
        floor.assert_settled();
    });
}

#[test]
fn work_beside_a_stuck_poll_is_taken() {
    explore(3, |turn| {
        let (floor, [stuck, thief]) = arrived(1);
        let taken = Arc::new(Parker::new());
        let sysmon = floor.clone();
        let over = taken.clone();
        let stuck = move || {
            stuck.push_back(Job::new(0));
            revoke(&sysmon, 0);
            // Its poll lasts until another thread has the job.
            over.park();
            stuck.leave();
        };
        let steal = move || {
            assert_eq!(number(thief.next()), 0);
            taken.unpark(|| unreachable!("nobody waits in a netpoll here"));
        };
        turn.race(stuck, [steal]);
        floor.assert_settled();
    });
}

#[test]
fn a_child_of_a_stuck_poll_is_taken() {
    explore(3, |turn| {
        let (floor, [stuck, thief]) = arrived(1);
        let taken = Arc::new(Parker::new());
        let sysmon = floor.clone();
        let over = taken.clone();
        let stuck = move || {
            stuck.fork(Job::new(0));
            revoke(&sysmon, 0);
            // Its poll lasts until another thread has the child.
            over.park();
            assert!(!stuck.has_child());
            stuck.leave();
        };
        let steal = move || {
            assert_eq!(number(thief.next()), 0);
            taken.unpark(|| unreachable!("nobody waits in a netpoll here"));
        };
        turn.race(stuck, [steal]);
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
fn a_waker_and_an_owner_that_stands_up() {
    explore(2, |turn| {
        let (floor, [owner]) = arrived(2);
        let submitter = floor.clone();
        let submits = move || {
            submitter.push_foreign(Job::new(1));
            submitter.push_foreign(Job::new(2));
        };
        let work = move || assert_eq!(number(owner.next()) + number(owner.next()), 3);
        turn.race(work, [submits]);
        floor.assert_settled();
    });
}

#[test]
fn pinned_work_gets_the_permit_that_is_released() {
    explore(3, |turn| {
        let (floor, [owner, wanting]) = arrived(1);
        floor.push_pinned(1, Job::new(7));
        turn.race(|| owner.leave(), [move || get_one_and_leave(wanting)]);
        floor.assert_settled();
    });
}

#[test]
fn two_that_want_a_permit_get_it_in_turn() {
    explore(2, |turn| {
        let (floor, [owner, first, second]) = arrived(1);
        floor.push_pinned(1, Job::new(7));
        floor.push_pinned(2, Job::new(7));
        let wanting = [first, second].map(|wanting| move || get_one_and_leave(wanting));
        turn.race(|| owner.leave(), wanting);
        floor.assert_settled();
    });
}

#[test]
fn two_permits_for_one_that_wants_one() {
    explore(3, |turn| {
        let (floor, [first, second, wanting]) = arrived(2);
        floor.push_pinned(2, Job::new(7));
        let leave = move || {
            first.leave();
            second.leave();
        };
        turn.race(leave, [move || get_one_and_leave(wanting)]);
        floor.assert_settled();
    });
}

#[test]
fn a_busy_worker_lends_its_permit() {
    explore(2, |turn| {
        let (floor, [owner, wanting]) = arrived(1);
        floor.push_pinned(1, Job::new(7));
        let want = move || {
            wanting.get_permit(wanting.bed().parker());
            assert_eq!(number(wanting.next()), 7);
            // What comes now is for who lent it.
            wanting.floor.push_foreign(Job::new(0));
            wanting.leave();
        };
        let lend = move || {
            let idle = owner.floor.idle();
            if !idle.wanting().is_empty() && idle.free() == 0 {
                owner.lend_permit();
            }
            assert_eq!(number(owner.next()), 0);
            owner.leave();
        };
        turn.race(lend, [want]);
        floor.assert_settled();
    });
}

#[test]
fn a_thread_that_leaves_wakes_another_for_what_waits() {
    explore(3, |turn| {
        let (floor, [leaver, sleeper]) = floor(1);
        let sleeper = sleeper.arrive().asleep();
        let leaver = leaver.arrive();
        let pusher = floor.clone();
        let parties: [Box<dyn FnOnce()>; 2] = [
            Box::new(move || pusher.push_foreign(Job::new(0))),
            Box::new(move || assert_eq!(number(sleeper.next()), 0)),
        ];
        turn.race(|| leaver.leave(), parties);
        floor.assert_settled();
    });
}

#[test]
fn a_permit_that_is_revoked_goes_to_what_waits() {
    explore(2, |turn| {
        let (floor, [stuck, sleeper]) = floor(1);
        let sleeper = sleeper.arrive().asleep();
        let stuck = stuck.arrive();
        let taken = Arc::new(Parker::new());
        let over = taken.clone();
        let sysmon = floor.clone();
        let poll = move || {
            revoke(&sysmon, 0);
            // Its poll lasts until another thread has the job.
            over.park();
            stuck.leave();
        };
        let pusher = floor.clone();
        let parties: [Box<dyn FnOnce()>; 2] = [
            Box::new(move || pusher.push_foreign(Job::new(0))),
            Box::new(move || {
                assert_eq!(number(sleeper.next()), 0);
                taken.unpark(|| unreachable!("nobody waits in a netpoll here"));
            }),
        ];
        turn.race(poll, parties);
        floor.assert_settled();
    });
}

#[test]
fn a_permit_is_revoked_before_its_thread_is_awake() {
    explore(3, |turn| {
        let (floor, [sleeper]) = floor(1);
        let sleeper = sleeper.arrive().asleep();
        let submitter = floor.clone();
        // sysmon's look is an old one: from before the thread fell asleep.
        let submit = move || {
            submitter.push_foreign(Job::new(0));
            revoke(&submitter, 0);
        };
        let work = move || assert_eq!(number(sleeper.next()), 0);
        turn.race(work, [submit]);
        floor.assert_settled();
    });
}

#[test]
fn a_thread_gets_up_while_its_permit_comes_and_goes() {
    explore(2, |turn| {
        let (floor, [sleeper]) = floor(1);
        let sleeper = sleeper.arrive().asleep();
        floor.push_pinned(0, Job::new(7));
        let submitter = floor.clone();
        let submit = move || {
            submitter.push_foreign(Job::new(0));
            revoke(&submitter, 0);
        };
        let work = move || assert_eq!(number(sleeper.next()) + number(sleeper.next()), 7);
        turn.race(work, [submit]);
        floor.assert_settled();
    });
}

#[test]
fn what_relied_on_a_thread_that_was_revoked_asleep_is_taken() {
    explore(1, |turn| {
        let (floor, sleepers) = floor::<2>(2);
        let sleepers = sleepers.map(|worker| worker.arrive().asleep());
        let pair = Pair::new();
        let submitter = floor.clone();
        let submit = move || {
            submitter.push_foreign(Job::new(0));
            revoke(&submitter, 0);
            submitter.push_foreign(Job::new(1));
        };
        turn.race(submit, sleepers.map(|sleeper| pair.taken_by(sleeper)));
        floor.assert_settled();
    });
}
