//! The netpoll of a runtime, and what is kept of the looks at it.

use std::{collections::VecDeque, task::Waker};

use ws_reactor::Netpoll;

use crate::{
    policy::{
        constants::LIST_WAIT,
        slack::{Bursts, is_burst},
    },
    sync::{
        Arc, Condvar, Mutex,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    throttle::{REPORT_EVERY, Throttle},
};

/// The netpoll of a runtime, and what came of the looks at it.
#[derive(Debug)]
pub(crate) struct Io {
    pub(crate) netpoll: Arc<Netpoll>,
    /// The P whose thread waits in the netpoll: its index plus one.
    pub(in crate::sched) waiter: AtomicUsize,
    /// When the netpoll was looked at last, in nanoseconds of the runtime's clock.
    pub(crate) last_look: AtomicU64,
    pub(crate) timer_slack: TimerSlack,
    /// Wakers that were brought, and whose wake may block.
    pub(crate) foreign_wakers: ForeignWakers,
    /// Looks that failed.
    pub(in crate::sched) reports: Throttle,
    /// That listeners wait for room.
    pub(crate) accept_reports: Throttle,
    /// How often they did.
    pub(crate) accepts_delayed: AtomicU64,
}

impl Io {
    pub(in crate::sched) fn new(netpoll: Arc<Netpoll>) -> Self {
        Self {
            netpoll,
            waiter: AtomicUsize::new(0),
            last_look: AtomicU64::new(0),
            timer_slack: TimerSlack::default(),
            foreign_wakers: ForeignWakers::default(),
            reports: Throttle::new(REPORT_EVERY),
            accept_reports: Throttle::new(REPORT_EVERY),
            accepts_delayed: AtomicU64::new(0),
        }
    }
}

/// See *Timer slack* in `wait.rs`. Times are in nanoseconds of the runtime's clock. The
/// thread that waits in the netpoll writes it. It decides only how long a thread waits, so two that
/// do so one behind the other may mix their times.
#[derive(Debug, Default)]
pub(crate) struct TimerSlack {
    since: AtomicU64,
    last: AtomicU64,
}

impl TimerSlack {
    /// A wait in the netpoll has ended with `fired` timers.
    pub(crate) fn came(&self, fired: usize, now: u64) {
        if !is_burst(fired) {
            return;
        }
        if !Bursts::go_on(self.last.load(Relaxed), now) {
            self.since.store(now, Relaxed);
        }
        // Ordering: Release pairs with `wakes_at`: since when it has been so.
        self.last.store(now, Release);
    }

    /// When a thread wakes up for a timer of that moment.
    pub(crate) fn wakes_at(&self, next: u64) -> u64 {
        // Ordering: Acquire pairs with `came`.
        let last = self.last.load(Acquire);
        let since = self.since.load(Relaxed);
        Bursts { since, last }.wakes_at(next)
    }
}

/// Wakers that are no task's and no root's, and are to be woken; see `foreign_wakers.rs`.
#[derive(Debug, Default)]
pub(crate) struct ForeignWakers {
    state: Mutex<State>,
    /// Signalled when the last one is taken.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    left: VecDeque<Waker>,
    /// How many were ever taken.
    taken: u64,
}

impl ForeignWakers {
    pub(in crate::sched) fn put(&self, wakers: impl Iterator<Item = Waker>) {
        self.state.lock().left.extend(wakers);
    }

    pub(in crate::sched) fn take(&self) -> Option<Waker> {
        let mut state = self.state.lock();
        let waker = state.left.pop_front()?;
        state.taken += 1;
        if state.left.is_empty() {
            self.emptied.notify_all();
        }
        Some(waker)
    }

    /// While some are left: how many were ever taken.
    pub(crate) fn taken(&self) -> Option<u64> {
        let state = self.state.lock();
        (!state.left.is_empty()).then_some(state.taken)
    }

    pub(in crate::sched) fn wait(&self) {
        let state = self.state.lock();
        if !state.left.is_empty() {
            drop(self.emptied.wait_timeout(state, LIST_WAIT));
        }
    }
}
