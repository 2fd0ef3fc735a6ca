//! A ring of records that one thread writes and any thread reads.
//!
//! # How a reader knows what is whole
//!
//! Two counts: of the records that were begun, and of those that were written. They are the same,
//! but while a record is written.
//!
//! | the writer | a reader |
//! | --- | --- |
//! | 1. the records are begun; fence (release) | 1. reads how many were written (acquire) |
//! | 2. the words | 2. copies the words; fence (acquire) |
//! | 3. the records are written (release) | 3. reads how many were begun: what these have overwritten is thrown away |
//!
//! *Invariant*: a record of a [`Reading`] is the one of its number, and whole. If a copy has a word
//! of a later record, that was begun before its words were stored. The fences pair, so the reader
//! sees the count of its beginning in step 3, and throws the copy away. If it has no such word, the
//! words are those that step 1 of the reader has seen written. All of it is atomics, so a torn copy
//! is nothing undefined.
//!
//! A reader never waits. One that is overtaken by a whole ring gets less.
//!
//! *Records that belong together*, such as a line of a log and its text, are begun at once and
//! written at once. So a reader gets all of them or none. They may lose their first ones to later
//! records, and no others: what is overwritten is always the oldest.
//!
//! # Memory
//!
//! It comes in pieces, each when the first record goes into it. A P that has little to tell takes
//! one, and the begin of the list of pieces (`once_table.rs`). The first piece of a ring is cut
//! into four for that. The memory stays until the end.
//!
//! Rejected: a number in each record, as a sequence lock has it. It makes records of three words.
//!
//! Checked by `models::recorder`.

use crate::{
    once_table::OnceTable,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
};

/// The bytes of a record.
pub(crate) const RECORD: usize = size_of::<Words>();

/// Records of a piece of memory: 2 KiB in a ring of 1 MiB or less. In a larger one pieces grow with
/// it.
pub(super) const PIECE: usize = 128;
/// The most pieces of a ring.
const PIECES: usize = 512;
/// In so many parts the first piece comes.
const CUTS: usize = 4;

/// Records of a small ring. Guessed: 64 KiB.
pub(super) const SMALL: usize = 4096;

pub(super) type Words = [u64; 2];

#[derive(Debug, Default)]
struct Slot([AtomicU64; 2]);

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Ring {
    begun: AtomicU64,
    written: AtomicU64,
    /// Records of a piece, and the number of pieces: powers of two, or no piece.
    piece: usize,
    number: usize,
    pieces: OnceTable<Box<[Slot]>>,
}

/// What a reader got.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The oldest first.
    pub(crate) records: Vec<Words>,
    /// How many were overwritten before, or left out: the number of the first record.
    pub(crate) overwritten: u64,
}

impl Ring {
    /// A ring for so many records, rounded up to a power of two. With none, nothing may be written.
    pub(crate) fn new(records: usize) -> Self {
        let records = match records {
            0 => 0,
            records => records.next_power_of_two(),
        };
        let piece = records.clamp(1, PIECE.max(records / PIECES));
        Self {
            begun: AtomicU64::new(0),
            written: AtomicU64::new(0),
            piece,
            number: records / piece,
            pieces: OnceTable::new(records / piece + CUTS - 1),
        }
    }

    /// The most records that are there.
    pub(super) fn capacity(&self) -> u64 {
        (self.piece * self.number) as u64
    }

    /// In which part of the memory the record of that number is, and where in it.
    #[inline]
    fn place(&self, number: u64) -> (usize, usize) {
        let at = number as usize & (self.capacity() as usize - 1);
        match at >> self.piece.trailing_zeros() {
            0 => (at >> self.cut().trailing_zeros(), at & (self.cut() - 1)),
            piece => (CUTS - 1 + piece, at & (self.piece - 1)),
        }
    }

    /// Records of a part of the first piece; a power of two.
    #[inline]
    fn cut(&self) -> usize {
        (self.piece / CUTS).max(1)
    }

    /// Makes a part of the memory.
    #[cold]
    fn make(&self, part: usize) -> Box<[Slot]> {
        let records = if part < CUTS { self.cut() } else { self.piece };
        (0..records).map(|_| Slot::default()).collect()
    }

    /// Writes a record; by one thread at a time.
    #[inline]
    pub(crate) fn write(&self, words: Words) {
        self.write_together(&[words]);
    }

    /// Writes records that belong together; by one thread at a time.
    #[inline(always)]
    pub(crate) fn write_together(&self, records: &[Words]) {
        let number = self.written.load(Relaxed);
        let after = number + records.len() as u64;
        self.begun.store(after, Relaxed);
        // Ordering: Release, pairs with the fence in `read`: a reader that sees a word of these
        // records sees that they were begun.
        fence(Release);
        for (number, words) in (number..).zip(records) {
            let (part, at) = self.place(number);
            let slots = self.pieces.get_or_init(part, || self.make(part));
            for (slot, word) in slots[at].0.iter().zip(words) {
                slot.store(*word, Relaxed);
            }
        }
        // Ordering: Release, pairs with the load in `read`: the words are there.
        self.written.store(after, Release);
    }

    /// How many records were written.
    pub(crate) fn written(&self) -> u64 {
        // Ordering: Acquire, pairs with the last store of `write`.
        self.written.load(Acquire)
    }

    /// Reads what is there.
    #[cfg(test)]
    pub(crate) fn read(&self) -> Reading {
        self.read_since(0, u64::MAX)
    }

    /// Reads the records from the number `since` on, and of these the newest `most`. The next
    /// reading goes on where this one ends: at `overwritten` and as many as there are records.
    pub(crate) fn read_since(&self, since: u64, most: u64) -> Reading {
        let end = self.written();
        let first = end.saturating_sub(self.capacity().min(most));
        self.read_between(first.max(since.min(end)), end)
    }

    /// The number of the oldest record that is there. None that is older comes back.
    pub(crate) fn oldest(&self) -> u64 {
        self.written().saturating_sub(self.capacity())
    }

    /// Reads the records from one number up to another one, which is at most that of
    /// [`written`](Self::written) on the same thread. Those that are overwritten are left out.
    pub(crate) fn read_between(&self, since: u64, end: u64) -> Reading {
        let first = since.max(self.oldest()).min(end);
        let copy = |number| {
            let (part, at) = self.place(number);
            // It is there: its first record was written.
            self.pieces.get(part).map_or([0; 2], |slots| {
                let [first, second] = &slots[at].0;
                [first.load(Relaxed), second.load(Relaxed)]
            })
        };
        let mut records: Vec<_> = (first..end).map(copy).collect();
        // Ordering: Acquire: see `write_together`.
        fence(Acquire);
        let kept_from = self.begun.load(Relaxed).saturating_sub(self.capacity());
        let torn = kept_from.saturating_sub(first).min(records.len() as u64);
        records.drain(..torn as usize);
        Reading {
            records,
            overwritten: first + torn,
        }
    }
}

#[cfg(all(test, not(ws_loom)))]
mod tests {
    use super::*;
    use crate::sync::{Arc, atomic::AtomicBool, thread};

    #[test]
    fn the_oldest_are_overwritten() {
        let ring = Ring::new(4);
        assert_eq!(ring.read(), Reading::default());
        (0..10).for_each(|n| ring.write([n, 2 * n]));
        let reading = ring.read();
        assert_eq!(reading.records, [[6, 12], [7, 14], [8, 16], [9, 18]]);
        assert_eq!(reading.overwritten, 6);
    }

    // Fails if a record is told twice or not at all, or if the oldest are told and not the newest.
    #[test]
    fn a_reader_goes_on_where_it_was() {
        let ring = Ring::new(8);
        (0..3).for_each(|n| ring.write([n, n]));
        let since = |since, most| {
            let reading = ring.read_since(since, most);
            let numbers: Vec<u64> = reading.records.iter().map(|words| words[0]).collect();
            (reading.overwritten, numbers)
        };
        assert_eq!(since(0, 8), (0, vec![0, 1, 2]));
        assert_eq!(since(3, 8), (3, vec![]));
        (3..5).for_each(|n| ring.write([n, n]));
        assert_eq!(since(3, 8), (3, vec![3, 4]));
        assert_eq!(since(0, 2), (3, vec![3, 4]));
        // Eight are kept: those in between are gone.
        (5..20).for_each(|n| ring.write([n, n]));
        assert_eq!(since(5, 99), (12, (12..20).collect()));
        // A number that is not there yet, of another runtime say.
        assert_eq!(since(99, 8), (20, vec![]));
    }

    // Fails if a part is not the one that was asked for, or if one that was overwritten is told.
    #[test]
    fn a_ring_is_read_in_parts() {
        let ring = Ring::new(8);
        (0..10).for_each(|n| ring.write([n, n]));
        let between = |since, end| {
            let reading = ring.read_between(since, end);
            let numbers: Vec<u64> = reading.records.iter().map(|words| words[0]).collect();
            (reading.overwritten, numbers)
        };
        assert_eq!((ring.oldest(), ring.written()), (2, 10));
        assert_eq!(between(2, 5), (2, vec![2, 3, 4]));
        assert_eq!(between(5, 10), (5, (5..10).collect()));
        assert_eq!(between(0, 4), (2, vec![2, 3]));
        assert_eq!(between(0, 1), (1, vec![]));
        assert_eq!(between(10, 10), (10, vec![]));
    }

    // Fails if memory is taken for parts that nothing was written to, or if a part is passed over.
    #[test]
    fn memory_follows_use() {
        let ring = Ring::new(2 * PIECE - 1);
        let taken = || {
            let parts = (0..CUTS + 1).filter_map(|part| ring.pieces.get(part));
            parts.map(|slots| slots.len()).collect::<Vec<_>>()
        };
        assert_eq!((ring.number, taken()), (2, vec![]));
        ring.write([0, 0]);
        let cut = PIECE / CUTS;
        assert_eq!(taken(), [cut]);
        (1..=cut as u64).for_each(|n| ring.write([n, n]));
        assert_eq!(taken(), [cut, cut]);
        (cut as u64 + 1..3 * PIECE as u64).for_each(|n| ring.write([n, n]));
        assert_eq!(taken(), [cut, cut, cut, cut, PIECE]);
        let reading = ring.read();
        let all: Vec<_> = (PIECE as u64..3 * PIECE as u64).map(|n| [n, n]).collect();
        assert_eq!(reading.records, all);
    }

    // Fails if the parts of a small ring overlap.
    #[test]
    fn a_ring_of_any_size_has_what_was_written() {
        for records in [1, 2, 4, 8, 64, 128, 256, 1 << 17] {
            let ring = Ring::new(records);
            (0..3 * records as u64).for_each(|n| ring.write([n, !n]));
            let read = ring.read().records;
            assert_eq!(read.len(), records);
            assert!(
                (2 * records as u64..)
                    .zip(read)
                    .all(|(n, words)| words == [n, !n])
            );
        }
    }

    // Fails if records that belong together are read in part, other than without the first ones.
    #[test]
    fn records_that_belong_together_are_written_at_once() {
        let ring = Ring::new(4);
        ring.write_together(&[[0, 0], [1, 1], [2, 2]]);
        assert_eq!(ring.read().records, [[0, 0], [1, 1], [2, 2]]);
        ring.write_together(&[[3, 3], [4, 4]]);
        let reading = ring.read();
        assert_eq!(reading.records, [[1, 1], [2, 2], [3, 3], [4, 4]]);
        // More than there is room for: the last ones stay.
        let many: Vec<_> = (5..15).map(|n| [n, n]).collect();
        ring.write_together(&many);
        let reading = ring.read();
        assert_eq!(reading.records, many[6..]);
        assert_eq!(reading.overwritten, 11);
    }

    #[test]
    fn an_empty_ring_is_read() {
        assert_eq!(Ring::new(0).read(), Reading::default());
    }

    /// Both words of a record are its number. So a torn one would show, and one of another number.
    #[test]
    fn what_is_read_is_whole() {
        let (ring, over) = (Arc::new(Ring::new(64)), Arc::new(AtomicBool::new(false)));
        let writer = {
            let (ring, over) = (ring.clone(), over.clone());
            thread::spawn(move || {
                let numbers = (0..).take_while(|_| !over.load(Relaxed));
                numbers.for_each(|n| ring.write([n, n]));
            })
        };
        let mut seen = 0;
        while seen < 10_000 {
            let reading = ring.read();
            for (n, words) in (reading.overwritten..).zip(&reading.records) {
                assert_eq!(*words, [n, n]);
            }
            seen += reading.records.len();
        }
        over.store(true, Relaxed);
        writer.join().unwrap();
    }
}
