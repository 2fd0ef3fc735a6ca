//! Something that may happen often is done once in a while: a report of it, or a try that will
//! mostly fail.

use std::time::{Duration, Instant};

use crate::sync::Mutex;

/// Time between two reports of one kind.
pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Passes at most once in a period, by the clock of the system: that of the runtime may stand
/// still. The others are counted.
#[derive(Debug)]
pub(crate) struct Throttle {
    period: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When it passed last.
    last: Option<Instant>,
    /// How many did not pass since then.
    left_out: u64,
}

impl Throttle {
    pub(crate) fn new(period: Duration) -> Self {
        Self {
            period,
            state: Mutex::default(),
        }
    }

    /// True for the first caller, and for the first one of each period after that.
    pub(crate) fn passes(&self) -> bool {
        self.admit().is_some()
    }

    /// The same. If this one passes: how many did not, since the last one that did.
    pub(crate) fn admit(&self) -> Option<u64> {
        self.admit_at(Instant::now())
    }

    /// One that passed was left out after all, with the count that it got.
    pub(crate) fn take_back(&self, left_out: u64) {
        self.state.lock().left_out += left_out + 1;
    }

    fn admit_at(&self, now: Instant) -> Option<u64> {
        let State { last, left_out } = &mut *self.state.lock();
        if last.is_some_and(|last| apart(now, last) < self.period) {
            *left_out += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(left_out))
    }
}

/// The time between two moments. A moment is before the last one if its caller was slow, by a
/// little; or if the clock went back, perhaps by much. Then nothing is to wait until the clock has
/// caught up.
fn apart(one: Instant, other: Instant) -> Duration {
    one.saturating_duration_since(other)
        .max(other.saturating_duration_since(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_passes_in_a_period_and_the_others_are_counted() {
        let throttle = Throttle::new(REPORT_EVERY);
        let begin = Instant::now();
        let nearly = REPORT_EVERY - Duration::from_nanos(1);
        assert_eq!(throttle.admit_at(begin), Some(0), "the first one");
        assert_eq!(throttle.admit_at(begin), None);
        assert_eq!(throttle.admit_at(begin + nearly), None);
        assert_eq!(throttle.admit_at(begin + REPORT_EVERY), Some(2));
        let slow = begin + Duration::from_nanos(1);
        assert_eq!(throttle.admit_at(slow), None, "a caller that was slow");
        assert_eq!(throttle.admit_at(begin + REPORT_EVERY + nearly), None);
        assert_eq!(throttle.admit_at(begin + 2 * REPORT_EVERY), Some(2));
        assert_eq!(throttle.admit_at(begin + 4 * REPORT_EVERY), Some(0));
    }

    #[test]
    fn a_clock_that_goes_back_holds_up_no_report_for_longer_than_two_periods() {
        let throttle = Throttle::new(REPORT_EVERY);
        let begin = Instant::now();
        let before = begin + 60 * REPORT_EVERY;
        assert_eq!(throttle.admit_at(before), Some(0));
        assert_eq!(throttle.admit_at(before), None);
        assert_eq!(throttle.admit_at(begin), Some(1), "the clock went back");
        assert_eq!(throttle.admit_at(begin), None);
        assert_eq!(throttle.admit_at(begin + REPORT_EVERY), Some(1));
    }
}
