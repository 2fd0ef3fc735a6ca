//! How long things took: counts by powers of two.
//!
//! Two buckets for each power of two, so a quantile is at most half of itself too high. One thread
//! writes those of a P; a reader adds all of them up.

use std::{fmt, sync::OnceLock, time::Duration};

use super::Counter;

/// Buckets: up to 2^7 ns, and two for each power of two up to 2^36 ns, which is 69 s, and one for
/// what took longer.
const BUCKETS: usize = 2 * (LAST - FIRST) as usize + 2;
const FIRST: u32 = 7;
const LAST: u32 = 36;

/// The bucket that a time belongs to: the first one whose bound is not below it.
fn bucket(ns: u64) -> usize {
    let below = ns.saturating_sub(1);
    if below < 1 << FIRST {
        return 0;
    }
    let power = below.ilog2();
    let upper_half = (below >> (power - 1)) as usize & 1;
    (1 + 2 * (power - FIRST) as usize + upper_half).min(BUCKETS - 1)
}

/// The upper bound of a bucket, which belongs to it; none for the last one.
fn bound(bucket: usize) -> Option<Duration> {
    let power = FIRST + bucket as u32 / 2;
    let ns = match bucket % 2 {
        0 => 1 << power,
        _ => (1 << power) + (1 << (power - 1)),
    };
    (bucket < BUCKETS - 1).then(|| Duration::from_nanos(ns))
}

/// What one thread has measured. The counts take 0.5 KiB, from the first one on.
#[derive(Debug, Default)]
pub(crate) struct Measured(OnceLock<Box<Counts>>);

#[derive(Debug)]
struct Counts {
    buckets: [Counter; BUCKETS],
    sum_ns: Counter,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| Counter::default()),
            sum_ns: Counter::default(),
        }
    }
}

impl Measured {
    /// Adds one, on the owner's thread.
    pub(crate) fn add(&self, ns: u64) {
        let counts = self.0.get_or_init(Box::default);
        counts.buckets[bucket(ns)].add(1);
        let sum = counts.sum_ns.get().saturating_add(ns);
        counts.sum_ns.add(sum - counts.sum_ns.get());
    }
}

/// How long things took, as a histogram: see [`Metrics`](super::Metrics).
///
/// ```
/// let durations = ws::runtime::Durations::default();
/// assert_eq!(durations.to_string(), "0 measured");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations {
    buckets: [u64; BUCKETS],
    sum: Duration,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            buckets: [0; BUCKETS],
            sum: Duration::ZERO,
        }
    }
}

impl Durations {
    #[cfg(test)]
    pub(crate) fn of(ns: impl IntoIterator<Item = u64>) -> Self {
        let (measured, mut durations) = (Measured::default(), Self::default());
        for ns in ns {
            measured.add(ns);
        }
        durations.add(&measured);
        durations
    }

    /// Adds what a thread has measured.
    pub(crate) fn add(&mut self, measured: &Measured) {
        let Some(measured) = measured.0.get() else {
            return;
        };
        for (count, more) in self.buckets.iter_mut().zip(&measured.buckets) {
            *count += more.get();
        }
        self.sum += Duration::from_nanos(measured.sum_ns.get());
    }

    /// How many were measured.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How long they took together.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// A time that this part of them did not exceed, such as 0.99; at most half of itself above the
    /// least such time, or 128 ns. `None` if nothing was measured. [`Duration::MAX`] if it is more
    /// than a minute.
    ///
    /// # Panics
    ///
    /// If the part is not between 0 and 1.
    ///
    /// ```
    /// let durations = ws::runtime::Durations::default();
    /// assert_eq!(durations.quantile(0.99), None);
    /// ```
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        assert!(
            (0.0..=1.0).contains(&part),
            "a part is between 0 and 1: it is {part}"
        );
        let count = self.count();
        let rank = ((count as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        self.buckets()
            .find(|(_, more)| {
                seen += more;
                count > 0 && seen >= rank
            })
            .map(|(bound, _)| bound.unwrap_or(Duration::MAX))
    }

    /// The buckets: the upper bound of each, which belongs to it, and how many it has. The last one
    /// has no bound.
    ///
    /// ```
    /// let durations = ws::runtime::Durations::default();
    /// let bounds: Vec<_> = durations.buckets().filter_map(|(bound, _)| bound).collect();
    /// assert!(bounds.is_sorted());
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let counts = self.buckets.iter().enumerate();
        counts.map(|(bucket, &count)| (bound(bucket), count))
    }
}

impl fmt::Display for Durations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count();
        write!(f, "{count} measured")?;
        let mut separator = ": ";
        for (name, part) in [("half", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("all", 1.0)] {
            match self.quantile(part) {
                None => {}
                Some(Duration::MAX) => write!(f, "{separator}{name} without a bound")?,
                Some(bound) => write!(f, "{separator}{name} within {bound:?}")?,
            }
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_within_its_bucket() {
        for ns in (0..1000).chain([1 << 20, (1 << 20) + 1, 3 << 19, (3 << 19) + 1, 1 << 36]) {
            let at = bucket(ns);
            let time = Duration::from_nanos(ns);
            assert!(bound(at).is_some_and(|bound| time <= bound), "{ns}");
            let below = at.checked_sub(1).and_then(bound);
            assert!(below.is_none_or(|below| time > below), "{ns}");
        }
        assert_eq!(bound(bucket((1 << 36) + 1)), None);
        assert_eq!(bound(bucket(u64::MAX)), None);
        assert_eq!(bound(0), Some(Duration::from_nanos(128)));
        assert_eq!(bound(BUCKETS - 2), Some(Duration::from_nanos(1 << LAST)));
    }

    #[test]
    fn a_quantile_is_the_bound_of_its_bucket() {
        let measured = Measured::default();
        for ns in [1_000, 1_000, 1_000, 1 << 20] {
            measured.add(ns);
        }
        let mut durations = Durations::default();
        durations.add(&measured);
        durations.add(&measured);
        assert_eq!(
            (durations.count(), durations.sum()),
            (8, Duration::from_nanos(2_103_152))
        );
        let at = |part| durations.quantile(part).unwrap().as_nanos();
        assert_eq!(
            [0.0, 0.5, 0.75, 0.76, 1.0].map(at),
            [1024, 1024, 1024, 1 << 20, 1 << 20]
        );
        let text = "8 measured: half within 1.024µs, 90 % within 1.048576ms, \
                    99 % within 1.048576ms, all within 1.048576ms";
        assert_eq!(durations.to_string(), text);
        measured.add(u64::MAX / 2);
        let mut long = Durations::default();
        long.add(&measured);
        assert_eq!(long.quantile(1.0), Some(Duration::MAX));
        assert!(long.to_string().ends_with(", all without a bound"));
    }

    #[test]
    #[should_panic(expected = "a part is between 0 and 1: it is 1.5")]
    fn there_is_no_quantile_beyond_all() {
        Durations::of([1]).quantile(1.5);
    }
}
