//! A way to a runtime, from any thread.

use std::{cell::Cell, error::Error, fmt, future::Future, marker::PhantomData, sync::Arc};

use super::{Host, Id, NO_CONTEXT, RuntimeFlavor, RuntimeMetrics, with_host};
use crate::{
    context,
    large::boxed_if_large,
    task::JoinHandle,
    trace::{self, Name},
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/runtime/struct.Handle.html).
#[derive(Clone)]
pub struct Handle {
    pub(crate) ws: ws_executor::runtime::Handle,
    pub(crate) host: Option<Arc<Host>>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl Handle {
    pub(crate) fn new(ws: ws_executor::runtime::Handle) -> Self {
        let host = Host::of(&ws);
        Self { ws, host }
    }

    /// The runtime that is current on this thread.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[track_caller]
    pub fn current() -> Self {
        match Self::try_current() {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    /// The runtime that is current on this thread.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn try_current() -> Result<Self, TryCurrentError> {
        match ws_executor::runtime::Handle::try_current() {
            Ok(ws) => Ok(Self::new(ws)),
            Err(_) => Err(TryCurrentError(())),
        }
    }

    /// Makes the runtime the current one of this thread.
    pub fn enter(&self) -> EnterGuard<'_> {
        EnterGuard {
            _depth: Depth::new(),
            _entered: self.ws.enter(),
            _handle: PhantomData,
        }
    }

    /// Spawns a task.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_named(future, Name::NONE)
    }

    #[track_caller]
    pub(crate) fn spawn_named<F>(&self, future: F, name: Name<'_>) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        boxed_if_large!(future: F, Box::pin, {
            let (future, opening) = trace::task(future, "task", name, size_of::<F>());
            match self.queue() {
                Some(queue) => opening.open(queue.spawn(future)),
                None => opening.open(self.ws.spawn(future)),
            }
        })
    }

    /// Runs a closure that blocks.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.spawn_blocking_named(f, Name::NONE)
    }

    #[track_caller]
    pub(crate) fn spawn_blocking_named<F, R>(&self, f: F, name: Name<'_>) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        boxed_if_large!(f: F, Box::new, {
            let (f, opening) = trace::blocking(f, name, size_of::<F>());
            opening.open(self.ws.spawn_blocking(|| context::outside(f)))
        })
    }

    /// Runs a future to its end on this thread. Other tasks are left to the runtime.
    ///
    /// # Panics
    ///
    /// If the future does, and on a thread that drives a runtime.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _depth = Depth::new();
        boxed_if_large!(future: F, Box::pin, {
            let future = trace::block_on(future, size_of::<F>());
            if self.queue().is_none() {
                return context::inside(|| self.ws.block_on(future));
            }
            // As in tokio it takes no part in such a runtime, whose thread may wait for this one.
            let _entered = self.ws.enter();
            context::alone(future)
        })
    }

    /// The runtime's flavour.
    pub fn runtime_flavor(&self) -> RuntimeFlavor {
        let host = self.host.as_ref();
        host.map_or(RuntimeFlavor::MultiThread, |host| host.flavor())
    }

    /// The runtime's id.
    pub fn id(&self) -> Id {
        match &self.host {
            Some(host) => host.id,
            None => Id::of_address(self.ws.address()),
        }
    }

    /// The name that the builder gave to the runtime.
    pub fn name(&self) -> Option<&str> {
        self.host.as_ref()?.name.as_deref()
    }

    /// What the runtime has counted.
    pub fn metrics(&self) -> RuntimeMetrics {
        RuntimeMetrics::new(self.clone())
    }

    pub(crate) fn queue(&self) -> Option<&ws_executor::task::Spawner> {
        self.host.as_ref()?.queue.as_ref()
    }
}

/// Spawns on the current runtime.
#[track_caller]
pub(crate) fn spawn_here<F>(future: F, name: Name<'_>) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let queue = with_host(|host| match host {
        Some(host) => Ok(host.and_then(|host| host.queue.clone())),
        None => Err(()),
    });
    let Ok(queue) = queue else {
        panic!("{NO_CONTEXT}");
    };
    boxed_if_large!(future: F, Box::pin, {
        let (future, opening) = trace::task(future, "task", name, size_of::<F>());
        match queue {
            Some(queue) => opening.open(queue.spawn(future)),
            None => opening.open(ws_executor::spawn(future)),
        }
    })
}

/// Asserts that the current runtime has I/O.
///
/// # Panics
///
/// If there is no runtime, or it was built without `enable_io`.
#[track_caller]
pub(crate) fn io_handle() {
    match with_host(|host| host.map(|host| host.is_none_or(|host| host.io))) {
        Some(true) => {}
        Some(false) => panic!(
            "A Tokio 1.x context was found, but IO is disabled. Call `enable_io` on the runtime \
             builder to enable IO."
        ),
        None => panic!("{NO_CONTEXT}"),
    }
}

/// Asserts that the current runtime has timers.
///
/// # Panics
///
/// If there is no runtime, or it was built without `enable_time`.
#[track_caller]
pub(crate) fn time_handle() {
    match with_host(|host| host.map(|host| host.is_none_or(|host| host.time))) {
        Some(true) => {}
        Some(false) => panic!(
            "A Tokio 1.x context was found, but timers are disabled. Call `enable_time` on the \
             runtime builder to enable timers."
        ),
        None => panic!("{NO_CONTEXT}"),
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/runtime/struct.EnterGuard.html).
#[derive(Debug)]
#[must_use = "Creating and dropping a guard does nothing"]
pub struct EnterGuard<'a> {
    _depth: Depth,
    _entered: ws_executor::runtime::EnterGuard,
    _handle: PhantomData<&'a Handle>,
}

thread_local! {
    /// How many guards this thread has.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// How many guards of this thread lie below it. A type of its own, since a guard with a drop of its
/// own would keep its runtime from being moved.
#[derive(Debug)]
pub(super) struct Depth(usize);

impl Depth {
    pub(super) fn new() -> Self {
        Self(DEPTH.replace(DEPTH.get() + 1))
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        let depth = DEPTH.replace(self.0);
        if depth != self.0 + 1 && !std::thread::panicking() {
            panic!(
                "`EnterGuard` values dropped out of order. Guards returned by \
                 `tokio::runtime::Handle::enter()` must be dropped in the reverse order as they were \
                 acquired."
            );
        }
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/runtime/struct.TryCurrentError.html).
pub struct TryCurrentError(());

impl TryCurrentError {
    /// Whether there is no runtime.
    pub fn is_missing_context(&self) -> bool {
        true
    }

    /// Whether the thread-local of the runtime is gone. That of `ws` has no destructor.
    pub fn is_thread_local_destroyed(&self) -> bool {
        false
    }
}

impl fmt::Debug for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryCurrentError")
            .field("kind", &format_args!("NoContext"))
            .finish()
    }
}

impl fmt::Display for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NO_CONTEXT)
    }
}

impl Error for TryCurrentError {}
