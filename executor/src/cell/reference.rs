//! Counted references to a task: to look at it, to wake it, to abort it.
//!
//! An unsafe island. A `Waker` of a task is such a reference, and nothing more: its data is the
//! header's address, and its functions are steps of the state word. What a reference reaches are
//! the header's atomics and its immutable fields.
#![allow(unsafe_code)]

use std::{
    fmt,
    mem::ManuallyDrop,
    num::NonZeroUsize,
    ptr::NonNull,
    task::{RawWaker, RawWakerVTable, Waker},
};

use super::{
    live::Reference,
    raw::{Header, Task},
    state::Wake,
    traced,
};
use crate::queue::Item;

/// A counted reference.
pub(crate) struct TaskRef(pub(super) NonNull<Header>);

// SAFETY: through a reference one reaches only the atomics and the immutable fields of the header.
// The last reference frees a cell when its future and output are gone.
unsafe impl Send for TaskRef {}
// SAFETY: as above; every method takes `&self` and is a single atomic step.
unsafe impl Sync for TaskRef {}

impl TaskRef {
    /// The address of its cell, to be compared.
    pub(crate) fn number(&self) -> usize {
        self.0.addr().get()
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: we hold a reference.
        unsafe { self.0.as_ref() }
    }

    /// Marks the task as cancelled. If it was idle, it is queued from now on, and the caller
    /// decides how it comes to a thread that drops it.
    #[must_use]
    pub(crate) fn cancel(&self) -> Option<Task> {
        match self.header().state.transition_to_cancelled() {
            Wake::Queue => Some(Task(self.0)),
            Wake::Nothing | Wake::Free => None,
        }
    }

    /// Marks the task as cancelled; a worker drops its future (H3).
    pub(crate) fn abort(&self) {
        abort(self.header());
    }
}

/// Marks a task as cancelled, or what it carries; a worker drops the future (H3). The caller holds
/// a reference.
pub(super) fn abort(header: &Header) {
    if header.abort() == Wake::Queue {
        schedule(Task(NonNull::from(header)));
    }
}

/// A reference of an abort handle, which the state word counts as one: it wakes nothing.
pub(crate) struct AbortRef(TaskRef);

impl AbortRef {
    pub(super) fn new(task: TaskRef) -> Self {
        task.header().state.begin_abort_reference();
        Self(task)
    }

    pub(crate) fn header(&self) -> &Header {
        self.0.header()
    }

    /// As [`TaskRef::abort`].
    pub(crate) fn abort(&self) {
        self.0.abort();
    }
}

impl Clone for AbortRef {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl Drop for AbortRef {
    fn drop(&mut self) {
        self.header().state.end_abort_reference();
    }
}

// SAFETY: as for `Task`.
unsafe impl Item for TaskRef {
    fn into_raw(self) -> NonNull<()> {
        ManuallyDrop::new(self).0.cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Self(raw.cast())
    }
}

// SAFETY: the word is the cell's address, and a header is aligned to eight.
unsafe impl Reference for TaskRef {
    unsafe fn another(raw: NonNull<()>) -> Self {
        let ptr = raw.cast::<Header>();
        // SAFETY: by contract a reference is there during the call, so the cell is alive.
        unsafe { ptr.as_ref() }.state.add_reference();
        Self(ptr)
    }
}

impl Clone for TaskRef {
    fn clone(&self) -> Self {
        self.header().state.add_reference();
        Self(self.0)
    }
}

impl Drop for TaskRef {
    fn drop(&mut self) {
        if self.header().state.drop_reference() {
            // SAFETY: that was the last reference, so the task is done, and its output was taken or
            // dropped by the handle or the runner. Each of them had a reference until then.
            unsafe { (self.header().vtable.free)(self.0) };
        }
    }
}

impl fmt::Debug for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header().fmt(f)
    }
}

/// Gives a task that has just become queued to its scheduler handle.
pub(super) fn schedule(task: Task) {
    // SAFETY: the task is queued and no thread has popped it, so it is live, and its scheduler
    // handle is there. The scheduler handle's `schedule` keeps the runtime alive beyond the push by
    // itself.
    let scheduler = unsafe { task.header().scheduler.as_ref() };
    scheduler.schedule(task);
}

/// The functions of every task's waker. One address: such a waker is known by it.
pub(super) static WAKER: RawWakerVTable =
    RawWakerVTable::new(waker_clone, waker_wake, waker_wake_by_ref, waker_drop);

/// The same for the waker of a traced poll, which tells where it is cloned: see `traced.rs`.
pub(super) static TRACING_WAKER: RawWakerVTable = RawWakerVTable::new(
    tracing_waker_clone,
    waker_wake,
    waker_wake_by_ref,
    waker_drop,
);

/// The [address](Task::address) of the task that a waker wakes, unless it is a foreign one, such as
/// one that a combinator has put in between.
#[inline]
pub(crate) fn task_of(waker: &Waker) -> Option<NonZeroUsize> {
    let is_ours = std::ptr::eq(waker.vtable(), &WAKER);
    is_ours
        .then(|| NonZeroUsize::new(waker.data().addr()))
        .flatten()
}

/// The header behind a waker's data.
///
/// # Safety
///
/// - `data` is that of a waker made in this file, which is alive during the call.
unsafe fn waker_header(data: *const ()) -> NonNull<Header> {
    // SAFETY: the data of our wakers is a header's address, which is not null.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast::<Header>()) }
}

unsafe fn waker_clone(data: *const ()) -> RawWaker {
    // SAFETY: by the contract of `RawWakerVTable` the waker is alive, and so the cell is.
    let header = unsafe { waker_header(data).as_ref() };
    header.span.waker("waker.clone");
    header.state.add_reference();
    RawWaker::new(data, &WAKER)
}

unsafe fn tracing_waker_clone(data: *const ()) -> RawWaker {
    traced::note_place();
    // SAFETY: the contract is the same.
    unsafe { waker_clone(data) }
}

unsafe fn waker_wake(data: *const ()) {
    // SAFETY: as in `waker_clone`.
    let ptr = unsafe { waker_header(data) };
    // SAFETY: the waker's reference is there until `wake_by_value` gives it back.
    let header = unsafe { ptr.as_ref() };
    header.span.waker("waker.wake");
    match header.state.wake_by_value() {
        // Queued tasks are live, so the cell outlives the reference that we gave back.
        Wake::Queue => schedule(Task(ptr)),
        Wake::Nothing => {}
        // SAFETY: that was the last reference; see `TaskRef::drop`.
        Wake::Free => unsafe { (ptr.as_ref().vtable.free)(ptr) },
    }
}

unsafe fn waker_wake_by_ref(data: *const ()) {
    // SAFETY: as in `waker_clone`.
    let ptr = unsafe { waker_header(data) };
    // SAFETY: the waker holds a reference during the call.
    let header = unsafe { ptr.as_ref() };
    header.span.waker("waker.wake_by_ref");
    match header.state.wake_by_ref() {
        Wake::Queue => schedule(Task(ptr)),
        Wake::Nothing | Wake::Free => {}
    }
}

unsafe fn waker_drop(data: *const ()) {
    // SAFETY: as in `waker_clone`; the reference is given back by this value's drop.
    let reference = TaskRef(unsafe { waker_header(data) });
    reference.header().span.waker("waker.drop");
    drop(reference);
}
