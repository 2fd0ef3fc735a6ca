//! *Measured polls*: how long polls take, and how long tasks wait for theirs.
//!
//! A reading of the clock costs 8 ns and a poll 20, so not every poll is measured: about one in 128
//! is, and each one at the recorder's level [`Full`](Level::Full). What a measured poll finds goes
//! into the task's account (`cell/account.rs`) and into the histograms of its P. At level
//! [`Off`](Level::Off) no poll is measured.
//!
//! - The sample is taken by the steps of the worker, which has what is due at a step anyway
//!   (`find.rs`). The poll that comes next is measured. How many steps are between two of them
//!   changes from one to the next, so that the sample does not keep step with tasks that take
//!   turns. It is a function of the count of steps, and no random number: a run with a seed goes
//!   the same way, whatever is measured.
//! - A measured poll that leaves its task idle has the next wake timed: the waker writes the ticks
//!   into the account, and the next poll takes them out. A new task's first poll is not timed.
//! - A poll compares the lane of its P with that of its task, to see whether the task has moved.
//!   A bit in the lane of the P makes them differ: then the next poll is looked at. That comparison
//!   is all that a poll pays. A thread that sets the level to `Full` writes the level, and then the
//!   bit of each P. A P's thread clears the bit, and then reads the level. With a fence between the
//!   two on both sides, one of them sees the other, and so the bit is there. A new P begins with
//!   it.
//! - What a poll announces as a block ([`block_in_place`](crate::block_in_place)) is no part of it.
//! - After one steal in eight the next poll is looked at, too: for the time from the steal to that
//!   poll. If a branch was stolen, that time ends where the branch begins. This is no part of the
//!   sample, since that would be one of stolen tasks.

use std::cell::Cell;

use super::{Shared, Worker};
use crate::{
    cell::{Header, Outcome, Task},
    policy::tick::{Tick, steal_is_timed},
    recorder::Level,
    sync::atomic::{Ordering::SeqCst, fence},
};

/// A block that was announced in a poll. Others may be within it, in polls that nest.
pub(crate) struct Block {
    began: u64,
    blocked: u64,
}

/// A poll that is looked at.
pub(super) struct Watched {
    id: u64,
    began: u64,
    /// `Sampling::blocked` at that time.
    blocked: u64,
    /// It goes into the recording, too.
    is_recorded: bool,
    /// It is one of the sample.
    is_measured: bool,
    /// When it ended, once it is known.
    ended: Cell<Option<u64>>,
}

/// What looks at a poll. A type each, so that a poll that nobody looks at is compiled without it.
pub(super) trait Watch {
    /// Runs the task.
    #[inline(always)]
    fn run(
        &self,
        task: Task,
        now_ms: impl FnOnce() -> u32,
        polled: impl FnOnce(&Header) -> bool,
    ) -> Outcome {
        task.run::<false>(now_ms, polled)
    }

    /// The poll has left the task without an output, and is not settled yet.
    fn poll_ended(&self, worker: &Worker, header: &Header);
    /// The poll is over, and what became of it is this.
    fn poll_is_over(&self, worker: &Worker, outcome: &Outcome);
}

/// Nobody looks at the poll.
pub(super) struct Unwatched;

impl Watch for Unwatched {
    #[inline(always)]
    fn poll_ended(&self, _worker: &Worker, _header: &Header) {}

    #[inline(always)]
    fn poll_is_over(&self, _worker: &Worker, _outcome: &Outcome) {}
}

impl Watch for Watched {
    fn poll_ended(&self, worker: &Worker, header: &Header) {
        if self.is_measured {
            let ended = worker.ticks();
            let ns = self.lasted_ns(worker, ended);
            header.account().polled(ns);
            worker.p.peer.times.polls.add(ns);
            self.ended.set(Some(ended));
        }
    }

    fn poll_is_over(&self, worker: &Worker, outcome: &Outcome) {
        if !self.is_measured {
            return;
        }
        // The task is done, and its account has gone with it.
        let ended = self.ended.get().unwrap_or_else(|| {
            let ended = worker.ticks();
            let ns = self.lasted_ns(worker, ended);
            worker.p.peer.times.polls.add(ns);
            ended
        });
        if self.is_recorded {
            worker.note_end(self.id, outcome, ended);
        }
    }
}

impl Watched {
    /// How long the poll lasted, without its announced blocks.
    fn lasted_ns(&self, worker: &Worker, ended: u64) -> u64 {
        let blocked = worker.p.sampling.blocked.get() - self.blocked;
        worker.span_ns(self.began + blocked, ended)
    }
}

/// The poll is traced as well: see `cell/traced.rs`.
pub(super) struct Traced(pub(super) Watched);

impl Watch for Traced {
    fn run(
        &self,
        task: Task,
        now_ms: impl FnOnce() -> u32,
        polled: impl FnOnce(&Header) -> bool,
    ) -> Outcome {
        task.run::<true>(now_ms, polled)
    }

    fn poll_ended(&self, worker: &Worker, header: &Header) {
        self.0.poll_ended(worker, header);
    }

    fn poll_is_over(&self, worker: &Worker, outcome: &Outcome) {
        self.0.poll_is_over(worker, outcome);
    }
}

impl Shared {
    /// All polls that begin from now on are looked at.
    pub(super) fn watch_all(&self) {
        // Ordering: SeqCst: the level is written before; see the module's head.
        fence(SeqCst);
        for peer in self.all_peers() {
            peer.progress.lane.look_at_next(true);
        }
    }
}

impl Worker {
    /// A step begins at which something is due. Returns the next one for the sample.
    pub(super) fn choose_sample(&self, tick: Tick) -> u64 {
        let sampling = &self.p.sampling;
        if tick.0 >= sampling.next.get() {
            sampling.next.set(tick.next_sample());
            sampling.is_chosen.set(true);
            self.peer().progress.lane.look_at_next(true);
        }
        sampling.next.get()
    }

    /// A poll is about to begin that is looked at.
    pub(super) fn watch(&self, task: &Task) -> Watched {
        let p = &*self.p;
        let is_of_sample = p.sampling.is_chosen.take();
        p.peer.progress.lane.look_at_next(false);
        // Ordering: SeqCst: the level is read after; see the module's head.
        fence(SeqCst);
        let is_recorded = self.recorder().takes(Level::Full);
        if is_recorded {
            p.peer.progress.lane.look_at_next(true);
        }
        let began = self.ticks();
        self.end_steal(|| began);
        if is_recorded {
            self.note_begin(task, began);
        }
        Watched {
            id: task.header().id().as_u64(),
            began,
            blocked: p.sampling.blocked.get(),
            is_recorded,
            is_measured: is_recorded || (is_of_sample && self.recorder().takes(Level::Sparse)),
            ended: Cell::new(None),
        }
    }

    /// A poll of the task begins that is on another P than the last one, or after a wake that was
    /// timed, or that is to be looked at or traced. Returns whether it is to be traced.
    pub(super) fn moves_here(&self, header: &Header) -> bool {
        let moved = header.account().moves_to(self.peer().progress.lane.get());
        if let Some(woken_at) = moved.woken_at {
            let ns = self.span_ns(woken_at, self.ticks());
            header.account().waited(ns);
            self.p.peer.times.waits.add(ns);
        }
        moved.is_traced
    }

    /// The thread has stolen, just now, and as often altogether.
    pub(super) fn time_steal(&self, steals: u64) {
        if steal_is_timed(steals) && self.recorder().takes(Level::Sparse) {
            self.p.sampling.stole_at.set(Some(self.ticks()));
            self.peer().progress.lane.look_at_next(true);
        }
    }

    /// A block was announced.
    pub(crate) fn block_begins(&self) -> Block {
        Block {
            began: self.ticks(),
            blocked: self.p.sampling.blocked.get(),
        }
    }

    /// It is over. What was within it is a part of it.
    pub(crate) fn block_is_over(&self, Block { began, blocked }: Block) {
        let lasted = self.ticks().saturating_sub(began);
        self.p.sampling.blocked.set(blocked + lasted);
    }

    /// What the thread has stolen last runs from now on.
    pub(super) fn end_steal(&self, now: impl FnOnce() -> u64) {
        if let Some(stole_at) = self.p.sampling.stole_at.take() {
            let times = &self.p.peer.times;
            times.steals.add(self.span_ns(stole_at, now()));
        }
    }

    /// What the thread has stolen last will not run here, or not soon.
    pub(super) fn forget_steal(&self) {
        self.p.sampling.stole_at.set(None);
    }

    pub(super) fn ticks(&self) -> u64 {
        self.shared().ticks()
    }

    fn span_ns(&self, from: u64, to: u64) -> u64 {
        let clock = self.shared().time.clock();
        self.recorder().span_ns(clock, to.saturating_sub(from))
    }
}
