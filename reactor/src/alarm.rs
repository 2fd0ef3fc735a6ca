//! Until when the poller sleeps, and how others bring that forward.
//!
//! # What it is for
//!
//! A thread waits in the poller until the next timer of the runtime. Meanwhile other threads arm
//! timers, thousands a second. Nearly all of them are later than the one that is waited for, or no
//! thread waits. Those must pay a fence and a load. The few that are earlier must not pay for
//! waking a thread that would only look and go back to sleep: they set the timer in the poll
//! themselves.
//!
//! # The word
//!
//! `sleep_until` holds nanoseconds since the timer's origin:
//!
//! | value | the poller | [`Alarm::arm`] with deadline `d` |
//! | --- | --- | --- |
//! | [`AWAKE`], zero | does not wait, and will look at all timers before it does | [`Arm::Unheard`]: the scheduler knows whether a thread will wait |
//! | a time | waits, or is about to, until then | nothing if `d` is no earlier, else brings it forward |
//! | [`NEVER`] | waits, or is about to, without a deadline yet | brings it forward |
//!
//! Every deadline is at least 1, so that "is it later than what the poller knows?" is one
//! comparison for all three rows.
//!
//! # Why no timer is slept through
//!
//! The two sides meet at a store-load race, each with a sequentially consistent fence:
//!
//! - arming: the timer goes into its heap (and the heap's first deadline is published), *fence*,
//!   load `sleep_until`;
//! - waiting: store `NEVER` to `sleep_until`, *fence* (this is [`Alarm::prepare`]), then the caller
//!   looks at all heaps once more and passes on what it found ([`Alarm::aim`]).
//!
//! One of the fences comes first in the order of all fences. If it is the armer's, the poller's
//! look at the heaps sees the timer. If it is the poller's, the armer's load sees that a thread
//! waits, and it brings the word forward. Both may happen, which does no harm: `aim` takes the
//! earlier of the two.
//!
//! # The timer is never set too late, and often too early
//!
//! Invariant, under the lock of `set_to`, while the poller waits: **the timer is set, and not later
//! than `sleep_until`**, unless that is `NEVER`. The reverse does not hold. A deadline that has
//! moved away (mostly a timeout that was cancelled) leaves the timer as it is. The poller then
//! wakes once for nothing, sets it right and sleeps on, instead of a system call on every wait. So
//! a server whose requests each carry a timeout of seconds makes that call once in seconds.
//!
//! Once the timer's event has been fetched, the setting is used up, and `set_to` says so. If a
//! thread has set it anew in that very moment, it is set twice; to decide by the clock instead
//! would trust two readings of it with a lost timer.
//!
//! # Never early
//!
//! [`Alarm::is_due`] says yes only when the clock has reached the deadline, and the timer counts by
//! the same clock (see `sys.rs`). Checked by `tests/netpoll/timer_is_never_early.rs`; what comes
//! before, by `models::alarm`.
//!
//! Where there is no timerfd, the poller has a timeout of its own, rounded up to what the system's
//! poll counts in, and bringing it forward means to wake the poller: [`Arm::Wake`].

use std::io;
use std::time::{Duration, Instant};

use mio::Token;

use crate::kernel::{Registry, Timer};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sys::TIMEOUT_STEP_NS;

/// No thread waits. Below every deadline.
const AWAKE: u64 = 0;
/// A thread waits, without a deadline. Above every deadline.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Alarm {
    /// Until when the poller waits; see *The word*. Made earlier under the lock of `set_to`; stored
    /// by the poller, with or without it.
    sleep_until: AtomicU64,
    /// What the timer is set to, or `NEVER` when that is used up.
    set_to: Mutex<u64>,
    timer: Timer,
}

/// What remains to be done after a deadline was brought forward.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// Nothing: a thread waits, and not beyond the deadline.
    Done,
    /// To find a thread that will wait: none does.
    Unheard,
    /// To wake the poller, which will see the new deadline.
    Wake,
}

impl Alarm {
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        Ok(Self {
            sleep_until: AtomicU64::new(AWAKE),
            set_to: Mutex::new(NEVER),
            timer: Timer::new(registry, token)?,
        })
    }

    /// Whether the timer ends a wait. Otherwise the wait has a timeout.
    pub(crate) fn keeps_time(&self) -> bool {
        self.timer.keeps_time()
    }

    /// Whether a thread waits, or is about to. The caller has fenced.
    pub(crate) fn is_awaited(&self) -> bool {
        self.sleep_until.load(Ordering::Relaxed) != AWAKE
    }

    /// From now on, every deadline that is armed is seen by the wait that follows.
    pub(crate) fn prepare(&self) {
        self.sleep_until.store(NEVER, Ordering::Relaxed);
        // Ordering: SeqCst pairs with the fence in `arm`. It closes the race between this store and
        // the caller's look at the timers, which follows. Model
        // `alarm::a_timer_that_is_armed_beside_a_wait`. It releases the store to
        // `Netpoll::interrupt` as well, by way of the flag that the wait swaps next. Model
        // `netpoll::an_interrupt_ends_the_wait`.
        fence(Ordering::SeqCst);
    }

    /// A timer was armed. Its deadline is asked for if a thread waits.
    pub(crate) fn arm(&self, deadline: impl FnOnce() -> Instant) -> Arm {
        // Ordering: SeqCst pairs with the fence in `prepare`; see *Why no timer is slept through*.
        // Model `alarm::a_timer_that_is_armed_beside_a_wait`.
        fence(Ordering::SeqCst);
        let until = self.sleep_until.load(Ordering::Relaxed);
        if until == AWAKE {
            return Arm::Unheard;
        }
        let deadline = self.ns(deadline());
        if until <= deadline {
            return Arm::Done;
        }
        self.bring_forward(deadline)
    }

    #[cold]
    fn bring_forward(&self, deadline: u64) -> Arm {
        let mut set_to = self.set_to.lock();
        // The poller may have come back meanwhile; then it is its own business again.
        if !self.lower(deadline) {
            return Arm::Done;
        }
        match self.set(&mut set_to, deadline) {
            Ok(()) if self.keeps_time() => Arm::Done,
            // A timer that can not be set is an error for the thread that waits: once awake it
            // calls `aim` again, which meets the error too and returns it.
            Ok(()) | Err(_) => Arm::Wake,
        }
    }

    /// The poller is about to wait until `deadline`, or until what was armed since `prepare`.
    /// Called before each round of the wait, and costs a system call only if the timer is set too
    /// late.
    pub(crate) fn aim(&self, deadline: Option<Instant>) -> io::Result<()> {
        let mut set_to = self.set_to.lock();
        if let Some(deadline) = deadline {
            self.lower(self.ns(deadline));
        }
        self.set(&mut set_to, self.sleep_until.load(Ordering::Relaxed))
    }

    /// The timer's event was fetched: its setting is used up.
    pub(crate) fn rang(&self) {
        *self.set_to.lock() = NEVER;
    }

    /// Whether the deadline has come.
    pub(crate) fn is_due(&self) -> bool {
        self.sleep_until.load(Ordering::Relaxed) <= self.ns(Instant::now())
    }

    /// The timeout for mio, where the timer does not do it.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        if self.keeps_time() {
            return None;
        }
        let until = self.sleep_until.load(Ordering::Relaxed);
        (until != NEVER).then(|| in_steps(until.saturating_sub(self.ns(Instant::now()))))
    }

    /// The wait is over.
    pub(crate) fn finish(&self) {
        // Relaxed: a thread that still sees the old value does a little too much.
        self.sleep_until.store(AWAKE, Ordering::Relaxed);
    }

    /// Lowers the word. Says whether it did: not if it was as early, or no thread waits. Lock
    /// required: that of `set_to`.
    fn lower(&self, deadline: u64) -> bool {
        self.sleep_until
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |until| {
                (deadline < until).then_some(deadline)
            })
            .is_ok()
    }

    /// Keeps the invariant: the timer is set, and no later than `until`.
    fn set(&self, set_to: &mut u64, until: u64) -> io::Result<()> {
        if until < *set_to {
            self.timer.set(until)?;
            *set_to = until;
        }
        Ok(())
    }

    fn ns(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.timer.origin());
        let ns = u64::try_from(since.as_nanos()).unwrap_or(NEVER);
        ns.clamp(AWAKE + 1, NEVER - 1)
    }
}

/// So many nanoseconds, rounded up to what the system's wait counts in: not every system's poll
/// rounds up, and a wait that ends too early is followed by others until the deadline has come.
fn in_steps(ns: u64) -> Duration {
    let steps = ns.div_ceil(TIMEOUT_STEP_NS);
    Duration::from_nanos(steps.saturating_mul(TIMEOUT_STEP_NS))
}

#[cfg(all(test, not(ws_loom)))]
mod tests {
    use mio::Poll;

    use super::*;

    /// Until when the thread waits, and what the timer is set to, which has to be no later.
    fn set(alarm: &Alarm) -> (u64, u64) {
        (
            alarm.sleep_until.load(Ordering::Relaxed),
            *alarm.set_to.lock(),
        )
    }

    /// That it is never early is tested with the clock; that would not show that it is late.
    #[test]
    fn it_is_set_to_the_very_moment() {
        let poll = Poll::new().unwrap();
        let alarm = Alarm::new(poll.registry(), Token(0)).unwrap();
        let at = |ns| alarm.timer.origin() + Duration::from_nanos(ns);
        let hour = 3_600_000_000_000;
        assert_eq!(alarm.arm(|| at(hour)), Arm::Unheard);
        alarm.prepare();
        assert!(alarm.is_awaited());
        alarm.aim(None).unwrap();
        assert_eq!(set(&alarm), (NEVER, NEVER));
        let done = if alarm.keeps_time() {
            Arm::Done
        } else {
            Arm::Wake
        };
        assert_eq!(alarm.arm(|| at(2 * hour)), done);
        assert_eq!(set(&alarm), (2 * hour, 2 * hour));
        assert_eq!(alarm.arm(|| at(2 * hour + 1)), Arm::Done, "that is later");
        assert_eq!(set(&alarm), (2 * hour, 2 * hour));
        assert_eq!(alarm.arm(|| at(hour)), done);
        assert_eq!(set(&alarm), (hour, hour));
        // What was armed since `prepare` is earlier than what the thread found.
        alarm.aim(Some(at(2 * hour))).unwrap();
        assert_eq!(set(&alarm), (hour, hour));
        alarm.finish();
        assert!(!alarm.is_awaited());
        assert_eq!(alarm.arm(|| at(1)), Arm::Unheard);
        // The next wait is for a later moment, and then for an earlier one.
        for (until, set_to) in [(3 * hour, hour), (hour / 2, hour / 2)] {
            alarm.prepare();
            alarm.aim(Some(at(until))).unwrap();
            assert_eq!(set(&alarm), (until, set_to));
            alarm.finish();
        }
        alarm.prepare();
        alarm.rang();
        alarm.aim(Some(at(hour + 7))).unwrap();
        assert_eq!(set(&alarm), (hour + 7, hour + 7));
    }

    #[test]
    fn a_timeout_is_no_earlier_than_its_deadline() {
        for (steps, more, rounded) in [(0, 0, 0), (0, 1, 1), (7, 0, 7), (7, 1, 8)] {
            let ns = steps * TIMEOUT_STEP_NS + more.min(TIMEOUT_STEP_NS - 1);
            let rounded = if TIMEOUT_STEP_NS == 1 { steps } else { rounded };
            let expected = Duration::from_nanos(rounded * TIMEOUT_STEP_NS);
            assert_eq!(in_steps(ns), expected, "{steps} steps and {more} ns");
        }
        assert!(in_steps(u64::MAX) >= Duration::from_secs(1 << 34));
    }
}
