//! The lock of this crate: `std`'s mutex without its poison.
//!
//! No user code runs under a lock of the runtime (S8), so a panic can not leave half-written state
//! behind one, and poison would only turn somebody's panic into everybody's. Nothing else is
//! wrapped: the models of the runtime live in the executor, and this crate's protocols meet the
//! kernel, which no model can drive.

use std::sync::{self, MutexGuard, TryLockError};

/// A mutex without poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits for the lock. What is done under it is a few instructions, or one short system call.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Takes the lock if nobody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
