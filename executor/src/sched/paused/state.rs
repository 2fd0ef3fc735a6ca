//! What a runtime has whose time is virtual.

use std::{task::Waker, thread::ThreadId, time::Duration};

use slab::Slab;

use crate::{rng::Rng, sched::Root, sync::Mutex, timer::NEVER};

pub(super) type SharedRoot = std::sync::Arc<Root>;

/// What a runtime has whose time is virtual.
#[derive(Debug)]
pub(crate) struct Paused {
    pub(super) state: Mutex<State>,
    pub(super) rng: Mutex<Rng>,
    pub(super) deadlock_after: Duration,
    /// *The shuffle*. Without it, tasks run in the order of the queues.
    pub(super) shuffles: bool,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Threads that are awake.
    pub(super) awake: usize,
    /// How often a thread has woken up.
    pub(super) wake_ups: u64,
    /// Guards that are out.
    pub(super) holds: usize,
    /// Calls that let time pass nevertheless.
    pub(super) advances: Slab<Advance>,
    /// Futures that a thread waits for, in `run` or in `block_on`. Those of one thread in their
    /// order: the last one has to be done first.
    pub(super) roots: Vec<(ThreadId, SharedRoot)>,
    /// The verdict was given.
    pub(super) stuck: bool,
}

/// See *An advance*.
#[derive(Debug)]
pub(super) struct Advance {
    pub(super) until: u64,
    /// None: the clock is there, and all was quiet.
    pub(super) waker: Option<Waker>,
}

impl State {
    pub(super) fn waiting_advances(&mut self) -> impl Iterator<Item = (usize, &mut Advance)> {
        let advances = self.advances.iter_mut();
        advances.filter(|(_, advance)| advance.waker.is_some())
    }
}

impl Paused {
    pub(in crate::sched) fn new(seed: u64, deadlock_after: Duration, shuffles: bool) -> Self {
        Self {
            state: Mutex::default(),
            rng: Mutex::new(Rng::new(seed, 0)),
            deadlock_after,
            shuffles,
        }
    }

    pub(in crate::sched) fn shuffles(&self) -> bool {
        self.shuffles
    }

    /// A thread begins to work, or goes on.
    pub(in crate::sched) fn wake_up(&self) {
        let mut state = self.state.lock();
        state.awake += 1;
        state.wake_ups += 1;
    }

    /// Whether this holds while no thread is awake: from the begin of `holds` to its end.
    pub(super) fn holds_in_sleep(&self, holds: impl FnOnce() -> bool) -> bool {
        let before = self.state.lock().wake_ups;
        holds() && {
            let state = self.state.lock();
            state.awake == 0 && state.wake_ups == before
        }
    }

    /// A thread sleeps, or is gone. True if it was the last.
    pub(super) fn fall_asleep(&self) -> bool {
        let mut state = self.state.lock();
        state.awake -= 1;
        state.awake == 0
    }

    pub(super) fn has_roots(&self) -> bool {
        !self.state.lock().roots.is_empty()
    }

    /// Whether a root was woken that its thread can poll next.
    pub(super) fn any_root_notified(&self) -> bool {
        let state = self.state.lock();
        let is_uppermost = |at: usize| {
            let (thread, _) = state.roots[at];
            state.roots[at + 1..].iter().all(|(it, _)| *it != thread)
        };
        let mut roots = state.roots.iter().enumerate();
        roots.any(|(at, (_, root))| root.is_notified() && is_uppermost(at))
    }

    /// Whether the clock may be moved to `deadline`.
    pub(super) fn may_pass(&self, deadline: u64) -> bool {
        let mut state = self.state.lock();
        !state.roots.is_empty()
            && (state.holds == 0
                || state
                    .waiting_advances()
                    .any(|(_, advance)| deadline <= advance.until))
    }

    /// The earliest moment that an advance waits for.
    pub(super) fn next_advance(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if state.roots.is_empty() {
            return None;
        }
        let next = state
            .waiting_advances()
            .map(|(_, advance)| advance.until)
            .min();
        next.filter(|next| *next != NEVER)
    }

    /// The clock is at `now`, and all is quiet: takes the wakers of the advances that waited for
    /// that.
    pub(super) fn end_advances(&self, now: u64, ready: &mut Vec<Waker>) {
        let mut state = self.state.lock();
        let ended = state
            .advances
            .iter_mut()
            .filter(|(_, advance)| advance.until <= now);
        ready.extend(ended.filter_map(|(_, advance)| advance.waker.take()));
    }

    /// Whether a root waits, and no guard holds the clock.
    pub(super) fn may_judge(&self) -> bool {
        let state = self.state.lock();
        !state.roots.is_empty() && state.holds == 0 && !state.stuck
    }

    pub(super) fn draw(&self, below: usize) -> usize {
        self.rng.lock().below(below)
    }
}
