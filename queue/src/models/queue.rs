//! The queues: nothing is lost, nothing is taken twice (S2), and what was written before a push is
//! seen by whoever takes the item (I10).
//!
//! Each item has a payload that loom watches, so that an item which is taken without the order that
//! its push promises is an error even if its address is right. A ring has four slots here.
//!
//! The bound is that of preemptions. The seconds are of one core of a busy 2-core machine.
//!
//! | model | shows | bound | seconds | killed by it |
//! | --- | --- | --- | --- | --- |
//! | `two_thieves` | owner and two thieves, push, pop and steal: each item once, with what was written to it; the head is never beyond the tail (I3, I10, S2) | 3 | 5 | `lrq_tail_publish_relaxed`, `lrq_pop_not_release`, `lrq_steal_head_relaxed`, `lrq_steal_tail_relaxed` |
//! | `slot_is_used_again` | a push into a full ring uses a slot only when the thief's reads are over, or takes out the oldest half (I3) | 3 | under 1 | `lrq_grab_relaxed`, `lrq_push_head_relaxed` |
//! | `pop_makes_room` | the same when the owner learns of the thief by its own pop | 3 | under 1 | `lrq_pop_not_acquire` |
//! | `overflow_beside_two_thieves` | an overflow and two grabs take different items (S2, S4) | 3 | 4 | `lrq_overflow_without_exchange` |
//! | `batch_is_published_at_once` | a thief sees all of a batch or nothing, and takes half (I4) | 3 | under 1 | `lrq_steal_one_too_many` |
//! | `runnext_goes_to_one` | put, displace, take and steal: each item once, visible to the thief (I8, I10, S2) | 3 | under 1 | `runnext_put_relaxed`, `runnext_displacing_put_relaxed`, `runnext_steal_relaxed`, `runnext_take_without_exchange` |
//! | `global_two_pushers_and_a_popper` | each item once, each pusher's in its order, also when a pusher carries the inbox over | 2 | 3 | `grq_push_relaxed`, `grq_swap_not_acquire` |
//! | `global_counts_no_more_taken_than_pushed` | `len` is never below nothing, so never huge | 3 | under 1 | `grq_counted_late` |
//! | `global_batches` | batches keep their order and what was there first comes first; `len` is exact in the end | 3 | under 1 | `grq_retry_keeps_the_link` |
//! | `global_is_not_empty_while_carried_over` | a look never says empty while a popper has the inbox in hand | 3 | under 1 | `grq_swap_not_release`, `grq_no_mark` |
//! | `global_is_not_empty_while_a_pusher_carries_over` | nor while a pusher has | 3 | under 1 | `grq_mark_cleared_early` |
//! | `global_is_not_empty_while_some_are_passed_by` | nor while a popper looks for one further back and holds what lies before it | 3 | under 1 | `grq_passed_by_are_gone` |
//! | `global_is_not_empty_while_all_are_passed_by` | the same where it finds none | 3 | under 1 | also `grq_passed_by_are_gone` |
#![expect(unsafe_code, reason = "a model brings items of its own")]

use std::ptr::NonNull;

use super::both_ways::{Turn, explore};
use crate::{
    Batch, CAPACITY, GlobalQueue, Item, Link, Linked, LocalQueue, Steal, Stealer, local_queue,
    run_next,
    sync::{Arc, UnsafeCell},
};

/// An item. Its pusher writes the payload without any synchronisation of its own.
struct Job(Box<JobCell>);

struct JobCell {
    payload: UnsafeCell<u32>,
    next: Link,
}

// SAFETY: a job is a box.
unsafe impl Send for Job {}

// SAFETY: the pointer is that of the box.
unsafe impl Item for Job {
    fn into_raw(self) -> NonNull<()> {
        NonNull::from(Box::leak(self.0)).cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: by contract it comes from `into_raw`, once.
        Self(unsafe { Box::from_raw(raw.cast().as_ptr()) })
    }
}

// SAFETY: the link is a field of the cell, and only the queue uses it.
unsafe impl Linked for Job {
    unsafe fn next(raw: NonNull<()>) -> Option<NonNull<()>> {
        // SAFETY: by contract the job was not given back, and the caller owns it.
        unsafe { raw.cast::<JobCell>().as_ref().next.get() }
    }

    unsafe fn set_next(raw: NonNull<()>, next: Option<NonNull<()>>) {
        // SAFETY: as in `next`.
        unsafe { raw.cast::<JobCell>().as_ref().next.set(next) }
    }
}

impl Job {
    fn new(id: u32) -> Self {
        let cell = JobCell {
            payload: UnsafeCell::new(0),
            next: Link::new(),
        };
        // SAFETY: nobody else has it.
        cell.payload.with_mut(|payload| unsafe { *payload = id });
        Self(Box::new(cell))
    }

    /// Consumes the job. Loom objects if its pusher's write is not visible here.
    fn id(self) -> u32 {
        self.peek()
    }

    /// The same for a caller that keeps it.
    fn peek(&self) -> u32 {
        // SAFETY: the one that has the job has its payload; loom checks that.
        self.0.payload.with(|payload| unsafe { *payload })
    }
}

fn push(queue: &LocalQueue<Job>, ids: impl IntoIterator<Item = u32>) {
    for id in ids {
        assert!(queue.push(Job::new(id)).is_ok());
    }
}

fn ids_in(queue: &LocalQueue<Job>) -> Vec<u32> {
    std::iter::from_fn(|| queue.pop()).map(Job::id).collect()
}

/// What a thief got: the first item, and its queue with the others.
type Loot = Option<(u32, usize, LocalQueue<Job>)>;

/// Steals once.
fn steal(stealer: &Stealer<Job>) -> Loot {
    let (own, _) = local_queue();
    match stealer.steal_into(&own) {
        Steal::Empty | Steal::Busy => None,
        Steal::Stolen { first, count } => Some((first.id(), count, own)),
    }
}

/// All that a thief got.
fn unpack(loot: Loot) -> Vec<u32> {
    let Some((first, count, own)) = loot else {
        return vec![];
    };
    let mut ids = vec![first];
    ids.extend(ids_in(&own));
    assert_eq!(ids.len(), count);
    assert!(ids.is_sorted(), "a steal keeps the order");
    ids
}

fn assert_all(parts: impl IntoIterator<Item = Vec<u32>>, ids: impl Iterator<Item = u32>) {
    let mut all: Vec<u32> = parts.into_iter().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, ids.collect::<Vec<_>>(), "S2: each exactly once");
}

#[test]
fn two_thieves() {
    explore(3, |turn| {
        let (queue, stealer) = local_queue();
        let owner = move || {
            push(&queue, 0..2);
            let popped = queue.pop().map(Job::id);
            (popped, queue)
        };
        let thieves = [stealer.clone(), stealer].map(|stealer| move || steal(&stealer));
        let ((popped, queue), stolen) = turn.race(owner, thieves);
        let rest = ids_in(&queue);
        let stolen = stolen.into_iter().map(unpack);
        assert_all(stolen.chain([popped.into_iter().collect(), rest]), 0..2);
    });
}

#[test]
fn slot_is_used_again() {
    explore(3, |turn| {
        let (queue, stealer) = local_queue();
        push(&queue, 0..CAPACITY as u32);
        let owner = move || {
            // The ring is full, so the item goes to a slot that the thief has left, or takes half
            // of the ring out.
            let taken = match queue.push(Job::new(4)) {
                Ok(()) => vec![],
                Err(batch) => batch.into_list().map(Job::id).collect(),
            };
            (taken, queue)
        };
        let ((taken, queue), [stolen]) = turn.race(owner, [move || steal(&stealer)]);
        assert!(
            taken.is_empty() || taken == [0, 1, 4],
            "the oldest half and the new item"
        );
        assert_all([taken, unpack(stolen), ids_in(&queue)], 0..5);
    });
}

#[test]
fn pop_makes_room() {
    explore(3, |turn| {
        let (queue, stealer) = local_queue();
        push(&queue, 0..CAPACITY as u32);
        let owner = move || {
            // If the pop comes behind the steal, the ring has room for two more items, in slots
            // that the owner knows to be free only by its own pop.
            let mut popped: Vec<u32> = queue.pop().map(Job::id).into_iter().collect();
            push(&queue, 4..5);
            popped.extend(queue.pop().map(Job::id));
            (popped, queue)
        };
        let ((popped, queue), [stolen]) = turn.race(owner, [move || steal(&stealer)]);
        assert_all([popped, unpack(stolen), ids_in(&queue)], 0..5);
    });
}

#[test]
fn overflow_beside_two_thieves() {
    explore(3, |turn| {
        let (queue, stealer) = local_queue();
        push(&queue, 0..CAPACITY as u32);
        let owner = move || {
            let taken = match queue.push(Job::new(4)) {
                Ok(()) => vec![],
                Err(batch) => batch.into_list().map(Job::id).collect(),
            };
            (taken, queue)
        };
        let thieves = [stealer.clone(), stealer].map(|stealer| move || steal(&stealer));
        let ((taken, queue), stolen) = turn.race(owner, thieves);
        let stolen = stolen.into_iter().map(unpack);
        assert_all(stolen.chain([taken, ids_in(&queue)]), 0..5);
    });
}

#[test]
fn batch_is_published_at_once() {
    explore(3, |turn| {
        let (queue, stealer) = local_queue();
        let owner = move || {
            let mut jobs = (0..6).map(Job::new);
            assert_eq!(queue.push_batch(&mut jobs), CAPACITY as usize);
            (jobs.map(Job::id).collect(), queue)
        };
        let ((left, queue), [stolen]) = turn.race(owner, [move || steal(&stealer)]);
        let stolen = unpack(stolen);
        assert!(
            stolen.is_empty() || stolen == [0, 1],
            "half of all, or nothing"
        );
        assert_all([stolen, ids_in(&queue), left], 0..6);
    });
}

#[test]
fn runnext_goes_to_one() {
    explore(3, |turn| {
        let (slot, thief) = run_next();
        let owner = move || {
            let mut own: Vec<u32> = vec![];
            own.extend(slot.put(Job::new(0)).map(Job::id));
            own.extend(slot.put(Job::new(1)).map(Job::id));
            own.extend(slot.take().map(Job::id));
            own.extend(slot.put(Job::new(2)).map(Job::id));
            (own, slot)
        };
        let thief = move || {
            let token = thief.peek()?;
            thief.steal(token).map(Job::id)
        };
        let ((mut own, slot), [stolen]) = turn.race(owner, [thief]);
        own.extend(slot.take().map(Job::id));
        assert!(slot.take().is_none());
        assert_all([own, stolen.into_iter().collect()], 0..3);
    });
}

fn take(queue: &GlobalQueue<Job>, max: usize) -> Vec<u32> {
    queue.take(max).map(Job::id).collect()
}

fn assert_fifo(ids: &[u32]) {
    for from in [0..10, 10..20] {
        assert!(
            ids.iter().filter(|id| from.contains(*id)).is_sorted(),
            "each pusher's items come in its order: {ids:?}"
        );
    }
}

#[test]
fn global_two_pushers_and_a_popper() {
    explore(2, |turn| {
        let queue = Arc::new(GlobalQueue::new());
        let popper = {
            let queue = queue.clone();
            move || take(&queue, 2)
        };
        let pushers = [0..2, 10..11].map(|ids| {
            let queue = queue.clone();
            move || ids.for_each(|id| queue.push(Job::new(id)))
        });
        let (mut ids, _) = turn.race(popper, pushers);
        assert_eq!(queue.len(), 3 - ids.len());
        ids.extend(take(&queue, usize::MAX));
        assert!(queue.is_empty());
        assert_fifo(&ids);
        assert_all([ids], [0, 1, 10].into_iter());
    });
}

/// A reader that sees an item taken sees it counted.
#[test]
fn global_counts_no_more_taken_than_pushed() {
    explore(3, |turn| {
        let queue = Arc::new(GlobalQueue::new());
        let popper = {
            let queue = queue.clone();
            move || {
                let ids = take(&queue, 1);
                assert!(queue.len() <= 1, "it is taken before it is counted");
                ids
            }
        };
        let pusher = {
            let queue = queue.clone();
            move || queue.push(Job::new(0))
        };
        let (mut ids, _) = turn.race(popper, [pusher]);
        ids.extend(take(&queue, 1));
        assert_eq!(queue.len(), 0);
        assert_all([ids], 0..1);
    });
}

#[test]
fn global_batches() {
    explore(3, |turn| {
        let queue = Arc::new(GlobalQueue::new());
        queue.push_batch((10..12).map(Job::new).collect());
        let popper = {
            let queue = queue.clone();
            move || take(&queue, 3)
        };
        let pusher = {
            let queue = queue.clone();
            move || {
                queue.push_batch((0..2).map(Job::new).collect());
                queue.push_batch(Batch::new());
                queue.push(Job::new(2));
            }
        };
        let (mut ids, _) = turn.race(popper, [pusher]);
        assert!(ids.starts_with(&[10, 11]), "the batch that was there first");
        while !queue.is_empty() {
            ids.extend(take(&queue, 2));
        }
        assert_eq!(queue.len(), 0);
        assert_fifo(&ids);
        assert_all([ids], [0, 1, 2, 10, 11].into_iter());
    });
}

/// Two items are in the inbox, and `other` takes one at most: the queue is never empty.
fn is_not_empty_beside(turn: Turn, other: fn(&GlobalQueue<Job>)) {
    let queue = Arc::new(GlobalQueue::new());
    queue.push(Job::new(0));
    queue.push(Job::new(1));
    let looker = {
        let queue = queue.clone();
        move || assert!(!queue.is_empty())
    };
    let other = {
        let queue = queue.clone();
        move || other(&queue)
    };
    turn.race(looker, [other]);
    assert!(take(&queue, 3).len() >= 1);
    assert!(queue.is_empty());
}

#[test]
fn global_is_not_empty_while_carried_over() {
    explore(3, |turn| {
        is_not_empty_beside(turn, |queue| assert_eq!(queue.pop().map(Job::id), Some(0)));
    });
}

#[test]
fn global_is_not_empty_while_a_pusher_carries_over() {
    explore(3, |turn| {
        is_not_empty_beside(turn, |queue| queue.push(Job::new(2)))
    });
}

#[test]
fn global_is_not_empty_while_some_are_passed_by() {
    explore(3, |turn| {
        is_not_empty_beside(turn, |queue| {
            let wanted = queue.pop_near(2, |job| job.peek() == 1);
            assert_eq!(wanted.map(Job::id), Some(1));
        });
    });
}

#[test]
fn global_is_not_empty_while_all_are_passed_by() {
    explore(3, |turn| {
        is_not_empty_beside(turn, |queue| {
            assert!(queue.pop_near(2, |job| job.peek() == 2).is_none());
        });
    });
}
