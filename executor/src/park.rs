//! How a thread sleeps: on its own, or in the netpoll on behalf of all.
//!
//! A parker has one word and at most one thread that sleeps on it.
//!
//! | state | means | left by |
//! | --- | --- | --- |
//! | `EMPTY` | awake | its thread, which falls asleep; an unpark |
//! | `ASLEEP` | waits on the condition variable | an unpark |
//! | `POLLING` | waits in the netpoll | an unpark, or an event |
//! | `NOTIFIED` | an unpark came that was not consumed | its thread, which returns at once |
//!
//! *Invariant*: after an unpark the thread's current or next sleep ends. The thread falls asleep by
//! a compare-and-swap from `EMPTY`, and an unpark swaps `NOTIFIED` in. So one of the two sees the
//! other: the thread does not sleep, or the unpark learns where it sleeps and goes there. An
//! interrupt of the netpoll that comes too late ends the next wait there for nothing; every caller
//! looks again anyway.
//!
//! It is not `std::thread::park`: a task may use that for itself (a nested executor does), and
//! would eat our wake-ups. And a P changes its thread, so the parker must not know one.
//!
//! Checked by `models::park`.

use crate::sync::{
    Condvar, Mutex,
    atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire},
    },
};

const EMPTY: u32 = 0;
const ASLEEP: u32 = 1;
const POLLING: u32 = 2;
const NOTIFIED: u32 = 3;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Parker {
    state: AtomicU32,
    lock: Mutex<()>,
    condvar: Condvar,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU32::new(EMPTY),
            lock: Mutex::new(()),
            condvar: Condvar::new(),
        }
    }

    /// Sleeps until an unpark; at once if there was one.
    pub(crate) fn park(&self) {
        let mut guard = self.lock.lock();
        if self.fall_asleep(ASLEEP) {
            // Ordering: Acquire pairs with the unpark's release: what its caller wrote is seen.
            while self.state.load(Acquire) != NOTIFIED {
                guard = self.condvar.wait(guard);
            }
        }
        drop(guard);
        self.wake_up();
    }

    /// As [`park`](Self::park), but no longer than `timeout`. True if it was not unparked.
    pub(crate) fn park_timeout(&self, timeout: std::time::Duration) -> bool {
        let guard = self.lock.lock();
        if self.fall_asleep(ASLEEP) {
            // One wait is enough: a spurious return is a short sleep, and callers look again.
            drop(self.condvar.wait_timeout(guard, timeout));
        }
        !self.wake_up()
    }

    /// Waits in the netpoll, which is what `poll` does; unless there was an unpark. Whether there
    /// was one by the end.
    pub(crate) fn park_polling(&self, poll: impl FnOnce()) -> bool {
        if self.fall_asleep(POLLING) {
            poll();
        }
        self.wake_up()
    }

    /// Ends the current sleep, or the next one. `interrupt` gets a thread out of the netpoll.
    pub(crate) fn unpark(&self, interrupt: impl FnOnce()) {
        // Ordering: Release publishes what the caller wrote; Acquire sees the thread asleep.
        match self.state.swap(NOTIFIED, AcqRel) {
            ASLEEP => {
                // The lock is free once the sleeper waits, so the notification cannot fall between
                // its look at the state and its wait.
                drop(self.lock.lock());
                self.condvar.notify_all();
            }
            POLLING => interrupt(),
            _ => {}
        }
    }

    /// Whether the thread may sleep; not if it was notified.
    fn fall_asleep(&self, how: u32) -> bool {
        // Ordering: see the invariant; Acquire pairs with an unpark's release.
        self.state
            .compare_exchange(EMPTY, how, AcqRel, Acquire)
            .is_ok()
    }

    /// Consumes the notification. Whether there was one.
    pub(crate) fn wake_up(&self) -> bool {
        // Ordering: Acquire pairs with an unpark's release.
        self.state.swap(EMPTY, AcqRel) == NOTIFIED
    }
}

/// For virtual threads: see `sched/stepped.rs`.
#[cfg(any(test, feature = "sim"))]
impl Parker {
    /// Falls asleep for a thread that is not one: the next of its steps is due when
    /// [`is_notified`](Self::is_notified) says so, and begins with [`wake_up`](Self::wake_up).
    pub(crate) fn try_sleep(&self) -> bool {
        self.fall_asleep(ASLEEP)
    }

    /// As [`try_sleep`](Self::try_sleep), in the netpoll.
    pub(crate) fn try_sleep_polling(&self) -> bool {
        self.fall_asleep(POLLING)
    }

    pub(crate) fn is_notified(&self) -> bool {
        // Ordering: Acquire, as in `park`.
        self.state.load(Acquire) == NOTIFIED
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering::Relaxed},
        },
        thread,
        time::Duration,
    };

    use super::*;

    impl Parker {
        /// Whether a thread sleeps here, and was not woken.
        pub(crate) fn is_asleep(&self) -> bool {
            // Ordering: Acquire: what the thread did before is seen.
            self.state.load(Acquire) == ASLEEP
        }
    }

    const NEVER: fn() = || panic!("it does not wait in the netpoll");

    #[test]
    fn an_unpark_ends_one_sleep() {
        let parker = Arc::new(Parker::new());
        let said = Arc::new(AtomicBool::new(false));
        let sleeper = {
            let (parker, said) = (parker.clone(), said.clone());
            thread::spawn(move || {
                parker.park();
                said.load(Relaxed)
            })
        };
        while !parker.is_asleep() && !sleeper.is_finished() {
            thread::yield_now();
        }
        said.store(true, Relaxed);
        parker.unpark(NEVER);
        assert!(sleeper.join().unwrap(), "it woke up by itself");
        assert!(!parker.wake_up(), "the notification is used up");
    }

    #[test]
    fn an_unpark_that_comes_before_is_kept() {
        let parker = Parker::new();
        parker.unpark(NEVER);
        parker.park();
        assert!(!parker.wake_up());
        parker.unpark(NEVER);
        assert!(!parker.park_timeout(Duration::MAX), "it was unparked");
        assert!(parker.park_timeout(Duration::ZERO), "and is not any more");
        parker.unpark(NEVER);
        parker.park_polling(|| panic!("it goes on at once"));
        assert!(!parker.wake_up());
    }

    #[test]
    fn one_that_waits_in_the_netpoll_is_got_out_of_there() {
        let parker = Parker::new();
        let (polls, interrupts) = (Cell::new(0), Cell::new(0));
        let interrupt = || interrupts.set(interrupts.get() + 1);
        parker.park_polling(|| {
            polls.set(polls.get() + 1);
            parker.unpark(interrupt);
            // Once is enough.
            parker.unpark(interrupt);
        });
        assert_eq!((polls.get(), interrupts.get()), (1, 1));
        assert!(!parker.wake_up(), "the notification is used up");
        parker.park_polling(|| polls.set(polls.get() + 1));
        assert_eq!(polls.get(), 2);
    }
}
