//! The ordered queue by itself, without a runtime: ordered work stealing for threads of your own.
//!
//! Each thread has a [`Local`], which is bounded and sorted; all share a [`Queue`], which is not bounded.
//! What a pop takes, in this order (O1, O3, O4):
//!
//! 1. after [`LOCAL_MAX`] entries of its own in a row, the highest of the shared queue;
//! 2. the highest of its own, the oldest among equals;
//! 3. the highest of the upper half of a random victim's, and the rest of that half for later;
//! 4. the highest of the shared queue.
//!
//! The scheduler is made of the same parts, and looks in its own order (`sched/priority.rs`).
#![expect(unsafe_code, reason = "an entry is a box with a link")]

use std::{cell::Cell, fmt, ptr::NonNull, sync::Arc};

use super::{Ordered, OrderedLocal, OrderedShared, OrderedStealer, ordered_local};
use crate::{
    queue::{Item, Linked},
    rng::{Rng, random_order},
    sync::UnsafeCell,
};

/// So many entries of its own a [`Local`] gives before the shared queue has its turn.
pub const LOCAL_MAX: u32 = 60;

/// The most that is taken out of the shared queue at once. Guessed: a quarter of a thread's own queue.
const SHARE_MAX: usize = 64;

/// A value on its way through the queue. It may go through it again, and allocates only once.
pub struct Entry<T>(Box<EntryCell<T>>);

struct EntryCell<T> {
    priority: i64,
    next: UnsafeCell<Option<NonNull<()>>>,
    value: T,
}

impl<T> Entry<T> {
    /// An entry with this priority: the greater, the earlier.
    pub fn new(priority: i64, value: T) -> Self {
        Self(Box::new(EntryCell {
            priority,
            next: UnsafeCell::new(None),
            value,
        }))
    }

    /// Its priority.
    pub fn priority(&self) -> i64 {
        self.0.priority
    }

    /// Changes its priority.
    pub fn set_priority(&mut self, priority: i64) {
        self.0.priority = priority;
    }

    /// Its value.
    pub fn value(&self) -> &T {
        &self.0.value
    }

    /// The value alone.
    pub fn into_value(self) -> T {
        self.0.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("priority", &self.0.priority)
            .field("value", &self.0.value)
            .finish()
    }
}

// SAFETY: an entry is its value, a number, and a link that only the queue uses that owns the entry.
unsafe impl<T: Send> Send for Entry<T> {}
// SAFETY: by reference one reaches the number and the value; the link is the queue's.
unsafe impl<T: Sync> Sync for Entry<T> {}

// SAFETY: the pointer is that of the box.
unsafe impl<T: Send + 'static> Item for Entry<T> {
    fn into_raw(self) -> NonNull<()> {
        NonNull::from(Box::leak(self.0)).cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: by contract it comes from `into_raw`, once.
        Self(unsafe { Box::from_raw(raw.cast().as_ptr()) })
    }
}

// SAFETY: the link is a field of the box, and nobody but the queue uses it.
unsafe impl<T: Send + 'static> Linked for Entry<T> {
    unsafe fn next<'a>(raw: NonNull<()>) -> &'a UnsafeCell<Option<NonNull<()>>> {
        // SAFETY: by contract the entry was not given back.
        unsafe { &raw.cast::<EntryCell<T>>().as_ref().next }
    }
}

impl<T: Send + 'static> Ordered for Entry<T> {
    fn priority(&self) -> i64 {
        self.0.priority
    }
}

/// What all threads share.
#[derive(Debug)]
pub struct Queue<T: Send + 'static> {
    parts: Arc<Parts<T>>,
}

struct Parts<T: Send + 'static> {
    shared: OrderedShared<Entry<T>>,
    stealers: Box<[OrderedStealer<Entry<T>>]>,
}

impl<T: Send + 'static> fmt::Debug for Parts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("shared", &self.shared.len())
            .field("locals", &self.stealers.len())
            .finish()
    }
}

impl<T: Send + 'static> Queue<T> {
    /// A queue, and the ends of so many threads.
    ///
    /// ```
    /// use ws_executor::ordered::{Entry, Queue};
    ///
    /// let (queue, locals) = Queue::new(2);
    /// locals[0].push(Entry::new(1, "low"));
    /// locals[0].push(Entry::new(5, "high"));
    /// queue.push(Entry::new(3, "middle"));
    /// // The other one has nothing: it steals the upper half, and then takes what is shared.
    /// assert_eq!(locals[1].pop().unwrap().into_value(), "high");
    /// assert_eq!(locals[0].pop().unwrap().into_value(), "low");
    /// assert_eq!(locals[1].pop().unwrap().into_value(), "middle");
    /// assert!(locals[0].pop().is_none());
    /// ```
    pub fn new(locals: usize) -> (Self, Vec<Local<T>>) {
        let (owners, stealers): (Vec<_>, Vec<_>) = (0..locals).map(|_| ordered_local()).unzip();
        let parts = Arc::new(Parts {
            shared: OrderedShared::new(),
            stealers: stealers.into(),
        });
        let locals = owners.into_iter().enumerate().map(|(index, own)| Local {
            own,
            index,
            taken: Cell::new(0),
            rng: Rng::new(0, index as u64),
            parts: parts.clone(),
        });
        let locals = locals.collect();
        (Self { parts }, locals)
    }

    /// Pushes from a thread that has no [`Local`].
    pub fn push(&self, entry: Entry<T>) {
        self.parts.shared.push(entry);
    }

    /// How many entries are in the shared queue.
    pub fn len(&self) -> usize {
        self.parts.shared.len()
    }

    /// Whether the shared queue has none.
    pub fn is_empty(&self) -> bool {
        self.parts.shared.is_empty()
    }
}

/// One thread's end.
#[derive(Debug)]
pub struct Local<T: Send + 'static> {
    own: OrderedLocal<Entry<T>>,
    index: usize,
    /// Entries of its own since the shared queue had its turn.
    taken: Cell<u32>,
    rng: Rng,
    parts: Arc<Parts<T>>,
}

impl<T: Send + 'static> Local<T> {
    /// Pushes an entry behind its equals. If there is no room, the lower half goes to the shared queue,
    /// and this entry to where its priority belongs (O2).
    pub fn push(&self, entry: Entry<T>) {
        if let Err(batch) = self.own.push(entry) {
            self.parts.shared.push_batch(batch);
        }
    }

    /// Takes the next entry; see the module's head for which that is.
    pub fn pop(&self) -> Option<Entry<T>> {
        if self.taken.get() >= LOCAL_MAX {
            self.taken.set(0);
            if let Some(entry) = self.parts.shared.pop() {
                return Some(entry);
            }
        }
        if let Some(entry) = self.own.pop() {
            self.taken.set(self.taken.get() + 1);
            return Some(entry);
        }
        self.taken.set(0);
        self.steal().or_else(|| self.take_shared())
    }

    /// The highest of the shared queue, and a share of it for later.
    fn take_shared(&self) -> Option<Entry<T>> {
        let shared = &self.parts.shared;
        let share = shared.len() / self.parts.stealers.len() + 1;
        let (_, levels) = self.own.room();
        let mut taken = shared.take(i64::MIN, share.min(SHARE_MAX), levels.saturating_sub(1));
        let first = taken.next();
        taken.for_each(|entry| self.push(entry));
        first
    }

    fn steal(&self) -> Option<Entry<T>> {
        random_order(&self.rng, self.parts.stealers.len())
            .filter(|&victim| victim != self.index)
            .find_map(|victim| self.parts.stealers[victim].steal(|entry| self.push(entry)))
    }

    /// How many entries are in here.
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// Whether there are none in here.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }
}
