//! Which thread waits in the netpoll, and which one calls: *An interrupt is not lost* and *Nobody
//! waits* in `netpoll.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `an_interrupt_ends_the_wait` | an interrupt before or in the wait ends it, and what its caller wrote is seen | 3 | 0.1 | `interrupt_swap_not_acquire`, `interrupt_swap_not_release`, `interrupt_take_not_acquire`, `interrupt_writes_first`, `interrupt_wait_does_not_ask_first`, `interrupt_wait_asks_before_it_prepares`, `interrupt_wait_asks_once` |
//! | `a_thread_that_looks_before_it_waits_misses_nothing` | the same for a thread that finds what was left for it, and waits again | 3 | 0.2 | also `interrupt_wait_does_not_ask_first` |
//! | `two_interrupts_are_both_seen` | an interrupt that finds another one raised is not lost with it | 2 | 0.9 | `interrupt_looks_before_it_swaps` |
//! | `a_source_is_registered_beside_a_thread_that_leaves` | the thread that leaves the netpoll sees the source, or the thread that registers it sees that nobody waits | 3 | 0.1 | `netpoll_registered_no_fence` |
//!
//! A wait that nothing ends is a deadlock, which loom reports.

use std::sync::atomic::{AtomicBool as Flag, Ordering::SeqCst as Observer};

use mio::Interest;

use super::{both_ways::explore, kernel::Pipe};
use crate::{
    netpoll::Netpoll,
    registration::Registration,
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
            fence,
        },
    },
};

/// A thread that waits in the netpoll, and what others leave for it there.
struct Mock {
    netpoll: Arc<Netpoll>,
    letters: [AtomicBool; 2],
}

impl Mock {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            netpoll: Netpoll::new().expect("this kernel knows no errors"),
            letters: [AtomicBool::new(false), AtomicBool::new(false)],
        })
    }

    fn post(&self, which: usize) {
        self.letters[which].store(true, Relaxed);
        self.netpoll.interrupt();
    }

    fn has_come(&self, which: usize) -> bool {
        self.letters[which].load(Relaxed)
    }

    /// Waits for an interrupt. If none ends the wait, it is a deadlock, which loom reports.
    fn wait(&self) {
        let mut poller = self.netpoll.try_poller().expect("nobody else polls");
        let result = poller.wait(None, &mut Vec::new());
        let result = result.expect("this kernel knows no errors");
        assert!(result.interrupted && !result.timed_out, "{result:?}");
    }
}

#[test]
fn an_interrupt_ends_the_wait() {
    explore(3, |turn| {
        let mock = Mock::new();
        let caller = mock.clone();
        let wait = move || {
            mock.wait();
            assert!(mock.has_come(0));
        };
        turn.race(wait, [move || caller.post(0)]);
    });
}

#[test]
fn a_thread_that_looks_before_it_waits_misses_nothing() {
    explore(3, |turn| {
        let mock = Mock::new();
        let caller = mock.clone();
        let wait = move || {
            let mut poller = mock.netpoll.try_poller().expect("nobody else polls");
            poller.prepare();
            if mock.has_come(0) {
                poller.cancel();
                drop(poller);
                // The interrupt may still be under way, and is for the next wait.
                mock.wait();
            } else {
                let result = poller.wait(None, &mut Vec::new());
                let result = result.expect("this kernel knows no errors");
                assert!(result.interrupted && mock.has_come(0));
            }
        };
        turn.race(wait, [move || caller.post(0)]);
    });
}

#[test]
fn two_interrupts_are_both_seen() {
    explore(2, |turn| {
        let mock = Mock::new();
        let callers = [0, 1].map(|which| {
            let mock = mock.clone();
            move || mock.post(which)
        });
        let wait = move || {
            while !(mock.has_come(0) && mock.has_come(1)) {
                mock.wait();
            }
        };
        turn.race(wait, callers);
    });
}

#[test]
fn a_source_is_registered_beside_a_thread_that_leaves() {
    explore(3, |turn| {
        let mock = Mock::new();
        let unheard = Arc::new(Flag::new(false));
        let told = unheard.clone();
        mock.netpoll.on_unheard(move || told.store(true, Observer));
        let registers = mock.netpoll.clone();
        let register = move || {
            let pipe = Pipe::default();
            Registration::new(&registers, &mut &pipe, Interest::READABLE)
        };
        let leave = move || {
            let mut poller = mock.netpoll.try_poller().expect("nobody else polls");
            poller.prepare();
            drop(poller);
            // Ordering: SeqCst: as in `Env::poll_as`.
            fence(SeqCst);
            mock.netpoll.has_sources()
        };
        let (sees_it, _sources) = turn.race(leave, [register]);
        let is_told = unheard.load(Observer);
        assert!(sees_it || is_told, "nobody knows of the source");
    });
}
