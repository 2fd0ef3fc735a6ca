//! Signals of a process that is simulated.
//!
//! A real process has one table of signals, and so has all that runs in it. A simulated host is a
//! process of its own: its runtime has a table here, beside its netpoll. Whoever simulates it
//! raises a signal in that table, and each listener gets a byte, as from a real handler.
//!
//! Rejected: the process's own table, with a check of whose listener each is. It is shared with
//! simulations that run beside this one, and what a handler writes to does not tell its owner.
//!
//! Checked by `sim/tests/signals.rs`.

use std::{
    io::Write,
    os::{raw::c_int, unix::net::UnixStream},
    sync::{Mutex, PoisonError},
};

/// The listeners of one runtime.
#[derive(Debug, Default)]
pub struct Signals {
    listeners: Mutex<Vec<Listener>>,
}

#[derive(Debug)]
struct Listener {
    id: u64,
    number: c_int,
    tell: UnixStream,
}

impl Signals {
    /// Writes a byte to `tell` for each signal of this number, until [`forget`](Self::forget) is
    /// called with the answer. It is in nonblocking mode.
    pub fn listen(&self, number: c_int, tell: UnixStream) -> u64 {
        let mut all = self.lock();
        let id = all.last().map_or(0, |last| last.id + 1);
        all.push(Listener { id, number, tell });
        id
    }

    /// Ends what [`listen`](Self::listen) has begun.
    pub fn forget(&self, id: u64) {
        let mut all = self.lock();
        let place = all.iter().position(|one| one.id == id);
        let gone = place.map(|place| all.remove(place));
        drop(all);
        drop(gone);
    }

    /// Tells all that listen for this signal, and how many these are.
    pub fn raise(&self, number: c_int) -> usize {
        let all = self.lock();
        let told = all.iter().filter(|one| one.number == number);
        // If there is no room, bytes wait there already.
        told.map(|one| drop((&one.tell).write(b"X"))).count()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Listener>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
