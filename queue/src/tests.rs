//! I1, S2: the queues against simple ones, under random operations and under real threads; what all
//! tests of queues share. Tests of one guarantee are in files of their own, named after it.
//!
//! `WS_TEST_SCALE` scales the work of those with threads, in percent.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;

use proptest::prelude::*;

use super::local::CAPACITY;
use super::*;
use crate::scale::scaled;
use crate::steps::{
    direct, global,
    items::{Source, id, ids},
    local,
};

mod a_push_never_waits;
mod a_slot_goes_to_one;
mod nothing_is_lost_between_thieves;
mod thieves_take_half;

fn local_steps() -> impl Strategy<Value = Vec<local::Step>> {
    use local::Step;
    let step = prop_oneof![
        8 => (0..2_usize).prop_map(Step::Push),
        4 => (0..2_usize, 0..300_usize).prop_map(|(which, count)| Step::PushBatch(which, count)),
        4 => (0..2_usize).prop_map(Step::Pop),
        3 => (0..2_usize).prop_map(Step::Steal),
        1 => (0..2_usize, 0..200_usize).prop_map(|(which, max)| Step::Take(which, max)),
        1 => (0..2_usize).prop_map(Step::Drain),
    ];
    prop::collection::vec(step, 0..80)
}

fn global_steps() -> impl Strategy<Value = Vec<global::Step>> {
    use global::Step;
    let step = prop_oneof![
        4 => Just(Step::Push),
        2 => (0..10_usize).prop_map(Step::PushBatch),
        4 => Just(Step::Pop),
        2 => (0..10_usize).prop_map(Step::PopBatch),
        1 => (0..10_usize).prop_map(Step::Take),
        2 => (0..10_usize).prop_map(Step::TakeUntil),
        2 => (0..5_usize).prop_map(Step::PopNear),
    ];
    prop::collection::vec(step, 0..80)
}

fn direct_steps() -> impl Strategy<Value = Vec<direct::Step>> {
    use direct::Step;
    let step = prop_oneof![
        3 => Just(Step::Put),
        2 => Just(Step::TakeNext),
        2 => Just(Step::Peek),
        2 => Just(Step::StealNext),
        4 => (1..4_usize).prop_map(Step::Fork),
        1 => (0..600_usize).prop_map(Step::Fork),
        3 => Just(Step::PopFork),
        3 => Just(Step::StealFork),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn local_queues_are_bounded_fifos(steps in local_steps()) {
        local::run(&steps);
    }

    #[test]
    fn global_queue_is_a_fifo(steps in global_steps()) {
        global::run(&steps);
    }

    #[test]
    fn runnext_is_an_option_and_the_fork_deque_a_deque(steps in direct_steps()) {
        direct::run(&steps);
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
            prop_assert_eq!(batch.len(), source.made);
            prop_assert_eq!(batch.is_empty(), source.made == 0);
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
fn what_is_left_in_a_batch_ends_with_it() {
    let mut source = Source::default();
    let batch: Batch<_> = source.take(3).into_iter().collect();
    source.assert_left(3);
    drop(batch);
    source.assert_left(0);
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
    // Which pusher a job is from, by its counter.
    let mut seen: Vec<(*const AtomicUsize, usize)> = vec![];
    let mut count = 0;
    while count < each * PUSHERS {
        count += queue.pop_batch(7, |job| {
            let from = Arc::as_ptr(&job.value().ended);
            match seen.iter_mut().find(|(pusher, _)| *pusher == from) {
                Some((_, next)) => {
                    assert_eq!(job.value().id, *next);
                    *next += 1;
                }
                None => {
                    assert_eq!(job.value().id, 0);
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
