//! `compute`: a fork-join computation for async code to await.
//!
//! It is a task of its own, and its one poll is the closure. It goes to the global queue: a thread
//! in `block_on` alone can run its root, and never takes a computation from there. Before it
//! begins, the worker gives the tasks that wait in its own queues to all workers: they need not
//! wait for the end of a long poll. The rest is what every long poll has: the monitor, and
//! *Give way at a fork* in `fork_join/owner.rs`. How it is cancelled: `branch/compute.rs`.

use std::{
    fmt,
    future::Future,
    panic::Location,
    pin::Pin,
    sync::Arc as StdArc,
    task::{Context, Poll},
};

use super::{JoinError, JoinHandle, builder::spawn_for_all};
use crate::{
    branch::Computation,
    context,
    permit::{env::Env, sleep::Sleeper},
    sched::Shared,
    sync::Arc,
};

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
            let computation = StdArc::new(Computation::new());
            let inner = computation.clone();
            let run = async move {
                give_the_queue_away();
                inner.run(f)
            };
            let (handle, shared) = spawn_for_all(run, "ws::compute", None, this.location);
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

/// What waits in the worker's own queue goes to all workers.
fn give_the_queue_away() {
    context::with_worker(|worker| {
        if let Some(worker) = worker {
            worker.flush();
        }
    });
}

impl<R> Drop for Begun<R> {
    fn drop(&mut self) {
        if self.handle.is_finished() {
            return;
        }
        self.handle.abort();
        self.computation.cancel();
        for peer in self.shared.peers() {
            peer.queues.branch_deque.ask();
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
