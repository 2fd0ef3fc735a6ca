//! The word of a task for two things that never are at once: the task is in the global queue, and
//! the word links it to the next one; or it is idle, and the word says since when.
//!
//! | word | means | written by |
//! | --- | --- | --- |
//! | an address, or null | the link | the queue that owns the task |
//! | `ms << 1 \| 1` | when the last poll began that left it idle | the runner, before it settles |
//!
//! *Invariant*: the owner of the task writes. It gives the word on with the task, and a queue
//! writes its link before it reads one. So a queue never takes a time for a link. Any thread reads
//! the time, and needs no order: the address of a task is even, and what is odd is the time of this
//! idle phase or of one before.
//!
//! The word is an atomic of the standard library, as in a slot for a joiner (`joiner.rs`). In the
//! models, a cell beside it notices if two threads use the link at once.

use std::{
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, Ordering::Relaxed},
};

use crate::sync::UnsafeCell;

/// As many bits of a time as there is room for: all 32, or 31 where an address has 32.
const MS: u32 = (usize::MAX >> 1) as u32;

/// A look reads the time first. A task that becomes idle during the look has a later time, by so
/// much at most.
const LATER_MS: u32 = 60_000;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Link {
    word: AtomicPtr<()>,
    used: UnsafeCell<()>,
}

impl Link {
    pub(super) fn new() -> Self {
        Self {
            word: AtomicPtr::new(ptr::null_mut()),
            used: UnsafeCell::new(()),
        }
    }

    /// What the task is linked to; for its queue.
    #[inline]
    pub(super) fn get(&self) -> Option<NonNull<()>> {
        self.used.with(|_| NonNull::new(self.word.load(Relaxed)))
    }

    /// Links the task; for its queue.
    #[inline]
    pub(super) fn set(&self, next: Option<NonNull<()>>) {
        self.store(next.map_or(ptr::null_mut(), NonNull::as_ptr));
    }

    /// A poll that began at `now_ms` is about to leave the task idle; for its runner.
    #[inline(always)]
    pub(super) fn idles(&self, now_ms: u32) {
        self.store(ptr::without_provenance_mut((now_ms as usize) << 1 | 1));
    }

    #[inline(always)]
    fn store(&self, word: *mut ()) {
        self.used.with_mut(|_| self.word.store(word, Relaxed));
    }

    /// How many milliseconds before `now_ms` the last poll began that left it idle. `None` if it
    /// was in the global queue since.
    pub(super) fn idle_for(&self, now_ms: u32) -> Option<u32> {
        let word = self.word.load(Relaxed).addr();
        let since = now_ms.wrapping_sub((word >> 1) as u32) & MS;
        (word & 1 == 1).then_some(if since > MS - LATER_MS { 0 } else { since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_link_or_a_time() {
        let link = Link::new();
        assert_eq!((link.get(), link.idle_for(7)), (None, None));
        link.idles(5);
        assert_eq!(link.idle_for(7), Some(2));
        let mut next = 0_u64;
        let next = NonNull::from(&mut next).cast();
        link.set(Some(next));
        assert_eq!((link.get(), link.idle_for(7)), (Some(next), None));
        link.set(None);
        assert_eq!((link.get(), link.idle_for(7)), (None, None));
    }

    /// Fails if a task that became idle during a look is told to have been idle for 49 days.
    #[test]
    fn a_time_after_that_of_the_look_is_none() {
        let link = Link::new();
        for ms in [0, 1, 7_000, u32::MAX] {
            link.idles(ms.wrapping_add(3));
            assert_eq!(link.idle_for(ms), Some(0));
        }
    }

    #[test]
    fn a_time_wraps_with_the_clock() {
        let link = Link::new();
        for ms in [0, u32::MAX - 1, u32::MAX] {
            link.idles(ms);
            assert_eq!(link.idle_for(ms), Some(0));
            assert_eq!(link.idle_for(ms.wrapping_add(3)), Some(3));
        }
    }
}
