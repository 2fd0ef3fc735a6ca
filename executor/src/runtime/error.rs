//! What can go wrong on the way to a runtime.

use std::{error::Error, fmt, io};

use crate::advice::{THREAD, advice};

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
                let why = match *refused {
                    THREAD => "a runtime needs one at least; ",
                    _ => "",
                };
                advice(refused, error).map_or(Ok(()), |advice| write!(f, ": {why}{advice}"))
            }
        }
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
