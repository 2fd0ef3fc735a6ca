//! The ordered queue that all workers share: what did not fit into their own, and what came from
//! outside.
//!
//! A map from levels to lists of tasks, under a short mutex. Beside it two words that are read
//! without: the highest level, and how many items there are. Both are written under the mutex,
//! before the push returns, so the fence that a pusher then makes covers them: *The spinning
//! hand-over* in `executor/src/permit/idle.rs` asks [`OrderedShared::is_empty`] behind its own.
//!
//! A worker that takes from here takes a share for its own queue with it, so that it does not come
//! for each item. A level that is found empty keeps its list while there are few, or a single task
//! that comes and goes would allocate each time.
//!
//! Nothing of the user's runs under the mutex (S8): an item's priority is a number in it, and an
//! item is dropped by the thread that took it.

use std::collections::BTreeMap;

use super::Ordered;
use crate::{
    Batch, List, Padded,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::Relaxed},
    },
};

/// So many levels without an item are kept: as many as a P has buckets.
const KEPT_MAX: usize = 8;

/// An unbounded ordered queue for all threads.
#[derive(Debug)]
pub struct OrderedShared<T: Ordered> {
    /// Some task of another priority than the default one was queued, here or on a P. Never taken
    /// back, and in no line that is written to: every step of every worker reads it.
    used: Padded<AtomicBool>,
    hints: Padded<Hints>,
    levels: Mutex<Levels<T>>,
}

/// Written only under the mutex.
#[derive(Debug)]
struct Hints {
    len: AtomicUsize,
    /// The highest level; the least there is if none is.
    top: AtomicI64,
}

#[derive(Debug)]
struct Levels<T: Ordered> {
    lists: BTreeMap<i64, List<T>>,
    len: usize,
}

impl<T: Ordered> Default for OrderedShared<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Ordered> OrderedShared<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            used: Padded(AtomicBool::new(false)),
            hints: Padded(Hints {
                len: AtomicUsize::new(0),
                top: AtomicI64::new(i64::MIN),
            }),
            levels: Mutex::new(Levels {
                lists: BTreeMap::new(),
                len: 0,
            }),
        }
    }

    /// Whether any task has ever had use for order; what all others pay is this one load.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.used.load(Relaxed)
    }

    /// An item is about to be queued, here or on a P.
    pub fn mark_used(&self) {
        if !self.is_used() {
            self.used.store(true, Relaxed);
        }
    }

    /// Pushes an item behind its equals.
    pub fn push(&self, item: T) {
        self.mark_used();
        let mut levels = self.levels.lock();
        levels.push(item);
        self.publish(&levels);
    }

    /// Pushes a batch, equals in its order.
    pub fn push_batch(&self, batch: Batch<T>) {
        self.mark_used();
        let mut levels = self.levels.lock();
        for item in batch {
            levels.push(item);
        }
        self.publish(&levels);
    }

    /// Takes the highest item, the oldest among equals.
    pub fn pop(&self) -> Option<T> {
        self.take(i64::MIN, 1, 0).next()
    }

    /// Takes up to `max` items of level `floor` and above, the highest first: the first one, and
    /// behind it items of its level and of `levels_max` more.
    pub fn take(&self, floor: i64, max: usize, levels_max: usize) -> List<T> {
        if self.is_empty() || max == 0 {
            return List::new();
        }
        let mut levels = self.levels.lock();
        let taken = levels.take(floor, max, levels_max);
        self.publish(&levels);
        taken
    }

    /// Takes the oldest item of the lowest level, if that is below `limit`.
    pub fn pop_lowest_below(&self, limit: Option<i64>) -> Option<T> {
        self.pop_where(|levels| {
            let lowest = levels.lowest();
            lowest.filter(|&level| limit.is_none_or(|limit| level < limit))
        })
    }

    /// Takes the oldest item of the level next below `*turn`, or of the highest if there is none,
    /// and leaves that level in `turn`.
    pub fn pop_in_turn(&self, turn: &mut i64) -> Option<T> {
        self.pop_where(|levels| {
            let below = levels.highest_below(*turn);
            *turn = below.or_else(|| levels.highest())?;
            Some(*turn)
        })
    }

    fn pop_where(&self, level: impl FnOnce(&Levels<T>) -> Option<i64>) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut levels = self.levels.lock();
        let level = level(&levels)?;
        let item = levels.pop_from(level);
        self.publish(&levels);
        item
    }

    fn publish(&self, levels: &MutexGuard<'_, Levels<T>>) {
        self.hints
            .top
            .store(levels.highest().unwrap_or(i64::MIN), Relaxed);
        self.hints.len.store(levels.len, Relaxed);
    }

    /// The highest level, if there is one, or was a moment ago.
    pub fn top(&self) -> Option<i64> {
        (!self.is_empty()).then(|| self.hints.top.load(Relaxed))
    }

    /// How many items there are, or were a moment ago.
    pub fn len(&self) -> usize {
        self.hints.len.load(Relaxed)
    }

    /// Whether there are none. See the module's head.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Ordered> Levels<T> {
    fn push(&mut self, item: T) {
        let list = self.lists.entry(item.priority()).or_default();
        list.push(item);
        self.len += 1;
    }

    fn filled(&self) -> impl DoubleEndedIterator<Item = i64> {
        let filled = self.lists.iter().filter(|(_, list)| list.len() > 0);
        filled.map(|(&level, _)| level)
    }

    fn highest(&self) -> Option<i64> {
        self.filled().next_back()
    }

    fn lowest(&self) -> Option<i64> {
        self.filled().next()
    }

    fn highest_below(&self, level: i64) -> Option<i64> {
        let below = self.lists.range(..level);
        let mut filled = below.filter(|(_, list)| list.len() > 0);
        filled.next_back().map(|(&level, _)| level)
    }

    fn take(&mut self, floor: i64, max: usize, levels_max: usize) -> List<T> {
        let mut taken = List::new();
        for _ in 0..=levels_max {
            let Some(level) = self.highest().filter(|&level| level >= floor) else {
                break;
            };
            taken.append(self.split(level, max - taken.len()));
            if taken.len() == max {
                break;
            }
        }
        taken
    }

    fn pop_from(&mut self, level: i64) -> Option<T> {
        self.split(level, 1).next()
    }

    /// The oldest `max` items of a level.
    fn split(&mut self, level: i64, max: usize) -> List<T> {
        let Some(list) = self.lists.get_mut(&level) else {
            return List::new();
        };
        let taken = list.split_front(max);
        let emptied = list.len() == 0;
        self.len -= taken.len();
        if emptied && self.lists.len() > KEPT_MAX {
            self.lists.remove(&level);
        }
        taken
    }
}

#[cfg(all(test, not(ws_loom)))]
mod tests {
    use super::*;
    use crate::steps::items::Source;

    /// A level that comes and goes does not allocate each time, and levels that were used once are
    /// forgotten.
    #[test]
    fn few_levels_are_kept_and_not_many() {
        let mut source = Source::default();
        let queue = OrderedShared::new();
        for _ in 0..3 {
            queue.push(source.next_at(1));
            assert!(queue.pop().is_some());
            assert_eq!(queue.levels.lock().lists.len(), 1);
        }
        for level in 0..100 {
            queue.push(source.next_at(level));
        }
        while queue.pop().is_some() {}
        assert_eq!(queue.levels.lock().lists.len(), KEPT_MAX);
    }
}
