//! The seam to a driver that steps workers by itself: what a runtime with a virtual clock has in
//! place of the operating system.
//!
//! Threads that the scheduler starts wait here until the driver takes them up. The driver says here
//! which of them are blocked; the monitor would otherwise ask the system. A runtime with a real
//! clock has none of this, and looks here only where it is about to start a thread, or has found
//! one stuck.

use super::processor::Processor;
use crate::{probe::ProbeCount, sync::Mutex};

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct SimThreads {
    #[expect(clippy::vec_box, reason = "a P travels, and is large")]
    new: Mutex<Vec<Box<Processor>>>,
    /// The Ps whose threads are blocked.
    blocked: Mutex<Vec<usize>>,
    /// How often the runtime asked whether a thread waits. The system reads a file for that.
    pub(crate) files_read: ProbeCount,
    /// The CPU time of each thread, if the driver says so.
    pub(crate) cpu_time: Mutex<Option<u64>>,
    /// The tasks that panicked and that nobody joins, in words.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) panicked: Mutex<Vec<String>>,
}

impl SimThreads {
    /// A thread is started: its P runs already, with the permit of a spinner.
    pub(super) fn start(&self, processor: Box<Processor>) {
        self.new.lock().push(processor);
    }

    pub(crate) fn is_waiting(&self, index: usize) -> bool {
        self.files_read.add_one();
        self.is_blocked(index)
    }

    /// The CPU time of a thread: it blocks all the time, or not at all.
    pub(crate) fn cpu_time(&self, index: usize, now: u64) -> u64 {
        if let Some(time) = *self.cpu_time.lock() {
            return time;
        }
        if self.is_blocked(index) { 0 } else { now }
    }

    pub(crate) fn is_blocked(&self, index: usize) -> bool {
        self.blocked.lock().contains(&index)
    }
}

/// What drivers ask.
#[cfg(any(test, feature = "sim"))]
impl SimThreads {
    /// The Ps of those that were started since the last call.
    #[expect(clippy::vec_box, reason = "a P travels, and is large")]
    pub(crate) fn take(&self) -> Vec<Box<Processor>> {
        std::mem::take(&mut *self.new.lock())
    }
}

/// What the driver of a test asks and says.
#[cfg(test)]
mod driver {
    use super::*;

    impl SimThreads {
        pub(crate) fn set_blocked(&self, index: usize, blocked: bool) {
            let mut all = self.blocked.lock();
            all.retain(|other| *other != index);
            if blocked {
                all.push(index);
            }
        }

        /// How many wait to be taken up.
        pub(crate) fn len(&self) -> usize {
            self.new.lock().len()
        }
    }
}
