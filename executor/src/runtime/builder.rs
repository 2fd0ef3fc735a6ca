//! The knobs of a runtime.

mod config;

use std::{sync::Arc as StdArc, time::Duration};

pub(super) use self::config::{WORKERS_MAX, check_workers};
use super::{BuildError, Clock, Handle, Priorities, Runtime, Sysmon, UnhandledPanic};
use crate::{
    advice::{NETPOLL, THREAD},
    given,
    nodes::Nodes,
    recorder::Level,
    reports::Reports,
    sched::{
        Shared,
        config::Host,
        lost::{Lost, LostTask},
        stall::{Stall, StallReport},
        state::{hooks::Hooks, snapshot_files::Snapshots},
    },
    timer,
};

/// Builds a [`Runtime`].
///
/// | knob | default | a reason to change it |
/// | --- | --- | --- |
/// | [`workers`](Self::workers) | CPUs of the thread that builds it, by affinity and cgroup quota (rounded up, at least 1); `WS_WORKERS` overrides | to leave cores to others |
/// | [`max_threads`](Self::max_threads) | twice `workers`, and 512 more | many blocking calls at once, or few allowed |
/// | [`thread_name`](Self::thread_name) | `ws-worker` | to tell runtimes apart |
/// | [`stack_size`](Self::stack_size) | std's (2 MiB) | deep recursion, or thousands of blocked threads |
/// | [`keep_alive`](Self::keep_alive) | 10 s | threads that come and go too often |
/// | [`shutdown_grace`](Self::shutdown_grace) | 1 s | tasks with polls that take longer |
/// | [`unhandled_panic`](Self::unhandled_panic) | others go on | a panic anywhere makes the program's state doubtful |
/// | [`sysmon`](Self::sysmon) | on | a runtime where only workers wake up |
/// | [`stall_threshold`](Self::stall_threshold) | 100 ms | to hear of shorter stalls, or of none |
/// | [`on_stall`](Self::on_stall) | a warning, as `reports` says | to count stalls, or to fail a test |
/// | [`on_lost_task`](Self::on_lost_task) | nobody looks | to hear of tasks that can never wake |
/// | [`reports`](Self::reports) | to `tracing`; to stderr if nothing listens there | to keep stderr quiet |
/// | [`recorder`](Self::recorder) | 1 MiB a worker, 128 MiB at most | a longer recording, or less memory |
/// | [`record`](Self::record) | what is rare or long; `WS_RECORD` overrides | to see each poll, or to record nothing |
/// | [`snapshots`](Self::snapshots) | none; `WS_SNAPSHOTS` names a folder | to see in the morning what failed at night |
/// | [`priorities`](Self::priorities) | fair | low priorities are to wait for ever, if need be |
/// | [`seed`](Self::seed) | random | to repeat a run's choices of victims |
/// | [`clock`](Self::clock) | the system's | tests in virtual time |
/// | [`deadlock_after`](Self::deadlock_after) | 10 s | tests in virtual time that wait for threads of others |
/// | hooks | none | per-thread set-up |
///
/// # Examples
///
/// ```
/// let runtime = ws::runtime::Builder::new()
///     .workers(2)
///     .thread_name("io")
///     .on_thread_start(|| { /* pin it, name it, count it */ })
///     .build()?;
/// # Ok::<(), ws::runtime::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    workers: Option<usize>,
    max_threads: Option<usize>,
    thread_name: String,
    stack_size: Option<usize>,
    keep_alive: Duration,
    shutdown_grace: Duration,
    unhandled_panic: UnhandledPanic,
    priorities: Priorities,
    seed: Option<u64>,
    clock: Clock,
    in_order: bool,
    /// With `in_order`: the clock stands still at first.
    frozen: bool,
    host: Host,
    deadlock_after: Duration,
    sysmon: Sysmon,
    stall: Stall,
    lost: Lost,
    reports: Reports,
    hooks: Hooks,
    recorder: (Option<usize>, Option<Level>),
    snapshots: Option<Snapshots>,
    nodes: Option<Nodes>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// A builder with the defaults of the table above.
    pub fn new() -> Self {
        Self {
            workers: None,
            max_threads: None,
            thread_name: "ws-worker".to_owned(),
            stack_size: None,
            keep_alive: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(1),
            unhandled_panic: UnhandledPanic::default(),
            priorities: Priorities::default(),
            seed: None,
            clock: Clock::default(),
            in_order: false,
            frozen: false,
            host: Host::default(),
            deadlock_after: Duration::from_secs(10),
            sysmon: Sysmon::default(),
            stall: Stall::default(),
            lost: Lost::default(),
            reports: Reports::default(),
            hooks: Hooks::default(),
            recorder: (None, None),
            snapshots: None,
            nodes: None,
        }
    }

    fn is_paused(&self) -> bool {
        self.clock == Clock::Paused
    }

    /// The nodes of a machine that a test has in mind.
    #[cfg(test)]
    pub(crate) fn nodes(mut self, nodes: Nodes) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// How many threads may run tasks at the same time, 1 to 1024.
    ///
    /// A thread whose task blocks, or computes for longer than a slice of 10 ms, is not counted any
    /// more while others wait: another thread takes its turn. So with tasks that compute for long,
    /// more threads compute at once, and the system shares the CPUs among them.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// How many threads the runtime may have, those that block included; more than `workers`, and
    /// at most 32768. The monitor's is not counted, nor are the few for signals, snapshots, reports
    /// of stalls and the end of the runtime, which are started when they are needed.
    ///
    /// Twice `workers` of them are kept for tasks, so at most `max_threads - 2 * workers` closures
    /// of [`spawn_blocking`](crate::spawn_blocking) run at a time, and always one. By default that
    /// is 512, for any number of workers.
    pub fn max_threads(mut self, threads: usize) -> Self {
        self.max_threads = Some(threads);
        self
    }

    /// The name of its threads. A worker appends `-` and its number, the monitor `-mon`.
    ///
    /// Linux shows the first 15 bytes of a thread's name, so a name of at most 11 bytes keeps the
    /// monitor and the workers 0 to 999 apart there.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.thread_name = name.into();
        self
    }

    /// The stack of its threads in bytes, 64 KiB to 1 GiB. The thread of `Runtime::run` has the
    /// stack that it has.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// How long a thread without work waits before it ends. One that waits in the netpoll, or has
    /// pinned tasks, stays.
    pub fn keep_alive(mut self, keep_alive: Duration) -> Self {
        self.keep_alive = keep_alive;
        self
    }

    /// How long the drop of a runtime waits for tasks in the middle of a poll, for destructors, and
    /// for blocking calls that were accepted; see [*Ending*](super#ending).
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// What the panic of a task does to the runtime. By default nothing.
    ///
    /// The end cancels tasks. The root of a [`Runtime::block_on`] or [`Handle::block_on`] is none:
    /// it goes on, and may wait for ever for what a cancelled task was to do.
    ///
    /// ```
    /// use ws::runtime::{Builder, UnhandledPanic};
    ///
    /// let runtime = Builder::new()
    ///     .unhandled_panic(UnhandledPanic::ShutdownRuntime)
    ///     .build()?;
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    pub fn unhandled_panic(mut self, behaviour: UnhandledPanic) -> Self {
        self.unhandled_panic = behaviour;
        self
    }

    /// Whether tasks of a low priority get a turn now and then, as by default: see
    /// [`Priority`](crate::task::Priority#fairness).
    ///
    /// With [`Priorities::Strict`] a worker takes a task of a lower priority only while it knows of
    /// none of a higher one. So one task that is always ready keeps all of a lower priority from
    /// its worker, those of the default priority too. So do closures of
    /// [`spawn_blocking`](crate::spawn_blocking) wait, if every worker has such a task.
    ///
    /// ```
    /// use ws::runtime::{Builder, Priorities};
    ///
    /// let runtime = Builder::new().priorities(Priorities::Strict).build()?;
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    pub fn priorities(mut self, priorities: Priorities) -> Self {
        self.priorities = priorities;
        self
    }

    /// Whether a monitor thread watches the workers. Without it a task that blocks its thread, or
    /// computes in one long poll, holds up what only its worker can do. It may also hold up a task
    /// that it has spawned or woken alone; and all timers and sockets, until another thread becomes
    /// active. That is so if its worker had waited for them, and all others sleep.
    ///
    /// The thread is there in either case. Without a monitor it sleeps until the system refuses a
    /// thread.
    ///
    /// ```
    /// use ws::runtime::{Builder, Sysmon};
    ///
    /// let runtime = Builder::new().sysmon(Sysmon::Off).build()?;
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    pub fn sysmon(mut self, sysmon: Sysmon) -> Self {
        self.sysmon = sysmon;
        self
    }

    /// A poll that holds its thread for longer than this is reported as a stall; None: never. See
    /// [`on_stall`](Self::on_stall).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = ws::runtime::Builder::new()
    ///     .stall_threshold(Duration::from_millis(20))
    ///     .build()?;
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    pub fn stall_threshold(mut self, threshold: impl Into<Option<Duration>>) -> Self {
        self.stall.threshold = threshold.into();
        self
    }

    /// What is done with the report of a stall. Without a hook it is a warning for `tracing`, or a
    /// line on stderr: see [`reports`](Self::reports). A panic of the hook is caught.
    ///
    /// *A stall* is a part of a task's poll that takes longer than the
    /// [`stall_threshold`](Self::stall_threshold): from the begin of the poll to its end. A poll
    /// that forks, as that of [`compute`](crate::compute), begins anew at each
    /// [`join`](crate::join()) and each branch of a [`scope`](crate::scope), so one long leaf is a
    /// stall, and many short ones are none. These are no stalls either: what is announced to block
    /// ([`spawn_blocking`](crate::spawn_blocking), [`block_in_place`](crate::block_in_place)), the
    /// root of a `block_on`, and a branch that another thread has taken.
    ///
    /// A stall has several reports, and [`StallReport::phase`] tells which one this is:
    ///
    /// 1. [`Begun`](super::StallPhase::Begun), when it has lasted for the threshold. There is one
    ///    such report a second at most; [`suppressed`](StallReport::suppressed) counts the stalls
    ///    that were left out. Nothing more is reported about them.
    /// 2. [`GoesOn`](super::StallPhase::GoesOn), whenever it has lasted twice as long as at its
    ///    last report, and a second longer. There is one such report a second at most, too.
    /// 3. [`Ended`](super::StallPhase::Ended), with its whole time. Each stall that was reported
    ///    has this report, unless the runtime ends before.
    ///
    /// The monitor ([`sysmon`](Self::sysmon)) finds stalls as it looks at the threads, at least
    /// every 10 ms while one of them may stall. Times are as precise as that, and reports as late.
    /// Without the monitor there are no reports. The hook runs on the monitor's thread, and the
    /// monitor helps no task meanwhile: keep it short. To show the [stack](StallReport::stack) may
    /// take hundreds of milliseconds the first time, so pass the report on to another thread:
    ///
    /// ```
    /// use std::{sync::mpsc, thread};
    /// use ws::runtime::{Builder, StallKind, StallPhase};
    ///
    /// let (tell, told) = mpsc::channel();
    /// thread::spawn(move || {
    ///     for stall in told {
    ///         eprintln!("{stall}");
    ///     }
    /// });
    /// let runtime = Builder::new()
    ///     .on_stall(move |stall| match (stall.phase, stall.kind) {
    ///         // Too many threads for the cores: no fault of this task.
    ///         (_, StallKind::Descheduled) => {}
    ///         // It has no stack.
    ///         (StallPhase::Ended, _) => eprintln!("{stall}: move this to `spawn_blocking`"),
    ///         _ => _ = tell.send(stall.clone()),
    ///     })
    ///     .build()?;
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    pub fn on_stall(mut self, hook: impl Fn(&StallReport) + Send + Sync + 'static) -> Self {
        self.stall.hook = Some(StdArc::new(hook));
        self
    }

    /// What is done when a task is found that can never wake; see
    /// [`Handle::lost_tasks`](super::Handle::lost_tasks), which also says what is not found. Each
    /// task is told once. A panic of the hook is caught.
    ///
    /// The monitor ([`sysmon`](Self::sysmon)) looks for them about once a second while tasks run,
    /// and once more when none does. It gives one part in a hundred of a core to that at most.
    /// Without a hook nobody looks. The hook runs on the monitor's thread, and the monitor helps no
    /// task meanwhile: keep it short.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let (tell, told) = mpsc::channel();
    /// let runtime = ws::runtime::Builder::new()
    ///     .on_lost_task(move |lost| _ = tell.send(lost.task.id))
    ///     .build()?;
    /// let forgets = runtime.spawn(std::future::poll_fn(|_cx| std::task::Poll::<()>::Pending));
    /// assert_eq!(told.recv(), Ok(forgets.id()));
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    pub fn on_lost_task(mut self, hook: impl Fn(&LostTask) + Send + Sync + 'static) -> Self {
        self.lost.hook = Some(StdArc::new(hook));
        self
    }

    /// [`Runtime::run`](super::Runtime::run) panics when its root can never wake; for tests.
    #[doc(hidden)]
    pub fn fails_if_lost(mut self) -> Self {
        self.lost.fails_run = true;
        self
    }

    /// Where stalls are reported that no [`on_stall`](Self::on_stall) hook takes, and panics of
    /// tasks that nobody joins.
    ///
    /// By default they are events of `tracing`: warnings and errors. Where no subscriber listens on
    /// the thread that reports, they are lines on stderr, which begin with `ws:`. A runtime writes
    /// one line a second of each kind at most, and the next line tells how many were left out. A
    /// stderr that takes nothing does no harm. One exception is a file at its limit of size
    /// (`RLIMIT_FSIZE`): the system ends a process that writes there, by the signal SIGXFSZ, unless
    /// the program ignores that.
    ///
    /// A panic of a task is also shown by the panic hook, which prints the message and the place by
    /// default. The report adds which task it was, and where that was spawned:
    ///
    /// ```text
    /// thread 'ws-worker-0' panicked at src/main.rs:7:9:
    /// no such user
    /// ws: task 3 "lookup", spawned at src/main.rs:12:5, panicked, and nobody joins it
    /// ws: task 4, spawned at src/main.rs:15:5, blocks its thread for 100.2ms (CPU time 31µs)
    /// ```
    ///
    /// Below the line of a stall there are lines with the stack of its thread. A thread of its own
    /// tells them: it lives as long as there is something to tell.
    ///
    /// Nobody joins a task if its handle was dropped before the task ended. A handle that is
    /// dropped later loses the panic without a report.
    ///
    /// ```
    /// use ws::runtime::{Builder, Reports};
    ///
    /// // Nothing on stderr.
    /// let runtime = Builder::new().reports(Reports::TracingOnly).build()?;
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    pub fn reports(mut self, to: Reports) -> Self {
        self.reports = to;
        self
    }

    /// The seed of the scheduler's random choices.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// What the time of the runtime is: the system's, by default.
    ///
    /// [`Clock::Paused`] is for tests, and `#[ws::test(paused)]` builds such a runtime. The clock
    /// of [`time`](crate::time) stands still while anything can go on, and jumps to the next timer
    /// when all tasks wait. So a sleep of a day takes no time, and a timeout comes exactly when it
    /// is due. It moves only during [`Runtime::run`] and [`Runtime::block_on`]. The clock of std
    /// goes on as ever, and what asks that one is not affected.
    ///
    /// There is one worker and no monitor, and another number of [`workers`](Self::workers) is an
    /// error. Which of the tasks that are ready runs next is drawn from the [`seed`](Self::seed):
    /// *the order of tasks is shuffled*. At each step each task that is ready has the same chance,
    /// so every order is possible, and the same seed gives the same order again. A
    /// [`spawn_pinned`](crate::spawn_pinned) takes two steps to begin. Queues and `runnext` promise
    /// nothing here. Without a seed `WS_TEST_SEED` gives it. If that is not set it is random, so
    /// that a test meets other orders every time; [`Handle::seed`](super::Handle::seed) tells what
    /// it was.
    ///
    /// A run repeats itself if nothing in it depends on the world. These do: sockets (what the
    /// kernel has ready is seen before the clock jumps, what is on its way is not), closures of
    /// [`spawn_blocking`](crate::spawn_blocking) and [`block_in_place`](crate::block_in_place) (the
    /// clock waits for them, and other tasks run beside them), wakes by threads of others (the
    /// clock does not know of them; see [`time::hold`](crate::time::hold)), `futures::select!`,
    /// which has random numbers of its own (`select_biased!` has none), and the random state of
    /// std's hash maps.
    ///
    /// Spawn in the root: its tasks run on its thread, and one at a time. A task that is spawned
    /// while no thread is in `run` or `block_on` begins at once, on a thread of the runtime. That
    /// one may poll others later, and what it did before the root does not repeat itself. If a task
    /// waits in a [`Handle::block_on`](super::Handle::block_on) of its own, the root waits below
    /// it: `.await` instead. Closures of `spawn_blocking` run on other threads, as long as there
    /// may be more ([`max_threads`](Self::max_threads)).
    ///
    /// [`should_yield`](crate::task::should_yield) is false: a slice does not end while the clock
    /// stands still.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::{
    ///     runtime::{Builder, Clock},
    ///     time,
    /// };
    ///
    /// let runtime = Builder::new().clock(Clock::Paused).build()?;
    /// runtime.block_on(async {
    ///     let start = time::Instant::now();
    ///     time::sleep(Duration::from_secs(1000 * 3600)).await;
    ///     assert_eq!(start.elapsed(), Duration::from_secs(1000 * 3600));
    /// });
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// In a [paused](Clock::Paused) runtime: if everything waits for this time in real time, and
    /// no timer, socket or blocking call can end that, `run` and `block_on` panic with a list of
    /// the tasks.
    ///
    /// Only a wake by a thread of others could still come: the default is meant to be longer than
    /// any of these takes in a test. [`time::hold`](crate::time::hold) puts the verdict off.
    pub fn deadlock_after(mut self, deadlock_after: Duration) -> Self {
        self.deadlock_after = deadlock_after;
        self
    }

    /// Bytes for what each worker did last, which [`Handle::recording`](super::Handle::recording)
    /// tells: 1 MiB (65,536 events) by default, at most 1 GiB. Beyond 128 workers the default is
    /// less: 128 MiB at most for all of them. The oldest events are overwritten. The bytes are
    /// rounded up to a power of two, and taken in pieces of 2 KiB, or of a 512th if that is more,
    /// as they are needed; the first piece comes in four parts. One more of these is for threads
    /// that are no workers. As many more threads may have a ring of this size, if others block or
    /// wait in a `block_on`. All further ones have 64 KiB at most.
    ///
    /// With 0 there is no recorder.
    pub fn recorder(mut self, bytes: usize) -> Self {
        self.recorder.0 = Some(bytes);
        self
    }

    /// How much is recorded at first, until [`Handle::record`](super::Handle::record) says
    /// otherwise.
    ///
    /// Without it, the environment variable `WS_RECORD` says so: `off`, `sparse` or `full`. Without
    /// that, it is [`Level::Sparse`].
    pub fn record(mut self, level: Level) -> Self {
        self.recorder.1 = Some(level);
        self
    }

    /// Recordings are written to files when something goes wrong, and when
    /// [`Handle::snapshot`](super::Handle::snapshot) asks for one.
    ///
    /// Without it, the environment variable `WS_SNAPSHOTS` names the folder, with the defaults of
    /// [`Snapshots::to`]. Without that, no file is written.
    ///
    /// ```
    /// use ws::{runtime::Builder, trace::Snapshots};
    ///
    /// let builder = Builder::new().snapshots(Snapshots::to("/var/log/orders"));
    /// ```
    pub fn snapshots(mut self, snapshots: Snapshots) -> Self {
        self.snapshots = Some(snapshots);
        self
    }

    /// Runs on every thread that polls tasks, before its first one: on each thread of the runtime,
    /// and on a thread that calls `block_on`, [`Runtime::run`](super::Runtime::run) or a function
    /// with `#[ws::main]`, at the begin of each call that is not inside another.
    ///
    /// A `block_on` inside a task or another `block_on` runs no hook, also if the two are of
    /// different runtimes. The hooks of `a` do not run for an `a.block_on` inside a `b.block_on`,
    /// though that thread polls its future.
    ///
    /// The hook may block. Its thread holds up no task meanwhile: other threads start, as many as
    /// there are permits free, and more if their hooks take long. Without [`sysmon`](Self::sysmon)
    /// there are no more. But it must not wait for a task of this runtime: every thread that could
    /// poll the task begins with this hook.
    pub fn on_thread_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.start = Some(StdArc::new(hook));
        self
    }

    /// Runs on the same threads after their last task. While the runtime ends, its timers and
    /// sockets are not served any more. An operation that waits for one in there gets an error, or
    /// panics if it can have none. A runtime that is dropped in there, or in the hook of the start,
    /// ends as one that is dropped in a task of its own: the drop does not wait.
    pub fn on_thread_stop(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.stop = Some(StdArc::new(hook));
        self
    }

    /// Runs on a thread that goes to sleep because it finds no work, or waits in a `block_on`. It
    /// may block: others have the permit. The thread that waits for timers and sockets runs it
    /// before that wait, and while it blocks only the monitor serves them, every 10 ms: keep it
    /// short.
    pub fn on_thread_park(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.park = Some(StdArc::new(hook));
        self
    }

    /// Runs on a thread that wakes from such a sleep. It counts as a poll: if it blocks, the
    /// monitor gives its permit to others.
    pub fn on_thread_unpark(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.unpark = Some(StdArc::new(hook));
        self
    }

    /// A runtime that has no thread but that of its caller: tasks run in `run` and `block_on`
    /// alone, in the order of the queues. Its clock runs as the system's does, unless `frozen`,
    /// until it is stopped.
    #[doc(hidden)]
    pub fn current_thread(mut self, frozen: bool) -> Self {
        self.clock = Clock::Paused;
        self.in_order = true;
        self.deadlock_after = Duration::MAX;
        self.frozen = frozen;
        self
    }

    /// See `Host` in `sched/config.rs`.
    #[doc(hidden)]
    pub fn host(
        mut self,
        data: StdArc<dyn std::any::Any + Send + Sync>,
        thread_name: StdArc<dyn Fn() -> String + Send + Sync>,
        around: fn(&mut dyn FnMut()),
    ) -> Self {
        self.host = Host {
            data: Some(data),
            thread_name: Some(thread_name),
            around: Some(around),
        };
        self
    }

    /// Builds the runtime.
    ///
    /// One thread is started here: the monitor. Workers are started when there is work for them. If
    /// the system refuses a worker later, the work waits, and the monitor tries again. If the
    /// runtime has no other thread, the monitor runs the tasks itself. In a
    /// [paused](Clock::Paused) runtime no thread is started here.
    ///
    /// On Linux the threads of the runtime have the CPUs, the niceness and the signal mask of the
    /// thread that calls this, whichever thread starts them. If that one has a higher niceness, and
    /// the process may not lower it, a thread keeps it. [`on_thread_start`](Self::on_thread_start)
    /// may change all three.
    ///
    /// # `fork`
    ///
    /// A child that is made by `fork` without `exec` has a copy of the runtime without its threads:
    /// no worker polls tasks there, and no monitor watches. So do one of two things:
    ///
    /// - Fork before the process makes its first runtime, its first thread and its first listener
    ///   for a signal. The child may build a runtime then.
    /// - Call `exec` in the child, as [`std::process::Command`] does.
    ///
    /// POSIX allows nothing else in the child of a process with threads. A lock that another thread
    /// held at the fork is never released there. std takes locks where threads start and end, and
    /// so does this crate. So a runtime that is built in such a child may hang. And a listener for
    /// a signal shares its socket with the copy in the child: a signal that comes to the child
    /// wakes the listeners of the parent.
    ///
    /// # Errors
    ///
    /// If a knob is out of its range, which the error names, or the system refuses the netpoll or
    /// the thread.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let clock = if self.is_paused() {
            timer::Clock::stopped()
        } else {
            timer::Clock::real()
        };
        if self.in_order && !self.frozen {
            clock.let_go();
        }
        self.build_with(clock)
    }

    /// Builds it with a given clock.
    pub(crate) fn build_with(self, clock: timer::Clock) -> Result<Runtime, BuildError> {
        let config = self.into_config()?;
        let refused = |what| move |error| BuildError::system(what, error);
        let shared = Shared::new(config, clock).map_err(refused(NETPOLL))?;
        shared.try_netpoll().map_err(refused(NETPOLL))?;
        given::hear(&shared);
        shared.start_keeper().map_err(refused(THREAD))?;
        let runtime = Runtime::from_handle(Handle::new(shared.clone()));
        // If it fails, what was built so far ends by the drop.
        #[cfg(unix)]
        shared
            .listen_for_snapshots()
            .map_err(refused("the signal for snapshots"))?;
        shared.tell_refusals();
        Ok(runtime)
    }
}
