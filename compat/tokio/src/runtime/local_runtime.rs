//! A runtime for tasks that need not be `Send`.

use std::{fmt, future::Future, io, marker::PhantomData, rc::Rc, time::Duration};

use super::{Builder, EnterGuard, Handle, Runtime, RuntimeMetrics};
use crate::{
    large::boxed_if_large,
    task::JoinHandle,
    trace::{self, Name},
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/runtime/struct.LocalOptions.html).
#[derive(Default, Debug)]
#[non_exhaustive]
pub struct LocalOptions {
    /// As in tokio: a `LocalRuntime` is not `Send`.
    _not_send: PhantomData<*mut u8>,
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/runtime/struct.LocalRuntime.html).
pub struct LocalRuntime {
    runtime: Runtime,
    _not_send: PhantomData<Rc<()>>,
}

impl fmt::Debug for LocalRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalRuntime")
            .field("handle", self.handle())
            .finish_non_exhaustive()
    }
}

impl std::panic::UnwindSafe for LocalRuntime {}
impl std::panic::RefUnwindSafe for LocalRuntime {}

impl LocalRuntime {
    pub(super) fn of(runtime: Runtime) -> Self {
        Self {
            runtime,
            _not_send: PhantomData,
        }
    }

    /// A runtime with all drivers.
    ///
    /// # Errors
    ///
    /// If the system refuses it.
    pub fn new() -> io::Result<Self> {
        Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
    }

    /// The handle.
    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Spawns a task onto this thread.
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let queue = self
            .runtime
            .spawner()
            .expect("it is of the current-thread flavour");
        boxed_if_large!(future: F, Box::pin, {
            let (future, opening) = trace::task(future, "task", Name::NONE, size_of::<F>());
            opening.open(queue.spawn_local(future))
        })
    }

    /// Runs a closure that blocks.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.runtime.spawn_blocking(f)
    }

    /// Runs a future to its end.
    ///
    /// # Panics
    ///
    /// If the future does, and on a thread that drives a runtime.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Makes the runtime the current one of this thread.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Ends the runtime, and waits for its threads at most this long.
    pub fn shutdown_timeout(self, timeout: Duration) {
        self.runtime.shutdown_timeout(timeout);
    }

    /// Ends the runtime without waiting.
    pub fn shutdown_background(self) {
        self.runtime.shutdown_background();
    }

    /// What the runtime has counted.
    pub fn metrics(&self) -> RuntimeMetrics {
        self.runtime.metrics()
    }
}
