//! What other threads tell the monitor, and what its look leaves for them.
//!
//! The monitor is a layer above: it looks at the scheduler, and no thread of the scheduler calls
//! it. A thread leaves a word here and wakes the monitor.

use super::Shared;
use crate::{
    permit::env::{Env, PeerEnv},
    sync::atomic::{
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        fence,
    },
};

impl Shared {
    /// Ready tasks were found, and no permit for them: all of them may be held by stuck threads.
    pub(crate) fn need_permit(&self) {
        self.ask_at_forks();
        // The monitor sees the tasks.
        if self.monitor.needed.set() {
            self.idle.monitor().unpark(|| ());
        }
    }

    /// Leaves word for the next thread that comes to a fork.
    pub(crate) fn ask_at_forks(&self) {
        // Ordering: Release: a thread that takes the word sees the tasks.
        self.monitor.asks_at_forks.store(true, Release);
        // Ordering: SeqCst: between the word and the asks; pairs with the one below.
        fence(SeqCst);
        self.peers().for_each(PeerEnv::ask_at_next_fork);
    }

    /// Whether there is such a word.
    pub(crate) fn is_asked_at_forks(&self) -> bool {
        // Ordering: SeqCst: at a fork, between the change of the branch deque's flag and this look:
        // a thread that sees nothing here is asked.
        fence(SeqCst);
        self.monitor.asks_at_forks.load(Relaxed)
    }

    /// Takes it.
    pub(crate) fn take_ask_at_forks(&self) -> bool {
        // Ordering: Acquire, as above.
        self.monitor.asks_at_forks.swap(false, Acquire)
    }
}
