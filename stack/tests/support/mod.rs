//! Threads to look at.
#![allow(dead_code, reason = "each test uses a part")]

use std::{
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread::{Scope, ScopedJoinHandle},
    time::{Duration, Instant},
};

use ws_stack::{Look, Stack, capture, register_thread};

/// How long a capture may take in a test: it is not what is tested.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// Tells threads to end, also if the test fails.
pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A thread that is registered, and runs.
pub(crate) struct Subject<'scope, T> {
    pub(crate) thread: u32,
    pub(crate) handle: ScopedJoinHandle<'scope, T>,
}

impl<'scope, T: Send + 'scope> Subject<'scope, T> {
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        run: impl FnOnce() -> T + Send + 'scope,
    ) -> Self {
        let (tell, told) = mpsc::channel();
        let handle = scope.spawn(move || {
            tell.send(register_thread()).unwrap();
            run()
        });
        let thread = told.recv().unwrap();
        Self { thread, handle }
    }

    /// Waits until it is blocked in the call of that number. Without a capture: that of a thread
    /// which is about to block may end its call.
    pub(crate) fn wait_until_blocked_in(&self, number: i64) {
        eventually(|| {
            let path = format!("/proc/self/task/{}/syscall", self.thread);
            let text = std::fs::read_to_string(path).ok()?;
            (text.split(' ').next() == Some(&number.to_string())).then_some(())
        });
    }

    /// Its stack once it is blocked in that call.
    pub(crate) fn when_blocked_in(&self, call: &str) -> Stack {
        let look = self.look_when_blocked_in(call);
        look.stack.unwrap().resolve().clone()
    }

    pub(crate) fn look_when_blocked_in(&self, call: &str) -> Look {
        eventually(|| {
            let look = capture(self.thread, LIMIT);
            let name = look.system_call.and_then(|call| call.name());
            (name == Some(call)).then_some(look)
        })
    }
}

pub(crate) fn captured(thread: u32) -> Option<Stack> {
    let captured = capture(thread, LIMIT).stack.ok()?;
    Some(captured.resolve().clone())
}

/// What it comes to in the end, for as long as a test may take.
pub(crate) fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed().as_secs() < 60, "never");
        std::thread::yield_now();
    }
}
