//! GRQ: the run queue that all workers share. It is unbounded, and pushing to it never waits.
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
//! before ([`Batch`]), by one exchange that succeeds unless another push or a swap did. Poppers take
//! the mutex, and take from the front of a list. When the list is too short, the popper swaps the
//! whole inbox out and appends it, the oldest first. So each pusher's items come out in its order,
//! and each item is turned round once. Nobody takes a single item out of the inbox, so there is no
//! ABA: an exchange that finds the same top again finds the same stack, or one that is as good.
//!
//! # Empty or not
//!
//! A worker that is about to park looks here last, behind a `SeqCst` fence, and a pusher looks for
//! sleepers behind another. If a push happened before the look, or its fence came before the look's,
//! [`GlobalQueue::is_empty`] must not say yes unless the item was taken out. It looks at the inbox
//! first and at `in_list` second. While a popper carries the inbox over to the list an item is in
//! neither; therefore *`in_list` is not zero from before the swap until the list is empty*. Who
//! finds the inbox swapped out has read what the swap or something later wrote, and so sees at least
//! the mark that was set before it.
//!
//! It does not ask [`GlobalQueue::len`]. That one counts an item a moment before it can be taken,
//! and a worker which believed it would search without end while the pusher is preempted in between.
//!
//! # What was rejected
//!
//! COMPARISON
//!
//! # Where it is checked
//!
//! `models::queue::global_*`, with the mutants `grq_*`; `queue/tests.rs`.
#![expect(unsafe_code, reason = "links items that the inbox owns")]

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::chain::set_next_of;
use super::{Batch, Linked, List, Padded};
use crate::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::{Mutex, MutexGuard};

/// An unbounded first-in, first-out queue for all threads.
#[derive(Debug)]
pub(crate) struct GlobalQueue<T: Linked> {
    inbox: Padded<Inbox>,
    /// How many items are in the list; at least one while the inbox is being carried over to it.
    /// Written by who holds the mutex.
    in_list: AtomicUsize,
    /// How many items were taken out so far. Written by who holds the mutex.
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

impl<T: Linked> GlobalQueue<T> {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        Self {
            inbox: Padded(Inbox {
                newest: AtomicPtr::new(ptr::null_mut()),
                pushed: AtomicUsize::new(0),
            }),
            in_list: AtomicUsize::new(0),
            popped: AtomicUsize::new(0),
            list: Mutex::new(List::new()),
            items: PhantomData,
        }
    }

    /// Pushes an item behind all others.
    pub(crate) fn push(&self, item: T) {
        let raw = item.into_raw();
        // SAFETY: the item is ours since `into_raw`.
        unsafe { self.push_chain(raw, raw, 1) };
    }

    /// Pushes the items of a batch in their order, with nothing between them.
    pub(crate) fn push_batch(&self, batch: Batch<T>) {
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
        self.inbox.pushed.fetch_add(len, Relaxed);
        let top = &self.inbox.newest;
        let mut below = top.load(Relaxed);
        loop {
            // SAFETY: the items are the caller's until the exchange succeeds. What is below is only
            // a word to us.
            unsafe { set_next_of::<T>(oldest, NonNull::new(below)) };
            // Ordering: `Release` pairs with the `Acquire` of the swap in `carry_over`: the items
            // and their links are visible to the popper (I10). Those further down are too, for each
            // exchange continues the release sequence of the ones before.
            match top.compare_exchange_weak(below, newest.as_ptr(), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => below = now,
            }
        }
    }

    /// Takes the oldest item.
    pub(crate) fn pop(&self) -> Option<T> {
        self.take(1).next()
    }

    /// Takes the oldest `max` items, or all if there are fewer, and gives them to `into` in their
    /// order, outside of the lock. Returns how many that were. A fair share is `len / workers + 1`.
    pub(crate) fn pop_batch(&self, max: usize, into: impl FnMut(T)) -> usize {
        let batch = self.take(max);
        let count = batch.len();
        batch.for_each(into);
        count
    }

    /// Takes the oldest `max` items, or all if there are fewer.
    pub(crate) fn take(&self, max: usize) -> List<T> {
        if self.is_empty() {
            return List::new();
        }
        let mut list = self.list.lock();
        if list.len() < max {
            self.carry_over(&mut list);
        }
        let batch = list.split_front(max);
        self.in_list.store(list.len(), Relaxed);
        let popped = self.popped.load(Relaxed).wrapping_add(batch.len());
        // Ordering: `Release` pairs with the `Acquire` in `len`: who sees these items taken sees
        // them pushed.
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
        // `Acquire` in `is_empty`: who sees the inbox empty sees `in_list` marked.
        let newest = self.inbox.newest.swap(ptr::null_mut(), AcqRel);
        if let Some(newest) = NonNull::new(newest) {
            // SAFETY: the swap made all items of the inbox ours. The first that was pushed into an
            // empty inbox links to nothing.
            unsafe { list.append_stack(newest) };
        }
    }

    /// How many items there are, or were a moment ago.
    pub(crate) fn len(&self) -> usize {
        // Ordering: `Acquire` pairs with the `Release` in `take`: `pushed` is no older.
        let popped = self.popped.load(Acquire);
        self.inbox.pushed.load(Relaxed).wrapping_sub(popped)
    }

    /// Whether there are none. See *Empty or not* above.
    pub(crate) fn is_empty(&self) -> bool {
        // Ordering: `Acquire` pairs with the `Release` half of the swap in `carry_over`.
        self.inbox.newest.load(Acquire).is_null() && self.in_list.load(Relaxed) == 0
    }
}

impl<T: Linked> Drop for GlobalQueue<T> {
    fn drop(&mut self) {
        self.take(usize::MAX).for_each(drop);
    }
}
