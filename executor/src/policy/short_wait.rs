//! *A short wait*: how long a thread that blocks keeps its permit.
//!
//! A thread that blocks has its core free, so the thread that gets its permit loses nothing. But if
//! it only waits for a lock that another thread of the runtime holds, it is back in some 100 us.
//! From then on there is one thread more than cores. They take turns on them, and the holder of
//! that lock may lose its core. So if such waits were mostly shorter lately (`backoff.rs`), a
//! thread that blocks keeps its permit for 1 ms, and the monitor rests for no longer than is left
//! of that.
//!
//! - If tasks block for longer, that is tried again once in 1,024 times, for all that block just
//!   then.
//! - A wait for a lock and one for anything else are the same to the system, a futex. So they are
//!   the same to the monitor.
//! - A wait counts from the last look that saw the thread's CPU time move.
//! - A thread that has had its slice loses its permit at once.
//!
//! What was measured and what was rejected: `docs/decisions/2026-11-24-monitor.md`.

use std::time::Duration;

use super::{
    Backoff, Heuristic,
    constants::{SHORT_WAIT_NS, SHORT_WAITS, SLICE_NS},
};

/// What is remembered of a worker whose thread may be blocked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Wait {
    /// Since when its CPU time has not moved, by the looks.
    since: u64,
    short_wait: ShortWait,
}

/// Whether a thread that blocks keeps its permit although others need it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum ShortWait {
    /// That was no question yet.
    #[default]
    Open,
    Granted,
    /// It was in vain too often, or it was in vain.
    Denied,
}

impl Wait {
    pub(crate) fn begin(now: u64) -> Self {
        Self {
            since: now,
            short_wait: ShortWait::Open,
        }
    }

    /// At a look at `now`: if the clock went back behind its begin, it begins anew there.
    pub(crate) fn begins_at_most(&mut self, now: u64) {
        self.since = self.since.min(now);
    }

    /// After a sleep of the monitor: what came of it is not known.
    pub(crate) fn forget(&mut self) {
        self.short_wait = ShortWait::Open;
    }
}

/// What the monitor remembers of such waits.
pub(crate) struct ShortWaits {
    pay: Backoff,
    /// The last look saw a thread that may wait on: for how long, in nanoseconds.
    left: Option<u64>,
}

impl ShortWaits {
    pub(crate) fn new() -> Self {
        Self {
            pay: Backoff::new(SHORT_WAITS),
            left: None,
        }
    }

    /// Time until the first wait is too long, as the last look saw it.
    pub(crate) fn take_left(&mut self) -> Option<Duration> {
        self.left.take().map(Duration::from_nanos)
    }

    /// Its thread goes on, or is in no poll, or in another one.
    pub(crate) fn end(&self, wait: &mut Wait) {
        if wait.short_wait == ShortWait::Granted {
            self.pay.settle(true);
        }
        wait.short_wait = ShortWait::Open;
    }

    /// At a look at a poll that was first seen at `began`: its thread has stood still since the
    /// last look, or not.
    pub(crate) fn look(&self, wait: &mut Wait, began: u64, now: u64, stood_still: bool) {
        if !stood_still {
            self.end(wait);
            wait.since = now;
        }
        let too_long = now.saturating_sub(wait.since) >= SHORT_WAIT_NS
            || now.saturating_sub(began) >= SLICE_NS;
        if wait.short_wait == ShortWait::Granted && too_long {
            self.pay.settle(false);
            wait.short_wait = ShortWait::Denied;
        }
    }

    /// Whether its thread, which is blocked and has not had its slice, keeps its permit although
    /// others need it.
    pub(crate) fn is_granted(&mut self, wait: &mut Wait, began: u64, now: u64) -> bool {
        let waited = now.saturating_sub(wait.since);
        if wait.short_wait == ShortWait::Open {
            let granted =
                Heuristic::ShortWait.is_on() && waited < SHORT_WAIT_NS && self.pay.is_due();
            wait.short_wait = if granted {
                ShortWait::Granted
            } else {
                ShortWait::Denied
            };
        }
        let granted = wait.short_wait == ShortWait::Granted;
        if granted {
            let slice = SLICE_NS.saturating_sub(now.saturating_sub(began));
            let left = SHORT_WAIT_NS.saturating_sub(waited).min(slice);
            self.left = Some(self.left.map_or(left, |others| others.min(left)));
        }
        granted
    }
}
