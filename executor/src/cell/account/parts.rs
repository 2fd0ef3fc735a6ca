//! A number of two parts.
//!
//! Of polls, wakes and moves the cell has the lowest bits, 32, 8 and 8 of them. The rest is in the
//! box, as a count of *halves*: how often the highest bit in the cell has changed. So the two parts
//! overlap by one bit, which is the same in both, or the cell is one half ahead
//! ([`Part::whole`]). The thread that writes changes the bit first and counts it then, before the
//! next half is over. So a reader between the two gets the right number. It reads the halves again
//! afterwards, and begins anew if there is one more. (Rejected: to carry what overflows. A reader
//! in the middle would be wrong by that.)

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// How often the highest bit in the cell has changed.
#[derive(Debug, Default)]
pub(super) struct Halves {
    pub(super) polls: AtomicU32,
    pub(super) moves: AtomicU32,
    pub(super) wakes: AtomicU64,
}

impl Halves {
    /// One more half; on the one thread that writes.
    pub(super) fn count(&self, add: impl FnOnce(&Self)) {
        add(self);
        // Ordering: Release, pairs with the fence in `Part::read`: a reader that sees a part of
        // the next half sees this one counted.
        fence(Release);
    }
}

/// The part of a number that is in the cell: so many bits.
pub(super) struct Part(u32);

pub(super) const POLLS: Part = Part(32);
pub(super) const WAKES: Part = Part(8);
pub(super) const MOVES: Part = Part(8);

impl Part {
    pub(super) const fn half(&self) -> u64 {
        1 << (self.0 - 1)
    }

    /// Whether a half ends with the last one that was counted.
    #[inline(always)]
    pub(super) const fn ends_a_half(&self, part: u64) -> bool {
        part & (self.half() - 1) == 0
    }

    /// The whole number.
    fn whole(&self, halves: u64, part: u64) -> u64 {
        let is_ahead = ((part / self.half()) ^ halves) & 1;
        (halves + is_ahead) * self.half() + part % self.half()
    }

    /// The whole number, of its halves and of the part in the cell.
    pub(super) fn read(&self, halves: impl Fn() -> u64, here: impl Fn() -> u64) -> u64 {
        loop {
            let before = halves();
            let here = here();
            // Ordering: Acquire, pairs with the fence in `Halves::count`.
            fence(Acquire);
            if halves() == before {
                return self.whole(before, here);
            }
        }
    }
}

/// Adds; on the one thread that writes.
pub(super) fn add(number: &AtomicU64, n: u64) {
    number.store(number.load(Relaxed) + n, Relaxed);
}

/// Adds one; on the one thread that writes.
pub(super) fn add_one(number: &AtomicU32) {
    number.store(number.load(Relaxed).wrapping_add(1), Relaxed);
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_half_that_is_not_counted_yet_is_seen() {
        for n in 0..2000 {
            let part = n % 256;
            for halves in [n / 128, (n / 128_u64).saturating_sub(1)] {
                assert_eq!(WAKES.whole(halves, part), n);
            }
        }
    }

    /// Fails if a reader puts halves together with a part of much later.
    #[test]
    fn a_reader_that_is_overtaken_begins_anew() {
        let halves = RefCell::new([0, 3, 3, 3].into_iter());
        let next = || halves.borrow_mut().next().expect("two readings");
        assert_eq!(WAKES.read(next, || 128 + 3), 3 * 128 + 3);
    }
}
