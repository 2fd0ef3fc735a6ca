//! What idle tasks wait for, as far as the runtime knows: timers, sockets, and other tasks.
//!
//! It is asked from the other side: what has a waker of the task? All timers, all sources of the
//! netpoll and all tasks are walked once, and each waker that is a task's is noted under that
//! task's address. So a wait costs nothing until somebody asks. Not seen is what has no such waker:
//! a channel, a lock, a library's own list, and a combinator that has put a waker of its own in
//! between.
//!
//! A socket keeps the waker of the last poll until the next event. So a task may be shown to wait
//! for one that it has lost its interest in since.

use std::{collections::HashMap, fmt, time::Duration};

use crate::cell::Id;

/// Something that has a waker of an idle task. See [`TaskDump`](crate::runtime::TaskDump).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitsFor {
    /// A timer that is due so much later.
    Timer(Duration),
    /// A descriptor of this number, to be readable: also a listener, and a connection to accept.
    Readable(Option<i32>),
    /// A descriptor of this number, to be writable.
    Writable(Option<i32>),
    /// The end of another task, by its handle.
    Task(Id),
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut descriptor = |number: &Option<i32>, what| match number {
            Some(number) => write!(f, "descriptor {number} to be {what}"),
            None => write!(f, "a descriptor to be {what}"),
        };
        match self {
            Self::Readable(number) => descriptor(number, "readable"),
            Self::Writable(number) => descriptor(number, "writable"),
            Self::Timer(due) => write!(f, "a timer, due in {due:?}"),
            Self::Task(id) => write!(f, "task {id}"),
        }
    }
}

/// What each task waits for, by the address of its cell.
#[derive(Default)]
pub(crate) struct Waits(HashMap<usize, Vec<WaitsFor>>);

impl Waits {
    pub(super) fn note(&mut self, task: Option<usize>, waits_for: WaitsFor) {
        if let Some(task) = task {
            self.0.entry(task).or_default().push(waits_for);
        }
    }

    /// What the task at this address waits for.
    pub(crate) fn of(&mut self, task: usize) -> Vec<WaitsFor> {
        self.0.remove(&task).unwrap_or_default()
    }
}
