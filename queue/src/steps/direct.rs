//! I1, I8, S2: runnext beside an `Option`, and the fork deque beside a `VecDeque`, each by its
//! owner and by a thief.

use std::collections::VecDeque;

use super::items::{Source, id};
use crate::{fork_deque, run_next};

/// See the module's head.
#[derive(Debug, Clone)]
pub enum Step {
    /// The owner puts one into runnext; what was there comes out.
    Put,
    /// The owner takes what is in runnext.
    TakeNext,
    /// A thief looks at runnext, for later.
    Peek,
    /// The thief takes what it saw, if it is still there.
    StealNext,
    /// The owner pushes so many parents.
    Fork(usize),
    /// The owner takes the newest.
    PopFork,
    /// A thief takes the oldest.
    StealFork,
}

/// Runs the steps.
///
/// # Panics
///
/// Panics if a queue does what its model does not.
pub fn run(steps: &[Step]) {
    let mut source = Source::default();
    let (next, thief) = run_next();
    let (deque, stealer) = fork_deque();
    let mut in_next = None;
    let mut forks = VecDeque::new();
    // A token, and which job it was given for.
    let mut seen = None;
    for step in steps {
        match *step {
            Step::Put => {
                let job = source.next();
                let new = job.value().id;
                assert_eq!(next.put(job).map(id), in_next.replace(new));
                // The memory of a job that has ended may be that of this one: a token is good for
                // what is there.
                seen = None;
            }
            Step::TakeNext => assert_eq!(next.take().map(id), in_next.take()),
            Step::Peek => {
                let token = thief.peek();
                assert_eq!(token.is_some(), in_next.is_some());
                seen = token;
            }
            Step::StealNext => {
                if let Some(token) = seen.take() {
                    assert_eq!(thief.steal(token).map(id), in_next.take());
                }
            }
            Step::Fork(count) => {
                for _ in 0..count {
                    let new = source.made;
                    deque.push(source.next());
                    forks.push_back(new);
                }
            }
            Step::PopFork => assert_eq!(deque.pop().map(id), forks.pop_back()),
            Step::StealFork => assert_eq!(stealer.steal().map(id), forks.pop_front()),
        }
        assert_eq!(next.is_empty(), in_next.is_none());
        assert_eq!(deque.is_empty(), forks.is_empty());
        assert_eq!(stealer.is_empty(), forks.is_empty());
        source.assert_left(forks.len() + usize::from(in_next.is_some()));
    }
    drop((next, thief, deque, stealer));
    source.assert_left(0);
}
