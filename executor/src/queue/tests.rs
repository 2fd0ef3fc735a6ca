//! I1, S2: the queues against simple ones, under random operations and under real threads; what all tests of
//! queues share. Tests of one guarantee are in files of their own, named after it.
//!
//! `WS_TEST_SCALE` scales the work of those with threads, in percent.
#![expect(unsafe_code, reason = "a test brings items of its own")]

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;

use proptest::prelude::*;

use super::local::CAPACITY;
use super::*;

mod a_push_never_waits;
mod a_slot_goes_to_one;
mod nothing_is_lost_between_thieves;
mod thieves_take_half;

/// An item that counts its own end.
struct Job(Box<JobCell>);

struct JobCell {
    id: usize,
    ended: Arc<AtomicUsize>,
    next: UnsafeCell<Option<NonNull<()>>>,
}

// SAFETY: a job is a box whose link is the queue's.
unsafe impl Send for Job {}

// SAFETY: the pointer is that of the box.
unsafe impl Item for Job {
    fn into_raw(self) -> NonNull<()> {
        let cell = std::mem::ManuallyDrop::new(self);
        // SAFETY: the box is read once, and not dropped.
        NonNull::from(Box::leak(unsafe { std::ptr::read(&cell.0) })).cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: by contract it comes from `into_raw`, once.
        Self(unsafe { Box::from_raw(raw.cast().as_ptr()) })
    }
}

// SAFETY: the link is a field of the cell, and only the queue uses it.
unsafe impl Linked for Job {
    unsafe fn next<'a>(raw: NonNull<()>) -> &'a UnsafeCell<Option<NonNull<()>>> {
        // SAFETY: by contract the job was not given back.
        unsafe { &raw.cast::<JobCell>().as_ref().next }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

/// Makes jobs with consecutive ids, and counts those that have ended.
#[derive(Default)]
struct Source {
    made: usize,
    ended: Arc<AtomicUsize>,
}

impl Source {
    fn next(&mut self) -> Job {
        let cell = JobCell {
            id: self.made,
            ended: self.ended.clone(),
            next: UnsafeCell::new(None),
        };
        self.made += 1;
        Job(Box::new(cell))
    }

    fn take(&mut self, count: usize) -> Vec<Job> {
        (0..count).map(|_| self.next()).collect()
    }

    fn ended(&self) -> usize {
        self.ended.load(Relaxed)
    }
}

fn id(job: Job) -> usize {
    job.0.id
}

fn ids(jobs: impl IntoIterator<Item = Job>) -> Vec<usize> {
    jobs.into_iter().map(id).collect()
}

/// How often a test with threads repeats itself.
fn scaled(count: usize) -> usize {
    let percent = match std::env::var("WS_TEST_SCALE") {
        Ok(percent) => percent.parse().expect("WS_TEST_SCALE is in percent"),
        Err(_) => 100,
    };
    (count * percent / 100).max(1)
}

#[derive(Debug, Clone)]
enum LocalStep {
    Push,
    PushMany(usize),
    Pop,
    Steal,
    Drain,
}

fn local_steps() -> impl Strategy<Value = Vec<LocalStep>> {
    let step = prop_oneof![
        8 => Just(LocalStep::Push),
        4 => (0..300_usize).prop_map(LocalStep::PushMany),
        4 => Just(LocalStep::Pop),
        3 => Just(LocalStep::Steal),
        1 => Just(LocalStep::Drain),
    ];
    prop::collection::vec(step, 0..80)
}

#[derive(Debug, Clone)]
enum GlobalStep {
    Push,
    PushBatch(usize),
    Pop,
    Take(usize),
}

fn global_steps() -> impl Strategy<Value = Vec<GlobalStep>> {
    let step = prop_oneof![
        4 => Just(GlobalStep::Push),
        2 => (0..10_usize).prop_map(GlobalStep::PushBatch),
        4 => Just(GlobalStep::Pop),
        2 => (0..10_usize).prop_map(GlobalStep::Take),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn local_queue_is_a_bounded_fifo(steps in local_steps()) {
        let capacity = CAPACITY as usize;
        let mut source = Source::default();
        let (queue, stealer) = local_queue();
        let (thief, _) = local_queue();
        let mut model = VecDeque::new();
        for step in steps {
            match step {
                LocalStep::Push => {
                    let job = source.next();
                    let new = job.0.id;
                    match queue.push(job) {
                        Ok(()) => model.push_back(new),
                        Err(batch) => {
                            prop_assert_eq!(model.len(), capacity);
                            let mut expected: Vec<_> = model.drain(..capacity / 2).collect();
                            expected.push(new);
                            prop_assert_eq!(ids(batch), expected);
                        }
                    }
                }
                LocalStep::PushMany(count) => {
                    let room = capacity - model.len();
                    prop_assert_eq!(queue.room(), room);
                    let mut jobs = source.take(count).into_iter();
                    let first = source.made - count;
                    let pushed = queue.push_batch(&mut jobs);
                    prop_assert_eq!(pushed, count.min(room));
                    model.extend(first..first + pushed);
                    prop_assert_eq!(jobs.len(), count - pushed);
                }
                LocalStep::Pop => prop_assert_eq!(queue.pop().map(id), model.pop_front()),
                LocalStep::Steal => match stealer.steal_into(&thief) {
                    Steal::Empty => prop_assert!(model.is_empty()),
                    Steal::Busy => prop_assert!(false, "nobody else is there"),
                    Steal::Stolen { first, count } => {
                        // I4.
                        prop_assert_eq!(count, model.len().div_ceil(2));
                        let mut stolen = vec![id(first)];
                        thief.drain(|job| stolen.push(id(job)));
                        prop_assert_eq!(stolen, model.drain(..count).collect::<Vec<_>>());
                    }
                },
                LocalStep::Drain => {
                    let mut drained = vec![];
                    queue.drain(|job| drained.push(id(job)));
                    prop_assert_eq!(drained, model.drain(..).collect::<Vec<_>>());
                }
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(stealer.len(), model.len());
            prop_assert_eq!(queue.is_empty() && stealer.is_empty(), model.is_empty());
            prop_assert_eq!(source.ended(), source.made - model.len());
        }
        drop((queue, stealer));
        // S2: what is left ends with the ring.
        prop_assert_eq!(source.ended(), source.made);
    }

    #[test]
    fn global_queue_is_a_fifo(steps in global_steps()) {
        let mut source = Source::default();
        let queue = GlobalQueue::new();
        let mut model = VecDeque::new();
        for step in steps {
            match step {
                GlobalStep::Push => {
                    model.push_back(source.made);
                    queue.push(source.next());
                }
                GlobalStep::PushBatch(count) => {
                    model.extend(source.made..source.made + count);
                    let batch: Batch<_> = source.take(count).into_iter().collect();
                    prop_assert_eq!(batch.len(), count);
                    queue.push_batch(batch);
                }
                GlobalStep::Pop => prop_assert_eq!(queue.pop().map(id), model.pop_front()),
                GlobalStep::Take(max) => {
                    let count = max.min(model.len());
                    let mut taken = vec![];
                    prop_assert_eq!(queue.pop_batch(max, |job| taken.push(id(job))), count);
                    prop_assert_eq!(taken, model.drain(..count).collect::<Vec<_>>());
                }
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(queue.is_empty(), model.is_empty());
            prop_assert_eq!(source.ended(), source.made - model.len());
        }
        drop(queue);
        prop_assert_eq!(source.ended(), source.made);
    }

    #[test]
    fn chains_keep_their_items_in_order(
        lens in prop::collection::vec(0..6_usize, 1..6),
        split in 0..20_usize,
    ) {
        let mut source = Source::default();
        let mut batch = Batch::new();
        for len in lens {
            batch.extend(source.take(len));
        }
        let mut list = batch.into_list();
        prop_assert_eq!(list.len(), source.made);
        let front = list.split_front(split);
        let at = split.min(source.made);
        prop_assert_eq!(front.len(), at);
        prop_assert_eq!(ids(front), (0..at).collect::<Vec<_>>());
        drop(list);
        prop_assert_eq!(source.ended(), source.made);
    }
}

#[test]
fn a_batch_that_fills_its_own_queue_is_refused() {
    let (queue, _) = local_queue();
    let mut source = Source::default();
    let mut pushing = std::iter::from_fn(|| {
        assert!(queue.push(source.next()).is_ok());
        Some(source.next())
    });
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        queue.push_batch(&mut pushing);
    }));
    assert!(refused.is_err());
    assert_eq!(queue.len(), 1);
}

#[test]
fn each_pushers_items_come_in_its_order() {
    const PUSHERS: usize = 3;
    let each = scaled(10_000);
    let queue = Arc::new(GlobalQueue::new());
    let start = Arc::new(Barrier::new(PUSHERS + 1));
    let pushers: Vec<_> = (0..PUSHERS)
        .map(|_| {
            let (queue, start) = (queue.clone(), start.clone());
            thread::spawn(move || {
                let mut source = Source::default();
                start.wait();
                while source.made < each {
                    queue.push(source.next());
                    let left = each - source.made;
                    queue.push_batch(source.take(left.min(5)).into_iter().collect());
                }
                source.ended
            })
        })
        .collect();
    start.wait();
    // Who a job is from, by its counter.
    let mut seen: Vec<(*const AtomicUsize, usize)> = vec![];
    let mut count = 0;
    while count < each * PUSHERS {
        count += queue.pop_batch(7, |job| {
            let from = Arc::as_ptr(&job.0.ended);
            match seen.iter_mut().find(|(pusher, _)| *pusher == from) {
                Some((_, next)) => {
                    assert_eq!(job.0.id, *next);
                    *next += 1;
                }
                None => {
                    assert_eq!(job.0.id, 0);
                    seen.push((from, 1));
                }
            }
        });
    }
    assert!(queue.is_empty());
    assert_eq!(queue.len(), 0);
    for pusher in pushers {
        let ended = pusher.join().expect("a pusher does not panic");
        assert_eq!(ended.load(Relaxed), each);
    }
}
