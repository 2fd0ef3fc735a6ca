//! Priorities and sleep: a task in an ordered queue is work, and no worker sleeps beside it (I5).
//! The queues themselves have models of their own, in `queue/src/models/ordered.rs`.
//!
//! The models use the environment in `mock.rs`, as those of `idle.rs` do. A model that fails is a
//! deadlock. The bound is that of preemptions.
//!
//! | model | shows | bound | killed by it |
//! | --- | --- | --- | --- |
//! | `nobody_sleeps_while_urgent_work_waits` | a push for all by priority meets a spinner that retires: the last look sees the shared ordered queue | 3 | `ordered_last_look_passes_the_shared_one_by` |
//! | `a_thief_comes_for_urgent_work` | the same for a push into the own ordered queue of a thread that is busy from then on | 2 | `ordered_last_look_passes_others_by` |

use super::{
    both_ways::explore,
    mock::{self, Pair, mock_with_order, number},
};

#[test]
fn nobody_sleeps_while_urgent_work_waits() {
    explore(3, |turn| {
        let (mock, [worker]) = mock_with_order(1);
        let worker = worker.arrive().start_spinning();
        let submitter = mock.clone();
        let work = move || assert_eq!(number(worker.next()), 0);
        let submit = move || submitter.push_foreign(mock::Job::urgent(0));
        turn.race(work, [submit]);
        mock.assert_settled();
    });
}

#[test]
fn a_thief_comes_for_urgent_work() {
    explore(2, |turn| {
        let (mock, [victim, thief]) = mock_with_order(2);
        let victim = victim.arrive();
        let thief = thief.arrive().start_spinning();
        let pair = Pair::new();
        let busy = pair.clone();
        let victim = move || {
            victim.push_back(mock::Job::urgent(0));
            // Its poll lasts until the job was taken.
            busy.do_one();
        };
        turn.race(victim, [pair.taken_by(thief)]);
        mock.assert_settled();
    });
}
