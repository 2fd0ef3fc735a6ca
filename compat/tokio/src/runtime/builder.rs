//! The knobs of a runtime.

use std::{
    fmt, io,
    sync::{Arc, Once},
    time::Duration,
};

use ws_executor::task::TaskQueue;

use super::{
    Handle, Host, Id, LocalOptions, LocalRuntime, Runtime, RuntimeFlavor,
    current_thread::{CurrentThread, EVENT_INTERVAL},
};
use crate::{context, signal::unix::Listeners};

type Hook = Option<Arc<dyn Fn() + Send + Sync>>;

/// The longest time that a runtime's drop waits for code that blocks: practically for ever.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The workers, threads and stacks that `ws` takes; tokio has no limit, or that of the system.
const WORKERS_MAX: usize = 1024;
const THREADS_MAX: usize = 1 << 15;
const STACK_MIN: usize = 64 * 1024;
const STACK_MAX: usize = 1 << 30;

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/runtime/struct.Builder.html).
pub struct Builder {
    flavor: RuntimeFlavor,
    workers: Option<usize>,
    max_blocking_threads: usize,
    name: Option<String>,
    thread_name: Arc<dyn Fn() -> String + Send + Sync>,
    stack_size: Option<usize>,
    keep_alive: Option<Duration>,
    io: bool,
    time: bool,
    start_paused: bool,
    event_interval: u32,
    start: Hook,
    stop: Hook,
    park: Hook,
    unpark: Hook,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("flavor", &self.flavor)
            .field("worker_threads", &self.workers)
            .field("max_blocking_threads", &self.max_blocking_threads)
            .finish_non_exhaustive()
    }
}

impl Builder {
    fn new(flavor: RuntimeFlavor) -> Self {
        Self {
            flavor,
            workers: None,
            max_blocking_threads: 512,
            name: None,
            thread_name: Arc::new(|| "tokio-rt-worker".into()),
            stack_size: None,
            keep_alive: None,
            io: false,
            time: false,
            start_paused: false,
            event_interval: EVENT_INTERVAL,
            start: None,
            stop: None,
            park: None,
            unpark: None,
        }
    }

    /// A runtime whose tasks run on the thread of its caller.
    pub fn new_current_thread() -> Self {
        Self::new(RuntimeFlavor::CurrentThread)
    }

    /// A runtime whose tasks run on the workers of `ws`.
    pub fn new_multi_thread() -> Self {
        Self::new(RuntimeFlavor::MultiThread)
    }

    /// Enables I/O and timers.
    pub fn enable_all(&mut self) -> &mut Self {
        self.enable_io().enable_time()
    }

    /// Enables I/O.
    pub fn enable_io(&mut self) -> &mut Self {
        self.io = true;
        self
    }

    /// Enables timers.
    pub fn enable_time(&mut self) -> &mut Self {
        self.time = true;
        self
    }

    /// The number of workers. Without it `TOKIO_WORKER_THREADS` or the number of CPUs. More than
    /// 1,024 are 1,024.
    ///
    /// # Panics
    ///
    /// If it is 0.
    #[track_caller]
    pub fn worker_threads(&mut self, val: usize) -> &mut Self {
        assert!(val > 0, "Worker threads cannot be set to 0");
        self.workers = Some(val);
        self
    }

    /// How many closures may block at a time.
    ///
    /// # Panics
    ///
    /// If it is 0.
    #[track_caller]
    pub fn max_blocking_threads(&mut self, val: usize) -> &mut Self {
        assert!(val > 0, "Max blocking threads cannot be set to 0");
        self.max_blocking_threads = val;
        self
    }

    /// The name of its threads.
    pub fn thread_name(&mut self, val: impl Into<String>) -> &mut Self {
        let val = val.into();
        self.thread_name_fn(move || val.clone())
    }

    /// The name of the runtime.
    ///
    /// # Panics
    ///
    /// If it is empty.
    #[track_caller]
    pub fn name(&mut self, val: impl Into<String>) -> &mut Self {
        let val = val.into();
        assert!(!val.trim().is_empty(), "runtime name shouldn't be empty");
        self.name = Some(val);
        self
    }

    /// A function that names its threads. It is called once for each.
    pub fn thread_name_fn<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() -> String + Send + Sync + 'static,
    {
        self.thread_name = Arc::new(f);
        self
    }

    /// The stack of its threads, in bytes.
    pub fn thread_stack_size(&mut self, val: usize) -> &mut Self {
        self.stack_size = Some(val);
        self
    }

    /// Called on each thread when it starts.
    pub fn on_thread_start<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.start = Some(Arc::new(f));
        self
    }

    /// Called on each thread when it ends.
    pub fn on_thread_stop<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.stop = Some(Arc::new(f));
        self
    }

    /// Called on a worker before it sleeps.
    pub fn on_thread_park<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.park = Some(Arc::new(f));
        self
    }

    /// Called on a worker after it slept.
    pub fn on_thread_unpark<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.unpark = Some(Arc::new(f));
        self
    }

    /// How long a thread without work waits before it ends.
    pub fn thread_keep_alive(&mut self, duration: Duration) -> &mut Self {
        self.keep_alive = Some(duration);
        self
    }

    /// Has no effect: how often the global queue has its turn is a guarantee of `ws`.
    ///
    /// # Panics
    ///
    /// If it is 0.
    #[track_caller]
    pub fn global_queue_interval(&mut self, val: u32) -> &mut Self {
        assert!(val > 0, "global_queue_interval must be greater than 0");
        self
    }

    /// Tasks of a current-thread runtime that run before I/O and timers have their turn. The
    /// workers of `ws` look at them at each step.
    ///
    /// # Panics
    ///
    /// If it is 0.
    #[track_caller]
    pub fn event_interval(&mut self, val: u32) -> &mut Self {
        assert!(val > 0, "event_interval must be greater than 0");
        self.event_interval = val;
        self
    }

    /// Has no effect: the netpoll of `ws` takes what there is.
    ///
    /// # Panics
    ///
    /// If it is 0.
    #[track_caller]
    pub fn max_io_events_per_tick(&mut self, capacity: usize) -> &mut Self {
        assert!(capacity > 0, "max_io_events_per_tick must be non-zero");
        self
    }

    /// Has no effect: the netpoll of `ws` takes what there is.
    ///
    /// # Panics
    ///
    /// If it is 0.
    #[track_caller]
    pub fn max_io_events_per_busy_tick(&mut self, capacity: usize) -> &mut Self {
        assert!(capacity > 0, "max_io_events_per_busy_tick must be non-zero");
        self
    }

    /// Whether the clock stands still at first; for the current-thread flavour.
    pub fn start_paused(&mut self, start_paused: bool) -> &mut Self {
        self.start_paused = start_paused;
        self
    }

    /// Builds the runtime.
    ///
    /// # Errors
    ///
    /// If the system refuses it, or if `WS_RECORD`, or `WS_TEST_SEED` for the current-thread
    /// flavour, is set to something that is no value of it.
    ///
    /// # Panics
    ///
    /// If the clock is to stand still, and the flavour is the multi-thread one.
    pub fn build(&mut self) -> io::Result<Runtime> {
        self.build_with(false)
    }

    /// Builds a runtime for tasks that need not be `Send`.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    ///
    /// # Panics
    ///
    /// If its flavour is the multi-thread one.
    #[track_caller]
    pub fn build_local(&mut self, _options: LocalOptions) -> io::Result<LocalRuntime> {
        assert!(
            self.flavor == RuntimeFlavor::CurrentThread,
            "multi_thread is not supported for LocalRuntime"
        );
        self.build_with(true).map(LocalRuntime::of)
    }

    fn build_with(&self, local: bool) -> io::Result<Runtime> {
        tell_if_asked();
        let is_current = self.flavor == RuntimeFlavor::CurrentThread;
        assert!(
            is_current || !self.start_paused,
            "{}",
            crate::time::NOT_HERE
        );
        let queue = is_current.then(|| match local {
            true => TaskQueue::of_this_thread(),
            false => TaskQueue::new(),
        });
        let host = Arc::new(Host {
            id: Id::next(),
            name: self.name.clone(),
            io: self.io,
            time: self.time,
            queue: queue.as_ref().map(|queue| queue.spawner().clone()),
            local,
            listeners: Listeners::default(),
        });
        let mut builder = ws_executor::runtime::Builder::new()
            .shutdown_grace(FOR_EVER)
            .host(host, self.thread_name.clone(), |work| context::inside(work));
        let workers = match (is_current, self.workers) {
            (true, _) => 1,
            (false, Some(workers)) => workers,
            (false, None) => workers_from_environment()?,
        }
        .min(WORKERS_MAX);
        builder = builder.workers(workers).max_threads(
            (2 * workers)
                .saturating_add(self.max_blocking_threads)
                .min(THREADS_MAX),
        );
        if is_current {
            builder = builder.current_thread(self.start_paused);
        }
        if let Some(bytes) = self.stack_size {
            builder = builder.stack_size(bytes.clamp(STACK_MIN, STACK_MAX));
        }
        if let Some(keep_alive) = self.keep_alive {
            builder = builder.keep_alive(keep_alive);
        }
        if let Some(start) = self.start.clone() {
            builder = builder.on_thread_start(move || start());
        }
        if let Some(stop) = self.stop.clone() {
            builder = builder.on_thread_stop(move || stop());
        }
        if let Some(park) = self.park.clone() {
            builder = builder.on_thread_park(move || park());
        }
        if let Some(unpark) = self.unpark.clone() {
            builder = builder.on_thread_unpark(move || unpark());
        }
        let ws = builder.build().map_err(io::Error::other)?;
        Ok(Runtime {
            handle: Handle::new(ws.handle().clone()),
            current_thread: queue.map(|queue| CurrentThread::new(queue, self.event_interval)),
            ws: Some(ws),
        })
    }
}

/// Says once that tokio is this package, if the variable `WS_TOKIO` is set.
fn tell_if_asked() {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        if std::env::var_os("WS_TOKIO").is_some() {
            eprintln!(
                "ws: tokio {} of this program runs on ws",
                env!("CARGO_PKG_VERSION")
            );
        }
    });
}

/// What tokio takes from the environment, or else the number of CPUs.
fn workers_from_environment() -> io::Result<usize> {
    const VARIABLE: &str = "TOKIO_WORKER_THREADS";
    match std::env::var(VARIABLE) {
        Ok(text) => {
            let workers = text.parse().unwrap_or_else(|error| {
                panic!("\"{VARIABLE}\" must be usize, error: {error}, value: {text}")
            });
            assert!(workers > 0, "\"{VARIABLE}\" cannot be set to 0");
            Ok(workers)
        }
        Err(std::env::VarError::NotPresent) => {
            Ok(std::thread::available_parallelism().map_or(1, usize::from))
        }
        Err(std::env::VarError::NotUnicode(text)) => {
            panic!("\"{VARIABLE}\" must be valid unicode, value: {text:?}")
        }
    }
}
