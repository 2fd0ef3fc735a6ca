//! Why a run failed.

use std::{
    any::Any,
    cell::RefCell,
    fmt::{self, Write as _},
    panic::PanicHookInfo,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::plan::Drawn;

/// Why a run failed: what happened, when, on which host, and what waits there.
///
/// It is shown with its seed, in a line of its own, and, if the run was
/// [recorded](crate::Builder::recording), with what was done to its hosts and the last events of
/// each. Its `Debug` is the same text, for `unwrap`.
#[derive(Clone)]
pub struct Failure {
    pub(crate) seed: u64,
    pub(crate) elapsed: Duration,
    pub(crate) host: Option<Box<str>>,
    pub(crate) what: Box<str>,
    /// Where the last panic was, if there was one.
    pub(crate) place: Option<Box<str>>,
    /// A limit of steps was reached.
    pub(crate) is_of_steps: bool,
    /// The tasks of each host that are alive, one a line.
    pub(crate) waits: Box<str>,
    /// The faults of its plan that have begun, one a line.
    pub(crate) faults: Box<str>,
    /// What a recorded run tells beside that.
    pub(crate) recorded: Option<Box<Recorded>>,
}

/// What two failures have in common if they are of the same kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A limit of steps was reached. Such a run is long.
    Steps,
    /// The host that failed, if it was one, the first line of what it failed with, without digits,
    /// and where the last panic was.
    Words(Option<Box<str>>, String, Option<Box<str>>),
}

thread_local! {
    /// Where the last panic of this thread was.
    static PANICKED_AT: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// A hook of panics has this one.
pub(crate) fn note_panic(info: &PanicHookInfo<'_>) {
    // A panic while the place is written is none of a program.
    let _ = PANICKED_AT.try_with(|place| {
        if let Ok(mut place) = place.try_borrow_mut() {
            *place = info.location().map(|place| place.to_string().into());
        }
    });
}

/// Where a failure is from that tells of a panic.
pub(crate) fn panicked_at() -> Option<Box<str>> {
    PANICKED_AT.with_borrow(Clone::clone)
}

impl Kind {
    /// Of what a test has found.
    pub(crate) fn of_test(what: &str) -> Self {
        Self::words(None, what, panicked_at())
    }

    fn words(host: Option<Box<str>>, what: &str, place: Option<Box<str>>) -> Self {
        let line = what.lines().next().unwrap_or_default();
        let line = line.chars().filter(|c| !c.is_ascii_digit()).collect();
        Self::Words(host, line, place)
    }
}

/// What a seed of a check fails with.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    /// What is told of it.
    pub(crate) text: String,
    pub(crate) kind: Kind,
    pub(crate) drawn: Drawn,
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

    pub(crate) fn kind(&self) -> Kind {
        if self.is_of_steps {
            Kind::Steps
        } else {
            Kind::words(self.host.clone(), &self.what, self.place.clone())
        }
    }

    /// Whether a text has that of a failure in it.
    pub(crate) fn is_told_in(text: &str) -> bool {
        let seeds = text.lines().filter_map(|line| line.strip_prefix("seed: "));
        seeds.into_iter().any(|seed| seed.parse::<u64>().is_ok())
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
            write!(f, "\n{ALIVE}\n{}", self.waits.trim_end())?;
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

/// Before the faults of a recorded run, and before its events.
pub(crate) const FAULTS: &str = "the faults:";
pub(crate) const EVENTS: &str = "the last events:";

/// Before the tasks that are alive.
const ALIVE: &str = "what is alive:";

/// Whether a line of a failure begins what stands beside what happened.
pub(crate) fn is_beside(line: &str) -> bool {
    [HEADING, ALIVE, FAULTS, EVENTS].contains(&line) || line.starts_with("seed: ")
}

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

/// What the tokio of other authors says on a host, which has none of its runtimes.
const NO_REACTOR: &str = "there is no reactor running, must be called from the context of a Tokio";

const OTHER_TOKIO: &str = "\n(This tokio is not that of this ws-sim. Take both from one source: \
                           one path, or git at one commit. `cargo tree -i ws-executor` has to show one \
                           package. See \"Programs on tokio\" in docs/simulation.md)";

/// How a program ended that has panicked.
pub(crate) fn in_words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("not with a text");
    let advice = if text.contains(NO_REACTOR) {
        OTHER_TOKIO
    } else {
        ""
    };
    format!("its program panicked: {text}{advice}")
}
