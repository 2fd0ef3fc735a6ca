//! What a builder has decided: what the scheduler is told once, at its build.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use super::{
    Shared, Worker,
    lost::Lost,
    processor::Processor,
    stall::Stall,
    state::{hooks::Hooks, snapshot_files::Snapshots},
};
use crate::{
    cell::{Functions, quietly},
    nodes::Nodes,
    reports::Reports,
    timer::Clock,
};

/// What a builder has decided.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) workers: usize,
    pub(crate) max_threads: usize,
    pub(crate) name: String,
    pub(crate) stack_size: Option<usize>,
    pub(crate) keep_alive: Duration,
    pub(crate) shutdown_grace: Duration,
    pub(crate) panic_stops_runtime: bool,
    pub(crate) strict_priorities: bool,
    pub(crate) seed: u64,
    /// With virtual time: the time until a deadlock is reported.
    pub(crate) paused: Option<Duration>,
    /// With virtual time: the tasks keep the order of the queues.
    pub(crate) in_order: bool,
    pub(crate) sysmon: bool,
    pub(crate) stall: Stall,
    pub(crate) lost: Lost,
    pub(crate) reports: Reports,
    pub(crate) hooks: Hooks,
    pub(crate) host: Host,
    pub(crate) above: &'static Above,
    /// The recorder's bytes for each P, and how much it records at first.
    pub(crate) recorder: (usize, crate::recorder::Level),
    pub(crate) snapshots: Option<Snapshots>,
    /// The nodes of a machine that a test has in mind. None: this machine's.
    pub(crate) nodes: Option<Nodes>,
}

/// What is called with a worker, or with none.
pub(crate) type OfWorker<'a> = dyn FnMut(Option<&Worker>) + 'a;

/// What the layers above give the scheduler. See `given.rs`.
pub(crate) struct Above {
    /// What a task's handle of its scheduler does.
    pub(crate) task_functions: &'static Functions,
    /// Calls the function while this thread counts as that worker.
    pub(crate) as_worker: fn(&Worker, &mut dyn FnMut()),
    /// Calls the function while this thread has entered the runtime.
    pub(crate) entered: fn(&Arc<Shared>, &mut dyn FnMut()),
    /// Calls the function with the worker of the runtime that this thread is, if it is one.
    pub(crate) worker_here: fn(&Shared, &mut OfWorker<'_>),
    /// The monitor: watches until it has to stand in as a worker, with that P, or the runtime
    /// closes.
    pub(crate) watch: fn(&Arc<Shared>) -> Option<Box<Processor>>,
}

impl fmt::Debug for Above {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Above").finish_non_exhaustive()
    }
}

impl Config {
    /// Whether a driver steps the threads: see `sim_threads.rs`.
    pub(crate) fn is_simulated(&self, clock: &Clock) -> bool {
        clock.is_virtual() && self.paused.is_none()
    }

    /// Ps that there may be: one for each thread, and as many again for threads in `block_on`.
    pub(crate) fn processors_max(&self) -> usize {
        2 * self.max_threads
    }

    /// Closures of `spawn_blocking` that may run at once; see `blocking.rs`.
    pub(crate) fn blocking_max(&self) -> usize {
        self.max_threads.saturating_sub(2 * self.workers).max(1)
    }

    pub(crate) fn thread_name(&self, number: usize) -> String {
        self.host
            .name_a_thread()
            .unwrap_or_else(|| format!("{}-{number}", self.name))
    }
}

/// What a package that has another runtime's API above this one keeps here.
#[derive(Clone, Default)]
pub(crate) struct Host {
    /// What it knows of the runtime.
    pub(crate) data: Option<Arc<dyn Any + Send + Sync>>,
    /// Names a thread, in place of a name and a number.
    pub(crate) thread_name: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    /// Calls what it is given, which is all that a thread of the runtime does.
    pub(crate) around: Option<fn(&mut dyn FnMut())>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("data", &self.data.is_some())
            .finish_non_exhaustive()
    }
}

impl Host {
    /// A thread in `block_on` polls its root, and leaves all tasks to the workers: what is written
    /// for another runtime may rely on it.
    pub(crate) fn leaves_tasks(&self) -> bool {
        self.data.is_some()
    }

    /// The name of a new thread, if the function gives one that a thread can have. Its panic is its
    /// own: the caller holds a permit.
    fn name_a_thread(&self) -> Option<String> {
        let name = self.thread_name.as_ref()?;
        let mut given = None;
        quietly("the function that names threads", || given = Some(name()));
        given.filter(|given| !given.contains('\0'))
    }

    /// Runs the work of a thread.
    pub(crate) fn around(&self, work: impl FnOnce()) {
        match self.around {
            None => work(),
            Some(around) => {
                let mut work = Some(work);
                around(&mut || {
                    if let Some(work) = work.take() {
                        work();
                    }
                });
            }
        }
    }
}
