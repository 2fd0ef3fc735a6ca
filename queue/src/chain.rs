//! Items that travel together, linked through the word that each of them brings along.
//!
//! There are two ways to link the same items, and each fits one end:
//!
//! ```text
//! Batch   newest -> ... -> oldest -> nil     grows at `newest`; becomes the top of a stack in O(1)
//! List    front (oldest) -> ... -> back -> nil       grows at `back`, taken from `front`: a FIFO
//! ```
//!
//! A [`Batch`] is what is given to the global queue: the inbox there is a stack. A [`List`] is what
//! is taken from it. To turn one into the other is one walk over the items.
//!
//! Both own their items: what is left in one when it is dropped is dropped with it.
//!
//! This is an island: the links are raw. Outside, a `Batch` and a `List` are plain owned values.
#![expect(unsafe_code, reason = "follows the links of items that the chain owns")]

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{Linked, sync::UnsafeCell};

/// Room for the link of an item that needs it for nothing else.
#[doc(hidden)]
#[derive(Debug)]
pub struct Link(UnsafeCell<Option<NonNull<()>>>);

impl Link {
    /// A link to nothing.
    #[expect(clippy::new_without_default, reason = "it is no value of its own")]
    pub fn new() -> Self {
        Self(UnsafeCell::new(None))
    }

    /// What is linked to.
    ///
    /// # Safety
    ///
    /// - The caller owns the item.
    pub unsafe fn get(&self) -> Option<NonNull<()>> {
        // SAFETY: the link is the owner's, so no other thread writes it meanwhile.
        self.0.with(|next| unsafe { *next })
    }

    /// Links to `next`.
    ///
    /// # Safety
    ///
    /// - The caller owns the item.
    pub unsafe fn set(&self, next: Option<NonNull<()>>) {
        // SAFETY: the link is the owner's, so no other thread reads or writes it meanwhile.
        self.0.with_mut(|link| unsafe { *link = next });
    }
}

/// Items in the order of a stack: built in any number of steps, pushed to the global queue in one.
#[derive(Debug)]
pub struct Batch<T: Linked> {
    newest: Option<NonNull<()>>,
    oldest: Option<NonNull<()>>,
    len: usize,
    items: PhantomData<T>,
}

// SAFETY: a batch is its items, and an `Item` is `Send`.
unsafe impl<T: Linked> Send for Batch<T> {}

impl<T: Linked> Batch<T> {
    /// A batch of nothing.
    pub const fn new() -> Self {
        Self {
            newest: None,
            oldest: None,
            len: 0,
            items: PhantomData,
        }
    }

    /// Adds an item behind all others.
    pub fn push(&mut self, item: T) {
        let raw = item.into_raw();
        // SAFETY: the item is ours since `into_raw`.
        unsafe { T::set_next(raw, self.newest) };
        self.oldest = self.oldest.or(Some(raw));
        self.newest = Some(raw);
        self.len += 1;
    }

    /// How many items there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Turns the batch round, so that its items can be taken from it, the oldest first.
    pub fn into_list(self) -> List<T> {
        let mut list = List::new();
        if let Some((newest, _)) = self.into_raw() {
            // SAFETY: a batch owns its items, and the last of them links to nothing.
            unsafe { list.append_stack(newest) };
        }
        list
    }

    /// Gives up the items: the newest and the oldest of a chain that the caller now owns.
    pub(super) fn into_raw(self) -> Option<(NonNull<()>, NonNull<()>)> {
        let ends = self.newest.zip(self.oldest);
        std::mem::forget(self);
        ends
    }
}

impl<T: Linked> Default for Batch<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Linked> Extend<T> for Batch<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T: Linked> FromIterator<T> for Batch<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut batch = Self::new();
        batch.extend(items);
        batch
    }
}

impl<T: Linked> IntoIterator for Batch<T> {
    type Item = T;
    type IntoIter = List<T>;

    fn into_iter(self) -> List<T> {
        self.into_list()
    }
}

impl<T: Linked> Drop for Batch<T> {
    fn drop(&mut self) {
        drop(std::mem::take(self).into_list());
    }
}

/// Items in the order of a queue: iterating takes them out, the oldest first.
#[derive(Debug)]
pub struct List<T: Linked> {
    front: Option<NonNull<()>>,
    back: Option<NonNull<()>>,
    len: usize,
    items: PhantomData<T>,
}

// SAFETY: a list is its items, and an `Item` is `Send`.
unsafe impl<T: Linked> Send for List<T> {}

impl<T: Linked> List<T> {
    /// A list of nothing.
    pub const fn new() -> Self {
        Self {
            front: None,
            back: None,
            len: 0,
            items: PhantomData,
        }
    }

    /// Adds an item behind all others.
    pub(super) fn push(&mut self, item: T) {
        let raw = item.into_raw();
        // SAFETY: the item is ours since `into_raw`.
        unsafe { T::set_next(raw, None) };
        match self.back {
            // SAFETY: the list owns its items.
            Some(back) => unsafe { T::set_next(back, Some(raw)) },
            None => self.front = Some(raw),
        }
        self.back = Some(raw);
        self.len += 1;
    }

    /// Adds another list behind this one.
    pub(super) fn append(&mut self, mut other: Self) {
        let Some(first) = other.front.take() else {
            return;
        };
        match self.back {
            // SAFETY: the list owns its items, and those of `other` from here on.
            Some(back) => unsafe { T::set_next(back, Some(first)) },
            None => self.front = Some(first),
        }
        self.back = other.back;
        self.len += other.len;
        // It has nothing any more.
        std::mem::forget(other);
    }

    /// Takes the first `n` items, or all if there are not as many.
    pub(super) fn split_front(&mut self, n: usize) -> Self {
        if n >= self.len {
            return std::mem::take(self);
        }
        let mut head = Self::new();
        let Some(mut last) = self.front.filter(|_| n > 0) else {
            return head;
        };
        for _ in 1..n {
            // SAFETY: the list owns its items, and there are more than `n`.
            last = unsafe { T::next(last) }.expect("a list is as long as it says");
        }
        head.front = self.front;
        head.back = Some(last);
        head.len = n;
        // SAFETY: the list owns its items.
        self.front = unsafe { T::next(last) };
        self.len -= n;
        // SAFETY: the list owned this item, and `head` owns it now.
        unsafe { T::set_next(last, None) };
        head
    }

    /// Takes items from the front: `max` of them, or all if there are fewer, or those up to the
    /// first that is `last`.
    pub(super) fn split_until(&mut self, max: usize, last: impl Fn(&T) -> bool) -> Self {
        let mut head = Self::new();
        while head.len < max
            && let Some(item) = self.next()
        {
            let ends = last(&item);
            head.push(item);
            if ends {
                break;
            }
        }
        head
    }

    /// Takes the first that is `wanted` out of the first `within`: a list of one, or of none.
    pub(super) fn split_first(&mut self, within: usize, wanted: impl Fn(&T) -> bool) -> Self {
        let mut front = self.split_front(within);
        let mut passed = Self::new();
        let mut found = Self::new();
        while found.len == 0
            && let Some(item) = front.next()
        {
            if wanted(&item) {
                found.push(item);
            } else {
                passed.push(item);
            }
        }
        passed.append(front);
        passed.append(std::mem::take(self));
        *self = passed;
        found
    }

    /// Appends a stack, its bottom first. Returns how many items that were.
    ///
    /// # Safety
    ///
    /// - `top` is an item of the caller's that links to another one of the caller's, and so on; the
    ///   last links to nothing. The list owns them from here on.
    pub(super) unsafe fn append_stack(&mut self, top: NonNull<()>) -> usize {
        let mut bottom = None;
        let mut rest = Some(top);
        let mut count = 0;
        while let Some(item) = rest {
            // SAFETY: the caller gave us all items of the stack.
            rest = unsafe { T::next(item) };
            // SAFETY: as above.
            unsafe { T::set_next(item, bottom) };
            bottom = Some(item);
            count += 1;
        }
        match self.back {
            // SAFETY: the list owns its items.
            Some(back) => unsafe { T::set_next(back, bottom) },
            None => self.front = bottom,
        }
        self.back = Some(top);
        self.len += count;
        count
    }
}

impl<T: Linked> Default for List<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Linked> Iterator for List<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let front = self.front?;
        // SAFETY: the list owns its items.
        self.front = unsafe { T::next(front) };
        if self.front.is_none() {
            self.back = None;
        }
        self.len -= 1;
        // SAFETY: the list owned this item and no longer refers to it.
        Some(unsafe { T::from_raw(front) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}

impl<T: Linked> ExactSizeIterator for List<T> {}

impl<T: Linked> Drop for List<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
