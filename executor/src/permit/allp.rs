//! *All Ps*: which Ps have a thread, and which of the others still have live tasks.
//!
//! A P is made when a thread needs one and all others have a thread. It is never freed before its
//! runtime, so a thief or a waker never asks whether it is still there. But threads come and go:
//! after a burst of 480 blocking calls there are 480 Ps, and two threads. What a search, a last
//! look or a shutdown costs follows from what lives now. So sets of bits say which Ps a walk visits
//! (Go: `allp`, `idlepMask`):
//!
//! | set | a P is in it | what walks it |
//! | --- | --- | --- |
//! | `occupied` | while a thread has the P | looks for work, for permits, for threads: searches, last looks, the monitor, the begin of a shutdown |
//! | `populated` | the same; then until the P's live table is empty | looks for live tasks: the dump, the shutdown's sweep, the count of live tasks |
//! | the listed shards (`timer/shard.rs`) | from the P's first timer; then until the P has neither a thread nor a timer | looks for deadlines |
//!
//! A thread takes the vacant P of the lowest index, so Ps in use stay at the front, and one load
//! tells about 64 of them. Only what has to count or end all Ps that were ever made visits them
//! all: the metrics (their totals do not go backwards), the log of events, and the end of timers.
//!
//! # The steps
//!
//! - *Take*, under the lock of `vacant`: takes the P out, sets both bits. Then the thread may use
//!   it.
//! - *Give back*: the thread has moved its queues to the global one and its worker state is
//!   `VACANT`. Under the lock: clears `occupied`, and `populated` if the live table is empty; puts
//!   the P back.
//! - *Forget*, by a walk over `populated` that found a table empty: under the lock, if no thread
//!   has the P and the table is still empty, clears the bit. The walk does not wait for the lock: a
//!   later walk does it.
//!
//! # Why a walk misses nothing
//!
//! *Invariant*: what is in a queue of a P was put there after its bit in `occupied` was set, and is
//! gone before the bit is cleared. A task that is in a live table was entered after its bit in
//! `populated` was set, and has left before that bit is cleared.
//!
//! - *A P that was just taken.* The bit comes before the push in the owner's program, so also
//!   before the fence of that push (`Idle::submit`), or of the worker state, or of whatever the
//!   walk is ordered with. A walk that has to see the push by its own fence sees the bit as well.
//!   So the last look before a sleep needs no step of its own (*The spinning hand-over* in
//!   `idle.rs`). The owner of a P enters its first task after it took the P, and the same holds.
//! - *A P that is given back.* Its tasks went to the global queue by a push, with the fence of a
//!   push, before its bit was cleared. A walk may come too late to see the P. It misses
//!   nothing: the tasks are in the global queue, and their push has woken a thread if one was
//!   needed.
//! - *A thief in the middle of its walk* still looks at a P that was given back, or that has
//!   another thread by now. Both are harmless: the stealing ends stay valid, a vacant P has
//!   nothing, and a P with a thread is a victim like any other.
//! - *A shutdown that begins* tells every P in `occupied`. A thread that takes a P meanwhile, for
//!   the first time or again, looks at the phase after the bit was set
//!   (`ShutdownEnv::notify_new_p`, the second race in `phase.rs`).
//! - *Forget beside a take*: both hold the lock of `vacant`, so the thread that takes the P sets
//!   the bit after it was cleared. Without a thread nothing enters the table.
//!
//! # Rejected
//!
//! - A dense array of indices that is copied with each change: readers need an epoch, or a lock,
//!   for its memory.
//! - To clear `populated` where a table's last task leaves it: one more question on the way of
//!   every task.
//! - Two sets, one of threads and one of vacant Ps with tasks: a walk that reads both misses a P
//!   that goes from one to the other meanwhile. So the second contains the first.
//!
//! Checked by `models::allp`, `models::shutdown`, and `sched/shared/tests/allp.rs`. The last counts
//! the Ps that are visited.

use crate::{
    bit_set::{BitSet, Iter},
    sync::{
        Mutex,
        atomic::{
            AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// What the list of all Ps needs of the owner's end of a P.
pub(crate) trait ListedP {
    fn index(&self) -> usize;
    /// Whether its live table has a task.
    fn has_live(&self) -> bool;
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct AllPs<T> {
    /// Ps without a thread, the lowest index last.
    vacant: Mutex<Vec<T>>,
    /// How many were made. Written under the lock of `vacant`.
    made: AtomicUsize,
    most: usize,
    /// Both change under the lock of `vacant`.
    occupied: BitSet,
    populated: BitSet,
}

impl<T: ListedP> AllPs<T> {
    /// For at most `most` Ps.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            vacant: Mutex::new(Vec::new()),
            made: AtomicUsize::new(0),
            most,
            occupied: BitSet::new(most),
            populated: BitSet::new(most),
        }
    }

    /// The vacant P of the lowest index, or else a new one. None if there are as many as there may
    /// be.
    pub(crate) fn take(&self, make: impl FnOnce(usize) -> T) -> Option<T> {
        let mut vacant = self.vacant.lock();
        let p = match vacant.pop() {
            Some(p) => p,
            None => {
                let index = self.made.load(Relaxed);
                if index == self.most {
                    return None;
                }
                let p = make(index);
                // Ordering: Release: a thread that counts it sees that it was made.
                self.made.store(index + 1, Release);
                p
            }
        };
        // Before the lock goes, and before the caller has it: see the invariant.
        self.populated.insert_locked(p.index());
        self.occupied.insert_locked(p.index());
        Some(p)
    }

    /// Takes back a P whose queues are empty.
    pub(crate) fn give_back(&self, p: T) {
        let mut vacant = self.vacant.lock();
        let index = p.index();
        self.occupied.remove_locked(index);
        if !p.has_live() {
            self.populated.remove_locked(index);
        }
        let at = vacant.partition_point(|other| other.index() > index);
        vacant.insert(at, p);
    }

    /// How many were ever made: their indices are below that.
    pub(crate) fn made(&self) -> usize {
        // Ordering: Acquire pairs with `take`.
        self.made.load(Acquire)
    }

    /// The indices of those that have a thread.
    pub(crate) fn occupied(&self) -> Iter<'_> {
        self.occupied.iter(self.made())
    }

    /// The indices of those that have a thread and are not in `others`.
    pub(crate) fn occupied_without<'a>(
        &'a self,
        others: &'a BitSet,
    ) -> impl Iterator<Item = usize> + 'a {
        self.occupied.iter_without(others, self.made())
    }

    /// The same for the words of 64 Ps each.
    pub(crate) fn words_without<'a>(
        &'a self,
        others: &'a BitSet,
    ) -> impl Iterator<Item = (usize, u64)> + 'a {
        (0..self.made().div_ceil(64)).map(|at| (at, self.occupied.word(at) & !others.word(at)))
    }

    pub(crate) fn is_occupied(&self, index: usize) -> bool {
        self.occupied.contains(index)
    }

    /// How many have a thread.
    pub(crate) fn occupied_len(&self) -> usize {
        self.occupied.len()
    }

    /// The indices of those that have a thread, or live tasks.
    pub(crate) fn populated(&self) -> Iter<'_> {
        self.populated.iter(self.made())
    }

    /// Takes a P without a thread and without live tasks off that list, for a walk that found it
    /// there.
    pub(crate) fn forget(&self, index: usize, has_live: impl FnOnce() -> bool) {
        if self.is_occupied(index) {
            return;
        }
        if let Some(_vacant) = self.vacant.try_lock()
            && !self.is_occupied(index)
            && !has_live()
        {
            self.populated.remove_locked(index);
        }
    }
}
