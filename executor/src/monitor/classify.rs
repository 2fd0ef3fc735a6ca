//! What is to be done about a worker: a pure function of what a look sees of it, and of what the
//! looks before have seen.
//!
//! A worker whose ticks have moved since the last look has made progress. One that is in the same
//! poll as at the last look is in a long poll. (A look may fall between the tick and its poll: then
//! the next one is the first that sees the poll, and the CPU time at its begin.) The table of what
//! follows is in the head of `monitor.rs`. What follows is in the [`Verdict`]; `act.rs`
//! does it.
//!
//! A question of [`Ask`] costs, so it is asked last, and only if its answer matters.

use std::time::Duration;

use super::{
    detached::{Share, gives_way, new_mark},
    observe::{Ask, View},
};
use crate::{
    policy::{
        constants::{COMPUTES_NS, LOOK_NS, SLICE_NS},
        short_wait::{ShortWaits, Wait},
    },
    sched::{
        processor::attention,
        stall::{Measured, StallPhase, Stalling},
    },
};

/// What the monitor remembers of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) ticks: u64,
    /// It was in a poll at the last look.
    pub(super) polls: bool,
    /// When it was first seen in the poll at these ticks, or between two, in nanoseconds of the
    /// runtime's clock.
    pub(super) since: u64,
    /// Its thread's CPU time at the last look.
    pub(super) cpu: Option<u64>,
    pub(super) wait: Wait,
    pub(super) share: Share,
    pub(super) stall: Stalling,
    /// It was seen to be long.
    pub(super) long: bool,
}

impl Seen {
    /// At a look at `now`: if the clock went back, its spans begin anew there. Else it would have
    /// its slice, and would not be reported, until the clock has caught up.
    fn begins_at_most(&mut self, now: u64) {
        self.since = self.since.min(now);
        self.wait.begins_at_most(now);
        self.share.begins_at_most(now);
        self.stall.begins_at_most(now);
    }
}

/// What holds for all workers at a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// A thread asked for a permit.
    pub(super) needed: bool,
    /// This look has taken the permit of a computation that forks.
    pub(super) took: bool,
    /// Time after which a stall is reported, if any is.
    pub(super) threshold: Option<Duration>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Verdict {
    /// What its thread is to look up for: bits of [`attention`].
    pub(super) attention: u32,
    /// The next fork of its poll is to answer.
    pub(super) asks_fork: bool,
    /// Whether it is to be marked as one that computes.
    pub(super) computes: Option<bool>,
    /// A stall that was reported is over.
    pub(super) ended: Option<Measured>,
    /// A stall has begun, or goes on.
    pub(super) stall: Option<(StallPhase, Measured)>,
    /// What the recorder and the task's account are told of.
    pub(super) long: Option<Long>,
    pub(super) act: Act,
    pub(super) notes: Notes,
}

/// A poll of a millisecond or longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Long {
    /// This is the first look at which it is that; it was seen for so many nanoseconds.
    Begins(u64),
    /// The same, at a later look.
    GoesOn(u64),
    Ends,
}

/// What is taken from a worker, and given to others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Act {
    #[default]
    Nothing,
    /// What it left in `runnext` when its permit was taken.
    GiveNext,
    /// The child that its poll forked.
    GiveChild,
    /// Nothing, but a thread is woken that steals what is in `runnext`.
    WakeForNext,
    /// Its permit. Whether it is in a computation that forks.
    Revoke { forks: bool },
}

/// What the look is to remember for its end, and for the pace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Notes {
    /// Something is under way that is not over with this look.
    pub(super) watchful: bool,
    /// A poll has begun. Its thread has the last permit, and waits for something other than a core.
    pub(super) doubts: bool,
    /// The poll may have to be reported.
    pub(super) watches: bool,
}

/// See the module's head.
pub(super) fn classify(
    view: &View,
    round: &Round,
    seen: &mut Seen,
    waits: &mut ShortWaits,
    ask: &impl Ask,
) -> Verdict {
    // It put that there between its look at the permit and the revocation: no other thread looks.
    if view.is_stuck() && (ask.has_next() || ask.has_child()) {
        return Verdict {
            act: Act::GiveNext,
            ..Verdict::default()
        };
    }
    let mut verdict = if view.is_in_a_poll() && seen.polls && view.ticks == seen.ticks {
        goes_on(view, round, seen, waits, ask)
    } else {
        moved_on(view, round, seen, waits, ask)
    };
    verdict.notes.watchful |= view.is_stuck() && !view.announced;
    verdict
}

/// It has made progress, or is in no poll.
fn moved_on(
    view: &View,
    round: &Round,
    seen: &mut Seen,
    waits: &mut ShortWaits,
    ask: &impl Ask,
) -> Verdict {
    let polls = view.is_in_a_poll();
    let runs = polls && view.is_running();
    waits.end(&mut seen.wait);
    let reported = seen.stall.is_reported();
    let was_long = seen.long;
    // It came back from an announced block without a permit, and has been marked there.
    let came_back = view.is_stuck() && view.ticks == seen.ticks;
    let cpu = (polls || reported).then(|| ask.cpu_time()).flatten();
    // A thread that has gone has no clock any more.
    let ended = seen.stall.ended(view.now, cpu.or(seen.cpu));
    let cpu = cpu.filter(|_| polls);
    *seen = Seen {
        ticks: view.ticks,
        polls,
        since: view.now,
        cpu,
        wait: Wait::begin(view.now),
        share: Share::begin(view.now, cpu),
        stall: Stalling::begin(view.now, cpu, ask.came_by()),
        long: false,
    };
    // Last, since it costs most: a thread that this one has put off its core is runnable.
    let doubts = runs
        && ask.is_off_core(cpu)
        && !view.spare
        && ask.others_need_a_permit(false)
        && ask.is_waiting() == Some(true);
    Verdict {
        computes: (!came_back).then_some(false),
        ended,
        long: was_long.then_some(Long::Ends),
        notes: Notes {
            doubts,
            watches: polls && round.threshold.is_some(),
            ..Notes::default()
        },
        ..Verdict::default()
    }
}

/// It is in the same poll as at the last look.
fn goes_on(
    view: &View,
    round: &Round,
    seen: &mut Seen,
    waits: &mut ShortWaits,
    ask: &impl Ask,
) -> Verdict {
    let now = view.now;
    seen.begins_at_most(now);
    let cpu = ask.cpu_time();
    let ran = cpu
        .zip(seen.cpu)
        .map(|(now, then)| now.saturating_sub(then));
    let stood_still = ran == Some(0);
    seen.cpu = cpu;
    let computes = seen.share.computes(now, cpu);
    waits.look(&mut seen.wait, seen.since, now, stood_still);
    let threshold = round.threshold;
    let ended = threshold.and_then(|_| seen.stall.came_by(ask.came_by(), now, cpu));
    let stall = seen.stall.due(threshold, now, cpu);
    let watches = threshold.is_some() && seen.stall.is_open() && stall.is_none();
    let known = computes.filter(|_| view.is_stuck());
    let mark = known.and_then(|computes| new_mark(computes, cpu, ask));
    let asks = asks_why(view, seen, stall.is_some(), stood_still, ask);
    let waiting = asks.then(|| ask.is_waiting()).flatten();
    seen.stall.note_wait(waiting);
    let blocked = waiting == Some(true) && stood_still;
    let is_slow = blocked || ran.is_none_or(|ran| ran >= COMPUTES_NS);
    let act = what_to_take(view, round, seen, waits, blocked, ask);
    let revoked = matches!(act, Act::Revoke { .. });
    let lasted = now.saturating_sub(seen.since);
    let long = match (seen.long, lasted >= LOOK_NS) {
        (true, _) => Some(Long::GoesOn(lasted)),
        (false, true) => Some(Long::Begins(lasted)),
        (false, false) => None,
    };
    seen.long = long.is_some();
    Verdict {
        attention: if lasted >= SLICE_NS {
            attention::SLICE
        } else {
            0
        },
        asks_fork: threshold.is_some(),
        computes: if revoked { Some(!blocked) } else { mark },
        ended,
        // Measured once more: it was seen just now whether the thread waits.
        stall: stall.map(|phase| (phase, seen.stall.measure(now, cpu))),
        long,
        act,
        notes: Notes {
            watchful: is_slow && !view.spare,
            doubts: false,
            watches,
        },
    }
}

/// Whether the system is to say why its thread stands still.
fn asks_why(view: &View, seen: &Seen, stalls: bool, stood_still: bool, ask: &impl Ask) -> bool {
    // For a report, it also matters what a thread does that moves between looks.
    if stalls && seen.stall.is_unexplained() {
        return true;
    }
    // Beside a free permit only for a child.
    let matters = || !view.spare || ask.has_child();
    view.is_running() && stood_still && matters()
}

/// What others get of a worker in a long poll, whose thread is `blocked` or computes.
fn what_to_take(
    view: &View,
    round: &Round,
    seen: &mut Seen,
    waits: &mut ShortWaits,
    blocked: bool,
    ask: &impl Ask,
) -> Act {
    if !view.is_running() {
        return Act::Nothing;
    }
    let lasted = view.now.saturating_sub(seen.since);
    let had_its_slice = lasted >= SLICE_NS;
    let holds_up = blocked || had_its_slice;
    if holds_up && ask.has_child() {
        return Act::GiveChild;
    }
    if view.spare {
        return if ask.has_next() {
            Act::WakeForNext
        } else {
            Act::Nothing
        };
    }
    let forks = !blocked && ask.forks();
    let needed = round.needed;
    let wanted = (holds_up && (needed || ask.others_need_a_permit(blocked)))
        || (forks && gives_way(lasted, ask) && (needed || ask.tasks_need_a_permit()));
    if !wanted || (forks && round.took) {
        return Act::Nothing;
    }
    if blocked && !had_its_slice && waits.is_granted(&mut seen.wait, seen.since, view.now) {
        return Act::Nothing;
    }
    // Before, it may have waited for a permit.
    seen.share = Share::begin(view.now, seen.cpu);
    Act::Revoke { forks }
}

#[cfg(test)]
mod tests;
