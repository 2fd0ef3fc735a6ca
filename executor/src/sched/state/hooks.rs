//! What the user wants to run on the runtime's threads.

use std::{cell::Cell, fmt, sync::Arc};

use crate::cell::quietly;

pub(crate) type Hook = Option<Arc<dyn Fn() + Send + Sync>>;

/// What the user wants to run on the runtime's threads.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) start: Hook,
    pub(crate) stop: Hook,
    pub(crate) park: Hook,
    pub(crate) unpark: Hook,
}

impl Hooks {
    pub(crate) fn has_start(&self) -> bool {
        self.start.is_some()
    }

    pub(crate) fn has_stop(&self) -> bool {
        self.stop.is_some()
    }

    /// Whether there is a hook for the begin or the end of a sleep.
    pub(crate) fn has_park(&self) -> bool {
        self.park.is_some() || self.unpark.is_some()
    }

    pub(crate) fn call_start(&self) {
        call(&self.start);
    }

    pub(crate) fn call_stop(&self) {
        call(&self.stop);
    }

    pub(crate) fn call_park(&self) {
        call(&self.park);
    }

    pub(crate) fn call_unpark(&self) {
        call(&self.unpark);
    }
}

/// A hook's panic is its own: the worker lives on (S6).
fn call(hook: &Hook) {
    if let Some(hook) = hook {
        quietly("a hook of the runtime's builder", || hook());
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("start", &self.start.is_some())
            .field("stop", &self.stop.is_some())
            .field("park", &self.park.is_some())
            .field("unpark", &self.unpark.is_some())
            .finish()
    }
}

thread_local! {
    /// This thread is in a hook where it is no worker: at its begin or its end, or on the monitor.
    static IN_A_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Runs a hook on a thread that counts as one of the runtime's, though it is no worker: a runtime
/// that is ended in there does not wait for this thread.
pub(crate) fn in_a_hook(hook: impl FnOnce()) {
    let outer = IN_A_HOOK.replace(true);
    // It does not unwind: a hook's panic is caught.
    hook();
    IN_A_HOOK.set(outer);
}

/// Whether this thread is in such a hook.
pub(crate) fn is_in_a_hook() -> bool {
    IN_A_HOOK.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_hook_of_a_sleep_is_one() {
        let hook: Hook = Some(Arc::new(|| ()));
        let (mut parks, mut unparks) = (Hooks::default(), Hooks::default());
        assert!(!parks.has_park());
        parks.park = hook.clone();
        unparks.unpark = hook;
        assert!(parks.has_park() && unparks.has_park());
        assert!(!unparks.has_start() && !unparks.has_stop());
    }
}
