//! A queue that all threads share. It is unbounded, and pushing to it never waits. The GRQ is two
//! of them (`grq.rs`).
//!
//! ```text
//!   pushers                                          poppers, one at a time (a short mutex)
//!   one exchange each                                take from the front
//!        |                                                 ^
//!        v        when the list runs short:                |
//!      inbox  --- swap it all out, turn it round --->     list
//!      newest -> ... -> oldest                             oldest -> ... -> newest
//! ```
//!
//! What is pushed goes on top of a stack, the *inbox*: an item, or a whole chain that was linked
//! before ([`Batch`]). One exchange puts it there, and succeeds unless another push or a swap did.
//! Poppers take the mutex, and take from the front of a list. When the list is too short, the
//! popper swaps the whole inbox out and appends it, the oldest first. So each pusher's items come
//! out in its order, and each item is turned round once. No thread takes a single item out of the
//! inbox, so there is no ABA: an exchange that finds the same top again finds the same stack, or
//! one that is as good.
//!
//! To turn a long inbox round is one cache miss after the other, under the mutex. So a pusher that
//! makes the inbox deep carries it over at once, while its items are still in the cache, if the
//! mutex is free. If it is not, it leaves that to the next one: no pusher ever waits.
//!
//! # Empty or not
//!
//! A worker that is about to park looks here last, behind a `SeqCst` fence, and a pusher looks for
//! sleepers behind another. If a push happened before the look, or its fence came before the
//! look's, [`GlobalQueue::is_empty`] must not say yes unless the item was taken out. It looks at
//! the inbox first and at `in_list` second. While the inbox is carried over to the list an item is
//! in neither. Therefore *`in_list` is not zero from before the swap until the list is empty*. A
//! thread that finds the inbox swapped out has read what the swap or something later wrote, and so
//! sees at least the mark that was set before it. What a popper passes by on its way to an item
//! further back is out of the list meanwhile, and counts as in it: `in_list` is written once, when
//! the list is whole again.
//!
//! It does not ask [`GlobalQueue::len`]. That one counts an item a moment before it can be taken,
//! and a worker which believed it would search without end while the pusher is preempted in
//! between.
//!
//! # What was rejected
//!
//! Measured on a 2-core virtual machine that was busy with other work, so the least of nine runs is
//! given: nanoseconds an item, push / pop. The items' cells lie 128 bytes apart.
//!
//! | | this | `Mutex<VecDeque>` | list under a mutex | crossbeam's `Injector` |
//! | --- | --- | --- | --- | --- |
//! | one at a time, 1,000 long | 7.9 / 7.2 | 5.2 / 6.2 | 6.9 / 7.0 | 6.2 / 7.2 |
//! | batches of 129, 1,290 long | 2.1 / 2.8 | 0.2 / 0.8 | 0.7 / 1.7 | 5.9 / 5.2 |
//! | batches of 129, 200,000 long | 6.6 / 10.7 | 0.7 / 0.8 | 4.2 / 11.6 | 5.7 / 5.0 |
//! | one pusher beside a popper | 10.3 / 9.8 | 5.2 / 1.1 | 13.9 / 12.2 | 6.4 / 7.3 |
//! | 64 pushers beside a popper | 11.9 / 9.3 | 7.3 / 41 | 13.4 / 10.4 | 6.7 / 7.5 |
//! | the same, the median | 17 / 93 | 54 / 128 | 44 / 116 | 16 / 250 |
//!
//! - The first version had no pusher carry over: to pop from 200,000 cost 62 to 83 ns an item.
//! - *A mutex for pushers too.* Alone it is as fast or faster. But a pusher that is preempted under
//!   it stops all others, and with 64 threads on two cores that happens: the median is three times
//!   as long. Foreign threads must not wait for each other (H4).
//! - *A `VecDeque` inside* touches no cells, but it allocates, and moves all it has when it grows,
//!   under the mutex.
//! - *`crossbeam-deque`'s `Injector`.* A batch is as many exchanges as it has items, it allocates,
//!   and a popper waits for a pusher that was preempted between its claim of a slot and the write.
//! - *An intrusive queue with an exchanged tail* needs no turning round, but what was pushed behind
//!   a preempted pusher can not be found until that one runs again.
//!
//! # Where it is checked
//!
//! `models::queue::global_*`, with the mutants `grq_*`; `tests.rs`.
#![expect(unsafe_code, reason = "links items that the inbox owns")]

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::{Batch, Linked, List, Padded};
use crate::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::{MODELLED, Mutex, MutexGuard};

/// How many items make an inbox deep, so that pushers shorten it. Chosen so that their cells are
/// still in the cache when they are turned round, and that a pusher rarely has to.
const DEEP: usize = if MODELLED { 3 } else { 64 };

/// An unbounded first-in, first-out queue for all threads.
#[derive(Debug)]
pub struct GlobalQueue<T: Linked> {
    inbox: Padded<Inbox>,
    /// How many items are in the list; at least one while the inbox is being carried over to it.
    /// Written only under the mutex.
    in_list: AtomicUsize,
    /// How many items came into the list so far. Written only under the mutex.
    carried: AtomicUsize,
    /// How many items were taken out so far. Written only under the mutex.
    popped: AtomicUsize,
    list: Mutex<List<T>>,
    /// What the words in the inbox are: items move through it, and are never shared.
    items: PhantomData<fn() -> T>,
}

#[derive(Debug)]
struct Inbox {
    /// The newest item. It links to the one that was pushed before it, and so on.
    newest: AtomicPtr<()>,
    /// How many items were pushed so far, and a little ahead of it.
    pushed: AtomicUsize,
}

impl<T: Linked> Default for GlobalQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Linked> GlobalQueue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            inbox: Padded(Inbox {
                newest: AtomicPtr::new(ptr::null_mut()),
                pushed: AtomicUsize::new(0),
            }),
            in_list: AtomicUsize::new(0),
            carried: AtomicUsize::new(0),
            popped: AtomicUsize::new(0),
            list: Mutex::new(List::new()),
            items: PhantomData,
        }
    }

    /// Pushes an item behind all others.
    pub fn push(&self, item: T) {
        let raw = item.into_raw();
        // SAFETY: the item is ours since `into_raw`.
        unsafe { self.push_chain(raw, raw, 1) };
    }

    /// Pushes the items of a batch in their order, with nothing between them.
    pub fn push_batch(&self, batch: Batch<T>) {
        let len = batch.len();
        if let Some((newest, oldest)) = batch.into_raw() {
            // SAFETY: a batch owns its items, which link from the newest to the oldest.
            unsafe { self.push_chain(newest, oldest, len) };
        }
    }

    /// # Safety
    ///
    /// - `newest` links to other items down to `oldest`, `len` in all, which are the caller's. They
    ///   are the queue's from here on.
    unsafe fn push_chain(&self, newest: NonNull<()>, oldest: NonNull<()>, len: usize) {
        // Before the items can be taken, so that there are never more taken than pushed.
        let pushed = self.inbox.pushed.fetch_add(len, Relaxed).wrapping_add(len);
        let top = &self.inbox.newest;
        let mut below = top.load(Relaxed);
        loop {
            // SAFETY: the items are the caller's until the exchange succeeds. What is below is only
            // a word to us.
            unsafe { T::set_next(oldest, NonNull::new(below)) };
            // Ordering: `Release` pairs with the `Acquire` of the swap in `carry_over`: the items
            // and their links are visible to the popper (I10). Those further down are too, for each
            // exchange continues the release sequence of the ones before.
            match top.compare_exchange_weak(below, newest.as_ptr(), Release, Relaxed) {
                Ok(_) => break,
                Err(now) => below = now,
            }
        }
        if pushed.wrapping_sub(self.carried.load(Relaxed)) >= DEEP {
            self.shorten_inbox();
        }
    }

    /// Carries the inbox over, unless a thread has the mutex: a pusher does not wait.
    #[cold]
    fn shorten_inbox(&self) {
        if let Some(mut list) = self.list.try_lock() {
            self.carry_over(&mut list);
            self.in_list.store(list.len(), Relaxed);
        }
    }

    /// Takes the oldest item.
    pub fn pop(&self) -> Option<T> {
        self.take(1).next()
    }

    /// Takes the oldest `max` items, or all if there are fewer, and gives them to `into` in their
    /// order, outside of the lock. Returns how many that were. A fair share is `len / workers + 1`.
    pub fn pop_batch(&self, max: usize, into: impl FnMut(T)) -> usize {
        let batch = self.take(max);
        let count = batch.len();
        batch.for_each(into);
        count
    }

    /// Takes the oldest `max` items, or all if there are fewer.
    pub fn take(&self, max: usize) -> List<T> {
        self.take_by(max, |list| list.split_front(max))
    }

    /// The same, but nothing behind the first that is `last`.
    pub fn take_until(&self, max: usize, last: impl Fn(&T) -> bool) -> List<T> {
        self.take_by(max, |list| list.split_until(max, last))
    }

    /// Takes the oldest that is `wanted` of the first `within`.
    pub fn pop_near(&self, within: usize, wanted: impl Fn(&T) -> bool) -> Option<T> {
        self.take_by(within, |list| list.split_first(within, wanted))
            .next()
    }

    /// Takes what `split` cuts out of the list, which looks at no more than the first `reach`.
    fn take_by(&self, reach: usize, split: impl FnOnce(&mut List<T>) -> List<T>) -> List<T> {
        if self.is_empty() {
            return List::new();
        }
        let mut list = self.list.lock();
        if list.len() < reach {
            self.carry_over(&mut list);
        }
        let batch = split(&mut list);
        self.in_list.store(list.len(), Relaxed);
        let popped = self.popped.load(Relaxed).wrapping_add(batch.len());
        // Ordering: `Release` pairs with the `Acquire` in `len`: a thread that sees these items
        // taken sees them pushed.
        self.popped.store(popped, Release);
        batch
    }

    /// Appends the inbox to the list. The caller sets `in_list` afterwards.
    fn carry_over(&self, list: &mut MutexGuard<'_, List<T>>) {
        if self.inbox.newest.load(Relaxed).is_null() {
            return;
        }
        self.in_list.store(list.len().max(1), Relaxed);
        // Ordering: `Acquire` pairs with the `Release` of `push_chain`. `Release` pairs with the
        // `Acquire` in `is_empty`: a thread that sees the inbox empty sees `in_list` marked.
        let newest = self.inbox.newest.swap(ptr::null_mut(), AcqRel);
        if let Some(newest) = NonNull::new(newest) {
            // SAFETY: the swap made all items of the inbox ours. The first that was pushed into an
            // empty inbox links to nothing.
            let count = unsafe { list.append_stack(newest) };
            let carried = self.carried.load(Relaxed).wrapping_add(count);
            self.carried.store(carried, Relaxed);
        }
    }

    /// How many items there are, or were a moment ago.
    pub fn len(&self) -> usize {
        // Ordering: `Acquire` pairs with the `Release` in `take_by`: `pushed` is no older.
        let popped = self.popped.load(Acquire);
        self.inbox.pushed.load(Relaxed).wrapping_sub(popped)
    }

    /// Whether there are none. See *Empty or not* above.
    pub fn is_empty(&self) -> bool {
        // Ordering: `Acquire` pairs with the `Release` half of the swap in `carry_over`.
        self.inbox.newest.load(Acquire).is_null() && self.in_list.load(Relaxed) == 0
    }
}

impl<T: Linked> Drop for GlobalQueue<T> {
    fn drop(&mut self) {
        self.take(usize::MAX).for_each(drop);
    }
}

#[cfg(all(test, not(ws_loom)))]
mod tests {
    use super::*;
    use crate::steps::items::Source;

    /// So that a pop never has to turn round a long inbox: see *What was rejected*.
    #[test]
    fn a_pusher_shortens_a_deep_inbox() {
        let mut source = Source::default();
        let queue = GlobalQueue::new();
        for _ in 0..10 * DEEP {
            queue.push(source.next());
            let in_inbox = source.made - queue.carried.load(Relaxed);
            assert!(in_inbox < DEEP);
        }
        // It waits for no thread that is at the list.
        let list = queue.list.lock();
        for _ in 0..2 * DEEP {
            queue.push(source.next());
        }
        drop(list);
        assert_eq!(queue.len(), source.made);
        assert_eq!(queue.take(usize::MAX).len(), source.made);
    }
}
