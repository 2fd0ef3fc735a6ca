//! Where the runtime says what nobody asked for: a task that stalls, a panic that nobody joins.
//!
//! An event of `tracing`, if a subscriber listens on the thread that reports. Else a line on stderr, at most one a
//! second for each runtime; the next line counts those that were left out. A stderr that takes nothing changes nothing.

use std::{
    fmt,
    io::{self, Write},
    panic::Location,
    time::{Duration, Instant},
};

use tracing::{dispatcher::get_default, subscriber::NoSubscriber};

use crate::{
    sync::Mutex,
    task::{Id, report},
};

/// Least time between two reports of a kind.
pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Where a runtime reports stalls, and panics that nobody joins. See
/// [`Builder::reports`](crate::runtime::Builder::reports).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reports {
    /// To the `tracing` subscriber. Without one, to stderr.
    #[default]
    TracingOrStderr,
    /// To the `tracing` subscriber. Without one, to nobody.
    TracingOnly,
}

/// A task, as reports name it.
pub(crate) struct Subject<'a> {
    pub(crate) id: Id,
    pub(crate) name: Option<&'a str>,
    pub(crate) location: &'static Location<'static>,
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.id)?;
        if let Some(name) = self.name {
            write!(f, " {name:?}")?;
        }
        write!(f, ", spawned at {}", self.location)
    }
}

/// One in [`REPORT_EVERY`] passes; the others are counted.
#[derive(Debug, Default)]
pub(crate) struct AtMost(Mutex<(Option<Instant>, u64)>);

impl AtMost {
    /// If this one passes: how many did not, since the last one that did.
    pub(crate) fn admit(&self) -> Option<u64> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Option<u64> {
        let (last, left_out) = &mut *self.0.lock();
        if last.is_some_and(|last| now.saturating_duration_since(last) < REPORT_EVERY) {
            *left_out += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(left_out))
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Reporter {
    to: Reports,
    lines: AtMost,
}

impl Reporter {
    pub(crate) fn new(to: Reports) -> Self {
        Self {
            to,
            lines: AtMost::default(),
        }
    }

    /// Sends the event, or writes the words. The caller holds no lock: a subscriber is code of the user's.
    pub(crate) fn tell(&self, event: impl FnOnce(), words: impl fmt::Display) {
        report(|| {
            // Also without a subscriber: `tracing` may hand it to the crate `log`.
            event();
            if self.to == Reports::TracingOrStderr && get_default(|to| to.is::<NoSubscriber>()) {
                self.write(words);
            }
        });
    }

    fn write(&self, words: impl fmt::Display) {
        let Some(left_out) = self.lines.admit() else {
            return;
        };
        let more = match left_out {
            0 => String::new(),
            _ => format!(" ({left_out} reports before this one were left out)"),
        };
        // In one piece: other threads and processes may write there.
        let line = format!("ws: {words}{more}\n");
        // An error has nobody to go to: this is where errors go.
        drop(io::stderr().write_all(line.as_bytes()));
    }
}

#[cfg(all(test, not(ws_loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_passes_each_second_and_the_others_are_counted() {
        let limit = AtMost::default();
        let begin = Instant::now();
        let moment = Duration::from_nanos(1);
        assert_eq!(limit.admit_at(begin), Some(0));
        for later in [Duration::ZERO, moment, REPORT_EVERY - moment] {
            assert_eq!(limit.admit_at(begin + later), None);
        }
        assert_eq!(limit.admit_at(begin + REPORT_EVERY), Some(3));
        assert_eq!(limit.admit_at(begin + REPORT_EVERY + moment), None);
        assert_eq!(limit.admit_at(begin + 3 * REPORT_EVERY), Some(1));
    }
}
