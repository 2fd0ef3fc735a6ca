//! Atomics and cells of the protocol in `slot.rs`: `std` in life, `loom` in a model.
#![allow(
    dead_code,
    unused_imports,
    reason = "not used where there are no stacks"
)]

pub(crate) use std::sync::atomic::Ordering;

#[cfg(all(test, ws_loom))]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{Arc, atomic::AtomicU32},
    thread,
};

#[cfg(not(all(test, ws_loom)))]
pub(crate) use std::sync::atomic::AtomicU32;

/// Hands out its pointer inside a closure, as loom's does.
#[cfg(not(all(test, ws_loom)))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(all(test, ws_loom)))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// A `const fn` in life. In a model it is none, since loom's atomics are not made by one.
macro_rules! const_fn {
    ($visibility:vis fn $($rest:tt)*) => {
        #[cfg(not(all(test, ws_loom)))]
        $visibility const fn $($rest)*

        #[cfg(all(test, ws_loom))]
        $visibility fn $($rest)*
    };
}
pub(crate) use const_fn;
