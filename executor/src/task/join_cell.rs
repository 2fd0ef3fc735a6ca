//! The handle's side of a cell: the right to its output.
//!
//! An unsafe island. What it may touch when is the table *Who may touch what* in `state.rs`: the
//! joiner's slot while `WAKER` is clear, the output once `DONE` is set.
#![allow(unsafe_code)]

use std::{
    fmt,
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull,
    task::{Context, Poll, RawWakerVTable, Waker},
};

use super::{
    failure::Failure,
    joiner::Joiner,
    raw::{Header, Task},
    reference::{TaskRef, schedule},
    state::{Detach, Register, Wake},
};

/// The right to a task's output.
pub(crate) struct JoinCell<T> {
    ptr: NonNull<Header>,
    /// The output was moved out.
    taken: bool,
    /// The two words of the waker in the slot, while `WAKER` is set.
    waker: Option<(*const (), &'static RawWakerVTable)>,
    output: PhantomData<T>,
}

// SAFETY: the output, and nothing else of the task's own, is reached through this; it may change
// its thread if it is `Send`. The waker's words are only compared.
unsafe impl<T: Send> Send for JoinCell<T> {}
// SAFETY: `&self` reaches the header's atomics only.
unsafe impl<T: Send> Sync for JoinCell<T> {}

impl<T> Unpin for JoinCell<T> {}

impl<T> JoinCell<T> {
    /// For the task at `ptr`, whose output is a `T`, and which counts a reference and a `JOIN` bit for
    /// this value.
    pub(super) fn new(ptr: NonNull<Header>) -> Self {
        Self {
            ptr,
            taken: false,
            waker: None,
            output: PhantomData,
        }
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: we hold a reference.
        unsafe { self.ptr.as_ref() }
    }

    /// One more plain reference.
    pub(crate) fn task_ref(&self) -> TaskRef {
        self.header().state.add_reference();
        TaskRef(self.ptr)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.header().state.load().is_done()
    }

    /// Marks the task as cancelled; see [`TaskRef::abort`].
    pub(crate) fn abort(&self) {
        if self.header().state.transition_to_cancelled() == Wake::Queue {
            schedule(Task(self.ptr));
        }
    }

    /// The output, or `cx`'s waker is in the slot.
    ///
    /// # Panics
    ///
    /// If the output was taken already.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Failure>> {
        assert!(
            !self.taken,
            "a `JoinHandle` was polled after it had given its output"
        );
        let header = self.header();
        if !header.state.load().is_done() && self.register(cx.waker()) == Register::Registered {
            return Poll::Pending;
        }
        self.taken = true;
        let mut output = MaybeUninit::<Result<T, Failure>>::uninit();
        // SAFETY: DONE and our JOIN bit make the output ours; `taken` says that it is moved out; `T`
        // is the output's type by the constructors of this type.
        unsafe {
            let to = NonNull::new_unchecked(output.as_mut_ptr()).cast();
            (self.header().vtable.read_output)(self.ptr, to);
            Poll::Ready(output.assume_init())
        }
    }

    fn register(&mut self, waker: &Waker) -> Register {
        if let Some((data, vtable)) = self.waker
            && data == waker.data()
            && std::ptr::eq(vtable, waker.vtable())
        {
            return Register::Registered;
        }
        let kept = waker.clone();
        // Those of the clone: they stay that waker's own for as long as it is in the slot. The words of
        // the waker that was lent to us may be another's at the next poll.
        let words = (kept.data(), kept.vtable());
        let fresh = Joiner::new(kept);
        if self.waker.take().is_some() && self.header().state.unregister() == Register::Done {
            // The slot is the runner's.
            return Register::Done;
        }
        // SAFETY: WAKER is clear: the slot is the handle's.
        let stale = self
            .header()
            .joiner
            .with_mut(|slot| unsafe { (*slot).replace(fresh) });
        drop(stale);
        let answer = self.header().state.register();
        match answer {
            Register::Registered => self.waker = Some(words),
            Register::Done => self.drop_waker(),
        }
        answer
    }

    /// Empties the slot, which is the handle's.
    fn drop_waker(&self) {
        // SAFETY: callers have seen WAKER clear, or cleared it: the slot is the handle's.
        drop(
            self.header()
                .joiner
                .with_mut(|slot| unsafe { (*slot).take() }),
        );
    }
}

impl<T> Drop for JoinCell<T> {
    fn drop(&mut self) {
        match self.header().state.detach() {
            Detach::Nothing => return,
            Detach::DropWaker => self.drop_waker(),
            Detach::DropOutput => {
                if !self.taken {
                    // SAFETY: DONE and our JOIN bit: the output is ours, and still there.
                    unsafe { (self.header().vtable.drop_output)(self.ptr) };
                }
            }
        }
        drop(TaskRef(self.ptr));
    }
}

impl<T> fmt::Debug for JoinCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header().fmt(f)
    }
}
