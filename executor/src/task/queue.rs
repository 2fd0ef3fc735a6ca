//! Tasks that their owner polls: a queue of its own, beside the scheduler.
//!
//! Some tasks belong to no worker: those of a set that one future polls, and those of a runtime
//! that has no thread but that of its caller. They have the cell, the handle and the wakers of
//! every other task. Their scheduler handle alone differs: it leads to a [`TaskQueue`].
//!
//! | step | by | does |
//! | --- | --- | --- |
//! | spawn | any thread, or the owner's if the future is not `Send` | live table, then the back of the queue |
//! | wake | any thread | the back of the queue, then the owner's waker |
//! | [`run_next`](TaskQueue::run_next) | the owner | polls the task at the front |
//! | its drop | the owner | cancels every live task, and polls until none is left |
//!
//! *Invariant*: a task that is live and queued is in the queue, or in the hand of the thread that
//! woke it, which is about to push it. So the owner may wait for the second kind at the end: that
//! thread needs nothing from it.
//!
//! *Memory*: a scheduler handle has to outlive its live tasks, and the thread that schedules one
//! touches it after the task may have ended. So that thread takes a reference to the queue before
//! it pushes, while the task in its hand keeps it alive: the owner has a reference as well, and its
//! drop does not give that up while a task lives, but for those that are polled just then. Their
//! `run_next` has one.
//!
//! A poll has the budget of any poll (F2). The owner polls in rounds. What is woken during a round
//! is polled in the same one, so the owner bounds its rounds. A task that was woken in its own
//! poll, as one that yields, waits for the next round: before that the owner looks at timers and
//! the netpoll.
//!
//! Rejected: `FuturesUnordered`, whose futures have no handles and cannot be spawned from another
//! thread; tasks pinned to a P, which end with the `block_on` of their thread, and run although the
//! set that they belong to is not polled.
#![expect(
    unsafe_code,
    reason = "a scheduler handle finds its queue by an address; a future that is not `Send` is put into a cell"
)]

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    panic::Location,
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    thread::{self, ThreadId},
};

use super::JoinHandle;
use crate::{
    budget,
    cell::{
        Functions, Outcome, Parts, Place, SchedulerHandle, Task, TaskRef, drop_waker_quietly,
        live::{LiveOwner, Removed, live_table},
        wake_quietly,
    },
    sched::fresh_id,
};

static FUNCTIONS: Functions = Functions {
    schedule,
    remove,
    // The panic hook has told of it, and the owner has no reports of its own.
    report_panic: |_, _| {},
};

/// The owner's end of a queue. See the module's head.
pub struct TaskQueue {
    spawner: Spawner,
}

/// The other end of a queue: for those that spawn, from any thread.
#[derive(Clone)]
pub struct Spawner {
    inner: Arc<Inner>,
}

struct Inner {
    scheduler: SchedulerHandle,
    live: Mutex<LiveOwner<TaskRef>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Task>,
    /// For the next round.
    yielded: VecDeque<Task>,
    /// Woken when something comes in.
    waker: Option<Waker>,
    closed: bool,
    /// How many tasks are in the middle of a poll.
    polling: usize,
    /// The thread of the futures that are not `Send`, since the first of them was spawned.
    owner: Option<ThreadId>,
}

impl Default for TaskQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl TaskQueue {
    /// An empty queue.
    pub fn new() -> Self {
        let inner = Arc::new_cyclic(|weak: &std::sync::Weak<Inner>| {
            let (table, owner) = live_table();
            Inner {
                scheduler: SchedulerHandle::new(
                    Place::Foreign,
                    weak.as_ptr().cast(),
                    table,
                    &FUNCTIONS,
                ),
                live: Mutex::new(owner),
                state: Mutex::default(),
            }
        });
        Self {
            spawner: Spawner { inner },
        }
    }

    /// An empty queue of this thread: no other may spawn by [`Spawner::spawn_local`].
    pub fn of_this_thread() -> Self {
        let queue = Self::new();
        queue.spawner.inner.lock().owner = Some(thread::current().id());
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
        self.spawner.inner.clone().run_next()
    }

    /// Ends a round: the tasks that have yielded are in the queue again. True if there are any.
    pub fn end_round(&self) -> bool {
        self.spawner.inner.lock().end_round()
    }

    /// Sets the waker that is woken when something comes in. True if something is queued already.
    pub fn register(&self, waker: &Waker) -> bool {
        let inner = &self.spawner.inner;
        // A clone before the lock: it is code of the user's (S8).
        let waker = waker.clone();
        let mut state = inner.lock();
        let stale = state.waker.replace(waker);
        let any = !state.queue.is_empty() || !state.yielded.is_empty();
        drop(state);
        if let Some(stale) = stale {
            drop_waker_quietly(stale);
        }
        any
    }
}

impl Drop for TaskQueue {
    fn drop(&mut self) {
        let inner = self.spawner.inner.clone();
        let mut state = inner.lock();
        if !state.is_own() {
            // Its futures may be dropped on their own thread only. So they never are.
            drop(state);
            return std::mem::forget(inner);
        }
        state.closed = true;
        drop(state);
        inner.scheduler.live().for_each(|task| task.abort());
        while inner.scheduler.live().len() > inner.lock().polling {
            if !inner.clone().run_next() && !inner.lock().end_round() {
                // A thread has woken the last ones, and is about to push them.
                thread::yield_now();
            }
        }
        let waker = inner.lock().waker.take();
        if let Some(waker) = waker {
            drop_waker_quietly(waker);
        }
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
        let (task, join) = Task::new(future, self.inner.parts(Location::caller()));
        self.inner.begin(task);
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
        let own = thread::current().id();
        let owner = *self.inner.lock().owner.get_or_insert(own);
        assert_eq!(
            owner, own,
            "a task that is not `Send` was spawned into a queue of another thread"
        );
        // SAFETY: the queue's owner is this thread. `run_next` and the drop, which alone run its
        // tasks, do so on no other.
        let (task, join) =
            unsafe { Task::new_pinned(future, self.inner.parts(Location::caller())) };
        self.inner.begin(task);
        JoinHandle::new(join)
    }

    /// How many tasks are alive.
    pub fn alive(&self) -> usize {
        self.inner.scheduler.live().len()
    }

    /// Whether [`spawn_local`](Self::spawn_local) would work on this thread.
    pub fn is_of_this_thread(&self) -> bool {
        self.inner.lock().is_own()
    }

    /// How many tasks are queued.
    pub fn queued(&self) -> usize {
        let state = self.inner.lock();
        state.queue.len() + state.yielded.len()
    }
}

impl State {
    fn end_round(&mut self) -> bool {
        let State { queue, yielded, .. } = self;
        queue.append(yielded);
        !queue.is_empty()
    }

    /// Whether this thread may run the tasks.
    fn is_own(&self) -> bool {
        self.owner
            .is_none_or(|owner| owner == thread::current().id())
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics under it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> MutexGuard<'_, LiveOwner<TaskRef>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parts(&self, location: &'static Location<'static>) -> Parts {
        Parts {
            scheduler: NonNull::from(&self.scheduler),
            id: fresh_id(),
            born_ms: 0,
            location,
            extra: None,
        }
    }

    /// Enters a new task, and queues it.
    fn begin(&self, task: Task) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            task.refuse();
            return;
        }
        task.enter(|reference| self.live().insert(reference));
        state.queue.push_back(task);
        wake(state);
    }

    /// By value: the queue is there until the end of the poll, whatever that drops.
    fn run_next(self: Arc<Self>) -> bool {
        let mut state = self.lock();
        // Under the lock by which the task is taken: whose queue it is may be decided at any time.
        if !state.is_own() {
            drop(state);
            panic!("a queue with tasks that are not `Send` was polled on another thread");
        }
        let Some(task) = state.queue.pop_front() else {
            return false;
        };
        state.polling += 1;
        drop(state);
        let id = task.header().id();
        let outcome = id.runs(|| budget::with_budget(|| task.run(|| false)));
        let mut state = self.lock();
        state.polling -= 1;
        if let Outcome::Requeue(task) = outcome {
            state.yielded.push_back(task);
        }
        true
    }
}

/// Wakes the owner, outside of the lock.
fn wake(mut state: MutexGuard<'_, State>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        wake_quietly(waker);
    }
}

/// A task was woken.
fn schedule(scheduler: &SchedulerHandle, task: Task) {
    let inner = scheduler.runtime().cast::<Inner>();
    // SAFETY: the address is that of the queue's `Arc`, which is there while the task lives (see
    // *Memory*), and the task in our hand is queued, so it lives. The reference that is taken here
    // is that of `inner` below.
    let inner = unsafe {
        Arc::increment_strong_count(inner);
        Arc::from_raw(inner)
    };
    let mut state = inner.lock();
    state.queue.push_back(task);
    wake(state);
}

/// A task has ended.
fn remove(scheduler: &SchedulerHandle, index: u32) -> Removed<TaskRef> {
    // SAFETY: the caller ends the task, which lives until this returns, and the queue with it.
    let inner = unsafe { &*scheduler.runtime().cast::<Inner>() };
    inner.live().remove(index)
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
