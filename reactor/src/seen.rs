//! Readiness as tokio's API shows it: one set for both directions. A caller waits for a part of it.
//!
//! Everywhere else a direction is ready or not, and all that concerns it is one answer. A caller in
//! here waits for an error and for nothing else, or for either direction, and takes back what it
//! names. The rules for edges are those of `readiness.rs`; the order of steps that misses no waker
//! is that of `source.rs`.
//!
//! What is waited for has to be reported: that a fresh source is worth trying does not count here.
//! An owner that knows more of it says so ([`Registration::assume`]). One whose source answers
//! wrongly before its first event has no operation tried until then
//! ([`Registration::expect_report`]): a FIFO that no writer has opened yet reads as one that has
//! come to its end.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use crate::readiness::{Direction, ReadySet, Seen, Why};
use crate::registration::Registration;

impl Registration {
    /// What events have said so far.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Other` if the source was deregistered or the netpoll shut down.
    pub fn seen(&self) -> io::Result<Seen> {
        Ok(self.source().look()?.seen())
    }

    /// Counts as reported what the caller knows of a fresh source.
    pub fn assume(&self, known: ReadySet) {
        self.source().readiness.assume(known);
    }

    /// Has no operation of a fresh source tried before the first event says that it is ready.
    pub fn expect_report(&self) {
        self.source().readiness.expect_report();
    }

    /// Takes back a part of what was seen. Does nothing if an event has come since, and a closed
    /// direction stays closed.
    ///
    /// Only right after an operation that would block, as [`Registration::clear_ready`].
    pub fn clear_seen(&self, seen: Seen, part: ReadySet) {
        self.watch.rearm();
        self.source().readiness.clear_seen(seen, part, Why::Asked);
    }

    /// Polls until something of `wanted` is reported. Of all tasks that poll for a direction, the
    /// last one is woken.
    ///
    /// # Errors
    ///
    /// As [`Registration::poll_ready`].
    pub fn poll_seen(&self, cx: &mut Context<'_>, wanted: ReadySet) -> Poll<io::Result<Seen>> {
        self.poll_seen_by(wanted, |direction| {
            self.source().wait(direction, cx.waker())
        })
    }

    /// Waits until something of `wanted` is reported. Any number of tasks may wait.
    ///
    /// # Errors
    ///
    /// As [`Registration::poll_ready`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped; its wakers go with it.
    pub async fn wait_seen(&self, wanted: ReadySet) -> io::Result<Seen> {
        let mut read = self.waiter(Direction::Read);
        let mut write = self.waiter(Direction::Write);
        poll_fn(|cx| {
            self.poll_seen_by(wanted, |direction| match direction {
                Direction::Read => read.wait(cx),
                Direction::Write => write.wait(cx),
            })
        })
        .await
    }

    /// Tries an operation if something of `wanted` is reported, otherwise the answer is
    /// `ErrorKind::WouldBlock` at once. If `f` says so, what was reported of `wanted` is taken
    /// back. What was reported before the netpoll has ended is tried after that as well.
    ///
    /// # Errors
    ///
    /// What `f` says, `ErrorKind::WouldBlock`, and as [`Registration::seen`].
    pub fn try_seen<T>(
        &self,
        wanted: ReadySet,
        f: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let seen = self.source().readiness.snapshot().seen();
        if seen.set().intersection(wanted).is_empty() {
            self.seen()?;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        f().inspect_err(|error| {
            if error.kind() == io::ErrorKind::WouldBlock {
                // The operation is the user's: it may have asked about anything. So a direction
                // that is closed stays closed.
                self.watch.rearm();
                self.source().readiness.clear_seen(seen, wanted, Why::Asked);
            }
        })
    }

    /// `wait` puts the waker in.
    fn poll_seen_by(
        &self,
        wanted: ReadySet,
        mut wait: impl FnMut(Direction) -> io::Result<()>,
    ) -> Poll<io::Result<Seen>> {
        let look = || {
            let seen = self.seen()?;
            Ok((!seen.set().intersection(wanted).is_empty()).then_some(seen))
        };
        let found = |seen: Option<Seen>| seen.map_or(Poll::Pending, |seen| Poll::Ready(Ok(seen)));
        if let Some(seen) = look()? {
            return Poll::Ready(Ok(seen));
        }
        let source = self.source();
        let mut waits = false;
        for direction in [Direction::Read, Direction::Write] {
            if wanted.concerns(direction) && direction.is_in(source.interest) {
                wait(direction)?;
                waits = true;
            }
        }
        if !waits {
            // The error of a direction that was not asked for.
            for direction in [Direction::Read, Direction::Write] {
                source.expect_interest(direction)?;
            }
        }
        look().map_or_else(|error| Poll::Ready(Err(error)), found)
    }
}

#[cfg(all(test, unix, not(ws_loom)))]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Waker;

    use mio::Interest;

    use super::*;
    use crate::{Netpoll, SourceFd};

    const READ: ReadySet = ReadySet::READABLE.union(ReadySet::READ_CLOSED);

    fn netpoll() -> Arc<Netpoll> {
        Netpoll::new().unwrap()
    }

    fn look(netpoll: &Netpoll) {
        let mut ready = Vec::new();
        netpoll.try_poller().unwrap().look(&mut ready).unwrap();
        ready.into_iter().for_each(Waker::wake);
    }

    fn pair(netpoll: &Arc<Netpoll>, interest: Interest) -> (UnixStream, Registration, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let registration = Registration::new(netpoll, &mut SourceFd(&here.as_raw_fd()), interest);
        (here, registration.unwrap(), there)
    }

    // Fails if a fresh source counts as reported, and if a clear takes what it was not asked for.
    #[test]
    fn what_is_reported_is_tried_and_taken_back() {
        let netpoll = netpoll();
        let both = Interest::READABLE | Interest::WRITABLE;
        let (here, registration, mut there) = pair(&netpoll, both);
        let blocks = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        let read = |wanted| registration.try_seen(wanted, || (&here).read(&mut [0; 8]));
        assert!(blocks(registration.try_seen(READ, || Ok(())).unwrap_err()));
        there.write_all(b"x").unwrap();
        look(&netpoll);
        assert_eq!(read(READ).unwrap(), 1);
        assert!(blocks(read(READ).unwrap_err()));
        assert!(blocks(registration.try_seen(READ, || Ok(())).unwrap_err()));
        assert!(registration.try_seen(ReadySet::WRITABLE, || Ok(())).is_ok());
    }

    // Fails if either does nothing: a read that is tried finds the end of a FIFO that has no
    // writer.
    #[test]
    fn an_owner_says_what_it_knows() {
        let netpoll = netpoll();
        let (_here, registration, _there) = pair(&netpoll, Interest::READABLE);
        registration.assume(ReadySet::READABLE);
        assert!(registration.try_seen(READ, || Ok(())).is_ok());
        let (_here, registration, _there) = pair(&netpoll, Interest::READABLE);
        registration.expect_report();
        let mut cx = Context::from_waker(Waker::noop());
        let polled = registration.poll_io(&mut cx, Direction::Read, || Ok(()));
        assert!(polled.is_pending());
    }

    // Fails if a waiter for an error is satisfied by anything else, and if one waits for a
    // direction that was not asked for.
    #[test]
    fn a_waiter_waits_for_its_part() {
        let netpoll = netpoll();
        let (_here, registration, mut there) = pair(&netpoll, Interest::READABLE);
        let mut cx = Context::from_waker(Waker::noop());
        let mut error = pin!(registration.wait_seen(ReadySet::ERROR));
        let mut readable = pin!(registration.wait_seen(READ));
        assert!(error.as_mut().poll(&mut cx).is_pending());
        assert!(readable.as_mut().poll(&mut cx).is_pending());
        there.write_all(b"x").unwrap();
        look(&netpoll);
        assert!(error.as_mut().poll(&mut cx).is_pending());
        assert!(readable.as_mut().poll(&mut cx).is_ready());
        let refused = registration.poll_seen(&mut cx, ReadySet::WRITABLE);
        assert!(matches!(refused, Poll::Ready(Err(e)) if e.kind() == io::ErrorKind::InvalidInput));
        netpoll.shut_down();
        let ended = error.as_mut().poll(&mut cx);
        assert!(matches!(ended, Poll::Ready(Err(e)) if crate::is_shut_down(&e)));
    }
}
