//! The handle: a runtime from anywhere.

use std::{
    future::Future,
    io,
    panic::{Location, RefUnwindSafe, UnwindSafe},
};

use ws_reactor::Netpoll;

use super::{EnterGuard, LostTask, Metrics, TaskDump, TryCurrentError};
use crate::{
    block_on::block_on,
    cell::console::root,
    context,
    recorder::{Level, Recording},
    sched::{Shared, state::snapshot_files::Why},
    sync::Arc,
    task::{self, AbortHandle, JoinHandle, JoinSet, spawn_blocking_on, spawn_on},
};

/// A way to a runtime, for any thread: spawn on it, enter it, wait on it.
///
/// It does not keep the runtime running: when the [`Runtime`](super::Runtime) is dropped, tasks
/// that are spawned by a handle are cancelled at once.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
}

// What a panic may leave half done in a runtime is a task, and the panic is the task's own. As in
// tokio.
impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The current runtime of this thread.
    ///
    /// # Panics
    ///
    /// If there is none: outside of a task, of `block_on`, and of [`Handle::enter`].
    ///
    /// ```
    /// use ws::runtime::{Handle, Runtime};
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let two = runtime.block_on(async { Handle::current().spawn(async { 2 }).await });
    /// assert_eq!(two.unwrap(), 2);
    /// ```
    #[track_caller]
    pub fn current() -> Self {
        match Self::try_current() {
            Ok(handle) => handle,
            Err(_) => panic!(
                "there is no current ws runtime: call `Handle::current` from a task, from `block_on`, \
                 or after `Handle::enter`"
            ),
        }
    }

    /// The current runtime of this thread, if there is one.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn try_current() -> Result<Self, TryCurrentError> {
        context::with_current(|current| current.map(|(shared, _)| Self::new(shared.clone())))
            .ok_or_else(TryCurrentError::new)
    }

    /// Makes this runtime the current one of this thread until the guard is dropped: `spawn`,
    /// timers and sockets find it.
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// let _guard = runtime.handle().enter();
    /// let task = ws::spawn(async { 7 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 7);
    /// ```
    pub fn enter(&self) -> EnterGuard {
        context::enter(self.shared.clone())
    }

    /// Spawns a task on this runtime.
    ///
    /// If the runtime was shut down, the future is dropped at once and the handle says so.
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// let task = runtime.handle().spawn(async { 7 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 7);
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        task::spawn_on(&self.shared, future, None, std::panic::Location::caller())
    }

    /// Runs a closure that blocks on a thread of this runtime; see
    /// [`spawn_blocking`](crate::spawn_blocking).
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        task::spawn_blocking_on(&self.shared, f, None, std::panic::Location::caller())
    }

    /// Waits for `future` on this thread, which takes part in the runtime meanwhile: with a
    /// worker's permit if one is free it runs what `future` makes runnable, and nothing else.
    ///
    /// As soon as `future` waits for a timer or a socket, the thread leaves its tasks to the
    /// others, for one that blocks would block `future` as well. While `future` waits for nothing
    /// but tasks, locks or channels, a task that blocks on this very thread holds it up, for as
    /// long as it blocks. That is so in [`block_in_place`](crate::block_in_place) and in a
    /// `block_on` inside the task, too: these let the other tasks go on, but `future` cannot leave
    /// its thread. If the task waits for `future`, both wait for ever. Any of these avoids it:
    ///
    /// - [`Runtime::run`](super::Runtime::run), or `#[ws::main]` with a body that is `Send`: there
    ///   the root is a task, and another thread polls it;
    /// - [`spawn_blocking`](crate::spawn_blocking()) for what blocks;
    /// - a [`timeout`](crate::time::timeout()) around what `future` waits for.
    ///
    /// Inside a task it announces a block (see [`block_in_place`](crate::block_in_place)) and
    /// waits. Tasks that `spawn_local` has pinned to this very thread go on meanwhile, as they
    /// would if the caller awaited `future`: hold no lock or borrow across the call that they take
    /// too. They do not go on inside a [`join`](crate::join), a [`scope`](crate::scope()) or a
    /// [`compute`](crate::compute), which must not wait for one of them. Exception: they may inside
    /// the second branch of a join that no worker took, since it is a plain call. Calls that nest
    /// in this way return in reverse order: one returns after those which tasks began meanwhile on
    /// its thread.
    ///
    /// If the runtime can have no further thread, at its cap or because the system refuses one, the
    /// permit of a call inside a task is not taken over. Then `future` waits for ever if it waits
    /// for another task that only this thread could run.
    ///
    /// `future` need not be `Send`. Tasks that were pinned to this thread by `spawn_local` are
    /// dropped when it returns; inside another call, when the outer one does.
    ///
    /// # Panics
    ///
    /// If `future` does; and inside a task, if the tasks that are pinned to this thread call this
    /// one above the other until half of the thread's stack is used. In a hook for parking, in a
    /// waker, and in a destructor at the end of another call, if `spawn_local` was called there
    /// before and this one would wait: what it has pinned cannot run before that code returns. If
    /// time is virtual ([`Builder::clock`](super::Builder::clock)), also if more threads are in
    /// the runtime than twice [`Builder::max_threads`](super::Builder::max_threads).
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(&self.shared, root!(future, crate::sched::fresh_id()))
    }

    /// What the runtime has counted so far.
    ///
    /// ```
    /// let runtime = ws::runtime::Builder::new().workers(2).build().unwrap();
    /// runtime.block_on(async { ws::spawn(async {}).await }).unwrap();
    /// let metrics = runtime.handle().metrics();
    /// assert_eq!(metrics.workers, 2);
    /// assert_eq!(metrics.processors.iter().map(|p| p.spawned).sum::<u64>(), 1);
    /// ```
    pub fn metrics(&self) -> Metrics {
        self.shared.metrics()
    }

    /// All tasks that are alive, with what they are doing; also while some of them hold their
    /// threads.
    ///
    /// Nothing is polled and no thread waits for it. Tasks come and go meanwhile, so the rows are
    /// not of one moment.
    ///
    /// ```
    /// use ws::{runtime::{Runtime, TaskState}, task};
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let dump = runtime.block_on(async {
    ///     let _guard = task::Builder::new().name("waits").spawn(std::future::pending::<()>()).abort_on_drop();
    ///     task::yield_now().await;
    ///     ws::runtime::Handle::current().dump()
    /// });
    /// assert_eq!(dump.len(), 1);
    /// assert_eq!(dump[0].name.as_deref(), Some("waits"));
    /// assert_ne!(dump[0].location.line(), 0);
    /// ```
    pub fn dump(&self) -> Vec<TaskDump> {
        self.shared.dump()
    }

    /// The tasks that can never wake: they are idle, and nothing has a waker of them, in no socket,
    /// no timer, no channel and no other library. Or all that have one are lost tasks as well, as
    /// when tasks wait for each other's handles. Only an abort or the end of the runtime can end
    /// them.
    ///
    /// None is named that could still be woken. One that waits for a task with an abort handle
    /// could: an abort ends that task. Also an extra poll could bring it on, as
    /// [`dump_awaits`](Self::dump_awaits) makes one. Not found is one that waits for itself through
    /// a channel or a lock, or for others through a [`JoinSet`] or another
    /// combinator with wakers of its own; one that keeps a waker of its own, or whose waker was
    /// leaked; one that waits for a lost task of another runtime; the future of a
    /// [`block_on`](Self::block_on), which is no task; one that had more than 14 abort handles at
    /// once; and, in this look, one that another thread is looking at. One case is
    /// ignored: somebody takes away the handle for which a task waits, and aborts with it.
    ///
    /// A task that waits for ever on purpose, such as `pending().await` up to an abort, is named as
    /// well.
    ///
    /// It looks at all tasks twice, some 100 ns each. It polls nothing, and no thread waits for it.
    ///
    /// ```
    /// use futures::channel::oneshot;
    ///
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// let (sender, receiver) = oneshot::channel::<()>();
    /// let waits = runtime.spawn(receiver);
    /// assert!(runtime.handle().lost_tasks().is_empty());
    /// let forgets = runtime.spawn(std::future::poll_fn(|_cx| std::task::Poll::<()>::Pending));
    /// # while runtime.handle().dump().iter().any(|task| task.account.idle_for.is_none()) { std::thread::yield_now() }
    /// let lost = runtime.handle().lost_tasks();
    /// assert_eq!(lost.iter().map(|lost| lost.task.id).collect::<Vec<_>>(), [forgets.id()]);
    /// # drop(sender);
    /// ```
    pub fn lost_tasks(&self) -> Vec<LostTask> {
        self.shared.lost_tasks()
    }

    /// The seed of the scheduler's random choices: the one of
    /// [`Builder::seed`](super::Builder::seed), or the one that was drawn.
    ///
    /// ```
    /// let runtime = ws::runtime::Builder::new().seed(7).build().unwrap();
    /// assert_eq!(runtime.handle().seed(), 7);
    /// ```
    pub fn seed(&self) -> u64 {
        self.shared.config.seed
    }

    /// Whether time is virtual; see [`Builder::clock`](super::Builder::clock).
    pub fn is_paused(&self) -> bool {
        self.shared.config.paused.is_some()
    }

    /// From now on, the scheduler records this much of what it does, for
    /// [`recording`](Self::recording). Nothing changes in a runtime that was built without a
    /// recorder.
    ///
    /// ```
    /// use ws::{runtime::Runtime, trace::Level};
    ///
    /// let runtime = Runtime::new().unwrap();
    /// runtime.handle().record(Level::Full);
    /// ```
    pub fn record(&self, level: Level) {
        self.shared.record(level);
    }

    /// What the scheduler did last, as far as it was recorded.
    ///
    /// How much that is says [`record`](Self::record), and how far it reaches back
    /// [`Builder::recorder`](super::Builder::recorder). No thread waits for it, and what is in it
    /// is whole. It takes time and memory for each event and for each live task: with full rings
    /// some milliseconds for a worker.
    ///
    /// ```
    /// use ws::{runtime::Builder, trace::{EventKind, Level}};
    ///
    /// let builder = Builder::new().workers(1).record(Level::Full);
    /// # let builder = builder.sysmon(ws::runtime::Sysmon::Off); // or others are let in for a thread that has no core
    /// let runtime = builder.build().unwrap();
    /// let task = runtime.block_on(async {
    ///     let task = ws::spawn(async {});
    ///     let id = task.id();
    ///     task.await.unwrap();
    ///     id
    /// });
    /// let events = runtime.handle().recording().events;
    /// let of_the_task = events.iter().filter(|event| event.task == Some(task));
    /// let kinds: Vec<_> = of_the_task.map(|event| event.kind).collect();
    /// assert_eq!(kinds.first(), Some(&EventKind::Spawn));
    /// assert!(kinds.ends_with(&[EventKind::Run, EventKind::Done]));
    /// ```
    pub fn recording(&self) -> Recording {
        self.shared.recording()
    }

    /// Begins to write what the scheduler did last to a file. Returns whether it does.
    ///
    /// A thread of its own writes, and this call does not wait for that.
    /// [`Builder::snapshots`](super::Builder::snapshots) sets the folder, and how many files are
    /// kept: without that, nothing is written. Nothing is written either if the last file is not
    /// finished, or was begun less than a second ago, or if the runtime has ended. `reason` becomes
    /// a part of the file's name. A file that cannot be written is [reported](super::Reports).
    ///
    /// Hooks may call it. With a signal, it works also while all workers are stuck:
    ///
    /// ```
    /// # fn of_a_service() -> std::io::Result<()> {
    /// use ws::signal::unix::{SignalKind, signal};
    ///
    /// let mut usr1 = signal(SignalKind::user_defined1())?;
    /// ws::spawn(async move {
    ///     while usr1.recv().await.is_ok() {
    ///         ws::runtime::Handle::current().snapshot("SIGUSR1");
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self, reason: &str) -> bool {
        self.shared.snapshot(Why::Asked(reason))
    }

    /// Writes what [`snapshot`](Self::snapshot) writes to a file: the recording as a trace of
    /// [Perfetto](crate::trace::Recording::write_perfetto), and with it the tasks, the counters and
    /// the stalls, for the program `ws-inspect`.
    ///
    /// It takes time for each event, and time and memory for each live task. Of the rings it copies
    /// at most 64 MiB at a time. The rings may be larger. If they are, and new events overwrite old
    /// ones before these are written, the old ones are left out. A file should be in a
    /// [`BufWriter`](std::io::BufWriter).
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new()?;
    /// let mut file = Vec::new();
    /// runtime.handle().write_snapshot(&mut file)?;
    /// assert!(!file.is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_snapshot(&self, out: impl io::Write) -> io::Result<()> {
        self.shared.write_snapshot(out)
    }

    /// What [`Builder::host`](super::Builder::host) was given.
    #[doc(hidden)]
    pub fn host(&self) -> Option<&std::sync::Arc<dyn std::any::Any + Send + Sync>> {
        self.shared.config.host.data.as_ref()
    }

    /// A number that no other runtime has while this one is there.
    #[doc(hidden)]
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// Whether the runtime has begun to end.
    #[doc(hidden)]
    pub fn is_ending(&self) -> bool {
        self.shared.end.phase.is_ending()
    }

    /// Lets the clock of a `current_thread` runtime run, or stops it. False if it did so already.
    #[doc(hidden)]
    pub fn set_frozen(&self, frozen: bool) -> bool {
        let clock = self.shared.time.clock();
        if clock.is_frozen() == frozen {
            return false;
        }
        if frozen {
            clock.freeze();
        } else {
            clock.let_go();
        }
        true
    }

    /// Whether the clock stands still.
    #[doc(hidden)]
    pub fn is_frozen(&self) -> bool {
        self.shared.time.clock().is_frozen()
    }

    /// Moves a clock that stands still.
    #[doc(hidden)]
    pub fn advance(&self, by: std::time::Duration) {
        let clock = self.shared.time.clock();
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        clock.jump_to(clock.now_ns().saturating_add(by));
    }

    /// The netpoll, for code that builds resources on it.
    #[doc(hidden)]
    pub fn netpoll(&self) -> &Arc<Netpoll> {
        &self.shared.io.netpoll
    }
}

impl futures_task::Spawn for Handle {
    #[track_caller]
    fn spawn_obj(
        &self,
        future: futures_task::FutureObj<'static, ()>,
    ) -> Result<(), futures_task::SpawnError> {
        if self.shared.end.phase.is_ending() {
            return Err(futures_task::SpawnError::shutdown());
        }
        drop(self.spawn(future));
        Ok(())
    }

    fn status(&self) -> Result<(), futures_task::SpawnError> {
        if self.shared.end.phase.is_ending() {
            Err(futures_task::SpawnError::shutdown())
        } else {
            Ok(())
        }
    }
}

/// Spawns on the current thread, as [`spawn_local`](crate::spawn_local) does. It is an error on a
/// thread where `spawn_local` would panic, or would pin to another runtime.
///
/// `status_local` says which of the two it would be: it is an error once the runtime ends, too.
impl futures_task::LocalSpawn for Handle {
    #[track_caller]
    fn spawn_local_obj(
        &self,
        future: futures_task::LocalFutureObj<'static, ()>,
    ) -> Result<(), futures_task::SpawnError> {
        futures_task::Spawn::status(self)?;
        match task::spawn_local_on(&self.shared, future, std::panic::Location::caller()) {
            Some(handle) => {
                drop(handle);
                Ok(())
            }
            None => Err(futures_task::SpawnError::shutdown()),
        }
    }

    fn status_local(&self) -> Result<(), futures_task::SpawnError> {
        futures_task::Spawn::status(self)?;
        if task::can_pin_here(&self.shared) {
            Ok(())
        } else {
            Err(futures_task::SpawnError::shutdown())
        }
    }
}

impl task::Builder {
    /// As [`spawn`](crate::spawn), on the runtime of `handle`.
    #[track_caller]
    pub fn spawn_on<F>(self, future: F, handle: &Handle) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn_on(handle.shared(), future, self.extra, Location::caller())
    }
}

impl<T: 'static> JoinSet<T> {
    /// Spawns a task onto the runtime of `handle`, and into the set.
    ///
    /// ```
    /// use ws::{runtime::Runtime, task::JoinSet};
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let mut set = JoinSet::new();
    /// set.spawn_on(async { 7 }, runtime.handle());
    /// assert_eq!(runtime.block_on(set.join_next()).unwrap().unwrap(), 7);
    /// ```
    #[track_caller]
    pub fn spawn_on<F>(&mut self, future: F, handle: &Handle) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.insert(spawn_on(handle.shared(), future, None, Location::caller()))
    }

    /// Runs a closure that blocks on a thread of the runtime of `handle`, as a member of the set.
    #[track_caller]
    pub fn spawn_blocking_on<F>(&mut self, f: F, handle: &Handle) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.insert(spawn_blocking_on(
            handle.shared(),
            f,
            None,
            Location::caller(),
        ))
    }
}
