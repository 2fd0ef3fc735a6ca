//! Tasks that are joined in the order in which they end.

#[cfg(all(tokio_unstable, feature = "tracing"))]
mod builder;

use std::{
    fmt,
    future::{Future, poll_fn},
    task::{Context, Poll, ready},
};

use tokio_real::task::coop::poll_proceed;
use ws_executor::{
    budget,
    task::{AbortHandle, Id, JoinError},
};

#[cfg(all(tokio_unstable, feature = "tracing"))]
pub use self::builder::Builder;
use super::{LocalSet, spawn, spawn_blocking, spawn_local};
use crate::runtime::Handle;

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/task/struct.JoinSet.html).
pub struct JoinSet<T>(ws_executor::task::JoinSet<T>);

impl<T> JoinSet<T> {
    /// An empty set.
    pub fn new() -> Self {
        Self(ws_executor::task::JoinSet::new())
    }

    /// How many tasks are in the set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no task is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: 'static> JoinSet<T> {
    /// A task with a name, to be spawned into the set.
    #[cfg(all(tokio_unstable, feature = "tracing"))]
    pub fn build_task(&mut self) -> Builder<'_, T> {
        Builder::new(self)
    }

    /// Spawns a task onto the current runtime.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    pub fn spawn<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.0.insert(spawn(task).into_ws())
    }

    /// Spawns a task onto a runtime.
    #[track_caller]
    pub fn spawn_on<F>(&mut self, task: F, handle: &Handle) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.0.insert(handle.spawn(task).into_ws())
    }

    /// Spawns a task into the current `LocalSet`.
    ///
    /// # Panics
    ///
    /// Outside of one.
    #[track_caller]
    pub fn spawn_local<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.0.insert(spawn_local(task).into_ws())
    }

    /// Spawns a task into a `LocalSet`.
    #[track_caller]
    pub fn spawn_local_on<F>(&mut self, task: F, local_set: &LocalSet) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.0.insert(local_set.spawn_local(task).into_ws())
    }

    /// Runs a closure that blocks on the current runtime.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, f: F) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.0.insert(spawn_blocking(f).into_ws())
    }

    /// Runs a closure that blocks on a runtime.
    #[track_caller]
    pub fn spawn_blocking_on<F>(&mut self, f: F, handle: &Handle) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.0.insert(handle.spawn_blocking(f).into_ws())
    }

    /// Waits until a task ends.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// Waits until a task ends, and tells which one it was.
    pub async fn join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        poll_fn(|cx| self.poll_join_next_with_id(cx)).await
    }

    /// A task that has ended.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.0.try_join_next()
    }

    /// A task that has ended, and which one it was.
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        self.0.try_join_next_with_id()
    }

    /// Cancels all tasks, and waits for their ends.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Waits for all outputs, in the order of the ends.
    ///
    /// # Panics
    ///
    /// If a task panics, with its panic, or was cancelled.
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len());
        while let Some(joined) = self.join_next().await {
            match joined {
                Ok(output) => outputs.push(output),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(error) => panic!("{error}"),
            }
        }
        outputs
    }

    /// Cancels all tasks.
    pub fn abort_all(&mut self) {
        self.0.abort_all();
    }

    /// Lets all tasks go on by themselves.
    pub fn detach_all(&mut self) {
        self.0.detach_all();
    }

    /// Polls for a task that has ended.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        let next = ready!(self.poll_join_next_with_id(cx));
        Poll::Ready(next.map(|joined| joined.map(|(_, output)| output)))
    }

    /// Polls for a task that has ended, and tells which one it was.
    pub fn poll_join_next_with_id(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<(Id, T), JoinError>>> {
        let unit = ready!(poll_proceed(cx));
        let next = ready!(budget::unbudgeted(|| self.0.poll_join_next_with_id(cx)));
        unit.made_progress();
        Poll::Ready(next)
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish()
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Spawns all of them.
impl<T, F> FromIterator<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn from_iter<I: IntoIterator<Item = F>>(iter: I) -> Self {
        let mut set = Self::new();
        set.extend(iter);
        set
    }
}

/// Spawns all of them.
impl<T, F> Extend<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn extend<I: IntoIterator<Item = F>>(&mut self, iter: I) {
        for task in iter {
            self.spawn(task);
        }
    }
}
