//! The ordered queues against a sorted `Vec` (O1, O2, O3, O4): under random operations, and under real threads.
//!
//! `WS_TEST_SCALE` scales the work of the latter, in percent.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;

use proptest::prelude::*;

use super::alone::{Entry, LOCAL_MAX, Queue};
use super::local::{CAPACITY, LANES};
use super::*;
use crate::queue::Batch;

/// Counts its own end.
#[derive(Debug)]
struct Job {
    id: usize,
    ended: Arc<AtomicUsize>,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.ended.fetch_add(1, Relaxed);
    }
}

/// Makes jobs with consecutive ids, and counts those that have ended.
#[derive(Default)]
struct Source {
    made: usize,
    ended: Arc<AtomicUsize>,
}

impl Source {
    fn next(&mut self, level: i64) -> Entry<Job> {
        let id = self.made;
        self.made += 1;
        let ended = self.ended.clone();
        Entry::new(level, Job { id, ended })
    }

    fn ended(&self) -> usize {
        self.ended.load(Relaxed)
    }
}

fn id(entry: Entry<Job>) -> usize {
    entry.value().id
}

fn ids(entries: impl IntoIterator<Item = Entry<Job>>) -> Vec<usize> {
    entries.into_iter().map(id).collect()
}

/// A level and an id: sorted, the next one is first.
type Row = (Reverse<i64>, usize);

/// What is queued, the next one first: by level, and then by age.
#[derive(Default)]
struct Sorted(Vec<Row>);

impl Sorted {
    fn push(&mut self, level: i64, id: usize) {
        let row = (Reverse(level), id);
        let at = self.0.partition_point(|other| *other < row);
        self.0.insert(at, row);
    }

    fn levels(&self) -> Vec<i64> {
        let levels: BTreeSet<i64> = self.0.iter().map(|row| row.0.0).collect();
        levels.into_iter().collect()
    }

    fn take(&mut self, range: impl std::ops::RangeBounds<usize>) -> Vec<Row> {
        self.0.drain(range).collect()
    }

    fn pop(&mut self) -> Option<usize> {
        (!self.0.is_empty()).then(|| self.0.remove(0).1)
    }

    fn pop_lowest(&mut self) -> Option<usize> {
        let lowest = self.0.last()?.0;
        let at = self.0.partition_point(|row| row.0 < lowest);
        Some(self.0.remove(at).1)
    }

    /// What goes out when a push finds the queue full, and whether the new one stays (O2).
    fn overflow(&mut self, level: i64) -> Option<(Vec<Row>, bool)> {
        let lower = if self.0.len() == CAPACITY {
            self.take(CAPACITY / 2..)
        } else {
            let levels = self.levels();
            if levels.len() < LANES || levels.contains(&level) {
                return None;
            }
            if level < levels[0] {
                // It has no lane, and leaves those alone that have one.
                return Some((vec![], false));
            }
            let from = levels[LANES / 2];
            let at = self.0.partition_point(|row| row.0.0 >= from);
            self.take(at..)
        };
        let stays = lower.first().is_some_and(|row| level > row.0.0);
        Some((lower, stays))
    }
}

#[derive(Debug, Clone)]
enum LocalStep {
    Push(i64),
    PushMany(i64, usize),
    Pop,
    PopAtLeast(i64),
    PopLowest,
    Steal,
    TakeAll,
    Drain,
}

fn levels() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => -2..=2_i64,
        2 => -20..=20_i64,
        1 => Just(i64::MIN),
        1 => Just(i64::MAX),
        1 => any::<i64>(),
    ]
}

fn local_steps() -> impl Strategy<Value = Vec<LocalStep>> {
    let step = prop_oneof![
        12 => levels().prop_map(LocalStep::Push),
        4 => (levels(), 0..150_usize).prop_map(|(level, count)| LocalStep::PushMany(level, count)),
        4 => Just(LocalStep::Pop),
        2 => levels().prop_map(LocalStep::PopAtLeast),
        2 => Just(LocalStep::PopLowest),
        3 => Just(LocalStep::Steal),
        1 => Just(LocalStep::TakeAll),
        1 => Just(LocalStep::Drain),
    ];
    prop::collection::vec(step, 0..120)
}

#[derive(Debug, Clone)]
enum SharedStep {
    Push(i64),
    PushBatch(Vec<i64>),
    Pop,
    PopLowestBelow(Option<i64>),
    Take(i64, usize, usize),
}

fn shared_steps() -> impl Strategy<Value = Vec<SharedStep>> {
    let step = prop_oneof![
        4 => levels().prop_map(SharedStep::Push),
        2 => prop::collection::vec(levels(), 0..10).prop_map(SharedStep::PushBatch),
        3 => Just(SharedStep::Pop),
        2 => prop::option::of(levels()).prop_map(SharedStep::PopLowestBelow),
        2 => (levels(), 0..10_usize, 0..4_usize)
            .prop_map(|(floor, max, levels)| SharedStep::Take(floor, max, levels)),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn local_queue_is_a_bounded_sorted_vec(steps in local_steps()) {
        let mut source = Source::default();
        let (queue, stealer) = ordered_local();
        let mut model = Sorted::default();
        for step in steps {
            match step {
                LocalStep::Push(level) => push(&queue, &mut model, &mut source, level)?,
                LocalStep::PushMany(level, count) => {
                    for _ in 0..count {
                        push(&queue, &mut model, &mut source, level)?;
                    }
                }
                LocalStep::Pop => {
                    let top = model.0.first().map(|row| row.0.0);
                    prop_assert_eq!(queue.top(), top);
                    prop_assert_eq!(queue.pop().map(id), model.pop());
                }
                LocalStep::PopAtLeast(floor) => {
                    let fits = model.0.first().is_some_and(|row| row.0.0 >= floor);
                    let expected = if fits { model.pop() } else { None };
                    prop_assert_eq!(queue.pop_at_least(floor).map(id), expected);
                }
                LocalStep::PopLowest => {
                    prop_assert_eq!(queue.pop_lowest().map(id), model.pop_lowest());
                }
                LocalStep::Steal => {
                    // O3: the upper half, the highest first.
                    let half = model.take(..model.0.len().div_ceil(2));
                    let mut others = vec![];
                    let first = stealer.steal(|entry| others.push(id(entry)));
                    let mut stolen: Vec<_> = first.map(id).into_iter().collect();
                    stolen.extend(others);
                    prop_assert_eq!(stolen, half.iter().map(|row| row.1).collect::<Vec<_>>());
                }
                LocalStep::TakeAll => {
                    let mut taken = vec![];
                    stealer.take_all(|entry| taken.push(id(entry)));
                    taken.sort_unstable();
                    let mut all: Vec<_> = model.take(..).iter().map(|row| row.1).collect();
                    all.sort_unstable();
                    prop_assert_eq!(taken, all);
                }
                LocalStep::Drain => {
                    let mut drained = vec![];
                    queue.drain(|entry| drained.push(id(entry)));
                    let all: Vec<_> = model.take(..).iter().map(|row| row.1).collect();
                    prop_assert_eq!(drained, all);
                }
            }
            prop_assert_eq!(queue.len(), model.0.len());
            prop_assert_eq!(queue.bottom(), model.0.last().map(|row| row.0.0));
            prop_assert_eq!(stealer.len(), model.0.len());
            prop_assert_eq!(queue.is_empty() && stealer.is_empty(), model.0.is_empty());
            let top = model.0.first().map_or(i64::MIN, |row| row.0.0);
            prop_assert!(stealer.top() >= top, "what is published is the top, or old");
            let (room, lanes) = queue.room();
            prop_assert!(room <= CAPACITY - model.0.len());
            prop_assert!(lanes <= LANES - model.levels().len());
            prop_assert_eq!(source.ended(), source.made - model.0.len());
        }
        drop((queue, stealer));
        // S2: what is left ends with the queue.
        prop_assert_eq!(source.ended(), source.made);
    }

    #[test]
    fn shared_queue_is_a_sorted_vec(steps in shared_steps()) {
        let mut source = Source::default();
        let queue = OrderedShared::new();
        let mut model = Sorted::default();
        for step in steps {
            match step {
                SharedStep::Push(level) => {
                    model.push(level, source.made);
                    queue.push(source.next(level));
                }
                SharedStep::PushBatch(levels) => {
                    let mut batch = Batch::new();
                    for level in levels {
                        model.push(level, source.made);
                        batch.push(source.next(level));
                    }
                    queue.push_batch(batch);
                }
                SharedStep::Pop => prop_assert_eq!(queue.pop().map(id), model.pop()),
                SharedStep::PopLowestBelow(limit) => {
                    let lowest = model.0.last().map(|row| row.0.0);
                    let fits = lowest.is_some_and(|level| limit.is_none_or(|limit| level < limit));
                    let expected = if fits { model.pop_lowest() } else { None };
                    prop_assert_eq!(queue.pop_lowest_below(limit).map(id), expected);
                }
                SharedStep::Take(floor, max, levels_max) => {
                    let levels = model.levels();
                    let lowest = levels.iter().rev().take(levels_max + 1).next_back();
                    let lowest = lowest.map_or(floor, |&level| level.max(floor));
                    let fit = model.0.partition_point(|row| row.0.0 >= lowest);
                    let expected = model.take(..fit.min(max));
                    let expected: Vec<_> = expected.iter().map(|row| row.1).collect();
                    prop_assert_eq!(ids(queue.take(floor, max, levels_max)), expected);
                }
            }
            prop_assert_eq!(queue.len(), model.0.len());
            prop_assert_eq!(queue.is_empty(), model.0.is_empty());
            prop_assert_eq!(queue.top(), model.0.first().map(|row| row.0.0));
            prop_assert_eq!(source.ended(), source.made - model.0.len());
        }
        drop(queue);
        prop_assert_eq!(source.ended(), source.made);
    }
}

fn push(
    queue: &OrderedLocal<Entry<Job>>,
    model: &mut Sorted,
    source: &mut Source,
    level: i64,
) -> Result<(), TestCaseError> {
    let entry = source.next(level);
    let new = entry.value().id;
    let overflow = model.overflow(level);
    let pushed = queue.push(entry);
    match (pushed, overflow) {
        (Ok(()), None) => model.push(level, new),
        (Err(batch), Some((lower, stays))) => {
            let mut expected = lower;
            if stays {
                model.push(level, new);
            } else {
                expected.push((Reverse(level), new));
            }
            // Equals in their order, whatever the order of levels.
            let mut batch: Vec<_> = batch
                .into_iter()
                .map(|entry| (Reverse(entry.priority()), id(entry)))
                .collect();
            batch.sort_by_key(|row| row.0);
            expected.sort_by_key(|row| row.0);
            prop_assert_eq!(batch, expected);
        }
        (pushed, overflow) => {
            prop_assert!(
                false,
                "pushed: {:?}, expected {:?}",
                pushed.is_ok(),
                overflow
            );
        }
    }
    Ok(())
}

#[test]
fn a_level_has_its_turn_in_each_round() {
    let mut source = Source::default();
    let (queue, _) = ordered_local();
    let shared = OrderedShared::new();
    for level in [30, 10, 20] {
        for _ in 0..4 {
            assert!(queue.push(source.next(level)).is_ok());
            shared.push(source.next(level));
        }
    }
    let turns = |mut pop: Box<dyn FnMut() -> Option<Entry<Job>> + '_>| {
        let mut levels: Vec<_> = (0..3).map(|_| pop().unwrap().priority()).collect();
        levels.sort_unstable();
        levels
    };
    for _ in 0..4 {
        assert_eq!(turns(Box::new(|| queue.pop_in_turn())), [10, 20, 30]);
    }
    let mut turn = 0;
    for _ in 0..4 {
        assert_eq!(
            turns(Box::new(|| shared.pop_in_turn(&mut turn))),
            [10, 20, 30]
        );
    }
    assert!(queue.pop_in_turn().is_none() && shared.pop_in_turn(&mut turn).is_none());
}

#[test]
fn the_shared_queue_is_first_after_sixty_of_ones_own() {
    let (queue, locals) = Queue::new(1);
    for _ in 0..200 {
        locals[0].push(Entry::new(1, "own"));
        queue.push(Entry::new(0, "shared"));
    }
    let popped: Vec<_> = (0..183)
        .map(|_| *locals[0].pop().unwrap().value())
        .collect();
    // O4.
    for (at, &from) in popped.iter().enumerate() {
        let expected = if (at + 1) % 61 == 0 { "shared" } else { "own" };
        assert_eq!(from, expected, "at {at}, with a bound of {LOCAL_MAX}");
    }
}

#[test]
fn who_has_nothing_steals_the_upper_half_before_it_takes_what_is_shared() {
    let (queue, locals) = Queue::new(2);
    queue.push(Entry::new(9, 9));
    for level in 1..=4 {
        locals[0].push(Entry::new(level, level));
    }
    // O3: 4 and 3 are stolen; then its own is empty again.
    let popped: Vec<_> = (0..3)
        .map(|_| locals[1].pop().unwrap().into_value())
        .collect();
    assert_eq!(popped, [4, 3, 2]);
    assert_eq!(locals[0].pop().unwrap().into_value(), 1);
    assert_eq!(locals[0].pop().unwrap().into_value(), 9);
    assert!(locals[0].pop().is_none() && locals[1].pop().is_none());
}

/// How often a test with threads repeats itself.
fn scaled(count: usize) -> usize {
    let percent = match std::env::var("WS_TEST_SCALE") {
        Ok(percent) => percent.parse().expect("WS_TEST_SCALE is in percent"),
        Err(_) => 100,
    };
    (count * percent / 100).max(1)
}

#[test]
fn threads_take_each_entry_once() {
    const EACH: usize = 2_000;
    for threads in [1, 2, 8] {
        for round in 0..scaled(10) {
            let ended = Arc::new(AtomicUsize::new(0));
            let (queue, locals) = Queue::new(threads);
            let queue = Arc::new(queue);
            let barrier = Arc::new(Barrier::new(threads));
            let pushing = Arc::new(AtomicUsize::new(threads));
            let workers = locals.into_iter().enumerate().map(|(index, local)| {
                let (queue, barrier, ended) = (queue.clone(), barrier.clone(), ended.clone());
                let pushing = pushing.clone();
                thread::spawn(move || {
                    barrier.wait();
                    let mut taken = vec![];
                    for i in 0..EACH {
                        let level = ((i * 7 + index + round) % 11) as i64 - 5;
                        let job = Job {
                            id: index * EACH + i,
                            ended: ended.clone(),
                        };
                        let entry = Entry::new(level, job);
                        if i % 17 == 0 {
                            queue.push(entry);
                        } else {
                            local.push(entry);
                        }
                        if i % 3 == 0 {
                            taken.extend(local.pop().map(id));
                        }
                    }
                    pushing.fetch_sub(1, Relaxed);
                    loop {
                        match local.pop() {
                            Some(entry) => taken.push(id(entry)),
                            None if pushing.load(Relaxed) == 0 && local.is_empty() => break,
                            None => thread::yield_now(),
                        }
                    }
                    taken
                })
            });
            let workers: Vec<_> = workers.collect();
            let mut all: Vec<usize> = workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap())
                .collect();
            all.sort_unstable();
            assert_eq!(all, (0..threads * EACH).collect::<Vec<_>>(), "S2");
            assert_eq!(ended.load(Relaxed), threads * EACH);
        }
    }
}
