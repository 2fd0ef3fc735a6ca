//! The ways by which tasks come in from outside a worker: wakes, spawns of foreign threads, and the
//! ends of tasks.
//!
//! - A task that is woken on a worker of its runtime that holds its permit goes to that P
//!   (`push.rs`);
//! - any other goes to the global queue, from where the workers take it in batches;
//! - a pinned one goes to the inbox of its P, and the P's own thread is woken.
//!
//! What a task's handle of its scheduler does is in `given.rs`, which knows the current worker.
//!
//! An unsafe island: a pinned task is made here.
#![expect(unsafe_code, reason = "a pinned task is made here")]

use std::{future::Future, panic::Location, ptr::NonNull};

use super::{Shared, Worker};
use crate::note::{event, way};
use crate::{
    cell::{Birth, Extra, Header, Id, JoinCell, Lane, Parts, Place, Task},
    permit::{env::Env, phase::ShutdownEnv},
    policy::constants::ID_BLOCK,
    sync::atomic::Ordering::Relaxed,
};

/// Ids are unique in the process, so that two runtimes' logs can be told apart.
static NEXT_ID: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// Takes so many ids, and gives the first.
fn take_ids(count: u64) -> u64 {
    #[cfg(any(test, feature = "sim"))]
    if let Some(next) = OWN_IDS.get() {
        OWN_IDS.set(Some(next + count));
        return next;
    }
    NEXT_ID.fetch_add(count, Relaxed)
}

#[cfg(any(test, feature = "sim"))]
std::thread_local! {
    /// The next id of a simulation on this thread.
    static OWN_IDS: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// What this thread spawns from now on has ids from `first` on, whatever other threads do; with
/// `None`, ids of the process again.
#[cfg(any(test, feature = "sim"))]
pub(crate) fn set_own_ids(first: Option<u64>) {
    OWN_IDS.set(first);
}

/// The id of a task that no P spawns.
pub(crate) fn fresh_id() -> Id {
    Id::new(take_ids(1))
}

/// The id of the newest task in the process, or a later one.
pub(crate) fn newest_id() -> u64 {
    NEXT_ID.load(Relaxed)
}

impl Shared {
    /// Queues a task from a thread that has no P of this runtime.
    pub(crate) fn push_foreign(&self, task: Task) {
        if task.header().is_plain() {
            way!(self, Global, task.header());
            self.push_plain(task);
        } else if task.header().is_pinned() {
            way!(self, Pinned, task.header());
            self.push_pinned(task);
        } else {
            way!(self, Global, task.header());
            self.push(task);
        }
    }

    /// Queues a pinned task from another thread than its own.
    fn push_pinned(&self, task: Task) {
        let Place::Processor(index) = task.header().scheduler().place() else {
            unreachable!("a pinned task's scheduler handle is the P that it was spawned on");
        };
        let peer = self.peer(usize::from(index));
        peer.queues.inbox.push(task);
        self.notify_owner(peer);
    }

    /// The makings of a task that a foreign thread spawns.
    pub(crate) fn foreign_parts(
        &self,
        extra: Option<Box<Extra>>,
        location: &'static Location<'static>,
    ) -> Parts {
        Parts {
            birth: Birth {
                scheduler: NonNull::from(&self.foreign.scheduler),
                id: fresh_id(),
                born_ms: self.now_ms(),
                lane: Lane::NONE,
                parent: None,
            },
            location,
            extra,
        }
    }

    /// Enters a foreign thread's new task, and queues it.
    pub(crate) fn spawn_foreign(&self, task: Task) {
        if self.end.phase.is_ending() {
            task.refuse();
            return;
        }
        task.enter(|reference| self.foreign.live.lock().insert(reference));
        event!(self, Spawn, task.header(), 0);
        self.push_foreign(task);
        self.foreign_thread_left();
    }

    /// A block of fresh ids.
    pub(crate) fn id_block() -> (u64, u64) {
        let first = take_ids(ID_BLOCK);
        (first, first + ID_BLOCK)
    }

    /// Makes a task that stays on this worker's thread.
    pub(crate) fn new_pinned_task<F>(
        worker: &Worker,
        future: F,
        parts: Parts,
    ) -> (Task, JoinCell<F::Output>)
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        assert!(
            worker.is_own_scheduler_at(parts.birth.scheduler),
            "a pinned task's scheduler handle is its thread's"
        );
        // SAFETY: the scheduler handle is that of this worker's P. `Worker::spawn` and `schedule`
        // put a pinned task into the pinned queue of its scheduler handle's P or its inbox, from
        // which only that P's thread takes (I7), and the thread keeps the P while it has pinned
        // tasks: `clear_away` ends them first.
        unsafe { Task::new_pinned(future, parts) }
    }

    /// The same for the task that `carrier` has taken to this thread.
    pub(crate) fn new_carried_task<F>(
        worker: &Worker,
        future: F,
        carrier: &Header,
    ) -> (Task, JoinCell<F::Output>)
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        // SAFETY: as in `new_pinned_task`: the scheduler handle is that of this worker's P.
        unsafe { Task::new_carried(future, NonNull::from(&worker.peer().scheduler), carrier) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_ids_follow_each_other() {
        let blocks = [(); 4].map(|()| Shared::id_block());
        for pair in blocks.windows(2) {
            let [(first, end), (next, _)] = [pair[0], pair[1]];
            assert!(first < end && end <= next, "{blocks:?}");
        }
    }
}
