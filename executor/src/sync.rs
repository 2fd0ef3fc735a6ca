//! The one door to threads, locks and atomics: `std` in life, `loom` in a model.
//!
//! Everything in this crate that synchronises goes through here, so that a model under
//! `--cfg ws_loom` drives the shipped type and not a copy. The switch is our own and not loom's
//! `cfg(loom)`: that one would switch dependencies as well.
//!
//! Two things differ from `std`:
//!
//! - [`UnsafeCell`] hands out its pointer inside a closure, so that loom sees when an access begins
//!   and ends.
//! - [`Mutex`] knows no poison. No user code runs under a lock of the runtime (S8), and a panic of
//!   the scheduler itself aborts the process, so there is never half-written state to protect from.

#[cfg(not(ws_loom))]
pub(crate) use std::{
    hint,
    sync::{Arc, atomic},
    thread,
};

#[cfg(ws_loom)]
pub(crate) use loom::{
    hint,
    sync::{Arc, atomic},
    thread,
};

#[cfg(not(ws_loom))]
use std::sync as imp;

#[cfg(ws_loom)]
use loom::sync as imp;

pub(crate) use imp::MutexGuard;

/// A mutex without poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

/// A condition variable that goes with [`Mutex`].
#[derive(Debug, Default)]
pub(crate) struct Condvar(imp::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(imp::Condvar::new())
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        match self.0.wait(guard) {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Waits, at most `timeout` long. The caller looks at its own condition afterwards.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: std::time::Duration,
    ) -> MutexGuard<'a, T> {
        match self.0.wait_timeout(guard, timeout) {
            Ok((guard, _)) => guard,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A cell whose accesses loom can see.
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(
    #[cfg(not(ws_loom))] std::cell::UnsafeCell<T>,
    #[cfg(ws_loom)] loom::cell::UnsafeCell<T>,
);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        #[cfg(not(ws_loom))]
        return Self(std::cell::UnsafeCell::new(value));
        #[cfg(ws_loom)]
        return Self(loom::cell::UnsafeCell::new(value));
    }

    /// Reads through a shared pointer to the contents.
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        #[cfg(not(ws_loom))]
        return f(self.0.get());
        #[cfg(ws_loom)]
        return self.0.with(f);
    }

    /// Writes through a unique pointer to the contents.
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(not(ws_loom))]
        return f(self.0.get());
        #[cfg(ws_loom)]
        return self.0.with_mut(f);
    }
}
