//! Where the runtime says what no caller asked for: a task that stalls, a panic that nobody joins,
//! a thread or a descriptor that cannot be had, what still runs when a runtime gives up at its end.
//!
//! An event of `tracing`, if a subscriber listens on the thread that reports. Else a line on
//! stderr, at most one a second for each runtime; the next line counts those that were left out.
//! Most refusals by the system have a limit of their own beside that: one that is told once in a
//! process must not be the line that is left out. A stderr that takes nothing changes nothing. If
//! stderr is full, the line is left out. The monitor writes such lines, and must not wait for a
//! reader. The words of `sched/refusals.rs` wait until there is room: no other report has them.
//!
//! The stack of a stall follows its line, as lines that are indented. Where a pipe does not take
//! all of them at once, other writers may come in between two lines.

use std::{
    fmt,
    io::{self, Write},
    iter,
    panic::Location,
};

use tracing::{dispatcher::get_default, subscriber::NoSubscriber};

use crate::{
    cell::{Id, report},
    throttle::{REPORT_EVERY, Throttle},
};

/// Bytes that are written at once, without the last end of a line: `PIPE_BUF` of Linux, less one.
const LONGEST: usize = 4_095;

/// Where a runtime reports stalls, panics that nobody joins, what the system refuses, and what
/// still runs after its end. See [`Builder::reports`](crate::runtime::Builder::reports).
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
        self.try_tell(event, words);
    }

    /// The same. False if stderr had no room, so that it can be told later.
    fn try_tell(&self, event: impl FnOnce(), words: impl fmt::Display) -> bool {
        let mut had_room = true;
        report(|| {
            // Also without a subscriber: `tracing` may hand it to the crate `log`.
            event();
            if self.to == Reports::TracingOrStderr && get_default(|to| to.is::<NoSubscriber>()) {
                had_room = self.write(words);
            }
        });
        had_room
    }

    /// Whether what is told now goes anywhere.
    pub(crate) fn are_heard(&self) -> bool {
        self.to == Reports::TracingOrStderr || get_default(|to| !to.is::<NoSubscriber>())
    }

    /// Whether there is room now for what is told: a subscriber has it, and stderr if it does not
    /// wait for its reader.
    pub(crate) fn has_room(&self) -> bool {
        get_default(|to| !to.is::<NoSubscriber>()) || ws_reactor::stderr_now().is_some()
    }

    /// As [`tell`](Self::tell), for what its caller limits: once a second at most, or once in the
    /// life of a process. No other report holds it up. False if stderr had no room.
    pub(crate) fn tell_limited(&self, event: impl FnOnce(), words: impl fmt::Display) -> bool {
        Self::new(self.to).try_tell(event, words)
    }

    /// False if there was no room.
    fn write(&self, words: impl fmt::Display) -> bool {
        let Some(left_out) = self.lines.admit() else {
            return true;
        };
        let more = match left_out {
            0 => String::new(),
            _ => format!(" ({left_out} reports before this one were left out)"),
        };
        let words = words.to_string();
        let (sentence, stack) = words.split_once('\n').unwrap_or((&words, ""));
        let mut text = format!("ws: {sentence}{more}\n{stack}");
        if !text.ends_with('\n') {
            text.push('\n');
        }
        // If only the first piece can be written, the report was made.
        let mut pieces = pieces(&text);
        let first = pieces
            .next()
            .map_or(Ok(()), |piece| write_to_stderr(&piece));
        if let Err(error) = first {
            self.lines.take_back(left_out);
            // Any other error comes again each time.
            return error.kind() != io::ErrorKind::WouldBlock;
        }
        _ = pieces.all(|piece| write_to_stderr(&piece).is_ok());
        true
    }
}

/// The lines of a text, as many at a time as a pipe that is writable takes at once. Lines that are
/// too long are cut.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let mut lines = text.lines().peekable();
    iter::from_fn(move || {
        let mut piece = String::new();
        while let Some(line) = lines.peek() {
            let end = (0..=LONGEST.min(line.len())).rfind(|&at| line.is_char_boundary(at));
            let line = &line[..end.unwrap_or(0)];
            if !piece.is_empty() && piece.len() + line.len() > LONGEST {
                break;
            }
            piece.push_str(line);
            piece.push('\n');
            lines.next();
        }
        (!piece.is_empty()).then_some(piece)
    })
}

/// Writes, or is an error of kind `WouldBlock` where that would be a wait.
fn write_to_stderr(piece: &str) -> io::Result<()> {
    // Not through the lock of `Stderr`: a thread that waits for a reader may hold it.
    // In one piece: other threads and processes may write there.
    let mut stderr = ws_reactor::stderr_now().ok_or(io::ErrorKind::WouldBlock)?;
    stderr.write_all(piece.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_in_pieces_that_a_pipe_takes() {
        assert_eq!(pieces("a\n\nb\n").collect::<Vec<_>>(), ["a\n\nb\n"]);
        let line = "ä".repeat(1_000);
        let text = [&*line, &line, &line].join("\n");
        let both = format!("{line}\n{line}\n");
        assert_eq!(
            pieces(&text).collect::<Vec<_>>(),
            [both, format!("{line}\n")]
        );
        let long = "ä".repeat(3_000);
        let cut = format!("{}\n", "ä".repeat(LONGEST / 2));
        let expected = [cut, "b\n".to_owned()];
        assert_eq!(
            pieces(&format!("{long}\nb\n")).collect::<Vec<_>>(),
            expected
        );
    }
}
