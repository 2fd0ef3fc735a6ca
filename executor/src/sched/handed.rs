//! A blocking call that a bound thread has handed to another thread; see *Bound threads* in
//! `blocking.rs`.

use crate::{
    cell::Task,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// The place of such a call. A call is put there before the worker state says that the thread has a
/// permit.
#[derive(Debug)]
pub(crate) struct HandedCall {
    call: Mutex<Option<Task>>,
    /// Whether there is one.
    is_there: AtomicBool,
}

impl HandedCall {
    pub(super) fn new() -> Self {
        Self {
            call: Mutex::new(None),
            is_there: AtomicBool::new(false),
        }
    }

    /// Puts a call there for the thread. It comes back if there is one already.
    pub(super) fn put(&self, call: Task) -> Result<(), Task> {
        let mut place = self.call.lock();
        if place.is_some() {
            drop(place);
            return Err(call);
        }
        *place = Some(call);
        self.is_there.store(true, Relaxed);
        Ok(())
    }

    /// Takes the call out again. For the thread of the place, or for the thread that put the call
    /// there and could not wake the first one.
    pub(crate) fn take(&self) -> Option<Task> {
        if !self.is_there.load(Relaxed) {
            return None;
        }
        let mut place = self.call.lock();
        self.is_there.store(false, Relaxed);
        place.take()
    }
}
