//! A set of small numbers that many threads change and walk: one bit for each, in words of 64.
//!
//! A change is one read-modify-write of one word, or a store where a lock keeps all other changes
//! away. A walk is one load of each word: it takes no lock, and waits for nothing. A walk sees each
//! word at one moment, and the set at none: a caller that needs more than that says at the call
//! which fences it relies on.
//!
//! Used for the Ps that can be woken (`permit/idle.rs`), those that have a thread
//! (`permit/allp.rs`), those whose thread computes (`sched/processor.rs`), those of a node
//! (`nodes.rs`), and the shards that have timers (`timer/shard.rs`).

use crate::sync::{
    Arc,
    atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct BitSet(Box<[AtomicU64]>);

impl BitSet {
    pub(crate) fn new(bits: usize) -> Self {
        Self((0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn insert(&self, index: usize) {
        // Ordering: Release: a thread that finds the bit finds the worker state.
        self.0[index / 64].fetch_or(1 << (index % 64), AcqRel);
    }

    /// Takes a bit back; whether it was there does not matter.
    pub(crate) fn remove(&self, index: usize) {
        self.0[index / 64].fetch_and(!(1 << (index % 64)), Relaxed);
    }

    /// As [`insert`](Self::insert), where a lock keeps all other changes away: a store costs less
    /// than a read-modify-write.
    pub(crate) fn insert_locked(&self, index: usize) {
        self.store_locked(index, |word, bit| word | bit);
    }

    /// As [`remove`](Self::remove), where a lock keeps all other changes away.
    pub(crate) fn remove_locked(&self, index: usize) {
        self.store_locked(index, |word, bit| word & !bit);
    }

    fn store_locked(&self, index: usize, change: impl FnOnce(u64, u64) -> u64) {
        let word = &self.0[index / 64];
        // Ordering: Release: a thread that finds any bit of the word finds what was done before
        // that bit was set: the lock has brought it here.
        word.store(change(word.load(Relaxed), 1 << (index % 64)), Release);
    }

    /// Whether the bit is set.
    pub(crate) fn contains(&self, index: usize) -> bool {
        self.0[index / 64].load(Relaxed) & (1 << (index % 64)) != 0
    }

    /// The indices in the set below `end`, or below the next multiple of 64: of each word as it is
    /// when the walk comes to it.
    pub(crate) fn iter(&self, end: usize) -> Iter<'_> {
        Iter {
            words: self.0[..end.div_ceil(64)].iter(),
            first: 0,
            left: 0,
        }
    }

    /// The same walk, without those that are in `other`: of each word of both as it is when the
    /// walk comes to it.
    pub(crate) fn iter_without<'a>(
        &'a self,
        other: &'a Self,
        end: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        (0..end.div_ceil(64)).flat_map(move |at| bits(64 * at, self.word(at) & !other.word(at)))
    }

    /// The 64 numbers from `64 * at` on, a bit each.
    pub(crate) fn word(&self, at: usize) -> u64 {
        // Ordering: Acquire pairs with `insert`.
        self.0[at].load(Acquire)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Relaxed) == 0)
    }

    pub(crate) fn len(&self) -> usize {
        let ones = |word: &AtomicU64| word.load(Relaxed).count_ones() as usize;
        self.0.iter().map(ones).sum()
    }

    /// Clears bits until `claim` succeeds for one. `last` is tried only when no other is left (the
    /// thread that waits in the netpoll, say).
    pub(crate) fn claim<R>(
        &self,
        last: Option<usize>,
        mut claim: impl FnMut(usize) -> Option<R>,
    ) -> Option<R> {
        for (at, word) in self.0.iter().enumerate() {
            let spared = last
                .filter(|last| last / 64 == at)
                .map_or(0, |last| 1 << (last % 64));
            // Ordering: Acquire pairs with `insert`.
            let mut bits = word.load(Acquire) & !spared;
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                // Ordering: Acquire as above.
                let before = word.fetch_and(!bit, AcqRel);
                if before & bit != 0
                    && let Some(claimed) = claim(at * 64 + bit.trailing_zeros() as usize)
                {
                    return Some(claimed);
                }
                bits &= !bit;
            }
        }
        let last = last?;
        // Ordering: Acquire as above.
        let before = self.0[last / 64].fetch_and(!(1 << (last % 64)), AcqRel);
        if before & (1 << (last % 64)) != 0 {
            claim(last)
        } else {
            None
        }
    }
}

/// One number's bit of a set that others walk.
#[derive(Debug)]
pub(crate) struct Bit {
    set: Arc<BitSet>,
    index: usize,
}

impl Bit {
    pub(crate) fn new(set: &Arc<BitSet>, index: usize) -> Self {
        Self {
            set: set.clone(),
            index,
        }
    }

    pub(crate) fn get(&self) -> bool {
        self.set.contains(self.index)
    }

    /// Writes nothing if it is so already.
    pub(crate) fn set(&self, is_in: bool) {
        match (self.get(), is_in) {
            (false, true) => self.set.insert(self.index),
            (true, false) => self.set.remove(self.index),
            _ => {}
        }
    }
}

/// The numbers of the bits of a word. Its first bit stands for `first`.
pub(crate) fn bits(first: usize, mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        (word != 0).then(|| {
            word &= word - 1;
            first + bit
        })
    })
}

/// A walk over a set.
#[derive(Debug)]
pub(crate) struct Iter<'a> {
    /// The words that it has not come to.
    words: std::slice::Iter<'a, AtomicU64>,
    /// Where the next word begins.
    first: usize,
    /// What is left of the word before that.
    left: u64,
}

impl Iterator for Iter<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.left == 0 {
            // Ordering: Acquire pairs with `insert`.
            self.left = self.words.next()?.load(Acquire);
            self.first += 64;
        }
        let bit = self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        Some(self.first - 64 + bit)
    }
}
