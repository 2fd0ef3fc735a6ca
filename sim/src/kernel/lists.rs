//! Lists that a function of libc makes, and another one frees: whether one is of a host or the
//! system's is known by its address alone.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// The addresses of entries that are alive.
pub(super) struct Lists(Mutex<BTreeSet<usize>>);

impl Lists {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    pub(super) fn add<T>(&self, entry: *const T) {
        self.alive().insert(entry as usize);
    }

    /// Whether it was added. It is not in here any more.
    pub(super) fn remove<T>(&self, entry: *const T) -> bool {
        self.alive().remove(&(entry as usize))
    }

    fn alive(&self) -> std::sync::MutexGuard<'_, BTreeSet<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
