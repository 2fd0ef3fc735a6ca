//! `compute`: a fork-join computation for async code to await.
//!
//! It is a task of its own, and its one poll is the closure. It goes to the global queue: a thread
//! in `block_on` alone can run its root, and never takes a computation from there. Before it
//! begins, the worker gives the tasks that wait in its own queues to all workers: they need not
//! wait for the end of a long poll. The rest is what every long poll has: the monitor, and *Give
//! way at a fork* in `owner.rs`.
//!
//! # Cancelling
//!
//! Dropping the future marks the computation as cancelled and asks all lanes, so that every thread
//! comes by at its next join. There it finds the mark of what it runs, and unwinds, without the
//! panic hook, up to the closure's caller: each join on the way ends after its branches, as for any
//! panic. So nothing that a running branch uses is freed before its end. A thread knows what it
//! runs by a pointer that goes with each promoted branch. It is valid, since the computation ends
//! after all of its branches.
//!
//! There is one ask, so it must not be lost: `mark.rs` says why it is not. A thread that finds the
//! mark also has its next join come by. This one may not be able to unwind, in a destructor or
//! where a branch of a scope is counted already; or the panic may be caught on the way.

use std::{
    cell::Cell,
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind},
    pin::Pin,
    ptr,
    sync::Arc as StdArc,
    task::{Context, Poll},
    thread,
};

use super::{Mark, Tail, owner};
use crate::{
    context,
    sched::{Shared, ground::Ground, sleep::Sleeper},
    sync::Arc,
    task::{JoinError, JoinHandle, spawn_for_all},
};

thread_local! {
    /// The address of the computation that this thread runs; 0: none.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Whether its result is still wanted.
#[derive(Debug)]
struct Computation {
    cancelled: Mark,
}

/// What unwinds a computation that was cancelled.
struct Cancelled;

/// What this thread runs, for a branch of it.
pub(super) fn current() -> usize {
    CURRENT.get()
}

/// This thread runs nothing of that for now.
pub(super) fn lay_aside() -> usize {
    CURRENT.replace(0)
}

/// It does again.
pub(super) fn take_up(computation: usize) {
    CURRENT.set(computation);
}

/// Runs a branch of that computation.
pub(super) fn within<R>(computation: usize, f: impl FnOnce() -> R) -> R {
    struct Back(usize);
    impl Drop for Back {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _back = Back(CURRENT.replace(computation));
    if is_cancelled() {
        // The asks came before this thread had a part in it.
        owner::come_by();
    }
    f()
}

/// Unwinds, if what this thread runs was cancelled. For a thread that has just answered an ask.
/// Where a panic aborts nothing can unwind: the computation goes on to its end, and its result is
/// dropped.
pub(super) fn check() {
    if cfg!(panic = "unwind") && is_cancelled() {
        owner::come_by();
        if !thread::panicking() {
            resume_unwind(Box::new(Cancelled));
        }
    }
}

/// The same for a thread that cannot unwind here: the next join or scope does.
pub(super) fn heed_later(tail: &Tail) {
    if cfg!(panic = "unwind") && is_cancelled() {
        tail.ask_again();
    }
}

/// Whether what this thread runs was cancelled. If it says no, the lane is asked when that happens.
fn is_cancelled() -> bool {
    let computation = ptr::with_exposed_provenance::<Computation>(CURRENT.get());
    #[expect(unsafe_code, reason = "see the module's head")]
    // SAFETY: it is null, or this thread runs a part of it, and it ends after that.
    unsafe { computation.as_ref() }.is_some_and(|it| it.cancelled.is_set())
}

/// Runs a computation that forks and joins, as a task of its own.
///
/// Other tasks of this worker go on elsewhere meanwhile. A panic of the closure is in the error.
///
/// # Panics
///
/// The first poll panics outside of a runtime.
///
/// # Cancel safety
///
/// Dropping the future cancels the computation: it does not begin, or ends at the next
/// [`join()`](crate::join) or [`scope`](crate::scope) that each of its threads comes to, by
/// unwinding. The drop does not wait for that, and what the closure owns is dropped there. As by
/// any unwinding, a `std::sync::Mutex` that is held across a join is poisoned by it. A program that
/// is built with `panic = "abort"` cannot unwind: there a computation that has begun goes on to its
/// end.
///
/// # Examples
///
/// ```
/// fn fib(n: u64) -> u64 {
///     if n < 2 {
///         return n;
///     }
///     let (a, b) = ws::join(|| fib(n - 1), || fib(n - 2));
///     a + b
/// }
///
/// let runtime = ws::runtime::Runtime::new().unwrap();
/// assert_eq!(runtime.block_on(ws::compute(|| fib(20))).unwrap(), 6765);
/// ```
///
/// It may outlive its caller, so it cannot borrow:
///
/// ```compile_fail,E0373
/// async fn borrow() {
///     let number = 1;
///     ws::compute(|| number + 1).await.unwrap();
/// }
/// ```
#[track_caller]
pub fn compute<F, R>(f: F) -> Compute<F, R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    Compute {
        closure: Some(f),
        begun: None,
        location: Location::caller(),
    }
}

/// The future of [`compute`].
#[must_use = "the computation does not begin unless this is polled"]
pub struct Compute<F, R> {
    closure: Option<F>,
    begun: Option<Begun<R>>,
    location: &'static Location<'static>,
}

struct Begun<R> {
    computation: StdArc<Computation>,
    handle: JoinHandle<Option<R>>,
    shared: Arc<Shared>,
}

// The closure moves into the task before anything is pinned.
impl<F, R> Unpin for Compute<F, R> {}

impl<F, R> Future for Compute<F, R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    type Output = Result<R, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(f) = this.closure.take() {
            let computation = StdArc::new(Computation {
                cancelled: Mark::new(),
            });
            let inner = computation.clone();
            let (handle, shared) = spawn_for_all(
                async move { run(&inner, f) },
                "ws::compute",
                None,
                this.location,
            );
            this.begun = Some(Begun {
                computation,
                handle,
                shared,
            });
        }
        let begun = this.begun.as_mut();
        let begun = begun.expect("a ready future is not polled again");
        let result = std::task::ready!(Pin::new(&mut begun.handle).poll(cx));
        this.begun = None;
        Poll::Ready(result.map(|result| result.expect("it is cancelled only by a drop")))
    }
}

/// None if it was cancelled.
fn run<R>(computation: &StdArc<Computation>, f: impl FnOnce() -> R) -> Option<R> {
    context::with_worker(|worker| {
        if let Some(worker) = worker {
            worker.hand_in();
        }
    });
    let address = StdArc::as_ptr(computation).expose_provenance();
    match catch_unwind(AssertUnwindSafe(|| within(address, f))) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<Cancelled>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

impl<R> Drop for Begun<R> {
    fn drop(&mut self) {
        if self.handle.is_finished() {
            return;
        }
        self.handle.abort();
        self.computation.cancelled.set();
        for peer in self.shared.peers() {
            peer.lane.ask();
        }
    }
}

impl<F, R> fmt::Debug for Compute<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compute")
            .field("begun", &self.closure.is_none())
            .finish_non_exhaustive()
    }
}
