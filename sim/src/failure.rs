//! Why a run failed.

use std::{
    fmt::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

/// Why a run failed: what happened, when, on which host, and what waits there.
///
/// It is shown with its seed, and, if the run was [recorded](crate::Builder::recording), with what
/// was done to its hosts and the last events of each. Its `Debug` is the same text, for `unwrap`.
#[derive(Clone)]
pub struct Failure {
    pub(crate) seed: u64,
    pub(crate) elapsed: Duration,
    pub(crate) host: Option<String>,
    pub(crate) what: String,
    /// The tasks of each host that are alive, one a line.
    pub(crate) waits: String,
    /// The faults of its plan that have begun, one a line.
    pub(crate) faults: Box<str>,
    /// What a recorded run tells beside that.
    pub(crate) recorded: Option<Box<Recorded>>,
}

/// What a recorded run tells, and the file that its recording was written to.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) text: String,
    pub(crate) file: Option<PathBuf>,
}

impl Failure {
    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The simulated time of the failure.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// The host that failed, if it was one.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The file with the recording of the run, if it was recorded and `WS_SIM_TRACE` names a
    /// folder.
    pub fn file(&self) -> Option<&Path> {
        self.recorded.as_ref()?.file.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(host) = &self.host {
            write!(f, "host {host:?}: ")?;
        }
        write!(
            f,
            "{}, after {:?} of simulated time",
            self.what, self.elapsed
        )?;
        if !self.waits.is_empty() {
            write!(f, "\nwhat is alive:\n{}", self.waits.trim_end())?;
        }
        if !self.faults.is_empty() {
            write!(f, "\n{HEADING}\n{}", self.faults.trim_end())?;
        }
        if let Some(recorded) = &self.recorded {
            write!(f, "\n{}", recorded.text.trim_end())?;
        }
        write!(f, "\nseed: {}", self.seed)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}

/// Before the faults of a plan, in the text of a failure.
pub(crate) const HEADING: &str = "faults of its plan:";

/// Tasks that are named for each host. The first ones are mostly enough.
const NAMED_MAX: usize = 16;

/// Lines that name tasks.
pub(crate) fn tasks(host: &str, state: &str, tasks: &[String]) -> String {
    let mut text = format!("  host {host:?}{state}\n");
    for task in tasks.iter().take(NAMED_MAX) {
        let _ = writeln!(text, "    {task}");
    }
    if tasks.len() > NAMED_MAX {
        let _ = writeln!(text, "    and {} more", tasks.len() - NAMED_MAX);
    }
    text
}
