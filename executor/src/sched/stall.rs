//! Stalls: when they are reported, to which hook, and what is said. The monitor finds them (*A
//! stall* in `monitor.rs`).
//!
//! - A stall that reaches the threshold is reported, at most one in `REPORT_EVERY`. The others
//!   are counted, and the next report says how many; nothing more is heard of them.
//! - While a stall that was reported goes on, it is reported whenever it has lasted twice as long
//!   as at its last report. These reports have the same limit, for themselves: they take no turn
//!   from a stall that is new. A task that is stuck for a day is reported some 17 times.
//! - The end of a stall that was reported is always reported, with its whole time. There are no
//!   more of these than of the first, so they have no limit of their own.
//!
//! A report that a stall has begun or goes on has the stack of its thread (`stall/stack.rs`). Which
//! thread tells it, is in `stall/teller.rs`.
//!
//! The monitor does not stay awake for the second and the third. A thread that is stuck beside an
//! idle runtime has lost its permit or has the last one. If it has one, the monitor does not sleep
//! for good. If it has none, it takes one when its poll has ended, which wakes the monitor (*The
//! monitor's sleep* in `permit/idle.rs`). If the monitor sleeps for good, it wakes up when a report
//! is due.

mod stack;
mod teller;
mod track;

use std::{collections::VecDeque, fmt, panic::Location, sync::Arc as StdArc, time::Duration};

use ws_stack::SystemCall;

pub use self::stack::StallStack;
#[cfg(test)]
pub(crate) use self::track::Told;
pub(crate) use self::track::{Measured, Reports, Stalling};
use crate::{cell::Id, reports::Subject, sync::Mutex};

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

/// A poll that holds its thread for long, at one of three moments: see [`StallPhase`], and
/// [`Builder::on_stall`](crate::runtime::Builder::on_stall).
///
/// `Display` says it in a sentence. Behind that there are lines with the
/// [system call](Self::system_call) and the [stack](Self::stack) of the thread, except in the last
/// report. To find the functions of the stack may take long the first time, see [`StallStack`].
///
/// ```
/// use std::sync::mpsc;
/// use ws::runtime::Builder;
///
/// let (tell, told) = mpsc::channel();
/// let runtime = Builder::new()
///     .on_stall(move |stall| _ = tell.send(stall.clone()))
///     .build()?;
/// let task = ws::task::Builder::new().name("report");
/// let task = task.spawn_on(async move { told.recv() }, runtime.handle());
/// // "task 1 "report", spawned at src/main.rs:9:17, blocks its thread for 100.6ms (CPU time 23.1µs)"
/// let stall = runtime.block_on(task).unwrap().unwrap();
/// let text = stall.to_string();
/// assert!(text.lines().next().unwrap().contains("\"report\""));
/// # Ok::<(), ws::runtime::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StallReport {
    /// The task's id.
    pub id: Id,
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// Where it was spawned.
    pub location: &'static Location<'static>,
    /// Whether the stall has just been found, goes on, or is over.
    pub phase: StallPhase,
    /// What the thread did for most of the time, if the system tells.
    pub kind: StallKind,
    /// How long the stall has lasted; in the last report, how long it was. The monitor sees a begin
    /// and an end up to one of its looks late, mostly 10 ms or less.
    pub running_for: Duration,
    /// How much of that time the thread was on a core. `None` where the system does not tell: it
    /// does on Linux.
    pub cpu_time: Option<Duration>,
    /// Stalls that were not reported since the last report, for there were too many.
    pub suppressed: u64,
    /// Where the thread is: the functions that it is in. In the last report there is none.
    pub stack: StallStack,
    /// The system call that blocks the thread, if one does. `None` also where the system does not
    /// tell: it does on Linux.
    pub system_call: Option<SystemCall>,
}

/// Which report of a stall this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallPhase {
    /// The first one: the stall has lasted for the threshold.
    Begun,
    /// The stall goes on, and has lasted twice as long as at its last report, and a second longer.
    GoesOn,
    /// It is over: its poll has ended, or come to a `join`, or has announced that it blocks
    /// ([`block_in_place`](crate::block_in_place)).
    Ended,
}

/// What a thread does in a poll that stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallKind {
    /// It was on a core for less than a quarter of the time, and was seen to wait for something
    /// else: a lock, a file, a sleep.
    Blocked,
    /// It was on a core for a quarter of the time or more. All stalls are of this kind where the
    /// system does not tell what a thread waits for; [`cpu_time`](StallReport::cpu_time) may say
    /// more there.
    Computing,
    /// It was on a core for less than a quarter of the time, and was seen to wait only for a core:
    /// there are more threads than cores, or a quota of CPU time is used up. The task is not at
    /// fault.
    Descheduled,
}

/// The reports that wait to be told; see `stall/teller.rs`.
#[derive(Debug, Default)]
pub(in crate::sched) struct Teller {
    pub(super) waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// A thread tells them.
    pub(super) tells: bool,
    pub(super) reports: VecDeque<StallReport>,
}

/// ```
/// assert_eq!(ws::runtime::StallPhase::GoesOn.to_string(), "goes on");
/// ```
impl fmt::Display for StallPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Begun => "begun",
            Self::GoesOn => "goes on",
            Self::Ended => "ended",
        })
    }
}

/// ```
/// assert_eq!(ws::runtime::StallKind::Blocked.to_string(), "blocked");
/// ```
impl fmt::Display for StallKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Blocked => "blocked",
            Self::Computing => "computing",
            Self::Descheduled => "descheduled",
        })
    }
}

impl fmt::Display for StallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = Subject {
            id: self.id,
            name: self.name.as_deref(),
            location: self.location,
        };
        let how = match (self.kind, self.phase == StallPhase::Ended) {
            (StallKind::Blocked, false) => "blocks its thread",
            (StallKind::Blocked, true) => "blocked its thread",
            (StallKind::Computing, false) => "computes on its thread",
            (StallKind::Computing, true) => "computed on its thread",
            (StallKind::Descheduled, false) => "waits for a core",
            (StallKind::Descheduled, true) => "waited for a core",
        };
        write!(f, "{subject}, {how} for {:?}", self.running_for)?;
        if let Some(cpu_time) = self.cpu_time {
            write!(f, " (CPU time {cpu_time:?})")?;
        }
        if self.suppressed > 0 {
            write!(f, "; {} stalls before were not reported", self.suppressed)?;
        }
        if self.phase == StallPhase::Ended {
            return Ok(());
        }
        if let Some(call) = self.system_call {
            write!(f, "\n      in the system call {call}")?;
        }
        write!(f, "\n{}", self.stack)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// That a task blocks, which the caller's line spawned.
    #[track_caller]
    pub(in crate::sched) fn made_up() -> StallReport {
        StallReport {
            id: Id::new(7),
            name: Some("slow".to_owned()),
            location: Location::caller(),
            phase: StallPhase::Begun,
            kind: StallKind::Blocked,
            running_for: Duration::from_millis(20),
            cpu_time: Some(Duration::from_millis(1)),
            suppressed: 0,
            stack: StallStack::none("a test"),
            system_call: None,
        }
    }

    #[test]
    fn a_report_says_who_does_what() {
        let mut stall = made_up();
        let location = stall.location;
        let task = format!("task 7 \"slow\", spawned at {location}, ");
        let words = [
            (
                StallKind::Blocked,
                "blocks its thread",
                "blocked its thread",
            ),
            (
                StallKind::Computing,
                "computes on its thread",
                "computed on its thread",
            ),
            (
                StallKind::Descheduled,
                "waits for a core",
                "waited for a core",
            ),
        ];
        for (kind, goes_on, ended) in words {
            stall.kind = kind;
            for phase in [StallPhase::Begun, StallPhase::GoesOn, StallPhase::Ended] {
                stall.phase = phase;
                let (how, stack) = if phase == StallPhase::Ended {
                    (ended, "")
                } else {
                    (goes_on, "\n      no stack: a test")
                };
                assert_eq!(
                    stall.to_string(),
                    format!("{task}{how} for 20ms (CPU time 1ms){stack}")
                );
            }
        }
        stall.name = None;
        stall.cpu_time = None;
        stall.suppressed = 3;
        let words = format!(
            "task 7, spawned at {location}, waited for a core for 20ms; 3 stalls before were not reported"
        );
        assert_eq!(stall.to_string(), words);
    }
}
