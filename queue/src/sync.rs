//! The one door to threads, locks and atomics: `std` in life, `loom` in a model.
//!
//! Everything in this package and in the executor that synchronises goes through here, so that a
//! model under `--cfg ws_loom` drives the shipped type and not a copy. The switch is our own and
//! not loom's `cfg(loom)`: that one would switch dependencies as well. With `--cfg ws_shuttle`
//! besides, the same models run under `shuttle`, which tries random schedules where loom would not
//! come to an end. `--cfg ws_lines` counts instead which lines of cache go from CPU to CPU in a
//! simulation (`lines.rs`).
//!
//! Two things differ from `std`:
//!
//! - [`UnsafeCell`] hands out its pointer inside a closure, so that loom sees when an access begins
//!   and ends.
//! - [`Mutex`] knows no poison. No user code runs under a lock of the runtime (S8), and a panic of
//!   the scheduler itself aborts the process, so there is never half-written state to protect from.

#[cfg(not(any(ws_loom, ws_lines)))]
pub use std::sync::atomic;
#[cfg(not(ws_loom))]
pub use std::{hint, sync::Arc, thread};

#[cfg(ws_lines)]
pub use crate::lines::atomic;

#[cfg(all(ws_loom, not(ws_shuttle)))]
pub use loom::{
    hint,
    sync::{Arc, atomic},
    thread, thread_local,
};

#[cfg(all(ws_loom, ws_shuttle))]
pub use shuttle::{
    hint,
    sync::{Arc, atomic},
    thread, thread_local,
};

#[cfg(not(ws_loom))]
use std::sync as imp;

#[cfg(all(ws_loom, not(ws_shuttle)))]
use loom::sync as imp;

#[cfg(all(ws_loom, ws_shuttle))]
use shuttle::sync as imp;

use std::sync::TryLockError;

/// Whether this is built for the models: there queues are short, so that a model ends, and nothing
/// takes time.
pub const MODELLED: bool = cfg!(ws_loom);

pub use imp::MutexGuard;

/// A mutex without poison.
#[derive(Debug, Default)]
pub struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    #[cfg_attr(ws_lines, track_caller)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(ws_lines)]
        crate::lines::touch(self, true);
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Takes the lock if nobody has it.
    #[cfg_attr(ws_lines, track_caller)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        #[cfg(ws_lines)]
        crate::lines::touch(self, true);
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A condition variable that goes with [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(imp::Condvar);

impl Condvar {
    pub fn new() -> Self {
        Self(imp::Condvar::new())
    }

    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        match self.0.wait(guard) {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Waits, at most `timeout` long. The caller looks at its own condition afterwards.
    #[cfg(not(ws_loom))]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: std::time::Duration,
    ) -> MutexGuard<'a, T> {
        match self.0.wait_timeout(guard, timeout) {
            Ok((guard, _)) => guard,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }

    /// A model has no clock: no time is over at once, and any other never.
    #[cfg(ws_loom)]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: std::time::Duration,
    ) -> MutexGuard<'a, T> {
        if timeout.is_zero() {
            guard
        } else {
            self.wait(guard)
        }
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A cell whose accesses loom can see. Shuttle, which stops threads only where they synchronise,
/// sees none.
#[cfg(any(not(ws_loom), ws_shuttle))]
#[derive(Debug)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(any(not(ws_loom), ws_shuttle))]
impl<T> UnsafeCell<T> {
    pub fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Reads through a shared pointer to the contents.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Writes through a unique pointer to the contents.
    #[inline]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// A cell whose accesses loom can see. Its end is one of them, so that a model fails when memory is
/// freed that another thread may still be using; and when it is never freed.
#[cfg(all(ws_loom, not(ws_shuttle)))]
#[derive(Debug)]
pub struct UnsafeCell<T> {
    cell: loom::cell::UnsafeCell<T>,
    _freed: loom::alloc::Track<()>,
}

#[cfg(all(ws_loom, not(ws_shuttle)))]
impl<T> UnsafeCell<T> {
    pub fn new(value: T) -> Self {
        Self {
            cell: loom::cell::UnsafeCell::new(value),
            _freed: loom::alloc::Track::new(()),
        }
    }

    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        self.cell.with(f)
    }

    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        self.cell.with_mut(f)
    }
}

#[cfg(all(ws_loom, not(ws_shuttle)))]
impl<T> Drop for UnsafeCell<T> {
    fn drop(&mut self) {
        // A model that has failed already is not to fail once more while it unwinds.
        if !std::thread::panicking() {
            self.cell.with_mut(|_| ());
        }
    }
}

/// What a model notes beside the state of a protocol: the largest number so far. In life it is
/// empty, and does nothing.
#[derive(Debug, Default)]
pub struct Witness(#[cfg(ws_loom)] atomic::AtomicU64);

#[cfg(ws_loom)]
impl Witness {
    pub fn note(&self, number: u64) {
        self.0.fetch_max(number, atomic::Ordering::Relaxed);
    }

    /// # Panics
    ///
    /// Panics in a model if this thread does not see as much.
    pub fn assert_at_least(&self, number: u64) {
        let noted = self.0.load(atomic::Ordering::Relaxed);
        assert!(noted >= number, "what is noted is not sure to be seen here");
    }
}

#[cfg(not(ws_loom))]
impl Witness {
    #[inline]
    pub fn note(&self, _number: u64) {}

    #[inline]
    pub fn assert_at_least(&self, _number: u64) {}
}

/// A `const fn` in life. In a model it is none, since loom's atomics are not made by one.
#[macro_export]
#[doc(hidden)]
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        #[cfg(not(ws_loom))]
        $(#[$attribute])*
        $visibility const fn $($rest)*

        #[cfg(ws_loom)]
        $(#[$attribute])*
        $visibility fn $($rest)*
    };
}
