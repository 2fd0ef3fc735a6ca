//! What users and the facade of tokio hold of tasks that their owner polls: handles, and the budget
//! of a poll. How it works: `owned.rs`.
#![expect(unsafe_code, reason = "a future that is not `Send` is put into a cell")]

use std::{fmt, future::Future, panic::Location, sync::Arc, task::Waker};

use super::JoinHandle;
use crate::{
    budget,
    cell::{Ended, Header, Outcome, Task, report},
    context, given,
    owned::Owned,
    sched::fresh_id,
};

/// The owner's end of a queue.
pub struct TaskQueue {
    spawner: Spawner,
}

/// The other end of a queue: for those that spawn, from any thread.
#[derive(Clone)]
pub struct Spawner {
    owned: Arc<Owned>,
}

impl Default for TaskQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl TaskQueue {
    /// An empty queue.
    pub fn new() -> Self {
        let owned = Owned::new(report_panic);
        Self {
            spawner: Spawner { owned },
        }
    }

    /// An empty queue of this thread: no other may spawn by [`Spawner::spawn_local`].
    pub fn of_this_thread() -> Self {
        let queue = Self::new();
        queue.spawner.owned.belong_here();
        queue
    }

    /// The other end.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// Polls the task at the front of the queue. False if the queue is empty.
    ///
    /// # Panics
    ///
    /// If another thread has spawned tasks by [`spawn_local`](Spawner::spawn_local).
    pub fn run_next(&self) -> bool {
        self.run_next_and(|| {})
    }

    /// The same; `panicked` is called if the task ended with a panic.
    pub(super) fn run_next_and(&self, panicked: impl FnOnce()) -> bool {
        let mut has_panicked = false;
        let ran = self.spawner.owned.clone().run_next(|task| {
            let outcome = poll(task);
            has_panicked = matches!(outcome, Outcome::Done(Ended::Panicked));
            outcome
        });
        if has_panicked {
            panicked();
        }
        ran
    }

    /// Ends a round: the tasks that have yielded are in the queue again. True if there are any.
    pub fn end_round(&self) -> bool {
        self.spawner.owned.end_round()
    }

    /// Sets the waker that is woken when something comes in. True if something is queued already.
    pub fn register(&self, waker: &Waker) -> bool {
        self.spawner.owned.register(waker)
    }
}

impl Drop for TaskQueue {
    fn drop(&mut self) {
        self.spawner.owned.end(poll);
    }
}

impl Spawner {
    /// Spawns a task, from any thread.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let parts = self.owned.parts(fresh_id(), Location::caller());
        let (task, join) = Task::new(future, parts);
        self.owned.begin(task);
        JoinHandle::new(join)
    }

    /// Spawns a task that is polled on this thread.
    ///
    /// # Panics
    ///
    /// If another thread has done so before.
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let (owner, own) = self.owned.belong_here();
        assert_eq!(
            owner, own,
            "a task that is not `Send` was spawned into a queue of another thread"
        );
        let parts = self.owned.parts(fresh_id(), Location::caller());
        // SAFETY: the queue's owner is this thread. `run_next` and the drop, which alone run its
        // tasks, do so on no other.
        let (task, join) = unsafe { Task::new_pinned(future, parts) };
        self.owned.begin(task);
        JoinHandle::new(join)
    }

    /// How many tasks are alive.
    pub fn alive(&self) -> usize {
        self.owned.alive()
    }

    /// Whether [`spawn_local`](Self::spawn_local) would work on this thread.
    pub fn is_of_this_thread(&self) -> bool {
        self.owned.is_of_this_thread()
    }

    /// How many tasks are queued.
    pub fn queued(&self) -> usize {
        self.owned.queued()
    }
}

/// A poll has an id, and the budget of any poll (F2). What it waits for, the poll of the set waits
/// for.
fn poll(task: Task) -> Outcome {
    let id = task.header().id();
    id.runs(|| budget::with_budget_inside(|| task.run_apart()))
}

/// By the runtime in which the task was polled, if there is one.
fn report_panic(header: &Header) {
    context::with_entered(|current| match current {
        Some((shared, _)) => given::report_panic_to(shared, header),
        None => report(|| {
            tracing::error!(
                task.id = %header.id(),
                spawned.at = %header.location(),
                "a task panicked that nobody joins"
            );
        }),
    });
}

impl fmt::Debug for TaskQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskQueue")
            .field("alive", &self.spawner.alive())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner")
            .field("alive", &self.alive())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
