//! What time it is: one clock for each runtime, real or virtual.
//!
//! Inside the runtime, a moment is a `u64`: nanoseconds since the clock's epoch. It fits an atomic,
//! compares in one instruction, and reaches 584 years. At the surface it is a `std` instant, which
//! a user may have got anywhere. Both count whole nanoseconds, so nothing is rounded on the way,
//! and a deadline in one is due exactly when it is due in the other.
//!
//! A real clock is the system's monotonic clock. A virtual one stands still until code moves it:
//! the simulator and tests of timers do. Code that asks a [`Clock`] and not the system runs under
//! both. A virtual clock may also be let go: then it runs as the system's does, ahead of it or
//! behind it by what the time that it stood still has made. One thread at a time stops it and lets
//! it go; another that reads it in that moment may see a time of a moment before.
//!
//! The system's clock may go back, as two threads read it on a machine whose processors disagree.
//! So no code subtracts two moments without `saturating_sub`: a span is then zero, and not 584
//! years. A span that something waits for begins anew, where that something must not wait until the
//! clock has caught up: see `begins_at_most` in `monitor/classify.rs`, and `throttle.rs`. A real
//! clock never shows a moment before its epoch. If the system's clock is there, it stands still.
//! Checked by `tests/the_clock_may_go_back.rs`; what users see of it is in `docs/platforms.md`.
//!
//! A deadline 500 years or more after the epoch counts as [`NEVER`]. So `sleep(Duration::MAX)` has
//! an instant to show although no instant is far enough, and a virtual clock that jumps to the next
//! deadline does not jump there. The price: a clock lasts 500 years. A test of a calendar may ask
//! that much of a virtual one.

use std::time::{Duration, Instant};

use crate::sync::{
    atomic::{AtomicBool, AtomicU64, Ordering},
    hint,
};
use crate::timer::heap::NEVER;

/// Further ahead than a program looks, and near enough to fit 64 bits of nanoseconds and a `std`
/// instant on all systems.
pub(crate) const FAR: Duration = Duration::from_secs(500 * 365 * 24 * 60 * 60);

/// A source of time for one runtime.
#[derive(Debug)]
pub(crate) enum Clock {
    /// The system's monotonic clock.
    Real {
        /// When the clock was made.
        epoch: Instant,
    },
    /// A clock that is moved by hand.
    Virtual {
        /// When the clock was made: what its instants are counted from.
        epoch: Instant,
        /// How far it was moved since, in nanoseconds. It says nothing while the clock runs.
        now_ns: AtomicU64,
        /// It runs as the system's clock does.
        runs: AtomicBool,
        /// While it runs: what it is ahead of the time since the epoch, modulo 2^64.
        ahead: AtomicU64,
    },
}

impl Clock {
    /// Makes a clock that follows the system's.
    pub(crate) fn real() -> Self {
        Self::Real {
            epoch: Instant::now(),
        }
    }

    /// Makes a clock that stands still at zero.
    pub(crate) fn stopped() -> Self {
        Self::Virtual {
            epoch: Instant::now(),
            now_ns: AtomicU64::new(0),
            runs: AtomicBool::new(false),
            ahead: AtomicU64::new(0),
        }
    }

    /// Moves a virtual clock.
    ///
    /// # Panics
    ///
    /// Panics if the clock is real.
    #[cfg_attr(not(test), expect(dead_code, reason = "used by tests"))]
    pub(crate) fn advance(&self, by: Duration) {
        let Self::Virtual { now_ns, .. } = self else {
            panic!("a real clock cannot be moved");
        };
        let by = u64::try_from(by.as_nanos()).expect("a step of less than 584 years");
        // Ordering: Relaxed. The clock only counts; what happens at a time is handed over by locks.
        now_ns.fetch_add(by, Ordering::Relaxed);
    }

    /// Moves a virtual clock forward to a moment; nothing if it is there already.
    pub(crate) fn jump_to(&self, ns: u64) {
        if let Self::Virtual { now_ns, .. } = self {
            // Ordering: Relaxed, as in `advance`.
            now_ns.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// Whether it stands still until code moves it.
    pub(crate) fn is_frozen(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `let_go` and `freeze`, for what they wrote
        // before.
        matches!(self, Self::Virtual { runs, .. } if !runs.load(Ordering::Acquire))
    }

    /// Lets a virtual clock run on from where it stands.
    pub(crate) fn let_go(&self) {
        if let Self::Virtual {
            epoch,
            now_ns,
            runs,
            ahead,
        } = self
        {
            let now = now_ns.load(Ordering::Relaxed);
            ahead.store(
                now.wrapping_sub(saturating_ns(epoch.elapsed())),
                Ordering::Relaxed,
            );
            // Ordering: Release publishes `ahead`.
            runs.store(true, Ordering::Release);
        }
    }

    /// Stops a virtual clock where it is.
    pub(crate) fn freeze(&self) {
        if let Self::Virtual { now_ns, runs, .. } = self {
            now_ns.store(self.now_ns(), Ordering::Relaxed);
            // Ordering: Release publishes `now_ns`.
            runs.store(false, Ordering::Release);
        }
    }

    /// Tells whether the clock is moved by hand.
    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual { .. })
    }

    /// Passes a moment of waiting for the clock: the thread's, or on a virtual clock a microsecond,
    /// since no other thread would move that.
    pub(crate) fn pause(&self) {
        match self {
            Self::Real { .. } => hint::spin_loop(),
            // Ordering: Relaxed, see `advance`.
            Self::Virtual { now_ns, .. } => {
                now_ns.fetch_add(1000, Ordering::Relaxed);
            }
        }
    }

    /// Returns the time, in nanoseconds since the epoch.
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            Self::Real { epoch } => saturating_ns(epoch.elapsed()),
            // Ordering: Relaxed, see `advance`.
            Self::Virtual { now_ns, .. } if self.is_frozen() => now_ns.load(Ordering::Relaxed),
            Self::Virtual { epoch, ahead, .. } => {
                saturating_ns(epoch.elapsed()).wrapping_add(ahead.load(Ordering::Relaxed))
            }
        }
    }

    /// Returns the time as an instant.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::Real { .. } => Instant::now(),
            Self::Virtual { epoch, .. } => *epoch + Duration::from_nanos(self.now_ns()),
        }
    }

    /// Converts an instant: zero if it is before the epoch, [`NEVER`] if it is [`FAR`] after it.
    pub(crate) fn to_ns(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.epoch());
        if since >= FAR {
            NEVER
        } else {
            saturating_ns(since)
        }
    }

    /// Converts back. [`NEVER`], like anything so far, becomes some instant beyond all need.
    #[expect(
        clippy::wrong_self_convention,
        reason = "the pair of `to_ns`: both need the epoch"
    )]
    pub(crate) fn from_ns(&self, ns: u64) -> Instant {
        self.epoch() + Duration::from_nanos(ns).min(FAR)
    }

    fn epoch(&self) -> Instant {
        match self {
            Self::Real { epoch } | Self::Virtual { epoch, .. } => *epoch,
        }
    }
}

fn saturating_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Clock {
        /// Moves a virtual clock to a moment, perhaps back: to where another virtual thread stands.
        pub(crate) fn set(&self, ns: u64) {
            if let Self::Virtual { now_ns, .. } = self {
                // Ordering: Relaxed, as in `advance`.
                now_ns.store(ns, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn nanoseconds_and_instants_agree() {
        for clock in [Clock::real(), Clock::stopped()] {
            for ns in [0, 1, 999, 1_000_000_007, u64::from(u32::MAX) * 1000 + 1] {
                let instant = clock.from_ns(ns);
                assert_eq!(clock.to_ns(instant), ns);
            }
        }
    }

    #[test]
    fn both_ends_saturate() {
        let clock = Clock::stopped();
        let epoch = clock.now();
        if let Some(before) = epoch.checked_sub(Duration::from_nanos(1)) {
            assert_eq!(clock.to_ns(before), 0);
        }
        assert!(clock.to_ns(epoch + FAR - Duration::from_nanos(1)) < NEVER);
        assert_eq!(clock.to_ns(epoch + FAR), NEVER);
        assert_eq!(clock.from_ns(NEVER), epoch + FAR);
    }

    #[test]
    fn a_virtual_clock_moves_only_by_hand() {
        let clock = Clock::stopped();
        let start = clock.now();
        assert_eq!(clock.now_ns(), 0);
        clock.advance(Duration::from_micros(3));
        assert_eq!(clock.now_ns(), 3000);
        assert_eq!(clock.now() - start, Duration::from_micros(3));
        assert!(clock.is_virtual() && !Clock::real().is_virtual());
    }

    #[test]
    fn a_virtual_clock_runs_on_from_where_it_stood() {
        let clock = Clock::stopped();
        let hour = 3_600_000_000_000;
        clock.jump_to(hour);
        assert!(clock.is_frozen());
        clock.let_go();
        assert!(!clock.is_frozen());
        let first = clock.now_ns();
        assert!((hour..2 * hour).contains(&first));
        while clock.now_ns() == first {}
        clock.freeze();
        let stopped = clock.now_ns();
        assert!(stopped > first && clock.is_frozen());
        assert_eq!(clock.now_ns(), stopped);
        clock.let_go();
        assert!((stopped..2 * hour).contains(&clock.now_ns()));
    }

    #[test]
    #[should_panic(expected = "a real clock cannot be moved")]
    fn a_real_clock_cannot_be_moved() {
        Clock::real().advance(Duration::ZERO);
    }

    /// Fails if the time since the epoch counts twice.
    #[test]
    fn an_old_virtual_clock_runs_on_from_where_it_stood() {
        let hour = 3_600_000_000_000;
        let clock = Clock::Virtual {
            epoch: Instant::now() - Duration::from_nanos(hour),
            now_ns: AtomicU64::new(7),
            runs: AtomicBool::new(false),
            ahead: AtomicU64::new(0),
        };
        clock.let_go();
        assert!((7..hour).contains(&clock.now_ns()));
    }

    /// Fails if a clock goes back to a moment that it is beyond.
    #[test]
    fn a_jump_never_goes_back() {
        let clock = Clock::stopped();
        clock.jump_to(7);
        clock.jump_to(5);
        assert_eq!(clock.now_ns(), 7);
        clock.pause();
        assert!(clock.now_ns() > 7, "a spin until that moment ends");
    }
}
