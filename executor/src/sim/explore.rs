//! The choice among all ready tasks of a machine, for orders that are not the scheduler's own.
//!
//! # How it works
//!
//! [`Machine::step`] polls what the scheduler would poll next: a caller chooses a thread, and the
//! queues of that thread decide on the task. For an order of the caller's, a step has two halves:
//!
//! ```text
//! Machine::find(found)    each thread looks for work until it finds no more; what it finds goes
//!                         into the pool, and is told to the caller
//! Machine::poll(ticket)   the thread that found this task polls it
//! ```
//!
//! The caller calls `find` after each poll, and whenever something may have come from outside. Then
//! the pool has each task that could run.
//!
//! A thread with tasks in the pool stays awake, keeps its permit, and looks again in each `find`.
//! So timers and sockets bring their tasks while others wait in the pool.
//!
//! *Invariants*:
//!
//! 1. A task in the pool is queued, as one in a local queue is: an abort marks it, and its next
//!    poll drops it.
//! 2. A thread with tasks in the pool has a permit. If it loses the permit, by a call that blocks,
//!    and cannot get one at its next look, its tasks go to the global queue, and other threads find
//!    them under another ticket.
//! 3. Before the machine ends, the pool goes to the global queue, where the end finds it.
//!
//! A call of `spawn_blocking` is a task as any other. One that a thread without a permit finds runs
//! at once.
//!
//! # Rejected
//!
//! - An order as a policy of the queues (`push`, `pop`, steal): the scheduler has eight places for
//!   ready tasks, each with its rules, and each would ask the policy.
//! - To draw one of a queue's tasks with each `pop`, as the paused clock does (`paused.rs`): the
//!   choice would be within one queue of one host, where a priority compares all.
//! - A poll by any thread and not by the one that found the task: pinned tasks have only one, and
//!   which worker polls a plain task is seen by nearly no program.
//!
//! What is lost against [`Machine::step`]: the first thread that looks finds nearly everything, so
//! with many workers there are few steals.
//!
//! Checked by the tests here, and by the orders of `ws-sim`.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use super::Machine;
use crate::{
    budget,
    cell::Id,
    cell::Task,
    context,
    sched::{
        Shared,
        stepped::{Hand, Thread},
    },
    sync::Arc,
};

/// A task that could run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its number in the pool, which no other task of this machine had before it.
    pub ticket: u64,
    /// The task.
    pub task: Id,
}

/// The tasks that were found and not polled yet, by their tickets. With each is the P of the thread
/// that found it.
#[derive(Default)]
pub(super) struct Pool {
    tasks: RefCell<BTreeMap<u64, (usize, Task)>>,
    tickets: Cell<u64>,
}

impl Pool {
    fn add(&self, thread: usize, task: Task) -> u64 {
        let ticket = self.tickets.get();
        self.tickets.set(ticket + 1);
        self.tasks.borrow_mut().insert(ticket, (thread, task));
        ticket
    }

    /// Sends the tasks of these threads to the global queue.
    pub(super) fn give_back(&self, shared: &Arc<Shared>, is_theirs: impl Fn(usize) -> bool) {
        let all = self.tasks.take();
        let (theirs, kept): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|(_, (thread, _))| is_theirs(*thread));
        self.tasks.borrow_mut().extend(kept);
        for (_, (_, task)) in theirs {
            shared.push_foreign(task);
        }
    }

    fn has_of(&self, thread: usize) -> bool {
        let tasks = self.tasks.borrow();
        tasks.values().any(|(finder, _)| *finder == thread)
    }
}

impl Machine {
    /// Lets each thread look for work until it finds no more. `found` is told of each task that was
    /// not in the pool before.
    ///
    /// # Examples
    ///
    /// ```
    /// use ws::runtime::Builder;
    /// use ws_executor::sim::Machine;
    ///
    /// let machine = Machine::new(Builder::new().workers(1).seed(7))?;
    /// let first = machine.handle().spawn(async {});
    /// let last = machine.handle().spawn(async {});
    /// let mut ready = Vec::new();
    /// machine.find(|found| ready.push(found));
    /// // The last one first.
    /// let place = ready.iter().position(|found| found.task == last.id());
    /// assert!(machine.poll(ready[place.expect("it is ready")].ticket));
    /// assert!(last.is_finished() && !first.is_finished());
    /// machine.end();
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    pub fn find(&self, found: impl FnMut(Ready)) {
        let hand = Gather {
            machine: self,
            found: RefCell::new(found),
            stayed: RefCell::default(),
        };
        loop {
            self.take_up_new_threads();
            let Some((index, thread)) = self.next_to_look(&hand.stayed.borrow()) else {
                return;
            };
            let is_due = || self.is_due();
            self.move_thread(index, thread, |thread| thread.step_to_rest(&hand, is_due));
        }
    }

    /// Polls a task that [`find`](Self::find) has found. False if it is not in the pool any more.
    ///
    /// A panic of the task is caught, as by any worker.
    pub fn poll(&self, ticket: u64) -> bool {
        let entry = self.pool.tasks.borrow_mut().remove(&ticket);
        let Some((finder, task)) = entry else {
            return false;
        };
        let thread = self.thread_of(finder);
        context::as_another_thread(|| {
            budget::step(|| thread.within(|| thread.worker.poll(task)));
        });
        true
    }

    /// A thread that can take a step, unless it holds tasks and has looked already.
    fn next_to_look(&self, stayed: &[usize]) -> Option<(usize, Rc<Thread>)> {
        let threads = self.threads.borrow();
        let looks = |thread: &&Rc<Thread>| {
            !stayed.contains(&thread.worker.index()) && thread.can_step(|| self.is_due())
        };
        let mut present = threads.iter().enumerate();
        present.find_map(|(index, thread)| Some((index, thread.as_ref().filter(looks)?.clone())))
    }

    fn thread_of(&self, finder: usize) -> Rc<Thread> {
        let threads = self.threads.borrow();
        let mut threads = threads.iter().flatten();
        let thread = threads.find(|thread| thread.worker.index() == finder);
        thread
            .expect("a thread with tasks in the pool stays")
            .clone()
    }
}

/// Takes what threads find.
struct Gather<'a, F> {
    machine: &'a Machine,
    found: RefCell<F>,
    /// The Ps of the threads that hold tasks and found no more.
    stayed: RefCell<Vec<usize>>,
}

impl<F: FnMut(Ready)> Hand for Gather<'_, F> {
    fn found(&self, thread: &Thread, task: Task) {
        if !thread.has_permit() {
            return thread.worker.poll(task);
        }
        thread.holds_work();
        let id = task.header().id();
        let ticket = self.machine.pool.add(thread.worker.index(), task);
        (self.found.borrow_mut())(Ready { ticket, task: id });
    }

    fn stays(&self, thread: &Thread) -> bool {
        let index = thread.worker.index();
        let pool = &self.machine.pool;
        if !pool.has_of(index) {
            return false;
        }
        if !thread.has_permit() {
            let shared = self.machine.handle().shared();
            pool.give_back(shared, |finder| finder == index);
            return false;
        }
        self.stayed.borrow_mut().push(index);
        true
    }
}

#[cfg(test)]
mod tests;
