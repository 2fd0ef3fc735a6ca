//! The end of a runtime: every future is dropped, by whom it may be dropped, and it ends.
//!
//! # The phases
//!
//! | phase | begins when | what holds from then on |
//! | --- | --- | --- |
//! | open | | |
//! | closing | `shutdown_*`, drop, or the first panic if the builder asked for that | a spawn is refused: its future is dropped at once, its handle says cancelled. Every thread of the runtime, between two polls, goes to clear away |
//! | closed | the last thread has cleared away | who queues a task drops it himself |
//! | ended | the netpoll and the timers are shut down | sockets and timers answer with errors; the one who waits goes on |
//!
//! # Clearing away
//!
//! Each thread: (1) cancels what is pinned to it, and waits for none of that to be left; (2) marks
//! every live task as cancelled; whom it finds idle it takes and drops there and then, and a pinned one
//! it sends to its own thread; (3) empties its own queues and the global one, dropping what comes out.
//!
//! *Invariant*: when all threads have left and nobody is in the middle of a wake, no task is alive.
//! A live task is idle, or queued, or running. One that is idle at (2) is dropped there. One that is
//! queued, or on its way into a queue, is marked: whoever takes it out drops it. That is a thread at
//! (3), or, if all have left before the push, the pusher: it pushes, fences, and looks at the phase;
//! the last thread sets the phase, fences, and looks at the queue. One that runs is marked, and its
//! runner drops it after the poll (S7: *what a stuck thread is polling is dropped by that thread*).
//!
//! The wait for stuck threads is bounded by `shutdown_grace`; what is still alive then is reported by
//! name and place of spawn. Those threads hold the runtime's memory, and do the same when they
//! return.
//!
//! Who drops a runtime on a thread of its own helps with the clearing, so that a runtime that never
//! started a thread ends like any other. On a worker, which must not wait for itself, the shutdown
//! goes on in the background.
//!
//! Checked by `tests/shutdown_drops_everything.rs`, and by `shutdown/tests.rs` for a waker in flight.

#[cfg(all(test, not(ws_loom)))]
mod tests;

use std::{
    sync::atomic::{AtomicBool, AtomicU32},
    time::{Duration, Instant},
};

use super::{Shared, Worker, processor::attention, worker::Scope};
use crate::{
    context,
    queue::Steal,
    sync::{
        Arc,
        atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
        atomic::fence,
        thread,
    },
    task::{Task, quietly},
};

const OPEN: u32 = 0;
const CLOSING: u32 = 1;
const CLOSED: u32 = 2;
const ENDED: u32 = 3;

/// Names of tasks in a report at most.
const REPORTED_MAX: usize = 10;

/// See the module's head.
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

    pub(crate) fn is_closing(&self) -> bool {
        // Ordering: Acquire: who acts on it comes after its beginning.
        self.word.load(Acquire) != OPEN
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Ordering: as above.
        self.word.load(Acquire) >= CLOSED
    }

    /// True for the one who began it.
    fn close(&self) -> bool {
        // Ordering: AcqRel pairs with the loads above.
        self.word
            .compare_exchange(OPEN, CLOSING, AcqRel, Acquire)
            .is_ok()
    }

    fn is_ended(&self) -> bool {
        // Ordering: as above.
        self.word.load(Acquire) == ENDED
    }

    fn end(&self) {
        // Ordering: Release pairs with the loads above.
        self.word.store(ENDED, Release);
    }

    fn set_closed(&self) {
        // Ordering: see the invariant.
        self.word.swap(CLOSED, AcqRel);
        fence(SeqCst);
    }

    fn set_swept(&self) {
        // Ordering: Release pairs with the load below.
        self.swept.store(true, Release);
    }

    fn is_swept(&self) -> bool {
        // Ordering: Acquire as above.
        self.swept.load(Acquire)
    }
}

/// How long the one who ends a runtime waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Until everything is dropped, at most so long.
    AtMost(Duration),
    /// Not at all.
    Not,
}

impl Shared {
    /// Ends the runtime.
    pub(crate) fn shut_down(self: &Arc<Self>, wait: Wait) {
        let first = self.begin_shutdown();
        let inside = context::with_worker(|worker| worker.is_some());
        match wait {
            Wait::AtMost(grace) if !inside => {
                self.help_to_clear();
                self.wait_for_the_end(grace);
            }
            _ if first && !self.has_threads() => self.clear_in_the_background(),
            _ => {}
        }
    }

    /// Tells every thread. True for the first call.
    pub(crate) fn begin_shutdown(&self) -> bool {
        if !self.phase.close() {
            return false;
        }
        self.keep();
        // Ordering: SeqCst: pairs with the fence in `take_processor`: either that P is in our list, or its
        // maker sees the phase.
        fence(SeqCst);
        self.idle.monitor().unpark(|| ());
        // All are told before the first begins to clear away: what its drops wake is not polled again.
        for peer in self.peers() {
            peer.attention.fetch_or(attention::SHUTDOWN, Relaxed);
        }
        for peer in self.peers() {
            self.notify_owner(peer);
        }
        true
    }

    /// A task ended with a panic.
    pub(crate) fn task_panicked(self: &Arc<Self>) {
        if self.config.panic_stops_runtime && self.begin_shutdown() {
            tracing::error!("a task panicked: the runtime shuts down, as its builder asked for");
            // Threads that have a root of their own go on with that.
            if !self.has_threads() {
                self.clear_in_the_background();
            }
        }
    }

    /// Clears away on this thread, which is none of the runtime's.
    fn help_to_clear(self: &Arc<Self>) {
        self.threads.lock().count += 1;
        if let Some(processor) = self.take_processor() {
            let worker = Worker::new(self.clone(), processor, Scope::All, None);
            context::with_worker_frame(&worker, || worker.clear_away());
            worker.leave();
        } else {
            // All Ps are in `block_on`s, whose ends clear away.
            self.phase.set_swept();
        }
        self.thread_ended();
    }

    fn clear_in_the_background(self: &Arc<Self>) {
        let shared = self.clone();
        let builder = thread::Builder::new().name(format!("{}-shutdown", self.config.name));
        if let Err(error) = builder.spawn(move || shared.help_to_clear()) {
            tracing::warn!(%error, "no thread for the shutdown: it is done here");
            self.help_to_clear();
        }
    }

    fn wait_for_the_end(&self, grace: Duration) {
        let begin = Instant::now();
        let mut threads = self.threads.lock();
        while !self.phase.is_ended() || self.live_tasks() > 0 {
            let Some(left) = grace
                .checked_sub(begin.elapsed())
                .filter(|left| !left.is_zero())
            else {
                drop(threads);
                self.report_left();
                return;
            };
            threads = self.changed.wait_timeout(threads, left);
        }
    }

    fn report_left(&self) {
        let mut left = Vec::new();
        self.for_each_live(|task| {
            if left.len() < REPORTED_MAX {
                let header = task.header();
                left.push(format!(
                    "task {} {:?} spawned at {}",
                    header.id(),
                    header.name().unwrap_or(""),
                    header.location()
                ));
            }
        });
        let tasks = self.live_tasks();
        let threads = self.threads.lock().count;
        tracing::warn!(
            tasks,
            threads,
            ?left,
            "the runtime was shut down while tasks still ran; their threads drop them when they return"
        );
    }

    /// After a thread of the runtime has ended.
    pub(crate) fn thread_ended(&self) {
        self.thread_gone();
        // At the cap, somebody may have found neither a parked thread nor room for another.
        if !self.phase.is_closing() && self.any_work() {
            self.wake_for(1);
        }
    }

    /// A thread is not there any more, or never was. The caller holds the runtime.
    pub(crate) fn thread_gone(&self) {
        let mut threads = self.threads.lock();
        threads.count -= 1;
        let last = threads.count == 0 && self.phase.is_closing();
        self.changed.notify_all();
        drop(threads);
        if last && !self.phase.is_swept() {
            // It ended for idleness when the closing had just begun, and did not see it.
            self.hold().help_to_clear();
        } else if last {
            self.phase.set_closed();
            self.drain_global();
            quietly("the waker of a socket", || self.netpoll.shut_down());
            self.shut_down_timers();
            // Under the lock, so that the one who waits cannot miss it between its look and its wait.
            let threads = self.threads.lock();
            self.phase.end();
            self.changed.notify_all();
            drop(threads);
            self.let_go();
        }
    }

    /// A push came while the runtime closes.
    pub(crate) fn drain_if_closed(&self) {
        fence(SeqCst);
        if self.phase.is_closed() {
            self.drain_global();
        }
    }

    /// Drops what is in the global queue.
    fn drain_global(&self) {
        while let Some(task) = self.grq.pop() {
            let _ = task.cancel();
        }
    }

    /// A task left the live table while the runtime closes: somebody may wait for the last one.
    pub(crate) fn task_ended_while_closing(&self) {
        if self.live_tasks() == 0 {
            drop(self.threads.lock());
            self.changed.notify_all();
            self.let_go();
        }
    }

    /// From its closing on the runtime holds itself, until it has ended and no task is alive: a waker
    /// that has just made a task queued may be between that step and its push, and finds the runtime by
    /// the task alone. The caller has a hold of its own.
    pub(crate) fn keep(&self) {
        *self.kept.lock() = Some(self.hold());
    }

    fn let_go(&self) {
        // Ordering: SeqCst: the end and the last task each look at the other after their own step.
        fence(SeqCst);
        if self.phase.is_ended() && self.live_tasks() == 0 {
            let kept = self.kept.lock().take();
            drop(kept);
        }
    }
}

impl Worker {
    /// What a thread does before it leaves its P: drops what is pinned to it, and, if the runtime
    /// closes, everything that it can reach.
    pub(super) fn clear_away(&self) {
        self.clear_pinned();
        if !self.shared().phase.is_closing() {
            return;
        }
        self.shared().for_each_live(|task| {
            if let Some(task) = task.cancel() {
                self.dispose(task);
            }
        });
        self.shared().phase.set_swept();
        loop {
            while let Some(task) = self.take_any() {
                self.dispose(task);
            }
            // A drop may have woken others, pinned ones among them.
            self.clear_pinned();
            if self.p.lrq.is_empty() && !self.shared().any_work() {
                break;
            }
        }
    }

    /// Drops a task's future, or sends it to the thread that may.
    fn dispose(&self, task: Task) {
        if task.header().is_pinned() {
            if self.home_is(task.header().home()) {
                self.cancel_pinned(task);
            } else {
                self.shared().push_foreign(task);
            }
        } else {
            let _ = task.cancel();
        }
    }

    fn cancel_pinned(&self, task: Task) {
        let _ = task.cancel();
        self.p.pinned_live.set(self.p.pinned_live.get() - 1);
    }

    /// Drops all tasks that are pinned to this thread (I7).
    pub(super) fn clear_pinned(&self) {
        while self.p.pinned_live.get() > 0 {
            while let Some(task) = self.p.pop_pinned() {
                self.cancel_pinned(task);
            }
            self.p.peer.home.live().for_each(|task| {
                if task.header().is_pinned()
                    && let Some(task) = task.cancel()
                {
                    self.cancel_pinned(task);
                }
            });
            // What is left is on its way into the inbox: its waker is between two instructions.
            if self.p.pinned_live.get() > 0 && !self.p.has_pinned() {
                thread::yield_now();
            }
        }
    }

    /// Any task that is queued, on whatever P.
    fn take_any(&self) -> Option<Task> {
        let own = self.p.runnext.take().or_else(|| self.p.lrq.pop());
        own.or_else(|| self.shared().grq.pop()).or_else(|| {
            self.shared()
                .peers()
                .filter(|peer| peer.index != self.peer().index)
                .find_map(|peer| match peer.stealer.steal_into(&self.p.lrq) {
                    Steal::Stolen { first, .. } => Some(first),
                    Steal::Empty | Steal::Busy => peer
                        .runnext
                        .peek()
                        .and_then(|token| peer.runnext.steal(token)),
                })
        })
    }
}
