//! One measurement: what a child prints and the parent reads.
//!
//! A [`Meter`] spans the measured part alone, after the set-up and a warm-up. Everything but the
//! peak of memory is for one operation, so that rows of different sizes compare.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::sys::{self, Usage};

/// What came of one turn of one runtime at one workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// It ran.
    Measured(Measure),
    /// It cannot run here, and this is why. Shown, so that nobody takes it for a result.
    Skipped(String),
    /// It should have run and did not.
    Failed(String),
}

/// The figures of one turn. Smaller is better in all of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measure {
    /// The figure that runtimes are compared by, in the unit of the row: mostly `wall_ns`.
    pub(crate) value: f64,
    /// Operations in the measured part.
    pub(crate) ops: u64,
    /// Time for each.
    pub(crate) wall_ns: f64,
    /// User and system time for each, of all threads.
    pub(crate) cpu_ns: f64,
    /// Voluntary context switches for each.
    pub(crate) voluntary: f64,
    /// Involuntary context switches for each.
    pub(crate) involuntary: f64,
    /// Peak of resident memory of the whole process, filled in at its end.
    pub(crate) peak_rss_kib: u64,
    /// Further columns of this row, such as a second percentile.
    pub(crate) extras: Vec<Extra>,
}

/// A further column: a name with its unit, and the figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Extra {
    pub(crate) name: String,
    pub(crate) value: f64,
}

impl Measure {
    /// Compares runtimes by this figure instead of the time.
    #[must_use]
    pub(crate) fn by(mut self, value: f64) -> Self {
        self.value = value;
        self
    }

    /// Adds a column.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: f64) -> Self {
        self.extras.push(Extra {
            name: name.into(),
            value,
        });
        self
    }

    /// Compares runtimes by the 99th percentile of these latencies, and shows median and maximum
    /// too.
    #[must_use]
    pub(crate) fn by_tail(self, mut latencies_ns: Vec<u64>) -> Self {
        latencies_ns.sort_unstable();
        let [p50, p99, max] = [50, 99, 100].map(|percent| percentile(&latencies_ns, percent));
        self.tail(p50, p99, max)
    }

    /// The same of percentiles that are known.
    #[must_use]
    pub(crate) fn tail(self, p50_ns: f64, p99_ns: f64, max_ns: f64) -> Self {
        self.by(p99_ns)
            .with("p50_us", p50_ns / 1e3)
            .with("p99_us", p99_ns / 1e3)
            .with("max_us", max_ns / 1e3)
    }

    /// Compares runtimes by the median of these latencies, and shows median and 99th percentile.
    #[must_use]
    pub(crate) fn by_latencies(self, mut latencies_ns: Vec<u64>) -> Self {
        latencies_ns.sort_unstable();
        let p50 = percentile(&latencies_ns, 50);
        let p99 = percentile(&latencies_ns, 99);
        self.by(p50)
            .with("p50_us", p50 / 1e3)
            .with("p99_us", p99 / 1e3)
    }
}

/// A running measurement.
#[derive(Debug)]
pub(crate) struct Meter {
    began: Instant,
    before: Usage,
}

impl Meter {
    /// Begins. The clock is read last here and first at the end, so that only the work is inside.
    pub(crate) fn start() -> Self {
        let before = sys::usage();
        Meter {
            began: Instant::now(),
            before,
        }
    }

    /// Ends, after so many operations.
    pub(crate) fn stop(self, ops: usize) -> Measure {
        let wall = self.began.elapsed();
        self.stop_after(ops, wall)
    }

    /// Ends, for work that somebody else took the time of.
    pub(crate) fn stop_after(self, ops: usize, wall: Duration) -> Measure {
        let after = sys::usage();
        let each = |total: u64| total as f64 / ops as f64;
        let wall_ns = wall.as_nanos() as f64 / ops as f64;
        Measure {
            value: wall_ns,
            ops: ops as u64,
            wall_ns,
            cpu_ns: each(after.cpu_ns - self.before.cpu_ns),
            voluntary: each(after.voluntary - self.before.voluntary),
            involuntary: each(after.involuntary - self.before.involuntary),
            peak_rss_kib: 0,
            extras: Vec::new(),
        }
    }
}

/// The nearest-rank percentile of a sorted list.
///
/// # Panics
///
/// Panics if the list is empty.
pub(crate) fn percentile(sorted: &[u64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1] as f64
}

/// A latency as the tables hold it.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("no latency lasts for centuries")
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentile_is_the_nearest_rank() {
        let sorted: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&sorted, 50), 100.0);
        assert_eq!(percentile(&sorted, 99), 198.0);
        assert_eq!(percentile(&[7], 1), 7.0);
    }
}
