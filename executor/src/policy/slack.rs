//! *Timer slack*: whether timers wait for the next ones, so that they fire together; see
//! `sched/wait.rs`. Times are in nanoseconds of the runtime's clock.

use super::{
    Heuristic,
    constants::{SLACK_AFTER, SLACK_TIMERS, TIMER_SLACK},
};

/// Whether a wait that has ended with `fired` timers was worth less than it cost.
#[inline]
pub(crate) fn is_burst(fired: usize) -> bool {
    fired >= SLACK_TIMERS && Heuristic::TimerSlack.is_on()
}

/// Waits that ended with a burst, one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bursts {
    /// When the first of them ended.
    pub(crate) since: u64,
    /// When the last one ended.
    pub(crate) last: u64,
}

impl Bursts {
    /// Whether a burst now is one more of them.
    #[inline]
    pub(crate) fn go_on(last: u64, now: u64) -> bool {
        last + 2 * TIMER_SLACK >= now
    }

    /// When a thread wakes up for a timer of that moment. What was due already when the last burst
    /// came was left over.
    #[inline]
    pub(crate) fn wakes_at(self, next: u64) -> u64 {
        if next <= self.last || self.since + SLACK_AFTER > self.last {
            return next;
        }
        next.max(self.last + TIMER_SLACK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    #[test]
    fn a_burst_is_two_timers() {
        assert_eq!([0, 1, 2, 1_000].map(is_burst), [false, false, true, true]);
    }

    #[test]
    fn bursts_go_on_for_twice_the_slack() {
        let last = 5_000 * US;
        for (later, go_on) in [(0, true), (400 * US, true), (400 * US + 1, false)] {
            assert_eq!(Bursts::go_on(last, last + later), go_on, "{later}");
        }
    }

    #[test]
    fn timers_have_slack_after_bursts_for_a_millisecond() {
        let since = 5_000 * US;
        // How long they last, when the next timer is due after the last, and when a thread wakes.
        for (lasted, next, wakes) in [
            (0, 10, 10),
            (999, 10, 10),
            (1_000, 10, 200),
            (1_000, 200, 200),
            (1_000, 300, 300),
            (9_000, 1, 200),
            (9_000, 0, 0),
        ] {
            let last = since + lasted * US;
            let wakes_at = Bursts { since, last }.wakes_at(last + next * US);
            assert_eq!(wakes_at, last + wakes * US, "{lasted} {next}");
        }
        let (since, last) = (0, 5_000 * US);
        let left = Bursts { since, last }.wakes_at(last - US);
        assert_eq!(left, last - US, "it was left over");
    }
}
