//! What tests count in a mechanism, or do in the middle of it. In what ships these types are empty,
//! and their functions do nothing.
//!
//! So a mechanism has no `cfg(test)`.

#[cfg(test)]
use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::Waker,
};

/// A count for tests.
#[derive(Debug, Default)]
pub(crate) struct ProbeCount(#[cfg(test)] AtomicU64);

impl ProbeCount {
    #[inline(always)]
    pub(crate) fn add_one(&self) {
        #[cfg(test)]
        self.0.fetch_add(1, Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A point in a mechanism at which a test does something once, as another thread might.
#[derive(Debug, Default)]
pub(crate) struct ProbePoint(#[cfg(test)] Mutex<Option<Waker>>);

impl ProbePoint {
    /// A thread comes to the point.
    #[inline(always)]
    pub(crate) fn reached(&self) {
        #[cfg(test)]
        {
            // Not under the lock: the waker may set the next one.
            let waker = self.0.lock().expect("no waker runs under it").take();
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Wakes the waker when a thread comes to the point next.
    #[cfg(test)]
    pub(crate) fn wake_next(&self, waker: Waker) {
        *self.0.lock().expect("no waker runs under it") = Some(waker);
    }
}
