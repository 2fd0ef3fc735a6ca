//! *The spinning hand-over*: `permit/idle.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `nobody_sleeps_while_work_waits` | a submit meets a spinner that retires | 3 | 0.1 | `idle_no_last_look`, `idle_release_keeps_the_spinner`, `idle_submit_no_fence` |
//! | `work_that_came_while_no_permit_was_free_is_found` | a submit that found no permit free meets a release | 3 | 0.1 | `idle_release_no_fence` |
//! | `a_spinner_that_finds_work_sees_to_the_rest` | what was pushed in reliance on a spinner is taken, also when the spinner is busy from then on, or was about to sleep | 2 | 4.0 | `idle_last_look_does_not_spin`, `idle_last_spinner_does_not_look`, `idle_stop_spinning_no_fence` |
//! | `a_thief_comes_while_its_victim_is_busy` | the same for a push into the own ring | 3 | 0.2 | also `idle_no_last_look`, `idle_submit_no_fence`, `idle_release_no_fence` |
//! | `a_batch_wakes_one_after_the_other` | a batch comes to as many threads as there are permits | 2 | 0.7 | also `idle_last_spinner_does_not_look` |
//! | `one_that_pushes_ends_a_long_rest` | a push meets the monitor, which is about to rest for long | 3 | 0.1 | `idle_rest_no_fence`, `idle_rest_does_not_look`, `idle_push_rouses_nobody` |
//! | `a_thread_that_could_not_be_started_strands_nothing` | a wake-up that fails at the cap leaves no work behind that relied on it | 1 | 0.8 | `idle_refusal_does_not_look` |
//!
//! Threads that sleep while work waits are a deadlock, which loom reports.

use super::{
    both_ways::explore,
    mock::{Job, Pair, mock, number},
};
use crate::permit::env::Env;

#[test]
fn nobody_sleeps_while_work_waits() {
    explore(3, |turn| {
        let (mock, [worker]) = mock(1);
        let worker = worker.arrive().start_spinning();
        let submitter = mock.clone();
        let work = move || assert_eq!(number(worker.next()), 0);
        turn.race(work, [move || submitter.push_foreign(Job::new(0))]);
        mock.assert_settled();
    });
}

#[test]
fn work_that_came_while_no_permit_was_free_is_found() {
    explore(3, |turn| {
        let (mock, [worker]) = mock(1);
        // It does not spin: half of those that are busy do already, say.
        let worker = worker.arrive();
        let submitter = mock.clone();
        let work = move || assert_eq!(number(worker.park_and_next()), 0);
        turn.race(work, [move || submitter.push_foreign(Job::new(0))]);
        mock.assert_settled();
    });
}

#[test]
fn a_spinner_that_finds_work_sees_to_the_rest() {
    explore(2, |turn| {
        let (mock, [sleeper, spinner]) = mock(2);
        let sleeper = sleeper.arrive().asleep();
        let spinner = spinner.arrive().start_spinning();
        let pair = Pair::new();
        let submitter = mock.clone();
        let submits = move || {
            submitter.push_foreign(Job::new(0));
            submitter.push_foreign(Job::new(1));
        };
        let workers = [sleeper, spinner].map(|worker| pair.taken_by(worker));
        turn.race(submits, workers);
        mock.assert_settled();
    });
}

#[test]
fn a_thief_comes_while_its_victim_is_busy() {
    explore(3, |turn| {
        let (mock, [victim, thief]) = mock(2);
        let victim = victim.arrive();
        let thief = thief.arrive().start_spinning();
        let pair = Pair::new();
        let busy = pair.clone();
        let victim = move || {
            victim.push_back(Job::new(0));
            // Its poll lasts until the job was taken.
            busy.do_one();
        };
        turn.race(victim, [pair.taken_by(thief)]);
        mock.assert_settled();
    });
}

#[test]
fn a_batch_wakes_one_after_the_other() {
    explore(2, |turn| {
        let (mock, workers) = mock::<2>(2);
        let sleepers = workers.map(|worker| worker.arrive().asleep());
        let pair = Pair::new();
        let submitter = mock.clone();
        let submits = move || submitter.push_all([Job::new(0), Job::new(1)]);
        turn.race(submits, sleepers.map(|sleeper| pair.taken_by(sleeper)));
        mock.assert_settled();
    });
}

#[test]
fn one_that_pushes_ends_a_long_rest() {
    explore(3, |turn| {
        let (mock, [worker]) = mock(1);
        // The permit is taken: a push wakes nobody else.
        let worker = worker.arrive();
        let (submitter, env) = (mock.clone(), mock.clone());
        let rest = move || {
            let idle = env.idle();
            if idle.monitor_may_rest(|| env.has_queued()) {
                idle.monitor().park();
                assert!(env.has_queued(), "it woke up for that");
            }
        };
        turn.race(rest, [move || submitter.push_foreign(Job::new(0))]);
        assert_eq!(number(worker.next()), 0);
        mock.assert_settled();
    });
}

#[test]
fn a_thread_that_could_not_be_started_strands_nothing() {
    explore(1, |turn| {
        // One thread, at the cap, and two permits: the second wakes nobody.
        let (mock, [worker]) = mock(2);
        let worker = worker.arrive();
        let submitters = [0, 1].map(|number| {
            let mock = mock.clone();
            move || mock.push_foreign(Job::new(number))
        });
        let work = move || assert_eq!(number(worker.next()) + number(worker.next()), 1);
        turn.race(work, submitters);
        mock.assert_settled();
    });
}
