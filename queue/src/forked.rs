//! The fork deque: tasks that wait while the child that they forked runs.
//!
//! The owner pushes and pops at the tail, so that it goes on with the newest, as after a call.
//! Thieves take the oldest from the head. That is the deque of Chase and Lev (*Dynamic circular
//! work-stealing deque*, 2005), and `crossbeam-deque` has it, with tests of its own and more users
//! than this runtime.
//!
//! *What it costs*. The ring grows, so a thief may read one that its owner has just replaced.
//! `crossbeam-epoch` keeps the old ring until no thief can read it. For that each steal pins the
//! epoch of its thread. This is a thread-local of 4 KiB: it is made when the thread first finds a
//! parent to steal, or where a ring first grows, and ends with its thread, behind the runtime's own
//! thread-locals. It holds memory of rings alone: a task is never in it, so no destructor of a user
//! runs there. The owner's push and pop touch no epoch while the ring keeps its size.

use crossbeam_deque as deque;

use super::Item;

/// The owner's end. `Send`, but not `Sync` and not `Clone`: there is one owner.
pub type ForkDeque<T> = deque::Worker<T>;

/// Makes a deque: the owner's end and the thieves' end.
pub fn fork_deque<T: Item>() -> (ForkDeque<T>, ForkStealer<T>) {
    let owner = ForkDeque::new_lifo();
    let stealer = ForkStealer(owner.stealer());
    (owner, stealer)
}

/// The thieves' end.
#[derive(Debug)]
pub struct ForkStealer<T>(deque::Stealer<T>);

impl<T> ForkStealer<T> {
    /// Takes the oldest. It asks again where another thief, or the owner, was quicker.
    pub fn steal(&self) -> Option<T> {
        // Most threads never fork: without this look each thread that searches would make an epoch.
        if self.is_empty() {
            return None;
        }
        std::iter::repeat_with(|| self.0.steal())
            .find(|steal| !steal.is_retry())
            .and_then(deque::Steal::success)
    }

    /// Whether there is none, or was none a moment ago.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are, or were a moment ago.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(all(test, not(ws_loom)))]
mod tests {
    use super::*;
    use crate::steps::items::Source;

    /// Fails if a stealer sees nothing of what there is.
    #[test]
    fn a_stealer_counts_what_it_sees() {
        let (owner, stealer) = fork_deque();
        let mut source = Source::default();
        for len in 0..3 {
            assert_eq!((stealer.len(), stealer.is_empty()), (len, len == 0));
            owner.push(source.next());
        }
    }
}
