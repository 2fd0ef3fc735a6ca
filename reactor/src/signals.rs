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

#[cfg(all(test, not(ws_loom)))]
mod tests {
    use std::io::{ErrorKind, Read};

    use super::*;

    fn listen(signals: &Signals, number: c_int) -> (u64, UnixStream) {
        let (tell, hears) = UnixStream::pair().unwrap();
        hears.set_nonblocking(true).unwrap();
        (signals.listen(number, tell), hears)
    }

    // Fails if the number of a listener is given again while it is there.
    #[test]
    fn each_listener_is_forgotten_by_itself() {
        let signals = Signals::default();
        let (first, _) = listen(&signals, 1);
        let (_second, mut hears) = listen(&signals, 1);
        signals.forget(first);
        let (third, mut is_gone) = listen(&signals, 1);
        signals.forget(third);
        signals.raise(1);
        assert_eq!(hears.read(&mut [0; 8]).unwrap(), 1);
        assert_eq!(is_gone.read(&mut [0; 8]).unwrap(), 0);
    }

    // Fails if a signal is heard by a listener of another, and if one that was listened for once
    // ends the program again.
    #[test]
    fn a_signal_is_heard_by_its_own_and_for_ever() {
        let signals = Signals::default();
        let (one, mut hears) = listen(&signals, 1);
        assert!(!signals.raise(2));
        let nothing = hears.read(&mut [0; 8]).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        signals.forget(one);
        assert!(signals.raise(1));
    }
}
