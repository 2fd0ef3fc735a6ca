//! One registered source: its readiness, and what waits for it.
//!
//! # The race
//!
//! A task that finds nothing ready, and a poller that brings an event, must not miss each other:
//!
//! | the task | the poller |
//! | --- | --- |
//! | 1. puts its waker in, under the lock | 1. notes the event in the word |
//! | 2. releases the lock, looks at the word again | 2. takes all wakers out, under the lock |
//!
//! If the task had the lock first, the poller finds its waker. If the poller had it first, then the
//! word was written before that, the lock carries it over, and the task's second look sees it. So
//! no fence is needed, and the same holds for a deregistration and for the shutdown, which both
//! write their bit first and take the wakers afterwards. A task that sees the event at its second
//! look goes on and leaves its waker behind: one wake-up too many, later, and never one too few.
//!
//! Checked by `models::source`; on a real kernel by `tests/netpoll/second_look_sees_what_came.rs`,
//! at that moment, and by `tests/netpoll/readiness_is_never_lost.rs` with two threads.
//!
//! # Locks
//!
//! The lock of the wakers is the innermost one: the poller takes it while it holds the table's, and
//! nothing is locked inside it. It is held for a few moves. Wakers are cloned before and dropped or
//! woken after (S8).
//!
//! Rejected: an atomic slot for a single waker a direction. It saves the lock, and has no place for
//! futures (see `wakers.rs`).

use std::error::Error;
use std::fmt;
use std::io;
use std::task::Waker;

use mio::{Interest, Token};

use crate::readiness::{Direction, ReadinessCell, Report, Snapshot};
use crate::sync::Mutex;
use crate::wakers::{Key, WakerSet};

#[derive(Debug)]
pub(crate) struct Source {
    /// Its place in the table; see `table.rs`.
    pub(crate) token: Token,
    pub(crate) interest: Interest,
    /// Its number in the process, or [`UNKNOWN`]: for those who want to see what a task waits for.
    /// By the standard library and not by `sync.rs`: it is in no protocol.
    pub(crate) descriptor: std::sync::atomic::AtomicI32,
    pub(crate) readiness: ReadinessCell,
    waiters: Mutex<Waiters>,
}

/// No descriptor has this number.
pub(crate) const UNKNOWN: i32 = -1;

/// What a waker waits for; see [`Netpoll::for_each_waiter`](crate::Netpoll::for_each_waiter).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// The number of the descriptor, if the registration was told it.
    pub descriptor: Option<i32>,
    /// What it is to be ready for.
    pub direction: Direction,
}

#[derive(Debug, Default)]
struct Waiters {
    read: WakerSet,
    write: WakerSet,
}

impl Waiters {
    fn of(&mut self, direction: Direction) -> &mut WakerSet {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }
}

impl Source {
    pub(crate) fn new(token: Token, interest: Interest) -> Self {
        Self {
            token,
            interest,
            descriptor: UNKNOWN.into(),
            readiness: ReadinessCell::fresh(interest),
            waiters: Mutex::default(),
        }
    }

    /// What is known of the source, or why nothing will be known any more.
    #[inline]
    pub(crate) fn look(&self) -> io::Result<Snapshot> {
        let snapshot = self.readiness.snapshot();
        if snapshot.is_ended() {
            return Err(ended(snapshot));
        }
        Ok(snapshot)
    }

    /// Step 1 of the race, for a poll function. The waker of the one before is dropped.
    pub(crate) fn wait(&self, direction: Direction, waker: &Waker) -> io::Result<()> {
        self.expect_interest(direction)?;
        let waker = waker.clone();
        let replaced = self.waiters.lock().of(direction).keep(waker);
        drop(replaced);
        Ok(())
    }

    /// Step 1 of the race, for a future.
    pub(crate) fn wait_at(
        &self,
        direction: Direction,
        key: &mut Option<Key>,
        waker: &Waker,
    ) -> io::Result<()> {
        self.expect_interest(direction)?;
        let waker = waker.clone();
        let replaced = self.waiters.lock().of(direction).keep_at(key, waker);
        drop(replaced);
        Ok(())
    }

    /// A future leaves.
    pub(crate) fn stop_waiting(&self, direction: Direction, key: &Key) {
        let removed = self.waiters.lock().of(direction).remove(key);
        drop(removed);
    }

    /// The poller's side of the race, and that of a caller that ends a direction. Moves wakers and
    /// runs nothing.
    #[inline]
    pub(crate) fn note(&self, report: Report, ready: &mut Vec<Waker>) {
        let report = report.within(self.interest);
        self.readiness.note(report);
        let mut waiters = self.waiters.lock();
        for direction in [Direction::Read, Direction::Write] {
            if report.concerns(direction) {
                waiters.of(direction).take_into(ready);
            }
        }
    }

    /// Moves out all waiters of a direction.
    pub(crate) fn take(&self, direction: Direction, ready: &mut Vec<Waker>) {
        self.waiters.lock().of(direction).take_into(ready);
    }

    /// Moves all waiters out, for an end that the caller has written to the word before.
    pub(crate) fn take_all(&self, ready: &mut Vec<Waker>) {
        let mut waiters = self.waiters.lock();
        waiters.read.take_into(ready);
        waiters.write.take_into(ready);
    }

    /// Calls `f` with each waker. The lock is held meanwhile.
    pub(crate) fn for_each_waiter(&self, f: &mut dyn FnMut(&Waker, Waiting)) {
        let descriptor = self.descriptor.load(std::sync::atomic::Ordering::Relaxed);
        let descriptor = (descriptor != UNKNOWN).then_some(descriptor);
        let mut waiters = self.waiters.lock();
        for direction in [Direction::Read, Direction::Write] {
            let waiting = Waiting {
                descriptor,
                direction,
            };
            waiters
                .of(direction)
                .for_each(&mut |waker| f(waker, waiting));
        }
    }

    /// A task that waits for what was not asked for would wait for ever.
    #[inline]
    pub(crate) fn expect_interest(&self, direction: Direction) -> io::Result<()> {
        if direction.is_in(self.interest) {
            Ok(())
        } else {
            Err(unasked())
        }
    }
}

#[cold]
fn unasked() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "the source is not registered for this direction",
    )
}

#[cold]
fn ended(snapshot: Snapshot) -> io::Error {
    if snapshot.is_shut_down() {
        shut_down_error()
    } else {
        io::Error::other("the source was deregistered from the netpoll")
    }
}

/// What every operation answers once the netpoll has ended.
pub(crate) fn shut_down_error() -> io::Error {
    io::Error::other(ShutDown)
}

#[derive(Debug)]
struct ShutDown;

impl fmt::Display for ShutDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime of this source was shut down")
    }
}

impl Error for ShutDown {}

/// Whether an error says that the netpoll has ended.
pub fn is_shut_down(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<ShutDown>())
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;

    // Without the counts of its `Arc`, which are 16 bytes more. Fails if something is put into it
    // that few need.
    #[test]
    fn a_source_is_small() {
        assert!(size_of::<Source>() <= 80, "{}", size_of::<Source>());
    }
}
