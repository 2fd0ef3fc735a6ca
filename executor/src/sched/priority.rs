//! Priorities: where tasks above and below the default one stand in `Worker::step`.
//!
//! A task of another priority than the default is queued in an ordered queue
//! (`queue/src/ordered.rs`): its P's own, or, from outside or for want of room, the shared one. All
//! others go the usual way. In each step they pay one relaxed load, for the question whether there
//! has ever been any other: four instructions of a step's 114, or five, as `cargo xtask counts
//! ordered` shows.
//!
//! # What a step takes
//!
//! Behind due timers, pinned tasks (each second time) and what is due at a look for all:
//!
//! 1. *A turn for those below*, at every 61st tick or so; see *Fairness*.
//! 2. After 60 tasks of its own, the highest of the shared queue (O4).
//! 3. At every 61st tick or so, half of the ordered queue of the P that publishes the highest
//!    level, if that is above all that is at hand: the P may be stuck, and its own thread may not
//!    come by (O4).
//! 4. The highest above the default, its own or shared, its own if they are level (O1).
//! 5. `runnext`, the LRQ; then a batch of the global queue: its tasks have the default priority.
//! 6. The highest of the others, its own or shared.
//! 7. Others' tasks: in each round first the ordered ones above the default, then the LRQs, and at
//!    the end the ordered ones below (O3).
//!
//! In 3, 4 and 6 a worker looks at the shared queue's highest level at every step, for one more
//! load. If it looked only when it runs dry or after 60 tasks, a request from a foreign thread
//! would wait behind 60 polls of batch work. A worker with nothing of its own looks at the other Ps
//! first, and takes from the shared queue what is above that (O3). Other threads may take what
//! their Ps have at any moment. So if a steal failed, the worker asks for the shared level again.
//!
//! # What a push wakes
//!
//! If a permit is free and no thread searches, a push wakes a thread, as for a task that goes to
//! the back of an LRQ. *The wake back-off* in `push.rs` is not for these: it lets a task wait for
//! the poll that woke it. An urgent task is not to wait beside a free permit.
//!
//! # Fairness
//!
//! Strict order starves what is low. So at the 59th tick after the last such turn, or up to two
//! later, one of four has its turn. If it has nothing, the next one has its turn:
//!
//! - the lowest of the own and the shared queue;
//! - the default ones (`runnext`, the LRQ);
//! - level by level, any of the own queue;
//! - level by level, any of the shared queue.
//!
//! So the lowest is taken within 4 * 61 = 244 ticks of its P, even if it is moved to the shared
//! queue meanwhile: [`Priority`](crate::task::Priority) says 250. With `Builder::priorities`
//! there are no turns and no step 2, and the global queue waits while anything above it is at hand.
//!
//! # Moves
//!
//! A task carries its priority, and no queue does. So it survives every move (overflow, steal,
//! flush, revocation, wake from a foreign thread): each push of a task asks it anew. That is also
//! when a changed priority begins to count.
//!
//! Checked by `priority/tests.rs` and by `tests/order/priorities_*.rs`; the queues by
//! `models::ordered` of `ws-queue`.

use super::{
    processor::{BRANCH, NO_POLL, Peer, ROOT, USER_CODE},
    worker::{Scope, Worker},
};
use crate::{
    cell::{DEFAULT_PRIORITY, Id, Task, TaskRef},
    note::way,
    permit::env::Env,
    policy::{
        share::Waiting,
        tick::{Tick, shared_is_due},
    },
    queue::{Batch, OrderedLocal, ordered_local},
    rng::random_order,
    sync::atomic::Ordering::Relaxed,
};

/// Above the default.
pub(super) const ABOVE: i64 = DEFAULT_PRIORITY + 1;
/// Any priority at all.
pub(super) const ANY: i64 = i64::MIN;
/// How many have a turn; see *Fairness*.
const TURNS: usize = 4;
/// What has a turn.
enum Turn {
    Of(Task),
    /// What is in the plain queues: the step goes on to them.
    Plain,
}

impl Worker {
    fn own_ordered(&self) -> &OrderedLocal<Task> {
        self.p.priority_queues.own.get_or_init(|| {
            let (own, stealer) = ordered_local();
            let fresh = self.peer().queues.ordered.set(stealer).is_ok();
            debug_assert!(fresh, "a P has one ordered queue");
            own
        })
    }

    /// The task that this thread is polling, if it is polling one.
    pub(crate) fn running_task(&self) -> Option<TaskRef> {
        match self.peer().progress.running.load(Relaxed) {
            ROOT | BRANCH | USER_CODE => None,
            address => self.shared.find_live(address),
        }
    }

    /// The id of the task that this thread is polling, if it is polling one.
    #[inline]
    pub(crate) fn running_id(&self) -> Option<Id> {
        match self.peer().progress.running.load(Relaxed) {
            NO_POLL | ROOT | BRANCH | USER_CODE => None,
            _ => Some(Id::new(self.p.poll.id.get())),
        }
    }

    /// The number of that task; 0: it polls none.
    pub(crate) fn running_number(&self) -> u64 {
        self.running_id().map_or(0, |id| id.as_u64())
    }

    // --- tasks that become runnable ---

    /// Into the ordered queue, and wakes a thread if one could take it.
    pub(super) fn push_ordered(&self, task: Task) {
        if self.push_ordered_quietly(task) {
            self.wake_one();
        }
    }

    /// Into the ordered queue, or with the lower half of it to the shared one. Returns whether the
    /// caller should see to a thread for it.
    pub(super) fn push_ordered_quietly(&self, task: Task) -> bool {
        if !self.peer().state.has_permit() {
            self.peer().counters.flushed.add(1);
            self.peer().flags.gave_away.store(true, Relaxed);
            self.shared.push_foreign(task);
            return false;
        }
        way!(self, Ordered, task.header());
        self.shared.queues.ordered.mark_used();
        match self.own_ordered().push(task) {
            Ok(()) => true,
            Err(batch) => {
                self.peer().counters.overflows.add(1);
                self.peer().flags.gave_away.store(true, Relaxed);
                self.shared.push_ordered_batch(batch);
                false
            }
        }
    }

    // --- the next task ---

    /// What comes before `runnext`. The caller has asked whether the ordered queues are used at
    /// all. Cold, so that the step of all others keeps its shape.
    #[cold]
    pub(super) fn ordered_first(&self) -> Option<Task> {
        let task = self.take_first();
        if task.is_some() {
            self.next.private_last.set(false);
            self.let_child_wait();
        }
        task
    }

    fn take_first(&self) -> Option<Task> {
        let priority_queues = &self.p.priority_queues;
        let tick = Tick(self.peer().progress.ticks.load(Relaxed));
        let strict = self.shared.config.strict_priorities;
        if !strict {
            if self.turn_is_due(tick)
                && let Some(turn) = self.take_turn()
            {
                return match turn {
                    Turn::Of(task) => Some(task),
                    Turn::Plain => None,
                };
            }
            if shared_is_due(priority_queues.taken.get()) && self.scope == Scope::All {
                priority_queues.taken.set(0);
                if let Some(task) = self.take_shared(ANY) {
                    return Some(task);
                }
            }
        }
        if tick.0 >= priority_queues.next_look.get() && self.scope == Scope::All {
            priority_queues.next_look.set(tick.next_look());
            let at_hand = self.top_at_hand().unwrap_or(ANY).max(DEFAULT_PRIORITY);
            if let Some(above) = at_hand.checked_add(1)
                && let Some(task) = self.steal_ordered(above)
            {
                return Some(task);
            }
        }
        self.highest(ABOVE)
    }

    /// What comes behind the LRQ.
    pub(super) fn ordered_last(&self) -> Option<Task> {
        if self.shared.queues.ordered.is_used() {
            self.highest(ANY)
        } else {
            None
        }
    }

    /// Whether the global queue has to wait, in a runtime with strict priorities.
    pub(super) fn is_outranked(&self) -> bool {
        self.shared.config.strict_priorities
            && self
                .top_at_hand()
                .is_some_and(|level| level > DEFAULT_PRIORITY)
    }

    /// The highest level in the own and the shared queue.
    fn top_at_hand(&self) -> Option<i64> {
        let own = self.p.priority_queues.own.get().and_then(OrderedLocal::top);
        own.max(self.shared.queues.ordered.top())
    }

    /// The highest of the own and the shared queue, if it is `min_level` or above; the own one if
    /// they are level.
    fn highest(&self, min_level: i64) -> Option<Task> {
        let shared = match self.scope {
            Scope::All => self
                .shared
                .queues
                .ordered
                .top()
                .filter(|&top| top >= min_level),
            Scope::Own => None,
        };
        let Some(top) = shared else {
            return self.take_own(min_level);
        };
        if let Some(task) = self.take_own(top) {
            return Some(task);
        }
        if !self.p.has_plain()
            && self.p.priority_queues.is_empty()
            && let Some(task) = self.steal_ordered(top)
        {
            return Some(task);
        }
        // Another thread may be faster.
        self.take_shared(min_level)
            .or_else(|| self.take_own(min_level))
    }

    fn take_own(&self, min_level: i64) -> Option<Task> {
        let priority_queues = &self.p.priority_queues;
        let task = priority_queues.own.get()?.pop_at_least(min_level)?;
        priority_queues.taken.set(priority_queues.taken.get() + 1);
        Some(self.took(task))
    }

    /// The highest of the shared queue, and a fair share of it for later.
    pub(super) fn take_shared(&self, min_level: i64) -> Option<Task> {
        let shared = &self.shared.queues.ordered;
        if shared.is_empty() {
            return None;
        }
        let (room, levels) = self.own_ordered().room();
        let waiting = Waiting {
            tasks: shared.len(),
            workers: self.shared.config.workers,
        };
        let mut tasks = match levels.checked_sub(1) {
            Some(more) => shared.take(min_level, waiting.fair_share_in_order(room), more),
            None => shared.take(min_level, 1, 0),
        };
        let first = tasks.next()?;
        for task in tasks {
            self.push_ordered_quietly(task);
        }
        self.p.priority_queues.taken.set(0);
        Some(self.took(first))
    }

    /// The upper half of the ordered queue of the P that publishes the highest level, if that is
    /// `min_level` or above: one to run, the rest into the own queue.
    pub(super) fn steal_ordered(&self, min_level: i64) -> Option<Task> {
        let mut best = None;
        let listed = self.list();
        for at in random_order(&self.p.rng, listed.len()).map(|at| listed[at]) {
            let Some(ordered) = self.shared.peer(at).queues.ordered.get() else {
                continue;
            };
            let top = ordered.top();
            let above = best.is_none_or(|(level, _)| top > level);
            if at != self.peer().index && top >= min_level && above && !ordered.is_empty() {
                best = Some((top, ordered));
            }
        }
        drop(listed);
        let (_, victim) = best?;
        let mut others = 0;
        let first = victim.steal(|task| {
            self.push_ordered_quietly(task);
            others += 1;
        })?;
        self.count_steal(1 + others);
        Some(self.took(first))
    }

    /// Any ordered task of another P, while the runtime ends.
    pub(super) fn steal_ordered_from(&self, peer: &Peer) -> Option<Task> {
        let mut batch = Batch::new();
        let first = peer.queues.ordered.get()?.steal(|task| batch.push(task));
        self.shared.queues.ordered.push_batch(batch);
        first
    }

    /// Counts ticks while a task waits in the ordered queues, and says when it is time for a turn.
    fn turn_is_due(&self, tick: Tick) -> bool {
        let next = &self.p.priority_queues.next_turn;
        let (due, then) = tick.turn(next.get(), self.top_at_hand().is_some());
        next.set(then);
        due
    }

    /// One of those that strict order would leave waiting; see *Fairness*.
    fn take_turn(&self) -> Option<Turn> {
        let priority_queues = &self.p.priority_queues;
        let own = priority_queues.own.get();
        let shared = (self.scope == Scope::All).then_some(&self.shared.queues.ordered);
        let next = priority_queues.turn.get();
        (next..next + TURNS).find_map(|turn| {
            let taken = match turn % TURNS {
                0 => {
                    let lowest = own.and_then(OrderedLocal::bottom);
                    let shared = shared.and_then(|shared| shared.pop_lowest_below(lowest));
                    Turn::Of(shared.or_else(|| own?.pop_lowest())?)
                }
                1 if self.p.has_plain() => Turn::Plain,
                1 => return None,
                2 => Turn::Of(own?.pop_in_turn()?),
                _ => {
                    let mut level = priority_queues.shared_turn.get();
                    let task = shared?.pop_in_turn(&mut level)?;
                    priority_queues.shared_turn.set(level);
                    Turn::Of(task)
                }
            };
            priority_queues.turn.set((turn + 1) % TURNS);
            Some(match taken {
                Turn::Of(task) => Turn::Of(self.took(task)),
                Turn::Plain => Turn::Plain,
            })
        })
    }

    /// It begins a slice of its own.
    fn took(&self, task: Task) -> Task {
        self.begin_slice();
        self.peer().counters.ordered.add(1);
        task
    }

    /// Gives what is in the own queue to all.
    pub(super) fn flush_ordered(&self) {
        let batch = self.p.priority_queues.drain();
        if !batch.is_empty() {
            self.peer().flags.gave_away.store(true, Relaxed);
            self.shared.push_ordered_batch(batch);
        }
    }
}

#[cfg(test)]
mod tests;
