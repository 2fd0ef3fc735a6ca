//! O1, O2, O3: the ordered queue of a P beside a sorted `Vec`.

use std::cmp::Reverse;

use super::{
    items::{Job, Source, id},
    sorted::Sorted,
};
use crate::{
    OrderedLocal,
    ordered::{BUCKETS, CAPACITY},
    ordered_local,
};

/// See the module's head.
#[derive(Debug, Clone)]
pub enum Step {
    /// One of this level is pushed; if there is no room, the lower half goes out.
    Push(i64),
    /// So many of this level are pushed, one after the other.
    PushMany(i64, usize),
    /// The highest is popped.
    Pop,
    /// The highest is popped, if it is at least this.
    PopAtLeast(i64),
    /// The oldest of the lowest level is popped.
    PopLowest,
    /// A thief takes the upper half.
    Steal,
    /// A thief takes all.
    TakeAll,
    /// The owner takes all.
    Drain,
}

/// Runs the steps.
///
/// # Panics
///
/// Panics if the queue does what its model does not.
pub fn run(steps: &[Step]) {
    let mut source = Source::default();
    let (queue, stealer) = ordered_local();
    let mut model = Sorted::default();
    let mut is_counted = true;
    for step in steps {
        match *step {
            Step::Push(level) => push(&queue, &mut model, &mut source, level),
            Step::PushMany(level, count) => {
                for _ in 0..count {
                    push(&queue, &mut model, &mut source, level);
                }
            }
            Step::Pop => {
                assert_eq!(queue.top(), model.top());
                assert_eq!(queue.pop().map(id), model.pop());
            }
            Step::PopAtLeast(floor) => {
                let fits = model.top().is_some_and(|top| top >= floor);
                let expected = if fits { model.pop() } else { None };
                assert_eq!(queue.pop_at_least(floor).map(id), expected);
            }
            Step::PopLowest => assert_eq!(queue.pop_lowest().map(id), model.pop_lowest()),
            Step::Steal => {
                // O3: the upper half, the highest first.
                let half = model.take(..model.0.len().div_ceil(2));
                let mut others = vec![];
                let first = stealer.steal(|job| others.push(id(job)));
                let mut stolen: Vec<_> = first.map(id).into_iter().collect();
                stolen.extend(others);
                assert_eq!(stolen, half.iter().map(|row| row.1).collect::<Vec<_>>());
            }
            Step::TakeAll => {
                let mut taken = vec![];
                stealer.take_all(|job| taken.push(id(job)));
                taken.sort_unstable();
                let mut all: Vec<_> = model.take(..).iter().map(|row| row.1).collect();
                all.sort_unstable();
                assert_eq!(taken, all);
            }
            Step::Drain => {
                let mut drained = vec![];
                queue.drain(|job| drained.push(id(job)));
                let all: Vec<_> = model.take(..).iter().map(|row| row.1).collect();
                assert_eq!(drained, all);
            }
        }
        assert_eq!(queue.len(), model.0.len());
        assert_eq!(queue.bottom(), model.bottom());
        assert_eq!(stealer.len(), model.0.len());
        assert_eq!(queue.is_empty(), model.0.is_empty());
        assert_eq!(stealer.is_empty(), model.0.is_empty());
        let top = model.top().unwrap_or(i64::MIN);
        assert!(stealer.top() >= top, "what is published is the top, or old");
        // The owner counts what it does itself, and a thief's work only once that makes a
        // difference.
        is_counted &= !matches!(step, Step::Steal | Step::TakeAll);
        let (room, buckets) = queue.room();
        assert!(room == CAPACITY - model.0.len() || room < CAPACITY - model.0.len() && !is_counted);
        assert_eq!(buckets, BUCKETS - model.levels().len());
        source.assert_left(model.0.len());
    }
    drop((queue, stealer));
    // What is left ends with the queue.
    source.assert_left(0);
}

fn push(queue: &OrderedLocal<Job>, model: &mut Sorted, source: &mut Source, level: i64) {
    let job = source.next_at(level);
    let new = job.value().id;
    let overflow = model.overflow(level);
    match (queue.push(job), overflow) {
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
                .map(|job| (Reverse(job.priority()), id(job)))
                .collect();
            batch.sort_by_key(|row| row.0);
            expected.sort_by_key(|row| row.0);
            assert_eq!(batch, expected);
        }
        (pushed, overflow) => {
            let stayed = pushed.is_ok();
            panic!("it stayed: {stayed}, while the model has {overflow:?}");
        }
    }
}
