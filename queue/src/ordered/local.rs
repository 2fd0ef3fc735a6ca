//! The bounded queue of one P, sorted by priority.
//!
//! # Operations
//!
//! | operation | by | how |
//! | --- | --- | --- |
//! | push | owner | find the level's bucket, or give it a free one; push to its ring |
//! | push, when full | owner | the lower half out, the oldest of the equals that are cut stay |
//! | pop | owner | from the highest bucket that has something |
//! | steal | thief | the upper half, bucket by bucket (O3) |
//!
//! A queue of [`CAPACITY`] items is *full*: the lower half of them goes out. The new item goes out
//! with them if it is not above the highest of them, and stays otherwise: where its priority
//! belongs (O2).
//!
//! A queue of [`BUCKETS`] levels has no room for another one, whether it is full or not. If that is
//! below all of them, the new item alone goes out; otherwise the lower half of the levels does.
//! Either makes room for the new item: so a bucket is looked for first, and the items are counted
//! only if there is one.
//!
//! The owner counts what it pushed and popped. Thieves only make that fewer, so the true rings are
//! looked at when the count says full, and not before.
//!
//! A bucket is given to another level only while its ring is empty, and only its owner could fill
//! it meanwhile. So a ring has items of one level at a time, as of their push. (A task whose
//! priority is changed while it is queued keeps its place until it moves.)

use std::{array, cell::Cell};

use super::Ordered;
use crate::{
    Batch, LocalQueue, Stealer,
    local::CAPACITY as RING,
    local_queue,
    sync::{
        Arc, MODELLED,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};

/// How many items fit: as many as into an LRQ, and so into each bucket.
pub const CAPACITY: usize = RING as usize;

/// How many levels fit. Guessed: more than programs have names for, and few enough to look through.
/// In a model as few as an order and an overflow need.
pub const BUCKETS: usize = if MODELLED { 2 } else { 8 };

/// Makes a queue: the owner's end and the thieves' end.
pub fn ordered_local<T: Ordered>() -> (OrderedLocal<T>, OrderedStealer<T>) {
    let buckets: [_; BUCKETS] = array::from_fn(|_| local_queue());
    let stealers = buckets.each_ref().map(|(_, stealer)| stealer.clone());
    let hints = Arc::new(Hints {
        top: AtomicI64::new(i64::MIN),
        levels: array::from_fn(|_| AtomicI64::new(0)),
    });
    let owner = OrderedLocal {
        rings: buckets.map(|(ring, _)| ring),
        hints: hints.clone(),
        order: Cell::new(Order::default()),
        count: Cell::new(0),
        top: Cell::new(i64::MIN),
        turn: Cell::new(0),
    };
    let stealer = OrderedStealer {
        buckets: stealers,
        hints,
    };
    (owner, stealer)
}

/// What thieves are told; only the owner writes it.
#[derive(Debug)]
struct Hints {
    /// The highest level that is queued, as of the owner's last pop or push; the least there is if
    /// none is.
    top: AtomicI64,
    /// Each bucket's level.
    levels: [AtomicI64; BUCKETS],
}

/// The buckets that are in use, the highest level first. One that was emptied stays until its place
/// is needed, for levels come back.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    buckets: [u8; BUCKETS],
    len: u8,
}

impl Order {
    fn as_slice(&self) -> &[u8] {
        &self.buckets[..usize::from(self.len)]
    }

    fn insert(&mut self, at: usize, bucket: u8) {
        self.buckets.copy_within(at..usize::from(self.len), at + 1);
        self.buckets[at] = bucket;
        self.len += 1;
    }

    fn remove(&mut self, at: usize) {
        self.buckets.copy_within(at + 1..usize::from(self.len), at);
        self.len -= 1;
    }

    fn retain(&mut self, mut keep: impl FnMut(u8) -> bool) {
        for at in (0..usize::from(self.len)).rev() {
            if !keep(self.buckets[at]) {
                self.remove(at);
            }
        }
    }

    /// A bucket that is not in use.
    fn free(&self) -> Option<u8> {
        (0..BUCKETS as u8).find(|bucket| !self.as_slice().contains(bucket))
    }
}

/// The owner's end. `Send`, but not `Sync` and not `Clone`: there is one owner.
#[derive(Debug)]
pub struct OrderedLocal<T: Ordered> {
    rings: [LocalQueue<T>; BUCKETS],
    hints: Arc<Hints>,
    order: Cell<Order>,
    /// As many items as there are, or more: thieves do not count.
    count: Cell<usize>,
    /// What `hints.top` says.
    top: Cell<i64>,
    /// Whose turn it is in [`pop_in_turn`](Self::pop_in_turn).
    turn: Cell<usize>,
}

/// The thieves' end.
#[derive(Debug)]
pub struct OrderedStealer<T: Ordered> {
    buckets: [Stealer<T>; BUCKETS],
    hints: Arc<Hints>,
}

impl<T: Ordered> OrderedLocal<T> {
    /// Pushes an item behind its equals. If the queue is full, the lower half comes back for the
    /// shared one; the new item is among it if its priority belongs there (O2).
    ///
    /// # Errors
    ///
    /// The batch that is the caller's now, equals in their order. It is not a fault.
    pub fn push(&self, item: T) -> Result<(), Batch<T>> {
        let level = item.priority();
        let Some(bucket) = self.bucket_of(level) else {
            return Err(self.push_beyond(item, level));
        };
        if self.count.get() >= CAPACITY {
            self.count_again();
            if self.count.get() >= CAPACITY {
                return Err(self.push_full(item, level));
            }
        }
        self.push_to(bucket, level, item);
        Ok(())
    }

    #[inline]
    fn push_to(&self, bucket: u8, level: i64, item: T) {
        let pushed = self.rings[usize::from(bucket)].try_push(item);
        assert!(
            pushed.is_ok(),
            "a bucket has room for all that the queue has"
        );
        self.count.set(self.count.get() + 1);
        if level > self.top.get() {
            self.publish(level);
        }
    }

    /// Tells thieves the highest level.
    #[inline]
    fn publish(&self, top: i64) {
        if top != self.top.get() {
            self.top.set(top);
            self.hints.top.store(top, Relaxed);
        }
    }

    /// Pushes an item if its level has no bucket, and can get none.
    #[cold]
    fn push_beyond(&self, item: T, level: i64) -> Batch<T> {
        let mut batch = Batch::new();
        if !self.is_below_all(level) {
            let cut = self.take_lower_levels(&mut batch);
            self.push_above(cut, level, item, &mut batch);
        } else {
            batch.push(item);
        }
        batch
    }

    /// Pushes an item if its level has a bucket, but there is no room for an item.
    #[cold]
    fn push_full(&self, item: T, level: i64) -> Batch<T> {
        let mut batch = Batch::new();
        let cut = self.take_lower_items(&mut batch);
        self.push_above(cut, level, item, &mut batch);
        batch
    }

    /// Pushes an item after what is below `cut`, and some of that level, went out: it goes with
    /// them unless it is above.
    fn push_above(&self, cut: Option<i64>, level: i64, item: T, batch: &mut Batch<T>) {
        self.prune();
        match self.bucket_of(level) {
            Some(bucket) if cut.is_none_or(|cut| level > cut) => self.push_to(bucket, level, item),
            _ => batch.push(item),
        }
    }

    /// Takes the lower half of the items out. The highest level that was cut.
    fn take_lower_items(&self, batch: &mut Batch<T>) -> Option<i64> {
        let mut left = CAPACITY / 2;
        let mut cut = None;
        for &bucket in self.order.get().as_slice().iter().rev() {
            if left == 0 {
                break;
            }
            let ring = &self.rings[usize::from(bucket)];
            let mut items = Batch::new();
            ring.drain(|item| items.push(item));
            // The oldest stay: equals are first in, first out.
            let stay = items.len().saturating_sub(left);
            let mut items = items.into_list();
            ring.push_batch(&mut items.by_ref().take(stay));
            if items.len() > 0 {
                cut = Some(self.level(bucket));
            }
            left -= items.len();
            batch.extend(items);
        }
        self.count_again();
        cut
    }

    /// Takes the lower half of the levels out. The highest that was cut.
    fn take_lower_levels(&self, batch: &mut Batch<T>) -> Option<i64> {
        let order = self.order.get();
        let lower = &order.as_slice()[BUCKETS / 2..];
        for &bucket in lower.iter().rev() {
            self.rings[usize::from(bucket)].drain(|item| batch.push(item));
        }
        self.count_again();
        lower.first().map(|&bucket| self.level(bucket))
    }

    fn level(&self, bucket: u8) -> i64 {
        self.hints.levels[usize::from(bucket)].load(Relaxed)
    }

    /// The bucket of a level, a fresh one if need be. None if all have other levels.
    fn bucket_of(&self, level: i64) -> Option<u8> {
        let order = self.order.get();
        let at = order
            .as_slice()
            .iter()
            .position(|&bucket| self.level(bucket) <= level)
            .unwrap_or(order.as_slice().len());
        match order.as_slice().get(at) {
            Some(&bucket) if self.level(bucket) == level => Some(bucket),
            _ => self.give_bucket(level),
        }
    }

    #[cold]
    fn give_bucket(&self, level: i64) -> Option<u8> {
        if self.order.get().free().is_none() {
            // Thieves may have emptied one.
            self.prune();
        }
        let mut order = self.order.get();
        let bucket = order.free()?;
        let at = order
            .as_slice()
            .iter()
            .position(|&other| self.level(other) < level)
            .unwrap_or(order.as_slice().len());
        self.hints.levels[usize::from(bucket)].store(level, Relaxed);
        order.insert(at, bucket);
        self.order.set(order);
        Some(bucket)
    }

    fn is_below_all(&self, level: i64) -> bool {
        let order = self.order.get();
        order
            .as_slice()
            .iter()
            .all(|&bucket| self.level(bucket) > level)
    }

    /// Frees the buckets that are empty.
    fn prune(&self) {
        let mut order = self.order.get();
        order.retain(|bucket| !self.rings[usize::from(bucket)].is_empty());
        self.order.set(order);
    }

    fn count_again(&self) {
        self.count.set(self.rings.iter().map(LocalQueue::len).sum());
    }

    /// Takes the highest item, the oldest among equals.
    pub fn pop(&self) -> Option<T> {
        self.pop_at_least(i64::MIN)
    }

    /// Takes the highest item if its level is `floor` or above.
    pub fn pop_at_least(&self, floor: i64) -> Option<T> {
        for &bucket in self.order.get().as_slice() {
            let level = self.level(bucket);
            if level < floor {
                return None;
            }
            if let Some(item) = self.pop_from(bucket) {
                self.publish(level);
                return Some(item);
            }
        }
        self.publish(i64::MIN);
        None
    }

    /// Takes the oldest item of the lowest level.
    pub fn pop_lowest(&self) -> Option<T> {
        let order = self.order.get();
        let lowest = order.as_slice().iter().rev();
        lowest.copied().find_map(|bucket| self.pop_from(bucket))
    }

    /// Takes the oldest item of a level, of another one each time: the next lower, and then the
    /// highest again.
    pub fn pop_in_turn(&self) -> Option<T> {
        self.prune();
        let order = self.order.get();
        let buckets = order.as_slice();
        let turn = (self.turn.get() + 1) % buckets.len().max(1);
        self.turn.set(turn);
        let (before, from) = buckets.split_at(turn);
        from.iter()
            .chain(before)
            .find_map(|&bucket| self.pop_from(bucket))
    }

    #[inline]
    fn pop_from(&self, bucket: u8) -> Option<T> {
        let item = self.rings[usize::from(bucket)].pop()?;
        self.count.set(self.count.get() - 1);
        Some(item)
    }

    /// The highest level, if there is one. Thieves may empty it at any time.
    pub fn top(&self) -> Option<i64> {
        let order = self.order.get();
        let mut filled = order
            .as_slice()
            .iter()
            .filter(|&&bucket| self.has_some(bucket));
        filled.next().map(|&bucket| self.level(bucket))
    }

    /// The lowest level, if there is one. Thieves may empty it at any time.
    pub fn bottom(&self) -> Option<i64> {
        let order = self.order.get();
        let mut filled = order
            .as_slice()
            .iter()
            .filter(|&&bucket| self.has_some(bucket));
        filled.next_back().map(|&bucket| self.level(bucket))
    }

    fn has_some(&self, bucket: u8) -> bool {
        !self.rings[usize::from(bucket)].is_empty()
    }

    /// Takes what is there, the highest first.
    pub fn drain(&self, mut into: impl FnMut(T)) {
        for _ in 0..self.len() {
            let Some(item) = self.pop() else { break };
            into(item);
        }
    }

    /// How many items fit, of how many levels that are not here yet. Thieves may make it more.
    pub fn room(&self) -> (usize, usize) {
        self.prune();
        let levels = BUCKETS - self.order.get().as_slice().len();
        (CAPACITY - self.count.get().min(CAPACITY), levels)
    }

    /// How many items there are. Thieves may make it fewer at any time.
    pub fn len(&self) -> usize {
        self.rings.iter().map(LocalQueue::len).sum()
    }

    /// Whether there are none. Thieves may make it so at any time.
    pub fn is_empty(&self) -> bool {
        self.rings.iter().all(LocalQueue::is_empty)
    }
}

impl<T: Ordered> OrderedStealer<T> {
    /// Takes the upper half of the items, rounded up: the highest comes back, the others are given
    /// to `into` in their order (O3).
    pub fn steal(&self, mut into: impl FnMut(T)) -> Option<T> {
        let mut buckets: [(i64, usize, usize); BUCKETS] = array::from_fn(|bucket| {
            let level = self.hints.levels[bucket].load(Relaxed);
            (level, bucket, self.buckets[bucket].len())
        });
        buckets.sort_unstable_by_key(|&(level, ..)| std::cmp::Reverse(level));
        let total: usize = buckets.iter().map(|&(.., len)| len).sum();
        let mut left = total.div_ceil(2);
        let mut first = None;
        for (_, bucket, len) in buckets {
            let mut wanted = len.min(left);
            while wanted > 0 {
                let taken = self.buckets[bucket].take(wanted, |item| match first {
                    None => first = Some(item),
                    Some(_) => into(item),
                });
                match taken {
                    // Another thread has had success.
                    None => {}
                    Some(0) => break,
                    Some(taken) => {
                        wanted -= taken;
                        left -= taken;
                    }
                }
            }
        }
        first
    }

    /// Takes everything, a level at a time.
    pub fn take_all(&self, mut into: impl FnMut(T)) {
        for bucket in &self.buckets {
            while bucket.take(CAPACITY, &mut into) != Some(0) {}
        }
    }

    /// The highest level that its owner has published, and the least that there is for none. A
    /// hint.
    pub fn top(&self) -> i64 {
        self.hints.top.load(Relaxed)
    }

    /// Whether there are none: for the last look before a worker parks, behind a `SeqCst` fence. It
    /// holds what [`Stealer::is_empty`] does, for each bucket.
    pub fn is_empty(&self) -> bool {
        self.buckets.iter().all(Stealer::is_empty)
    }

    /// How many items there are, or were a moment ago.
    pub fn len(&self) -> usize {
        self.buckets.iter().map(Stealer::len).sum()
    }
}

impl<T: Ordered> Clone for OrderedStealer<T> {
    fn clone(&self) -> Self {
        Self {
            buckets: self.buckets.clone(),
            hints: self.hints.clone(),
        }
    }
}
