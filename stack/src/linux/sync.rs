//! Atomics and cells of the protocol: `std` in life, `loom` in a model.

pub(super) use std::sync::atomic::Ordering;

#[cfg(all(test, ws_loom))]
pub(super) use loom::{cell::UnsafeCell, sync::atomic::AtomicU32};

#[cfg(not(all(test, ws_loom)))]
pub(super) use std::sync::atomic::AtomicU32;

/// Hands out its pointer inside a closure, as loom's does.
#[cfg(not(all(test, ws_loom)))]
#[derive(Debug)]
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(all(test, ws_loom)))]
impl<T> UnsafeCell<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    pub(super) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
