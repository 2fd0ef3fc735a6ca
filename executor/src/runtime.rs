//! Runtimes: how they are built, entered and ended.
//!
//! Most programs need none of this: `#[ws::main]` builds a runtime, runs `main` on it, and ends it.
//!
//! # Ending
//!
//! Dropping a [`Runtime`] ends it, in this order:
//!
//! 1. Spawns are refused, and tasks are cancelled: workers drop their futures. Calls of
//!    [`spawn_blocking`](crate::spawn_blocking) that were accepted before run. Timers and sockets
//!    work meanwhile.
//! 2. When no task is alive, or after three quarters of [`Builder::shutdown_grace`], timers and
//!    sockets answer with errors, so that a thread that waits for one of them comes out. A root in
//!    a `block_on` is no task: what it waits for ends so.
//! 3. The threads end, with their thread-locals, and the descriptors are closed. A [`Handle`], a
//!    timer, a socket or the waker of a `block_on` that is kept longer keeps them open, four on
//!    Linux, until it is dropped.
//!
//! The drop waits for all of this, at most [`Builder::shutdown_grace`] long. After that, calls that
//! have not begun are dropped, and what still runs is reported: its thread drops it when it
//! returns. The dropping of futures is not cut short: a million of them takes up to a second.
//!
//! On a thread of the runtime itself (inside a task, a `block_on` or a hook) the drop does not
//! wait, since the end would wait for that thread. On a thread of another runtime it waits, as in a
//! [`block_in_place`](crate::block_in_place): that runtime's tasks go on elsewhere. See also
//! [`Runtime::shutdown_timeout`] and [`Runtime::shutdown_background`].

mod builder;
mod choices;
mod cpus;
mod environment;
mod error;
mod handle;

use std::{
    future::Future,
    panic::{RefUnwindSafe, UnwindSafe},
    time::Duration,
};

pub use self::{
    builder::Builder,
    choices::{Clock, Priorities, Sysmon, UnhandledPanic},
    error::{BuildError, TryCurrentError},
    handle::Handle,
};
pub use crate::sched::{
    dump::{TaskDump, TaskState},
    lost::LostTask,
    traces::{AwaitFrame, AwaitTree},
    waits::WaitsFor,
};
use crate::{
    block_on::{self, in_place::block_in_place},
    cell::console::root,
    context,
    sched::{Shared, state::hooks::is_in_a_hook},
    sync::Arc,
    task::JoinHandle,
};
pub use crate::{
    cell::TaskAccount,
    context::EnterGuard,
    metrics::{Durations, Metrics, ProcessorMetrics, Prometheus},
    reports::Reports,
    sched::stall::{StallKind, StallPhase, StallReport, StallStack},
};
pub use ws_stack::{Frame as StackFrame, SystemCall};

/// The panic of `run` and `run_local` when they end without an output. The call owns the runtime,
/// so no other code can end it.
const STOPPED: &str = "the root task was cancelled: another task panicked, and the runtime was built with \
                       `UnhandledPanic::ShutdownRuntime`";

/// A scheduler with its threads, timers and netpoll.
///
/// # Examples
///
/// ```
/// use ws::runtime::Runtime;
///
/// let runtime = Runtime::new()?;
/// let sum = runtime.block_on(async {
///     let one = ws::spawn(async { 1 });
///     one.await.unwrap() + 2
/// });
/// assert_eq!(sum, 3);
/// # Ok::<(), ws::runtime::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    ended: bool,
}

// As in tokio.
const _: () = {
    const fn check<T: UnwindSafe + RefUnwindSafe + Send + Sync + 'static>() {}
    check::<Runtime>();
    check::<Handle>();
};

impl Runtime {
    /// Builds a runtime with the defaults of [`Builder`].
    ///
    /// # Errors
    ///
    /// If the system refuses the netpoll's file descriptors or a thread, or if a variable of the
    /// environment that a [`Builder`] goes by, such as `WS_WORKERS` or `WS_RECORD`, has no value
    /// that it may have.
    pub fn new() -> Result<Self, BuildError> {
        Builder::new().build()
    }

    pub(crate) fn from_handle(handle: Handle) -> Self {
        Self {
            handle,
            ended: false,
        }
    }

    /// The handle, which may be cloned and sent anywhere.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Spawns a task; see [`Handle::spawn`].
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// Runs a closure that blocks on a thread of this runtime; see
    /// [`spawn_blocking`](crate::spawn_blocking()).
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// let task = runtime.spawn_blocking(|| 7);
    /// assert_eq!(runtime.block_on(task).unwrap(), 7);
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.handle.spawn_blocking(f)
    }

    /// What the runtime has counted so far; see [`Handle::metrics`].
    ///
    /// ```
    /// let runtime = ws::runtime::Builder::new().workers(2).build().unwrap();
    /// assert_eq!(runtime.metrics().workers, 2);
    /// ```
    pub fn metrics(&self) -> Metrics {
        self.handle.metrics()
    }

    /// Makes this runtime the current one of this thread; see [`Handle::enter`].
    ///
    /// The guard borrows nothing, so the runtime can be shut down while it is there.
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// let _guard = runtime.enter();
    /// let task = ws::spawn(async { 7 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 7);
    /// runtime.shutdown_background();
    /// ```
    pub fn enter(&self) -> EnterGuard {
        self.handle.enter()
    }

    /// Waits for `future` on this thread; see [`Handle::block_on`].
    ///
    /// # Panics
    ///
    /// If `future` does; and in virtual time, as [`Handle::block_on`], if too many threads are in
    /// the runtime.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }

    /// Makes this thread a worker until `root` is done, and ends the runtime then.
    ///
    /// This is what `#[ws::main]` does. The root is an ordinary task, and other workers may steal
    /// it. The thread takes any work meanwhile, so a runtime with one worker needs no other thread
    /// for tasks. If this thread polls a task that blocks, the root goes on elsewhere, and `run`
    /// returns when that task gives the thread back.
    ///
    /// # Panics
    ///
    /// If `root` does; if it is called inside a task or a `block_on`; and if the runtime stops
    /// because of another task's panic ([`UnhandledPanic::ShutdownRuntime`]). Also if more threads
    /// are in the runtime than twice [`Builder::max_threads`], which takes as many calls of
    /// [`Handle::block_on`] at once.
    ///
    /// # Examples
    ///
    /// ```
    /// use ws::runtime::Builder;
    ///
    /// let runtime = Builder::new().workers(1).build()?;
    /// assert_eq!(runtime.run(async { 1 + 2 }), 3);
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    #[track_caller]
    pub fn run<F>(self, root: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let location = std::panic::Location::caller();
        let joined = block_on::run(self.handle.shared(), async move {
            let here = "it is inside the runtime";
            crate::context::with_current(|current| {
                let (_, worker) = current.expect(here);
                worker.expect(here).spawns_what_it_waits_for();
            });
            let root = crate::task::spawn_at(root, None, location);
            crate::context::with_current(|current| {
                let (shared, _) = current.expect(here);
                shared.watch_root(root.id());
            });
            root.await
        });
        match joined {
            Ok(output) => output,
            // Also if the root's destructor has panicked when it was aborted.
            Err(error) => match self.handle.shared().verdict_on_root() {
                Some(verdict) => panic!("{verdict}"),
                None => match error.try_into_panic() {
                    Ok(payload) => std::panic::resume_unwind(payload),
                    Err(_) => panic!("{STOPPED}"),
                },
            },
        }
    }

    /// As [`run`](Self::run), with a root that stays on this thread and need not be `Send`. The
    /// thread runs what [`Handle::block_on`] runs.
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{cell::Cell, rc::Rc};
    ///
    /// let runtime = ws::runtime::Runtime::new()?;
    /// let calls = Rc::new(Cell::new(0));
    /// let counted = calls.clone();
    /// runtime.run_local(async move { counted.set(1) });
    /// assert_eq!(calls.get(), 1);
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    #[track_caller]
    pub fn run_local<F: Future>(self, root: F) -> F::Output {
        match block_on::run_local(self.handle.shared(), root!(root, crate::sched::fresh_id())) {
            Some(output) => output,
            None => panic!("{STOPPED}"),
        }
    }

    /// Ends the runtime as its drop does, with `timeout` in place of [`Builder::shutdown_grace`].
    ///
    /// What still runs then is [reported](Builder::reports); its thread drops it when it returns.
    /// On a thread of this runtime, inside a task say, it does not wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = ws::runtime::Runtime::new()?;
    /// let waits = runtime.spawn(std::future::pending::<()>());
    /// runtime.shutdown_timeout(Duration::from_secs(5));
    /// assert!(waits.is_finished());
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    pub fn shutdown_timeout(mut self, timeout: Duration) {
        self.ended = true;
        end_and_wait(self.handle.shared(), timeout);
    }

    /// Ends the runtime without waiting. Its threads do what they do in a drop, and are given the
    /// time of [`Builder::shutdown_grace`] for it.
    pub fn shutdown_background(mut self) {
        self.ended = true;
        self.handle.shared().end(None);
    }
}

/// What [`Builder::host`] was given by the builder of the current runtime. None outside of a
/// runtime.
#[doc(hidden)]
pub fn with_host<R>(f: impl FnOnce(Option<Option<&(dyn std::any::Any + Send + Sync)>>) -> R) -> R {
    crate::context::with_current(|current| {
        f(current.map(|(shared, _)| shared.config.host.data.as_deref()))
    })
}

/// Ends the runtime, and waits at most `grace`. A thread of the runtime does not wait: the end may
/// wait for it.
pub(crate) fn end_and_wait(shared: &Arc<Shared>, grace: Duration) {
    if is_in_a_hook() || context::is_inside(shared) {
        shared.end(None);
    } else {
        block_in_place(|| shared.end(Some(grace)));
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if !self.ended {
            let grace = self.handle.shared().config.shutdown_grace;
            end_and_wait(self.handle.shared(), grace);
        }
    }
}
