//! What a runtime counts, through the facade of the crate
//! [`metrics`](https://docs.rs/metrics) (feature `metrics`).
//!
//! A program that counts by `metrics::counter!` and the like has a recorder: an exporter for
//! Prometheus, StatsD, OpenTelemetry or another system. A [`Reporter`] gives that recorder the
//! numbers of a runtime, under the names that
//! [`Metrics::prometheus`](crate::runtime::Metrics::prometheus) has. So a dashboard fits both ways.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! #[ws::main]
//! async fn main() {
//!     // Install a recorder, and then:
//!     ws::spawn(ws::metrics::Reporter::current().every(Duration::from_secs(10)));
//!     // What the program is for.
//! }
//! ```
//!
//! # What a recorder gets
//!
//! | of | as | unit | labels |
//! | --- | --- | --- | --- |
//! | a number that only grows: `ws_polls_total` | a counter, its absolute value | count | `p`, the number of the P |
//! | a number of now: `ws_live_tasks` | a gauge | count | `p`, if it is a P's |
//! | `ws_poll_seconds`, `ws_wake_to_poll_seconds`, `ws_steal_to_poll_seconds` | a histogram | seconds | none |
//!
//! [`Reporter::label`] adds labels, such as the name of the runtime.
//!
//! # Histograms
//!
//! A runtime keeps no single times. It has counts by buckets, and `metrics` takes single
//! observations. So a report records each new one as the upper bound of its bucket, by
//! `record_many`:
//!
//! - The count is right. A time is up to a half of itself too long, and one below 128 ns counts as
//!   128 ns. So the sum that a recorder has is too large as well.
//! - A time above 68.7 s, the last bound, counts as 68.7 s.
//! - All observations since the last report come at its moment.
//! - Some recorders keep each observation until they are asked. At the flight recorder's level
//!   [`Full`](crate::trace::Level::Full), there is one for each poll.
//!
//! The text of Prometheus has the buckets and the exact sum.
//!
//! # What is absent
//!
//! A thread. A report is a plain call, and [`Reporter::every`] is a future.

use std::{convert::Infallible, time::Duration};

use ::metrics::{Key, KeyName, Label, Level, Metadata, Recorder, Unit};
use ws_executor::viewer::Value;

use crate::{
    runtime::{Durations, Handle, TryCurrentError},
    time,
};

/// The label of a P.
const OF_A_P: &str = "p";

const METADATA: Metadata<'_> = Metadata::new("ws", Level::INFO, Some(module_path!()));

/// Reports the numbers of one runtime to the recorder of the crate
/// [`metrics`](https://docs.rs/metrics).
///
/// It has what it reported last, since a recorder gets the new observations of a histogram. So a
/// runtime should have one reporter: two would tell all observations twice. Counters and gauges
/// stand as they are however many report.
///
/// It does not keep the runtime alive.
#[derive(Clone, Debug)]
pub struct Reporter {
    handle: Handle,
    labels: Vec<Label>,
    /// What of each histogram was reported, in their order.
    reported: Vec<Durations>,
}

impl Reporter {
    /// A reporter of the current runtime.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    pub fn current() -> Self {
        Self::of(&Handle::current())
    }

    /// A reporter of the current runtime, or an error outside of one.
    ///
    /// # Errors
    ///
    /// If this thread is in no runtime.
    pub fn try_current() -> Result<Self, TryCurrentError> {
        Handle::try_current().map(|handle| Self::of(&handle))
    }

    /// A reporter of that runtime.
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new()?;
    /// ws::metrics::Reporter::of(runtime.handle()).report();
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    pub fn of(runtime: &Handle) -> Self {
        Self {
            handle: runtime.clone(),
            labels: Vec::new(),
            reported: Vec::new(),
        }
    }

    /// Adds a label to each number: if a process has several runtimes, a name for each. A runtime
    /// that follows another one needs a name of its own, too: a counter never goes back, and the
    /// last values of a runtime that has ended stay.
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new()?;
    /// let reporter = ws::metrics::Reporter::of(runtime.handle()).label("runtime", "web");
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If there is a label of that name: `p` is one, the number of a P. Also if the name is `le` or
    /// `quantile`, which exporters of histograms need.
    #[track_caller]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        assert!(
            !["le", "quantile"].contains(&&*name),
            "this label is the exporter's: {name:?}"
        );
        let is_there = name == OF_A_P || self.labels.iter().any(|label| label.key() == name);
        assert!(!is_there, "there is a label of this name: {name:?}");
        self.labels.push(Label::new(name, value.into()));
        self
    }

    /// Reports all numbers as they are now.
    ///
    /// The recorder is that of this thread if it has one, or else that of the process. If there is
    /// none, the observations of histograms up to now are not told later either. So install the
    /// recorder first.
    ///
    /// It takes some microseconds for each P, and what the recorder takes.
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new()?;
    /// let mut reporter = ws::metrics::Reporter::of(runtime.handle());
    /// // In the handler of a request for the numbers, before they are shown:
    /// reporter.report();
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    pub fn report(&mut self) {
        ::metrics::with_recorder(|recorder| self.report_to(recorder));
    }

    /// Reports all numbers to this recorder.
    fn report_to(&mut self, recorder: &dyn Recorder) {
        let metrics = self.handle.metrics();
        let mut histograms = 0;
        for family in metrics.families() {
            let name = KeyName::from(family.name);
            for (number, sample) in family.samples.iter().enumerate() {
                let mut labels = self.labels.clone();
                labels.extend(sample.processor.map(|p| Label::new(OF_A_P, p.to_string())));
                let key = Key::from_parts(name.clone(), labels);
                // The recorder may have come since the last report. So it is told each time.
                let help = (number == 0).then(|| family.help.into());
                match sample.value {
                    Value::Counter(value) => {
                        if let Some(help) = help {
                            recorder.describe_counter(name.clone(), Some(Unit::Count), help);
                        }
                        recorder.register_counter(&key, &METADATA).absolute(value);
                    }
                    Value::Gauge(value) => {
                        if let Some(help) = help {
                            recorder.describe_gauge(name.clone(), Some(Unit::Count), help);
                        }
                        recorder.register_gauge(&key, &METADATA).set(value as f64);
                    }
                    Value::Histogram(durations) => {
                        if let Some(help) = help {
                            recorder.describe_histogram(name.clone(), Some(Unit::Seconds), help);
                        }
                        if histograms == self.reported.len() {
                            self.reported.push(Durations::default());
                        }
                        let reported = &mut self.reported[histograms];
                        let histogram = recorder.register_histogram(&key, &METADATA);
                        for (seconds, count) in new_ones(durations, reported) {
                            histogram.record_many(seconds, count);
                        }
                        *reported = durations.clone();
                        histograms += 1;
                    }
                }
            }
        }
    }

    /// Reports now, and again after each period. It never ends.
    ///
    /// If a report comes late, the next one is a period after it.
    ///
    /// # Cancellation
    ///
    /// It may be dropped at any time, as a task of it is when the runtime ends. A report that has
    /// begun is whole.
    ///
    /// # Panics
    ///
    /// If the period is zero, and outside of a runtime. That need not be the one that is reported.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// use ws::metrics::Reporter;
    ///
    /// # #[ws::main]
    /// # async fn main() {
    /// ws::spawn(Reporter::current().label("runtime", "web").every(Duration::from_secs(10)));
    /// # }
    /// ```
    pub async fn every(mut self, period: Duration) -> Infallible {
        let mut interval = time::interval(period);
        interval.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            self.report();
        }
    }
}

/// What there is now and was not yet reported: a time in seconds, and how often.
fn new_ones(now: &Durations, reported: &Durations) -> Vec<(f64, usize)> {
    let last_bound = now.buckets().filter_map(|(bound, _)| bound).last();
    let pairs = now.buckets().zip(reported.buckets());
    let pairs = pairs.map(|((bound, now), (_, reported))| {
        let bound = bound.or(last_bound).unwrap_or_default();
        let new = now.saturating_sub(reported);
        (
            bound.as_secs_f64(),
            usize::try_from(new).unwrap_or(usize::MAX),
        )
    });
    pairs.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests;
