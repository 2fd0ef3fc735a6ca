//! A point in time of the runtime's clock.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::context;
use crate::sync::Arc;
use crate::timer::TimerShard;
use crate::timer::clock::FAR;

/// A moment of a monotonic clock.
///
/// It is [`std::time::Instant`] with one difference: [`now`](Self::now) asks the clock of the
/// runtime it is called in, which in simulations and in tests of timers may be a virtual one. The
/// two convert into each other for free.
///
/// ```
/// use std::time::Duration;
/// use ws::time::Instant;
///
/// let start = Instant::now();
/// let deadline = start + Duration::from_millis(30);
/// assert!(deadline > start);
/// assert_eq!(deadline - start, Duration::from_millis(30));
///
/// let std: std::time::Instant = deadline.into();
/// assert_eq!(Instant::from(std), deadline);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(std::time::Instant);

impl Instant {
    /// Returns the current time.
    ///
    /// In a runtime with virtual time this is the virtual time. Anywhere else, also outside of all
    /// runtimes, it is the system's.
    ///
    /// ```
    /// use ws::time::Instant;
    ///
    /// let earlier = Instant::now();
    /// assert!(Instant::now() >= earlier);
    /// ```
    #[must_use]
    pub fn now() -> Self {
        context::with_timers(Self::on)
    }

    /// Returns the time of the clock that these timers go by, or of the system.
    fn on(timers: Option<&Arc<TimerShard>>) -> Self {
        match timers {
            Some(timers) => Self(timers.clock().now()),
            None => Self(std::time::Instant::now()),
        }
    }

    /// Wraps an instant of the standard library.
    ///
    /// ```
    /// use ws::time::Instant;
    ///
    /// let std = std::time::Instant::now();
    /// assert_eq!(Instant::from_std(std).into_std(), std);
    /// ```
    #[must_use]
    pub const fn from_std(std: std::time::Instant) -> Self {
        Self(std)
    }

    /// Unwraps it.
    #[must_use]
    pub const fn into_std(self) -> std::time::Instant {
        self.0
    }

    /// Returns the time that has passed since this instant; zero if it lies in the future.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::time::Instant;
    ///
    /// let tomorrow = Instant::now() + Duration::from_secs(24 * 60 * 60);
    /// assert_eq!(tomorrow.elapsed(), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// Returns the time from `earlier` to this instant; zero if `earlier` is the later one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::time::Instant;
    ///
    /// let now = Instant::now();
    /// let later = now + Duration::from_secs(1);
    /// assert_eq!(later.duration_since(now), Duration::from_secs(1));
    /// assert_eq!(now.duration_since(later), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// Returns the time from `earlier` to this instant, or `None` if `earlier` is the later one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::time::Instant;
    ///
    /// let now = Instant::now();
    /// let later = now + Duration::from_secs(1);
    /// assert_eq!(later.checked_duration_since(now), Some(Duration::from_secs(1)));
    /// assert_eq!(now.checked_duration_since(later), None);
    /// ```
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        self.0.checked_duration_since(earlier.0)
    }

    /// Returns the time from `earlier` to this instant; zero if `earlier` is the later one. The
    /// same as [`duration_since`](Self::duration_since), under the name that `std` has for it.
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }

    /// Returns the instant `duration` later, or `None` if the system cannot represent it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::time::Instant;
    ///
    /// let now = Instant::now();
    /// assert!(now.checked_add(Duration::from_secs(1)).is_some());
    /// assert!(now.checked_add(Duration::MAX).is_none());
    /// ```
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    /// Returns the instant `duration` earlier, or `None` if the system cannot represent it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::time::Instant;
    ///
    /// assert!(Instant::now().checked_sub(Duration::MAX).is_none());
    /// ```
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }

    /// The instant `duration` later, or, if that is too far to represent, one that counts as never.
    pub(crate) fn add_or_never(self, duration: Duration) -> Self {
        self.checked_add(duration).unwrap_or_else(|| self + FAR)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<std::time::Instant> for Instant {
    fn from(std: std::time::Instant) -> Self {
        Self(std)
    }
}

impl From<Instant> for std::time::Instant {
    fn from(instant: Instant) -> Self {
        instant.0
    }
}

/// Panics if the system cannot represent the sum, as `std` does.
impl Add<Duration> for Instant {
    type Output = Self;

    #[track_caller]
    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    #[track_caller]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

/// Panics if the system cannot represent the difference, as `std` does.
impl Sub<Duration> for Instant {
    type Output = Self;

    #[track_caller]
    fn sub(self, duration: Duration) -> Self {
        Self(self.0 - duration)
    }
}

impl SubAssign<Duration> for Instant {
    #[track_caller]
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

/// Saturates at zero, see [`Instant::duration_since`].
impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::Clock;
    use crate::timer::heap::NEVER;
    use crate::timer::test_util::{Bench, MS};

    #[test]
    fn arithmetic_agrees_with_std() {
        let std = std::time::Instant::now();
        let second = Duration::from_secs(1);
        let mut instant = Instant::from(std);
        assert_eq!(instant + second, Instant::from(std + second));
        instant += second;
        assert_eq!(instant.into_std(), std + second);
        instant -= second;
        assert_eq!(instant.into_std(), std);
        assert_eq!((instant + second) - second, instant);
        assert_eq!((instant + second) - instant, second);
        assert_eq!(instant - (instant + second), Duration::ZERO);
        assert_eq!(format!("{instant:?}"), format!("{std:?}"));
    }

    #[test]
    fn now_is_that_of_the_runtimes_clock() {
        let bench = Bench::new();
        let start = Instant::on(Some(bench.timers.shard()));
        assert_eq!(Instant::on(Some(bench.timers.shard())), start);
        bench.advance(MS);
        assert_eq!(Instant::on(Some(bench.timers.shard())) - start, MS);
        let before = std::time::Instant::now();
        assert!(Instant::on(None).into_std() >= before);
    }

    #[test]
    fn what_is_too_far_counts_as_never() {
        let clock = Clock::stopped();
        let now = Instant::from_std(clock.now());
        assert_eq!(
            now.add_or_never(Duration::from_nanos(7)),
            now + Duration::from_nanos(7)
        );
        assert_eq!(
            clock.to_ns(now.add_or_never(Duration::MAX).into_std()),
            NEVER
        );
        clock.advance(Duration::from_secs(1_000_000));
        let now = Instant::from_std(clock.now());
        assert_eq!(
            clock.to_ns(now.add_or_never(Duration::MAX).into_std()),
            NEVER
        );
    }

    #[test]
    fn what_is_checked_is_told() {
        let now = Instant::from_std(Clock::stopped().now());
        let later = now + MS;
        assert_eq!(later.checked_duration_since(now), Some(MS));
        assert_eq!(now.checked_duration_since(later), None);
        assert_eq!(later.checked_sub(MS), Some(now));
        assert_eq!(now.checked_add(MS), Some(later));
        assert_eq!(now.checked_add(Duration::MAX), None);
    }
}
