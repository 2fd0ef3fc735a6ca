//! I1, S2: the GRQ beside a `VecDeque`: one at a time, in batches, and by what they are.

use std::collections::VecDeque;

use super::items::{Source, id, ids};
use crate::{Batch, GlobalQueue};

/// See the module's head.
#[derive(Debug, Clone)]
pub enum Step {
    /// One is pushed.
    Push,
    /// So many are pushed at once.
    PushBatch(usize),
    /// One is popped.
    Pop,
    /// Up to so many are popped, one after the other.
    PopBatch(usize),
    /// Up to so many are taken out as a list.
    Take(usize),
    /// Up to so many, or up to the first whose number is a multiple of three.
    TakeUntil(usize),
    /// The first of so many whose number is.
    PopNear(usize),
}

fn is_third(id: &usize) -> bool {
    id.is_multiple_of(3)
}

/// Runs the steps.
///
/// # Panics
///
/// Panics if the queue does what its model does not.
pub fn run(steps: &[Step]) {
    let mut source = Source::default();
    let queue = GlobalQueue::new();
    let mut model = VecDeque::new();
    for step in steps {
        match *step {
            Step::Push => {
                model.push_back(source.made);
                queue.push(source.next());
            }
            Step::PushBatch(count) => {
                model.extend(source.made..source.made + count);
                let batch: Batch<_> = source.take(count).into_iter().collect();
                assert_eq!(batch.len(), count);
                queue.push_batch(batch);
            }
            Step::Pop => assert_eq!(queue.pop().map(id), model.pop_front()),
            Step::PopBatch(max) => {
                let count = max.min(model.len());
                let mut taken = vec![];
                assert_eq!(queue.pop_batch(max, |job| taken.push(id(job))), count);
                assert_eq!(taken, model.drain(..count).collect::<Vec<_>>());
            }
            Step::Take(max) => {
                let count = max.min(model.len());
                let list = queue.take(max);
                assert_eq!(list.len(), count);
                assert_eq!(ids(list), model.drain(..count).collect::<Vec<_>>());
            }
            Step::TakeUntil(max) => {
                let count = model.iter().position(is_third).map_or(max, |at| at + 1);
                let count = count.min(max).min(model.len());
                let list = queue.take_until(max, |job| is_third(&job.value().id));
                assert_eq!(ids(list), model.drain(..count).collect::<Vec<_>>());
            }
            Step::PopNear(within) => {
                let at = model.iter().take(within).position(is_third);
                let popped = queue.pop_near(within, |job| is_third(&job.value().id));
                assert_eq!(popped.map(id), at.and_then(|at| model.remove(at)));
            }
        }
        assert_eq!(queue.len(), model.len());
        assert_eq!(queue.is_empty(), model.is_empty());
        source.assert_left(model.len());
    }
    drop(queue);
    source.assert_left(0);
}
