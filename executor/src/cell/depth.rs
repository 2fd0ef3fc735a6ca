//! How many polls for others are on this thread's stack. Each of them hides the scopes of
//! task-locals below it. See *Depth* in `task/local.rs`.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The thread's depth.
pub(crate) fn current() -> u32 {
    DEPTH.get()
}

/// While it is there, this thread sees no scope that was entered before.
pub(crate) struct ScopeBarrier {
    before: u32,
}

impl ScopeBarrier {
    /// The thread is about to poll or to drop tasks for others than its caller.
    pub(crate) fn begin() -> Self {
        let before = DEPTH.get();
        Self {
            before: DEPTH.replace(before + 1),
        }
    }

    /// Runs `f` for the caller again: it sees the caller's scopes.
    pub(crate) fn for_caller<R>(&self, f: impl FnOnce() -> R) -> R {
        let _back = Self {
            before: DEPTH.replace(self.before),
        };
        f()
    }
}

impl Drop for ScopeBarrier {
    fn drop(&mut self) {
        DEPTH.set(self.before);
    }
}
