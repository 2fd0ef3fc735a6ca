//! The phases of a shutdown, and the steps that every thread has to take in the same order.
//!
//! Here is the part of a shutdown that is a protocol between threads, over the environment trait
//! `Env`. The runtime and the models implement it. When each phase begins, by which thread, and how
//! long it lasts, is in `sched/shutdown.rs`.
//!
//! # *What may be done in which phase*
//!
//! | phase | a spawn | a task | a blocking call that has not begun | a thread | timers and sockets |
//! | --- | --- | --- | --- | --- | --- |
//! | `OPEN` | is accepted | runs | runs | is started by need | work |
//! | `DRAINING` | is refused: its future is dropped at once | is cancelled: a worker drops its future, and the poll that is under way is the last | runs | is started by need | work; if the grace is nearly over, they answer with errors |
//! | `CLOSING` | is refused | is dropped by the thread that finds it | is dropped | drops what it can reach, and ends; none is started | as before |
//! | `CLOSED` | is refused | is dropped by the thread that queues it | the same | the last one has ended | as before |
//! | `ENDED` | is refused | the same | the same | is joined | answer with errors |
//!
//! Each phase has an owner, which begins it:
//!
//! - `DRAINING`: the thread that ends the runtime, the *shutdown thread*
//!   ([`ShutdownEnv::begin_draining`]). It marks every live task but blocking calls, and queues
//!   those that were idle. It drops nothing: that is user code, which runs on workers.
//! - `CLOSING`: the shutdown thread, when no task is alive or the grace is over
//!   ([`ShutdownEnv::begin_shutdown`]).
//! - `CLOSED` and `ENDED`: the last thread that ends ([`ShutdownEnv::thread_gone`]).
//!
//! If the runtime is ended inside a task, the task does not wait for it, and a thread in the
//! background is the shutdown thread.
//!
//! # Seven races
//!
//! Each is a store-load race of two parties: each writes one thing, fences, and reads the other's.
//! So one of them sees the other.
//!
//! | one | other | or else |
//! | --- | --- | --- |
//! | drains: phase `DRAINING`, fence, then marks every live task and asks every P that has a thread | enters a task, then looks: a thread with a P when it is asked ([`ShutdownEnv::drain_own`]), any other after its push or when it leaves ([`ShutdownEnv::foreign_thread_left`]) | a task is not cancelled, and the grace goes by |
//! | drains: phase `DRAINING`, fence, then asks every P that has a thread; begins: phase `CLOSING`, then tells every one | takes a P: sets its bit (`allp.rs`), then looks at the phase ([`ShutdownEnv::notify_new_p`]) | a P is not asked or told, and its tasks or its thread stay |
//! | the last thread: phase `CLOSED`, then empties the queue | pushes, then wakes a thread, then looks at the phase ([`Env::pushed`]) | a task is queued for ever |
//! | the end: phase `CLOSED`, fence, `ENDED`, then counts the live tasks | the last task leaves the table, then its thread looks at the phase ([`ShutdownEnv::foreign_thread_left`]) | the runtime holds itself for ever |
//! | the end and the last task, as above | the thread that waits looks at both under the lock of `threads` | it sleeps until its grace is over |
//! | the end: phase `CLOSED`, fence, `ENDED`, then counts the live tasks under the lock of `kept` | a thread that is not counted enters a task, then looks at the phase ([`ShutdownEnv::foreign_thread_left`]) | the runtime goes while the task is alive |
//! | from `DRAINING` on: a table's last task leaves it, fence, then its thread counts those of all tables | the same with another table, or with another task of this one; or the shutdown thread, which counts after its own fence | each sees the other's task, and no thread tells the shutdown thread |
//!
//! The fourth one has no fence where a task ends while the runtime is open, for that is the way of
//! every task. The end waits for the runtime's own threads, so they need none. Other threads that
//! have a P are in `block_on`: they look once more when they have left it. The same holds for the
//! seventh: a thread that did not see the phase when it ended a task is asked like every other, and
//! counts then.
//!
//! The sixth one has no fence either where a task enters. Those threads hold the runtime until they
//! look, with the fence of their leaving. A thread without a P that spawns looks after its push,
//! with the fence of that.
//!
//! # *The runtime's reference to itself*
//!
//! From its draining on the runtime keeps an owned reference to itself, until it has ended and no
//! task is alive. A waker that has just made a task queued is between that step and its push, and
//! finds the runtime by the task's scheduler handle alone: the task is live, so the runtime is
//! there. The thread that lets go has a reference of its own, and so does every thread that is
//! inside one of these functions.
//!
//! Checked by `models::shutdown`, `sched/tests/phase.rs`,
//! `tests/shutdown/shutdown_drops_everything.rs`, `tests/shutdown/shutdown_bears_what_goes_on.rs`
//! and `tests/shutdown/the_end_has_phases.rs`.

use std::time::Duration;

use super::env::Env;
use crate::sync::{
    Condvar, Mutex,
    atomic::{
        AtomicBool, AtomicU32,
        Ordering::{AcqRel, Acquire, Release, SeqCst},
        fence,
    },
};

const OPEN: u32 = 0;
const DRAINING: u32 = 1;
const CLOSING: u32 = 2;
const CLOSED: u32 = 3;
const ENDED: u32 = 4;

/// How far the end has come; see the table in the module's head.
#[derive(Debug)]
pub(crate) struct Phase {
    word: AtomicU32,
    /// Every task that was alive has been marked since the closing began.
    swept: AtomicBool,
}

impl Phase {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(OPEN),
            swept: AtomicBool::new(false),
        }
    }

    /// The end has begun: no new tasks.
    pub(crate) fn is_ending(&self) -> bool {
        // Ordering: Acquire: a thread that acts on it comes after its beginning.
        self.word.load(Acquire) != OPEN
    }

    fn is_draining(&self) -> bool {
        // Ordering: as above.
        self.word.load(Acquire) == DRAINING
    }

    /// Threads end.
    pub(crate) fn is_closing(&self) -> bool {
        // Ordering: as above.
        self.word.load(Acquire) >= CLOSING
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Ordering: as above.
        self.word.load(Acquire) >= CLOSED
    }

    /// True for the thread that began it.
    fn drain(&self) -> bool {
        // Ordering: AcqRel pairs with the loads above.
        self.word
            .compare_exchange(OPEN, DRAINING, AcqRel, Acquire)
            .is_ok()
    }

    /// True for the thread that began it.
    fn close(&self) -> bool {
        // Ordering: as above.
        self.word.fetch_max(CLOSING, AcqRel) < CLOSING
    }

    pub(crate) fn is_ended(&self) -> bool {
        // Ordering: as above.
        self.word.load(Acquire) == ENDED
    }

    fn end(&self) {
        // Ordering: Release pairs with the loads above.
        self.word.store(ENDED, Release);
    }

    fn set_closed(&self) {
        self.word.swap(CLOSED, AcqRel);
        // Ordering: SeqCst: the third race, and the fourth and the sixth; pairs with the fence in
        // `Idle::submit`, after which `Env::pushed` and `ShutdownEnv::foreign_thread_left` look.
        fence(SeqCst);
    }

    pub(crate) fn set_swept(&self) {
        // Ordering: Release pairs with the load below.
        self.swept.store(true, Release);
    }

    fn is_swept(&self) -> bool {
        // Ordering: Acquire as above.
        self.swept.load(Acquire)
    }
}

/// The runtime's threads.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// Number of those that exist, or clear away like one.
    pub(crate) count: usize,
    /// Numbers the names.
    pub(crate) started: usize,
}

/// What a shutdown needs beyond [`Env`]. The methods without a body are what a runtime has to
/// bring.
pub(crate) trait ShutdownEnv: Env {
    /// An owned reference to the runtime.
    type Strong;

    /// A reference, for a caller that knows of another one.
    fn strong(&self) -> Self::Strong;
    /// Where the runtime keeps its reference to itself.
    fn kept(&self) -> &Mutex<Option<Self::Strong>>;
    fn threads(&self) -> &Mutex<Threads>;
    /// Goes with `threads`: signalled when a thread ends, and when the last task does.
    fn changed(&self) -> &Condvar;
    fn live_tasks(&self) -> usize;
    /// Marks every live task as cancelled. Those that were idle are the caller's from now on.
    fn cancel_all(&self, dispose: impl FnMut(Self::Task));
    /// Marks every live task but blocking calls as cancelled, and queues those that were idle for a
    /// thread that drops them.
    fn abort_all(&self);
    /// Asks a P's thread to come by [`drain_own`](Self::drain_own) between two polls.
    fn ask_to_drain(&self, peer: &Self::Peer);
    /// Tells a P's thread, which looks up between two polls.
    fn tell(&self, peer: &Self::Peer);
    /// Wakes the threads that are no workers, such as the monitor: they have to go as well.
    fn dismiss_others(&self);
    /// Clears away on this thread, which is none of the runtime's but is counted as one by now.
    fn clear_on_a_foreign_thread(&self);
    /// Ends what sockets and timers wait for.
    fn shut_down_resources(&self);

    /// Whether the runtime has threads of its own.
    fn has_threads(&self) -> bool {
        self.threads().lock().count > 0
    }

    /// Cancels every task. Blocking calls go on. True for the first call, and if no shutdown has
    /// begun.
    fn begin_draining(&self) -> bool {
        if !self.phase().drain() {
            return false;
        }
        self.keep();
        // Ordering: SeqCst: the first race, and the second; pairs with the fences in `drain_own`
        // and `notify_new_p`, and before `foreign_thread_left`.
        fence(SeqCst);
        self.abort_all();
        for peer in self.peers() {
            self.ask_to_drain(peer);
        }
        for peer in self.peers() {
            self.notify_owner(peer);
        }
        true
    }

    /// On a P's own thread, after it found that it was asked or told: it sees the phase from here
    /// on.
    fn was_called(&self) {
        // Ordering: Acquire: pairs with the fences in `begin_draining`, `begin_shutdown` and
        // `notify_new_p`, which stand between the phase and the word to this thread. Without it a
        // thread could leave in a phase that it takes for an earlier one.
        fence(Acquire);
    }

    /// On a P's own thread, between two polls, after it was asked: cancels what it entered behind
    /// the shutdown thread's back.
    fn drain_own(&self, abort_own: impl FnOnce()) {
        // Ordering: SeqCst: the first race, between what this thread has entered and what it sees;
        // and the seventh.
        fence(SeqCst);
        abort_own();
        self.task_ended(|| true);
    }

    /// Tells every thread to end. True for the first call.
    fn begin_shutdown(&self) -> bool {
        if !self.phase().close() {
            return false;
        }
        self.keep();
        // Ordering: SeqCst: the second race; pairs with the fence in `notify_new_p`.
        fence(SeqCst);
        self.dismiss_others();
        // All are told before the first begins to clear away: what its drops wake is not polled
        // again.
        for peer in self.peers() {
            self.tell(peer);
        }
        for peer in self.peers() {
            self.notify_owner(peer);
        }
        true
    }

    /// A P that was just taken, whose bit is set by now, may have missed what was said to the
    /// others.
    fn notify_new_p(&self, peer: &Self::Peer) {
        // Ordering: SeqCst: the second race; pairs with the fences in `begin_draining` and
        // `begin_shutdown`.
        fence(SeqCst);
        if self.phase().is_ending() {
            self.ask_to_drain(peer);
        }
        if self.phase().is_closing() {
            self.tell(peer);
        }
    }

    /// From its draining on the runtime holds itself. The caller has a reference of its own.
    fn keep(&self) {
        *self.kept().lock() = Some(self.strong());
    }

    /// Clears away on this thread, which is none of the runtime's.
    fn help_to_clear(&self) {
        self.threads().lock().count += 1;
        self.clear_on_a_foreign_thread();
        self.thread_ended();
    }

    /// After a thread of the runtime has ended.
    fn thread_ended(&self) {
        self.thread_gone();
        // At the cap, a thread may have found neither a parked thread nor room for another.
        if !self.phase().is_closing() && self.any_work() {
            self.wake_for(1);
        }
    }

    /// A thread is not there any more, or never was. The caller holds the runtime.
    fn thread_gone(&self) {
        let mut threads = self.threads().lock();
        threads.count -= 1;
        let last = threads.count == 0 && self.phase().is_closing();
        self.changed().notify_all();
        drop(threads);
        if last && !self.phase().is_swept() {
            // It ended for idleness when the closing had just begun, and did not see it.
            let _strong = self.strong();
            self.help_to_clear();
        } else if last {
            self.phase().set_closed();
            self.drain_global();
            self.shut_down_resources();
            // Under the lock, so that the thread that waits cannot miss it between its look and its
            // wait.
            let threads = self.threads().lock();
            self.phase().end();
            self.changed().notify_all();
            drop(threads);
            self.let_go();
        }
    }

    /// A task left its live table; `is_last` says whether it was the last one there. If the runtime
    /// ends, a thread may wait for the last of all. The tables of all are counted only if it was
    /// the last of its own.
    fn task_ended(&self, is_last: impl FnOnce() -> bool) {
        if !self.phase().is_ending() {
            return;
        }
        // Ordering: SeqCst: the seventh race; pairs with itself, after the last task of another
        // table, or another task of this one.
        fence(SeqCst);
        if is_last() && self.live_tasks() == 0 {
            drop(self.threads().lock());
            self.changed().notify_all();
            self.let_go();
        }
    }

    /// A thread that is not counted has left its P, or has queued a task from outside. Tasks that
    /// ended on it were perhaps the last. And the end may have come and let go while it entered
    /// others, that are alive.
    fn foreign_thread_left(&self) {
        if self.phase().is_ending() {
            self.keep();
        }
        if self.phase().is_draining() {
            self.abort_all();
        }
        self.task_ended(|| true);
    }

    /// Marks every live task as cancelled, and notes that this was done.
    fn sweep(&self, dispose: impl FnMut(Self::Task)) {
        self.cancel_all(dispose);
        self.phase().set_swept();
    }

    /// Takes the runtime's reference to itself from it, when it has ended and no task is alive.
    ///
    /// The end and the last task have both held the lock of `threads` since their own step, so the
    /// later one sees the other's. They are counted under the lock of `kept`: a thread that keeps
    /// it for a task has entered that before.
    fn let_go(&self) {
        let mut kept = self.kept().lock();
        if self.phase().is_ended() && self.live_tasks() == 0 {
            let strong = kept.take();
            drop(kept);
            drop(strong);
        }
    }

    /// Waits until no task is alive. `left` says how long one may still wait; None: no longer.
    /// False if this was not reached in that time.
    fn wait_for_the_last_task(&self, left: impl FnMut() -> Option<Duration>) -> bool {
        self.wait_until(|| self.live_tasks() == 0, left)
    }

    /// The same until the runtime has ended, too.
    fn wait_for_the_end(&self, left: impl FnMut() -> Option<Duration>) -> bool {
        self.wait_until(|| self.phase().is_ended() && self.live_tasks() == 0, left)
    }

    fn wait_until(
        &self,
        is_over: impl Fn() -> bool,
        mut left: impl FnMut() -> Option<Duration>,
    ) -> bool {
        let mut threads = self.threads().lock();
        while !is_over() {
            let Some(left) = left() else {
                return false;
            };
            threads = self.changed().wait_timeout(threads, left);
        }
        true
    }
}
