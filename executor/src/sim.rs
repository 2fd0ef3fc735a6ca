//! A runtime without threads of its own: what a simulated host runs on.
//!
//! # How it works
//!
//! A [`Machine`] is an ordinary runtime: its queues, its permits, its timers and its searches are
//! those of production. Only the loop of its threads is missing. Whatever would be a thread is a
//! virtual one here (`sched/stepped.rs`), and waits until [`Machine::step`] lets one of them take
//! one step: find and poll one task, begin to park, check once more, fall asleep, wake up. The
//! caller chooses which one, so with a seed a run can be repeated.
//!
//! Its clock stands still until [`Machine::jump_to`] moves it. There is no monitor: nothing is ever
//! stuck, since a step ends when the poll ends.
//!
//! *Invariant*: between two steps no thread is in the middle of a poll. So many machines share one
//! thread of the system, and one that is ended in between leaves nothing behind.
//!
//! | a real thread | here |
//! | --- | --- |
//! | is started | is taken up by the next step |
//! | sleeps on its parker | can take a step when it is notified |
//! | waits in the netpoll | the same, and when a timer is due |
//! | runs a blocking call | the step ends when the call does; its result may come later (`late.rs`) |
//!
//! What blocks in the middle of a poll blocks the caller of the step: a wait on a channel of std
//! for another task of the same simulation would last for ever.
//!
//! Rejected: a [paused](crate::runtime::Builder::clock) runtime for each host. It moves its clock
//! by itself, and its one thread sleeps in the netpoll, so that hosts would need a thread each and
//! a hand-over at every event. And one runtime for all hosts, with a mark on each task: what
//! belongs to a host (timers, sockets, blocking calls, the end) would be asked for its mark in many
//! places, and it would not be the scheduler that runs in production.
//!
//! Checked by the tests here. The drivers in `sched/sim.rs` step the same threads, with checks
//! after each step.

mod explore;

use std::{cell::RefCell, fmt, mem, rc::Rc};

use self::explore::Pool;
pub use self::explore::Ready;
pub use crate::{
    blocking::late::take_time,
    recorder::{Arrow, Host, Moment, Timeline},
    sched::shown::Trace,
};
use crate::{
    budget, context,
    runtime::{BuildError, Builder, Handle, Runtime, Sysmon},
    sched::{
        self, Shared,
        stepped::{Hand, Thread},
    },
    timer::Clock,
};

/// A runtime that somebody steps. See the module's head.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ws::{runtime::Builder, time::sleep};
/// use ws_executor::sim::Machine;
///
/// let machine = Machine::new(Builder::new().workers(2).seed(7))?;
/// let task = machine.handle().spawn(async {
///     sleep(Duration::from_secs(3600)).await;
/// });
/// let run = |machine: &Machine| while machine.step(|_threads| 0) {};
/// run(&machine);
/// let next = machine.next_timer().expect("it sleeps");
/// assert_eq!(next, 3600 * 1_000_000_000);
/// machine.jump_to(next);
/// run(&machine);
/// assert!(task.is_finished());
/// machine.end();
/// # Ok::<(), ws::runtime::BuildError>(())
/// ```
pub struct Machine {
    handle: Handle,
    /// Taken at the end.
    runtime: Option<Runtime>,
    threads: RefCell<Threads>,
    pool: Pool,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self.threads.borrow().iter().flatten().count();
        f.debug_struct("Machine")
            .field("handle", &self.handle)
            .field("threads", &threads)
            .finish()
    }
}

/// Its threads, each at a place that stays.
type Threads = Vec<Option<Rc<Thread>>>;

impl Machine {
    /// Builds a runtime without threads. Its clock begins at zero.
    ///
    /// The builder's knobs about threads of the system and about the monitor have no meaning here.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub fn new(builder: Builder) -> Result<Self, BuildError> {
        let builder = builder.sysmon(Sysmon::Off).stall_threshold(None);
        let runtime = builder.build_with(Clock::stopped())?;
        #[cfg(unix)]
        runtime.handle().netpoll().simulate_signals();
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            threads: RefCell::default(),
            pool: Pool::default(),
        })
    }

    /// The handle of the runtime.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    fn shared(&self) -> &Shared {
        self.handle().shared()
    }

    /// Its recorder's times are those of a time line from now on, which is at `begin`, and not
    /// those of its clock. To be called once, before its first step.
    ///
    /// ```
    /// use ws::{runtime::Builder, trace::{EventKind, Level}};
    /// use ws_executor::sim::{Machine, Timeline};
    ///
    /// let machine = Machine::new(Builder::new().workers(1).record(Level::Full))?;
    /// let timeline = Timeline::default();
    /// machine.record_on(&timeline, 0);
    /// drop(machine.handle().spawn(async {}));
    /// while machine.step(|_| 0) {}
    /// let events = machine.handle().recording().events;
    /// let time = |kind| events.iter().find(|event| event.kind == kind).expect("it is there").time;
    /// // The clock stands still, and the order is there.
    /// assert_eq!(machine.now(), 0);
    /// assert!(time(EventKind::Spawn) < time(EventKind::Run));
    /// assert!(time(EventKind::Run) < time(EventKind::Done));
    /// machine.end();
    /// # Ok::<(), ws::runtime::BuildError>(())
    /// ```
    pub fn record_on(&self, timeline: &Timeline, begin: u64) {
        self.shared().recorder().set_timeline(timeline, begin);
    }

    /// The time on its clock, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.shared().time.clock().now_ns()
    }

    /// Moves its clock forward, to so many nanoseconds. If it is there already, nothing happens.
    pub fn jump_to(&self, now: u64) {
        self.shared().time.clock().jump_to(now);
    }

    /// When its next timer is due, in nanoseconds of its clock.
    pub fn next_timer(&self) -> Option<u64> {
        self.shared().next_deadline()
    }

    /// Whether a timer is due.
    fn is_due(&self) -> bool {
        let now = self.now();
        self.next_timer().is_some_and(|next| next <= now)
    }

    /// Lets one thread take a step. False if none can: everything waits for a timer, or for what
    /// comes from outside.
    ///
    /// `choose` is given the number of threads that can, which is not zero, and answers which of
    /// them does: a number below that.
    ///
    /// # Panics
    ///
    /// If `choose` answers with a number that is too large. A panic of a task is caught, as by any
    /// worker.
    pub fn step(&self, choose: impl FnOnce(usize) -> usize) -> bool {
        self.take_up_new_threads();
        let Some((index, thread)) = self.chosen(choose) else {
            return false;
        };
        self.move_thread(index, thread, |thread| thread.step(&Steps));
        true
    }

    /// `goes_on` moves the thread, and says whether that goes on.
    fn move_thread(&self, index: usize, thread: Rc<Thread>, goes_on: impl FnOnce(&Thread) -> bool) {
        context::as_another_thread(|| {
            if !budget::step(|| goes_on(&thread)) {
                let place = self.threads.borrow_mut()[index].take();
                drop(place);
                let thread = Rc::into_inner(thread);
                thread.expect("it is in the middle of no step").end();
            }
        });
    }

    fn chosen(&self, choose: impl FnOnce(usize) -> usize) -> Option<(usize, Rc<Thread>)> {
        let threads = self.threads.borrow();
        let can = || {
            let present = threads.iter().enumerate();
            let present = present.filter_map(|(index, thread)| Some((index, thread.as_ref()?)));
            present.filter(|(_, thread)| thread.can_step(|| self.is_due()))
        };
        let (index, thread) = match can().count() {
            0 => return None,
            1 => can().next(),
            many => can().nth(choose(many)),
        }
        .expect("`choose` answers with a number below the one that it is given");
        Some((index, thread.clone()))
    }

    fn take_up_new_threads(&self) {
        let started = &self.shared().threads.sim_threads;
        let started = started.as_ref().expect("its clock is virtual");
        for processor in started.take() {
            let thread = Rc::new(Thread::begin(self.handle().shared(), processor));
            let mut threads = self.threads.borrow_mut();
            match threads.iter().position(Option::is_none) {
                Some(free) => threads[free] = Some(thread),
                None => threads.push(Some(thread)),
            }
        }
    }

    /// Wakes the thread that waits in the netpoll: its next step looks there. False if none waits
    /// there. Then one that is awake looks before it waits.
    pub fn wake_poller(&self) -> bool {
        let threads = self.threads.borrow();
        let mut threads = threads.iter().flatten();
        match threads.find(|thread| thread.is_in_netpoll()) {
            Some(thread) => {
                thread.wake();
                true
            }
            None => false,
        }
    }

    /// Raises a signal, by its number. Those that listen for it in this runtime hear of it, and no
    /// others. False if nothing has ever listened for it.
    #[cfg(unix)]
    pub fn raise(&self, signal: i32) -> bool {
        let signals = self.handle().netpoll().signals();
        signals.is_some_and(|signals| signals.raise(signal))
    }

    /// The tasks that have panicked since the last call and that nobody joins, each in words.
    pub fn take_panics(&self) -> Vec<String> {
        panics_of(self.shared())
    }

    /// Ends the runtime: its tasks are cancelled, and their futures dropped, before this returns. A
    /// drop does the same.
    ///
    /// Gives what [`take_panics`](Self::take_panics) would give after that.
    pub fn end(self) -> Vec<String> {
        let shared = self.handle.shared().clone();
        drop(self);
        panics_of(&shared)
    }
}

fn panics_of(shared: &Shared) -> Vec<String> {
    let threads = shared.threads.sim_threads.as_ref();
    threads.map_or_else(Vec::new, |threads| mem::take(&mut *threads.panicked.lock()))
}

/// A runtime without threads cannot wait for them.
impl Drop for Machine {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        let shared = self.handle.shared().clone();
        context::as_another_thread(|| {
            self.pool.give_back(&shared, |_| true);
            shared.end(None);
        });
        while self.step(|_| 0) {}
        runtime.shutdown_background();
    }
}

/// Tasks that this thread spawns from now on have ids that begin with 1, and do not depend on other
/// threads. With `false`, ids are those of the process again.
///
/// So the ids of a simulation are a function of its seed. They are unique in the simulation alone.
/// With `true` a simulation begins: see [`at_run`](crate::budget::at_run).
pub fn own_ids(yes: bool) {
    sched::set_own_ids(yes.then_some(1));
    if yes {
        budget::run_begins();
    }
}

/// A thread does what it has found, and stays: it costs nothing.
struct Steps;

impl Hand for Steps {}

#[cfg(test)]
mod tests;
