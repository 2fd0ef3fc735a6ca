//! Parking: `park.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `an_unpark_ends_the_sleep` | one unpark before, during or after the thread falls asleep ends that sleep; what its caller wrote is seen | 3 | 0.1 | `park_asleep_stores`, `park_no_lock`, `park_unpark_relaxed`, `park_unpark_stores` |
//! | `two_unparks_are_both_seen` | an unpark that found the notification of another is not lost with it | 3 | 3.9 | `park_wake_up_relaxed` |
//! | `an_unpark_ends_the_wait_in_the_netpoll` | the same for a wait in the netpoll, which an event may end as well | 3 | 1.6 | `park_polling_not_interrupted` |
//! | `a_timeout_keeps_an_unpark_that_came_too_late` | a sleep whose time is over takes the notification with it, or leaves it to the next sleep | 3 | 0.1 | `park_timeout_lies` |
//!
//! A sleep that nothing ends is a deadlock, which loom reports.
#![expect(unsafe_code, reason = "letters that only the protocol keeps apart")]

use std::time::Duration;

use super::both_ways::explore;
use crate::{
    park::Parker,
    sync::{
        Arc, Condvar, Mutex, UnsafeCell,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

struct Sleeper {
    parker: Parker,
    /// Written before the unpark, by a thread for each.
    letters: [UnsafeCell<u32>; 2],
    posted: [AtomicBool; 2],
    netpoll: Netpoll,
}

/// What the netpoll does for a parker: a wait that an interrupt ends, also one that came before it.
struct Netpoll {
    interrupted: Mutex<bool>,
    changed: Condvar,
}

impl Netpoll {
    fn interrupt(&self) {
        *self.interrupted.lock() = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut interrupted = self.interrupted.lock();
        while !*interrupted {
            interrupted = self.changed.wait(interrupted);
        }
        *interrupted = false;
    }
}

impl Sleeper {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            parker: Parker::new(),
            letters: [UnsafeCell::new(0), UnsafeCell::new(0)],
            posted: [AtomicBool::new(false), AtomicBool::new(false)],
            netpoll: Netpoll {
                interrupted: Mutex::new(false),
                changed: Condvar::new(),
            },
        })
    }

    fn post(&self, which: usize) {
        // SAFETY: the reader comes after an unpark that follows this.
        self.letters[which].with_mut(|letter| unsafe { *letter = 7 });
        self.posted[which].store(true, Relaxed);
        self.parker.unpark(|| self.netpoll.interrupt());
    }

    fn is_posted(&self, which: usize) -> bool {
        self.posted[which].load(Relaxed)
    }

    /// What was written before an unpark is there after the sleep that it ended.
    fn read(&self, which: usize) {
        // SAFETY: the writer is done, as the sleep has ended.
        self.letters[which].with(|letter| assert_eq!(unsafe { *letter }, 7));
    }
}

#[test]
fn an_unpark_ends_the_sleep() {
    explore(3, |turn| {
        let sleeper = Sleeper::new();
        let sleeping = sleeper.clone();
        let sleep = move || {
            sleeping.parker.park();
            sleeping.read(0);
        };
        turn.race(sleep, [move || sleeper.post(0)]);
    });
}

#[test]
fn two_unparks_are_both_seen() {
    explore(3, |turn| {
        let sleeper = Sleeper::new();
        let sleeping = sleeper.clone();
        let sleep = move || {
            while !(sleeping.is_posted(0) && sleeping.is_posted(1)) {
                sleeping.parker.park();
            }
        };
        let posts = [0, 1].map(|which| {
            let sleeper = sleeper.clone();
            move || sleeper.post(which)
        });
        turn.race(sleep, posts);
    });
}

#[test]
fn an_unpark_ends_the_wait_in_the_netpoll() {
    explore(3, |turn| {
        let sleeper = Sleeper::new();
        let sleeping = sleeper.clone();
        let sleep = move || {
            // The event may end one wait for nothing, and so may an interrupt that came too late.
            while !sleeping.is_posted(0) {
                sleeping.parker.park_polling(|| sleeping.netpoll.wait());
            }
        };
        let post_or_event = [true, false].map(|post| {
            let sleeper = sleeper.clone();
            move || {
                if post {
                    sleeper.post(0);
                } else {
                    sleeper.netpoll.interrupt();
                }
            }
        });
        turn.race(sleep, post_or_event);
    });
}

#[test]
fn a_timeout_keeps_an_unpark_that_came_too_late() {
    explore(3, |turn| {
        let sleeper = Sleeper::new();
        let sleeping = sleeper.clone();
        let sleep = move || {
            if sleeping.parker.park_timeout(Duration::ZERO) {
                let expired = sleeping.parker.park_timeout(Duration::MAX);
                assert!(!expired, "no time went by");
            }
            sleeping.read(0);
        };
        turn.race(sleep, [move || sleeper.post(0)]);
    });
}
