//! Tasks that need not be `Send`, and that run while their set is polled.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use ws_executor::task::{self as ws, Spawner};

use super::JoinHandle;
use crate::{
    large::boxed_if_large,
    runtime::{Id, Runtime, with_host},
    trace::{self, Name},
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/task/struct.LocalSet.html).
pub struct LocalSet {
    ws: ws::LocalSet,
    id: Id,
}

impl Default for LocalSet {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LocalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSet").finish_non_exhaustive()
    }
}

impl LocalSet {
    /// A set without tasks.
    pub fn new() -> Self {
        Self {
            ws: ws::LocalSet::new(),
            id: Id::next(),
        }
    }

    /// Makes `spawn_local` mean this set, on this thread, until the guard is dropped.
    pub fn enter(&self) -> LocalEnterGuard {
        LocalEnterGuard(self.ws.enter())
    }

    /// Spawns a task into the set.
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.spawn_local_named(future, Name::NONE)
    }

    #[track_caller]
    pub(super) fn spawn_local_named<F>(&self, future: F, name: Name<'_>) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        boxed_if_large!(future: F, Box::pin, {
            let (future, opening) = trace::task(future, "local", name, size_of::<F>());
            opening.open(self.ws.spawn_local(future))
        })
    }

    /// Runs a future in the set on a runtime, to its end.
    ///
    /// # Panics
    ///
    /// If the future does, and on a thread that drives a runtime.
    #[track_caller]
    pub fn block_on<F>(&self, rt: &Runtime, future: F) -> F::Output
    where
        F: Future,
    {
        rt.block_on(self.run_until(future))
    }

    /// Runs a future in the set, with its tasks beside it.
    pub async fn run_until<F>(&self, future: F) -> F::Output
    where
        F: Future,
    {
        self.ws.run_until(future).await
    }

    /// The set's id.
    pub fn id(&self) -> Id {
        self.id
    }
}

impl Future for LocalSet {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.get_mut().ws).poll(cx)
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/task/struct.LocalEnterGuard.html).
pub struct LocalEnterGuard(
    #[expect(dead_code, reason = "its drop is what counts")] ws::LocalEnterGuard,
);

impl fmt::Debug for LocalEnterGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEnterGuard").finish_non_exhaustive()
    }
}

/// Whether this thread polls a set.
pub(super) fn is_polling() -> bool {
    ws::LocalSet::is_polling()
}

/// Where `spawn_local` goes on this thread, and the kind of such tasks: to a runtime of the local
/// kind, or else to a set.
#[track_caller]
fn current() -> Option<(Spawner, &'static str)> {
    let of_runtime = with_host(|host| {
        let host = host.flatten().filter(|host| host.local)?;
        Some((host.queue.clone()?, "task"))
    });
    assert!(
        of_runtime
            .as_ref()
            .is_none_or(|(queue, _)| queue.is_of_this_thread()),
        "Local tasks can only be spawned on a LocalRuntime from the thread the runtime was created \
         on"
    );
    of_runtime.or_else(|| Some((ws::LocalSet::current()?.into_spawner(), "local")))
}

/// Spawns a task into the set, or the runtime of the local kind, that this thread is in.
///
/// # Panics
///
/// Outside of both.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    spawn_local_named(future, Name::NONE)
}

#[track_caller]
pub(super) fn spawn_local_named<F>(future: F, name: Name<'_>) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let Some((spawner, kind)) = current() else {
        panic!(
            "`spawn_local` called from outside of a `task::LocalSet` or `runtime::LocalRuntime`"
        );
    };
    boxed_if_large!(future: F, Box::pin, {
        let (future, opening) = trace::task(future, kind, name, size_of::<F>());
        opening.open(spawner.spawn_local(future))
    })
}
