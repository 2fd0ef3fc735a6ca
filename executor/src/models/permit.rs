//! Permits and worker states: `permit/idle.rs`, *Parking is a claim* and *Pinned work*; and
//! `permit/env.rs`, the thread that gets a permit which was taken for others.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `an_owner_leaves_while_it_is_revoked` | the permit is released once | 3 | 0.1 | `permit_leave_stores`, `permit_revoke_stores` |
//! | `an_owner_parks_while_it_is_revoked_and_woken` | the same, and the owner is woken | 3 | 0.8 | `permit_lost_park_releases` |
//! | `a_thief_takes_from_a_thread_that_was_revoked` | the same while the stuck one comes back, and both want that work | 2 | 0.9 | also `permit_lost_park_releases` |
//! | `work_beside_a_stuck_poll_is_taken` | the thread that gets the released permit takes the work of the one that is stuck | 3 | 1.6 | `permit_revoke_keeps_the_ring` |
//! | `a_child_of_a_stuck_poll_is_taken` | the same for the child that it has forked | 3 | 1.6 | `permit_revoke_leaves_the_child` |
//! | `a_permit_that_is_revoked_goes_to_what_waits` | the same for work that came while no permit was free | 2 | 1.2 | `permit_revoke_does_not_look` |
//! | `a_thread_that_leaves_wakes_another_for_what_waits` | the same when the permit is given up | 3 | 1.2 | `permit_release_does_not_look` |
//! | `a_permit_is_revoked_before_its_thread_is_awake` | a permit that was handed over is taken away before the woken thread looks: it gives up the spinning that came with it | 3 | 0.6 | `permit_regain_keeps_the_spinner`, `permit_revoked_sleeper_sleeps_on` |
//! | `a_thread_wakes_up_while_its_permit_comes_and_goes` | the same for a thread that wakes up by itself, for pinned work, while a thread that was to be started is refused | 2 | 0.8 | `permit_unpark_looks_first`, `permit_refusal_forgets_who_wants` |
//! | `what_relied_on_a_thread_that_was_revoked_asleep_is_taken` | the same, and another job was pushed in reliance on that spinner | 1 | 1.7 | `permit_regain_does_not_look` |
//! | `a_waker_and_an_owner_that_stands_up` | of a waker and the owner one makes the P run | 2 | 0.7 | also `idle_no_last_look` |
//! | `a_sleep_that_brings_work_beside_a_wake` | a thread takes a permit for what its sleep has brought while it is handed another: one goes back, and both jobs are done | 2 | 0.3 | `permit_unpark_loses_the_other` |
//! | `a_bit_that_a_waker_left_behind_hides_nobody` | a waker hands a permit over between the worker state and the bit: thieves see the P once its thread runs something (*A parked P is empty*) | 2 | 2.1 | `permit_handed_keeps_the_bit` |
//! | `a_sleep_that_brings_work_beside_a_release` | the same where no permit is free until another thread gives one up: the work is done | 3 | 0.7 | `permit_after_sleep_sleeps_on` |
//! | `pinned_work_gets_the_permit_that_is_released` | a thread that wants a permit and one that releases a permit see each other | 3 | 0.7 | `permit_release_forgets_who_wants`, `permit_want_no_fence` |
//! | `two_that_want_a_permit_get_it_in_turn` | the same with two threads that want one | 2 | 15.4 | `permit_wanting_looks_once` |
//! | `two_permits_for_one_that_wants_one` | two permits come to a thread that wants one: one goes back | 3 | 1.2 | `permit_hand_stores` |
//! | `a_busy_worker_lends_its_permit` | a permit is lent, and comes back with the next work | 2 | 0.8 | `permit_awake_stores` |
//! | `work_of_a_stuck_poll_comes_before_one_that_wants` | what lay beside a stuck poll is run before a thread goes on that wants a permit, and that one goes on then | 2 | 1.8 | `permit_revoke_serves_who_wants_first` |
//! | `work_beside_a_permit_that_is_not_wanted_any_more` | the same where that one does not want it any more: a push that finds the permit taken for it is seen | 2 | 0.6 | `permit_in_vain_does_not_look` |
//! | `work_comes_before_one_that_waits_at_a_fork` | the same where a computation gives way at a fork, for that one and for another that waits there | 2 | 1.9 | `permit_give_way_does_not_look` |
//! | `a_poller_comes_before_one_that_waits_at_a_fork` | the same for a thread that is to wait in the netpoll; those at forks go on when it parks | 2 | 2.4 | `permit_give_way_forgets_the_netpoll`, `permit_park_forgets_who_wants` |
//! | `one_that_gave_way_beside_a_spinner_goes_on` | where a spinner sees to the work, the permit goes to a thread that wants one | 3 | 0.2 | `permit_give_way_forgets_who_wants` |
//! | `work_that_comes_while_a_thread_gives_way` | work and permit come at once: the work is done, and the thread that gave way goes on | 2 | 5.2 | `permit_give_way_wants_too_late` |
//!
//! Each ends with a count of all permits: the free ones and those of the Ps that run are as many as
//! there were. A thread that waits for a permit which nobody will hand to it is a deadlock.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst as Observer},
};

use super::{
    both_ways::explore,
    mock::{Found, Job, MockEnv, Pair, Worker, mock, number},
};
use crate::{
    park::Parker,
    permit::{
        env::{Env, PeerEnv},
        sleep::Sleeper,
    },
    queue::local_queue,
};

/// Plays the monitor: takes the permit of a P that seems stuck.
pub(super) fn revoke(mock: &MockEnv, index: usize) {
    let (scratch, _) = local_queue();
    mock.revoke(mock.peer(index), &scratch);
}

/// Has pinned work and, so far, no permit.
pub(super) fn get_one_and_leave(worker: Worker) {
    worker.get_permit(worker.own_peer().parker());
    assert_eq!(number(worker.next()), 7);
    worker.leave();
}

fn arrived<const N: usize>(permits: usize) -> (Arc<MockEnv>, [Worker; N]) {
    let (mock, workers) = mock(permits);
    (mock, workers.map(Worker::arrive))
}

#[test]
fn an_owner_leaves_while_it_is_revoked() {
    explore(3, |turn| {
        let (mock, [owner]) = arrived(1);
        let monitor = mock.clone();
        turn.race(|| owner.leave(), [move || revoke(&monitor, 0)]);
        mock.assert_settled();
        assert_eq!(mock.idle().free(), 1);
    });
}

#[test]
fn an_owner_parks_while_it_is_revoked_and_woken() {
    explore(3, |turn| {
        let (mock, [owner]) = arrived(1);
        let monitor = mock.clone();
        let revokes_and_submits = move || {
            revoke(&monitor, 0);
            monitor.push_foreign(Job::new(0));
        };
        let work = move || assert_eq!(number(owner.next()), 0);
        turn.race(work, [revokes_and_submits]);
        mock.assert_settled();
    });
}

#[test]
fn a_thief_takes_from_a_thread_that_was_revoked() {
    explore(2, |turn| {
        let (mock, [stuck, thief]) = arrived(1);
        stuck.push_back(Job::new(0));
        let monitor = mock.clone();
        let stuck = move || {
            revoke(&monitor, 0);
            // It returns from its poll, and may be the first to come by.
            takes_the_only_job(&stuck)
        };
        let (it, [other]) = turn.race(stuck, [move || takes_the_only_job(&thief)]);
        assert!(it ^ other, "the job is done once");
        mock.assert_settled();
    });
}

#[test]
fn work_beside_a_stuck_poll_is_taken() {
    explore(3, |turn| {
        let (mock, [stuck, thief]) = arrived(1);
        let taken = Arc::new(Parker::new());
        let monitor = mock.clone();
        let over = taken.clone();
        let stuck = move || {
            stuck.push_back(Job::new(0));
            revoke(&monitor, 0);
            // Its poll lasts until another thread has the job.
            over.park();
            stuck.leave();
        };
        let steal = move || {
            assert_eq!(number(thief.next()), 0);
            taken.unpark(|| unreachable!("nobody waits in a netpoll here"));
        };
        turn.race(stuck, [steal]);
        mock.assert_settled();
    });
}

#[test]
fn a_child_of_a_stuck_poll_is_taken() {
    explore(3, |turn| {
        let (mock, [stuck, thief]) = arrived(1);
        let taken = Arc::new(Parker::new());
        let monitor = mock.clone();
        let over = taken.clone();
        let stuck = move || {
            stuck.fork(Job::new(0));
            revoke(&monitor, 0);
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
        mock.assert_settled();
    });
}

/// Whether it was this worker that got it. The one that gets it lets the others end.
fn takes_the_only_job(worker: &Worker) -> bool {
    match worker.next() {
        Found::Job(_) => {
            worker.mock.close();
            true
        }
        Found::Closed => false,
    }
}

#[test]
fn a_waker_and_an_owner_that_stands_up() {
    explore(2, |turn| {
        let (mock, [owner]) = arrived(2);
        let submitter = mock.clone();
        let submits = move || {
            submitter.push_foreign(Job::new(1));
            submitter.push_foreign(Job::new(2));
        };
        let work = move || assert_eq!(number(owner.next()) + number(owner.next()), 3);
        turn.race(work, [submits]);
        mock.assert_settled();
    });
}

#[test]
fn a_sleep_that_brings_work_beside_a_wake() {
    explore(2, |turn| {
        let (mock, [sleeper]) = mock(2);
        let sleeper = sleeper.arrive().asleep().that_brings(Job::new(1));
        let submitter = mock.clone();
        let work = move || assert_eq!(number(sleeper.next()) + number(sleeper.next()), 3);
        turn.race(work, [move || submitter.push_foreign(Job::new(2))]);
        mock.assert_settled();
    });
}

#[test]
fn a_bit_that_a_waker_left_behind_hides_nobody() {
    explore(2, |turn| {
        let (mock, [sleeper]) = mock(2);
        // It wakes up by itself, and parks once more beside a waker that has cleared its first bit.
        let sleeper = sleeper.arrive().asleep().that_brings(Job::new(0));
        let (submitter, env) = (mock.clone(), mock.clone());
        let submits = move || {
            submitter.push_foreign(Job::new(1));
            submitter.push_foreign(Job::new(2));
        };
        let work = move || {
            for _ in 0..3 {
                number(sleeper.next());
                assert_eq!(env.awake_peers().count(), 1, "thieves pass it by");
            }
        };
        turn.race(submits, [work]);
        mock.assert_settled();
    });
}

#[test]
fn a_sleep_that_brings_work_beside_a_release() {
    explore(3, |turn| {
        let (mock, [sleeper, leaver]) = mock(1);
        let sleeper = sleeper.arrive().asleep().that_brings(Job::new(1));
        let leaver = leaver.arrive();
        let work = move || assert_eq!(number(sleeper.next()), 1);
        turn.race(work, [move || leaver.leave()]);
        mock.assert_settled();
    });
}

#[test]
fn pinned_work_gets_the_permit_that_is_released() {
    explore(3, |turn| {
        let (mock, [owner, wanting]) = arrived(1);
        mock.push_pinned(1, Job::new(7));
        turn.race(|| owner.leave(), [move || get_one_and_leave(wanting)]);
        mock.assert_settled();
    });
}

#[test]
fn two_that_want_a_permit_get_it_in_turn() {
    explore(2, |turn| {
        let (mock, [owner, first, second]) = arrived(1);
        mock.push_pinned(1, Job::new(7));
        mock.push_pinned(2, Job::new(7));
        let wanting = [first, second].map(|wanting| move || get_one_and_leave(wanting));
        turn.race(|| owner.leave(), wanting);
        mock.assert_settled();
    });
}

#[test]
fn two_permits_for_one_that_wants_one() {
    explore(3, |turn| {
        let (mock, [first, second, wanting]) = arrived(2);
        mock.push_pinned(2, Job::new(7));
        let leave = move || {
            first.leave();
            second.leave();
        };
        turn.race(leave, [move || get_one_and_leave(wanting)]);
        mock.assert_settled();
    });
}

#[test]
fn a_busy_worker_lends_its_permit() {
    explore(2, |turn| {
        let (mock, [owner, wanting]) = arrived(1);
        mock.push_pinned(1, Job::new(7));
        let want = move || {
            wanting.get_permit(wanting.own_peer().parker());
            assert_eq!(number(wanting.next()), 7);
            // What comes now is for the thread that lent it.
            wanting.mock.push_foreign(Job::new(0));
            wanting.leave();
        };
        let lend = move || {
            let idle = owner.mock.idle();
            if !idle.wanting().is_empty() && idle.free() == 0 {
                owner.lend_permit();
            }
            assert_eq!(number(owner.next()), 0);
            owner.leave();
        };
        turn.race(lend, [want]);
        mock.assert_settled();
    });
}

#[test]
fn a_thread_that_leaves_wakes_another_for_what_waits() {
    explore(3, |turn| {
        let (mock, [leaver, sleeper]) = mock(1);
        let sleeper = sleeper.arrive().asleep();
        let leaver = leaver.arrive();
        let pusher = mock.clone();
        let parties: [Box<dyn FnOnce()>; 2] = [
            Box::new(move || pusher.push_foreign(Job::new(0))),
            Box::new(move || assert_eq!(number(sleeper.next()), 0)),
        ];
        turn.race(|| leaver.leave(), parties);
        mock.assert_settled();
    });
}

#[test]
fn a_permit_that_is_revoked_goes_to_what_waits() {
    explore(2, |turn| {
        let (mock, [stuck, sleeper]) = mock(1);
        let sleeper = sleeper.arrive().asleep();
        let stuck = stuck.arrive();
        let taken = Arc::new(Parker::new());
        let over = taken.clone();
        let monitor = mock.clone();
        let poll = move || {
            revoke(&monitor, 0);
            // Its poll lasts until another thread has the job.
            over.park();
            stuck.leave();
        };
        let pusher = mock.clone();
        let parties: [Box<dyn FnOnce()>; 2] = [
            Box::new(move || pusher.push_foreign(Job::new(0))),
            Box::new(move || {
                assert_eq!(number(sleeper.next()), 0);
                taken.unpark(|| unreachable!("nobody waits in a netpoll here"));
            }),
        ];
        turn.race(poll, parties);
        mock.assert_settled();
    });
}

#[test]
fn a_permit_is_revoked_before_its_thread_is_awake() {
    explore(3, |turn| {
        let (mock, [sleeper]) = mock(1);
        let sleeper = sleeper.arrive().asleep();
        let submitter = mock.clone();
        // The monitor's look is an old one: from before the thread fell asleep.
        let submit = move || {
            submitter.push_foreign(Job::new(0));
            revoke(&submitter, 0);
        };
        let work = move || assert_eq!(number(sleeper.next()), 0);
        turn.race(work, [submit]);
        mock.assert_settled();
    });
}

#[test]
fn a_thread_wakes_up_while_its_permit_comes_and_goes() {
    explore(2, |turn| {
        let (mock, [sleeper]) = mock(1);
        let sleeper = sleeper.arrive().asleep();
        mock.push_pinned(0, Job::new(7));
        let submitter = mock.clone();
        let submit = move || {
            submitter.push_foreign(Job::new(0));
            revoke(&submitter, 0);
        };
        let work = move || assert_eq!(number(sleeper.next()) + number(sleeper.next()), 7);
        turn.race(work, [submit]);
        mock.assert_settled();
    });
}

#[test]
fn what_relied_on_a_thread_that_was_revoked_asleep_is_taken() {
    explore(1, |turn| {
        let (mock, sleepers) = mock::<2>(2);
        let sleepers = sleepers.map(|worker| worker.arrive().asleep());
        let pair = Pair::new();
        let submitter = mock.clone();
        let submit = move || {
            submitter.push_foreign(Job::new(0));
            revoke(&submitter, 0);
            submitter.push_foreign(Job::new(1));
        };
        turn.race(submit, sleepers.map(|sleeper| pair.taken_by(sleeper)));
        mock.assert_settled();
    });
}

/// Whether what comes first has come.
#[derive(Clone)]
struct First(Arc<AtomicBool>);

impl First {
    fn new() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    fn has_come(&self) {
        self.0.store(true, Observer);
    }

    fn assert_came(&self) {
        assert!(self.0.load(Observer), "who wants one comes last");
    }

    /// The thread that does the only job, and gives its permit up.
    fn done_by(&self, sleeper: Worker) -> Box<dyn FnOnce()> {
        let first = self.clone();
        Box::new(move || {
            assert_eq!(number(sleeper.next()), 0);
            first.has_come();
            sleeper.leave();
        })
    }

    /// A thread that stands at `WANTING` from the beginning.
    fn then(&self, wanting: Worker, over: impl FnOnce() + 'static) -> Box<dyn FnOnce()> {
        let first = self.clone();
        Box::new(move || {
            wanting.go_on();
            first.assert_came();
            over();
            wanting.leave();
        })
    }
}

#[test]
fn work_of_a_stuck_poll_comes_before_one_that_wants() {
    explore(2, |turn| {
        let (mock, [stuck, wanting, sleeper]) = mock(1);
        let sleeper = sleeper.arrive().asleep();
        let stuck = stuck.arrive();
        let wanting = wanting.arrive().wanting();
        stuck.push_back(Job::new(0));
        let work = First::new();
        let monitor = mock.clone();
        let poll = move || {
            revoke(&monitor, 0);
            stuck.leave();
        };
        turn.race(poll, [work.done_by(sleeper), work.then(wanting, || ())]);
        mock.assert_settled();
    });
}

#[test]
fn work_beside_a_permit_that_is_not_wanted_any_more() {
    explore(2, |turn| {
        let (mock, [stuck, wanting, sleeper]) = mock(1);
        let sleeper = sleeper.arrive().asleep();
        // Work is the only reason to wake anybody.
        mock.polled_by(2);
        let stuck = stuck.arrive();
        let wanting = wanting.arrive().wanting();
        let (monitor, pusher) = (mock.clone(), mock.clone());
        let parties: [Box<dyn FnOnce()>; 2] = [
            // What it waited for has come by itself.
            Box::new(move || {
                wanting.was_answered();
                wanting.leave();
            }),
            Box::new(move || pusher.push_foreign(Job::new(0))),
        ];
        turn.race(move || revoke(&monitor, 0), parties);
        assert_eq!(number(sleeper.next()), 0);
        sleeper.leave();
        stuck.leave();
        mock.assert_settled();
    });
}

#[test]
fn work_comes_before_one_that_waits_at_a_fork() {
    explore(2, |turn| {
        let (mock, [forks, wanting, sleeper]) = mock(1);
        let sleeper = sleeper.arrive().asleep();
        // Work is the only reason to wake anybody.
        mock.polled_by(2);
        let forks = forks.arrive();
        let wanting = wanting.arrive().wanting();
        mock.push_foreign(Job::new(0));
        let work = First::new();
        let before = work.clone();
        let give_way = move || {
            forks.give_way(forks.own_peer().parker());
            before.assert_came();
            forks.leave();
        };
        turn.race(give_way, [work.done_by(sleeper), work.then(wanting, || ())]);
        mock.assert_settled();
    });
}

#[test]
fn a_poller_comes_before_one_that_waits_at_a_fork() {
    explore(2, |turn| {
        let (mock, [forks, wanting, sleeper]) = mock(1);
        let sleeper = sleeper.arrive().asleep();
        let forks = forks.arrive();
        let wanting = wanting.arrive().wanting();
        let poller = First::new();
        let before = poller.clone();
        // The thread that goes on last lets it end.
        let [one, other] = [mock.clone(), mock.clone()];
        let alone = Arc::new(AtomicBool::new(true));
        let [first, second] = [alone.clone(), alone];
        let give_way = move || {
            forks.give_way(forks.own_peer().parker());
            before.assert_came();
            if !first.swap(false, Observer) {
                one.close();
            }
            forks.leave();
        };
        let close = move || {
            if !second.swap(false, Observer) {
                other.close();
            }
        };
        let came = poller.clone();
        let poll: Box<dyn FnOnce()> = Box::new(move || {
            sleeper.sleep();
            came.has_come();
            assert!(matches!(sleeper.next(), Found::Closed));
        });
        turn.race(give_way, [poll, poller.then(wanting, close)]);
        mock.assert_settled();
    });
}

#[test]
fn one_that_gave_way_beside_a_spinner_goes_on() {
    explore(3, |turn| {
        let (mock, [forks, spinner]) = arrived(2);
        let spinner = spinner.start_spinning();
        mock.push_foreign(Job::new(0));
        let gone_on = Arc::new(Parker::new());
        let over = gone_on.clone();
        let give_way = move || {
            forks.give_way(forks.own_peer().parker());
            gone_on.unpark(|| unreachable!("nobody waits in a netpoll here"));
            forks.leave();
        };
        let work = move || {
            assert_eq!(number(spinner.next()), 0);
            // Its poll lasts until the other goes on.
            over.park();
            spinner.leave();
        };
        turn.race(give_way, [work]);
        mock.assert_settled();
    });
}

#[test]
fn work_that_comes_while_a_thread_gives_way() {
    explore(2, |turn| {
        let (mock, [forks, sleeper]) = mock(1);
        let sleeper = sleeper.arrive().asleep();
        let forks = forks.arrive();
        let work = First::new();
        let give_way = move || {
            forks.give_way(forks.own_peer().parker());
            forks.leave();
        };
        let pusher = mock.clone();
        let push: Box<dyn FnOnce()> = Box::new(move || pusher.push_foreign(Job::new(0)));
        turn.race(give_way, [push, work.done_by(sleeper)]);
        mock.assert_settled();
    });
}
