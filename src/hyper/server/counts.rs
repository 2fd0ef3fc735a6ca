//! What a server counts, and what a socket learns of its requests.
//!
//! The numbers order nothing: each waits behind an `AtomicWaker` or a lock, which do.

use std::{
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::Waker,
};

use futures::task::AtomicWaker;

use super::{BoxError, OnError};

/// What a server counts. A clone counts the same.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    accepted: AtomicU64,
    open: AtomicU64,
    requests: AtomicU64,
    in_flight: AtomicU64,
    /// Of the servers that wait for room: a server and its clones.
    room: Mutex<Vec<Waker>>,
}

impl Numbers {
    fn room(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Returns how many connections were accepted so far.
    pub fn connections_accepted(&self) -> u64 {
        self.0.accepted.load(Relaxed)
    }

    /// Returns how many connections are open, upgraded ones among them.
    pub fn connections_open(&self) -> u64 {
        self.0.open.load(Relaxed)
    }

    /// Returns how many requests came so far.
    pub fn requests(&self) -> u64 {
        self.0.requests.load(Relaxed)
    }

    /// Returns how many requests are being answered: they are with the service, or their answer is
    /// being sent.
    pub fn requests_in_flight(&self) -> u64 {
        self.0.in_flight.load(Relaxed)
    }

    /// Has the server come again when a connection has ended.
    pub(super) fn wake_for_room(&self, waker: &Waker) {
        // Made and dropped under no lock: a waker may be code of the user's.
        let waker = waker.clone();
        let mut room = self.0.room();
        let known = room.iter().any(|it| it.will_wake(&waker));
        let spare = if known {
            Some(waker)
        } else {
            room.push(waker);
            None
        };
        drop(room);
        drop(spare);
    }

    /// Counts a connection, as open until the token is dropped, and as one of `busy` while it is
    /// not idle.
    pub(super) fn connection(&self, busy: &Arc<AtomicUsize>, on_error: OnError) -> Arc<Open> {
        self.0.accepted.fetch_add(1, Relaxed);
        self.0.open.fetch_add(1, Relaxed);
        Arc::new(Open {
            counts: self.0.clone(),
            busy: busy.clone(),
            answering: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            upgraded: AtomicBool::new(false),
            tunnels: AtomicBool::new(false),
            reader: AtomicWaker::new(),
            on_error,
        })
    }
}

/// A connection that is open.
#[derive(Debug)]
pub(super) struct Open {
    counts: Arc<Numbers>,
    /// How many connections of the same [`Server::serve`](super::Server::serve) are not idle.
    busy: Arc<AtomicUsize>,
    /// How many tokens there are of [`Busy`].
    answering: AtomicU64,
    /// The parts of answers that hyper has and has not sent.
    unsent: AtomicU64,
    /// How often hyper was given such a part, or has sent some of one.
    steps: AtomicU64,
    /// Its stream is the service's.
    upgraded: AtomicBool,
    /// A stream within it, of HTTP/2, is or was the service's.
    tunnels: AtomicBool,
    /// Of a read that waits while a request is in flight.
    reader: AtomicWaker,
    on_error: OnError,
}

impl Open {
    pub(super) fn is_answering(&self) -> bool {
        self.answering.load(Relaxed) > 0
    }

    /// Has a read come again when nothing is in flight any more.
    pub(super) fn wake_when_answered(&self, waker: &Waker) {
        self.reader.register(waker);
        // An answer that ends now has changed the number before it wakes: either it finds the
        // waker, or this finds the number (`AtomicWaker`).
        if !self.is_answering() {
            self.reader.wake();
        }
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.unsent.load(Relaxed) > 0
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Relaxed)
    }

    pub(super) fn tell(&self, error: BoxError) {
        self.on_error.tell(error);
    }

    pub(super) fn upgrade(&self) {
        self.upgraded.store(true, Relaxed);
    }

    pub(super) fn is_upgraded(&self) -> bool {
        self.upgraded.load(Relaxed)
    }

    pub(super) fn add_tunnel(&self) {
        self.tunnels.store(true, Relaxed);
    }

    pub(super) fn has_tunnels(&self) -> bool {
        self.tunnels.load(Relaxed)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Relaxed);
        let waiting = mem::take(&mut *self.counts.room());
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// What keeps a connection from being idle, until it is dropped.
#[derive(Debug)]
pub(super) struct Busy(Arc<Open>);

impl Busy {
    pub(super) fn new(open: Arc<Open>) -> Self {
        if open.answering.fetch_add(1, Relaxed) == 0 {
            open.busy.fetch_add(1, Relaxed);
        }
        Self(open)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.answering.fetch_sub(1, Relaxed) == 1 {
            self.0.busy.fetch_sub(1, Relaxed);
            self.0.reader.wake();
        }
    }
}

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight(Busy);

impl InFlight {
    pub(super) fn new(open: Arc<Open>) -> Self {
        open.counts.requests.fetch_add(1, Relaxed);
        open.counts.in_flight.fetch_add(1, Relaxed);
        Self(Busy::new(open))
    }
}

impl InFlight {
    pub(super) fn open(&self) -> &Open {
        &self.0.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.open().counts.in_flight.fetch_sub(1, Relaxed);
    }
}

/// A part of an answer that hyper has and has not sent, until it is dropped.
#[derive(Debug)]
pub(super) struct Unsent(Arc<InFlight>);

impl Unsent {
    pub(super) fn new(in_flight: Arc<InFlight>) -> Self {
        let this = Self(in_flight);
        this.open().unsent.fetch_add(1, Relaxed);
        this.step();
        this
    }

    /// Some of it is sent.
    pub(super) fn step(&self) {
        self.open().steps.fetch_add(1, Relaxed);
    }

    fn open(&self) -> &Open {
        self.0.open()
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.open().unsent.fetch_sub(1, Relaxed);
    }
}
