//! *Measured polls*: how long polls take, and how long tasks wait for theirs.
//!
//! A reading of the clock costs 8 ns and a poll 20, so not every poll is measured: about one in 128
//! is, and each one at the recorder's level [`Full`](Level::Full). What a measured poll finds goes
//! into the task's account (`cell/account.rs`) and into the histograms of its P. At level
//! [`Off`](Level::Off) no poll is measured.
//!
//! - How many polls are between two measured ones changes from one to the next, so that the sample
//!   does not keep step with tasks that take turns. It is a function of the count of polls, and no
//!   random number: a run with a seed goes the same way, whatever is measured.
//! - A measured poll that leaves its task idle has the next wake timed: the waker writes the ticks
//!   into the account, and the next poll takes them out. A new task's first poll is not timed.
//! - A P has the count of polls from which on the next one is looked at, and that is all that a
//!   poll asks: the recorder's level is in it. A thread that sets the level to `Full` writes the
//!   level, and then a zero for each P. A P's thread writes a later count, and then reads the
//!   level. With a fence between the two on both sides, one of them sees the other, and so the
//!   zero is there. A new P begins with it.
//! - After a steal the next poll is looked at, too: for the time from the steal to that poll. It is
//!   no part of the sample, since that would be one of stolen tasks.

use std::cell::Cell;

use super::{Shared, Worker};
use crate::{
    cell::{Header, Outcome, Task},
    metrics::{Durations, Measured},
    recorder::Level,
    sync::atomic::{
        Ordering::{Relaxed, SeqCst},
        fence,
    },
};

/// Polls between two measured ones: this many at least, and up to twice as many more. Guessed: two
/// readings of the clock in 128 polls are an eighth of a nanosecond for each.
const AT_LEAST: u64 = 64;

/// The histograms of one P.
#[derive(Debug, Default)]
pub(crate) struct Times {
    pub(crate) polls: Measured,
    pub(crate) waits: Measured,
    pub(crate) steals: Measured,
}

impl Times {
    /// Adds all of a P's to those of the runtime.
    pub(super) fn add_to(&self, [polls, waits, steals]: &mut [Durations; 3]) {
        polls.add(&self.polls);
        waits.add(&self.waits);
        steals.add(&self.steals);
    }
}

/// What a worker keeps between two measured polls.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    /// The count of polls at the next one of the sample.
    next: Cell<u64>,
    /// The ticks of a steal, until the poll that follows.
    stole_at: Cell<Option<u64>>,
}

/// A poll that is looked at.
pub(super) struct Watched {
    id: u64,
    began: u64,
    /// It goes into the recording, too.
    is_recorded: bool,
    /// It is one of the sample.
    is_measured: bool,
    /// When it ended, once it is known.
    ended: Cell<Option<u64>>,
}

/// Who looks at a poll. A type each, so that a poll that nobody looks at is compiled without it.
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
            let ns = worker.span_ns(self.began, ended);
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
            let ns = worker.span_ns(self.began, ended);
            worker.p.peer.times.polls.add(ns);
            ended
        });
        if self.is_recorded {
            worker.note_end(self.id, outcome, ended);
        }
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

impl Sampling {
    /// A poll is looked at. Returns whether it is one of the sample, and when the next one is.
    fn take(&self, polls: u64) -> (bool, u64) {
        let is_of_sample = polls >= self.next.get();
        if is_of_sample {
            // The multiplicative hash by Knuth: neighbours go far apart.
            let more = polls.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57;
            self.next.set(polls + 1 + AT_LEAST + more);
        }
        (is_of_sample, self.next.get())
    }
}

impl Shared {
    /// All polls that begin from now on are looked at.
    pub(super) fn watch_all(&self) {
        // Ordering: SeqCst: the level is written before; see the module's head.
        fence(SeqCst);
        for peer in self.all_peers() {
            peer.watch_from.store(0, Relaxed);
        }
    }
}

impl Worker {
    /// A poll is about to begin that is looked at.
    pub(super) fn watch(&self, task: &Task) -> Watched {
        let p = &*self.p;
        let (is_of_sample, next) = p.sampling.take(p.peer.counters.polls.get());
        p.peer.watch_from.store(next, Relaxed);
        // Ordering: SeqCst: the level is read after; see the module's head.
        fence(SeqCst);
        let is_recorded = self.recorder().takes(Level::Full);
        if is_recorded {
            p.peer.watch_from.store(0, Relaxed);
        }
        let began = self.ticks();
        if let Some(stole_at) = p.sampling.stole_at.take() {
            p.peer.times.steals.add(self.span_ns(stole_at, began));
        }
        if is_recorded {
            self.note_begin(task, began);
        }
        Watched {
            id: task.header().id().as_u64(),
            began,
            is_recorded,
            is_measured: is_recorded || (is_of_sample && self.recorder().takes(Level::Sparse)),
            ended: Cell::new(None),
        }
    }

    /// A poll of the task begins that is on another P than the last one, or after a wake that was
    /// timed, or that is to be traced. Returns whether it is the last.
    pub(super) fn moves_here(&self, header: &Header) -> bool {
        let moved = header.account().moves_to(self.p.lane);
        if let Some(woken_at) = moved.woken_at {
            let ns = self.span_ns(woken_at, self.ticks());
            header.account().waited(ns);
            self.p.peer.times.waits.add(ns);
        }
        moved.is_traced
    }

    /// The thread has stolen, just now.
    pub(super) fn time_steal(&self) {
        if self.recorder().takes(Level::Sparse) {
            self.p.sampling.stole_at.set(Some(self.ticks()));
            self.peer().watch_from.store(0, Relaxed);
        }
    }

    fn ticks(&self) -> u64 {
        self.shared().ticks()
    }

    fn span_ns(&self, from: u64, to: u64) -> u64 {
        let clock = self.shared().time.clock();
        self.recorder().span_ns(clock, to.saturating_sub(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_poll_in_128_is_of_the_sample() {
        let sampling = Sampling::default();
        let polls = 0..128_000;
        let sample: Vec<_> = polls.filter(|&polls| sampling.take(polls).0).collect();
        assert!((900..1100).contains(&sample.len()), "{}", sample.len());
        let mut gaps = sample.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.all(|gap| (65..=192).contains(&gap)));
        // Two tasks that take turns both have their part.
        let odd = sample.iter().filter(|&poll| poll % 2 == 1).count();
        assert!((300..700).contains(&odd), "{odd}");
    }

    #[test]
    fn what_is_looked_at_in_between_leaves_the_sample_alone() {
        let (every, some) = (Sampling::default(), Sampling::default());
        let mut next = 0;
        for polls in 0..10_000 {
            let (is_of_sample, _) = every.take(polls);
            if polls >= next {
                let taken;
                (taken, next) = some.take(polls);
                assert!(taken && is_of_sample);
            } else {
                assert!(!is_of_sample);
            }
        }
    }
}
