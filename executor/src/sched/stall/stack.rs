//! The stack of a thread that stalls, and what is shown of it.
//!
//! The monitor copies the stack when it is about to report a stall, and at no other time
//! (`ws-stack`). That takes some 100 us, and 5 ms at most. Nobody walks the copy before somebody
//! wants to see it, because that reads debug information: the first time it may take hundreds of
//! milliseconds, which the monitor must not lose. See *Reports are told elsewhere* in `teller.rs`.
//!
//! # *Which frames are shown*
//!
//! Those from the innermost one up to the poll of the task. The frames below, of the worker and of
//! its thread, are the same in each report, so they are counted only. The poll is known by its
//! function: `cell/raw.rs` calls it by a pointer, so it is never inlined and has a symbol. If there
//! are several on the stack (a worker that runs tasks while it waits), the outermost one counts: a
//! frame too many is better than one that is missing. If there is none (a program without symbols),
//! all frames are shown.
//!
//! Rejected: a marker as in std, `__rust_begin_short_backtrace`. It would be one more call in each
//! poll.
//!
//! Checked by `tests/liveness/a_stall_shows_where_it_is.rs`.

use std::{fmt, time::Duration};

use ws_stack::{Captured, Frame, NoStack};

use crate::sched::traces::Origin;

/// Longest time that the monitor waits for a copy. Half of its slow pace.
pub(super) const LIMIT: Duration = Duration::from_millis(5);

/// The stack of a thread that stalls, as of the moment of the report.
///
/// `Display` shows a line for each function, the innermost one first, and another one for its
/// place in the source. If there is no stack, it says why.
///
/// The stack is copied for the report. Its functions are found when they are first asked for, by
/// [`frames`](Self::frames) or `Display`. That may take hundreds of milliseconds if the program is
/// large: do it on a thread of your own, and not in an
/// [`on_stall`](crate::runtime::Builder::on_stall) hook. Clones share what was found.
///
/// # What it needs
///
/// Linux on x86-64 or AArch64, and the feature `stacks`, which is on by default. For lines, set
/// `debug = "line-tables-only"` in the profile of the program. A program without symbols
/// (`strip = true` or `"symbols"`) shows addresses.
///
/// ```
/// use std::{sync::mpsc, thread, time::Duration};
/// use ws::runtime::Builder;
///
/// # if !cfg!(all(target_os = "linux", target_arch = "x86_64")) { return Ok(()) }
/// #[inline(never)]
/// fn waits_for(word: &mpsc::Receiver<()>) {
///     let _ = word.recv_timeout(Duration::from_secs(60));
/// }
///
/// let (tell, told) = mpsc::channel();
/// let runtime = Builder::new()
///     .on_stall(move |stall| _ = tell.send(stall.clone()))
///     .build()?;
/// let (end, word) = mpsc::channel();
/// let task = runtime.spawn(async move { waits_for(&word) });
/// let stall = told.recv().unwrap();
/// let mut frames = stall.stack.frames().iter();
/// assert!(frames.any(|frame| frame.function().unwrap_or("").contains("waits_for")));
/// assert_eq!(stall.system_call.unwrap().to_string(), "futex");
/// drop(end);
/// runtime.block_on(task).unwrap();
/// # Ok::<(), ws::runtime::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StallStack(Result<Captured, Missing>);

/// Why there is none.
#[derive(Clone, Debug)]
enum Missing {
    NoStack(NoStack),
    Because(&'static str),
}

impl StallStack {
    /// There is none, for this reason.
    pub(in crate::sched) fn none(why: &'static str) -> Self {
        Self(Err(Missing::Because(why)))
    }

    /// What came of the copy.
    pub(super) fn copied(stack: Result<Captured, NoStack>) -> Self {
        Self(stack.map_err(Missing::NoStack))
    }

    /// Whether there is one. Costs nothing.
    pub fn is_some(&self) -> bool {
        self.0.is_ok()
    }

    /// The functions from the innermost one up to the poll of the task. None of them if there is no
    /// stack.
    pub fn frames(&self) -> &[Frame] {
        let Ok(captured) = &self.0 else {
            return &[];
        };
        let frames = captured.resolve().frames();
        &frames[..shown(frames)]
    }
}

/// How many frames are shown.
fn shown(frames: &[Frame]) -> usize {
    let polls = |frame: &Frame| Origin::of(frame) == Origin::Poll;
    let Some(poll) = frames.iter().rposition(polls) else {
        return frames.len();
    };
    let is_between = |frame: &Frame| {
        matches!(Origin::of(frame), Origin::Poll | Origin::Around)
            || frame.function() == Some("__rust_try")
    };
    let last = frames[..poll].iter().rposition(|frame| !is_between(frame));
    // If nothing else is there, the poll itself has stalled.
    last.map_or(poll + 1, |last| last + 1)
}

impl fmt::Display for StallStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let captured = match &self.0 {
            Ok(captured) => captured,
            Err(Missing::NoStack(why)) => return write!(f, "      no stack: {why}"),
            Err(Missing::Because(why)) => return write!(f, "      no stack: {why}"),
        };
        let stack = captured.resolve();
        let frames = self.frames();
        for (number, frame) in frames.iter().enumerate() {
            let begin = if number == 0 { "" } else { "\n" };
            write!(f, "{begin}{number:>4}: {frame}")?;
        }
        if let Some(cut) = stack.cut() {
            write!(f, "\n      the stack ends here: {cut}")?;
        }
        match stack.frames().len() - frames.len() {
            0 => Ok(()),
            more => write!(f, "\n      and {more} frames of the runtime"),
        }
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::sched::shutdown::tests::{alone, end, poll_once};

    #[test]
    fn a_reason_is_shown_in_place_of_a_stack() {
        let stack = StallStack::none("the reason");
        assert_eq!(stack.to_string(), "      no stack: the reason");
        assert!(!stack.is_some() && stack.frames().is_empty());
        // This thread is not registered.
        let look = ws_stack::capture(u32::MAX, LIMIT);
        let stack = StallStack(look.stack.map_err(Missing::NoStack));
        let text = stack.to_string();
        assert!(
            text.starts_with("      no stack: the thread has ended"),
            "{text}"
        );
    }

    // As if the poll were the innermost function.
    #[cfg(feature = "stacks")]
    #[test]
    fn a_poll_that_has_called_nothing_is_shown_itself() {
        let (runtime, worker) = alone();
        let outermost = 0_u8;
        let up_to = std::ptr::from_ref(&outermost).addr();
        let (tell, told) = mpsc::channel();
        poll_once(&worker, async move {
            tell.send(ws_stack::here(up_to)).unwrap();
        });
        let captured = told.recv().unwrap().expect("it is known here");
        let frames = captured.resolve().frames();
        let polls = |frame: &Frame| Origin::of(frame) == Origin::Poll;
        let poll = frames.iter().rposition(polls).expect("it was polled");
        assert!(poll + 1 < frames.len(), "its worker called it");
        assert_eq!(shown(&frames[poll..]), 1);
        end(runtime, [worker]);
    }
}
