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
//! What of this is a protocol between threads is in `closing.rs`: the phases, and who has to look where after
//! which step. Checked by `models::shutdown`, by `tests/shutdown_drops_everything.rs` and
//! `tests/shutdown_bears_what_goes_on.rs`, and by `shutdown/tests.rs` for a waker in flight and for who waits.

#[cfg(all(test, not(ws_loom)))]
pub(super) mod tests;

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use super::{
    Shared, Worker,
    closing::Closing,
    ground::{Bed, Ground},
    worker::Scope,
};
use crate::{
    context,
    queue::Steal,
    sync::{Arc, thread},
    task::{Task, report},
};

/// Names of tasks in a report at most.
const REPORTED_MAX: usize = 10;

/// How long the one who ends a runtime waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Until everything is dropped, at most so long.
    AtMost(Duration),
    /// Not at all.
    Not,
}

thread_local! {
    /// This thread is in a hook at its begin or its end, where it is no worker.
    static IN_A_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Runs a hook on a thread that counts as one of the runtime's, though it is no worker: who ends a runtime in there
/// does not wait for this thread.
pub(super) fn in_a_hook(hook: impl FnOnce()) {
    IN_A_HOOK.set(true);
    // It does not unwind: a hook's panic is caught.
    hook();
    IN_A_HOOK.set(false);
}

impl Shared {
    /// Ends the runtime.
    pub(crate) fn shut_down(self: &Arc<Self>, wait: Wait) {
        let first = self.begin_shutdown();
        let inside = IN_A_HOOK.get() || context::with_worker(|worker| worker.is_some());
        match wait {
            Wait::AtMost(grace) if !inside => {
                self.help_to_clear();
                self.wait_at_most(grace);
            }
            _ if first && !self.has_threads() => self.clear_in_the_background(),
            _ => {}
        }
    }

    /// A task ended with a panic.
    pub(crate) fn task_panicked(self: &Arc<Self>) {
        if self.config.panic_stops_runtime && self.begin_shutdown() {
            report(|| {
                tracing::error!(
                    "a task panicked: the runtime shuts down, as its builder asked for"
                );
            });
            // Threads that have a root of their own go on with that.
            if !self.has_threads() {
                self.clear_in_the_background();
            }
        }
    }

    /// What [`Closing::clear_as_a_guest`] does for a runtime.
    pub(super) fn clear_with_a_worker(&self) {
        if let Some(processor) = self.take_processor() {
            let worker = Worker::new(self.hold(), processor, Scope::All, None);
            context::with_worker_frame(&worker, || worker.clear_away());
            worker.leave();
        } else {
            // All Ps are in `block_on`s, whose ends clear away.
            self.phase.set_swept();
        }
    }

    fn clear_in_the_background(self: &Arc<Self>) {
        let shared = self.clone();
        let builder = thread::Builder::new().name(format!("{}-end", self.config.name));
        if let Err(error) = builder.spawn(move || shared.help_to_clear()) {
            report(|| tracing::warn!(%error, "no thread for the shutdown: it is done here"));
            self.help_to_clear();
        }
    }

    fn wait_at_most(&self, grace: Duration) {
        let begin = Instant::now();
        let left = || {
            grace
                .checked_sub(begin.elapsed())
                .filter(|left| !left.is_zero())
        };
        if !self.wait_for_the_end(left) {
            self.report_left();
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
        report(|| {
            tracing::warn!(
                tasks,
                threads,
                ?left,
                "the runtime was shut down while tasks still ran; their threads drop them when they return"
            );
        });
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
        self.shared().sweep(|task| self.dispose(task));
        loop {
            while let Some(task) = self.take_any() {
                self.dispose(task);
            }
            // A drop may have woken others, pinned ones among them.
            self.clear_pinned();
            if self.p.lrq.is_empty() && self.p.ranks.is_empty() && !self.shared().any_task() {
                break;
            }
        }
    }

    /// Drops a task's future, or sends it to the thread that may.
    pub(super) fn dispose(&self, task: Task) {
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
            self.cancel_reachable_pinned();
            // What is left is on its way into the inbox: its waker is between two instructions.
            if self.p.pinned_live.get() > 0 && !self.p.has_pinned() {
                thread::yield_now();
            }
        }
    }

    /// Drops those that are not running, or on their way into the inbox.
    pub(super) fn cancel_reachable_pinned(&self) {
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
    }

    /// Any task that is queued, on whatever P.
    fn take_any(&self) -> Option<Task> {
        let own = self.p.runnext.take().or_else(|| self.p.pop_forked());
        let own = own.or_else(|| self.p.lrq.pop());
        let own = own.or_else(|| self.p.ranks.pop());
        own.or_else(|| self.shared().pop_queued()).or_else(|| {
            self.shared()
                .peers()
                .filter(|peer| peer.index != self.peer().index)
                .find_map(|peer| match peer.stealer.steal_into(&self.p.lrq) {
                    Steal::Stolen { first, .. } => Some(first),
                    Steal::Empty | Steal::Busy => peer
                        .steal_next()
                        .or_else(|| peer.parents.steal())
                        .or_else(|| self.steal_ordered_from(peer)),
                })
        })
    }
}
