//! The monotonic clock of a host: the simulated time, with jumps and drift.
//!
//! # How it works
//!
//! Between two faults the clock is a line. It showed `shown` at the time `at`. Since then it has
//! gone on by `rate` nanoseconds in each millisecond. A jump moves `shown`. A new rate begins a new
//! line where the old one ends.
//!
//! *Invariant*: it never goes back, and [`Clock::time_of`] is the first time at which it shows at
//! least what was asked for. So a timer that waits for that time is due then.
//!
//! Rejected: a clock that is the time plus a number. It has no drift, and two hosts whose clocks
//! drift apart are what leases have to stand.

/// The latest time to which a jump sets a clock, and of a run, in nanoseconds: 146 years.
pub(crate) const LATEST: u64 = 1 << 62;

/// A rate that keeps to the simulated time, in parts per million.
const TRUE: u64 = 1_000_000;

/// See the module's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    at: u64,
    shown: u64,
    /// Parts per million of the simulated time, and not zero.
    rate: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            at: 0,
            shown: 0,
            rate: TRUE,
        }
    }
}

/// `number` times `a` through `b`, or the largest number there is.
fn scaled(number: u64, a: u64, b: u64, round_up: bool) -> u64 {
    let product = u128::from(number) * u128::from(a);
    let extra = if round_up { u128::from(b) - 1 } else { 0 };
    u64::try_from((product + extra) / u128::from(b)).unwrap_or(u64::MAX)
}

impl Clock {
    /// What it shows at a simulated time, both in nanoseconds.
    pub(crate) fn shows(&self, time: u64) -> u64 {
        let passed = time.saturating_sub(self.at);
        self.shown.saturating_add(match self.rate {
            TRUE => passed,
            rate => scaled(passed, rate, TRUE, false),
        })
    }

    /// The first simulated time at which it shows at least so much.
    pub(crate) fn time_of(&self, shown: u64) -> u64 {
        let wait = shown.saturating_sub(self.shown);
        self.at.saturating_add(match self.rate {
            TRUE => wait,
            rate => scaled(wait, TRUE, rate, true),
        })
    }

    /// Moves it forward, up to [`LATEST`].
    pub(crate) fn jump(&mut self, time: u64, by: u64) {
        let shown = self.shows(time);
        self.shown = shown.saturating_add(by).min(LATEST.max(shown));
        self.at = time;
    }

    /// Lets it run faster from now on, by parts per million, or slower.
    pub(crate) fn drift(&mut self, time: u64, parts_per_million: i32) {
        self.jump(time, 0);
        let rate = TRUE.saturating_add_signed(parts_per_million.into());
        self.rate = rate.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_time_then_jumps_and_drifts() {
        let mut clock = Clock::default();
        assert_eq!((clock.shows(7), clock.time_of(7)), (7, 7));
        clock.jump(100, 50);
        assert_eq!((clock.shows(100), clock.time_of(151)), (150, 101));
        // What it has shown already was at the jump at the latest.
        assert_eq!(clock.time_of(120), 100);
        clock.drift(1_000, 1_000);
        assert_eq!(clock.shows(1_000), 1_050);
        assert_eq!(clock.shows(1_001_000), 1_050 + 1_001_000);
        clock.drift(1_001_000, -500_000);
        assert_eq!(clock.shows(1_001_010), 1_050 + 1_001_000 + 5);
        assert!(clock.shows(u64::MAX) > 1 << 62);
    }

    // Every rate, at times that divide by nothing.
    #[test]
    fn a_timer_is_due_at_its_time_and_not_before() {
        for drift in [-999_999, -700_001, -1, 0, 1, 37, 1_000_003, i32::MAX] {
            let mut clock = Clock::default();
            clock.jump(13, 5);
            clock.drift(29, drift);
            for shown in (40..4_000).step_by(17) {
                let due = clock.time_of(shown);
                assert!(clock.shows(due) >= shown, "{drift} {shown}");
                assert!(due == 29 || clock.shows(due - 1) < shown, "{drift} {shown}");
            }
            assert!(clock.time_of(u64::MAX) > 29);
        }
    }
}
