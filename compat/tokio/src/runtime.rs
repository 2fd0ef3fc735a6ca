//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/runtime/).

mod builder;
mod current_thread;
mod handle;
mod host;
mod local_runtime;
mod metrics;

use std::{
    fmt,
    future::Future,
    io,
    panic::{RefUnwindSafe, UnwindSafe},
    time::Duration,
};

pub use self::{
    builder::Builder,
    handle::{EnterGuard, Handle, TryCurrentError},
    host::Id,
    local_runtime::{LocalOptions, LocalRuntime},
    metrics::RuntimeMetrics,
};
use self::{current_thread::CurrentThread, handle::Depth};
pub(crate) use self::{
    current_thread::is_in_block_on,
    handle::{io_handle, spawn_here, time_handle},
    host::{Host, with_host},
};
use crate::{context, large::boxed_if_large, task::JoinHandle, trace};

/// The error of what needs a runtime, outside of one.
pub(crate) const NO_CONTEXT: &str =
    "there is no reactor running, must be called from the context of a Tokio 1.x runtime";

/// The error of an operation whose runtime ends.
pub(crate) const SHUTTING_DOWN: &str = "A Tokio 1.x context was found, but it is being shutdown.";

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/runtime/enum.RuntimeFlavor.html).
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeFlavor {
    /// Tasks run in the `block_on` of the caller's thread.
    CurrentThread,
    /// Tasks run on the workers of `ws`.
    MultiThread,
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/runtime/struct.Runtime.html).
pub struct Runtime {
    handle: Handle,
    /// Of the current-thread flavour. It ends before `ws` does.
    current_thread: Option<CurrentThread>,
    /// None once it was shut down.
    ws: Option<ws_executor::runtime::Runtime>,
}

impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// A runtime of the multi-thread flavour with all drivers.
    ///
    /// # Errors
    ///
    /// If the system refuses it.
    pub fn new() -> io::Result<Self> {
        Builder::new_multi_thread().enable_all().build()
    }

    /// The handle.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Spawns a task.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// Runs a closure that blocks.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.handle.spawn_blocking(f)
    }

    /// Runs a future to its end on this thread.
    ///
    /// # Panics
    ///
    /// If the future does, and on a thread that drives a runtime.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _depth = Depth::new();
        boxed_if_large!(future: F, Box::pin, {
            let future = trace::block_on(future, size_of::<F>());
            match &self.current_thread {
                Some(current_thread) => {
                    context::inside(|| current_thread.block_on(&self.handle, future))
                }
                None => context::inside(|| self.handle.ws.block_on(future)),
            }
        })
    }

    /// Makes the runtime the current one of this thread.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Ends the runtime, and waits for its threads at most this long.
    pub fn shutdown_timeout(mut self, timeout: Duration) {
        self.shut_down(Some(timeout));
    }

    /// Ends the runtime without waiting.
    pub fn shutdown_background(self) {
        self.shutdown_timeout(Duration::ZERO);
    }

    /// What the runtime has counted.
    pub fn metrics(&self) -> RuntimeMetrics {
        self.handle.metrics()
    }

    pub(crate) fn spawner(&self) -> Option<&ws_executor::task::Spawner> {
        self.current_thread.as_ref().map(CurrentThread::spawner)
    }

    /// None: as long as it takes.
    fn shut_down(&mut self, timeout: Option<Duration>) {
        let Some(ws) = self.ws.take() else {
            return;
        };
        if let Some(current_thread) = self.current_thread.take() {
            // The destructors of its tasks find the runtime.
            let _entered = self.handle.ws.enter();
            drop(current_thread);
        }
        match timeout {
            Some(Duration::ZERO) => ws.shutdown_background(),
            _ if context::is_inside() => {
                ws.shutdown_background();
                if !std::thread::panicking() {
                    panic!(
                        "Cannot drop a runtime in a context where blocking is not allowed. This \
                         happens when a runtime is dropped from within an asynchronous context."
                    );
                }
            }
            Some(timeout) => ws.shutdown_timeout(timeout),
            None => drop(ws),
        }
        if let Some(host) = &self.handle.host {
            host.listeners.clear();
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.shut_down(None);
    }
}

/// The index of the worker that this thread is: below the number of workers.
///
/// A thread in `block_on` is none, but for the one that runs the tasks of a current-thread runtime.
/// While a worker of `ws` blocks its thread, another thread may have the same index.
pub fn worker_index() -> Option<usize> {
    if current_thread::is_driving() {
        return Some(0);
    }
    ws_executor::netpoll::worker_index()
}

/// Whether an error says that a runtime ends.
pub fn is_rt_shutdown_err(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Other
        && error
            .get_ref()
            .is_some_and(|inner| inner.source().is_none() && inner.to_string() == SHUTTING_DOWN)
}
