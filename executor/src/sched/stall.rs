//! Stalls: when they are reported, to whom, and what is said. Who finds them is `sysmon.rs`.

use std::{fmt, panic::Location, sync::Arc as StdArc, time::Duration};

use crate::task::Id;

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
