//! runnext: the one task that a processor runs next.
//!
//! A task that the running one wakes or spawns goes here and not to the back of the queue. So two
//! tasks that talk to each other stay on one core, with the answer still in its cache. What was
//! here before is displaced, and its owner puts it to the back of the LRQ (H1).
//!
//! # How it works
//!
//! One atomic word: nil or a task. Only the owner writes a task into it, so between two of its own
//! operations the word can only go from a task to nil, by a thief. That is why
//!
//! - [`RunNext::put`] into a slot that is seen empty is a plain store and no exchange: no other
//!   thread can fill it meanwhile;
//! - [`RunNext::take`] from a slot that is seen empty touches nothing.
//!
//! # Which thread may steal
//!
//! A thief leaves the slot alone in rounds one to three, and takes it in round four only if the
//! victim has not moved on since round one (I8). It shows that with a [`Token`] from
//! [`RunNextStealer::peek`] in round one: the steal succeeds only if the same task is there.
//!
//! The token is the task's address and no counter. The same address can come back: the task ran and
//! was woken again, or its memory belongs to a new task. Such a steal is a move like any other, for
//! the compare-and-swap reads the newest value and takes what is there *now*, with all that its
//! owner wrote before. Only the courtesy of I8 is at stake, and that has a second witness: the
//! thief compares the victim's count of polls, which the scheduler keeps beside this slot.
//!
//! # Two of them
//!
//! A P has a second such slot, `direct`, for the child that its running poll has forked
//! (`executor/src/task/fork.rs`). Thieves leave that one alone: *A poll that goes on* there says
//! which threads take from it.
//!
//! # Where it is checked
//!
//! `models::queue::runnext_*`, with the mutants `runnext_*`.
#![expect(unsafe_code, reason = "turns the word in the slot back into an item")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::{Item, Padded};
use crate::sync::Arc;
use crate::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};

/// Makes a slot: the owner's end and the thieves' end.
pub fn run_next<T: Item>() -> (RunNext<T>, RunNextStealer<T>) {
    let slot = Arc::new(Padded(Slot {
        item: AtomicPtr::new(ptr::null_mut()),
        items: PhantomData,
    }));
    let owner = RunNext {
        slot: slot.clone(),
        not_sync: PhantomData,
    };
    (owner, RunNextStealer { slot })
}

/// The owner's end of the slot. `Send`, but not `Sync` and not `Clone`: there is one owner.
#[derive(Debug)]
pub struct RunNext<T: Item> {
    slot: Arc<Padded<Slot<T>>>,
    not_sync: PhantomData<Cell<()>>,
}

/// The thieves' end of the slot.
#[derive(Debug)]
pub struct RunNextStealer<T: Item> {
    slot: Arc<Padded<Slot<T>>>,
}

/// What a thief saw in the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token(usize);

#[derive(Debug)]
struct Slot<T: Item> {
    item: AtomicPtr<()>,
    /// The slot moves items between threads, which `Item: Send` allows, and never shares one.
    items: PhantomData<fn() -> T>,
}

impl<T: Item> RunNext<T> {
    /// Puts an item into the slot and gives back the one that was there.
    #[inline]
    pub fn put(&self, item: T) -> Option<T> {
        let raw = item.into_raw().as_ptr();
        let word = &self.slot.item;
        if word.load(Relaxed).is_null() {
            // Ordering: `Release` pairs with the thief's `Acquire` in `steal` (I10). No exchange,
            // for only the owner fills the slot, so it is still empty.
            word.store(raw, Release);
            return None;
        }
        // Ordering: `Release` as above. What comes back was put there by this same owner.
        let displaced = word.swap(raw, Release);
        // SAFETY: the exchange took the word out of the slot, so it is ours alone.
        NonNull::new(displaced).map(|raw| unsafe { T::from_raw(raw) })
    }

    /// Takes the item, if there is one.
    #[inline]
    pub fn take(&self) -> Option<T> {
        let word = &self.slot.item;
        if word.load(Relaxed).is_null() {
            return None;
        }
        // The owner takes what the owner put: no order is needed. It is an exchange because a thief
        // may be faster.
        let raw = word.swap(ptr::null_mut(), Relaxed);
        // SAFETY: the exchange took the word out of the slot, so it is ours alone.
        NonNull::new(raw).map(|raw| unsafe { T::from_raw(raw) })
    }

    /// Whether the slot is empty. It stays so until the owner's next [`put`](Self::put).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slot.item.load(Relaxed).is_null()
    }
}

impl<T: Item> RunNextStealer<T> {
    /// What is in the slot now, to be shown to [`RunNextStealer::steal`] later.
    pub fn peek(&self) -> Option<Token> {
        let raw = NonNull::new(self.slot.item.load(Relaxed))?;
        Some(Token(raw.addr().get()))
    }

    /// Takes the item if it is still the one that `expected` was given for.
    pub fn steal(&self, expected: Token) -> Option<T> {
        let expected = ptr::without_provenance_mut(expected.0);
        // Ordering: `Acquire` pairs with the `Release` of `put` (I10). Nothing is released: the
        // owner learns nothing from an empty slot.
        let taken = self
            .slot
            .item
            .compare_exchange(expected, ptr::null_mut(), Acquire, Relaxed);
        let raw = NonNull::new(taken.ok()?)?;
        // SAFETY: the exchange took the word out of the slot, so it is ours alone. It is the word
        // that was there and not the token, so it may be used as a pointer.
        Some(unsafe { T::from_raw(raw) })
    }
}

impl<T: Item> Clone for RunNextStealer<T> {
    fn clone(&self) -> Self {
        Self {
            slot: self.slot.clone(),
        }
    }
}

impl<T: Item> Drop for Slot<T> {
    fn drop(&mut self) {
        if let Some(raw) = NonNull::new(self.item.load(Relaxed)) {
            // SAFETY: no other thread has the slot any more, so the word in it is ours alone.
            drop(unsafe { T::from_raw(raw) });
        }
    }
}
