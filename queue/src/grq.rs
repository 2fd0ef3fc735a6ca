//! GRQ: the two queues that all workers share.
//!
//! A task comes to all workers for one of two reasons. Another thread woke or spawned it, or a full
//! local queue sent it away: it is *fresh*. Or it has just had a turn, and goes on: there was no
//! room for it behind the others of its worker. Each kind has a queue of its own, and the two have
//! turns one by one. So what a thread wakes does not wait behind thousands that are always ready,
//! and a storm of fresh tasks leaves these every second turn (H1).
//!
//! Measured with 10,000 tasks that compute for 10 us and yield, on two workers: a task that a
//! foreign thread woke waited for a turn of all of them in one queue.
//!
//! An item goes into one of the two, and never from one to the other in here. So what holds for
//! each holds for both together: *Empty or not* in `global.rs` says what a worker that is about to
//! park may rely on.
//!
//! # What was rejected
//!
//! - *Fresh tasks always first.* A storm of them would starve those that go on.
//! - *One inbox, and two lists behind it.* Pushers bring a chain with one exchange. To part it, the
//!   popper would ask each item what it is, under the mutex.
//!
//! # Where it is checked
//!
//! `global.rs` has the models; none has both kinds at once. The order is in the tests below; that
//! nothing is lost, in `sched/sim/check.rs` of the executor.

use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{Batch, GlobalQueue, Linked, List};

/// See the module's head.
#[derive(Debug)]
pub struct GlobalRunQueue<T: Linked> {
    fresh: GlobalQueue<T>,
    again: GlobalQueue<T>,
    /// Whose turn it is. It need not be exact: two that read the same take two of one kind.
    again_is_next: AtomicBool,
}

impl<T: Linked> Default for GlobalRunQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Linked> GlobalRunQueue<T> {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            fresh: GlobalQueue::new(),
            again: GlobalQueue::new(),
            again_is_next: AtomicBool::new(false),
        }
    }

    /// Pushes a fresh item behind all other fresh ones.
    pub fn push(&self, item: T) {
        self.fresh.push(item);
    }

    /// Pushes fresh items in their order, with nothing between them.
    pub fn push_batch(&self, batch: Batch<T>) {
        self.fresh.push_batch(batch);
    }

    /// Pushes an item that goes on behind all others that do.
    pub fn push_again(&self, item: T) {
        self.again.push(item);
    }

    /// The same for items that are in a batch, with nothing between them.
    pub fn push_again_batch(&self, batch: Batch<T>) {
        self.again.push_batch(batch);
    }

    /// Takes the oldest of one kind, and of the other kind the next time.
    pub fn pop(&self) -> Option<T> {
        let again_first = !self.again.is_empty() && self.takes_turns();
        let (first, second) = if again_first {
            (&self.again, &self.fresh)
        } else {
            (&self.fresh, &self.again)
        };
        first.pop().or_else(|| second.pop())
    }

    /// Takes the oldest fresh one, or if there is none, the oldest that goes on. That kind is next.
    pub fn pop_fresh(&self) -> Option<T> {
        self.again_is_next.store(true, Relaxed);
        self.fresh.pop().or_else(|| self.again.pop())
    }

    /// Whether the next one is an item that goes on.
    fn takes_turns(&self) -> bool {
        let again = self.again_is_next.load(Relaxed);
        self.again_is_next.store(!again, Relaxed);
        again
    }

    /// Takes `max` items, or all if there are fewer: the oldest fresh ones, and behind them as many
    /// that go on, as far as there are enough of each kind.
    pub fn take(&self, max: usize) -> List<T> {
        if self.again.is_empty() {
            return self.fresh.take(max);
        }
        let mut taken = self.fresh.take(self.part_of_fresh(max));
        taken.append(self.again.take(max - taken.len()));
        taken.append(self.fresh.take(max - taken.len()));
        taken
    }

    /// How many fresh ones are in a share of `max`: half of it. An odd one goes by turns.
    fn part_of_fresh(&self, max: usize) -> usize {
        max / 2 + usize::from(!max.is_multiple_of(2) && !self.takes_turns())
    }

    /// The same, but those that go on are in front, and nothing is behind the first fresh one that
    /// is `last`.
    pub fn take_until(&self, max: usize, last: impl Fn(&T) -> bool) -> List<T> {
        if self.again.is_empty() {
            return self.fresh.take_until(max, last);
        }
        let fresh = self.fresh.take_until(self.part_of_fresh(max), last);
        let mut taken = self.again.take(max - fresh.len());
        taken.append(fresh);
        taken
    }

    /// Takes the oldest that is `wanted` of the first fresh ones, `within` so many.
    pub fn pop_near(&self, within: usize, wanted: impl Fn(&T) -> bool) -> Option<T> {
        self.fresh.pop_near(within, wanted)
    }

    /// How many items there are, or were a moment ago.
    pub fn len(&self) -> usize {
        self.fresh.len() + self.again.len()
    }

    /// Whether there are none. See *Empty or not* in `global.rs`.
    pub fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.again.is_empty()
    }
}

#[cfg(all(test, not(ws_loom)))]
mod tests {
    use super::*;
    use crate::steps::items::{Job, Source, id};

    /// So many fresh items, and so many that go on; they are numbered in this order.
    fn queue(fresh: usize, again: usize) -> GlobalRunQueue<Job> {
        let mut source = Source::default();
        let queue = GlobalRunQueue::new();
        (0..fresh).for_each(|_| queue.push(source.next()));
        (0..again).for_each(|_| queue.push_again(source.next()));
        queue
    }

    fn ids(list: List<Job>) -> Vec<usize> {
        list.map(id).collect()
    }

    #[test]
    fn the_two_kinds_have_turns() {
        let queue = queue(3, 4);
        assert_eq!(queue.len(), 7);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(id).collect();
        assert_eq!(order, [0, 3, 1, 4, 2, 5, 6]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_fresh_one_may_come_before_its_turn() {
        let queue = queue(3, 3);
        let order = [queue.pop(), queue.pop_fresh(), queue.pop(), queue.pop()];
        assert_eq!(order.map(Option::unwrap).map(id), [0, 1, 3, 2]);
        let rest = [queue.pop_fresh(), queue.pop_fresh(), queue.pop_fresh()];
        assert_eq!(rest.map(|item| item.map(id)), [Some(4), Some(5), None]);
    }

    #[test]
    fn a_share_has_as_many_of_each_kind_as_far_as_there_are_enough() {
        assert_eq!(ids(queue(4, 4).take(5)), [0, 1, 2, 4, 5]);
        assert_eq!(ids(queue(1, 4).take(4)), [0, 1, 2, 3]);
        assert_eq!(ids(queue(4, 1).take(4)), [0, 1, 4, 2]);
        assert_eq!(ids(queue(2, 0).take(3)), [0, 1]);
        assert_eq!(ids(queue(0, 2).take(3)), [0, 1]);
        let queue = queue(2, 2);
        let one_by_one = [(); 4].map(|()| ids(queue.take(1)));
        assert_eq!(one_by_one.concat(), [0, 2, 1, 3]);
    }

    #[test]
    fn the_odd_one_of_a_share_that_ends_goes_by_turns() {
        let queue = queue(2, 2);
        let one_by_one = [(); 4].map(|()| ids(queue.take_until(1, |_| false)));
        assert_eq!(one_by_one.concat(), [0, 2, 1, 3]);
    }

    #[test]
    fn a_share_ends_with_the_last() {
        let share = |fresh, again, max| {
            let queue = queue(fresh, again);
            let taken = queue.take_until(max, |job| job.value().id == 1);
            (ids(taken), queue.len())
        };
        assert_eq!(share(4, 6, 8), (vec![4, 5, 6, 7, 8, 9, 0, 1], 2));
        assert_eq!(share(4, 4, 2), (vec![4, 0], 6));
        assert_eq!(share(4, 0, 4), (vec![0, 1], 2));
        assert_eq!(share(0, 4, 3), (vec![0, 1, 2], 1), "they are no calls");
    }

    /// Fails if the turn stays as it was.
    #[test]
    fn after_a_fresh_one_it_is_the_others_turn() {
        let queue = queue(3, 1);
        let order = [queue.pop_fresh(), queue.pop()];
        assert_eq!(order.map(Option::unwrap).map(id), [0, 3]);
    }

    /// Fails if the whole queue is looked through.
    #[test]
    fn who_is_wanted_is_found_within_reach_alone() {
        let queue = queue(3, 0);
        let third = || {
            let asked = std::cell::Cell::new(0);
            move |_: &Job| {
                asked.set(asked.get() + 1);
                asked.get() == 3
            }
        };
        assert!(queue.pop_near(2, third()).is_none());
        assert_eq!(queue.pop_near(3, third()).map(id), Some(2));
        assert_eq!(ids(queue.take(3)), [0, 1]);
    }
}
