//! The end of a runtime: every future is dropped, by a thread that may drop it, and it ends.
//!
//! The phases, and what is allowed in which of them: `permit/phase.rs`. Here is when each phase
//! begins, and by which thread.
//!
//! # The steps of an end
//!
//! The *shutdown thread* sees to the steps. The thread that drops the runtime decides which thread
//! that is, and whether it waits itself:
//!
//! | the thread that drops it is | shutdown thread | waits |
//! | --- | --- | --- |
//! | a worker of the runtime, in a `block_on` of it, or in a hook for its begin or end | a thread in the background | no: the end would wait for this thread |
//! | the same of another runtime | itself | yes: an announced block, so others have its permit |
//! | any other | itself | yes |
//!
//! 1. The shutdown thread begins the draining: spawns are refused, and every live task but blocking
//!    calls is cancelled. Workers go on as before. They drop the futures, run the calls, fire
//!    timers and poll sockets. A destructor is a poll like any other: the monitor takes the permit
//!    of one that blocks.
//! 2. The shutdown thread waits until no task is alive, for three quarters of the grace. After
//!    that, timers and sockets answer with errors. So a thread that waits for one of them has a
//!    quarter of the grace to come out.
//! 3. When no task is alive, or the grace is over, the shutdown thread begins the closing: the
//!    threads end. If tasks are left, a thread in the background clears away what can be cleared,
//!    and the shutdown thread does not wait for it.
//! 4. The shutdown thread waits for the last thread, and joins all of them (*Joining* in
//!    `threads.rs`). A shutdown thread in the background does not join: the drop of the runtime
//!    does, if it comes later. In the closing no thread serves timers and sockets. So if a thread
//!    is still there after a moment, they answer with errors: a hook for the end of a thread may
//!    wait for one.
//! 5. If the grace is over before that, the shutdown thread reports what is left and goes on. The
//!    threads that are left hold the runtime's memory, and clear away when they return.
//!
//! The shutdown thread runs no destructor of a task, so the grace bounds its wait whatever users
//! do. Exceptions:
//!
//! - If the system refuses every thread, the shutdown thread clears away itself.
//! - If the runtime has no thread at the end, the shutdown thread wakes what waits for timers and
//!   sockets.
//!
//! With the clock of a driver there are no threads, and no caller can wait: the end begins with the
//! closing.
//!
//! # Clearing away
//!
//! In the closing each thread:
//!
//! - (1) cancels what is pinned to it, and waits until none of that is left;
//! - (2) marks every live task as cancelled: an idle one it takes and drops there and then, and a
//!   pinned one it sends to its own thread;
//! - (3) empties its own queues and the global one, dropping what comes out.
//!
//! *Invariant*: when all threads have left and no thread is in the middle of a wake, no task is
//! alive. A live task is idle, or queued, or running. One that is idle at (2) is dropped there. One
//! that is queued, or on its way into a queue, is marked: the thread that takes it out drops it.
//! That is a thread at (3), or, if all have left before the push, the pusher. The pusher pushes,
//! fences, and looks at the phase; the last thread sets the phase, fences, and looks at the queue.
//! One that runs is marked, and its runner drops it after the poll (S7: *what a stuck thread is
//! polling is dropped by that thread*).
//!
//! Checked by `models::shutdown`, by `tests/shutdown/shutdown_drops_everything.rs`,
//! `tests/shutdown/shutdown_bears_what_goes_on.rs` and `tests/shutdown/the_end_has_phases.rs`, and
//! by `shutdown/tests.rs` for a waker in flight and for threads that wait.

#[cfg(test)]
pub(crate) mod tests;

use std::{
    task::Waker,
    time::{Duration, Instant},
};

use super::{Shared, Worker, processor::attention, state::snapshot_files::Why, worker::Scope};
use crate::{
    advice::{Advised, THREAD, advice},
    cell::{SchedulerHandle, ScopeBarrier, Task},
    note::event,
    permit::{
        env::{Env, PeerEnv},
        phase::ShutdownEnv,
        sleep::Sleeper,
    },
    policy::constants::{ABORTED_AT_ONCE, CLOSING_WAIT, HOSTED_RESOURCES_STAY, REPORTED_MAX},
    queue::{Batch, Steal},
    reports::Subject,
    sync::{Arc, atomic::Ordering::Relaxed, thread},
};

/// Whether a shutdown thread joins the threads. One in the background does not: no thread waits for
/// it, and the drop of the runtime, which may come meanwhile, would find nothing to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joins {
    Yes,
    No,
}

impl Shared {
    /// Ends the runtime, and waits if there is a grace. A thread of the runtime must not wait.
    pub(crate) fn end(self: &Arc<Self>, grace: Option<Duration>) {
        if self.threads.sim_threads.is_some() {
            return self.end_at_once(grace);
        }
        let first = self.begin_draining();
        match grace {
            Some(grace) => self.see_to_the_end(grace, Joins::Yes),
            None if first => self.end_in_the_background(),
            None => {}
        }
    }

    /// A task ended with a panic.
    pub(crate) fn task_panicked(self: &Arc<Self>) {
        self.snapshot(Why::Panic);
        if !self.config.panic_stops_runtime || self.end.phase.is_ending() {
            return;
        }
        // Not under the limit of the report of that panic: one of the two would be left out.
        self.telling.reports.tell_limited(
            || tracing::error!("a task panicked: the runtime shuts down, as its builder asked for"),
            "a task panicked: the runtime shuts down, as its builder asked for",
        );
        // Threads that have a root of their own go on with that, but for the root of
        // `Runtime::run_local`.
        self.end(None);
        let main = self.end.main.lock().take();
        if let Some(main) = main {
            main.wake();
        }
    }

    /// Whether a task's panic has ended the runtime; if not, `main` is woken when one does. For the
    /// root of `Runtime::run_local`: its caller owns the runtime, so nothing else can have ended
    /// it.
    ///
    /// The look at the phase comes after the entry of the waker. So one of two happens:
    /// [`task_panicked`](Self::task_panicked) finds the waker, or this thread takes the lock after
    /// it and sees the phase, which was set before.
    pub(crate) fn is_stopped_by_a_panic(&self, main: &Waker) -> bool {
        if !self.config.panic_stops_runtime {
            return false;
        }
        let old = self.end.main.lock().replace(main.clone());
        drop(old);
        self.end.phase.is_ending()
    }

    /// The steps of the shutdown thread, after the draining has begun.
    fn see_to_the_end(self: &Arc<Self>, grace: Duration, joins: Joins) {
        let begin = Instant::now();
        let left = |of: Duration| {
            move || {
                let left = of.checked_sub(begin.elapsed());
                left.filter(|left| !left.is_zero())
            }
        };
        let mut drained = self.live_tasks() == 0;
        if !drained && !self.has_no_thread() {
            drained = self.wait_for_the_last_task(left(self.resources_stay(grace)));
            if !drained {
                self.in_the_background("end", |shared| shared.shut_down_resources());
                drained = self.wait_for_the_last_task(left(grace));
            }
        }
        self.begin_shutdown();
        if drained || self.has_no_thread() {
            self.help_to_clear();
        } else {
            self.in_the_background("end", |shared| shared.help_to_clear());
        }
        let mut ended = self.wait_for_the_end(left(grace.min(begin.elapsed() + CLOSING_WAIT)));
        if !ended {
            self.in_the_background("end", |shared| shared.shut_down_resources());
            ended = self.wait_for_the_end(left(grace));
        }
        if !ended || (joins == Joins::Yes && !self.join_threads(left(grace))) {
            self.report_left(grace);
        }
    }

    /// How long timers and sockets work after the begin of the end.
    fn resources_stay(&self, grace: Duration) -> Duration {
        let most = grace / 4 * 3;
        if self.config.host.leaves_tasks() {
            // Code that waits for one of them holds up the end there, however long that may take.
            most.min(HOSTED_RESOURCES_STAY)
        } else {
            most
        }
    }

    /// The same for a thread that must not wait.
    fn end_in_the_background(self: &Arc<Self>) {
        // A hook for the end of a thread may wait for a timer: then a thread has to see to that
        // end.
        if self.live_tasks() == 0 && self.has_threads() && !self.config.hooks.has_stop() {
            self.begin_shutdown();
            // This look takes the lock of `threads` after the phase was set, so a thread that is
            // counted here sees the phase when it goes. If the last one went between the two looks,
            // it did not, and no other thread would end the runtime.
            if !self.has_threads()
                && !self.in_the_background("end", |shared| shared.help_to_clear())
            {
                self.help_to_clear();
            }
            return;
        }
        let grace = self.config.shutdown_grace;
        if !self.in_the_background("end", move |shared| shared.see_to_the_end(grace, Joins::No)) {
            self.begin_shutdown();
            if !self.has_threads() {
                self.help_to_clear();
            }
        }
    }

    /// Where the clock is a driver's.
    fn end_at_once(self: &Arc<Self>, grace: Option<Duration>) {
        let first = self.begin_shutdown();
        match grace {
            Some(grace) => {
                self.help_to_clear();
                let begin = Instant::now();
                let left = || grace.checked_sub(begin.elapsed());
                let stay = self.resources_stay(grace);
                let stays = || {
                    stay.checked_sub(begin.elapsed())
                        .filter(|left| !left.is_zero())
                };
                if self.wait_for_the_end(stays) {
                    return;
                }
                if self.config.host.leaves_tasks() {
                    self.shut_down_resources();
                }
                if !self.wait_for_the_end(|| left().filter(|left| !left.is_zero())) {
                    self.report_left(grace);
                }
            }
            None => {
                let nobody = first && !self.has_threads();
                if nobody && !self.in_the_background("end", |shared| shared.help_to_clear()) {
                    self.help_to_clear();
                }
            }
        }
    }

    /// Whether there is no thread that could drop a future, and none can be had.
    fn has_no_thread(&self) -> bool {
        !self.has_threads() && self.threads.refused.load(Relaxed)
    }

    /// Runs `f` on a thread of its own, which is named for what it does. False if the system
    /// refuses that.
    pub(super) fn in_the_background(
        self: &Arc<Self>,
        what: &'static str,
        f: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> bool {
        let shared = self.clone();
        let builder = thread::Builder::new().name(format!("{}-{what}", self.config.name));
        let started = self.start(builder, move || f(&shared));
        if let Err(error) = &started {
            let advice = advice(THREAD, error);
            let words = Advised(error, advice);
            self.telling.reports.tell(
                || tracing::warn!(%error, advice, what, "no thread in the background"),
                format_args!("no thread in the background for {what:?}: {words}"),
            );
        }
        started.is_ok()
    }

    /// Marks the live tasks of a table but blocking calls as cancelled, and queues those that were
    /// idle.
    pub(super) fn abort_of(&self, scheduler: &SchedulerHandle) {
        let mut batch = Batch::new();
        scheduler.live().sweep(|task| {
            if task.header().blocks() {
                return;
            }
            let Some(task) = task.cancel() else {
                return;
            };
            if !task.header().is_plain() {
                return self.push_foreign(task);
            }
            batch.push(task);
            if batch.len() >= ABORTED_AT_ONCE {
                self.push_batch(std::mem::take(&mut batch));
            }
        });
        if !batch.is_empty() {
            self.push_batch(batch);
        }
    }

    /// What [`ShutdownEnv::clear_on_a_foreign_thread`] does for a runtime.
    pub(super) fn clear_with_a_worker(&self) {
        if let Some(processor) = self.take_processor() {
            let worker = Worker::new(self.strong(), processor, Scope::All, None);
            (self.config.above.as_worker)(&worker, &mut || worker.clear_away());
            worker.leave();
        } else {
            // All Ps are in `block_on`s, whose ends clear away.
            self.end.phase.set_swept();
        }
    }

    fn report_left(&self, grace: Duration) {
        let tasks = self.live_tasks();
        let threads = self.threads.counts.lock().count;
        // Without a grace the threads of an idle runtime end a little later, and nothing ran.
        if tasks == 0 && (threads == 0 || grace.is_zero()) {
            return;
        }
        let running: Vec<_> = self
            .peers()
            .map(|peer| peer.progress.running.load(Relaxed))
            .collect();
        let mut left = Vec::new();
        // Those that hold up their threads come first.
        for is_running in [true, false] {
            self.for_each_live(|task| {
                let header = task.header();
                if left.len() < REPORTED_MAX && running.contains(&header.address()) == is_running {
                    let subject = Subject {
                        id: header.id(),
                        name: header.name(),
                        location: header.location(),
                    };
                    left.push(subject.to_string());
                }
            });
        }
        let event = || {
            tracing::warn!(
                tasks,
                threads,
                ?left,
                "the runtime was shut down while tasks still ran; their threads drop them when they return"
            );
        };
        // Each below that line.
        let named: String = left.iter().map(|task| format!("\n  {task}")).collect();
        // It comes once, and must not be a line that is left out.
        self.telling.reports.tell_limited(
            event,
            format_args!(
                "the runtime was shut down while tasks still ran (tasks: {tasks}, threads: \
                 {threads}); their threads drop them when they return{named}"
            ),
        );
    }
}

impl Worker {
    /// What a thread does before it leaves its P: drops what is pinned to it, and, if the runtime
    /// closes, everything that it can reach.
    pub(crate) fn clear_away(&self) {
        let _barrier = ScopeBarrier::begin();
        event!(self, Leave, (), 0);
        self.clear_pinned();
        if !self.shared().end.phase.is_closing() {
            return;
        }
        self.shared().sweep(|task| self.dispose(task));
        loop {
            while let Some(task) = self.take_any() {
                self.dispose(task);
            }
            // A drop may have woken others, pinned ones among them. Those that are not pinned were
            // taken just now. Without this look each thread would walk over all queues once more.
            if !self.p.pinned.has_live() {
                break;
            }
            self.clear_pinned();
        }
    }

    /// The runtime drains, and this thread was asked to look at what it entered last.
    pub(super) fn drain(&self) {
        let peer = self.peer();
        peer.attention.fetch_and(!attention::DRAIN, Relaxed);
        self.shared()
            .drain_own(|| self.shared().abort_of(&peer.scheduler));
    }

    /// Drops a task's future, or sends it to the thread that may.
    pub(super) fn dispose(&self, task: Task) {
        if task.header().is_pinned() {
            if self.is_own_scheduler(task.header().scheduler()) {
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
        self.p.pinned.ends();
    }

    /// Drops all tasks that are pinned to this thread (I7). That needs no permit, and may take as
    /// long as their destructors take, so others have the permit meanwhile (S9).
    pub(crate) fn clear_pinned(&self) {
        if !self.p.pinned.has_live() {
            return;
        }
        self.found_work();
        self.begin_blocking();
        while self.p.pinned.has_live() {
            self.enter_user_code(|| self.cancel_reachable_pinned());
            // What is left is on its way into the inbox: its waker is between two instructions.
            if self.p.pinned.has_live() && !self.p.has_pinned() {
                thread::yield_now();
            }
        }
    }

    /// Drops those that are not running, or on their way into the inbox.
    pub(crate) fn cancel_reachable_pinned(&self) {
        while let Some(task) = self.p.pop_pinned() {
            self.cancel_pinned(task);
        }
        self.p.peer.scheduler.live().for_each(|task| {
            if task.header().is_pinned()
                && let Some(task) = task.cancel()
            {
                self.cancel_pinned(task);
            }
        });
    }

    /// Any task that is queued, on any P.
    fn take_any(&self) -> Option<Task> {
        let own = self.p.runnext.take().or_else(|| self.p.forks.pop());
        let own = own.or_else(|| self.p.lrq.pop());
        let own = own.or_else(|| self.p.priority_queues.pop());
        own.or_else(|| self.shared().pop_queued()).or_else(|| {
            self.shared()
                .peers()
                .filter(|peer| peer.index != self.peer().index && peer.has_some())
                .find_map(|peer| match peer.queues.lrq.steal_into(&self.p.lrq) {
                    Steal::Stolen { first, .. } => Some(first),
                    Steal::Empty | Steal::Busy => peer
                        .steal_next()
                        .or_else(|| peer.queues.parents.steal())
                        .or_else(|| self.steal_ordered_from(peer)),
                })
        })
    }
}
