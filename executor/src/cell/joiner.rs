//! The one that waits for a task, in one word.
//!
//! Mostly that is another task of ours, and its waker is known by its table of functions. Then the
//! word is that task's address, and stands for a reference. Any other waker is put into a box.
//!
//! Such a waker is code of the user's. If its drop panics, that is reported and goes no further
//! (S6): code that drops a [`Joiner`] has a reference or an output to give on.
#![expect(
    unsafe_code,
    reason = "a tagged pointer, and a waker that is taken apart"
)]

use std::{
    mem::ManuallyDrop,
    ptr::NonNull,
    task::{RawWaker, Waker},
};

use super::{
    raw::drop_waker_quietly,
    reference::{WAKER, task_of},
};

/// Set on the address of a boxed waker; without it the address is that of a task.
const BOXED: usize = 1;

/// See the module's head.
pub(super) struct Joiner(NonNull<()>);

// SAFETY: it is a waker, which is `Send` and `Sync`.
unsafe impl Send for Joiner {}
// SAFETY: as above.
unsafe impl Sync for Joiner {}

impl Joiner {
    /// Keeps `waker`.
    pub(super) fn new(waker: Waker) -> Self {
        let task = task_of(&waker).and_then(|_| NonNull::new(waker.data().cast_mut()));
        if let Some(task) = task {
            // Its reference is the word's from here on.
            std::mem::forget(waker);
            return Self(task);
        }
        let boxed = NonNull::from(Box::leak(Box::new(waker)));
        Self(boxed.cast::<()>().map_addr(|address| address | BOXED))
    }

    /// The waker again.
    pub(super) fn into_waker(self) -> Waker {
        let word = ManuallyDrop::new(self).0;
        let address = word.addr().get();
        if address & BOXED == 0 {
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

impl Drop for Joiner {
    fn drop(&mut self) {
        drop_waker_quietly(Self(self.0).into_waker()); // `into_waker` forgets the value that it takes
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
