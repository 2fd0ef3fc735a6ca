//! *A short wait*: how long a thread that blocks keeps its permit.
//!
//! A thread that blocks has its core free, so the thread that gets its permit loses nothing. But if
//! it only waits for a lock that another of our threads holds, it is back in some 100 us, and then
//! there is one thread more than cores. They take turns on them from then on, and the holder of
//! that lock may lose its core. So if such waits were mostly shorter lately (`worth.rs`), it keeps
//! its permit for 1 ms, and sysmon lies down for no longer than is left of that. Where tasks block
//! for long that is tried again once in 1,024 times, for all that block just then. A wait for a
//! lock and one for anything else are the same to the system, a futex, so they are the same to
//! sysmon. A wait counts from the last look that saw the thread's CPU time move. A thread that has
//! had its slice is not waited for. A QUIC connection that echoes 16 MiB took 0.95 and 1.02 of
//! tokio's time with this in two runs, and 1.27 and 1.17 without.
//!
//! Rejected: to keep it while another thread of ours computes, if it waits for a futex by
//! `/proc/self/task/*/syscall`: that is up to a slice, beside tasks that could run. And to have one
//! thread more than there are permits stay out of the netpoll: the same transfer took longer.

use std::time::Duration;

use super::{SLICE_NS, Seen};
use crate::sched::worth::Worth;

/// How long a thread that blocks keeps its permit, if such waits are mostly shorter.
pub(super) const SHORT_WAIT_NS: u64 = 1_000_000;
/// At most `TRUST` longer waits in a row before it is tried less often; then at most `MAX` in a row
/// are let pass. The second is guessed; with 64 ticks beside blocked threads came 375 us late
/// instead of 229 (p99), for one in 64 of these was waited for.
const TRUST: u32 = 1;
const MAX: u32 = 1024;

/// Whether a thread that blocks is waited for although others need its permit.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Patience {
    /// That was no question yet.
    #[default]
    Open,
    Granted,
    /// It was in vain too often, or it was in vain.
    Denied,
}

/// What sysmon remembers of such waits.
pub(super) struct ShortWaits {
    pay: Worth,
    /// The last look saw a thread for which it still has patience: for how long, in nanoseconds.
    left: Option<u64>,
}

impl ShortWaits {
    pub(super) fn new() -> Self {
        Self {
            pay: Worth::new(TRUST, MAX),
            left: None,
        }
    }

    /// How long it is before the first wait is too long, as the last look saw it.
    pub(super) fn take_left(&mut self) -> Option<Duration> {
        self.left.take().map(Duration::from_nanos)
    }

    /// Its thread goes on, or is in no poll, or in another one.
    pub(super) fn end(&self, seen: &mut Seen) {
        if seen.patience == Patience::Granted {
            self.pay.settle(true);
        }
        seen.patience = Patience::Open;
    }

    /// Its thread may be blocked: no more patience if that was too long.
    pub(super) fn give_up_if_long(&self, seen: &mut Seen, now: u64) {
        let too_long = now - seen.still_since >= SHORT_WAIT_NS || now - seen.since >= SLICE_NS;
        if seen.patience == Patience::Granted && too_long {
            self.pay.settle(false);
            seen.patience = Patience::Denied;
        }
    }

    /// Whether its thread, which is blocked and has not had its slice, keeps its permit although
    /// others need it.
    pub(super) fn is_granted(&mut self, seen: &mut Seen, now: u64) -> bool {
        let still_for = now - seen.still_since;
        if seen.patience == Patience::Open {
            let patient = still_for < SHORT_WAIT_NS && self.pay.is_due();
            seen.patience = if patient {
                Patience::Granted
            } else {
                Patience::Denied
            };
        }
        let patient = seen.patience == Patience::Granted;
        if patient {
            let slice = SLICE_NS - (now - seen.since);
            let left = (SHORT_WAIT_NS - still_for).min(slice);
            self.left = Some(self.left.map_or(left, |others| others.min(left)));
        }
        patient
    }
}
