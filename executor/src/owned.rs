//! Tasks that their owner polls: a queue of its own, beside the scheduler.
//!
//! Some tasks belong to no worker: those of a set that one future polls, and those of a runtime
//! that has no thread but that of its caller. They have the cell, the handle and the wakers of
//! every other task. Their scheduler handle alone differs: it leads to an [`Owned`].
//!
//! | step | by | does |
//! | --- | --- | --- |
//! | [`begin`](Owned::begin) | any thread, or the owner's if the future is not `Send` | live table, then the back of the queue, then the owner's waker |
//! | wake | any thread | the back of the queue, then the owner's waker |
//! | [`run_next`](Owned::run_next) | the owner | polls the task at the front |
//! | [`register`](Owned::register) | the owner, before it waits | leaves its waker, then looks whether something is queued |
//! | [`end`](Owned::end) | the owner | cancels every live task, and polls until none is left |
//!
//! *Invariant*: a task that is live and queued is in the queue, or in the hand of the thread that
//! woke it, which is about to push it. So the owner may wait for the second kind at the end: that
//! thread needs nothing from it.
//!
//! *No wake is lost*: a thread that pushes takes the waker under the same lock, and the owner
//! leaves it under that lock as well. If the push is first, the owner sees the task when it has
//! left its waker. If the waker is first, the push takes it and wakes the owner.
//!
//! *Nothing comes in after the end*: that it is closed is said under that lock, too. A spawn that
//! comes later is refused; one that came before has entered its task by then, which the end
//! cancels.
//!
//! *Memory*: a scheduler handle has to outlive its live tasks, and the thread that schedules one
//! touches it after the task may have ended. So that thread takes a reference to the queue before
//! it pushes, while the task in its hand keeps it alive: the owner has a reference as well, and
//! does not give that up before its [`end`](Owned::end), which waits for all tasks but those that
//! are polled just then. Their `run_next` has one.
//!
//! A poll has the budget of any poll (F2), which the caller brings. The owner polls in rounds. What
//! is woken during a round is polled in the same one, so the owner bounds its rounds. A task that
//! was woken in its own poll, as one that yields, waits for the next round: before that the owner
//! looks at timers and the netpoll.
//!
//! Rejected: `FuturesUnordered`, whose futures have no handles and cannot be spawned from another
//! thread; tasks pinned to a P, which end with the `block_on` of their thread, and run although the
//! set that they belong to is not polled.
//!
//! Checked by `models/owned.rs`. What users hold is in `task/queue.rs`.
#![expect(
    unsafe_code,
    reason = "a scheduler handle finds its queue by an address"
)]

use std::{
    collections::VecDeque,
    panic::Location,
    ptr::NonNull,
    // A scheduler handle has the address of what it is in, for which loom's `Arc` has no function.
    sync::{Arc, Weak},
    task::Waker,
};

use crate::{
    cell::{
        Birth, Functions, Header, Id, Lane, Outcome, Parts, Place, SchedulerHandle, Task, TaskRef,
        drop_waker_quietly,
        live::{LiveOwner, Removed, live_table},
        wake_quietly,
    },
    sync::{
        Mutex, MutexGuard,
        thread::{self, ThreadId},
    },
};

static FUNCTIONS: Functions = Functions {
    schedule,
    remove,
    report_panic: |scheduler, header| {
        // SAFETY: as in `remove`: the task is ending, and lives until that is over.
        let owned = unsafe { &*scheduler.runtime().cast::<Owned>() };
        (owned.report_panic)(header);
    },
};

/// The tasks of one owner. See the module's head.
pub(crate) struct Owned {
    scheduler: SchedulerHandle,
    live: Mutex<LiveOwner<TaskRef>>,
    state: Mutex<State>,
    /// A task that no handle joins has panicked.
    report_panic: fn(&Header),
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

impl Owned {
    /// No tasks yet. `report_panic` is told of a panic that no handle joins.
    pub(crate) fn new(report_panic: fn(&Header)) -> Arc<Self> {
        Arc::new_cyclic(|weak: &Weak<Self>| {
            let (table, owner) = live_table();
            Self {
                scheduler: SchedulerHandle::new(
                    Place::Foreign,
                    weak.as_ptr().cast(),
                    table,
                    &FUNCTIONS,
                ),
                live: Mutex::new(owner),
                state: Mutex::new(State::default()),
                report_panic,
            }
        })
    }

    /// What a task of this queue is made with.
    pub(crate) fn parts(&self, id: Id, location: &'static Location<'static>) -> Parts {
        Parts {
            birth: Birth {
                scheduler: NonNull::from(&self.scheduler),
                id,
                born_ms: 0,
                lane: Lane::NONE,
                parent: None,
            },
            location,
            extra: None,
        }
    }

    /// Enters a new task, and queues it.
    pub(crate) fn begin(&self, task: Task) {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            task.refuse();
            return;
        }
        task.enter(|reference| self.live.lock().insert(reference));
        state.queue.push_back(task);
        wake(state);
    }

    /// From now on the tasks may be polled on this thread alone. The thread for which that holds:
    /// another one if it came before.
    pub(crate) fn belong_here(&self) -> (ThreadId, ThreadId) {
        let here = thread::current().id();
        (*self.state.lock().owner.get_or_insert(here), here)
    }

    /// Whether this thread may poll the tasks.
    pub(crate) fn is_of_this_thread(&self) -> bool {
        self.state.lock().is_own()
    }

    /// Polls the task at the front of the queue. False if the queue is empty.
    ///
    /// By value: the queue is there until the end of the poll, whatever that drops.
    ///
    /// # Panics
    ///
    /// If the tasks belong to another thread.
    pub(crate) fn run_next(self: Arc<Self>, poll: impl FnOnce(Task) -> Outcome) -> bool {
        let mut state = self.state.lock();
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
        let outcome = poll(task);
        let mut state = self.state.lock();
        state.polling -= 1;
        if let Outcome::Requeue(task) = outcome {
            state.yielded.push_back(task);
        }
        true
    }

    /// Ends a round: the tasks that have yielded are in the queue again. True if there are any.
    pub(crate) fn end_round(&self) -> bool {
        let mut state = self.state.lock();
        let State { queue, yielded, .. } = &mut *state;
        queue.append(yielded);
        !queue.is_empty()
    }

    /// Sets the waker that is woken when something comes in. True if something is queued already.
    pub(crate) fn register(&self, waker: &Waker) -> bool {
        // A clone before the lock: it is code of the user's (S8).
        let waker = waker.clone();
        let mut state = self.state.lock();
        let stale = state.waker.replace(waker);
        let any = !state.queue.is_empty() || !state.yielded.is_empty();
        drop(state);
        if let Some(stale) = stale {
            drop_waker_quietly(stale);
        }
        any
    }

    /// Ends all tasks, and refuses what is spawned from now on.
    pub(crate) fn end(self: &Arc<Self>, poll: impl Fn(Task) -> Outcome) {
        let mut state = self.state.lock();
        if !state.is_own() {
            // Its futures may be dropped on their own thread only. So they never are.
            drop(state);
            return std::mem::forget(self.clone());
        }
        state.closed = true;
        drop(state);
        self.scheduler.live().for_each(|task| task.abort());
        while self.alive() > self.state.lock().polling {
            if !self.clone().run_next(&poll) && !self.end_round() {
                // A thread has woken the last ones, and is about to push them.
                thread::yield_now();
            }
        }
        let waker = self.state.lock().waker.take();
        if let Some(waker) = waker {
            drop_waker_quietly(waker);
        }
    }

    /// How many tasks are alive.
    pub(crate) fn alive(&self) -> usize {
        self.scheduler.live().len()
    }

    /// How many tasks are queued.
    pub(crate) fn queued(&self) -> usize {
        let state = self.state.lock();
        state.queue.len() + state.yielded.len()
    }
}

impl State {
    /// Whether this thread may run the tasks.
    fn is_own(&self) -> bool {
        self.owner
            .is_none_or(|owner| owner == thread::current().id())
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
    let owned = scheduler.runtime().cast::<Owned>();
    // SAFETY: the address is that of the queue's `Arc`, which is there while the task lives (see
    // *Memory*), and the task in our hand is queued, so it lives. The reference that is taken here
    // is that of `owned` below.
    let owned = unsafe {
        Arc::increment_strong_count(owned);
        Arc::from_raw(owned)
    };
    let mut state = owned.state.lock();
    state.queue.push_back(task);
    wake(state);
}

/// A task has ended.
fn remove(scheduler: &SchedulerHandle, index: u32) -> Removed<TaskRef> {
    // SAFETY: the caller ends the task, which lives until this returns, and the queue with it.
    let owned = unsafe { &*scheduler.runtime().cast::<Owned>() };
    owned.live.lock().remove(index)
}
