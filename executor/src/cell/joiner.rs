//! The one that waits for a task, in one word.
//!
//! Mostly that is another task of ours, and its waker is known by its table of functions. Then the
//! word is that task's address, and stands for a reference. The same holds for a thread in
//! `block_on`, whose table is told to this file ([`knows`]). Any other waker is put into a box.
//!
//! Such a waker is code of the user's. If its drop panics, that is reported and goes no further
//! (S6): code that drops a [`Joiner`] has a reference or an output to give on.
//!
//! # The slot
//!
//! A task's cell has a slot for its joiner. In `state.rs`, the table *Which thread may touch what*
//! has the threads that may use it. Any thread may read the address in it, as a number only. So the
//! word is an atomic of the standard library, as in an account (`account.rs`). In the models, a
//! cell beside it notices if two threads use the slot at once.
#![expect(
    unsafe_code,
    reason = "a tagged pointer, and a waker that is taken apart"
)]

use std::{
    mem::ManuallyDrop,
    ptr::{self, NonNull},
    sync::{
        OnceLock,
        atomic::{AtomicPtr, Ordering::Relaxed},
    },
    task::{RawWaker, RawWakerVTable, Waker},
};

use super::{
    raw::drop_waker_quietly,
    reference::{WAKER, task_of},
};
use crate::sync::UnsafeCell;

/// Set on the address of a boxed waker.
const BOXED: usize = 1;
/// Set on the data of a waker with the functions in [`KNOWN`].
const OF_A_THREAD: usize = 2;
/// Without any of them the address is that of a task.
const TAGS: usize = BOXED | OF_A_THREAD;

/// The functions of the wakers of threads in `block_on`.
static KNOWN: OnceLock<&'static RawWakerVTable> = OnceLock::new();

/// Takes note of these functions. The data of wakers that have them is an address whose last two
/// bits are clear. The first table that is told stays.
pub(crate) fn knows(table: &'static RawWakerVTable) {
    KNOWN.get_or_init(|| table);
}

/// The functions of a waker, if they are those that were told and its data has room for the tag.
fn known(waker: &Waker) -> bool {
    KNOWN
        .get()
        .is_some_and(|&known| ptr::eq(waker.vtable(), known))
        && waker.data().addr() & TAGS == 0
}

/// See the module's head.
pub(crate) struct Joiner(NonNull<()>);

// SAFETY: it is a waker, which is `Send` and `Sync`.
unsafe impl Send for Joiner {}
// SAFETY: as above.
unsafe impl Sync for Joiner {}

impl Joiner {
    /// Keeps `waker`.
    pub(crate) fn new(waker: Waker) -> Self {
        let task = task_of(&waker).and_then(|_| NonNull::new(waker.data().cast_mut()));
        if let Some(task) = task {
            // Its reference is the word's from here on.
            std::mem::forget(waker);
            return Self(task);
        }
        if known(&waker)
            && let Some(data) = NonNull::new(waker.data().cast_mut())
        {
            std::mem::forget(waker);
            return Self(data.map_addr(|address| address | OF_A_THREAD));
        }
        let boxed = NonNull::from(Box::leak(Box::new(waker)));
        Self(boxed.cast::<()>().map_addr(|address| address | BOXED))
    }

    /// The waker again.
    pub(crate) fn into_waker(self) -> Waker {
        let word = ManuallyDrop::new(self).0;
        let tag = word.addr().get() & TAGS;
        if tag == OF_A_THREAD {
            let table = KNOWN.get().expect("the tag was set by it");
            let data = word.as_ptr().map_addr(|address| address & !TAGS);
            // SAFETY: the word is the data of a waker with these functions, which never change, and
            // holds its reference.
            return unsafe { Waker::from_raw(RawWaker::new(data, table)) };
        }
        if tag == 0 {
            // SAFETY: the word is the data of a waker with these functions, and holds its
            // reference.
            return unsafe { Waker::from_raw(RawWaker::new(word.as_ptr(), &WAKER)) };
        }
        let boxed = word
            .as_ptr()
            .map_addr(|address| address & !BOXED)
            .cast::<Waker>();
        // SAFETY: a tagged word is the box that `new` leaked, and it is given up here.
        *unsafe { Box::from_raw(boxed) }
    }
}

#[cfg(test)]
impl Joiner {
    pub(crate) fn is_boxed(&self) -> bool {
        self.0.addr().get() & BOXED != 0
    }
}

impl Drop for Joiner {
    fn drop(&mut self) {
        drop_waker_quietly(Self(self.0).into_waker()); // `into_waker` forgets the value that it takes
    }
}

/// See *The slot* in the module's head.
pub(super) struct JoinerSlot {
    word: AtomicPtr<()>,
    used: UnsafeCell<()>,
}

impl JoinerSlot {
    pub(super) fn new() -> Self {
        Self {
            word: AtomicPtr::new(ptr::null_mut()),
            used: UnsafeCell::new(()),
        }
    }

    /// Puts a joiner there. The one before comes back.
    ///
    /// # Safety
    ///
    /// - The slot is the caller's.
    pub(super) unsafe fn put(&self, joiner: Joiner) -> Option<Joiner> {
        self.used.with_mut(|_| {
            let before = NonNull::new(self.word.load(Relaxed)).map(Joiner);
            let word = ManuallyDrop::new(joiner).0;
            self.word.store(word.as_ptr(), Relaxed);
            before
        })
    }

    /// Empties the slot.
    ///
    /// # Safety
    ///
    /// - The slot is the caller's.
    pub(super) unsafe fn take(&self) -> Option<Joiner> {
        self.used.with_mut(|_| {
            let word = NonNull::new(self.word.load(Relaxed))?;
            self.word.store(ptr::null_mut(), Relaxed);
            Some(Joiner(word))
        })
    }

    /// The address of the task that is in it, or was a moment ago.
    pub(super) fn task(&self) -> Option<usize> {
        let address = self.word.load(Relaxed).addr();
        (address != 0 && address & TAGS == 0).then_some(address)
    }
}

impl Drop for JoinerSlot {
    fn drop(&mut self) {
        drop(NonNull::new(*self.word.get_mut()).map(Joiner));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Nothing;

    impl std::task::Wake for Nothing {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_foreign_waker_comes_back_and_is_dropped_once() {
        assert_eq!(size_of::<Option<Joiner>>(), size_of::<usize>());
        let inner = Arc::new(Nothing);
        let waker = Waker::from(inner.clone());
        let joiner = Joiner::new(waker.clone());
        assert_eq!(Arc::strong_count(&inner), 3);
        drop(joiner);
        assert_eq!(Arc::strong_count(&inner), 2);
        let again = Joiner::new(waker.clone()).into_waker();
        assert!(again.will_wake(&waker));
        drop((again, waker));
        assert_eq!(Arc::strong_count(&inner), 1);
    }
}
