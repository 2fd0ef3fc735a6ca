//! What the tests of this folder share: a shard under a clock that is moved by hand.

use std::task::{Wake, Waker};
use std::time::Duration;

use ws_reactor::Netpoll;

use crate::sync::Arc;
use crate::time::Instant;
use crate::timer::{Clock, TimeDriver, TimerHandle, TimerShard};

/// A shard, its virtual clock, and calls that fire what is due.
pub(crate) struct Bench {
    pub(crate) timers: TimerHandle,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let netpoll = Netpoll::new().expect("a netpoll");
        let driver = Arc::new(TimeDriver::new(netpoll, Clock::stopped()));
        Self {
            timers: TimerHandle::new(Arc::new(TimerShard::new(driver))),
        }
    }

    /// A waker that looks at the timers when it is dropped for good, as a user's may. Under their
    /// lock that would be a deadlock (S8).
    pub(crate) fn nosy_waker(&self) -> Waker {
        struct Nosy(TimerHandle);
        impl Wake for Nosy {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for Nosy {
            fn drop(&mut self) {
                self.0.len();
            }
        }
        Waker::from(Arc::new(Nosy(self.timers.clone())))
    }

    /// A second shard of the same runtime.
    pub(crate) fn sibling(&self) -> Self {
        Self {
            timers: TimerHandle::new(Arc::new(TimerShard::new(self.timers.driver().clone()))),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_std(self.timers.clock().now())
    }

    /// Moves the clock, and fires what became due.
    pub(crate) fn advance(&self, by: Duration) {
        self.timers.clock().advance(by);
        self.fire();
    }

    /// Fires what is due, as a worker does.
    pub(crate) fn fire(&self) {
        let now = self.timers.clock().now_ns();
        let mut batch = Vec::new();
        while self.timers.has_due(now) {
            self.timers.fire_due(now, &mut batch);
            batch.drain(..).for_each(Waker::wake);
        }
    }

    pub(crate) fn shut_down(&self) {
        let mut batch = Vec::new();
        self.timers.shut_down(&mut batch);
        batch.drain(..).for_each(Waker::wake);
    }
}

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const NS: Duration = Duration::from_nanos(1);
