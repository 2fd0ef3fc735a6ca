//! What users are told of tasks that can never wake; see `cell/lost.rs`.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use super::dump::TaskDump;
use crate::cell::Id;

/// A task that can never be polled again, unless it is aborted: no waker of it is left, or the only
/// ones wait for tasks that can never be polled again either.
///
/// It is shown as a sentence. See [`Handle::lost_tasks`](crate::runtime::Handle::lost_tasks).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LostTask {
    /// The task.
    pub task: TaskDump,
    /// The lost tasks that it waits for, by their handles. If it waits for none, it has no waker at
    /// all.
    pub waits_for: Vec<Id>,
    /// If it waits for itself through others: the ring of handles, from the task that it waits for
    /// to the task itself.
    pub ring: Vec<Id>,
}

/// What wants to know of lost tasks.
#[derive(Clone, Default)]
pub(crate) struct Lost {
    pub(crate) hook: Option<LostHook>,
    /// [`Runtime::run`](crate::runtime::Runtime::run) panics if its root is lost.
    pub(crate) fails_run: bool,
}

type LostHook = Arc<dyn Fn(&LostTask) + Send + Sync>;

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost")
            .field("hook", &self.hook.is_some())
            .field("fails_run", &self.fails_run)
            .finish()
    }
}

/// The root of a `run` that fails if that is lost.
#[derive(Debug, Default)]
pub(crate) struct WatchedRoot {
    pub(super) root: OnceLock<Id>,
    /// Why it was aborted.
    pub(super) verdict: OnceLock<String>,
}

impl fmt::Display for LostTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = self.task.who();
        write!(f, "{who}, can never wake: {}", self.why())
    }
}

/// Why a task can never wake.
pub(super) struct Why<'a>(&'a LostTask);

impl LostTask {
    pub(super) fn why(&self) -> Why<'_> {
        Why(self)
    }
}

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((first, others)) = self.0.ring.split_first() {
            write!(f, "it waits for task {first}")?;
            for id in others {
                write!(f, ", which waits for task {id}")?;
            }
            Ok(())
        } else if let Some(first) = self.0.waits_for.first() {
            write!(f, "it waits for task {first}, which can never wake")
        } else {
            write!(f, "it waits, and nothing has a waker of it")
        }
    }
}
