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
//!
//! *Made with the first push*. Most threads never fork. So there is no ring before, and thieves
//! find none by a look at one word: `crossbeam-deque` has a fence in each of its looks.

use std::{
    cell::OnceCell,
    sync::{Arc, OnceLock},
};

use crossbeam_deque as deque;

use super::Item;

/// The owner's end. `Send`, but not `Sync` and not `Clone`: there is one owner.
#[derive(Debug)]
pub struct ForkDeque<T> {
    made: OnceCell<deque::Worker<T>>,
    thieves: Arc<OnceLock<deque::Stealer<T>>>,
}

/// Makes a deque: the owner's end and the thieves' end.
pub fn fork_deque<T: Item>() -> (ForkDeque<T>, ForkStealer<T>) {
    let thieves = Arc::new(OnceLock::new());
    let stealer = ForkStealer(thieves.clone());
    let owner = ForkDeque {
        made: OnceCell::new(),
        thieves,
    };
    (owner, stealer)
}

impl<T: Item> ForkDeque<T> {
    /// Adds an item at the tail.
    #[inline]
    pub fn push(&self, item: T) {
        self.made.get_or_init(|| self.make()).push(item);
    }

    #[cold]
    fn make(&self) -> deque::Worker<T> {
        let made = deque::Worker::new_lifo();
        self.thieves.get_or_init(|| made.stealer());
        made
    }

    /// Takes the newest.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        self.made.get()?.pop()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.made.get().is_none_or(deque::Worker::is_empty)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.made.get().map_or(0, deque::Worker::len)
    }
}

/// The thieves' end.
#[derive(Debug)]
pub struct ForkStealer<T>(Arc<OnceLock<deque::Stealer<T>>>);

impl<T> ForkStealer<T> {
    /// Takes the oldest. It asks again where another thief, or the owner, was quicker.
    pub fn steal(&self) -> Option<T> {
        let made = self.0.get()?;
        // Without this look each thread that searches would make an epoch.
        if made.is_empty() {
            return None;
        }
        std::iter::repeat_with(|| made.steal())
            .find(|steal| !steal.is_retry())
            .and_then(deque::Steal::success)
    }

    /// Whether there is none, or was none a moment ago.
    pub fn is_empty(&self) -> bool {
        self.0.get().is_none_or(deque::Stealer::is_empty)
    }

    /// How many there are, or were a moment ago.
    pub fn len(&self) -> usize {
        self.0.get().map_or(0, deque::Stealer::len)
    }
}

#[cfg(all(test, not(ws_loom)))]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;
    use crate::steps::items::Source;

    /// Fails if a P that never forks takes memory for it.
    #[test]
    fn it_is_made_with_the_first_push() {
        let (owner, stealer) = fork_deque();
        assert!(owner.pop().is_none() && stealer.steal().is_none());
        assert!(owner.is_empty() && stealer.is_empty() && owner.made.get().is_none());
        let mut source = Source::default();
        owner.push(source.next());
        assert!(stealer.steal().is_some() && owner.pop().is_none());
    }

    /// Fails if a stealer sees nothing of what there is.
    #[test]
    fn a_stealer_counts_what_it_sees() {
        let (owner, stealer) = fork_deque();
        let mut source = Source::default();
        for len in 0..3 {
            assert_eq!((stealer.len(), stealer.is_empty()), (len, len == 0));
            assert_eq!(owner.len(), len);
            owner.push(source.next());
        }
    }

    /// Fails if a thief that was too slow for one item takes that for the end of them.
    #[test]
    fn a_thief_goes_on_until_there_is_none() {
        const ITEMS: usize = 100_000;
        let (owner, stealer) = fork_deque();
        let mut source = Source::default();
        for _ in 0..ITEMS {
            owner.push(source.next());
        }
        let start = Barrier::new(2);
        // Nothing is pushed meanwhile: where one finds none, there is none.
        let steal_all = || {
            start.wait();
            let stolen = std::iter::from_fn(|| stealer.steal()).count();
            (stolen, stealer.is_empty())
        };
        let both = thread::scope(|scope| {
            let other = scope.spawn(steal_all);
            [steal_all(), other.join().unwrap()]
        });
        assert!(both.iter().all(|&(_, none_is_left)| none_is_left));
        assert_eq!(both.iter().map(|&(stolen, _)| stolen).sum::<usize>(), ITEMS);
    }
}
