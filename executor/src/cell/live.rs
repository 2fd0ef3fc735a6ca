//! The live table: which tasks there are, for code that has to look at all of them.
//!
//! A dump shows every task, and a shutdown cancels every task, wherever it waits (S7). So each task
//! is entered into a table when it is spawned and taken out when it has ended. Both lie on the way
//! of every spawn, so they must cost next to nothing and meet in no lock (H5). There is one table
//! for each P, and one for what foreign threads spawn.
//!
//! # How it works
//!
//! A table is a row of slots, one word each, in segments of 16, 32, 64 … slots. A slot never
//! moves and segments are freed with the table only, so an index is all that a task keeps of it.
//!
//! | word | state | what may happen |
//! | --- | --- | --- |
//! | nil | never used | the owner enters a task |
//! | `next << 2 \| FREE` | free, in a free list | the owner enters a task |
//! | pointer | live: the table holds one reference to the cell | it is removed, or claimed |
//! | pointer `\| CLAIM` | live, and a reader is looking at it | it is removed, or unclaimed |
//!
//! - *Enter*, by the owner: takes an index from its private free list, stores the pointer. No
//!   read-modify-write. Only when that list is empty it takes all of the returned ones (below), and
//!   when there are none, the next slot that was never used.
//! - *Remove*, on any thread: swaps the slot to free. The owner puts the index on its private list
//!   with that same swap. Any other thread puts it on the stack of *returned* indices, by one
//!   compare-and-swap. Only the owner takes from there, and takes all, so there is no ABA.
//! - *Look*, by a reader: claims the slot by a compare-and-swap, counts one more reference, and
//!   takes the claim back by another. Readers are serialised by a mutex that only they know.
//!
//! # Which side releases the table's reference
//!
//! While a slot is claimed the cell must not be freed, and the remover must not wait. So of a
//! remover and a reader that meet, *the later one releases the table's reference*:
//!
//! - The remover's swap shows no claim: no reader is looking, and none can begin. The remover
//!   releases it.
//! - The swap shows a claim: the reader is in the middle, its unclaim will fail, and it releases
//!   the reference after it has counted its own. [`Removed::ReaderReleases`].
//!
//! The unclaim can not be fooled by a slot that was freed and entered again meanwhile. It compares
//! with the address of a cell, and the last reference to that cell is not released, for the reader
//! itself has it to release. So no other task has that address, and no task is entered twice.
//!
//! # Counting
//!
//! The owner's word counts what it entered less what it removed, and it alone writes it. The word
//! of the returned stack counts in its upper half what others removed, in the same
//! compare-and-swap. Both wrap at 2^32, more than a table has slots, so their difference is right.
//!
//! # What was rejected
//!
//! - A locked slab, or a lock-striped list: about 11 ns where a swap costs 5, and a thread that is
//!   preempted under the lock holds up all spawns.
//! - A list through the tasks: the remover has to touch two neighbours, which needs a lock.
//! - A reader that waits for no other claim would need a count in the slot. Readers are rare.
//!
//! # Where it is checked
//!
//! `models/live.rs`, with the mutants `live_*`; `live/tests.rs`.
#![expect(
    unsafe_code,
    reason = "turns the words in the slots back into references, and owns the segments"
)]

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::policy::constants::{NOTED_EACH, STAND_BY, STAND_BY_FROM};
use crate::queue::{Item, Padded};
use crate::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::{Arc, MODELLED, Mutex};

/// Set by a reader on the pointer in a slot, taken back by it: do not release the table's
/// reference.
const CLAIM: usize = 1;
/// Set on what is not a pointer but the link of a free list: the index behind it plus one, times
/// four.
const FREE: usize = 2;
const TAGS: usize = CLAIM | FREE;

/// The slots of the first segment: 128 bytes for a P with few tasks. A model sees a second segment.
const BASE: u32 = if MODELLED { 2 } else { 16 };

/// Each segment is as large as all before it, and one `BASE`. Together they are 2^32 slots less 16.
const SEGMENTS: usize = if MODELLED { 2 } else { 28 };

/// A counted reference to a cell.
///
/// # Safety
///
/// - The word that `into_raw` gives is a multiple of four, and the same for all references to one
///   cell, and for those alone.
/// - Dropping a reference releases it. The cell is freed with the last one.
pub(crate) unsafe trait Reference: Item + Sync {
    /// Counts one more reference to the cell of `raw`.
    ///
    /// # Safety
    ///
    /// - `raw` comes from [`Item::into_raw`] of this type, and is not given back during the call.
    unsafe fn another(raw: NonNull<()>) -> Self;
}

/// What becomes of the table's reference.
#[derive(Debug)]
#[must_use = "the table's reference is to be released"]
pub(crate) enum Removed<R> {
    /// The caller releases it: it is in here.
    ReleaseReference(R),
    /// A reader that looks at the task just now does.
    ReaderReleases,
}

/// Makes a table: the shared end and the owner's end.
pub(crate) fn live_table<R: Reference>() -> (LiveTable<R>, LiveOwner<R>) {
    let table = Arc::new(Table {
        by_owner: Padded(ByOwner {
            used: AtomicU32::new(0),
            count: AtomicU32::new(0),
        }),
        returned: Padded(AtomicU64::new(0)),
        segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        readers: Mutex::new(()),
        swept: AtomicBool::new(false),
        swept_to: AtomicU32::new(0),
        references: PhantomData,
    });
    let owner = LiveOwner {
        table: table.clone(),
        free: Cell::new(0),
    };
    (LiveTable(table), owner)
}

/// The shared end of a table.
pub(crate) struct LiveTable<R: Reference>(Arc<Table<R>>);

/// The owner's end of a table. `Send`, but not `Sync` and not `Clone`: there is one owner.
pub(crate) struct LiveOwner<R: Reference> {
    table: Arc<Table<R>>,
    /// The first index of the private free list, plus one; zero if there is none.
    free: Cell<u32>,
}

struct Table<R: Reference> {
    by_owner: Padded<ByOwner>,
    /// Lower half: the index on top of the stack of returned ones, plus one. Upper half: how many
    /// were ever returned. Any thread pushes, the owner takes all.
    returned: Padded<AtomicU64>,
    /// Segment `k` has `BASE << k` slots. Written by the owner, once each.
    segments: [AtomicPtr<AtomicPtr<()>>; SEGMENTS],
    /// Held by the reader whose claim is on a slot.
    readers: Mutex<()>,
    /// A thread sweeps it, and has come about to this index.
    swept: AtomicBool,
    swept_to: AtomicU32,
    references: PhantomData<fn() -> R>,
}

/// What only the owner writes.
struct ByOwner {
    /// How many slots were ever used: those below are free or live.
    used: AtomicU32,
    /// How many tasks the owner entered, less those that it removed.
    count: AtomicU32,
}

impl<R: Reference> LiveOwner<R> {
    /// Enters a task. The table holds the reference until the index is removed, once.
    #[inline]
    pub(crate) fn insert(&self, reference: R) -> u32 {
        let index = self.vacant();
        let raw = reference.into_raw();
        debug_assert!(
            raw.addr().get() & TAGS == 0,
            "a cell is aligned to four or more"
        );
        // Ordering: `Release` pairs with the `Acquire` of a reader's claim: it sees the whole cell.
        self.table.slot(index).store(raw.as_ptr(), Release);
        self.count_one(1);
        index
    }

    /// Takes a task out, on the thread that has this end of its table.
    #[inline]
    pub(crate) fn remove(&self, index: u32) -> Removed<R> {
        let removed = self.table.take_out(index, self.free.get());
        self.free.set(index + 1);
        self.count_one(1_u32.wrapping_neg());
        removed
    }

    #[inline]
    fn count_one(&self, one: u32) {
        // Only the owner writes it: an addition in two steps.
        let count = &self.table.by_owner.count;
        count.store(count.load(Relaxed).wrapping_add(one), Relaxed);
    }

    /// The index of a slot that is free, and now in no list.
    #[inline]
    fn vacant(&self) -> u32 {
        let mut first = self.free.get();
        if first == 0 {
            first = self.table.take_returned();
        }
        match first.checked_sub(1) {
            Some(index) => {
                // The link was written by this thread, or before its index was returned.
                self.free
                    .set(next_free(self.table.slot(index).load(Relaxed)));
                index
            }
            None => self.fresh(),
        }
    }

    /// The first slot that was never used.
    #[inline]
    fn fresh(&self) -> u32 {
        let used = &self.table.by_owner.used;
        let index = used.load(Relaxed);
        let (segment, offset) = locate(index);
        if offset == 0 {
            self.table.grow(segment);
        }
        // Ordering: `Release` pairs with the `Acquire` in `for_each`, which so sees the segment.
        used.store(index + 1, Release);
        index
    }
}

impl<R: Reference> LiveTable<R> {
    /// Takes a task out, on any thread.
    pub(crate) fn remove(&self, index: u32) -> Removed<R> {
        let returned = &self.0.returned;
        let mut before = returned.load(Relaxed);
        let removed = self.0.take_out(index, before as u32);
        loop {
            let count = (before >> 32).wrapping_add(1) << 32;
            let after = count | u64::from(index + 1);
            // Ordering: `Release` pairs with the `Acquire` in `take_returned`, for the links, and
            // with that in `len`.
            match returned.compare_exchange_weak(before, after, Release, Relaxed) {
                Ok(_) => return removed,
                Err(now) => before = now,
            }
            // The slot is free and in no list yet, so it is ours to write.
            self.0.slot(index).store(link_to(before as u32), Relaxed);
        }
    }

    /// Calls `f` with a reference of its own to each live task: to all that were entered before
    /// this call and are not removed before its end, and perhaps to others.
    ///
    /// No lock is held while `f` runs. Removers and the owner never wait for this.
    pub(crate) fn for_each(&self, mut f: impl FnMut(R)) {
        // Ordering: `Acquire` pairs with the `Release` in `fresh`: the segments are there.
        let used = self.0.by_owner.used.load(Acquire);
        (0..used)
            .filter_map(|index| self.0.look(index))
            .for_each(&mut f);
    }

    /// As [`for_each`](Self::for_each), for a caller that takes the tasks out.
    ///
    /// Two threads that went the same way would meet at every slot, and at every cell in the
    /// allocator: a million tasks took three times as long so. From both ends they still meet in
    /// the allocator, which has one lock for what one thread made: it was 321 ns a task where one
    /// alone took some 150. So the thread that comes second stands by while the first is quick, and
    /// then looks at all slots from the other end. Most slots are free by then. So what was entered
    /// behind the first one's back is seen, and a destructor that blocks the first one keeps
    /// nothing but its own task. If nothing is left, no thread looks at the slots: at the end of a
    /// runtime that has many threads each of them comes by.
    pub(crate) fn sweep(&self, mut f: impl FnMut(R)) {
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(false, Relaxed);
            }
        }
        // A task that was entered before this call is counted by now, and others need not be seen.
        if self.len() == 0 {
            return;
        }
        let table = &*self.0;
        // Ordering: Relaxed: it decides about the way alone.
        let is_second = table.swept.swap(true, Relaxed);
        if is_second {
            table.stand_by();
            if self.len() == 0 {
                return;
            }
        }
        // Ordering: `Acquire` as in `for_each`.
        let used = table.by_owner.used.load(Acquire);
        if is_second {
            let backwards = (0..used).rev();
            backwards.filter_map(|index| table.look(index)).for_each(f);
        } else {
            let _over = Over(&table.swept);
            for index in 0..used {
                if index.is_multiple_of(NOTED_EACH) {
                    table.swept_to.store(index, Relaxed);
                }
                table.look(index).into_iter().for_each(&mut f);
            }
        }
    }

    /// A reference to the task at `index`, if one is there.
    pub(crate) fn get(&self, index: u32) -> Option<R> {
        // Ordering: `Acquire` as in `for_each`.
        let used = self.0.by_owner.used.load(Acquire);
        if index < used {
            self.0.look(index)
        } else {
            None
        }
    }

    /// How many tasks there are, or were a moment ago.
    pub(crate) fn len(&self) -> usize {
        // Ordering: `Acquire` pairs with the `Release` in `remove`: what was returned was entered
        // in the count below.
        let returned = (self.0.returned.load(Acquire) >> 32) as u32;
        let count = self.0.by_owner.count.load(Relaxed);
        count.wrapping_sub(returned) as usize
    }
}

impl<R: Reference> Table<R> {
    /// Waits for the thread that sweeps, while that is quick.
    fn stand_by(&self) {
        // A model has no time, and goes both ways.
        if MODELLED || self.by_owner.used.load(Relaxed) < STAND_BY_FROM {
            return;
        }
        let mut before = None;
        while self.swept.load(Relaxed) {
            let now = self.swept_to.load(Relaxed);
            if before.replace(now) == Some(now) {
                break;
            }
            std::thread::sleep(STAND_BY);
        }
    }

    /// The slot of an index that the owner has given out.
    #[inline]
    fn slot(&self, index: u32) -> &AtomicPtr<()> {
        let (segment, offset) = locate(index);
        // Ordering: `Acquire` pairs with the `Release` in `grow`: the slots are initialised.
        let slots = NonNull::new(self.segments[segment].load(Acquire))
            .expect("an index that was given out has a segment");
        // SAFETY: the segment has `BASE << segment` slots and `offset` is below that. It lives as
        // long as the table.
        unsafe { slots.add(offset).as_ref() }
    }

    /// Frees the slot, linked to the free index before `next`, and says which side releases the
    /// reference.
    #[inline]
    fn take_out(&self, index: u32, next: u32) -> Removed<R> {
        // Ordering: `Acquire` pairs with the unclaim of a reader, so that what it did under its
        // claim comes before the release of the reference. `Release` pairs with the `Acquire` of an
        // unclaim that fails: what the remover did to the cell comes before the reader's release.
        let before = self.slot(index).swap(link_to(next), AcqRel);
        assert!(is_live(before), "a task is removed once");
        if before.addr() & CLAIM != 0 {
            return Removed::ReaderReleases;
        }
        let raw = NonNull::new(before).expect("a live slot has a pointer");
        // SAFETY: the swap took the word out of the table, and with it the table's reference.
        Removed::ReleaseReference(unsafe { R::from_raw(raw) })
    }

    /// Counts one more reference to the task of a slot, if there is one.
    fn look(&self, index: u32) -> Option<R> {
        let slot = self.slot(index);
        // A table that was large once is mostly free.
        if !is_live(slot.load(Relaxed)) {
            return None;
        }
        let reader = self.readers.lock();
        let mut seen = slot.load(Relaxed);
        let raw = loop {
            if !is_live(seen) {
                return None;
            }
            // Ordering: `Acquire` pairs with the `Release` of `insert`.
            match slot.compare_exchange(seen, claimed(seen), Acquire, Relaxed) {
                Ok(raw) => break raw,
                Err(now) => seen = now,
            }
        };
        let raw_ref = NonNull::new(raw).expect("a live slot has a pointer");
        // SAFETY: the slot held the table's reference when it was claimed, and a thread that
        // removes it leaves the reference to us.
        let copy = unsafe { R::another(raw_ref) };
        // Ordering: see `take_out`.
        let unclaimed = slot.compare_exchange(claimed(raw), raw, Release, Acquire);
        drop(reader);
        if unclaimed.is_err() {
            // SAFETY: the slot was removed under our claim, so the table's reference is ours.
            drop(unsafe { R::from_raw(raw_ref) });
        }
        Some(copy)
    }

    /// All returned indices as a list: the first, plus one.
    fn take_returned(&self) -> u32 {
        if self.returned.load(Relaxed) as u32 == 0 {
            return 0;
        }
        // Ordering: `Acquire` pairs with the `Release` in `remove`: the links in the slots.
        self.returned.fetch_and(!u64::from(u32::MAX), Acquire) as u32
    }

    /// Makes a segment.
    #[cold]
    fn grow(&self, segment: usize) {
        assert!(segment < SEGMENTS, "no more than 2^32 tasks live at once");
        let slots = Box::into_raw(new_slots(segment_len(segment)));
        // Ordering: `Release` pairs with the `Acquire` in `slot`.
        self.segments[segment].store(slots.cast(), Release);
    }
}

impl<R: Reference> Drop for Table<R> {
    fn drop(&mut self) {
        for (segment, slots) in self.segments.iter().enumerate() {
            let Some(slots) = NonNull::new(slots.load(Relaxed)) else {
                break;
            };
            let slots = ptr::slice_from_raw_parts_mut(slots.as_ptr(), segment_len(segment));
            // SAFETY: `grow` made it from a box of this length, and no other thread has the table.
            for slot in unsafe { Box::from_raw(slots) } {
                let word = slot.load(Relaxed);
                if let Some(raw) = NonNull::new(word).filter(|_| is_live(word)) {
                    // SAFETY: the table's reference is still in the slot.
                    drop(unsafe { R::from_raw(raw) });
                }
            }
        }
    }
}

impl<R: Reference> Clone for LiveTable<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: Reference> fmt::Debug for LiveTable<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveTable")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<R: Reference> fmt::Debug for LiveOwner<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveOwner").finish_non_exhaustive()
    }
}

/// The segment of an index, and the place in it.
#[inline]
fn locate(index: u32) -> (usize, usize) {
    // Counted from `BASE`, the segments begin at the powers of two.
    let shifted = u64::from(index) + u64::from(BASE);
    let segment = shifted.ilog2() - BASE.ilog2();
    let offset = shifted - (u64::from(BASE) << segment);
    (segment as usize, offset as usize)
}

fn segment_len(segment: usize) -> usize {
    (BASE as usize) << segment
}

/// Slots that were never used. A large piece of zeroed memory costs nothing until it is touched, so
/// that no spawn has to pay for a whole segment.
fn new_slots(len: usize) -> Box<[AtomicPtr<()>]> {
    if MODELLED {
        return (0..len).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
    }
    let zeroed: Box<[*mut ()]> = vec![ptr::null_mut(); len].into_boxed_slice();
    // SAFETY: an `AtomicPtr` of std is in memory as its pointer is, by its documentation.
    unsafe { Box::from_raw(Box::into_raw(zeroed) as *mut [AtomicPtr<()>]) }
}

fn claimed(word: *mut ()) -> *mut () {
    word.map_addr(|addr| addr | CLAIM)
}

fn is_live(word: *mut ()) -> bool {
    !word.is_null() && word.addr() & FREE == 0
}

/// A link of a free list to an index plus one, or to nothing if that is zero.
fn link_to(next: u32) -> *mut () {
    ptr::without_provenance_mut(((next as usize) << 2) | FREE)
}

fn next_free(link: *mut ()) -> u32 {
    (link.addr() >> 2) as u32
}

#[cfg(all(test, not(ws_loom)))]
mod tests;
