//! Tasks with names.

use std::{future::Future, io};

use super::{JoinHandle, LocalSet, local_set::spawn_local_named};
use crate::{
    runtime::{Handle, spawn_here},
    trace::Name,
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/task/struct.Builder.html).
///
/// As in tokio, it is there with the feature `tracing` and `--cfg tokio_unstable`.
#[derive(Default, Debug)]
#[must_use = "builders do nothing unless used to spawn a task"]
pub struct Builder<'a> {
    name: Option<&'a str>,
}

impl<'a> Builder<'a> {
    /// A builder of a task without a name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the task.
    pub fn name(&self, name: &'a str) -> Self {
        Self { name: Some(name) }
    }

    /// See [`spawn`](super::spawn).
    ///
    /// # Errors
    ///
    /// None, as in tokio.
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Ok(spawn_here(future, Name(self.name)))
    }

    /// See [`Handle::spawn`].
    ///
    /// # Errors
    ///
    /// None, as in tokio.
    #[track_caller]
    pub fn spawn_on<F>(self, future: F, handle: &Handle) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Ok(handle.spawn_named(future, Name(self.name)))
    }

    /// See [`spawn_local`](super::spawn_local).
    ///
    /// # Errors
    ///
    /// None, as in tokio.
    #[track_caller]
    pub fn spawn_local<F>(self, future: F) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        Ok(spawn_local_named(future, Name(self.name)))
    }

    /// See [`LocalSet::spawn_local`].
    ///
    /// # Errors
    ///
    /// None, as in tokio.
    #[track_caller]
    pub fn spawn_local_on<F>(
        self,
        future: F,
        local_set: &LocalSet,
    ) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        Ok(local_set.spawn_local_named(future, Name(self.name)))
    }

    /// See [`spawn_blocking`](super::spawn_blocking).
    ///
    /// # Errors
    ///
    /// None: `ws` takes every closure. tokio returns the error of a thread that cannot be started.
    #[track_caller]
    pub fn spawn_blocking<F, R>(self, f: F) -> io::Result<JoinHandle<R>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.spawn_blocking_on(f, &Handle::current())
    }

    /// See [`Handle::spawn_blocking`].
    ///
    /// # Errors
    ///
    /// None, as of `spawn_blocking`.
    #[track_caller]
    pub fn spawn_blocking_on<F, R>(self, f: F, handle: &Handle) -> io::Result<JoinHandle<R>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        Ok(handle.spawn_blocking_named(f, Name(self.name)))
    }
}
