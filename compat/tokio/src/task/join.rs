//! Awaiting a task.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio_real::task::coop::poll_proceed;
use ws_executor::{
    budget,
    task::{AbortHandle, Id, JoinError},
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/task/struct.JoinHandle.html).
///
/// It is that of `ws`, but for the budget: awaiting it takes a unit from tokio's.
pub struct JoinHandle<T>(ws_executor::task::JoinHandle<T>);

impl<T> JoinHandle<T> {
    pub(crate) fn of(handle: ws_executor::task::JoinHandle<T>) -> Self {
        Self(handle)
    }

    pub(super) fn into_ws(self) -> ws_executor::task::JoinHandle<T> {
        self.0
    }

    /// Asks for the task to be cancelled.
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// A handle that can cancel the task, and no more.
    #[must_use = "abort handles do nothing unless `.abort` is called"]
    pub fn abort_handle(&self) -> AbortHandle {
        self.0.abort_handle()
    }

    /// The task's id.
    pub fn id(&self) -> Id {
        self.0.id()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        poll_unbudgeted(cx, |cx| Pin::new(&mut self.0).poll(cx))
    }
}

/// Polls an operation of `ws`, with a unit of tokio's budget and none of that of `ws`.
pub(crate) fn poll_unbudgeted<T>(
    cx: &mut Context<'_>,
    operation: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    let unit = ready!(poll_proceed(cx));
    let answer = ready!(budget::unbudgeted(|| operation(cx)));
    unit.made_progress();
    Poll::Ready(answer)
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("id", &self.id())
            .finish()
    }
}
