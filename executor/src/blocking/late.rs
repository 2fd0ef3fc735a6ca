//! A blocking call in simulated time: its result comes later, and its thread is free meanwhile. It
//! still counts against the limit of blocking calls.
//!
//! On a [`Machine`](crate::sim::Machine) a step ends when the closure of a `spawn_blocking` does.
//! What the closure would have waited for, such as a disk, tells how long by [`take_time`]. The
//! task of the call then waits for a timer of that length, and gives the result after it.
//!
//! The effects of the closure come at its begin. If the call is aborted while it waits, its result
//! is lost; a real call that has begun cannot be aborted.
//!
//! Rejected: the clock of the whole machine goes on instead. Then a slow disk holds up tasks that
//! do not wait for it.

use std::{
    cell::Cell,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use crate::time::{Sleep, sleep};

thread_local! {
    /// Nanoseconds that the call which runs on this thread has taken so far.
    static TAKEN: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Lets the `spawn_blocking` that runs on this thread take `nanoseconds` more of its runtime's
/// clock. Answers how many it has taken by then, or `None` if none runs.
///
/// ```
/// use ws_executor::sim::take_time;
///
/// assert_eq!(take_time(5), None);
/// let runtime = ws::runtime::Runtime::new()?;
/// let call = runtime.spawn_blocking(|| (take_time(5), take_time(2)));
/// assert_eq!(runtime.block_on(call).unwrap(), (Some(5), Some(7)));
/// # Ok::<(), ws::runtime::BuildError>(())
/// ```
pub fn take_time(nanoseconds: u64) -> Option<u64> {
    let taken = TAKEN.get()?.saturating_add(nanoseconds);
    TAKEN.set(Some(taken));
    Some(taken)
}

/// Calls `f`, and tells how many nanoseconds it has taken.
pub(super) fn timed<R>(f: impl FnOnce() -> R) -> (R, u64) {
    /// Also if it panics.
    struct Back(Option<u64>);
    impl Drop for Back {
        fn drop(&mut self) {
            TAKEN.set(self.0);
        }
    }
    let _back = Back(TAKEN.replace(Some(0)));
    let result = f();
    (result, TAKEN.get().unwrap_or(0))
}

/// A result, and the time that it comes after.
pub(super) struct Late<R> {
    result: Option<R>,
    sleep: Pin<Box<Sleep>>,
}

impl<R> Late<R> {
    pub(super) fn new(result: R, nanoseconds: u64) -> Self {
        Self {
            result: Some(result),
            sleep: Box::pin(sleep(Duration::from_nanos(nanoseconds))),
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<R> {
        ready!(self.sleep.as_mut().poll(cx));
        let result = self.result.take();
        Poll::Ready(result.expect("a done task is not polled again"))
    }
}

impl<R> fmt::Debug for Late<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").finish_non_exhaustive()
    }
}
