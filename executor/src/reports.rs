//! Where the runtime says what no caller asked for: a task that stalls, a panic that nobody joins.
//!
//! An event of `tracing`, if a subscriber listens on the thread that reports. Else a line on
//! stderr, at most one a second for each runtime; the next line counts those that were left out. A
//! stderr that takes nothing changes nothing. If stderr is full, the line is left out. The monitor
//! writes such lines, and must not wait for a reader.

use std::{
    fmt,
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    panic::Location,
};

use tracing::{dispatcher::get_default, subscriber::NoSubscriber};

use crate::{
    cell::{Id, report},
    throttle::{REPORT_EVERY, Throttle},
};

/// Bytes of a line without its end: `PIPE_BUF` of Linux, less one.
const LONGEST: usize = 4_095;

/// Where a runtime reports stalls, and panics that nobody joins. See
/// [`Builder::reports`](crate::runtime::Builder::reports).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reports {
    /// To the `tracing` subscriber. Without one, to stderr.
    #[default]
    TracingOrStderr,
    /// To the `tracing` subscriber. Without one, reports are lost.
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

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Reporter {
    to: Reports,
    lines: Throttle,
}

impl Reporter {
    pub(crate) fn new(to: Reports) -> Self {
        Self {
            to,
            lines: Throttle::new(REPORT_EVERY),
        }
    }

    /// Sends the event, or writes the words. The caller holds no lock: a subscriber is code of the
    /// user's.
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
        let mut line = format!("ws: {words}{more}");
        // What a pipe that is writable takes at once.
        let end = (0..=LONGEST.min(line.len())).rfind(|&at| line.is_char_boundary(at));
        line.truncate(end.unwrap_or(0));
        line.push('\n');
        let stderr = io::stderr();
        // Not through the lock of `Stderr`: a thread that waits for a reader may hold it.
        let written = ws_reactor::is_writable(&stderr)
            && stderr.as_fd().try_clone_to_owned().is_ok_and(|descriptor| {
                // In one piece: other threads and processes may write there.
                File::from(descriptor).write_all(line.as_bytes()).is_ok()
            });
        if !written {
            self.lines.take_back(left_out);
        }
    }
}
