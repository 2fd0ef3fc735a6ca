//! *Crowded*: other programs want the cores too, so the monitor looks less often.
//!
//! Each time the monitor wakes, a worker may lose its core to another program for milliseconds. So
//! while no permit is free, and for [`LOOKS`] looks after one that saw a thread with a permit wait
//! for a core, the period is longer (`pace.rs`). It stays short if one of these is under way:
//!
//! - a thread is stuck;
//! - a poll is long, by the CPU time that it took, or because it blocks;
//! - the global queue waits for *slow polls* (`find.rs`).
//!
//! With the longer period, a thread that blocks is found within 4 ms, and one that computes loses
//! its permit after 14 ms.

/// Number of looks for which that holds after one that saw it. Guessed: at this number, the looks
/// between cost nothing.
pub(super) const LOOKS: u32 = 64;

/// Number of looks for which it still holds.
#[derive(Debug, Default)]
pub(super) struct Crowded(u32);

impl Crowded {
    /// A look, which has seen nothing yet.
    pub(super) fn look(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }

    /// This look saw it.
    pub(super) fn seen(&mut self) {
        self.0 = LOOKS;
    }

    pub(super) fn holds(&self) -> bool {
        self.0 > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_for_some_looks() {
        let mut crowded = Crowded::default();
        crowded.look();
        assert!(!crowded.holds());
        crowded.seen();
        for _ in 0..LOOKS {
            assert!(crowded.holds());
            crowded.look();
        }
        assert!(!crowded.holds());
    }
}
