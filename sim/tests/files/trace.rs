//! What a program of the suite has seen.

use std::{fmt::Debug, io, path::Path};

/// See the module's head.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) lines: Vec<String>,
    folder: String,
}

impl Trace {
    /// `folder` is written as `@`, since it has another name on each side.
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            lines: Vec::new(),
            folder: folder.display().to_string(),
        }
    }

    /// Notes an answer: its value, or the number of its error.
    #[allow(clippy::needless_pass_by_value)]
    pub(crate) fn say<T: Debug>(&mut self, what: &str, answer: io::Result<T>) -> Option<T> {
        let (line, value) = match answer {
            Ok(value) => (format!("{what}: {value:?}"), Some(value)),
            Err(error) => (format!("{what}: {:?}", error.raw_os_error()), None),
        };
        self.lines.push(line.replace(&self.folder, "@"));
        value
    }

    /// Notes whether it went well.
    pub(crate) fn done<T>(&mut self, what: &str, answer: io::Result<T>) -> Option<T> {
        let (unit, value) = match answer {
            Ok(value) => (Ok(()), Some(value)),
            Err(error) => (Err(error), None),
        };
        self.say(what, unit);
        value
    }

    pub(crate) fn note(&mut self, what: &str, value: impl Debug) {
        self.say(what, Ok(value));
    }
}

/// The answer of a call of libc.
pub(crate) fn cvt(answer: impl Into<i64>) -> io::Result<i64> {
    match answer.into() {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

/// A path for a call of libc.
pub(crate) fn c(path: impl AsRef<Path>) -> std::ffi::CString {
    use std::os::unix::ffi::OsStrExt;

    std::ffi::CString::new(path.as_ref().as_os_str().as_bytes()).unwrap()
}
