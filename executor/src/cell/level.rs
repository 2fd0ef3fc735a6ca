//! How many polls for others are on this thread's stack, of which each hides the scopes of
//! task-locals below it. See *Levels* in `task/local.rs`.

use std::cell::Cell;

thread_local! {
    static LEVEL: Cell<u32> = const { Cell::new(0) };
}

/// The thread's level.
pub(crate) fn current() -> u32 {
    LEVEL.get()
}

/// While it is there, this thread sees no scope that was entered before.
pub(crate) struct Apart {
    before: u32,
}

impl Apart {
    /// The thread is about to poll or to drop tasks for others than its caller.
    pub(crate) fn begin() -> Self {
        let before = LEVEL.get();
        Self {
            before: LEVEL.replace(before + 1),
        }
    }

    /// Runs `f` for the caller again: it sees the caller's scopes.
    pub(crate) fn for_caller<R>(&self, f: impl FnOnce() -> R) -> R {
        let _back = Self {
            before: LEVEL.replace(self.before),
        };
        f()
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        LEVEL.set(self.before);
    }
}
