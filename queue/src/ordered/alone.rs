//! The ordered queue of a P and the one that all share, put together for threads without a runtime:
//! [the module above](super) is its documentation.
#![expect(unsafe_code, reason = "an entry is a box with a link")]

use std::{cell::Cell, fmt, ptr::NonNull, sync::Arc};

use super::{Ordered, OrderedLocal, OrderedShared, OrderedStealer, ordered_local};
use crate::{
    Item, Link, Linked,
    rng::{Rng, random_order},
};

/// So many entries of its own a [`Local`] gives before the shared queue has its turn.
pub const LOCAL_MAX: u32 = 60;

/// The most that is taken out of the shared queue at once. Guessed: a quarter of a thread's own
/// queue.
const SHARE_MAX: usize = 64;

/// A value on its way through a queue. It may go through it again, and allocates only once.
///
/// ```
/// use ws_queue::ordered::{Entry, Queue};
///
/// let (_, locals) = Queue::new(1);
/// locals[0].push(Entry::new(1, String::from("try")));
/// // It failed: once more, and later.
/// let mut entry = locals[0].pop().unwrap();
/// entry.value_mut().push_str(" again");
/// entry.set_priority(entry.priority() - 1);
/// locals[0].push(entry);
/// assert_eq!(locals[0].pop().unwrap().into_value(), "try again");
/// ```
pub struct Entry<T>(Box<EntryCell<T>>);

struct EntryCell<T> {
    priority: i64,
    next: Link,
    value: T,
}

impl<T> Entry<T> {
    /// An entry with this priority: the greater, the earlier.
    pub fn new(priority: i64, value: T) -> Self {
        Self(Box::new(EntryCell {
            priority,
            next: Link::new(),
            value,
        }))
    }

    /// Its priority.
    pub fn priority(&self) -> i64 {
        self.0.priority
    }

    /// Changes its priority: the holder of the entry may, so it is in no queue.
    pub fn set_priority(&mut self, priority: i64) {
        self.0.priority = priority;
    }

    /// Its value.
    pub fn value(&self) -> &T {
        &self.0.value
    }

    /// Its value, to be changed.
    pub fn value_mut(&mut self) -> &mut T {
        &mut self.0.value
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

// SAFETY: the link is a field of the box, and only the queue uses it.
unsafe impl<T: Send + 'static> Linked for Entry<T> {
    unsafe fn next(raw: NonNull<()>) -> Option<NonNull<()>> {
        // SAFETY: by contract the entry was not given back, and the caller owns it.
        unsafe { raw.cast::<EntryCell<T>>().as_ref().next.get() }
    }

    unsafe fn set_next(raw: NonNull<()>, next: Option<NonNull<()>>) {
        // SAFETY: as in `next`.
        unsafe { raw.cast::<EntryCell<T>>().as_ref().next.set(next) }
    }
}

impl<T: Send + 'static> Ordered for Entry<T> {
    fn priority(&self) -> i64 {
        self.0.priority
    }
}

/// What all threads share. A clone is the same queue, for one more thread that has no [`Local`].
///
/// What is in it when the last clone and the last [`Local`] are gone is dropped.
#[derive(Debug)]
pub struct Queue<T: Send + 'static> {
    parts: Arc<Parts<T>>,
}

impl<T: Send + 'static> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            parts: self.parts.clone(),
        }
    }
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
    /// use ws_queue::ordered::{Entry, Queue};
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

    /// Pushes from a thread that has no [`Local`]: behind its equals in the shared queue.
    ///
    /// ```
    /// use ws_queue::ordered::{Entry, Queue};
    ///
    /// let (queue, locals) = Queue::new(1);
    /// std::thread::spawn(move || queue.push(Entry::new(0, "from elsewhere"))).join().unwrap();
    /// assert_eq!(locals[0].pop().unwrap().into_value(), "from elsewhere");
    /// ```
    pub fn push(&self, entry: Entry<T>) {
        self.parts.shared.push(entry);
    }

    /// How many entries are in the shared queue, or were a moment ago.
    ///
    /// ```
    /// use ws_queue::ordered::{Entry, Queue};
    ///
    /// let (queue, locals) = Queue::new(1);
    /// queue.push(Entry::new(0, ()));
    /// locals[0].push(Entry::new(0, ()));
    /// assert_eq!((queue.len(), locals[0].len()), (1, 1));
    /// ```
    pub fn len(&self) -> usize {
        self.parts.shared.len()
    }

    /// Whether the shared queue has none, or had none a moment ago. The locals may have some.
    pub fn is_empty(&self) -> bool {
        self.parts.shared.is_empty()
    }
}

/// One thread's end: `Send`, but not `Sync`.
///
/// What is in it when it is dropped stays, and the others steal it.
///
/// ```
/// use ws_queue::ordered::{Entry, Queue};
///
/// let (_, mut locals) = Queue::new(2);
/// let local = locals.remove(0);
/// local.push(Entry::new(0, "left behind"));
/// drop(local);
/// assert_eq!(locals[0].pop().unwrap().into_value(), "left behind");
/// ```
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
    /// Pushes an entry behind its equals. If there is no room, the lower half goes to the shared
    /// queue, and this entry to where its priority belongs (O2).
    ///
    /// ```
    /// use ws_queue::ordered::{Entry, Queue};
    ///
    /// let (queue, locals) = Queue::new(1);
    /// for number in 0..1_000 {
    ///     locals[0].push(Entry::new(0, number));
    /// }
    /// assert_eq!(locals[0].len() + queue.len(), 1_000);
    /// locals[0].push(Entry::new(1, 1_000));
    /// assert_eq!(locals[0].pop().unwrap().into_value(), 1_000);
    /// ```
    pub fn push(&self, entry: Entry<T>) {
        if let Err(batch) = self.own.push(entry) {
            self.parts.shared.push_batch(batch);
        }
    }

    /// Takes the next entry, if any is found: see [the module](super#what-a-pop-takes) for which
    /// that is.
    ///
    /// ```
    /// use ws_queue::ordered::{Entry, Queue};
    ///
    /// let (_, locals) = Queue::new(1);
    /// for (priority, name) in [(-5, "low"), (7, "first"), (7, "second")] {
    ///     locals[0].push(Entry::new(priority, name));
    /// }
    /// let order = std::iter::from_fn(|| locals[0].pop()).map(Entry::into_value);
    /// assert!(order.eq(["first", "second", "low"]));
    /// ```
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

    /// How many entries are in here, or were a moment ago: others steal.
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// Whether there are none in here. Others may make it so at any time.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }
}
