//! Back-off: whether to try something that may be in vain, by what came of it the last times.
//!
//! If it was in vain too often in a row, a pause follows. After one more time in vain the next
//! pause is twice as long, and so on up to a limit. Between two pauses it is tried once. After one
//! success it is trusted again. Programs are of one kind or of the other, so this costs little
//! either way.
//!
//! A pause is a number of tries that are skipped ([`Backoff`]), or a time ([`TimedBackoff`]).

use std::{cell::Cell, time::Duration};

/// What a back-off tolerates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Times in vain in a row that no pause follows.
    pub(crate) trust: u32,
    /// Longest pause, in units of the first one: a power of two.
    pub(crate) pause_max: u32,
}

impl Limits {
    /// The number of times in vain in a row, after one more try. It stops where the pause does.
    #[inline]
    fn in_vain(self, before: u32, paid: bool) -> u32 {
        if paid {
            0
        } else {
            (before + 1).min(self.trust + self.pause_max.ilog2() + 1)
        }
    }

    /// The pause after so many times in vain in a row: none, then 1, 2, 4 and so on.
    #[inline]
    fn pause(self, in_vain: u32) -> u32 {
        debug_assert!(self.pause_max.is_power_of_two());
        (1 << in_vain.saturating_sub(self.trust)) >> 1
    }
}

/// A back-off that counts tries.
#[derive(Debug)]
pub(crate) struct Backoff {
    limits: Limits,
    /// How often in a row it was in vain.
    in_vain: Cell<u32>,
    /// How often it is still skipped now.
    pass: Cell<u32>,
}

impl Backoff {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            in_vain: Cell::new(0),
            pass: Cell::new(0),
        }
    }

    /// Whether to try it this time. What comes of it is to be [`settle`](Self::settle)d. If it was
    /// not tried after all, it is due the next time as well.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let left = self.pass.get();
        self.pass.set(left.saturating_sub(1));
        left == 0
    }

    /// The next time would be in vain: it is not tried.
    pub(crate) fn skip_one(&self) {
        self.pass.set(self.pass.get().max(1));
    }

    #[inline]
    pub(crate) fn settle(&self, paid: bool) {
        let in_vain = self.limits.in_vain(self.in_vain.get(), paid);
        self.in_vain.set(in_vain);
        self.pass.set(self.limits.pause(in_vain));
    }
}

/// A back-off by time. Moments are in nanoseconds of one clock.
#[derive(Debug)]
pub(crate) struct TimedBackoff {
    limits: Limits,
    /// The first pause.
    unit: Duration,
    /// How often in a row it was in vain.
    in_vain: Cell<u32>,
    /// When it was tried last.
    tried_at: Cell<u64>,
    /// What came of the last try is not known yet.
    pending: Cell<bool>,
}

impl TimedBackoff {
    pub(crate) const fn new(limits: Limits, unit: Duration) -> Self {
        Self {
            limits,
            unit,
            in_vain: Cell::new(0),
            tried_at: Cell::new(0),
            pending: Cell::new(false),
        }
    }

    /// Exchanges what two of the same limits have seen.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn swap(&self, other: &Self) {
        self.in_vain.swap(&other.in_vain);
        self.tried_at.swap(&other.tried_at);
        self.pending.swap(&other.pending);
    }

    /// Whether to try it now. Asks for the time only in a pause.
    pub(crate) fn is_due(&self, now: impl FnOnce() -> u64) -> bool {
        let pause = self.limits.pause(self.in_vain.get());
        // The clock of another runtime may have been ahead of this one's.
        pause == 0
            || now()
                .checked_sub(self.tried_at.get())
                .is_none_or(|since| since >= self.unit.as_nanos() as u64 * u64::from(pause))
    }

    /// It is tried.
    pub(crate) fn begin(&self, now: u64) {
        self.tried_at.set(now);
        self.pending.set(true);
    }

    /// What came of it. A try is in vain only once, however often that is said.
    #[inline]
    pub(crate) fn settle(&self, paid: bool) {
        if self.pending.replace(false) || paid {
            let in_vain = self.limits.in_vain(self.in_vain.get(), paid);
            self.in_vain.set(in_vain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUST: u32 = 4;
    const MOST: u32 = 64;
    const LIMITS: Limits = Limits {
        trust: TRUST,
        pause_max: MOST,
    };

    /// How often it is due in `tries` tries, if each comes to what `paid` says.
    fn due(backoff: &Backoff, tries: u32, paid: bool) -> u32 {
        let mut due = 0;
        for _ in 0..tries {
            if backoff.is_due() {
                due += 1;
                backoff.settle(paid);
            }
        }
        due
    }

    #[test]
    fn what_pays_is_always_tried() {
        let backoff = Backoff::new(LIMITS);
        assert_eq!(due(&backoff, 100, true), 100);
        due(&backoff, 1000, false);
        let pause = due(&backoff, MOST + 1, true);
        assert!(pause >= 1, "it is never tried again");
        assert_eq!(due(&backoff, 100, true), 100, "one success is enough");
    }

    #[test]
    fn what_is_in_vain_is_mostly_let_pass() {
        let backoff = Backoff::new(LIMITS);
        assert_eq!(due(&backoff, TRUST, false), TRUST);
        due(&backoff, 1000, false);
        assert_eq!(due(&backoff, 10 * (MOST + 1), false), 10);
    }

    #[test]
    fn a_pause_doubles_up_to_its_limit() {
        let mut in_vain = 0;
        let mut next = |paid| {
            in_vain = LIMITS.in_vain(in_vain, paid);
            LIMITS.pause(in_vain)
        };
        let pauses = Vec::from_iter((0..13).map(|_| next(false)));
        assert_eq!(pauses, [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(next(true), 0);
        assert_eq!(next(false), 0);
    }

    /// A timed one that was in vain so often, the last time at that moment.
    fn timed(in_vain: u32, at: u64) -> TimedBackoff {
        let backoff = TimedBackoff::new(LIMITS, Duration::from_nanos(10));
        for _ in 0..in_vain {
            backoff.begin(at);
            backoff.settle(false);
        }
        backoff
    }

    #[test]
    fn a_pause_may_be_a_time() {
        for (in_vain, pause) in [(5, 10), (6, 20), (11, 640), (99, 640)] {
            let backoff = timed(in_vain, 1000);
            assert!(!backoff.is_due(|| 1000 + pause - 1), "{in_vain}");
            assert!(backoff.is_due(|| 1000 + pause), "{in_vain}");
        }
        assert!(timed(TRUST, 0).is_due(|| panic!("it reads no clock")));
        let backoff = timed(5, 1000);
        backoff.settle(true);
        assert!(backoff.is_due(|| 1000), "one success is enough");
    }

    #[test]
    fn a_try_is_in_vain_once() {
        let backoff = timed(TRUST, 1000);
        (0..9).for_each(|_| backoff.settle(false));
        assert!(backoff.is_due(|| 1000));
    }

    /// L1: a thread that woke no other for long in one runtime wakes one in the next.
    #[test]
    fn a_pause_in_one_runtime_is_none_in_another() {
        let then = 3_600_000_000_000;
        let backoff = timed(5, then);
        assert!(!backoff.is_due(|| then + 1));
        assert!(backoff.is_due(|| 1), "that clock begins anew");
    }
}
