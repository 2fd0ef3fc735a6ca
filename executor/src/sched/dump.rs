//! A look at all tasks that are alive.

use std::{fmt, panic::Location, time::Duration};

use crate::cell::{Id, TaskRef};

/// What a task was doing at the moment of a [`Handle::dump`](crate::runtime::Handle::dump).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// It waits for a waker.
    Idle,
    /// It is in a queue, or on its way there.
    Queued,
    /// A thread polls it.
    Running,
}

impl TaskState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Queued => "queued",
            Self::Running => "running",
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One live task. See [`Handle::dump`](crate::runtime::Handle::dump).
///
/// It is shown as a line, and turns into that line as a `String`.
///
/// ```
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// let task = runtime.spawn(std::future::pending::<()>());
/// let row = runtime.handle().dump().remove(0);
/// assert!(String::from(row).starts_with(&format!("task {}, spawned at ", task.id())));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskDump {
    /// Its id.
    pub id: Id,
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// Where it was spawned.
    pub location: &'static Location<'static>,
    /// What it was doing.
    pub state: TaskState,
    /// For how long it has lived, to about 10 ms. After 49 days it counts from zero again.
    pub age: Duration,
}

impl TaskDump {
    /// `running` has the addresses of all tasks that are being polled, `now_ms` the runtime's
    /// clock, not before the task was found.
    pub(crate) fn new(task: &TaskRef, running: &[u64], now_ms: u32) -> Self {
        let header = task.header();
        let state = if running.contains(&header.address()) {
            TaskState::Running
        } else if header.snapshot().is_idle() {
            TaskState::Idle
        } else {
            TaskState::Queued
        };
        Self {
            id: header.id(),
            name: header.name().map(str::to_owned),
            location: header.location(),
            state,
            // Wraps with the clock, after 49 days.
            age: Duration::from_millis(u64::from(now_ms.wrapping_sub(header.born_ms()))),
        }
    }
}

impl fmt::Display for TaskDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.id)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        write!(
            f,
            ", spawned at {}, {}, {:?} old",
            self.location, self.state, self.age
        )
    }
}

impl From<TaskDump> for String {
    fn from(dump: TaskDump) -> Self {
        dump.to_string()
    }
}
