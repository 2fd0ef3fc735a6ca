//! The P that polled a task last, and what its next poll has to see to, in one word.

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// A P as an account notes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane(pub(super) u16);

/// In the word of a lane: the next wake is timed. A poll sees it by the comparison that it makes
/// anyway.
pub(super) const TIMED: u16 = 1 << 15;
/// The same: the next poll is traced.
pub(super) const TRACED: u16 = 1 << 14;
/// In the word of a P, and never in that of a task: the next poll is looked at (`measure.rs`). So
/// the same comparison sees this, too.
const LOOKED_AT: u16 = 1 << 13;
pub(super) const BITS: u16 = TIMED | TRACED | LOOKED_AT;

/// The lane of a P, as its polls compare it. Other threads may set [`LOOKED_AT`].
#[derive(Debug)]
pub(crate) struct LaneWord(AtomicU16);

impl Lane {
    /// Polled nowhere yet, or by a thread that is no P's.
    pub(crate) const NONE: Self = Self(0);

    /// Of more than 8,191 Ps some have the same: a move between these does not count.
    pub(crate) fn of(processor: usize) -> Self {
        Self((processor % usize::from(!BITS)) as u16 + 1)
    }

    /// Whether the poll that compares it is looked at.
    pub(crate) fn is_looked_at(self) -> bool {
        self.0 & LOOKED_AT != 0
    }

    pub(super) fn plain(self) -> Self {
        Self(self.0 & !LOOKED_AT)
    }
}

impl LaneWord {
    /// The first poll is looked at.
    pub(crate) fn new(lane: Lane) -> Self {
        Self(AtomicU16::new(lane.0 | LOOKED_AT))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Lane {
        Lane(self.0.load(Relaxed))
    }

    /// The next poll is looked at, or is not. A P's thread writes it, and threads that have a look
    /// at each of the polls; in `measure.rs` is why no look of theirs is lost.
    pub(crate) fn look_at_next(&self, is_looked_at: bool) {
        let lane = self.get().plain().0;
        let bit = if is_looked_at { LOOKED_AT } else { 0 };
        self.0.store(lane | bit, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_never_none_and_has_none_of_the_bits() {
        for processor in [0, 1, 8_190, 8_191, 16_382, usize::MAX] {
            let lane = Lane::of(processor);
            assert!(lane != Lane::NONE && lane.0 & BITS == 0, "{processor}");
        }
        assert_eq!(Lane::of(8_191), Lane::of(0));
    }

    #[test]
    fn the_first_poll_of_a_p_is_looked_at() {
        let word = LaneWord::new(Lane::of(3));
        for is_looked_at in [true, false, true, false] {
            word.look_at_next(is_looked_at);
            assert_eq!(word.get().is_looked_at(), is_looked_at);
            assert_eq!(word.get().plain(), Lane::of(3));
        }
        assert!(LaneWord::new(Lane::of(3)).get().is_looked_at());
    }
}
