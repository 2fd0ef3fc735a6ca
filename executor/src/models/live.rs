//! The live table: each reference of the table is released once, by the one that may; a cell is not
//! freed while a reader looks at it; an index is given out once.
//!
//! The cells here are never really freed before a model ends, but note that they would have been,
//! so that a look at a freed one is a failed assertion. What a reader writes under its claim, and
//! what a remover writes before it removes, has no synchronisation of its own: loom objects if the
//! table does not order it before the release of the reference.
//!
//! A table has segments of two and four slots here. The bound is that of preemptions; the seconds
//! are of one core of a busy 2-core machine.
//!
//! | model | shows | bound | seconds | killed by it |
//! | --- | --- | --- | --- | --- |
//! | `look_beside_remove` | a reader and a remover: one of them releases the reference, after the other is through; nobody looks at a freed cell | 3 | under 1 | `live_releases_though_claimed`, `live_reader_never_releases`, `live_swap_relaxed`, `live_swap_not_acquire`, `live_swap_not_release`, `live_unclaim_relaxed`, `live_failed_unclaim_relaxed` |
//! | `look_beside_the_owner` | the same with the owner, which uses the slot again at once; a reader sees the whole new cell | 3 | under 1 | `live_insert_relaxed`, `live_claim_relaxed` |
//! | `two_readers` | readers do not get into each other's claim | 3 | 2 | `live_readers_not_serialised` |
//! | `slot_is_used_again` | a removal elsewhere, a spawn into the slot, and a reader | 3 | 2 | `live_unclaim_stores` |
//! | `indices_come_back_once` | two removals elsewhere and the owner: no index twice, none lost, and the count is right | 3 | 2 | `live_return_relaxed` |
//! | `look_beside_growth` | a reader sees the segments of what it walks over | 3 | under 1 | `live_used_relaxed` |
#![expect(unsafe_code, reason = "a model brings cells of its own")]

use std::ptr::NonNull;

use super::both_ways::explore;
use crate::queue::Item;
use crate::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};
use crate::sync::{Arc, UnsafeCell};

use crate::cell::live::{LiveOwner, LiveTable, Reference, Removed, live_table};

struct Cells(Vec<Cell>);

struct Cell {
    id: usize,
    references: AtomicUsize,
    freed: UnsafeCell<bool>,
    /// Written by readers under their claim, and by whoever enters the cell.
    looked: UnsafeCell<u32>,
    /// Written by the remover.
    ended: UnsafeCell<bool>,
}

/// A counted reference to a cell, which the model keeps alive.
struct Ref(NonNull<Cell>);

// SAFETY: models hold the cells until all threads are joined; loom watches the fields.
unsafe impl Send for Ref {}
// SAFETY: as for `Send`.
unsafe impl Sync for Ref {}

// SAFETY: the word is the cell's address.
unsafe impl Item for Ref {
    fn into_raw(self) -> NonNull<()> {
        let raw = self.0.cast();
        std::mem::forget(self);
        raw
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Self(raw.cast())
    }
}

// SAFETY: the references are counted; the cell is "freed" with the last.
unsafe impl Reference for Ref {
    unsafe fn another(raw: NonNull<()>) -> Self {
        let copy = Self(raw.cast());
        copy.cell()
            .freed
            // SAFETY: the flag is written by the last reference.
            .with(|freed| assert!(!unsafe { *freed }, "a reader looks at a freed cell"));
        copy.cell().references.fetch_add(1, Relaxed);
        // SAFETY: readers are serialised, and a claim keeps the others out.
        copy.cell()
            .looked
            .with_mut(|looked| unsafe { *looked += 1 });
        copy
    }
}

impl Ref {
    fn cell(&self) -> &Cell {
        // SAFETY: models hold the cells until all threads are joined.
        unsafe { self.0.as_ref() }
    }

    fn id(&self) -> usize {
        self.cell().id
    }
}

impl Drop for Ref {
    fn drop(&mut self) {
        if self.cell().references.fetch_sub(1, AcqRel) > 1 {
            return;
        }
        // SAFETY: the last reference; what the remover wrote has to be visible by now.
        let ended = self.cell().ended.with(|ended| unsafe { *ended });
        assert!(ended, "freed before it was removed");
        // SAFETY: the last reference.
        self.cell().freed.with_mut(|freed| unsafe {
            assert!(!*freed, "freed twice");
            *freed = true;
        });
    }
}

impl Cells {
    fn new(count: usize) -> Arc<Self> {
        let cells = (0..count).map(|id| Cell {
            id,
            references: AtomicUsize::new(0),
            freed: UnsafeCell::new(false),
            looked: UnsafeCell::new(0),
            ended: UnsafeCell::new(false),
        });
        Arc::new(Self(cells.collect()))
    }

    /// Enters the cell, as a spawn does.
    fn enter(&self, id: usize, owner: &LiveOwner<Ref>) -> u32 {
        let cell = &self.0[id];
        cell.references.store(1, Relaxed);
        // SAFETY: nobody else knows the cell yet.
        cell.looked.with_mut(|looked| unsafe { *looked = 0 });
        owner.insert(Ref(NonNull::from(cell)))
    }

    /// Ends the cell, as its runner does, which has no reference of its own.
    fn end(&self, id: usize, remove: impl FnOnce() -> Removed<Ref>) {
        // SAFETY: only the runner writes it.
        self.0[id].ended.with_mut(|ended| unsafe { *ended = true });
        match remove() {
            Removed::ReleaseReference(reference) => {
                assert_eq!(reference.id(), id);
                // SAFETY: the readers' claims are over.
                reference.cell().looked.with(|looked| unsafe { *looked });
            }
            Removed::ReaderReleases => {}
        }
    }

    /// How many of the cells are freed by now.
    fn freed(&self) -> usize {
        let is_freed = |cell: &&Cell| {
            // SAFETY: the threads are joined.
            cell.freed.with(|freed| unsafe { *freed })
        };
        self.0.iter().filter(is_freed).count()
    }
}

/// What a reader sees.
fn dump(table: &LiveTable<Ref>) -> Vec<usize> {
    let mut ids = Vec::new();
    table.for_each(|reference| ids.push(reference.id()));
    ids
}

/// A reader for [`race`](super::both_ways::Turn::race).
fn reader(table: &LiveTable<Ref>) -> Box<dyn FnOnce() -> Vec<usize>> {
    let table = table.clone();
    Box::new(move || dump(&table))
}

/// A thread that ends a cell, which it was not the owner's to enter.
fn remover(
    cells: &Arc<Cells>,
    table: &LiveTable<Ref>,
    id: usize,
    index: u32,
) -> Box<dyn FnOnce() -> Vec<usize>> {
    let (cells, table) = (cells.clone(), table.clone());
    Box::new(move || {
        cells.end(id, || table.remove(index));
        vec![]
    })
}

#[test]
fn look_beside_remove() {
    explore(3, |turn| {
        let cells = Cells::new(1);
        let (table, owner) = live_table();
        let index = cells.enter(0, &owner);
        let (seen, _) = turn.race(reader(&table), [remover(&cells, &table, 0, index)]);
        assert!(seen.is_empty() || seen == [0]);
        assert_eq!(cells.freed(), 1);
        assert_eq!(table.len(), 0);
        assert!(dump(&table).is_empty());
    });
}

#[test]
fn look_beside_the_owner() {
    explore(3, |turn| {
        let cells = Cells::new(2);
        let (table, owner) = live_table();
        let spawner = {
            let cells = cells.clone();
            move || {
                let first = cells.enter(0, &owner);
                cells.end(0, || owner.remove(first));
                assert_eq!(cells.enter(1, &owner), first, "the slot is used again");
                (first, owner)
            }
        };
        let ((index, owner), _) = turn.race(spawner, [reader(&table)]);
        assert_eq!(cells.freed(), 1);
        assert_eq!(table.len(), 1);
        assert_eq!(dump(&table), [1]);
        cells.end(1, || owner.remove(index));
        assert_eq!(cells.freed(), 2);
    });
}

#[test]
fn two_readers() {
    explore(3, |turn| {
        let cells = Cells::new(1);
        let (table, owner) = live_table();
        let index = cells.enter(0, &owner);
        let remover = remover(&cells, &table, 0, index);
        turn.race(remover, [reader(&table), reader(&table)]);
        assert_eq!(cells.freed(), 1);
    });
}

#[test]
fn slot_is_used_again() {
    explore(3, |turn| {
        let cells = Cells::new(2);
        let (table, owner) = live_table();
        let first = cells.enter(0, &owner);
        let spawner = {
            let cells = cells.clone();
            move || (cells.enter(1, &owner), owner)
        };
        let others = [remover(&cells, &table, 0, first), reader(&table)];
        let ((second, owner), _) = turn.race(spawner, others);
        assert_eq!(cells.freed(), 1);
        assert_eq!(table.len(), 1);
        assert_eq!(dump(&table), [1]);
        cells.end(1, || owner.remove(second));
        assert_eq!(cells.freed(), 2);
    });
}

#[test]
fn indices_come_back_once() {
    explore(3, |turn| {
        let cells = Cells::new(5);
        let (table, owner) = live_table();
        let removers = [0, 1].map(|id| {
            let index = cells.enter(id, &owner);
            remover(&cells, &table, id, index)
        });
        let spawner = {
            let cells = cells.clone();
            move || (cells.enter(2, &owner), owner)
        };
        let ((early, owner), _) = turn.race(spawner, removers);
        assert_eq!(table.len(), 1);
        let indices = [early, cells.enter(3, &owner), cells.enter(4, &owner)];
        assert_eq!(dump(&table).len(), 3, "no two have the same slot");
        assert!(
            indices.iter().all(|index| *index <= 2),
            "returned slots are used before fresh ones"
        );
        assert_eq!(cells.freed(), 2);
        // What is left in a table is released when it is dropped.
        for cell in &cells.0 {
            // SAFETY: the threads are joined.
            cell.ended.with_mut(|ended| unsafe { *ended = true });
        }
        drop((table, owner));
        assert_eq!(cells.freed(), 5);
    });
}

#[test]
fn look_beside_growth() {
    explore(3, |turn| {
        let cells = Cells::new(3);
        let (table, owner) = live_table();
        cells.enter(0, &owner);
        let spawner = {
            let cells = cells.clone();
            move || {
                cells.enter(1, &owner);
                cells.enter(2, &owner);
            }
        };
        let (_, [seen]) = turn.race(spawner, [reader(&table)]);
        assert!(seen.contains(&0), "entered before, and not removed");
        assert_eq!(dump(&table), [0, 1, 2]);
        for id in 0..3 {
            cells.end(id as usize, || table.remove(id));
        }
        assert_eq!(cells.freed(), 3);
    });
}
