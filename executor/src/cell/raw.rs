//! The cell of a task: header, joiner slot and future in one allocation.
//!
//! This is an unsafe island. It offers four safe types, each of them a right to do something:
//!
//! | type | is the right to | given up by |
//! | --- | --- | --- |
//! | [`Task`] | run it: exists once while the wake count is above zero | [`Task::run`], a queue |
//! | [`TaskRef`] | look at it, wake it, abort it: a counted reference | drop |
//! | [`JoinCell`] | take the output: a reference, and the `JOIN` bit | drop |
//! | `Waker` | wake it: a counted reference | drop |
//!
//! # Why it holds
//!
//! - *Memory.* The cell is freed by the last reference. A [`Task`] has none of its own. It stands
//!   for a wake count above zero, and a task with such a count is not done. Until it is done the
//!   live table holds a reference (*References* in `state.rs`).
//! - *The future* is touched through a [`Task`] only, so by one thread at a time (S1). A `!Send`
//!   future is safe because its scheduler handle's `schedule` brings it to its own thread and no
//!   other (I7); that is the contract of [`Task::new_pinned`].
//! - *The output* belongs to the [`JoinCell`] once `DONE` is seen. If there was no handle when
//!   `DONE` was set, it belongs to the runner.
//! - *The scheduler handle* outlives every live task, and is touched only while the task is live:
//!   by the runner, which ends its life, and by a waker whose own step has made it queued.
//!
//! A panic of the future, in its poll or in its drop, is caught here and becomes the output (S6).
//! A panic in the drop of an output that nobody joins is caught and logged.
//!
//! Checked by `models::task`.
#![allow(unsafe_code)]

mod header;

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    mem::{self, ManuallyDrop},
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, Location, catch_unwind},
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll, RawWaker, Waker},
};

use super::{
    account::{Account, Lane},
    console::TaskSpan,
    failure::{Failure, discard},
    id::Id,
    join_cell::JoinCell,
    joiner::JoinerSlot,
    link::Link,
    live::Removed,
    meta::{Extra, Meta},
    reference::{TRACING_WAKER, TaskRef, WAKER, task_of},
    scheduler::SchedulerHandle,
    state::{Settle, Snapshot, State},
};
use crate::{
    queue::{Item, Linked, Ordered},
    sync::{
        UnsafeCell,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// What is known of a task without knowing its type.
///
/// What a poll touches is at the end, beside the future.
#[repr(C)]
pub(crate) struct Header {
    /// See *Which thread may touch what* in `state.rs`.
    pub(super) joiner: JoinerSlot,
    meta: Meta,
    id: Id,
    /// Milliseconds since the runtime began, for `dump`.
    born_ms: u32,
    /// For tokio-console. It has no size without the feature `console`.
    pub(super) span: TaskSpan,
    /// Where in its scheduler handle's live table. Written once, before the task is queued for the
    /// first time.
    index: AtomicU32,
    account: Account,
    next: Link,
    pub(super) scheduler: NonNull<SchedulerHandle>,
    pub(super) vtable: &'static VTable,
    pub(super) state: State,
}

/// How a future ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With its output, or dropped after a cancel.
    Well,
    /// With a panic.
    Panicked,
}

pub(super) struct VTable {
    /// The future is that of a `spawn_blocking`.
    blocks: bool,
    /// Polls; `Some` when the output is in place.
    poll: unsafe fn(NonNull<Header>, &mut Context<'_>) -> Option<Ended>,
    /// Drops the future, and puts the failure in place.
    cancel: unsafe fn(NonNull<Header>) -> Ended,
    /// Moves the output to where the second pointer says.
    pub(super) read_output: unsafe fn(NonNull<Header>, NonNull<()>),
    pub(super) drop_output: unsafe fn(NonNull<Header>),
    pub(super) free: unsafe fn(NonNull<Header>),
}

union Stage<F: Future> {
    future: ManuallyDrop<F>,
    output: ManuallyDrop<Result<F::Output, Failure>>,
}

#[repr(C)]
struct Cell<F: Future> {
    header: Header,
    stage: UnsafeCell<Stage<F>>,
}

struct CellVTable<F, const BLOCKS: bool>(PhantomData<F>);

impl<F: Future, const BLOCKS: bool> CellVTable<F, BLOCKS> {
    const VTABLE: VTable = VTable {
        blocks: BLOCKS,
        poll: poll::<F>,
        cancel: cancel::<F>,
        read_output: read_output::<F>,
        drop_output: drop_output::<F>,
        free: free::<F>,
    };
}

/// # Safety
///
/// - `ptr` is the cell of a task of type `F`.
/// - The caller holds its [`Task`], and the future is in place.
unsafe fn poll<F: Future>(ptr: NonNull<Header>, cx: &mut Context<'_>) -> Option<Ended> {
    // SAFETY: by contract the cell's type is `Cell<F>`, and it is alive.
    let cell = unsafe { ptr.cast::<Cell<F>>().as_ref() };
    let polled = catch_unwind(AssertUnwindSafe(|| {
        cell.stage.with_mut(|stage| {
            let unwinding = Unwinding(stage);
            // SAFETY: the holder of the `Task` alone touches the stage; the cell never moves, so
            // the future is pinned in it.
            let future = unsafe { Pin::new_unchecked(&mut *(*stage).future) };
            let polled = future.poll(cx);
            mem::forget(unwinding);
            polled
        })
    }));
    match polled {
        Ok(Poll::Pending) => None,
        // SAFETY: by contract; the future is in place and is never used again.
        Ok(Poll::Ready(output)) => Some(unsafe { replace_future(cell, Ok(output)) }),
        Err(payload) => {
            let failure = ManuallyDrop::new(Err(Failure::panic(payload)));
            // SAFETY: `Unwinding` has dropped the future: the place is empty, and large enough for
            // either.
            cell.stage
                .with_mut(|stage| unsafe { (*stage).output = failure });
            Some(Ended::Panicked)
        }
    }
}

/// If a future's poll panics, drops the future while that unwinds, as on a plain thread: its
/// destructors see [`std::thread::panicking`]. The panic that is joined is that of the poll; a
/// second one would abort, so it ends here.
struct Unwinding<F: Future>(*mut Stage<F>);

impl<F: Future> Drop for Unwinding<F> {
    fn drop(&mut self) {
        quietly("the drop of a future that panicked", || {
            // SAFETY: only `poll` makes it, and the caller of `poll` holds the `Task` with the
            // future in place. It is dropped only if the future is not used again.
            unsafe { ManuallyDrop::drop(&mut (*self.0).future) }
        });
    }
}

/// # Safety
///
/// As [`poll`].
unsafe fn cancel<F: Future>(ptr: NonNull<Header>) -> Ended {
    // SAFETY: by contract.
    let cell = unsafe { ptr.cast::<Cell<F>>().as_ref() };
    // SAFETY: by contract.
    unsafe { replace_future(cell, Err(Failure::cancelled())) }
}

/// Drops the future and writes the output into its place. A panic of that drop takes the output's
/// place.
///
/// # Safety
///
/// - The caller holds the [`Task`], and the future is in place.
unsafe fn replace_future<F: Future>(
    cell: &Cell<F>,
    mut output: Result<F::Output, Failure>,
) -> Ended {
    cell.stage.with_mut(|stage| {
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: by contract the future is there, and ours; after this no code touches it.
            unsafe { ManuallyDrop::drop(&mut (*stage).future) }
        }));
        if let Err(payload) = dropped {
            let before = mem::replace(&mut output, Err(Failure::panic(payload)));
            drop_quietly(before);
        }
        let ended = match &output {
            Err(failure) if failure.is_panic() => Ended::Panicked,
            _ => Ended::Well,
        };
        // SAFETY: the place is empty and large enough for either.
        unsafe { (*stage).output = ManuallyDrop::new(output) };
        ended
    })
}

/// # Safety
///
/// - `ptr` is the cell of a task of type `F`, and it is done.
/// - The caller owns the output, and treats it as moved out afterwards.
/// - `to` is valid for a write of `Result<F::Output, Failure>`.
unsafe fn read_output<F: Future>(ptr: NonNull<Header>, to: NonNull<()>) {
    // SAFETY: by contract.
    let cell = unsafe { ptr.cast::<Cell<F>>().as_ref() };
    cell.stage.with_mut(|stage| {
        // SAFETY: by contract the output is in place, ours, and `to` takes it.
        unsafe {
            let output = ManuallyDrop::take(&mut (*stage).output);
            to.cast::<Result<F::Output, Failure>>().write(output);
        }
    });
}

/// # Safety
///
/// As [`read_output`], without `to`.
unsafe fn drop_output<F: Future>(ptr: NonNull<Header>) {
    // SAFETY: by contract.
    let cell = unsafe { ptr.cast::<Cell<F>>().as_ref() };
    cell.stage.with_mut(|stage| {
        // SAFETY: by contract the output is in place and ours.
        drop_quietly(unsafe { ManuallyDrop::take(&mut (*stage).output) });
    });
}

/// # Safety
///
/// - `ptr` came from `Box::into_raw` of a `Cell<F>`, and no reference to it is left.
/// - No future and no output is in the stage.
unsafe fn free<F: Future>(ptr: NonNull<Header>) {
    // SAFETY: by contract.
    drop(unsafe { Box::from_raw(ptr.cast::<Cell<F>>().as_ptr()) });
}

/// Drops what no code will look at. A panic of it can go only to the log.
fn drop_quietly<T>(value: T) {
    quietly("the drop of a task's unjoined output", || drop(value));
}

/// The right to run a task. See the module's head.
#[must_use = "a task that is taken from a queue and dropped is lost (S2)"]
pub(crate) struct Task(pub(super) NonNull<Header>);

// SAFETY: a task made by `new` is `Send`; one made by `new_pinned` is run on its own thread only,
// which its scheduler handle sees to (I7). The header is made of atomics and of fields that have
// one owner at a time.
unsafe impl Send for Task {}

// SAFETY: the pointer is that of a header in a `Box`, which is not null; it comes back as it went.
unsafe impl Item for Task {
    fn into_raw(self) -> NonNull<()> {
        self.0.cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Self(raw.cast())
    }
}

// SAFETY: `next` is a field of the header. While the task is in a queue, only that writes it.
unsafe impl Linked for Task {
    unsafe fn next(raw: NonNull<()>) -> Option<NonNull<()>> {
        // SAFETY: by contract `raw` is a task in a queue, and so alive.
        unsafe { raw.cast::<Header>().as_ref() }.next.get()
    }

    unsafe fn set_next(raw: NonNull<()>, next: Option<NonNull<()>>) {
        // SAFETY: as in `next`.
        unsafe { raw.cast::<Header>().as_ref() }.next.set(next);
    }
}

impl Ordered for Task {
    fn priority(&self) -> i64 {
        self.header().priority()
    }

    fn is_ordered(&self) -> bool {
        self.header().is_ordered()
    }
}

/// What became of a task that was run.
#[derive(Debug)]
#[must_use]
pub(crate) enum Outcome {
    /// It waits for its wakers.
    Idle,
    /// It was woken meanwhile (or yielded): to the back of the queue.
    Requeue(Task),
    /// It is done, and gone from the live table.
    Done(Ended),
}

/// What a new task is made of, beside its future.
pub(crate) struct Parts {
    pub(crate) birth: Birth,
    pub(crate) location: &'static Location<'static>,
    pub(crate) extra: Option<Box<Extra>>,
}

/// Which task it is, and where it comes from.
#[derive(Clone, Copy)]
pub(crate) struct Birth {
    pub(crate) scheduler: NonNull<SchedulerHandle>,
    pub(crate) id: Id,
    pub(crate) born_ms: u32,
    /// Where it is spawned.
    pub(crate) lane: Lane,
    /// The task that spawns it.
    pub(crate) parent: Option<Id>,
}

impl Task {
    /// Puts a future into a cell. The task is born queued: the caller enters it into the live table
    /// ([`enter`](Self::enter)) and a queue.
    pub(crate) fn new<F>(future: F, parts: Parts) -> (Self, JoinCell<F::Output>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let meta = Meta::new(parts.location, parts.extra, false);
        Self::allocate::<F, false>(future, parts.birth, meta)
    }

    /// The same for the future of a `spawn_blocking`.
    pub(crate) fn new_blocking<F>(future: F, parts: Parts) -> (Self, JoinCell<F::Output>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let meta = Meta::new(parts.location, parts.extra, false);
        Self::allocate::<F, true>(future, parts.birth, meta)
    }

    /// The same for a future that must stay on its thread.
    ///
    /// # Safety
    ///
    /// - The task is run on the calling thread only.
    pub(crate) unsafe fn new_pinned<F>(future: F, parts: Parts) -> (Self, JoinCell<F::Output>)
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let meta = Meta::new(parts.location, parts.extra, true);
        Self::allocate::<F, false>(future, parts.birth, meta)
    }

    /// The same for the future that `carrier` has taken to its thread: to users the two tasks are
    /// one.
    ///
    /// # Safety
    ///
    /// - As [`new_pinned`](Self::new_pinned).
    pub(crate) unsafe fn new_carried<F>(
        future: F,
        scheduler: NonNull<SchedulerHandle>,
        carrier: &Header,
    ) -> (Self, JoinCell<F::Output>)
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let meta = carrier.meta.share_pinned();
        let birth = Birth {
            scheduler,
            id: carrier.id,
            born_ms: carrier.born_ms,
            lane: Lane::NONE,
            parent: carrier.account.parent(carrier.id),
        };
        Self::allocate::<F, false>(future, birth, meta)
    }

    // Inlined: its parts then go from registers into the cell.
    #[inline(always)]
    fn allocate<F: Future, const BLOCKS: bool>(
        future: F,
        birth: Birth,
        meta: Meta,
    ) -> (Self, JoinCell<F::Output>) {
        let span = TaskSpan::new(&meta, BLOCKS, birth.id, size_of::<F>());
        let mut cell = Box::<Cell<F>>::new_uninit();
        let place = cell.as_mut_ptr();
        // In place: a cell that is made elsewhere and moved is copied by a call.
        // SAFETY: both fields are in the box, and are written here for the first time.
        unsafe {
            (&raw mut (*place).header).write(Header {
                state: State::new(),
                vtable: &CellVTable::<F, BLOCKS>::VTABLE,
                next: Link::new(),
                scheduler: birth.scheduler,
                id: birth.id,
                index: AtomicU32::new(0),
                born_ms: birth.born_ms,
                span,
                meta,
                account: Account::new(birth.lane, birth.id, birth.parent),
                joiner: JoinerSlot::new(),
            });
            (&raw mut (*place).stage).write(UnsafeCell::new(Stage {
                future: ManuallyDrop::new(future),
            }));
        }
        // SAFETY: all of it was written.
        let cell = unsafe { cell.assume_init() };
        let ptr = NonNull::from(Box::leak(cell)).cast::<Header>();
        // The two references of `State::new`: one for the handle, one for the live table.
        (Self(ptr), JoinCell::new(ptr))
    }

    /// Gives the live table its reference, and notes the index that it got there. Once in a task's
    /// life, before it is queued for the first time.
    pub(crate) fn enter(&self, insert: impl FnOnce(TaskRef) -> u32) {
        let index = insert(TaskRef(self.0));
        self.header().index.store(index, Relaxed);
    }

    /// For a task that came too late and was never entered: drops its future here and now; its
    /// handle says cancelled.
    pub(crate) fn refuse(self) {
        let header = self.header();
        // SAFETY: we hold the `Task`, and it is not done.
        let drop = || unsafe { (header.vtable.cancel)(self.0) };
        let ended = header.id().runs(|| header.span.enter(drop));
        let reference = TaskRef(self.0);
        let _ = self.end(ended, |_| Removed::ReleaseReference(reference));
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: a `Task` keeps its cell alive; see *Memory* in the module's head.
        unsafe { self.0.as_ref() }
    }

    /// Where it is, to be compared.
    pub(crate) fn address(&self) -> NonZeroUsize {
        self.0.addr()
    }

    /// Polls the task once, or drops its future if it was cancelled. `now_ms` says when that is.
    ///
    /// After a poll that is not ready, and before another thread may run the task, `polled` is
    /// called. If it says that the task goes on, it is as if the task had been woken during the
    /// poll. A `TRACED` poll has a waker that tells where it is cloned (`traced.rs`).
    pub(crate) fn run<const TRACED: bool>(
        self,
        now_ms: impl FnOnce() -> u32,
        polled: impl FnOnce(&Header) -> bool,
    ) -> Outcome {
        let ptr = self.0;
        let header = self.header();
        let seen = header.state.load();
        if seen.is_cancelled() {
            return self.cancel();
        }
        // SAFETY: the waker lends the runner's hold on the cell; it is never dropped, so it takes
        // no reference, and it does not outlive this call.
        let waker = ManuallyDrop::new(unsafe {
            let table = if TRACED { &TRACING_WAKER } else { &WAKER };
            Waker::from_raw(RawWaker::new(ptr.as_ptr().cast(), table))
        });
        let poll = || {
            // SAFETY: we hold the `Task`, and it is not done.
            unsafe { (header.vtable.poll)(ptr, &mut Context::from_waker(&waker)) }
        };
        if let Some(ended) = header.span.enter(poll) {
            return self.finish(ended);
        }
        let settles = |wakes| {
            header.account.settles(wakes);
            header.next.idles(now_ms());
        };
        let settled = if polled(header) {
            header.state.settle_to_go_on(seen, settles)
        } else {
            header.state.settle(seen, settles)
        };
        match settled {
            Settle::Idle => Outcome::Idle,
            Settle::Requeue => Outcome::Requeue(self),
            Settle::Cancel => self.cancel(),
        }
    }

    /// The same where no worker runs it.
    pub(crate) fn run_apart(self) -> Outcome {
        self.run::<false>(|| 0, |_| false)
    }

    /// Drops the future instead of polling it.
    pub(crate) fn cancel(self) -> Outcome {
        let header = self.header();
        // SAFETY: we hold the `Task`, and it is not done.
        let drop = || unsafe { (header.vtable.cancel)(self.0) };
        let ended = header.span.enter(drop);
        self.finish(ended)
    }

    fn finish(self, ended: Ended) -> Outcome {
        self.end(ended, |header| {
            // SAFETY: the scheduler handle outlives every live task, and this one is live until
            // `remove` returns.
            unsafe { header.scheduler.as_ref() }.remove(header.index.load(Relaxed))
        })
    }

    /// The output is in the stage: publish it, leave the live table, wake the joiner.
    fn end(self, ended: Ended, leave: impl FnOnce(&Header) -> Removed<TaskRef>) -> Outcome {
        let ptr = self.0;
        let header = self.header();
        header.span.close();
        let before = header.state.transition_to_done();
        let mut joiner = None;
        if !before.has_handle() {
            if ended == Ended::Panicked {
                header.scheduler().report_panic(header);
            }
            // SAFETY: no handle: the output is ours, and no code uses it after this.
            unsafe { (header.vtable.drop_output)(ptr) };
        } else if before.has_waker() {
            // SAFETY: WAKER and DONE together give the slot to the runner.
            joiner = unsafe { header.joiner.take() };
        }
        match leave(header) {
            Removed::ReleaseReference(reference) => drop(reference),
            Removed::ReaderReleases => {}
        }
        if let Some(joiner) = joiner {
            wake_quietly(joiner.into_waker());
        }
        Outcome::Done(ended)
    }
}

/// Wakes a waker that may be foreign, and may panic.
pub(crate) fn wake_quietly(waker: Waker) {
    quietly("a waker", || waker.wake());
}

/// Drops a waker that may be foreign; its drop may panic.
pub(crate) fn drop_waker_quietly(waker: Waker) {
    if task_of(&waker).is_some() {
        drop(waker);
    } else {
        quietly("the drop of a waker", || drop(waker));
    }
}

/// Runs code of the user's. A panic of that is reported, and goes no further.
pub fn quietly(what: &'static str, f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        report(|| tracing::error!(what, "code that the scheduler called panicked"));
        discard(payload);
    }
}

/// Sends an event to the program's `tracing` subscriber, which is code of the user's as well. If
/// that panics, only the panic hook is left to tell.
pub(crate) fn report(event: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(event)) {
        discard(payload);
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header().fmt(f)
    }
}

#[cfg(test)]
mod tests;
