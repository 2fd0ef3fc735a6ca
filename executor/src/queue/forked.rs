//! The fork deque: tasks that wait while the child that they forked runs.
//!
//! The owner pushes and pops at the tail, so that it goes on with the newest, as after a call; thieves take
//! the oldest from the head. This is the deque of Chase and Lev (*Dynamic circular work-stealing deque*,
//! 2005) with the orderings of Le, Pop, Cohen and Zappa Nardelli (*Correct and efficient work-stealing for
//! weak memory models*, 2013), over a ring that does not grow: who forks deeper than that has the parent in
//! the local queue.
//!
//! *Invariant*: an item belongs to who moves `head` past it by a compare-and-swap, or to the owner, if it
//! moved `tail` below it and then saw `head` not beyond. The two steps that decide that, the owner's store
//! of `tail` before its load of `head` and the thief's loads in the other order, have a sequentially consistent
//! fence between them, so one sees the other. Indices do not wrap, so a thief that read an old slot fails its
//! exchange.
//!
//! Rejected: `crossbeam-deque`, which does the same with a ring that grows, for three more crates in every
//! user's build, and a thread-local with a destructor.
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    marker::PhantomData,
    ptr::{self, NonNull},
};

use super::{Item, Padded};
use crate::sync::{
    Arc,
    atomic::{
        AtomicPtr, AtomicU64,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        fence,
    },
};

/// How deep forks may be before a parent goes elsewhere. Guessed: deeper than a balanced recursion.
const CAPACITY: u64 = if cfg!(ws_loom) { 2 } else { 512 };

/// Makes a deque: the owner's end and the thieves' end.
pub(crate) fn fork_deque<T: Item>() -> (ForkDeque<T>, ForkStealer<T>) {
    let ring = Arc::new(Ring {
        head: Padded(AtomicU64::new(0)),
        tail: Padded(AtomicU64::new(0)),
        slots: (0..CAPACITY)
            .map(|_| AtomicPtr::new(ptr::null_mut()))
            .collect(),
        items: PhantomData,
    });
    let owner = ForkDeque {
        ring: ring.clone(),
        not_sync: PhantomData,
    };
    (owner, ForkStealer { ring })
}

/// The owner's end. `Send`, but neither `Sync` nor `Clone`: there is one owner.
#[derive(Debug)]
pub(crate) struct ForkDeque<T: Item> {
    ring: Arc<Ring<T>>,
    not_sync: PhantomData<Cell<()>>,
}

/// The thieves' end.
#[derive(Debug)]
pub(crate) struct ForkStealer<T: Item> {
    ring: Arc<Ring<T>>,
}

#[derive(Debug)]
struct Ring<T: Item> {
    /// The oldest item; moved on by compare-and-swap.
    head: Padded<AtomicU64>,
    /// One past the newest; only the owner writes it.
    tail: Padded<AtomicU64>,
    slots: Box<[AtomicPtr<()>]>,
    /// The ring moves items between threads, which `Item: Send` allows, and never shares one.
    items: PhantomData<fn() -> T>,
}

impl<T: Item> Ring<T> {
    fn slot(&self, index: u64) -> &AtomicPtr<()> {
        &self.slots[(index % CAPACITY) as usize]
    }

    /// # Safety
    ///
    /// - `raw` was read from the slot of an index that the caller owns.
    unsafe fn item(raw: *mut ()) -> T {
        let raw = NonNull::new(raw).expect("a slot below the tail was written");
        // SAFETY: `push` got it from `into_raw`, and by contract it is taken once.
        unsafe { T::from_raw(raw) }
    }

    fn len(&self) -> usize {
        let head = self.head.load(Relaxed);
        self.tail.load(Relaxed).saturating_sub(head) as usize
    }
}

impl<T: Item> ForkDeque<T> {
    /// Pushes at the tail; gives the item back if there is no room.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let ring = &*self.ring;
        let tail = ring.tail.load(Relaxed);
        // Ordering: Acquire pairs with the exchange in `steal`: its thief has read the slot.
        if tail - ring.head.load(Acquire) >= CAPACITY {
            return Err(item);
        }
        ring.slot(tail).store(item.into_raw().as_ptr(), Relaxed);
        // Ordering: Release pairs with the thief's load: the slot and the item are there.
        ring.tail.store(tail + 1, Release);
        Ok(())
    }

    /// Pops the newest.
    pub(crate) fn pop(&self) -> Option<T> {
        let ring = &*self.ring;
        let tail = ring.tail.load(Relaxed);
        if ring.head.load(Relaxed) >= tail {
            return None;
        }
        let newest = tail - 1;
        // Ordering: Release: who reads this tail, and not the one of `push`, sees the older slots all the same.
        ring.tail.store(newest, Release);
        // Ordering: SeqCst: see the invariant.
        fence(SeqCst);
        let head = ring.head.load(Relaxed);
        if head < newest {
            // SAFETY: thieves see the new tail before they come to this index.
            return Some(unsafe { Ring::item(ring.slot(newest).load(Relaxed)) });
        }
        // The last one, which thieves may want too.
        let won = head == newest
            && ring
                .head
                .compare_exchange(head, head + 1, SeqCst, Relaxed)
                .is_ok();
        // Ordering: Release, as above.
        ring.tail.store(tail, Release);
        // SAFETY: the exchange made it ours.
        won.then(|| unsafe { Ring::item(ring.slot(newest).load(Relaxed)) })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.len() == 0
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }
}

impl<T: Item> ForkStealer<T> {
    /// Takes the oldest.
    pub(crate) fn steal(&self) -> Option<T> {
        let ring = &*self.ring;
        loop {
            // Ordering: Acquire: the tail is read after it.
            let head = ring.head.load(Acquire);
            // Ordering: SeqCst: see the invariant.
            fence(SeqCst);
            // Ordering: Acquire pairs with `push`.
            if head >= ring.tail.load(Acquire) {
                return None;
            }
            let raw = ring.slot(head).load(Relaxed);
            // Ordering: SeqCst, which has the Release that `push` pairs with.
            if ring
                .head
                .compare_exchange(head, head + 1, SeqCst, Relaxed)
                .is_ok()
            {
                // SAFETY: the exchange made it ours.
                return Some(unsafe { Ring::item(raw) });
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.len() == 0
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }
}

impl<T: Item> Drop for Ring<T> {
    fn drop(&mut self) {
        for index in self.head.load(Relaxed)..self.tail.load(Relaxed) {
            // SAFETY: nobody else has the ring any more.
            drop(unsafe { Self::item(self.slot(index).load(Relaxed)) });
        }
    }
}
