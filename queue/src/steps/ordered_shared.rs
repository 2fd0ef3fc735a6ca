//! O1, O3: the ordered queue that all share beside a sorted `Vec`.

use super::{
    items::{Source, id, ids},
    sorted::Sorted,
};
use crate::{Batch, OrderedShared};

/// See the module's head.
#[derive(Debug, Clone)]
pub enum Step {
    /// One of this level is pushed.
    Push(i64),
    /// One of each of these levels is pushed, all at once.
    PushBatch(Vec<i64>),
    /// The highest is popped.
    Pop,
    /// The oldest of the lowest level is popped, if it is below this.
    PopLowestBelow(Option<i64>),
    /// Those of at least the first are taken, the highest first: at most so many, of at most so
    /// many levels and one.
    Take(i64, usize, usize),
}

/// Runs the steps.
///
/// # Panics
///
/// Panics if the queue does what its model does not.
pub fn run(steps: &[Step]) {
    let mut source = Source::default();
    let queue = OrderedShared::new();
    let mut model = Sorted::default();
    assert!(!queue.is_used());
    for step in steps {
        match *step {
            Step::Push(level) => {
                model.push(level, source.made);
                queue.push(source.next_at(level));
            }
            Step::PushBatch(ref levels) => {
                let mut batch = Batch::new();
                for &level in levels {
                    model.push(level, source.made);
                    batch.push(source.next_at(level));
                }
                queue.push_batch(batch);
            }
            Step::Pop => assert_eq!(queue.pop().map(id), model.pop()),
            Step::PopLowestBelow(limit) => {
                let lowest = model.bottom();
                let fits = lowest.is_some_and(|level| limit.is_none_or(|limit| level < limit));
                let expected = if fits { model.pop_lowest() } else { None };
                assert_eq!(queue.pop_lowest_below(limit).map(id), expected);
            }
            Step::Take(floor, max, levels_max) => {
                let levels = model.levels();
                let lowest = levels.iter().rev().take(levels_max + 1).next_back();
                let lowest = lowest.map_or(floor, |&level| level.max(floor));
                let fit = model.0.partition_point(|row| row.0.0 >= lowest);
                let expected = model.take(..fit.min(max));
                let expected: Vec<_> = expected.iter().map(|row| row.1).collect();
                assert_eq!(ids(queue.take(floor, max, levels_max)), expected);
            }
        }
        assert!(queue.is_used() || source.made == 0);
        assert_eq!(queue.len(), model.0.len());
        assert_eq!(queue.is_empty(), model.0.is_empty());
        assert_eq!(queue.top(), model.top());
        source.assert_left(model.0.len());
    }
    drop(queue);
    source.assert_left(0);
}
