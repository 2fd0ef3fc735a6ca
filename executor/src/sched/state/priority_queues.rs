//! The queues and turns of tasks with a priority, on one P; `priority.rs` says how they are used.

use std::cell::{Cell, OnceCell};

use crate::{
    cell::Task,
    queue::{Batch, OrderedLocal},
};

/// What a P has for order, for its thread alone. Others see the stealing end in
/// `PeerQueues::ordered`.
#[derive(Debug, Default)]
pub(crate) struct PriorityQueues {
    /// Made for the first task that needs it: few programs have such tasks, and it is large.
    pub(in crate::sched) own: OnceCell<OrderedLocal<Task>>,
    /// Tasks of its own since the shared queue had its turn.
    pub(in crate::sched) taken: Cell<u32>,
    /// The tick of the next turn for those below; 0 while no task waits for one.
    pub(in crate::sched) next_turn: Cell<u64>,
    /// The tick of the next look at what all others publish.
    pub(in crate::sched) next_look: Cell<u64>,
    /// Whose turn it is next.
    pub(in crate::sched) turn: Cell<usize>,
    /// The level of the shared queue that had the last turn.
    pub(in crate::sched) shared_turn: Cell<i64>,
}

impl PriorityQueues {
    pub(crate) fn is_empty(&self) -> bool {
        self.own.get().is_none_or(OrderedLocal::is_empty)
    }

    /// Takes what is there, the highest first.
    pub(crate) fn drain(&self) -> Batch<Task> {
        let mut batch = Batch::new();
        if let Some(own) = self.own.get() {
            own.drain(|task| batch.push(task));
        }
        batch
    }

    /// Takes the highest.
    pub(crate) fn pop(&self) -> Option<Task> {
        self.own.get()?.pop()
    }
}
