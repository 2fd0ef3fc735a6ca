//! The random numbers of a disk. Each draw goes into the digest of the run.

use crate::rng::Rng;

/// A generator, and a hash of what was drawn.
#[derive(Debug)]
pub(super) struct Dice {
    rng: Rng,
    digest: u64,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            digest: 0,
        }
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    /// Takes a number into the digest.
    pub(super) fn note(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// A number from 0 to `end`, without `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        let drawn = self.rng.below(end);
        self.note(drawn);
        drawn
    }

    /// True with a chance of `ppm` parts per million. It draws nothing if the answer is sure.
    pub(super) fn chance(&mut self, ppm: u32) -> bool {
        let hit = self.rng.chance(ppm);
        if ppm > 0 {
            self.note(u64::from(hit));
        }
        hit
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    /// For what a latency draws itself.
    pub(super) fn draw(&mut self, from: impl FnOnce(&mut Rng) -> u64) -> u64 {
        let drawn = from(&mut self.rng);
        self.note(drawn);
        drawn
    }

    /// How many of `count` things in a row reach the platter: none and all have a third each.
    pub(super) fn prefix(&mut self, count: u64) -> u64 {
        match self.below(3) {
            0 => 0,
            1 => count,
            _ => self.below(count + 1),
        }
    }
}
