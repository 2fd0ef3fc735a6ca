//! The ordered queues: as in `queue.rs`, nothing is lost and nothing is taken twice (S2), and a
//! thief sees what was written before the push (I10), also when it takes from several buckets and
//! when a bucket changes its level meanwhile.
//!
//! A queue has two buckets here, and each ring four slots, as many as the queue.
//!
//! The bound is that of preemptions. All together take half a minute on one core of a busy 2-core
//! machine.
//!
//! | model | shows | bound | killed by it |
//! | --- | --- | --- | --- |
//! | `two_thieves_take_upper_halves` | an owner's pop and two thieves on two buckets: each item once (S2, O3) | 2 | `ordered_take_without_exchange` |
//! | `a_thief_sees_what_was_pushed` | what was written to an item before its push is visible to the thief (I10) | 3 | `ordered_take_tail_relaxed` |
//! | `overflow_beside_a_thief` | a push into a full queue uses a slot only when the thief's reads are over, or takes the lower half out (I3, O2) | 2 | `ordered_take_not_release` |
//! | `a_bucket_changes_its_level` | an owner that needs a bucket gets one that is empty, or takes the lower levels out | 3 | `ordered_bucket_is_not_empty` |
//! | `a_push_is_seen_by_the_last_look` | of a push to the shared queue and a thread that parks, one sees the other (I5) | 3 | `ordered_push_not_published` |
//! | `shared_is_not_empty_beside_a_pop` | a look never says empty while an item stays in | 3 | `ordered_pop_publishes_early` |
#![expect(unsafe_code, reason = "a model brings items of its own")]

use std::ptr::NonNull;

use super::both_ways::explore;
use crate::{
    Item, Link, Linked, Ordered, OrderedLocal, OrderedShared, OrderedStealer, ordered_local,
    sync::{
        Arc, UnsafeCell,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
            fence,
        },
    },
};

/// An item. Its pusher writes the payload without any synchronisation of its own.
struct Job(Box<JobCell>);

struct JobCell {
    level: i64,
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

impl Ordered for Job {
    fn priority(&self) -> i64 {
        self.0.level
    }
}

impl Job {
    fn new(level: i64, id: u32) -> Self {
        let cell = JobCell {
            level,
            payload: UnsafeCell::new(0),
            next: Link::new(),
        };
        // SAFETY: nobody else has it.
        cell.payload.with_mut(|payload| unsafe { *payload = id });
        Self(Box::new(cell))
    }

    /// Consumes the job. Loom objects if its pusher's write is not visible here.
    fn id(self) -> u32 {
        // SAFETY: the one that has the job has its payload; loom checks that.
        self.0.payload.with(|payload| unsafe { *payload })
    }
}

fn push(queue: &OrderedLocal<Job>, level: i64, id: u32) -> Vec<u32> {
    match queue.push(Job::new(level, id)) {
        Ok(()) => vec![],
        Err(batch) => batch.into_list().map(Job::id).collect(),
    }
}

fn rest(queue: &OrderedLocal<Job>) -> Vec<u32> {
    std::iter::from_fn(|| queue.pop()).map(Job::id).collect()
}

fn steal(stealer: &OrderedStealer<Job>) -> Vec<u32> {
    let mut others = vec![];
    let first = stealer.steal(|job| others.push(job.id()));
    let mut stolen: Vec<u32> = first.map(Job::id).into_iter().collect();
    stolen.extend(others);
    stolen
}

fn assert_all(parts: impl IntoIterator<Item = Vec<u32>>, ids: impl Iterator<Item = u32>) {
    let mut all: Vec<u32> = parts.into_iter().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, ids.collect::<Vec<_>>(), "S2: each exactly once");
}

#[test]
fn two_thieves_take_upper_halves() {
    explore(2, |turn| {
        let (queue, stealer) = ordered_local();
        assert!(push(&queue, 1, 0).is_empty());
        assert!(push(&queue, 2, 1).is_empty());
        let owner = move || {
            let popped: Vec<u32> = queue.pop().map(Job::id).into_iter().collect();
            (popped, queue)
        };
        let thieves = [stealer.clone(), stealer].map(|stealer| move || steal(&stealer));
        let ((popped, queue), stolen) = turn.race(owner, thieves);
        assert_all(stolen.into_iter().chain([popped, rest(&queue)]), 0..2);
    });
}

#[test]
fn a_thief_sees_what_was_pushed() {
    explore(3, |turn| {
        let (queue, stealer) = ordered_local();
        let owner = move || {
            assert!(push(&queue, 1, 0).is_empty());
            assert!(push(&queue, 2, 1).is_empty());
            queue
        };
        let (queue, [stolen]) = turn.race(owner, [move || steal(&stealer)]);
        assert_all([stolen, rest(&queue)], 0..2);
    });
}

#[test]
fn overflow_beside_a_thief() {
    explore(2, |turn| {
        let (queue, stealer) = ordered_local();
        for id in 0..4 {
            assert!(push(&queue, 1, id).is_empty());
        }
        let owner = move || (push(&queue, 1, 4), queue);
        let ((lower, queue), [stolen]) = turn.race(owner, [move || steal(&stealer)]);
        assert!(
            lower.is_empty() || lower.ends_with(&[4]),
            "among equals the new one is the last"
        );
        assert_all([lower, stolen, rest(&queue)], 0..5);
    });
}

#[test]
fn a_bucket_changes_its_level() {
    explore(3, |turn| {
        let (queue, stealer) = ordered_local();
        for (level, id) in [(1, 0), (1, 1), (2, 2)] {
            assert!(push(&queue, level, id).is_empty());
        }
        let owner = move || (push(&queue, 3, 3), queue);
        let ((lower, queue), [stolen]) = turn.race(owner, [move || steal(&stealer)]);
        assert!(
            lower.iter().all(|id| [0, 1].contains(id)),
            "the lower level goes out: {lower:?}"
        );
        let rest: Vec<Job> = std::iter::from_fn(|| queue.pop()).collect();
        let levels: Vec<i64> = rest.iter().map(Ordered::priority).collect();
        assert!(levels.is_sorted_by(|a, b| a >= b), "in order: {levels:?}");
        let rest = rest.into_iter().map(Job::id).collect();
        assert_all([lower, stolen, rest], 0..4);
    });
}

#[test]
fn a_push_is_seen_by_the_last_look() {
    explore(3, |turn| {
        let shared = Arc::new(OrderedShared::new());
        let parks = Arc::new(AtomicBool::new(false));
        let pusher = {
            let (shared, parks) = (shared.clone(), parks.clone());
            move || {
                shared.push(Job::new(1, 0));
                fence(SeqCst);
                parks.load(Relaxed)
            }
        };
        let sleeper = {
            let shared = shared.clone();
            move || {
                parks.store(true, Relaxed);
                fence(SeqCst);
                !shared.is_empty()
            }
        };
        let (wakes, [looks]) = turn.race(pusher, [sleeper]);
        assert!(wakes || looks, "I5: the task waits, and the thread sleeps");
        assert_eq!(shared.pop().map(Job::id), Some(0));
    });
}

#[test]
fn shared_is_not_empty_beside_a_pop() {
    explore(3, |turn| {
        let shared = Arc::new(OrderedShared::new());
        shared.push(Job::new(1, 0));
        shared.push(Job::new(2, 1));
        let looker = {
            let shared = shared.clone();
            move || assert!(!shared.is_empty())
        };
        let popper = {
            let shared = shared.clone();
            move || shared.pop().map(Job::id)
        };
        let ((), [popped]) = turn.race(looker, [popper]);
        assert_eq!(popped, Some(1), "the highest");
        assert_eq!(shared.pop().map(Job::id), Some(0));
        assert!(shared.is_empty() && shared.pop().is_none());
    });
}
