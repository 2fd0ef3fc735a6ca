//! How a worker polls a task.

use super::{
    Worker,
    measure::{Traced, Unwatched, Watch, Watched},
};
use crate::{
    budget,
    cell::{Header, Outcome, Task, traced},
    permit::sleep::Sleeper,
    sync::atomic::Ordering::Relaxed,
};

impl Worker {
    /// Polls a task, and puts it where it belongs.
    pub(crate) fn poll(&self, task: Task) {
        let is_as_before = task
            .header()
            .account()
            .begins_poll(self.peer().progress.lane.get());
        if is_as_before {
            self.poll_as(task, Unwatched);
        } else if let Some(task) = self.poll_and_watch(task) {
            self.poll_as(task, Unwatched);
        }
    }

    /// Polls the task if the poll is looked at. Otherwise the task comes back.
    #[cold]
    #[inline(never)]
    fn poll_and_watch(&self, task: Task) -> Option<Task> {
        let is_looked_at = self.peer().progress.lane.get().is_looked_at();
        let is_traced = self.moves_here(task.header());
        if is_traced {
            let watched = self.watch(&task);
            self.poll_and_trace(task, watched);
        } else if is_looked_at {
            let watched = self.watch(&task);
            self.poll_as(task, watched);
        } else {
            return Some(task);
        }
        None
    }

    #[cold]
    #[inline(never)]
    fn poll_and_trace(&self, task: Task, watched: Watched) {
        let id = task.header().id();
        let ((), places) = traced::collect(|| self.poll_as(task, Traced(watched)));
        self.shared.telling.traces.answer(id, places);
    }

    /// Compiled for each way in which a poll is looked at, or is not.
    #[inline(always)]
    fn poll_as<W: Watch>(&self, task: Task, watch: W) {
        self.found_work();
        let p = &*self.p;
        p.peer.counters.polls.add(1);
        p.peer
            .progress
            .running
            .store(task.header().address(), Relaxed);
        p.poll.id.set(task.header().id().as_u64());
        let (pinned, may_fork) = task.header().ways();
        let carried = pinned && task.header().is_carried();
        let address = Some(task.address());
        p.poll.may_fork.set(if may_fork { address } else { None });
        let polled = |header: &Header| {
            watch.poll_ended(self, header);
            p.poll.goes_on.get() == address
        };
        let outcome = budget::with_budget(|| {
            watch.run(task, || p.peer.progress.now_ms.load(Relaxed), polled)
        });
        p.poll.may_fork.set(None);
        // Also if the poll ended its task. That of a task below this one stays: that is in the
        // middle of its poll.
        if p.poll.goes_on.get() == address {
            p.poll.goes_on.set(None);
        }
        p.peer.progress.running.store(0, Relaxed);
        // Before another thread may poll it.
        watch.poll_is_over(self, &outcome);
        let outcome = if !p.forks.has_child() {
            outcome
        } else {
            match self.forked(outcome) {
                Some(outcome) => outcome,
                None => return,
            }
        };
        // Also if it was aborted meanwhile: the next one that is polled may be pinned.
        let passes_on = p.poll.passes_on.take();
        match outcome {
            Outcome::Idle => {}
            Outcome::Requeue(call) if passes_on => self.pass_on(call),
            // Asked anew: its priority may have changed meanwhile.
            Outcome::Requeue(task) if task.header().is_plain() => self.push_again(task),
            Outcome::Requeue(task) => self.requeue_special(task),
            Outcome::Done(ended) => {
                // Its carrier is counted.
                if !carried {
                    p.peer.counters.completed.add(1);
                }
                self.completed(pinned, ended);
            }
        }
    }

    /// The poll has forked a child: its task becomes the parent that thieves may take, and the
    /// child is next. The outcome comes back if there is no such parent: the poll ended its task,
    /// or the fork was awaited by something else that has yet to wake it.
    ///
    /// Another thread may have taken the child, or takes it now. The parent waits on the fork deque
    /// even then.
    fn forked(&self, outcome: Outcome) -> Option<Outcome> {
        match outcome {
            Outcome::Requeue(parent)
                if parent.header().ways().1 && self.peer().state.has_permit() =>
            {
                self.push_parent(parent);
                None
            }
            outcome => {
                if let Some(child) = self.p.forks.take_child() {
                    self.push_next(child);
                }
                Some(outcome)
            }
        }
    }
}
