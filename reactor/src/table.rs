//! The table of registered sources: from the token in an event to the source that it is about.
//!
//! # Tokens
//!
//! ```text
//!  63                32 31                 0      (half and half of a usize)
//! +--------------------+--------------------+
//! |     generation     |       index        |
//! +--------------------+--------------------+
//! ```
//!
//! The kernel hands back the token of a registration with each of its events, and an event may be
//! older than the table. It was fetched, then its source was taken out and the index given to
//! another. Or the descriptor was duplicated, and epoll goes on reporting an open file that its
//! owner thinks closed. So a token carries a generation, from one counter that each registration
//! moves on, and an event finds its source only if the whole token is equal. The counter wraps
//! after 2^32 registrations (2^16 where a `usize` has 32 bits). Should a stale event meet its own
//! number again, it sets a ready bit that is not true, which costs one system call.
//!
//! The two highest indices are never given out; their tokens belong to the netpoll itself.
//!
//! # One lock for a batch
//!
//! Events come up to a thousand at once, so the table is locked once for all of them, and then each
//! is an index, a comparison and two short steps at the source. Wakers are moved to the caller's
//! vector, and the caller wakes them when all locks are free (S8). A registration that comes in the
//! middle of such a batch waits for some microseconds.
//!
//! Rejected: pointers as tokens, which save the table and the comparison. They need a list of
//! sources to free after the batch, and `unsafe`; the lookup is not where the time goes.

use std::io;
use std::task::Waker;

use mio::{Interest, Token};
use slab::Slab;

use crate::kernel::Event;
use crate::readiness::Report;
use crate::source::{Source, Waiting, shut_down_error};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex};

const INDEX_BITS: u32 = usize::BITS / 2;
const INDEX_MASK: usize = (1 << INDEX_BITS) - 1;

/// A thread interrupts the poller.
pub(crate) const INTERRUPT: Token = Token(INDEX_MASK);
/// The timer of the poller went off.
pub(crate) const ALARM: Token = Token(INDEX_MASK - 1);
/// How many sources there can be.
const SOURCES_MAX: usize = INDEX_MASK - 1;

#[derive(Debug, Default)]
pub(crate) struct Table {
    inner: Mutex<Inner>,
    /// The number of entries, for callers that only want to know whether there are any. Written
    /// under the lock.
    len: AtomicUsize,
    /// A look makes sense without an entry as well.
    #[cfg(windows)]
    expects_completions: crate::sync::atomic::AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    sources: Slab<Arc<Source>>,
    generation: usize,
    is_shut_down: bool,
}

/// What a batch held besides sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The timer's event.
    pub(crate) alarm: bool,
    /// The event of an interrupt. It only ends the wait: the flag in `netpoll.rs` is what counts.
    pub(crate) interrupt: bool,
}

impl Table {
    pub(crate) fn has_sources(&self) -> bool {
        // Relaxed: an answer about a moment that is over. A thread that has just registered a
        // source and waits for it is on the way to look at the netpoll anyway.
        let len = self.len.load(Ordering::Relaxed);
        #[cfg(windows)]
        let len = len + usize::from(self.expects_completions.load(Ordering::Relaxed));
        len != 0
    }

    /// See [`Netpoll::expects_completions`](crate::Netpoll::expects_completions).
    #[cfg(windows)]
    pub(crate) fn expects_completions(&self) {
        self.expects_completions.store(true, Ordering::Relaxed);
    }

    /// Makes a new entry with a token of its own.
    pub(crate) fn insert(&self, interest: Interest) -> io::Result<Arc<Source>> {
        let mut inner = self.inner.lock();
        if inner.is_shut_down {
            return Err(shut_down_error());
        }
        let index = inner.sources.vacant_key();
        if index >= SOURCES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                "the netpoll has no token left for another source",
            ));
        }
        inner.generation = inner.generation.wrapping_add(1);
        let token = Token((inner.generation << INDEX_BITS) | index);
        let source = Arc::new(Source::new(token, interest));
        inner.sources.insert(source.clone());
        self.len.store(inner.sources.len(), Ordering::Relaxed);
        Ok(source)
    }

    /// Takes an entry out, if it is still in. The caller drops what comes back without a lock held.
    #[must_use = "what comes back is dropped after the lock is released"]
    pub(crate) fn remove(&self, source: &Source) -> Option<Arc<Source>> {
        let mut inner = self.inner.lock();
        let index = source.token.0 & INDEX_MASK;
        if inner.sources.get(index)?.token != source.token {
            return None;
        }
        let removed = inner.sources.remove(index);
        self.len.store(inner.sources.len(), Ordering::Relaxed);
        Some(removed)
    }

    /// Brings a batch of events to their sources. Wakers are appended to `ready`.
    pub(crate) fn dispatch<'a>(
        &self,
        events: impl Iterator<Item = &'a Event>,
        ready: &mut Vec<Waker>,
    ) -> Seen {
        let mut seen = Seen::default();
        // Locked when the first source comes: a lone interrupt or alarm does without.
        let mut inner = None;
        for event in events {
            match event.token() {
                ALARM => seen.alarm = true,
                INTERRUPT => seen.interrupt = true,
                token => {
                    let inner = inner.get_or_insert_with(|| self.inner.lock());
                    if let Some(source) = inner.sources.get(token.0 & INDEX_MASK)
                        && source.token == token
                    {
                        source.note(Report::of(event), ready);
                    }
                }
            }
        }
        seen
    }

    /// Calls `f` with each waker. The lock is held meanwhile.
    pub(crate) fn for_each_waiter(&self, f: &mut dyn FnMut(&Waker, Waiting)) {
        let inner = self.inner.lock();
        for (_, source) in &inner.sources {
            source.for_each_waiter(f);
        }
    }

    /// Ends every source, and lets no new one in. The caller wakes what comes back.
    #[must_use = "who waits has to be woken"]
    pub(crate) fn shut_down(&self) -> Vec<Waker> {
        let mut ready = Vec::new();
        let mut inner = self.inner.lock();
        inner.is_shut_down = true;
        for (_, source) in &inner.sources {
            source.readiness.shut_down();
            source.take_all(&mut ready);
        }
        ready
    }
}
