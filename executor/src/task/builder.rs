//! Spawning.

use std::{future::Future, panic::Location, task::Waker};

use super::{join::JoinHandle, pinned::spawn_pinned_at, priority::Priority};
use crate::{
    blocking::BlockingCall,
    cell::{Extra, Parts, Task},
    context,
    sched::{Shared, Worker, push::Forked},
    sync::Arc,
};

const OUTSIDE: &str = "was called outside of a ws runtime: call it from a task, from `block_on`, or \
                       after `Handle::enter`";

/// Spawns a task onto the current runtime.
///
/// It starts soon, also if the handle is never awaited: next on this worker, or on an idle one. If
/// the poll that spawns it computes on, an idle worker takes it at once. Where it was in vain
/// before to wake one for a task that is alone, because this worker came back to it within 20 us,
/// the monitor wakes one: after 1 to 10 ms.
///
/// # Panics
///
/// Outside of a runtime: see [`Handle::enter`](crate::runtime::Handle::enter).
///
/// # Examples
///
/// ```
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let task = ws::spawn(async { "done" });
/// assert_eq!(task.await.unwrap(), "done");
/// # });
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawn_at(future, None, Location::caller())
}

/// Spawns a task that stays on this thread, and need not be `Send`.
///
/// On a worker it lives as long as it likes, and the thread does too. In a `block_on` it is dropped
/// when that returns, on that thread; in one `block_on` inside another, when the outer one does.
///
/// It does not go into a [`LocalSet`](crate::task::LocalSet), wherever it is called.
///
/// # Panics
///
/// - On a thread that is not a worker and not in a `block_on` of the current runtime.
/// - In a `block_on` while twice [`max_threads`](crate::runtime::Builder::max_threads) threads are
///   workers of its runtime or in a `block_on` of it.
/// - In a `block_on` of one runtime that is called inside a task, a blocking call or a `block_on`
///   of another, unless the thread is also a worker of the first, or in an outer `block_on` of it.
///   Use [`spawn_pinned`] there.
///
/// # Examples
///
/// ```
/// use std::rc::Rc;
///
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let shared = Rc::new(5);
/// let task = ws::spawn_local({
///     let shared = shared.clone();
///     async move { *shared + 1 }
/// });
/// assert_eq!(task.await.unwrap(), 6);
/// # });
/// ```
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    spawn_local_at(future, None, Location::caller())
}

/// Spawns a task. Its future is made on the thread that it then stays on: some worker's.
///
/// The factory is `Send`, what it makes need not be.
///
/// Where the system refuses threads, that may be a thread in
/// [`block_on`](crate::runtime::Handle::block_on) which stands in for them. Then the task is
/// cancelled when that call returns.
///
/// # Panics
///
/// Outside of a runtime: see [`Handle::enter`](crate::runtime::Handle::enter).
///
/// # Examples
///
/// ```
/// use std::rc::Rc;
///
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let task = ws::spawn_pinned(|| async {
///     let here = Rc::new(1);
///     ws::task::yield_now().await;
///     *here
/// });
/// assert_eq!(task.await.unwrap(), 1);
/// # });
/// ```
#[track_caller]
pub fn spawn_pinned<M, F>(make: M) -> JoinHandle<F::Output>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future + 'static,
    F::Output: Send + 'static,
{
    spawn_pinned_at(make, None, Location::caller())
}

/// Runs a closure that blocks on a thread where that holds up no task, timer or socket.
///
/// At most `max_threads - 2 * workers` such closures run at a time; the others wait, and can be
/// aborted until they begin. A closure that was accepted runs also if the runtime is ended before
/// it has begun, if [`shutdown_grace`](crate::runtime::Builder::shutdown_grace) is long enough for
/// that. What is pinned to a worker (`spawn_local`, `spawn_pinned`, the root of
/// [`Runtime::run_local`](crate::runtime::Runtime::run_local)) waits for a closure that this worker
/// runs. A worker runs one only where no other thread can be had.
///
/// # Panics
///
/// Outside of a runtime: see [`Handle::enter`](crate::runtime::Handle::enter).
///
/// # Examples
///
/// ```
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let text = ws::spawn_blocking(|| std::fs::read_to_string("Cargo.toml")).await.unwrap();
/// assert!(text.unwrap().contains("ws-executor"));
/// # });
/// ```
#[track_caller]
pub fn spawn_blocking<F, R>(f: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let location = Location::caller();
    match current() {
        Some(shared) => spawn_blocking_on(&shared, f, None, location),
        None => panic!("`ws::spawn_blocking` {OUTSIDE}"),
    }
}

/// Spawns a task with a name, or with a priority.
///
/// The name is in reports, dumps and logs.
///
/// # Examples
///
/// ```
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let task = ws::task::Builder::new().name("answer").spawn(async { 42 });
/// assert_eq!(task.await.unwrap(), 42);
/// # });
/// ```
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until it spawns"]
pub struct Builder {
    pub(crate) extra: Option<Box<Extra>>,
}

impl Builder {
    /// A builder of a task like those of [`spawn`], until it is told otherwise.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the task.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.extra.get_or_insert_default().name = Some(name.into().into_boxed_str());
        self
    }

    /// Gives the task a priority; what it spawns does not inherit it, unless that is given
    /// [`Priority::current`]. See [`Priority`] for what that means, and for which tasks it means
    /// nothing.
    ///
    /// ```
    /// use ws::task::{Builder, Priority};
    ///
    /// # let runtime = ws::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let report = Builder::new().priority(Priority::LOWEST).spawn(async { "done" });
    /// let check = Builder::new().priority(10).spawn(async { "well" });
    /// assert_eq!(check.priority(), Priority::new(10));
    /// assert_eq!((check.await.unwrap(), report.await.unwrap()), ("well", "done"));
    /// # });
    /// ```
    pub fn priority(mut self, priority: impl Into<Priority>) -> Self {
        self.extra.get_or_insert_default().priority = priority.into().get();
        self
    }

    /// As [`spawn`].
    ///
    /// # Panics
    ///
    /// As [`spawn`].
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn_at(future, self.extra, Location::caller())
    }

    /// As [`spawn_local`].
    ///
    /// # Panics
    ///
    /// As [`spawn_local`].
    #[track_caller]
    pub fn spawn_local<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        spawn_local_at(future, self.extra, Location::caller())
    }

    /// As [`spawn_pinned`].
    ///
    /// # Panics
    ///
    /// As [`spawn_pinned`].
    #[track_caller]
    pub fn spawn_pinned<M, F>(self, make: M) -> JoinHandle<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        spawn_pinned_at(make, self.extra, Location::caller())
    }

    /// As [`spawn_blocking`].
    ///
    /// # Panics
    ///
    /// As [`spawn_blocking`].
    #[track_caller]
    pub fn spawn_blocking<F, R>(self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let location = Location::caller();
        match current() {
            Some(shared) => spawn_blocking_on(&shared, f, self.extra, location),
            None => panic!("`task::Builder::spawn_blocking` {OUTSIDE}"),
        }
    }
}

/// The current runtime.
fn current() -> Option<Arc<Shared>> {
    context::with_current(|current| current.map(|(shared, _)| shared.clone()))
}

/// Spawns on the current runtime.
#[track_caller]
pub(crate) fn spawn_at<F>(
    future: F,
    extra: Option<Box<Extra>>,
    location: &'static Location<'static>,
) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let spawned = context::with_current(|current| {
        current.map(|(shared, worker)| spawn_by(shared, worker, future, extra, location))
    });
    match spawned {
        Some(handle) => handle,
        None => panic!("`ws::spawn` {OUTSIDE}"),
    }
}

/// Spawns on the current runtime, as a child that runs before its parent goes on. The parent is
/// polled with `waker`. If that cannot be, spawns as any other task.
#[track_caller]
pub(crate) fn fork_at<F>(
    future: F,
    waker: &Waker,
    location: &'static Location<'static>,
) -> (JoinHandle<F::Output>, Forked)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let forked = context::with_current(|current| {
        current.map(|(shared, worker)| match worker {
            Some(worker) => {
                let (task, join) = Task::new(future, worker.parts(None, location));
                let forked = worker.fork(task, waker);
                (JoinHandle::new(join), forked)
            }
            None => {
                let handle = spawn_by(shared, None, future, None, location);
                (handle, Forked::Spawned)
            }
        })
    });
    match forked {
        Some(forked) => forked,
        None => panic!("`ws::fork` at {location} {OUTSIDE}"),
    }
}

/// Spawns on a given runtime, whatever the current one is.
pub(crate) fn spawn_on<F>(
    shared: &Arc<Shared>,
    future: F,
    extra: Option<Box<Extra>>,
    location: &'static Location<'static>,
) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    context::with_worker_of(Arc::as_ptr(shared), |worker| {
        spawn_by(shared, worker, future, extra, location)
    })
}

/// Spawns into the global queue of the current runtime: for the first worker that comes, but not
/// for a thread in `block_on`, which would hold up its own root.
#[track_caller]
pub(crate) fn spawn_for_all<F>(
    future: F,
    caller: &str,
    extra: Option<Box<Extra>>,
    location: &'static Location<'static>,
) -> (JoinHandle<F::Output>, Arc<Shared>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let spawned = context::with_current(|current| {
        current.map(|(shared, worker)| {
            if let Some(worker) = worker {
                worker.spawns_for_all();
            }
            (
                spawn_by(shared, None, future, extra, location),
                shared.clone(),
            )
        })
    });
    match spawned {
        Some(spawned) => spawned,
        None => panic!("`{caller}` at {location} {OUTSIDE}"),
    }
}

fn spawn_by<F>(
    shared: &Arc<Shared>,
    worker: Option<&Worker>,
    future: F,
    extra: Option<Box<Extra>>,
    location: &'static Location<'static>,
) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let parts = parts_by(shared, worker, extra, location);
    let (task, join) = Task::new(future, parts);
    match worker {
        Some(worker) => worker.spawn(task),
        None => shared.spawn_foreign(task),
    }
    JoinHandle::new(join)
}

#[inline]
fn parts_by(
    shared: &Shared,
    worker: Option<&Worker>,
    extra: Option<Box<Extra>>,
    location: &'static Location<'static>,
) -> Parts {
    match worker {
        Some(worker) => worker.parts(extra, location),
        None => shared.foreign_parts(extra, location),
    }
}

#[track_caller]
fn spawn_local_at<F>(
    future: F,
    extra: Option<Box<Extra>>,
    location: &'static Location<'static>,
) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let spawned = context::with_current(|current| {
        let (_, Some(worker)) = current? else {
            return None;
        };
        Some(spawn_local_by(worker, future, extra, location))
    });
    match spawned {
        Some(handle) => handle,
        None if context::is_busy() => panic!(
            "`ws::spawn_local` was called in a `block_on` for which the current runtime has no P: either more \
             threads are in a `block_on` of it than there may be Ps, twice its `max_threads`, which the builder \
             can raise, or the `block_on` is another runtime's; `ws::spawn_pinned` needs neither"
        ),
        None => panic!(
            "`ws::spawn_local` was called on a thread that is no worker: call it from a task or from \
             `block_on`, or use `ws::spawn_pinned`"
        ),
    }
}

/// Tells whether [`spawn_local_on`] would pin a task here.
pub(crate) fn can_pin_here(shared: &Arc<Shared>) -> bool {
    context::with_worker_of(Arc::as_ptr(shared), |worker| worker.is_some())
}

/// Pins a task to this thread, if it is a worker of the given runtime or in a `block_on` of it.
pub(crate) fn spawn_local_on<F>(
    shared: &Arc<Shared>,
    future: F,
    location: &'static Location<'static>,
) -> Option<JoinHandle<F::Output>>
where
    F: Future + 'static,
    F::Output: 'static,
{
    context::with_worker_of(Arc::as_ptr(shared), |worker| {
        Some(spawn_local_by(worker?, future, None, location))
    })
}

fn spawn_local_by<F>(
    worker: &Worker,
    future: F,
    extra: Option<Box<Extra>>,
    location: &'static Location<'static>,
) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let parts = worker.parts(extra, location);
    let (task, join) = Shared::new_pinned_task(worker, future, parts);
    worker.has_pinned_another();
    worker.spawn(task);
    JoinHandle::new(join)
}

pub(crate) fn spawn_blocking_on<F, R>(
    shared: &Arc<Shared>,
    f: F,
    extra: Option<Box<Extra>>,
    location: &'static Location<'static>,
) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    context::with_worker_of(Arc::as_ptr(shared), |worker| {
        let parts = parts_by(shared, worker, extra, location);
        let call = BlockingCall::new(shared.clone(), f);
        let (task, join) = Task::new_blocking(call, parts);
        match worker {
            Some(worker) => worker.spawn_call(task),
            None => shared.spawn_foreign(task),
        }
        JoinHandle::new(join)
    })
}
