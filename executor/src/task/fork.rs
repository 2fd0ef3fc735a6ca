//! Async fork: the child runs first, and its parent is what thieves can take (J4).
//!
//! A spawned task waits in a queue while its parent goes on to the join point, and mostly finds it
//! not ready there. A forked one runs at once, as a call would. Meanwhile the parent's continuation
//! waits: the rest of its future, which is a task like any other. So if no thread steals, a join
//! point is always ready, the order is that of plain calls, and the fork deque is no longer than
//! the forks are deep.
//!
//! # The steps
//!
//! 1. The first poll of [`Fork`] makes the child's task, puts it into the `direct` slot of the
//!    worker's P, wakes its own task, and is pending. A combinator between the two passes both on:
//!    it cannot tell this from any other future that yields once. If there is none, the waker is
//!    the task's own. Then the wake is a mark on the P (`goes_on`), for the end of this very poll:
//!    no other thread has to know.
//! 2. The poll of the parent ends. The worker finds the slot filled and the parent woken: it pushes
//!    the parent to the tail of the fork deque, and its next step runs the child.
//! 3. The child ends or waits for something. The worker takes the parent from the tail; or a thief
//!    has taken it from the head, where the oldest are.
//! 4. The second poll of [`Fork`] returns the handle, whether or not the child has run.
//!
//! # When it is a spawn
//!
//! The second fork in one poll (of a `join!` of two), a pinned parent, one of another priority than
//! the default one, the root of a `block_on`, a thread without a permit: there the child goes to
//! `runnext`, and the handle is ready at the first poll. (A priority orders the ordered queues
//! alone; in the fork deque a parent would pass those that are above it, or wait behind those
//! below.) If the parent's poll ends otherwise than woken (the fork was dropped, or is awaited by a
//! future that wakes itself later), the child is spawned after the fact.
//!
//! # *A poll that goes on*
//!
//! The poll that has forked mostly ends at once. But it need not. Of two futures in a `join!` one
//! may fork, and the other compute or block, even until the child has run. And a foreign `block_on`
//! inside the task is woken instead of it. So the child must be within reach of others meanwhile
//! (I1, I5, L2): the `direct` slot is built as `runnext` is. It is emptied for others by
//!
//! - the monitor, when the poll has lasted for a slice, or its thread is blocked;
//! - the thread that takes the permit of the P: the monitor, or the thread itself before it blocks
//!   announced or gives way at a join.
//!
//! Rejected: to let thieves take it in round four, as they may what is in `runnext`. They wait for
//! 10 us at most for the victim to move on. A victim that was preempted for longer between its fork
//! and the end of its poll lost the child instead of the parent: on a busy machine
//! `tests/order/fork_runs_the_child_first.rs` saw it run with the thief. For the same reason no
//! thread is woken for the child: the parent's push does so a moment later.
//!
//! Checked by `models::permit::a_child_of_a_stuck_poll_is_taken`, and by the simulator, whose
//! programs fork.

use std::{
    fmt,
    future::Future,
    panic::Location,
    pin::Pin,
    task::{Context, Poll},
};

use crate::{
    sched::push::Forked,
    task::coop,
    task::{JoinHandle, fork_at},
};

/// Runs a child task at once on this worker, and lets others take what comes after it.
///
/// Awaited, it starts the child as if by a call, and gives a handle to await at the join point. If
/// another worker is idle, it takes the rest of the current task meanwhile. Else that goes on here
/// when the child has ended or has to wait. So where [`spawn`](crate::spawn) puts the new task
/// behind, this puts the current one behind: with one worker the order is that of plain calls. A
/// child that holds its thread for long is an exception:
/// [another thread](crate::runtime::Builder::workers) goes on with the rest meanwhile.
///
/// Inside [`spawn_local`](crate::spawn_local) and at the root of a `block_on` it is the same as
/// [`spawn`](crate::spawn), since the current future must stay where it is. The same holds in a
/// task of another [priority](crate::task::Priority) than the default one: its place is among its
/// equals.
///
/// # Panics
///
/// The future that is returned panics when it is polled outside of a runtime.
///
/// # Cancel safety
///
/// Dropped before its first poll, the child never begins; dropped later, it goes on by itself.
///
/// # Examples
///
/// ```
/// use std::{future::Future, pin::Pin};
///
/// fn fib(n: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
///     Box::pin(async move {
///         if n < 2 {
///             return n;
///         }
///         let a = ws::fork(fib(n - 1)).await;
///         let b = fib(n - 2).await;
///         a.await.unwrap() + b
///     })
/// }
///
/// let runtime = ws::runtime::Runtime::new().unwrap();
/// assert_eq!(runtime.block_on(runtime.spawn(fib(10))).unwrap(), 55);
/// ```
///
/// A task may outlive the frame that forked it, so it cannot borrow from it:
///
/// ```compile_fail,E0597
/// async fn borrow() {
///     let number = 1;
///     let shared = &number;
///     let child = ws::fork(async move { *shared }).await;
///     child.await.unwrap();
/// }
/// ```
#[track_caller]
pub fn fork<F>(future: F) -> Fork<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Fork {
        future: Some(future),
        handle: None,
        location: Location::caller(),
    }
}

/// The future of [`fork`].
#[must_use = "the child does not begin unless this is polled"]
pub struct Fork<F: Future> {
    future: Option<F>,
    handle: Option<JoinHandle<F::Output>>,
    location: &'static Location<'static>,
}

// The child's future moves into its task before it is pinned.
impl<F: Future> Unpin for Fork<F> {}

impl<F> Future for Fork<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Output = JoinHandle<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(handle) = this.handle.take() {
            return Poll::Ready(handle);
        }
        let future = this
            .future
            .take()
            .expect("a ready future is not polled again");
        let (handle, forked) = fork_at(future, cx.waker(), this.location);
        match forked {
            // There is no pause in it, as there is in one that goes first; so it pays.
            Forked::Spawned => {
                if let Poll::Ready(unit) = coop::poll_proceed(cx) {
                    unit.made_progress();
                    return Poll::Ready(handle);
                }
            }
            Forked::First { goes_on: true } => {}
            Forked::First { goes_on: false } => cx.waker().wake_by_ref(),
        }
        this.handle = Some(handle);
        Poll::Pending
    }
}

impl<F: Future> fmt::Debug for Fork<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fork")
            .field("begun", &self.future.is_none())
            .finish_non_exhaustive()
    }
}

/// Forks several futures, one after the other, and gives a tuple of their handles.
///
/// For use in async code: it awaits each [`fork`] in turn.
///
/// # Panics
///
/// Awaited outside of a runtime.
///
/// # Cancel safety
///
/// Dropped in the middle, the children that have begun go on by themselves, and the others never
/// begin.
///
/// # Examples
///
/// ```
/// let runtime = ws::runtime::Runtime::new().unwrap();
/// let sum = runtime.block_on(runtime.spawn(async {
///     let (one, two) = ws::fork_all!(async { 1 }, async { 2 });
///     one.await.unwrap() + two.await.unwrap()
/// }));
/// assert_eq!(sum.unwrap(), 3);
/// ```
#[macro_export]
macro_rules! fork_all {
    ($($future:expr),+ $(,)?) => {
        ($($crate::fork($future).await,)+)
    };
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::Pin,
        sync::{Arc, atomic::AtomicUsize, atomic::Ordering::SeqCst},
    };

    use super::fork;
    use crate::{
        context,
        runtime::{Builder, Sysmon},
    };

    fn fib(
        n: usize,
        depth: usize,
        most: Arc<AtomicUsize>,
    ) -> Pin<Box<dyn Future<Output = usize> + Send>> {
        Box::pin(async move {
            let parents = context::with_worker(|worker| worker.unwrap().parents());
            assert!(parents <= depth, "{parents} parents at a depth of {depth}");
            most.fetch_max(parents, SeqCst);
            if n < 2 {
                return n;
            }
            let a = fork(fib(n - 1, depth + 1, most.clone())).await;
            let b = fork(fib(n - 2, depth + 1, most.clone())).await;
            a.await.unwrap() + b.await.unwrap()
        })
    }

    /// Otherwise the next task at the same address would go on where it should wait.
    #[test]
    fn a_task_that_ends_in_the_poll_that_forked_leaves_no_mark() {
        let has_goes_on = || context::with_worker(|worker| worker.unwrap().has_goes_on());
        let runtime = Builder::new()
            .workers(1)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        let ends = runtime.spawn(async move {
            assert!(!has_goes_on());
            assert!(futures::poll!(fork(async {})).is_pending());
            assert!(has_goes_on());
        });
        runtime.block_on(ends).unwrap();
        assert!(
            !runtime
                .block_on(runtime.spawn(async move { has_goes_on() }))
                .unwrap()
        );
    }

    /// J4: the fork deque is no longer than the forks are deep. Without the monitor: a thread whose
    /// permit was taken hands its parents to the global queue, and a thread that takes one from
    /// there may have some of its own.
    #[test]
    fn the_fork_deque_is_no_longer_than_the_depth() {
        for workers in [1, 2] {
            let builder = Builder::new().workers(workers).sysmon(Sysmon::Off);
            let runtime = builder.build().unwrap();
            let most = Arc::new(AtomicUsize::new(0));
            let result = runtime.block_on(runtime.spawn(fib(12, 0, most.clone())));
            assert_eq!(result.unwrap(), 144);
            if workers == 1 {
                assert_eq!(
                    most.load(SeqCst),
                    11,
                    "nobody steals: it is as long as that"
                );
            }
        }
    }
}
