//! The handle's side of a cell: the right to its output.
//!
//! An unsafe island. What it may touch when is the table *Which thread may touch what* in
//! `state.rs`: the joiner's slot while `WAKER` is clear, the output once `DONE` is set.
#![allow(unsafe_code)]

use std::{
    fmt,
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull,
    task::{Context, Poll, Waker},
};

use super::{
    failure::Failure,
    joiner::Joiner,
    raw::Header,
    reference::{AbortRef, TaskRef, abort, task_of},
    state::{Detach, Register},
};

/// The right to a task's output.
pub(crate) struct JoinCell<T> {
    ptr: NonNull<Header>,
    phase: Phase,
    output: PhantomData<T>,
}

/// How far the handle has come: one word, so that a handle is two and moves in registers. A number
/// up to [`Phase::FOREIGN`]; or, while `WAKER` is set, the address of the task that has its own
/// waker in the slot.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Phase(usize);

impl Phase {
    /// It was not polled yet, or the slot is empty again.
    const NEW: Self = Self(0);
    /// The output was moved out.
    const TAKEN: Self = Self(1);
    /// The waker in the slot is no task's. Its two words are not kept, and so it is put there anew
    /// at every poll.
    const FOREIGN: Self = Self(2);

    fn waits_with(waker: &Waker) -> Self {
        task_of(waker).map_or(Self::FOREIGN, |address| Self(address.get()))
    }
}

// SAFETY: the output, and nothing else of the task's own, is reached through this; it may change
// its thread if it is `Send`.
unsafe impl<T: Send> Send for JoinCell<T> {}
// SAFETY: `&self` reaches the header's atomics only.
unsafe impl<T: Send> Sync for JoinCell<T> {}

impl<T> Unpin for JoinCell<T> {}

impl<T> JoinCell<T> {
    /// For the task at `ptr`. Its output is a `T`, and it counts a reference and a `JOIN` bit for
    /// this value.
    pub(super) fn new(ptr: NonNull<Header>) -> Self {
        Self {
            ptr,
            phase: Phase::NEW,
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

    /// One more reference that may abort the task, and not wake it.
    pub(crate) fn abort_ref(&self) -> AbortRef {
        AbortRef::new(self.task_ref())
    }

    pub(crate) fn is_done(&self) -> bool {
        self.header().state.load().is_done()
    }

    /// Marks the task as cancelled; see [`TaskRef::abort`].
    pub(crate) fn abort(&self) {
        abort(self.header());
    }

    /// The output, or `cx`'s waker is in the slot.
    ///
    /// # Panics
    ///
    /// If the output was taken already.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Failure>> {
        assert!(
            self.phase != Phase::TAKEN,
            "a `JoinHandle` was polled after it had given its output"
        );
        let header = self.header();
        if !header.state.load().is_done() && self.register(cx.waker()) == Register::Registered {
            return Poll::Pending;
        }
        self.phase = Phase::TAKEN;
        let mut output = MaybeUninit::<Result<T, Failure>>::uninit();
        // SAFETY: DONE and our JOIN bit make the output ours; the phase says that it is moved out;
        // `T` is the output's type by the constructors of this type.
        unsafe {
            let to = NonNull::new_unchecked(output.as_mut_ptr()).cast();
            (self.header().vtable.read_output)(self.ptr, to);
            Poll::Ready(output.assume_init())
        }
    }

    fn register(&mut self, waker: &Waker) -> Register {
        let phase = Phase::waits_with(waker);
        if self.phase == phase && phase != Phase::FOREIGN {
            return Register::Registered;
        }
        let fresh = Joiner::new(waker.clone());
        let before = std::mem::replace(&mut self.phase, Phase::NEW);
        if before != Phase::NEW && self.header().state.unregister() == Register::Done {
            // The slot is the runner's.
            return Register::Done;
        }
        // SAFETY: WAKER is clear: the slot is the handle's.
        let stale = unsafe { self.header().joiner.put(fresh) };
        self.header().account().registers();
        drop(stale);
        let answer = self.header().state.register();
        match answer {
            Register::Registered => self.phase = phase,
            Register::Done => self.drop_waker(),
        }
        answer
    }

    /// Empties the slot, which is the handle's.
    fn drop_waker(&self) {
        // SAFETY: callers have seen WAKER clear, or cleared it: the slot is the handle's.
        drop(unsafe { self.header().joiner.take() });
    }
}

impl<T> Drop for JoinCell<T> {
    fn drop(&mut self) {
        match self.header().state.detach() {
            Detach::Nothing => return,
            Detach::DropWaker => self.drop_waker(),
            Detach::DropOutput => {
                if self.phase != Phase::TAKEN {
                    self.header().id().runs(|| {
                        // SAFETY: DONE and our JOIN bit: the output is ours, and still there.
                        unsafe { (self.header().vtable.drop_output)(self.ptr) };
                    });
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
