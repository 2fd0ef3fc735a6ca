//! A driver that counts what things cost: how long a program takes on so many workers, were each of
//! them a CPU.
//!
//! # How it works
//!
//! Discrete events. Each virtual thread has a time of its own, at which it takes its next step; the
//! one that is furthest behind goes first, and equals in an order that follows from the seed. The
//! step is the shipped code's, the clock shows that thread's time meanwhile, and then its time
//! moves by what the step [costs](Costs):
//!
//! | in a step | costs |
//! | --- | --- |
//! | a look at another P's queues | two lines of cache, of its ring and its `runnext`: `look_ns` while they are as this thread saw them last, and `line_ns` each if that P has moved meanwhile. So many Ps moved at most as steps were taken by all |
//! | a steal | one such line to claim it, and one for each task, which lies in another CPU's cache |
//! | a task that is spawned | `spawn_ns` |
//! | a poll | `poll_ns`, and what the task says by [`work`] |
//! | a thread that is woken | `unpark_ns` for the waker, and it goes on `wake_ns` later |
//! | falling asleep | `park_ns` |
//! | a wait for the clock | what the clock moved by |
//!
//! To find a task and to poll it are two steps, so that others come between.
//!
//! Under `--cfg ws_lines` the lines are counted, and not estimated: a step costs `line_ns` for each
//! line that goes from one CPU to another, and `far_ns` for each that comes from another node.
//! Thread `i` of `workers` is CPU `i` then. See `lines.rs`.
//!
//! # What it leaves out
//!
//! A step takes effect when it begins, and is paid for afterwards. So a thief that watches a
//! `runnext` for its 10 us always finds it unmoved, and steals more than it would; nothing waits
//! for a line that many want; and memory has no bandwidth to run out of. What it shows is the
//! schedule: which worker gets which task, and when, and how many steals and wake-ups that takes.
//! Programs here spawn few tasks in a poll, or its children would all be there at its beginning.

use std::{
    cell::{Cell, RefCell},
    cmp::Reverse,
    collections::BinaryHeap,
    rc::Rc,
};

use super::watch::Watch;
use crate::{
    cell::Task,
    context,
    metrics::Counters,
    permit::{phase::ShutdownEnv, sleep::Sleeper},
    rng::Rng,
    runtime::Runtime,
    sched::{
        Shared,
        stepped::{At, Hand, Thread},
    },
    sync::Arc,
};

thread_local! {
    /// What the running poll has said that it takes.
    static WORK: Cell<u64> = const { Cell::new(0) };
}

/// Lets the calling task take the given time for its poll.
pub(super) fn work(ns: u64) {
    WORK.set(WORK.get() + ns);
}

/// The CPUs of the monitor and of threads outside, beyond those of the workers.
const MONITOR: usize = 2046;
const OUTSIDE: usize = 2047;

/// Calls `f`, whose lines are those of a CPU, where they are counted.
fn on_cpu<R>(cpu: usize, f: impl FnOnce() -> R) -> R {
    #[cfg(ws_lines)]
    return crate::queue::lines::on_cpu(cpu, f);
    #[cfg(not(ws_lines))]
    {
        let _ = cpu;
        f()
    }
}

/// What steps cost, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// Spawning a task, for the spawner.
    pub(super) spawn_ns: u64,
    /// The poll of a task that does nothing, with its end.
    pub(super) poll_ns: u64,
    /// A look at the queues of a P that has not moved since the last one: two lines, in the cache
    /// already.
    pub(super) look_ns: u64,
    /// A line of cache that another CPU wrote last.
    pub(super) line_ns: u64,
    /// The same from another node; used only where lines are counted.
    pub(super) far_ns: u64,
    /// Waking a thread, for the waker.
    pub(super) unpark_ns: u64,
    /// From there until it runs.
    pub(super) wake_ns: u64,
    /// Falling asleep.
    pub(super) park_ns: u64,
}

/// What Ps have counted, and the driver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) spawned: u64,
    pub(super) polls: u64,
    pub(super) looks: u64,
    pub(super) steals: u64,
    pub(super) stolen: u64,
    pub(super) woken: u64,
}

impl Counted {
    fn of(counters: &Counters) -> Self {
        Self {
            spawned: counters.spawned.get(),
            polls: counters.polls.get(),
            looks: counters.victims.get(),
            steals: counters.steals.get(),
            stolen: counters.stolen.get(),
            woken: 0,
        }
    }

    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            spawned: f(self.spawned, other.spawned),
            polls: f(self.polls, other.polls),
            looks: f(self.looks, other.looks),
            steals: f(self.steals, other.steals),
            stolen: f(self.stolen, other.stolen),
            woken: f(self.woken, other.woken),
        }
    }

    pub(super) fn since(self, before: Self) -> Self {
        self.zip(before, |now, then| now - then)
    }
}

/// See the module's head.
pub(super) struct Paced {
    shared: Arc<Shared>,
    costs: Costs,
    rng: Rng,
    threads: RefCell<Vec<Rc<Thread>>>,
    /// Which thread takes a step at which time.
    due: RefCell<BinaryHeap<Reverse<(u64, u64, usize)>>>,
    /// The threads that are in no line there, until they are notified.
    asleep: RefCell<Vec<usize>>,
    watch: Watch,
    /// What a thread has found, and polls in its next step.
    found: RefCell<Vec<Option<Task>>>,
    just_found: RefCell<Option<Task>>,
    /// When each thread polled its first task since [`begin`](Self::begin).
    first: RefCell<Vec<Option<u64>>>,
    /// All steps of all threads, and how many there were when each looked at others last.
    steps: Cell<u64>,
    seen: RefCell<Vec<u64>>,
    /// The last step was a poll.
    polled: Cell<bool>,
    /// When the last poll ended.
    over: Cell<u64>,
    /// How many threads were woken, ever.
    woken: Cell<u64>,
}

impl Paced {
    pub(super) fn new(runtime: &Runtime, costs: Costs, seed: u64) -> Self {
        let shared = runtime.handle().shared().clone();
        Self {
            watch: Watch::new(&shared),
            costs,
            rng: Rng::new(seed, 1 << 36),
            threads: RefCell::default(),
            due: RefCell::default(),
            asleep: RefCell::default(),
            found: RefCell::default(),
            just_found: RefCell::default(),
            first: RefCell::default(),
            steps: Cell::new(0),
            seen: RefCell::default(),
            polled: Cell::new(false),
            over: Cell::new(0),
            woken: Cell::new(0),
            shared,
        }
    }

    fn now(&self) -> u64 {
        self.shared.time.clock().now_ns()
    }

    pub(super) fn counted(&self) -> Counted {
        let by_peers = self
            .shared
            .all_peers()
            .map(|peer| Counted::of(&peer.counters));
        let woken = Counted {
            woken: self.woken.get(),
            ..Counted::default()
        };
        by_peers.fold(woken, |sum, it| sum.zip(it, |a, b| a + b))
    }

    pub(super) fn threads(&self) -> usize {
        self.threads.borrow().len()
    }

    /// Begins to take the time: now.
    pub(crate) fn begin(&self) -> u64 {
        self.first.borrow_mut().fill(None);
        self.over.set(self.now());
        self.now()
    }

    /// When the last poll ended.
    pub(super) fn over(&self) -> u64 {
        self.over.get()
    }

    /// When so many threads had polled something since [`begin`](Self::begin).
    pub(super) fn spread(&self, threads: usize) -> Option<u64> {
        let mut times: Vec<u64> = self.first.borrow().iter().flatten().copied().collect();
        times.sort_unstable();
        times.get(threads.checked_sub(1)?).copied()
    }

    /// A call by a foreign thread, and then all that comes of it.
    pub(super) fn run(&self, call: impl FnOnce()) {
        on_cpu(OUTSIDE, || context::as_another_thread(call));
        self.see_who_comes(self.now());
        while let Some(at) = self.next() {
            self.shared.time.clock().set(at);
            // The monitor first: it is rare, and its thread is nobody's CPU here.
            if self.watch.is_due(at) {
                on_cpu(MONITOR, || {
                    context::as_another_thread(|| self.watch.look());
                });
                self.see_who_comes(at);
            } else {
                let Some(Reverse((_, _, index))) = self.due.borrow_mut().pop() else {
                    continue;
                };
                let up = self.threads.borrow()[index].at.get() == At::Up;
                let free = self.shared.idle.free();
                let mut cost = on_cpu(index, || {
                    context::as_another_thread(|| self.step(index, at))
                });
                self.shared.time.clock().set(at);
                // A thread that is up gives no permit back in a step, and each thread that is woken
                // gets one.
                if !up || self.shared.idle.free() != free {
                    cost += self.see_who_comes(at) * self.costs.unpark_ns;
                }
                if self.polled.take() {
                    self.over.set(self.over.get().max(at + cost));
                }
                self.go_on(index, at + cost.max(1));
            }
        }
    }

    /// Ends the threads with their runtime. Nobody has anything to do any more.
    pub(crate) fn end(self) {
        self.shared.begin_shutdown();
        for thread in self.threads.take() {
            while thread.step(&self) {}
            Rc::into_inner(thread)
                .expect("it is in the middle of no step")
                .end();
        }
    }

    fn next(&self) -> Option<u64> {
        let thread = self.due.borrow().peek().map(|Reverse((at, _, _))| *at);
        let watch = if self.watch.is_due(self.now()) {
            Some(self.now())
        } else {
            self.watch.next()
        };
        let next = [thread, watch].into_iter().flatten().min()?;
        Some(next.max(self.now()))
    }

    /// What a thread does at `at`, and what that costs.
    fn step(&self, index: usize, at: u64) -> u64 {
        let costs = &self.costs;
        let thread = self.threads.borrow()[index].clone();
        let counters = &thread.worker.own_peer().counters;
        let before = Counted::of(counters);
        let lines_before = self.lines_ns();
        let found = self.found.borrow_mut()[index].take();
        let mut cost = 0;
        match found {
            Some(task) => {
                self.polled.set(true);
                self.first.borrow_mut()[index].get_or_insert(at);
                WORK.set(0);
                thread.within(|| thread.worker.poll(task));
                cost += costs.poll_ns + WORK.get();
            }
            None => {
                let goes_on = thread.step(self);
                assert!(goes_on, "nobody ends a thread here");
                self.found.borrow_mut()[index] = self.just_found.take();
                if matches!(thread.at.get(), At::Asleep | At::Polling) {
                    cost += costs.park_ns;
                }
            }
        }
        let did = Counted::of(counters).since(before);
        let mut fresh = 0;
        if did.looks > 0 {
            let seen = &mut self.seen.borrow_mut()[index];
            fresh = did.looks.min(self.steps.get() - *seen);
            *seen = self.steps.get();
        }
        self.steps.set(self.steps.get() + 1);
        let lines_ns = match (self.lines_ns(), lines_before) {
            (Some(after), Some(before)) => after - before,
            _ => (fresh * 2 + did.steals + did.stolen) * costs.line_ns,
        };
        cost +=
            did.spawned * costs.spawn_ns + did.looks * costs.look_ns + lines_ns + (self.now() - at);
        cost
    }

    /// What all lines cost that went from CPU to CPU so far, where they are counted.
    fn lines_ns(&self) -> Option<u64> {
        #[cfg(ws_lines)]
        {
            let moves = crate::queue::lines::total();
            let costs = &self.costs;
            Some(
                moves.all() * costs.line_ns
                    + moves.far * costs.far_ns.saturating_sub(costs.line_ns),
            )
        }
        #[cfg(not(ws_lines))]
        None
    }

    /// The thread's next step is at `at`, or when it is notified.
    fn go_on(&self, index: usize, at: u64) {
        let state = self.threads.borrow()[index].at.get();
        if matches!(state, At::Asleep | At::Polling | At::Wanting) {
            self.asleep.borrow_mut().push(index);
        } else {
            let tie = self.rng.next();
            self.due.borrow_mut().push(Reverse((at, tie, index)));
        }
    }

    /// The threads that were woken or started in the last step come `wake_ns` later. How many.
    fn see_who_comes(&self, at: u64) -> u64 {
        let before = self.due.borrow().len();
        let comes = at + self.costs.wake_ns;
        let mut threads = self.threads.borrow_mut();
        let sim_threads = self
            .shared
            .threads
            .sim_threads
            .as_ref()
            .expect("the clock is virtual");
        for processor in sim_threads.take() {
            let thread = Thread::begin(&self.shared, processor);
            threads.push(Rc::new(thread));
            self.found.borrow_mut().push(None);
            self.first.borrow_mut().push(None);
            self.seen.borrow_mut().push(0);
            let entry = (comes, self.rng.next(), threads.len() - 1);
            self.due.borrow_mut().push(Reverse(entry));
        }
        self.asleep.borrow_mut().retain(|index| {
            let notified = threads[*index].is_notified();
            if notified {
                let entry = (comes, self.rng.next(), *index);
                self.due.borrow_mut().push(Reverse(entry));
            }
            !notified
        });
        let come = (self.due.borrow().len() - before) as u64;
        self.woken.set(self.woken.get() + come);
        come
    }
}

impl Hand for Paced {
    fn found(&self, _: &Thread, task: Task) {
        *self.just_found.borrow_mut() = Some(task);
    }

    fn stole(&self, _: &Thread) {
        unreachable!("these programs have no branches");
    }

    fn expires(&self) -> bool {
        false
    }
}
