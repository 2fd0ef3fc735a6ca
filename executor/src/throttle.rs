//! Something that may happen often is done once in a while: a report of it, or a try that will mostly fail.

use std::time::{Duration, Instant};

use crate::sync::Mutex;

/// Time between two reports of one kind.
pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Passes at most once in a period, by the clock of the system: that of the runtime may stand still.
#[derive(Debug)]
pub(crate) struct Throttle {
    period: Duration,
    last: Mutex<Option<Instant>>,
}

impl Throttle {
    pub(crate) fn new(period: Duration) -> Self {
        Self {
            period,
            last: Mutex::new(None),
        }
    }

    /// True for the first caller, and for the first one of each period after that.
    pub(crate) fn passes(&self) -> bool {
        self.passes_at(Instant::now())
    }

    fn passes_at(&self, now: Instant) -> bool {
        let mut last = self.last.lock();
        let passes = last.is_none_or(|last| now.saturating_duration_since(last) >= self.period);
        if passes {
            *last = Some(now);
        }
        passes
    }
}

#[cfg(all(test, not(ws_loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_passes_once_in_a_period() {
        let throttle = Throttle::new(REPORT_EVERY);
        let begin = Instant::now();
        let nearly = REPORT_EVERY - Duration::from_nanos(1);
        assert!(throttle.passes_at(begin), "the first one");
        assert!(!throttle.passes_at(begin));
        assert!(!throttle.passes_at(begin + nearly));
        assert!(throttle.passes_at(begin + REPORT_EVERY));
        assert!(!throttle.passes_at(begin), "a caller that was slow");
        assert!(!throttle.passes_at(begin + REPORT_EVERY + nearly));
        assert!(throttle.passes_at(begin + 2 * REPORT_EVERY));
    }
}
