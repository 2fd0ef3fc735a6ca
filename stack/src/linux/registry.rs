//! The threads that may be signalled.
//!
//! A thread enters itself, and a destructor of a thread-local takes it out again. Both know the
//! thread by its number, which the system gives to another thread when this one has ended. So:
//!
//! *A thread in the registry exists while its lock is held.* The destructor takes the lock before
//! it takes the thread out, and it runs on that thread. [`with`] holds the lock while it reads the
//! thread's files and signals it. The handler takes no lock, so a thread that waits here for the
//! end of its own capture answers all the same.
//!
//! After a `fork` the child's copy has the parent's threads. Their numbers are none of its threads,
//! and `tgkill` names the process besides. If another thread held a lock of this file at the fork,
//! it is never released in the child, and a thread that starts or ends there waits for good. That
//! is not mended here, since std has such locks of its own: `Builder::build` of the executor says
//! what a child may do.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{alternate::AlternateStack, signal};
use crate::no_stack::Why;

/// Whether the thread is still there.
type Entry = Arc<Mutex<bool>>;

static THREADS: Mutex<BTreeMap<u32, Entry>> = Mutex::new(BTreeMap::new());

thread_local! {
    static OWN: Own = Own::enter();
}

struct Own {
    thread: u32,
    entry: Entry,
    /// Dropped after the entry is taken out.
    _stack: Option<AlternateStack>,
}

impl Own {
    fn enter() -> Self {
        let thread = signal::own_thread();
        let entry = Arc::new(Mutex::new(true));
        let stack = AlternateStack::if_there_is_none();
        lock(&THREADS).insert(thread, entry.clone());
        Self {
            thread,
            entry,
            _stack: stack,
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        lock(&THREADS).remove(&self.thread);
        *lock(&self.entry) = false;
    }
}

/// Nothing under these locks panics halfway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn register_thread() -> u32 {
    // Err: it is about to end.
    OWN.try_with(|own| own.thread).unwrap_or(0)
}

/// Calls `f` while that thread exists.
pub(super) fn with<R>(thread: u32, f: impl FnOnce() -> Result<R, Why>) -> Result<R, Why> {
    if thread == signal::own_thread() {
        return Err(Why::Own);
    }
    let entry = lock(&THREADS).get(&thread).cloned().ok_or(Why::Unknown)?;
    let exists = lock(&entry);
    if *exists { f() } else { Err(Why::Unknown) }
}
