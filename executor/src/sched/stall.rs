//! Stalls: when they are reported, to whom, and what is said. Who finds them is `sysmon.rs`.

use std::{fmt, panic::Location, sync::Arc as StdArc, time::Duration};

use super::{Shared, processor::Peer};
use crate::{
    sync::atomic::Ordering::Relaxed,
    task::{Id, quietly, report},
};

/// At least so long between two reports.
pub(super) const REPORT_EVERY: Duration = Duration::from_secs(1);

/// When and how stalls are reported.
#[derive(Clone)]
pub(crate) struct Stall {
    pub(crate) threshold: Option<Duration>,
    pub(crate) hook: Option<StallHook>,
}

type StallHook = StdArc<dyn Fn(&StallReport) + Send + Sync>;

impl Default for Stall {
    fn default() -> Self {
        // Ten slices: well beyond what a poll should take, and far below what users notice.
        Self {
            threshold: Some(Duration::from_millis(100)),
            hook: None,
        }
    }
}

impl fmt::Debug for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stall")
            .field("threshold", &self.threshold)
            .field("hook", &self.hook.is_some())
            .finish()
    }
}

/// A task whose poll takes long. See [`Builder::on_stall`](crate::runtime::Builder::on_stall).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StallReport {
    /// The task's id.
    pub id: Id,
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// Where it was spawned.
    pub location: &'static Location<'static>,
    /// For how long the poll has been going on, at least.
    pub running_for: Duration,
    /// Whether the thread is blocked, as far as the system tells, and not computing.
    pub blocked: bool,
    /// Stalls that were not reported since the last report, for there were too many.
    pub suppressed: u64,
}

impl fmt::Display for StallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.id)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        let how = if self.blocked {
            "blocks"
        } else {
            "computes on"
        };
        write!(
            f,
            ", spawned at {}, {how} its thread for {:?}",
            self.location, self.running_for
        )
    }
}

/// What was reported, as sysmon remembers it.
#[derive(Default)]
pub(super) struct Reports {
    /// When, in nanoseconds of the runtime's clock; 0: nothing yet.
    last: u64,
    /// Not reported since then, for there were too many.
    suppressed: u64,
}

impl Reports {
    /// The poll in which a P's thread was at `ticks` has gone on for so many nanoseconds.
    pub(super) fn stalled(
        &mut self,
        shared: &Shared,
        peer: &Peer,
        ticks: u64,
        now: u64,
        stuck_for: u64,
        blocked: bool,
    ) {
        // A root is its own thread's business.
        let Some(task) = shared.find_live(peer.running.load(Relaxed)) else {
            return;
        };
        // Only if it is the same poll still, it is about this task.
        if peer.ticks.load(Relaxed) != ticks {
            return;
        }
        if self.last != 0 && now - self.last < REPORT_EVERY.as_nanos() as u64 {
            self.suppressed += 1;
            return;
        }
        self.last = now;
        let header = task.header();
        let stall = StallReport {
            id: header.id(),
            name: header.name().map(str::to_owned),
            location: header.location(),
            running_for: Duration::from_nanos(stuck_for),
            blocked,
            suppressed: std::mem::take(&mut self.suppressed),
        };
        match &shared.config.stall.hook {
            Some(hook) => quietly("the `on_stall` hook", || hook(&stall)),
            None => report(|| {
                tracing::warn!(
                    task.id = %stall.id,
                    task.name = stall.name.as_deref(),
                    spawned.at = %stall.location,
                    running_for = ?stall.running_for,
                    blocked = stall.blocked,
                    suppressed = stall.suppressed,
                    "a task holds its thread for long"
                );
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_who_does_what() {
        let location = Location::caller();
        let mut stall = StallReport {
            id: Id::new(7),
            name: Some("slow".to_owned()),
            location,
            running_for: Duration::from_millis(20),
            blocked: true,
            suppressed: 0,
        };
        let words = format!("task 7 \"slow\", spawned at {location}, blocks its thread for 20ms");
        assert_eq!(stall.to_string(), words);
        stall.name = None;
        stall.blocked = false;
        let words = format!("task 7, spawned at {location}, computes on its thread for 20ms");
        assert_eq!(stall.to_string(), words);
    }
}
