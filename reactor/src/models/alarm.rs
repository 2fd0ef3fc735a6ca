//! The alarm: *Why no timer is slept through* and the invariant of the timer's setting, in
//! `alarm.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `a_timer_that_is_armed_beside_a_wait` | a timer that is earlier than what is waited for ends the wait, or is seen before it | 3 | 0.2 | `alarm_prepare_no_fence`, `alarm_arm_no_fence`, `alarm_aim_forgets_what_was_armed`, `alarm_forward_does_not_set`, `alarm_forward_lowers_without_the_lock` |
//! | `two_timers_one_after_the_other` | the same for the wait that follows: the setting of the timer was used up | 2 | 0.1 | `alarm_rang_keeps_the_setting` |
//! | `two_threads_arm_beside_a_wait` | of two deadlines that are armed at once the earlier one ends the wait | 2 | 1.2 | `alarm_lower_stores` |
//!
//! A timer that is slept through is a deadlock, which loom reports. Where there is no timerfd, and
//! bringing a deadline forward means to wake the poller, no model looks.

use std::time::{Duration, Instant};

use super::both_ways::explore;
use crate::{
    netpoll::Netpoll,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// No model lasts as long as this.
const HOUR: Duration = Duration::from_secs(3600);

/// The timers of a runtime. There is one that is a long way off, and others come that are due at
/// once.
struct Timers {
    netpoll: Arc<Netpoll>,
    /// Before the origin of the netpoll's timer.
    past: Instant,
    /// Timers that are due, and not fired yet.
    due: AtomicUsize,
}

impl Timers {
    fn new() -> Arc<Self> {
        let past = Instant::now();
        Arc::new(Self {
            netpoll: Netpoll::new().expect("this kernel knows no errors"),
            past,
            due: AtomicUsize::new(0),
        })
    }

    /// Arms a timer that is due.
    fn arm(&self) {
        self.due.fetch_add(1, Relaxed);
        self.netpoll.arm(|| self.past);
    }

    /// Arms one that is not, and is earlier than the one that is a long way off.
    fn arm_another(&self) {
        self.netpoll.arm(|| self.past + HOUR);
    }

    /// Waits as a worker does: looks at the timers once more before. Then fires what is due, and
    /// says how many.
    fn wait(&self) -> usize {
        let mut poller = self.netpoll.try_poller().expect("nobody else polls");
        poller.prepare();
        if self.due.load(Relaxed) == 0 {
            let result = poller.wait(Some(self.past + 2 * HOUR), &mut Vec::new());
            let result = result.expect("this kernel knows no errors");
            assert!(result.timed_out, "{result:?}");
        }
        self.due.swap(0, Relaxed)
    }
}

#[test]
fn a_timer_that_is_armed_beside_a_wait() {
    explore(3, |turn| {
        let timers = Timers::new();
        let arms = timers.clone();
        let wait = move || assert_eq!(timers.wait(), 1);
        turn.race(wait, [move || arms.arm()]);
    });
}

#[test]
fn two_timers_one_after_the_other() {
    explore(2, |turn| {
        let timers = Timers::new();
        let arms = timers.clone();
        let wait = move || {
            let mut fired = 0;
            while fired < 2 {
                fired += timers.wait();
            }
        };
        let arm = move || {
            arms.arm();
            arms.arm();
        };
        turn.race(wait, [arm]);
    });
}

#[test]
fn two_threads_arm_beside_a_wait() {
    explore(2, |turn| {
        let timers = Timers::new();
        let [first, second] = [timers.clone(), timers.clone()];
        let wait = move || assert_eq!(timers.wait(), 1);
        let others: [Box<dyn FnOnce()>; 2] = [
            Box::new(move || first.arm()),
            Box::new(move || second.arm_another()),
        ];
        turn.race(wait, others);
    });
}
