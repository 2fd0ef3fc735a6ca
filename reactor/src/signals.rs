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
    collections::BTreeSet,
    io::Write,
    os::{raw::c_int, unix::net::UnixStream},
    sync::{Mutex, PoisonError},
};

/// The listeners of one runtime.
#[derive(Debug, Default)]
pub struct Signals {
    listeners: Mutex<Listeners>,
}

#[derive(Debug, Default)]
struct Listeners {
    all: Vec<Listener>,
    /// The signals that anything has ever listened for.
    heard: BTreeSet<c_int>,
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
        let Listeners { all, heard } = &mut *self.lock();
        let id = all.last().map_or(0, |last| last.id + 1);
        all.push(Listener { id, number, tell });
        heard.insert(number);
        id
    }

    /// Ends what [`listen`](Self::listen) has begun.
    pub fn forget(&self, id: u64) {
        let mut listeners = self.lock();
        let all = &mut listeners.all;
        let place = all.iter().position(|one| one.id == id);
        let gone = place.map(|place| all.remove(place));
        drop(listeners);
        drop(gone);
    }

    /// Tells all that listen for this signal. False if nothing does and nothing ever did: the
    /// signal then does what it does in a process without a handler. A handler stays, as in a real
    /// process.
    pub fn raise(&self, number: c_int) -> bool {
        let Listeners { all, heard } = &*self.lock();
        for one in all.iter().filter(|one| one.number == number) {
            // If there is no room, bytes wait there already.
            let _ = (&one.tell).write(b"X");
        }
        heard.contains(&number)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Listeners> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
