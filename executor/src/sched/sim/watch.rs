//! What would be the monitor's thread, which both drivers step.

use std::cell::{Cell, RefCell};

use crate::{
    monitor::{Monitor, Rest},
    sched::Shared,
    sync::Arc,
};

/// What would be the monitor's thread.
pub(super) struct Watch {
    shared: Arc<Shared>,
    monitor: RefCell<Monitor>,
    /// When it looks next; None: it sleeps for good.
    next: Cell<Option<u64>>,
    looks: Cell<bool>,
}

impl Watch {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: shared.clone(),
            monitor: RefCell::new(Monitor::new(shared)),
            next: Cell::new(Some(0)),
            looks: Cell::new(false),
        }
    }

    /// When it looks by itself.
    pub(super) fn next(&self) -> Option<u64> {
        self.next.get().filter(|_| !self.looks.get())
    }

    /// Whether its time is over, or it is woken.
    pub(super) fn is_due(&self, now: u64) -> bool {
        let woken = self.shared.idle.monitor().is_notified();
        !self.looks.get() && (woken || self.next.get().is_some_and(|at| at <= now))
    }

    /// What its thread does in its loop.
    pub(super) fn look(&self) {
        self.looks.set(true);
        let mut monitor = self.monitor.borrow_mut();
        self.shared.idle.monitor().wake_up();
        if self.next.get().is_some() {
            monitor.look();
        } else {
            monitor.wake_up();
        }
        self.next.set(match monitor.rest() {
            // No stall is reported here.
            Rest::ForGood(_) => None,
            Rest::For(period) => Some(self.shared.time.clock().now_ns() + period.as_nanos() as u64),
        });
        self.looks.set(false);
    }
}
