//! A look at all tasks that are alive.

use std::{fmt, panic::Location, time::Duration};

use super::{traces::AwaitTree, waits::WaitsFor};
use crate::cell::{Id, TaskAccount, TaskRef};

/// What a task was doing at the moment of a [`Handle::dump`](crate::runtime::Handle::dump).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// It waits for a waker.
    Idle,
    /// It is in a queue, or on its way there.
    Queued,
    /// A thread polls it. If that poll waits in a `block_on`, and its thread polls another task
    /// meanwhile, it is [`Queued`](Self::Queued).
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
    /// For how long it has lived, to about 10 ms. Without the monitor
    /// ([`Builder::sysmon`](crate::runtime::Builder::sysmon)) the poll that spawned it may count,
    /// too, and others before it on the same worker. After 49 days it counts from zero again.
    pub age: Duration,
    /// The task that spawned it. `None` if that was no task of this runtime: a root, a thread
    /// without a worker, or a branch of a [`join()`](crate::join) that another worker took; or if
    /// some two billion tasks were spawned between the two.
    pub parent: Option<Id>,
    /// What it did so far.
    pub account: TaskAccount,
    /// If it is idle: what the runtime knows that has a waker of it. It may wait for something else
    /// besides, such as a channel.
    pub waits_for: Vec<WaitsFor>,
    /// Where it is suspended, if that was [asked for](crate::runtime::Handle::dump_awaits).
    pub awaits: Option<AwaitTree>,
}

impl TaskDump {
    pub(super) fn who(&self) -> Who<'_> {
        Who(self)
    }

    /// `running` has the addresses of all tasks that are being polled, `now_ms` the runtime's
    /// clock, not before the task was found.
    pub(crate) fn new(task: &TaskRef, running: &[u64], now_ms: u32) -> Self {
        let header = task.header();
        let snapshot = header.snapshot();
        let state = if running.contains(&header.address()) {
            TaskState::Running
        } else if snapshot.is_idle() {
            TaskState::Idle
        } else {
            TaskState::Queued
        };
        // Both wrap with the clock, after 49 days.
        let age = now_ms.wrapping_sub(header.born_ms());
        // One that was queued since its state was read has been idle until now.
        let idle_for = (state == TaskState::Idle).then(|| header.idle_for(now_ms).unwrap_or(0));
        let duration = |ms| Duration::from_millis(u64::from(ms));
        let mut account = header.account().read(snapshot.wakes());
        account.idle_for = idle_for.map(duration);
        Self {
            id: header.id(),
            name: header.name().map(str::to_owned),
            location: header.location(),
            state,
            age: duration(age),
            parent: header.account().parent(header.id()),
            account,
            waits_for: Vec::new(),
            awaits: None,
        }
    }
}

/// A task's id, its name, and where it was spawned.
pub(super) struct Who<'a>(&'a TaskDump);

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.0.id)?;
        if let Some(name) = &self.0.name {
            write!(f, " {name:?}")?;
        }
        write!(f, ", spawned at {}", self.0.location)
    }
}

impl fmt::Display for TaskDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (who, state, age) = (self.who(), self.state, self.age);
        write!(f, "{who}, {state}, {age:?} old, {}", self.account)?;
        let mut separator = ", waits for ";
        for waits_for in &self.waits_for {
            write!(f, "{separator}{waits_for}")?;
            separator = " and ";
        }
        Ok(())
    }
}

impl From<TaskDump> for String {
    fn from(dump: TaskDump) -> Self {
        dump.to_string()
    }
}
