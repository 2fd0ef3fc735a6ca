//! The ordered queues against a sorted `Vec` (O1, O2, O3, O4): under random operations, and under
//! real threads.
//!
//! `WS_TEST_SCALE` scales the work of the latter, in percent.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::{
    scale::scaled,
    steps::{
        items::{Counted, Job, Source, id},
        ordered_local, ordered_shared,
    },
};

fn levels() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => -2..=2_i64,
        2 => -20..=20_i64,
        1 => Just(i64::MIN),
        1 => Just(i64::MAX),
        1 => any::<i64>(),
    ]
}

fn local_steps() -> impl Strategy<Value = Vec<ordered_local::Step>> {
    use ordered_local::Step;
    let step = prop_oneof![
        12 => levels().prop_map(Step::Push),
        4 => (levels(), 0..150_usize).prop_map(|(level, count)| Step::PushMany(level, count)),
        4 => Just(Step::Pop),
        2 => levels().prop_map(Step::PopAtLeast),
        2 => Just(Step::PopLowest),
        3 => Just(Step::Steal),
        1 => Just(Step::TakeAll),
        1 => Just(Step::Drain),
    ];
    prop::collection::vec(step, 0..120)
}

fn shared_steps() -> impl Strategy<Value = Vec<ordered_shared::Step>> {
    use ordered_shared::Step;
    let step = prop_oneof![
        4 => levels().prop_map(Step::Push),
        2 => prop::collection::vec(levels(), 0..10).prop_map(Step::PushBatch),
        3 => Just(Step::Pop),
        2 => prop::option::of(levels()).prop_map(Step::PopLowestBelow),
        2 => (levels(), 0..10_usize, 0..4_usize)
            .prop_map(|(floor, max, levels)| Step::Take(floor, max, levels)),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn local_queue_is_a_bounded_sorted_vec(steps in local_steps()) {
        ordered_local::run(&steps);
    }

    #[test]
    fn shared_queue_is_a_sorted_vec(steps in shared_steps()) {
        ordered_shared::run(&steps);
    }
}

#[test]
fn a_level_has_its_turn_in_each_round() {
    let mut source = Source::default();
    let (queue, _) = ordered_local();
    let shared = OrderedShared::new();
    for level in [30, 10, 20] {
        for _ in 0..4 {
            assert!(queue.push(source.next_at(level)).is_ok());
            shared.push(source.next_at(level));
        }
    }
    let turns = |mut pop: Box<dyn FnMut() -> Option<Job> + '_>| {
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

/// Its list may be kept, and is passed by.
#[test]
fn a_level_that_was_emptied_has_no_turn() {
    let mut source = Source::default();
    let (queue, _) = ordered_local();
    let shared = OrderedShared::new();
    for level in [30, 20, 10] {
        assert!(queue.push(source.next_at(level)).is_ok());
        shared.push(source.next_at(level));
    }
    let level = |job: Option<Job>| job.map(|job| job.priority());
    assert_eq!(
        (level(queue.pop()), level(shared.pop())),
        (Some(30), Some(30))
    );
    let mut turn = 40;
    let turns = [(); 3].map(|()| level(shared.pop_in_turn(&mut turn)));
    assert_eq!(turns, [Some(20), Some(10), None]);
    let mut turns = [(); 3].map(|()| level(queue.pop_in_turn()));
    turns.sort_unstable();
    assert_eq!(turns, [None, Some(10), Some(20)]);
}

/// O2: where all buckets have a level, another one goes out alone if it is below all of them, and
/// else sends the lower half out.
#[test]
fn one_level_too_many_goes_where_it_belongs() {
    use ordered_local::Step::{Pop, Push};
    let buckets = BUCKETS as i64;
    for level in 0..=buckets {
        let steps = (1..=buckets).map(|bucket| Push(2 * bucket));
        let steps: Vec<_> = steps.chain([Push(2 * level + 1), Pop]).collect();
        ordered_local::run(&steps);
    }
}

/// O2: the same for a queue that is full as well. Half of the items may all be of one level, which
/// keeps its bucket then.
#[test]
fn one_level_too_many_for_a_full_queue_goes_where_it_belongs() {
    use ordered_local::Step::{Pop, PopLowest, Push, PushMany};
    // The highest level went out here, for want of a bucket.
    ordered_local::run(&[
        PushMany(-17, 142),
        Push(10),
        PushMany(0, 75),
        PopLowest,
        Push(1),
        Push(-2),
        Push(-3),
        PushMany(-4, 35),
        Push(-1),
        Push(2),
        Pop,
    ]);
    let buckets = BUCKETS as i64;
    for many in 1..=buckets {
        for level in 0..=buckets {
            let steps = (1..=buckets).map(|bucket| match bucket == many {
                true => PushMany(2 * bucket, CAPACITY - BUCKETS + 1),
                false => Push(2 * bucket),
            });
            let steps = steps.chain([Push(2 * level + 1), Push(2 * buckets), Pop]);
            ordered_local::run(&steps.collect::<Vec<_>>());
        }
    }
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
fn one_that_has_nothing_steals_the_upper_half_before_it_takes_what_is_shared() {
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

#[test]
fn an_entry_may_be_changed_and_pushed_again() {
    let (_, locals) = Queue::new(1);
    locals[0].push(Entry::new(5, vec![1]));
    let mut entry = locals[0].pop().unwrap();
    assert_eq!(entry.priority(), 5);
    entry.value_mut().push(2);
    entry.set_priority(-5);
    locals[0].push(entry);
    locals[0].push(Entry::new(0, vec![3]));
    let popped = std::iter::from_fn(|| locals[0].pop());
    let popped: Vec<_> = popped.map(|e| (e.priority(), e.into_value())).collect();
    assert_eq!(popped, [(0, vec![3]), (-5, vec![1, 2])]);
}

#[test]
fn one_that_comes_first_takes_a_share_and_leaves_the_others_theirs() {
    let (queue, locals) = Queue::new(2);
    let lens = || (queue.len(), locals[0].len(), locals[1].len());
    let empty = || [queue.is_empty(), locals[0].is_empty(), locals[1].is_empty()];
    assert_eq!((lens(), empty()), ((0, 0, 0), [true, true, true]));
    for number in 0..10 {
        queue.push(Entry::new(0, number));
    }
    assert_eq!((lens(), empty()), ((10, 0, 0), [false, true, true]));
    // Half of them for one of two, and one to begin with.
    assert_eq!(locals[1].pop().unwrap().into_value(), 0);
    assert_eq!((lens(), empty()), ((4, 0, 5), [false, true, false]));
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
                        let job = Counted {
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
