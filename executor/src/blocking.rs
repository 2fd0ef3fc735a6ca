//! Code that blocks its thread, announced: `block_in_place` and `spawn_blocking`.
//!
//! Both are the same hand-off: the thread gives its permit and its queue to others, runs the
//! closure, and takes a permit again if one is free. There is one kind of thread: `spawn_blocking`
//! is a task whose only poll is a `block_in_place`. A thread is woken or started for the permit,
//! not for the closure.
//!
//! *The limit* (`semaphore.rs`): closures run at the same time on at most
//! `max_threads - 2 * workers` threads, so that there is always a thread for every permit (L5):
//! blocking jobs that wait for async work cannot lock the runtime up. The others wait as what they
//! are, parked tasks, and can be aborted.
//!
//! # *Calls*
//!
//! A call of `spawn_blocking` hands its worker's queue over, so a burst of them would send that
//! queue to the global one and back with each. With 10,000 calls of 1 ms by a task each that was
//! 245 tasks a call, and 18 us a call. Hence:
//!
//! - If more than a few tasks wait in the local queue, a call that is spawned there goes to the
//!   global one, behind what is there. Otherwise it runs next, as any new task does. One of another
//!   priority than the default goes to the P's ordered queue. In `block_on` a call always goes to
//!   the queues of all (the shared ordered one if it has a priority of its own): it would block the
//!   thread of the root, which no other thread polls.
//! - A thread that runs dry and takes a batch from there takes nothing behind a call.
//! - *A thread that comes back* from a closure and finds no permit takes the next call, if one of
//!   the first few in the global queue is one. It goes to sleep only if there is none. So does any
//!   other thread that has lost its permit. A closure is announced as soon as it begins, so it
//!   needs no permit (one that was aborted before is dropped instead). And a hand-off for each
//!   would cost the worker a wake-up. Exceptions: a thread with pinned tasks or a root, which have
//!   no other thread; and any thread while something urgent is queued.
//!
//! With all three the same burst takes 7.6 us a call, most of it the kernel's.
//!
//! # *Bound threads*
//!
//! A thread that has pinned tasks or a root, as that of `main`, has what waits for it alone. If it
//! comes to a call, and a thread can be had that is not bound (one is parked, or one may be
//! started), it passes the call on. The first poll of such a call ends at once, woken, and the call
//! is handed to that thread itself, with a free permit or that of the bound one. The permit is
//! given up again as soon as the closure begins. That costs a wake-up for each such call, and a
//! look at all Ps. Before, a closure of 10 s held up a pinned task for as long.
//!
//! *Nothing is left with a thread that ends*: a call is put into a parked P before its worker state
//! is changed. A thread that could not change it takes the call out again, unless the P's thread
//! has woken up by itself and was faster. A thread that wakes up looks there first.
//!
//! At the cap, after a refusal, and under the simulator, a bound thread runs the call as any other
//! does. It also runs one that was passed on [`PASSES_MAX`] times: what is asked before may not
//! hold any more, and nothing is passed round for ever.
//!
//! Rejected: the back of the queue of all. The bound thread came by there again before the woken
//! one did, each time that it was let.

#[cfg(any(test, feature = "sim"))]
pub(crate) mod late;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use crate::{
    block_on::in_place,
    context,
    policy::constants::PASSES_MAX,
    sched::{Shared, Worker},
    semaphore::{Semaphore, Ticket},
    sync::Arc,
};

/// Runs a closure that blocks, and lets others have this worker's permit meanwhile.
///
/// The thread keeps what is pinned to it, and the future that called goes on right here afterwards:
/// so the closure may borrow. Branches of `join!` and `select!` that share the task wait with it.
/// Outside a runtime, and on a thread that holds no permit, it just calls the closure. There is no
/// cooperative budget in it, so it may wait with any executor's `block_on`.
///
/// # Panics
///
/// If the closure does; the permit is settled as usual.
///
/// # Examples
///
/// ```
/// let runtime = ws::runtime::Runtime::new().unwrap();
/// let text = runtime.block_on(async {
///     ws::block_in_place(|| std::fs::read_to_string("Cargo.toml"))
/// });
/// assert!(text.unwrap().contains("ws-executor"));
/// ```
pub fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
    in_place::block_in_place(f)
}

/// Runs a closure that starts a process and waits until it runs: this worker's permit stays with it
/// meanwhile, as if it computed, since the child has its core. Anywhere else, it just calls the
/// closure.
#[doc(hidden)]
pub fn start_process<R>(f: impl FnOnce() -> R) -> R {
    in_place::start_process(f)
}

/// The task of a `spawn_blocking`.
pub(crate) struct BlockingCall<F: FnOnce() -> R, R> {
    shared: Arc<Shared>,
    f: Option<F>,
    ticket: Option<Ticket>,
    /// How often it was passed on; see *Bound threads*.
    passes: u32,
    #[cfg(any(test, feature = "sim"))]
    late: Option<late::Late<R>>,
}

impl<F: FnOnce() -> R, R> BlockingCall<F, R> {
    pub(crate) fn new(shared: Arc<Shared>, f: F) -> Self {
        shared.threads.blocking.add_call();
        Self {
            shared,
            f: Some(f),
            ticket: None,
            passes: 0,
            #[cfg(any(test, feature = "sim"))]
            late: None,
        }
    }
}

impl<F: FnOnce() -> R, R> fmt::Debug for BlockingCall<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingCall").finish_non_exhaustive()
    }
}

impl<F: FnOnce() -> R, R> Unpin for BlockingCall<F, R> {}

impl<F: FnOnce() -> R, R> Future for BlockingCall<F, R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        struct Leave<'a>(&'a Semaphore);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.leave();
            }
        }
        let this = &mut *self;
        #[cfg(any(test, feature = "sim"))]
        if let Some(late) = &mut this.late {
            let result = ready!(late.poll(cx));
            this.late = None;
            this.shared.threads.blocking.leave();
            return Poll::Ready(result);
        }
        let passes_on = |worker: Option<&Worker>| worker.is_some_and(Worker::passes_call_on);
        if this.passes < PASSES_MAX && context::with_worker(passes_on) {
            this.passes += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(
            this.shared
                .threads
                .blocking
                .poll_enter(&mut this.ticket, cx.waker().clone())
        );
        let leave = Leave(&this.shared.threads.blocking);
        let f = this.f.take().expect("a done task is not polled again");
        this.shared.threads.blocking.remove_call();
        #[cfg(any(test, feature = "sim"))]
        return match late::timed(|| block_in_place(f)) {
            (result, 0) => {
                drop(leave);
                Poll::Ready(result)
            }
            (result, taken) => {
                let mut late = late::Late::new(result, taken);
                let polled = late.poll(cx);
                if polled.is_pending() {
                    // It counts as a call until its time is over.
                    std::mem::forget(leave);
                    this.late = Some(late);
                }
                polled
            }
        };
        #[cfg(not(any(test, feature = "sim")))]
        {
            let result = block_in_place(f);
            drop(leave);
            Poll::Ready(result)
        }
    }
}

impl<F: FnOnce() -> R, R> Drop for BlockingCall<F, R> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.threads.blocking.give_up(ticket);
        }
        #[cfg(any(test, feature = "sim"))]
        if self.late.is_some() {
            self.shared.threads.blocking.leave();
        }
        if self.f.is_some() {
            self.shared.threads.blocking.remove_call();
        }
    }
}
