//! Why a task has no output, in one word, so that the cell of a small future does not grow for it.
#![expect(unsafe_code, reason = "a sentinel in place of a discriminant")]

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
};

type Payload = Box<dyn Any + Send + 'static>;

/// Drops the payload of a panic that no code will look at. Its drop is the user's, and may panic as
/// well: then the payload of that is given up. So what leaks is what insists on it, and not every
/// payload.
pub(crate) fn discard(payload: Payload) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        mem::forget(another);
    }
}

/// A panic's payload, boxed once more, or the address of [`CANCELLED`].
pub(crate) struct Failure(NonNull<Payload>);

/// Aligned as a payload's box is; never read.
static CANCELLED: u128 = 0;

// SAFETY: it owns a `Send` payload, or nothing.
unsafe impl Send for Failure {}

impl Failure {
    /// The task was cancelled.
    pub(crate) fn cancelled() -> Self {
        Self(NonNull::from(&CANCELLED).cast())
    }

    /// The task panicked.
    pub(crate) fn panic(payload: Payload) -> Self {
        Self(NonNull::from(Box::leak(Box::new(payload))))
    }

    pub(crate) fn is_panic(&self) -> bool {
        self.0 != Self::sentinel()
    }

    /// The payload, unless it was cancelled.
    pub(crate) fn into_panic(self) -> Option<Payload> {
        let ptr = mem::ManuallyDrop::new(self).0;
        // SAFETY: anything but the sentinel came from the box in `panic`, and is given up here.
        (ptr != Self::sentinel()).then(|| *unsafe { Box::from_raw(ptr.as_ptr()) })
    }

    fn sentinel() -> NonNull<Payload> {
        NonNull::from(&CANCELLED).cast()
    }
}

impl Drop for Failure {
    fn drop(&mut self) {
        if self.is_panic() {
            // SAFETY: as in `into_panic`.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_word_also_as_a_result() {
        assert_eq!(size_of::<Result<(), Failure>>(), size_of::<usize>());
    }

    #[test]
    fn a_payload_comes_back_and_a_cancel_has_none() {
        assert!(!Failure::cancelled().is_panic());
        assert!(Failure::cancelled().into_panic().is_none());
        let failure = Failure::panic(Box::new(7_i32));
        assert!(failure.is_panic());
        assert_eq!(failure.into_panic().unwrap().downcast_ref(), Some(&7_i32));
        let payload = std::sync::Arc::new(());
        drop(Failure::panic(Box::new(payload.clone())));
        assert_eq!(std::sync::Arc::strong_count(&payload), 1, "it is dropped");
    }

    #[test]
    fn a_payload_that_panics_when_it_is_dropped_harms_nobody() {
        struct Spiteful;

        impl Drop for Spiteful {
            fn drop(&mut self) {
                std::panic::resume_unwind(Box::new(Spiteful));
            }
        }

        discard(Box::new(Spiteful));
    }
}
