//! *What is heard* (L6): `permit/env.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `a_timer_that_is_armed_beside_a_release` | a thread without a permit arms a timer and goes away, while the permit is given up for a block that waits for that timer: a third one waits in the netpoll | 2 | 2 | `heard_wakes_nobody`, `heard_relies_on_who_goes`, `heard_release_does_not_look` |
//! | `a_thread_leaves_the_netpoll_beside_a_release` | the same where a thread comes from the netpoll, and goes away without a permit | 2 | 2 | `heard_leave_no_fence`, `heard_leave_forgets` |
//!
//! A timer that nobody waits for is a deadlock, which loom reports.

use super::{both_ways::explore, mock::mock_with_net};
use crate::permit::sleep::Sleeper;

#[test]
fn a_timer_that_is_armed_beside_a_release() {
    explore(2, |turn| {
        let (mock, [owner, foreign, sleeper]) = mock_with_net(1);
        let sleeper = sleeper.arrive().asleep();
        let owner = owner.arrive();
        // The permit is taken.
        let foreign = foreign.arrive();
        let blocks = move || {
            owner.begin_blocking();
            owner.mock.wait_for_the_timer();
            owner.leave();
        };
        let arms = move || {
            foreign.mock.arm();
            foreign.leave();
        };
        let others: [Box<dyn FnOnce()>; 2] =
            [Box::new(arms), Box::new(move || sleeper.wait_in_turn())];
        turn.race(blocks, others);
        mock.assert_settled();
    });
}

#[test]
fn a_thread_leaves_the_netpoll_beside_a_release() {
    explore(2, |turn| {
        let (mock, [owner, foreign, sleeper]) = mock_with_net(1);
        let sleeper = sleeper.arrive().asleep();
        let owner = owner.arrive();
        let foreign = foreign.arrive();
        let blocks = move || {
            owner.mock.arm();
            owner.begin_blocking();
            owner.mock.wait_for_the_timer();
            owner.leave();
        };
        let comes = move || {
            foreign.come_from_the_netpoll();
            foreign.leave();
        };
        let others: [Box<dyn FnOnce()>; 2] =
            [Box::new(comes), Box::new(move || sleeper.wait_in_turn())];
        turn.race(blocks, others);
        mock.assert_settled();
    });
}
