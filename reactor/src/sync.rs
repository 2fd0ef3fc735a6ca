//! The one door to locks and atomics: `std` in life, `loom` in a model.
//!
//! What synchronises in this crate goes through here, so that a model drives the shipped type and
//! not a copy. The switch is that of the executor, `--cfg ws_loom`, and besides that this crate's
//! own tests: for the executor's models this crate is a dependency, which they build as it ships.
//! What the kernel does is behind a door of its own, `kernel.rs`.
//!
//! [`Mutex`] knows no poison. No user code runs under a lock of the runtime (S8), so a panic can
//! not leave half-written state behind one, and poison would only turn the panic of one into a
//! panic of all.

#[cfg(not(all(test, ws_loom)))]
use std::sync as imp;
#[cfg(not(all(test, ws_loom)))]
pub(crate) use std::sync::atomic;

#[cfg(all(test, ws_loom))]
use loom::sync as imp;
#[cfg(all(test, ws_loom))]
pub(crate) use loom::{
    sync::{Condvar, atomic},
    thread,
};

// These hand over what the protocols here do not: `Arc` is a part of the interface, and what is set
// once is set before any other thread has the netpoll.
pub(crate) use std::sync::{Arc, OnceLock};

use std::sync::TryLockError;

pub(crate) use imp::MutexGuard;

/// A mutex without poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    /// Waits for the lock. What is done under it is a few instructions, or one short system call.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Takes the lock if no thread has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
