//! I1, I4, S2: two LRQs beside two `VecDeque`s. Each owner pushes and pops, overflows, and steals
//! from the other.

use std::collections::VecDeque;

use super::items::{Job, Source, id, ids};
use crate::{CAPACITY, LocalQueue, Steal, Stealer, local_queue};

/// The queue with this number; an odd number is the second one.
pub type Which = usize;

/// See the module's head.
#[derive(Debug, Clone)]
pub enum Step {
    /// Its owner pushes one; if it is full, half of it goes out.
    Push(Which),
    /// Its owner pushes so many, as far as there is room.
    PushBatch(Which, usize),
    /// Its owner pops.
    Pop(Which),
    /// The owner of the other one steals half of it, if that fits into its own.
    Steal(Which),
    /// Somebody takes up to so many.
    Take(Which, usize),
    /// Its owner empties it.
    Drain(Which),
}

struct End {
    queue: LocalQueue<Job>,
    stealer: Stealer<Job>,
    model: VecDeque<usize>,
}

/// Runs the steps.
///
/// # Panics
///
/// Panics if a queue does what its model does not.
pub fn run(steps: &[Step]) {
    let mut source = Source::default();
    let mut ends = [(); 2].map(|()| {
        let (queue, stealer) = local_queue();
        End {
            queue,
            stealer,
            model: VecDeque::new(),
        }
    });
    for step in steps {
        match *step {
            Step::Push(which) => ends[which % 2].push(&mut source),
            Step::PushBatch(which, count) => ends[which % 2].push_batch(&mut source, count),
            Step::Pop(which) => {
                let end = &mut ends[which % 2];
                assert_eq!(end.queue.pop().map(id), end.model.pop_front());
            }
            Step::Steal(which) => {
                let [first, second] = &mut ends;
                if which % 2 == 0 {
                    steal(first, second);
                } else {
                    steal(second, first);
                }
            }
            Step::Take(which, max) => {
                let end = &mut ends[which % 2];
                let count = max.min(end.model.len()).min(CAPACITY as usize / 2);
                let mut taken = vec![];
                let answer = end.stealer.take(max, |job| taken.push(id(job)));
                assert_eq!(answer, Some(count));
                assert_eq!(taken, end.model.drain(..count).collect::<Vec<_>>());
            }
            Step::Drain(which) => {
                let end = &mut ends[which % 2];
                let mut drained = vec![];
                end.queue.drain(|job| drained.push(id(job)));
                assert_eq!(drained, end.model.drain(..).collect::<Vec<_>>());
            }
        }
        for end in &ends {
            end.assert_equal();
        }
        source.assert_left(ends.iter().map(|end| end.model.len()).sum());
    }
    drop(ends);
    // What is left ends with the rings.
    source.assert_left(0);
}

impl End {
    fn push(&mut self, source: &mut Source) {
        let job = source.next();
        let new = job.value().id;
        match self.queue.push(job) {
            Ok(()) => self.model.push_back(new),
            Err(batch) => {
                let capacity = CAPACITY as usize;
                assert_eq!(self.model.len(), capacity);
                let mut expected: Vec<_> = self.model.drain(..capacity / 2).collect();
                expected.push(new);
                assert_eq!(ids(batch), expected);
            }
        }
    }

    fn push_batch(&mut self, source: &mut Source, count: usize) {
        let room = CAPACITY as usize - self.model.len();
        assert_eq!(self.queue.room(), room);
        let mut jobs = source.take(count).into_iter();
        let first = source.made - count;
        let pushed = self.queue.push_batch(&mut jobs);
        assert_eq!(pushed, count.min(room));
        assert_eq!(jobs.len(), count - pushed);
        self.model.extend(first..first + pushed);
    }

    fn assert_equal(&self) {
        assert_eq!(self.queue.len(), self.model.len());
        assert_eq!(self.stealer.len(), self.model.len());
        assert_eq!(self.queue.is_empty(), self.model.is_empty());
        assert_eq!(self.stealer.is_empty(), self.model.is_empty());
    }
}

fn steal(victim: &mut End, thief: &mut End) {
    // I4.
    let count = victim.model.len().div_ceil(2);
    if count > thief.queue.room() + 1 {
        return;
    }
    match victim.stealer.steal_into(&thief.queue) {
        Steal::Empty => assert_eq!(count, 0),
        Steal::Busy => panic!("nobody else is there"),
        Steal::Stolen { first, count: took } => {
            assert_eq!(took, count);
            assert_eq!(Some(id(first)), victim.model.pop_front());
            thief.model.extend(victim.model.drain(..count - 1));
        }
    }
}
