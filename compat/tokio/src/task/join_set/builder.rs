//! Tasks with names, in a set.

use std::{future::Future, io};

use super::JoinSet;
use crate::{
    runtime::Handle,
    task::{AbortHandle, JoinHandle, LocalSet},
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/task/join_set/struct.Builder.html).
#[derive(Debug)]
#[must_use = "builders do nothing unless used to spawn a task"]
pub struct Builder<'a, T> {
    set: &'a mut JoinSet<T>,
    task: crate::task::Builder<'a>,
}

impl<'a, T: 'static> Builder<'a, T> {
    pub(super) fn new(set: &'a mut JoinSet<T>) -> Self {
        let task = crate::task::Builder::new();
        Self { set, task }
    }

    /// Names the task.
    pub fn name(self, name: &'a str) -> Self {
        let task = self.task.name(name);
        Self { task, ..self }
    }

    fn insert(set: &mut JoinSet<T>, task: JoinHandle<T>) -> AbortHandle {
        set.0.insert(task.into_ws())
    }

    /// See [`JoinSet::spawn`].
    ///
    /// # Errors
    ///
    /// None, as in tokio.
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        Ok(Self::insert(self.set, self.task.spawn(future)?))
    }

    /// See [`JoinSet::spawn_on`].
    ///
    /// # Errors
    ///
    /// None, as in tokio.
    #[track_caller]
    pub fn spawn_on<F>(self, future: F, handle: &Handle) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        Ok(Self::insert(self.set, self.task.spawn_on(future, handle)?))
    }

    /// See [`JoinSet::spawn_local`].
    ///
    /// # Errors
    ///
    /// None, as in tokio.
    #[track_caller]
    pub fn spawn_local<F>(self, future: F) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + 'static,
    {
        Ok(Self::insert(self.set, self.task.spawn_local(future)?))
    }

    /// See [`JoinSet::spawn_local_on`].
    ///
    /// # Errors
    ///
    /// None, as in tokio.
    #[track_caller]
    pub fn spawn_local_on<F>(self, future: F, local_set: &LocalSet) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + 'static,
    {
        Ok(Self::insert(
            self.set,
            self.task.spawn_local_on(future, local_set)?,
        ))
    }

    /// See [`JoinSet::spawn_blocking`].
    ///
    /// # Errors
    ///
    /// None, as in tokio.
    #[track_caller]
    pub fn spawn_blocking<F>(self, f: F) -> io::Result<AbortHandle>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        Ok(Self::insert(self.set, self.task.spawn_blocking(f)?))
    }

    /// See [`JoinSet::spawn_blocking_on`].
    ///
    /// # Errors
    ///
    /// None, as in tokio.
    #[track_caller]
    pub fn spawn_blocking_on<F>(self, f: F, handle: &Handle) -> io::Result<AbortHandle>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        Ok(Self::insert(
            self.set,
            self.task.spawn_blocking_on(f, handle)?,
        ))
    }
}
