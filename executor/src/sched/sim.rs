//! The scheduler under a seed: many virtual workers of the real scheduler on one thread. The seed
//! chooses, one step at a time, which worker goes on.
//!
//! # How it works
//!
//! The runtime is an ordinary one, with a virtual clock. Whatever would be a thread is a [`Thread`]
//! here: a `Worker` and the point at which it stands. The driver chooses, from the seed, one of
//! those that can go on, and lets it take one step: find and poll one task, begin to park, check,
//! fall asleep, wake up. These are the functions that a real thread runs in its loop (`find.rs`,
//! `permit/sleep.rs`); only the loop is the driver's. The monitor's looks, calls from foreign
//! threads and the passing of time are chosen in the same way.
//!
//! | a real thread | here |
//! | --- | --- |
//! | is started | lies in [`SimThreads`](super::sim_threads::SimThreads) until the driver takes it up |
//! | sleeps on its parker | may go on when the parker is notified; now and then for nothing, or as if its time were over |
//! | waits in the netpoll | the same, and when a timer is due |
//! | is in the middle of a poll | is on the stack below |
//! | computes, or spins | moves the clock |
//!
//! # A poll that blocks
//!
//! [`block`] and [`compute`] are called by tasks: they let *the driver run on the stack of the
//! poll* until their time is over. So others go on meanwhile, the monitor finds the thread stuck,
//! takes its permit, and starts others. A poll comes back when those above it on the stack have,
//! perhaps later than it would have by itself: that is one of the things that threads do.
//!
//! # What is asserted
//!
//! After every step (`check.rs`): permits (S3), spinners (I6), one queue for every runnable task
//! and none for others (I1, I2), bounds of queues and steals (of I3, I4 and O2), no queued task
//! beside a free permit that nobody is woken for (I5), and the turn of the global queue (L4, F3).
//! While it runs: one poll at a time (S1), pinned tasks on their thread (I7), no task queued for
//! long (F1, F2, L2); each closure of a tree is called once, or at most once if the first branch of
//! its join panics or its computation is dropped, and the panics come out that should (J5, J6). At
//! the end: everything that the program says happened, and nothing is left (L1, S2).
//!
//! It was seen to fail when a push into the own ring wakes nobody, a release or the last spinner
//! does not look, the last look is left out, the look for all passes the global queue by, the
//! monitor never revokes, pinned tasks go to the global queue, and when nobody sweeps at the end.
//! It does not see what only an order within a step can show, nor a slice that does not end
//! (`runnext_does_not_starve.rs` does).
//!
//! # A seed
//!
//! The seed decides the number of workers, the program and every choice. A failure prints it, with
//! the last turns and the last events (`recorder.rs`):
//! `WS_SIM_SEED=N cargo test -p ws-executor --lib sim` replays that seed alone. `WS_TEST_SCALE` is
//! the percentage of the usual number of seeds.
//!
//! # Not here
//!
//! Orders within a step: these are the models' (`models/`). Sockets. Threads in `block_on`.
//!
//! A waiting join, and a scope that waits: the thief of a branch runs above its owner on the one
//! stack, so the branch has ended before that goes on; to leave it in the middle each virtual
//! thread would need a stack of its own. And a wait for a permit at a fork, which there is only
//! beside a real monitor: here one is tried for, and the fork goes on without.

mod branches;
mod check;
#[cfg(ws_lines)]
mod lines;
mod paced;
mod pickup;
mod program;
mod scaling;
mod tests;
mod watch;

use std::{
    any::Any,
    cell::{Cell, RefCell},
    collections::VecDeque,
    fmt::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    time::Duration,
};

use self::{check::Checks, watch::Watch};
use super::{
    Shared,
    stepped::{At, Hand, Thread},
};
use crate::{
    cell::Task,
    context,
    nodes::Nodes,
    permit::{
        env::{Env, PeerEnv},
        sleep::Sleeper,
    },
    queue::OrderedStealer,
    recorder::Level,
    rng::Rng,
    runtime::{Builder, Runtime, Sysmon},
    sync::Arc,
    timer::Clock,
};

/// Polls that may lie on each other on the stack.
const DEPTH_MAX: usize = 24;
/// No program takes a tenth of this.
const STEPS_MAX: u64 = 1_000_000;
/// Turns that a failure shows, and events.
const LOGGED: usize = 40;

thread_local! {
    /// The driver of this thread, for the tasks that it polls.
    static DRIVER: RefCell<Option<Rc<Driver>>> = const { RefCell::new(None) };
}

/// What may take a step.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Thread(usize),
    Monitor,
    Foreign,
}

/// What happens from outside: calls by foreign threads.
trait Outside {
    /// Whether there is anything left to come.
    fn is_over(&self) -> bool;
    /// One call.
    fn call(&self, rng: &Rng);
}

/// See the module's head.
struct Driver {
    rng: Rng,
    shared: Arc<Shared>,
    threads: RefCell<Vec<Option<Rc<Thread>>>>,
    watch: Watch,
    outside: Box<dyn Outside>,
    /// No more of those calls.
    hung_up: Cell<bool>,
    rush: bool,
    depth: Cell<usize>,
    steps: Cell<u64>,
    /// The first thing that went wrong.
    failure: RefCell<Option<String>>,
    checks: Checks,
    /// The last turns.
    log: RefCell<VecDeque<Logged>>,
}

/// When, how deep on the stack, whose turn, and where that one stood.
type Logged = (u64, usize, Turn, Option<At>);

/// How a scenario is set up.
struct Setting {
    seed: u64,
    workers: usize,
    max_threads: usize,
    /// Foreign threads call often.
    rush: bool,
}

impl Driver {
    fn new(setting: &Setting, runtime: &Runtime, outside: Box<dyn Outside>) -> Rc<Self> {
        let shared = runtime.handle().shared().clone();
        Rc::new(Self {
            rng: Rng::new(setting.seed, 1 << 32),
            watch: Watch::new(&shared),
            threads: RefCell::new(Vec::new()),
            outside,
            hung_up: Cell::new(false),
            rush: setting.rush,
            depth: Cell::new(0),
            steps: Cell::new(0),
            failure: RefCell::new(None),
            checks: Checks::new(&shared),
            log: RefCell::new(VecDeque::new()),
            shared,
        })
    }

    fn now(&self) -> u64 {
        self.shared.time.clock().now_ns()
    }

    fn advance(&self, ns: u64) {
        self.shared.time.clock().advance(Duration::from_nanos(ns));
    }

    fn fail(&self, what: impl FnOnce() -> String) {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            *failure = Some(format!("{}\n{}", what(), self.report()));
        }
    }

    fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    fn calls_come(&self) -> bool {
        !self.hung_up.get() && !self.outside.is_over()
    }

    fn one_in(&self, n: usize) -> bool {
        self.rng.below(n) == 0
    }

    /// Lets somebody take a step; if nobody can, time goes by. False if there is nothing to wait
    /// for either. `until` is a moment at which somebody else goes on.
    fn step(&self, until: Option<u64>) -> bool {
        self.take_up_new_threads();
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > STEPS_MAX {
            self.fail(|| "L3: it does not come to an end".to_owned());
            return false;
        }
        let now = self.now();
        let turns = self.turns(now);
        if turns.is_empty() {
            return self.jump(now, until);
        }
        let turn = turns[self.rng.below(turns.len())];
        // Many threads share each moment.
        self.advance((200 + self.rng.below(1500)) as u64 / turns.len() as u64 + 1);
        self.note(turn);
        let step = || {
            context::as_another_thread(|| match turn {
                Turn::Thread(index) => self.step_thread(index),
                Turn::Monitor => self.watch.look(),
                Turn::Foreign => self.outside.call(&self.rng),
            });
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(step)) {
            self.fail(|| format!("a step panicked: {}", message(&*panic)));
        }
        if !self.has_failed() {
            self.checks.after_step(self);
        }
        true
    }

    fn is_due(&self, now: u64) -> bool {
        let deadline = self.shared.next_deadline();
        deadline.is_some_and(|deadline| deadline <= now)
    }

    fn note(&self, turn: Turn) {
        let at = match turn {
            Turn::Thread(index) => self.threads.borrow()[index].as_ref().map(|it| it.at.get()),
            Turn::Monitor | Turn::Foreign => None,
        };
        let mut log = self.log.borrow_mut();
        if log.len() == LOGGED {
            log.pop_front();
        }
        log.push_back((self.now(), self.depth.get(), turn, at));
    }

    /// Where everything stands, and what came before.
    fn report(&self) -> String {
        let mut report = String::new();
        for (now, depth, turn, at) in &*self.log.borrow() {
            let _ = writeln!(report, "{now:>12} ns, depth {depth}: {turn:?} {at:?}");
        }
        let events = self.shared.recording().events;
        for event in &events[events.len().saturating_sub(LOGGED)..] {
            let _ = writeln!(report, "{event}");
        }
        for (index, thread) in self.threads.borrow().iter().enumerate() {
            let Some(thread) = thread else { continue };
            let peer = thread.worker.own_peer();
            let _ = writeln!(
                report,
                "thread {index} has P {}, {:?} and {:?}, in a step: {}; {} in its ring, {} ordered, {} parents, runnext {:?}",
                peer.index,
                peer.state.load(),
                thread.at.get(),
                thread.busy.get(),
                peer.queues.lrq.len(),
                peer.queues.ordered.get().map_or(0, OrderedStealer::len),
                peer.queues.parents.len(),
                peer.queues.runnext.peek().is_some(),
            );
        }
        report
    }

    fn turns(&self, now: u64) -> Vec<Turn> {
        let mut turns = Vec::new();
        for (index, thread) in self.threads.borrow().iter().enumerate() {
            let Some(thread) = thread else { continue };
            let can = thread.can_step(|| self.is_due(now));
            // For nothing, as a real one may.
            let can = can || (!thread.busy.get() && self.one_in(2000));
            if can {
                turns.push(Turn::Thread(index));
            }
        }
        if self.watch.is_due(now) {
            turns.push(Turn::Monitor);
        }
        if self.calls_come() && (self.rush || self.one_in(8)) {
            let calls = if self.rush { 1 + turns.len() / 4 } else { 1 };
            turns.extend(std::iter::repeat_n(Turn::Foreign, calls));
        }
        turns
    }

    /// Nobody can go on: time goes by until somebody can.
    fn jump(&self, now: u64, until: Option<u64>) -> bool {
        let look = self.watch.next();
        let polls = !self.shared.nobody_polls();
        let timer = self.shared.next_deadline().filter(|_| polls);
        let next = [look, timer, until].into_iter().flatten().min();
        if self.calls_come() {
            self.advance(1 + self.rng.below(1_000_000) as u64);
            context::as_another_thread(|| self.outside.call(&self.rng));
            return true;
        }
        match next {
            Some(next) => {
                self.advance(next.saturating_sub(now).max(1));
                true
            }
            None => false,
        }
    }

    fn take_up_new_threads(&self) {
        let sim_threads = self
            .shared
            .threads
            .sim_threads
            .as_ref()
            .expect("the clock is virtual");
        for processor in sim_threads.take() {
            let thread = Rc::new(Thread::begin(&self.shared, processor));
            let mut threads = self.threads.borrow_mut();
            match threads.iter().position(Option::is_none) {
                Some(free) => threads[free] = Some(thread),
                None => threads.push(Some(thread)),
            }
        }
    }

    fn step_thread(&self, index: usize) {
        let thread = self.threads.borrow()[index].clone().expect("it has a turn");
        if !thread.step(self) {
            self.threads.borrow_mut()[index] = None;
            let thread = Rc::into_inner(thread).expect("it is in the middle of no step");
            thread.end();
        }
    }

    /// Runs others until `until`, on behalf of a poll that does not end before.
    fn run_others(&self, until: u64) {
        if self.depth.get() == DEPTH_MAX {
            return;
        }
        self.depth.set(self.depth.get() + 1);
        while !self.has_failed() && self.now() < until {
            self.step(Some(until));
        }
        self.depth.set(self.depth.get() - 1);
    }

    /// Runs until nothing happens any more, and nothing will.
    fn run(&self) {
        while !self.has_failed() && self.step(None) {}
    }
}

impl Hand for Driver {
    fn found(&self, thread: &Thread, task: Task) {
        self.checks.polls(self, thread, &task);
        thread.worker.poll(task);
    }

    fn stole(&self, thread: &Thread) {
        self.checks.runs_a_branch(self, thread);
    }

    fn expires(&self) -> bool {
        self.one_in(3)
    }
}

/// The driver of the thread that polls this task.
fn driver() -> Rc<Driver> {
    DRIVER.with_borrow(|driver| driver.clone().expect("only tasks of a driver come here"))
}

/// Blocks the thread that polls the calling task for a while of virtual time.
fn block(time: Duration) {
    stuck(time, true);
}

/// Computes on the thread that polls the calling task for a while of virtual time.
fn compute(time: Duration) {
    stuck(time, false);
}

fn stuck(time: Duration, blocked: bool) {
    let driver = driver();
    let sim_threads = driver
        .shared
        .threads
        .sim_threads
        .as_ref()
        .expect("the clock is virtual");
    let index = context::with_worker(|worker| worker.map(|worker| worker.own_peer().index()));
    if let Some(index) = index {
        sim_threads.set_blocked(index, blocked);
    }
    driver.run_others(driver.now() + time.as_nanos() as u64);
    if let Some(index) = index {
        sim_threads.set_blocked(index, false);
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "something that is no text".to_owned())
}

/// A runtime whose threads are the driver's.
fn runtime(setting: &Setting, nodes: Nodes) -> Runtime {
    Builder::new()
        .nodes(nodes)
        .workers(setting.workers)
        .max_threads(setting.max_threads)
        .seed(setting.seed)
        .sysmon(Sysmon::Off)
        .stall_threshold(None)
        .recorder(LOGGED * 16)
        .record(Level::Full)
        .build_with(Clock::stopped())
        .expect("the setting is a good one")
}

/// Runs `scenario` with its driver at hand for `block` and `compute`.
fn driven<R>(driver: &Rc<Driver>, scenario: impl FnOnce() -> R) -> R {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            DRIVER.set(None);
        }
    }
    DRIVER.set(Some(driver.clone()));
    let _restore = Restore;
    scenario()
}
