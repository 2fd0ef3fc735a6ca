//! Parking: `sched/park.rs`.
//!
//! | model | shows | bound | time | killed by it |
//! | --- | --- | --- | --- | --- |
//! | `an_unpark_ends_the_sleep` | one unpark, before, during or after the thread falls asleep, ends that sleep or the next; what its caller wrote is seen | 3 | TIME_A | `park_unpark_stores`, `park_asleep_stores`, `park_no_lock`, `park_unpark_relaxed` |
//! | `two_unparks_are_both_seen` | an unpark that found another's notification is not lost with it | 3 | TIME_B | `park_wake_up_relaxed` |
//! | `an_unpark_ends_the_wait_in_the_netpoll` | the same while the thread waits in the netpoll, which an event may end as well | 3 | TIME_C | `park_polling_not_interrupted`, `park_asleep_stores` |
//! | `a_timeout_keeps_an_unpark_that_came_too_late` | a sleep whose time was over takes the notification with it, or leaves it to the next sleep | 3 | TIME_D | `park_timeout_lies` |
//!
//! A sleep that nothing ends is a deadlock, which loom reports.
#![expect(unsafe_code, reason = "letters that only the protocol keeps apart")]

use std::{sync::Arc, time::Duration};

use super::explore;
use crate::{
    sched::park::Parker,
    sync::{
        Condvar, Mutex, UnsafeCell,
        atomic::{AtomicBool, Ordering::Relaxed},
        thread,
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

fn posting(sleeper: &Arc<Sleeper>, which: usize) -> thread::JoinHandle<()> {
    let sleeper = sleeper.clone();
    thread::spawn(move || sleeper.post(which))
}

#[test]
fn an_unpark_ends_the_sleep() {
    explore(3, || {
        let sleeper = Sleeper::new();
        let poster = posting(&sleeper, 0);
        sleeper.parker.park();
        sleeper.read(0);
        poster.join().unwrap();
    });
}

#[test]
fn two_unparks_are_both_seen() {
    explore(3, || {
        let sleeper = Sleeper::new();
        let posters = [posting(&sleeper, 0), posting(&sleeper, 1)];
        while !(sleeper.is_posted(0) && sleeper.is_posted(1)) {
            sleeper.parker.park();
        }
        for poster in posters {
            poster.join().unwrap();
        }
    });
}

#[test]
fn an_unpark_ends_the_wait_in_the_netpoll() {
    explore(3, || {
        let sleeper = Sleeper::new();
        let poster = posting(&sleeper, 0);
        let event = {
            let sleeper = sleeper.clone();
            thread::spawn(move || sleeper.netpoll.interrupt())
        };
        // The event may end one wait for nothing, and so may an interrupt that came too late.
        while !sleeper.is_posted(0) {
            sleeper.parker.park_polling(|| sleeper.netpoll.wait());
        }
        poster.join().unwrap();
        event.join().unwrap();
    });
}

#[test]
fn a_timeout_keeps_an_unpark_that_came_too_late() {
    explore(3, || {
        let sleeper = Sleeper::new();
        let poster = posting(&sleeper, 0);
        if sleeper.parker.park_timeout(Duration::ZERO) {
            let expired = sleeper.parker.park_timeout(Duration::MAX);
            assert!(!expired, "no time went by");
        }
        sleeper.read(0);
        poster.join().unwrap();
    });
}
