//! LRQ: the run queue of one processor, a ring of 256 slots that others steal half of.
//!
//! ```text
//!             head: anyone moves it on, by compare-and-swap     tail: only the owner moves it on
//!               v                                                 v
//! slots   . . . a b c d e f g h i j k l m n o p q r s t u v w x y . . . .
//!               `------ a thief takes half of them, at once ------'
//! ```
//!
//! The indices count items since the beginning in 64 bits, so they never wrap, never come back, and
//! `index % 256` is the slot. The ring holds the items of `head..tail`, and is empty exactly when
//! the two are equal (I3).
//!
//! # Operations
//!
//! | operation | by | how |
//! | --- | --- | --- |
//! | push, with room | owner | write the slot, store the tail: no retry whatever thieves do (S4) |
//! | push, when full | owner | one compare-and-swap takes half of the ring out; with the new item it goes to the GRQ |
//! | push a batch | owner | write the slots, store the tail once |
//! | pop | owner | compare-and-swap the head by one, then read the slot |
//! | steal | thief | read `ceil(len / 2)` slots, compare-and-swap the head over all of them (I4) |
//! | drain | owner | pop, as often as there were items |
//!
//! A compare-and-swap of the head fails only because another one succeeded (S5). No operation takes
//! a lock (I9) or allocates.
//!
//! The owner remembers the tail, which it alone writes, and the last head that it has seen. The
//! true head can only be further on, so while the remembered one shows room there is room: most
//! pushes do not touch the line that thieves write. For the same reason a pop tries the remembered
//! head first: a failed exchange answers with the true one.
//!
//! # Why the slots may be relaxed
//!
//! *A thief sees what was pushed (I10).* It loads the tail `Acquire`, which pairs with the
//! `Release` store of the push, so the slot and all that the pusher wrote before are visible to it.
//!
//! *A slot is not written while a thread may still read it.* A thief reads its slots before its
//! exchange decides. If that succeeds, its `Release` half comes after the reads. The owner writes
//! the slot of index `i` again for `i + 256`, and only when it has seen, by an `Acquire`, a head
//! beyond `i`. That is the thief's exchange or a later one in its release sequence (all writes to
//! the head are exchanges). So the reads happen before the write. If the thief's exchange fails,
//! what it read may be anything; it is thrown away as a word, and never looked at as an item. That
//! is the reason for slots that are atomic words: such a read of a slot that is being written is
//! not a data race.
//!
//! *The head is not beyond the tail.* The thread that moved the head to `h` had seen a tail of `h`
//! or more. Its exchange is `Release` and the load of the head is `Acquire` and comes first, so the
//! tail that is loaded next is no older. The other way, the head may be old when the tail is
//! loaded. If more than 256 lie between the two, it surely is, and another thread has had success.
//!
//! # What was rejected
//!
//! - `crossbeam-deque`'s FIFO worker: grows without bound (no overflow to share), and a batch steal
//!   is an exchange per item, or copies while others wait.
//! - Two heads in one word, so that a thief claims first and reads then (tokio's queue): other
//!   thieves find nothing until it is done, also when it is preempted in between. That is not
//!   lock-free.
//! - 32-bit indices: a thief that sleeps through 2^32 items would have its old exchange succeed.
//!
//! # Where it is checked
//!
//! `models/queue.rs`, with the mutants `lrq_*`; `tests.rs` against a `VecDeque`, and under
//! real threads.
#![expect(
    unsafe_code,
    reason = "turns the words in the slots back into items; LocalQueue and Stealer are safe"
)]

use std::array;
use std::cell::Cell;
use std::marker::PhantomData;

use super::slot::Slot;
use super::{Batch, Item, Linked, Padded};
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::{Arc, MODELLED};

/// How many items a ring holds: as many as Go's. In a model as few as a half and an overflow need.
pub const CAPACITY: u64 = if MODELLED { 4 } else { 256 };

/// What an overflow takes out of a full ring.
const HALF: u64 = CAPACITY / 2;

/// Makes a ring: the owner's end and the thieves' end.
pub fn local_queue<T: Item>() -> (LocalQueue<T>, Stealer<T>) {
    let ring = Arc::new(Ring {
        head: Padded(AtomicU64::new(0)),
        tail: Padded(AtomicU64::new(0)),
        slots: array::from_fn(|_| Slot::new()),
        items: PhantomData,
    });
    let owner = LocalQueue {
        ring: ring.clone(),
        tail: Cell::new(0),
        seen_head: Cell::new(0),
    };
    (owner, Stealer { ring })
}

/// The owner's end of a ring. `Send`, but not `Sync` and not `Clone`: there is one owner.
#[derive(Debug)]
pub struct LocalQueue<T: Item> {
    ring: Arc<Ring<T>>,
    /// What `ring.tail` holds: only the owner writes it.
    tail: Cell<u64>,
    /// A head that was loaded `Acquire`, or exchanged. The true one is this or further on.
    seen_head: Cell<u64>,
}

/// The thieves' end of a ring.
#[derive(Debug)]
pub struct Stealer<T: Item> {
    ring: Arc<Ring<T>>,
}

/// What a thief got.
#[derive(Debug)]
#[must_use = "the first item of what was stolen is in here"]
pub enum Steal<T> {
    /// There was nothing.
    Empty,
    /// Another thread took something meanwhile. There may be more.
    Busy,
    /// `count` items are the thief's: `first`, the oldest, is to be run at once, and the others are
    /// in the thief's own ring.
    Stolen {
        /// The oldest item.
        first: T,
        /// How many were taken, `first` included.
        count: usize,
    },
}

#[derive(Debug)]
struct Ring<T: Item> {
    /// The index of the oldest item. Owner and thieves move it on, by exchange only.
    head: Padded<AtomicU64>,
    /// The index behind the newest item. Only the owner writes it.
    tail: Padded<AtomicU64>,
    slots: [Slot; CAPACITY as usize],
    /// The ring moves items between threads, which `Item: Send` allows, and never shares one.
    items: PhantomData<fn() -> T>,
}

impl<T: Item> LocalQueue<T> {
    /// Pushes an item, or gives it back if there is no room.
    ///
    /// # Errors
    ///
    /// The item, if the ring is full.
    #[inline]
    pub fn try_push(&self, item: T) -> Result<(), T> {
        if self.room_for(1) == 0 {
            return Err(item);
        }
        let tail = self.tail.get();
        self.ring.slot(tail).write(tail, item.into_raw());
        self.publish(tail + 1);
        Ok(())
    }

    /// Pushes as many of the items as there is room for, and shows them to thieves all at once.
    /// Returns how many that were; the others stay in the iterator.
    ///
    /// # Panics
    ///
    /// Panics if the iterator itself pushes to this queue.
    pub fn push_batch(&self, items: &mut impl Iterator<Item = T>) -> usize {
        let tail = self.tail.get();
        let mut end = tail;
        for _ in 0..self.room_for(CAPACITY) {
            let Some(item) = items.next() else { break };
            assert!(
                self.tail.get() == tail,
                "the iterator pushed to the queue that it fills"
            );
            self.ring.slot(end).write(end, item.into_raw());
            end += 1;
        }
        if end > tail {
            self.publish(end);
        }
        (end - tail) as usize
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let tail = self.tail.get();
        let mut head = self.seen_head.get();
        while head != tail {
            // Ordering: `Release`: a thread that sees the new head sees a tail that is not behind
            // it. `Acquire`, also of a failure, pairs with the grabs of thieves: the owner may then
            // write the slots before this head.
            match self
                .ring
                .head
                .compare_exchange(head, head + 1, AcqRel, Acquire)
            {
                Ok(_) => {
                    self.seen_head.set(head + 1);
                    // SAFETY: the exchange made this item ours, and the owner wrote it itself.
                    return Some(unsafe { self.ring.item(head) });
                }
                Err(now) => head = now,
            }
        }
        self.seen_head.set(head);
        None
    }

    /// Takes what is there, the oldest first: before this thread parks or leaves.
    pub fn drain(&self, mut into: impl FnMut(T)) {
        for _ in 0..self.len() {
            let Some(item) = self.pop() else { break };
            into(item);
        }
    }

    /// Whether a push would overflow. Thieves may make room at any time.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.room_for(1) == 0
    }

    /// How many items fit. Thieves may make it more at any time.
    pub fn room(&self) -> usize {
        self.room_for(CAPACITY) as usize
    }

    /// How many items there are. Thieves may make it fewer at any time.
    #[inline]
    pub fn len(&self) -> usize {
        (self.tail.get() - self.ring.head.load(Relaxed)) as usize
    }

    /// Whether there are none. Thieves may make it so at any time.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of `wanted` items fit. Looks at the true head only if the remembered one does not
    /// show enough room.
    #[inline]
    fn room_for(&self, wanted: u64) -> u64 {
        let room = CAPACITY - (self.tail.get() - self.seen_head.get());
        if room >= wanted {
            return wanted;
        }
        // Ordering: `Acquire` pairs with the `Release` of a thief's grab, so that the slots before
        // this head are no longer being read.
        let head = self.ring.head.load(Acquire);
        self.seen_head.set(head);
        wanted.min(CAPACITY - (self.tail.get() - head))
    }

    /// Shows the items before `tail` to thieves.
    #[inline]
    fn publish(&self, tail: u64) {
        self.tail.set(tail);
        // Ordering: `Release` pairs with the `Acquire` of the tail in `steal_into` (I10).
        self.ring.tail.store(tail, Release);
    }
}

impl<T: Linked> LocalQueue<T> {
    /// Pushes an item. If the ring is full, half of it and the item come back as a batch for the
    /// global queue.
    ///
    /// # Errors
    ///
    /// The batch that is the caller's now, the oldest item first. It is not a fault.
    #[inline]
    pub fn push(&self, item: T) -> Result<(), Batch<T>> {
        match self.try_push(item) {
            Ok(()) => Ok(()),
            Err(item) => self.push_overflow(item),
        }
    }

    /// The one push that may look again: when a thief made room since `try_push` looked.
    #[cold]
    fn push_overflow(&self, item: T) -> Result<(), Batch<T>> {
        let head = self.seen_head.get();
        // Ordering: as in `pop`.
        let taken = self
            .ring
            .head
            .compare_exchange(head, head + HALF, AcqRel, Acquire);
        if let Err(now) = taken {
            self.seen_head.set(now);
            let pushed = self.try_push(item);
            assert!(pushed.is_ok(), "I3: only the owner can fill the ring again");
            return Ok(());
        }
        self.seen_head.set(head + HALF);
        // SAFETY: the exchange made these items ours, and the owner wrote them itself.
        let mut batch: Batch<T> = (head..head + HALF)
            .map(|index| unsafe { self.ring.item(index) })
            .collect();
        batch.push(item);
        Err(batch)
    }
}

impl<T: Item> Stealer<T> {
    /// Takes half of the items, rounded up: one to be run at once, the others into `thief`.
    ///
    /// # Panics
    ///
    /// Panics if `thief` has no room for them. An empty one always has.
    pub fn steal_into(&self, thief: &LocalQueue<T>) -> Steal<T> {
        // Ordering: `Acquire` pairs with the exchange that moved the head here, so that the tail
        // below is not older than the one which that exchange has seen.
        let head = self.ring.head.load(Acquire);
        // Ordering: `Acquire` pairs with the `Release` of the owner's `publish` (I10).
        let tail = self.ring.tail.load(Acquire);
        assert!(head <= tail, "I3: the head is never beyond the tail");
        let len = tail - head;
        if len == 0 {
            return Steal::Empty;
        }
        if len > CAPACITY {
            return Steal::Busy;
        }
        let count = len.div_ceil(2);
        let others = count - 1;
        assert!(
            thief.room_for(others) == others,
            "a thief has room for what it steals"
        );
        let thief_tail = thief.tail.get();
        let first = self.ring.slot(head).read(head);
        for i in 0..others {
            let from = head + 1 + i;
            let raw = self.ring.slot(from).read(from);
            let to = thief_tail + i;
            thief.ring.slot(to).write(to, raw);
        }
        // Ordering: `Release` pairs with the owner's `Acquire` of the head: our reads are over. It
        // also hands on the tail that we have seen to each thread that sees this head. The
        // `Acquire` half repeats that of the load above, for the exchange reads the same value.
        let taken = self
            .ring
            .head
            .compare_exchange(head, head + count, AcqRel, Relaxed);
        if taken.is_err() {
            return Steal::Busy;
        }
        if others > 0 {
            thief.publish(thief_tail + others);
        }
        // SAFETY: the exchange made the word ours, as it made those that are in `thief` now.
        let first = unsafe { T::from_raw(first) };
        let count = count as usize;
        Steal::Stolen { first, count }
    }

    /// Takes the oldest `max` items, or as many as there are, and at most half a ring at a time.
    /// Gives them to `into` in their order. Returns how many. None: another thread took something
    /// meanwhile, and there may be more.
    ///
    /// # Panics
    ///
    /// Panics if the head is beyond the tail, which only a defect of the ring could do (I3).
    pub fn take(&self, max: usize, mut into: impl FnMut(T)) -> Option<usize> {
        // Ordering: `Acquire`, both, as in `steal_into`.
        let head = self.ring.head.load(Acquire);
        let tail = self.ring.tail.load(Acquire);
        assert!(head <= tail, "I3: the head is never beyond the tail");
        if tail - head > CAPACITY {
            return None;
        }
        let count = (tail - head).min(max as u64).min(HALF);
        if count == 0 {
            return Some(0);
        }
        let mut words = [None; HALF as usize];
        for (index, word) in (head..head + count).zip(&mut words) {
            *word = Some(self.ring.slot(index).read(index));
        }
        // Ordering: as in `steal_into`.
        let taken = self
            .ring
            .head
            .compare_exchange(head, head + count, AcqRel, Relaxed);
        if taken.is_err() {
            return None;
        }
        for raw in words.into_iter().flatten() {
            // SAFETY: the exchange made the word ours.
            into(unsafe { T::from_raw(raw) });
        }
        Some(count as usize)
    }

    /// How many items there are, or were a moment ago.
    pub fn len(&self) -> usize {
        // Ordering: `Acquire`, as in `steal_into`: the tail is not older than the head.
        let head = self.ring.head.load(Acquire);
        let tail = self.ring.tail.load(Relaxed);
        (tail - head).min(CAPACITY) as usize
    }

    /// Whether there are none: for the last look before a worker parks, behind a `SeqCst` fence.
    ///
    /// It may say no of a ring that became empty just now, but not yes of one with an item whose
    /// push happened before.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Item> Clone for Stealer<T> {
    fn clone(&self) -> Self {
        Self {
            ring: self.ring.clone(),
        }
    }
}

impl<T: Item> Ring<T> {
    #[inline]
    fn slot(&self, index: u64) -> &Slot {
        &self.slots[(index % CAPACITY) as usize]
    }

    /// Turns the word of `index` back into the item.
    ///
    /// # Safety
    ///
    /// - The caller has moved the head over this index, and takes the item once.
    /// - The write of the slot happened before.
    #[inline]
    unsafe fn item(&self, index: u64) -> T {
        let raw = self.slot(index).read(index);
        // SAFETY: each word below the tail is an item's, and the caller is the one to take it.
        unsafe { T::from_raw(raw) }
    }
}

impl<T: Item> Drop for Ring<T> {
    fn drop(&mut self) {
        for index in self.head.load(Relaxed)..self.tail.load(Relaxed) {
            // SAFETY: no other thread has the ring any more, so all that is in it is ours.
            drop(unsafe { self.item(index) });
        }
    }
}
