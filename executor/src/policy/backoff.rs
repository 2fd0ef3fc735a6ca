//! Back-off: whether to try something that may be in vain, by what came of it the last times.
//!
//! If it was in vain too often in a row, it is skipped once, then two times in a row, then four,
//! and so on up to a limit. Between these it is tried once. After one success it is trusted again.
//! Programs are of one kind or of the other, so this costs little either way.

use std::cell::Cell;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// How often in a row it may be in vain before it is skipped for the first time.
    trust: u32,
    /// How often in a row it is skipped at most: a power of two.
    most: u32,
    /// How often in a row it was in vain.
    in_vain: Cell<u32>,
    /// How often it is still skipped now.
    pass: Cell<u32>,
}

impl Backoff {
    pub(crate) fn new(trust: u32, most: u32) -> Self {
        debug_assert!(most.is_power_of_two());
        Self {
            trust,
            most,
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

    #[inline]
    pub(crate) fn settle(&self, paid: bool) {
        let in_vain = if paid { 0 } else { self.in_vain.get() + 1 };
        let doublings = in_vain
            .saturating_sub(self.trust)
            .min(self.most.ilog2() + 1);
        self.in_vain.set(in_vain.min(self.trust + doublings));
        self.pass.set((1 << doublings) >> 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUST: u32 = 4;
    const MOST: u32 = 64;

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
        let backoff = Backoff::new(TRUST, MOST);
        assert_eq!(due(&backoff, 100, true), 100);
        due(&backoff, 1000, false);
        let pause = due(&backoff, MOST + 1, true);
        assert!(pause >= 1, "it is never tried again");
        assert_eq!(due(&backoff, 100, true), 100, "one success is enough");
    }

    #[test]
    fn what_is_in_vain_is_mostly_let_pass() {
        let backoff = Backoff::new(TRUST, MOST);
        assert_eq!(due(&backoff, TRUST, false), TRUST);
        due(&backoff, 1000, false);
        assert_eq!(due(&backoff, 10 * (MOST + 1), false), 10);
    }
}
