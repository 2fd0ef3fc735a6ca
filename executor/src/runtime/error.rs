//! What can go wrong on the way to a runtime.

use std::{error::Error, fmt, io};

/// Why a runtime could not be built: a knob that was set wrong, or the system refused something.
#[derive(Debug)]
pub struct BuildError {
    kind: BuildErrorKind,
}

#[derive(Debug)]
enum BuildErrorKind {
    Knob {
        knob: &'static str,
        problem: String,
    },
    System {
        refused: &'static str,
        error: io::Error,
    },
}

/// What the system may refuse to a runtime.
pub(super) const NETPOLL: &str = "the netpoll";
pub(super) const THREAD: &str = "a thread";

/// The process has no descriptor left. The number is the same on all systems of Unix.
const EMFILE: i32 = 24;
/// The system has no descriptor left. The same.
const ENFILE: i32 = 23;

impl BuildError {
    pub(crate) fn knob(knob: &'static str, problem: impl Into<String>) -> Self {
        Self {
            kind: BuildErrorKind::Knob {
                knob,
                problem: problem.into(),
            },
        }
    }

    /// The system refused this.
    pub(crate) fn system(refused: &'static str, error: io::Error) -> Self {
        Self {
            kind: BuildErrorKind::System { refused, error },
        }
    }

    /// The knob that was set wrong, as it is called in [`Builder`](super::Builder) or in the
    /// environment.
    ///
    /// ```
    /// let error = ws::runtime::Builder::new().workers(0).build().unwrap_err();
    /// assert_eq!(error.knob_name(), Some("workers"));
    /// ```
    pub fn knob_name(&self) -> Option<&str> {
        match &self.kind {
            BuildErrorKind::Knob { knob, .. } => Some(knob),
            BuildErrorKind::System { .. } => None,
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            BuildErrorKind::Knob { knob, problem } => write!(f, "{knob}: {problem}"),
            BuildErrorKind::System { refused, error } => {
                write!(f, "the system refused {refused}")?;
                advice(refused, error).map_or(Ok(()), |advice| write!(f, ": {advice}"))
            }
        }
    }
}

/// What to do about it, where the error tells.
fn advice(refused: &str, error: &io::Error) -> Option<&'static str> {
    use io::ErrorKind::{InvalidInput, OutOfMemory, PermissionDenied, Unsupported, WouldBlock};

    if cfg!(windows) {
        return None;
    }
    match (refused, error.kind()) {
        _ if error.raw_os_error() == Some(EMFILE) => Some(
            "raise the limit of descriptors (`ulimit -n`, RLIMIT_NOFILE) or close some: a runtime \
             needs four for itself, and one for each socket",
        ),
        _ if error.raw_os_error() == Some(ENFILE) => {
            Some("the system has no descriptor left; on Linux see `fs.file-max`")
        }
        (THREAD, WouldBlock | OutOfMemory) => Some(
            "a runtime needs one thread at least; raise the limit of threads (`ulimit -u`, \
             RLIMIT_NPROC; `pids.max` of the cgroup) or of memory, or make stacks smaller \
             (`Builder::stack_size`); with musl, a sandbox that refuses `clone` looks the same",
        ),
        (THREAD, PermissionDenied | Unsupported | InvalidInput) => Some(
            "a runtime needs threads; a sandbox must allow `clone`, and allow `clone3` or answer \
             it with ENOSYS",
        ),
        (NETPOLL, PermissionDenied | Unsupported | InvalidInput) => Some(
            "a sandbox must allow `epoll_create1`, `epoll_ctl`, `epoll_wait` (with musl, and on \
             AArch64, `epoll_pwait`) and `fcntl`, and `eventfd2` or `pipe2`",
        ),
        _ => None,
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            BuildErrorKind::Knob { .. } => None,
            BuildErrorKind::System { error, .. } => Some(error),
        }
    }
}

/// With the system's kind, or [`InvalidInput`](io::ErrorKind::InvalidInput) for a knob: so that `?`
/// works in a function that returns [`io::Result`].
///
/// ```
/// let build = || -> std::io::Result<_> { Ok(ws::runtime::Builder::new().workers(0).build()?) };
/// let error = build().unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
/// ```
impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> Self {
        let kind = match &error.kind {
            BuildErrorKind::Knob { .. } => io::ErrorKind::InvalidInput,
            BuildErrorKind::System { error, .. } => error.kind(),
        };
        Self::new(kind, error)
    }
}

/// There is no current runtime. See [`Handle::try_current`](super::Handle::try_current).
#[derive(Clone, Debug)]
pub struct TryCurrentError(());

impl TryCurrentError {
    pub(crate) fn new() -> Self {
        Self(())
    }
}

impl fmt::Display for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no current ws runtime on this thread")
    }
}

impl Error for TryCurrentError {}
