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
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::{Wake, Waker};

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

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn blocks() -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    // Fails if an operation of both directions waits for one of them alone. The kernel reports at
    // once that the source is writable, and nothing else.
    #[test]
    fn either_waits_for_both() {
        let netpoll = netpoll();
        let both = Interest::READABLE | Interest::WRITABLE;
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut cx = Context::from_waker(&waker);

        let (_here, registration, _there) = pair(&netpoll, both);
        assert!(registration.poll_io_either(&mut cx, blocks).is_pending());
        look(&netpoll);
        assert_eq!(wakes.0.swap(0, SeqCst), 1);

        let (_here, registration, _there) = pair(&netpoll, both);
        let mut either = pin!(registration.async_io_either(blocks));
        assert!(either.as_mut().poll(&mut cx).is_pending());
        look(&netpoll);
        assert_eq!(wakes.0.swap(0, SeqCst), 1);
    }

    // Fails if one of the directions is not asked for its interest.
    #[test]
    fn either_needs_both_directions() {
        let netpoll = netpoll();
        for interest in [Interest::READABLE, Interest::WRITABLE] {
            let (_here, registration, _there) = pair(&netpoll, interest);
            registration.expect_report();
            let refused = registration.try_io_either(|| Ok(())).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{interest:?}");
        }
    }

    // Fails if what is reported while the waker is registered is not looked for.
    #[test]
    fn what_comes_while_it_begins_to_wait_is_seen() {
        let netpoll = netpoll();
        let (_here, registration, mut there) = pair(&netpoll, Interest::READABLE);
        let polled = registration.poll_seen_by(READ, |_| {
            there.write_all(b"x")?;
            look(&netpoll);
            Ok(())
        });
        assert!(polled.is_ready());
    }

    // Fails if a source that has ended only blocks.
    #[test]
    fn a_try_after_the_end_is_its_error() {
        let netpoll = netpoll();
        let (_here, registration, _there) = pair(&netpoll, Interest::READABLE);
        netpoll.shut_down();
        let error = registration.try_seen(READ, || Ok(())).unwrap_err();
        assert!(crate::is_shut_down(&error), "{error}");
    }

    // Fails if a clear takes the end, which is reported once.
    #[test]
    fn the_end_stays_whoever_clears() {
        let netpoll = netpoll();
        let (_here, registration, there) = pair(&netpoll, Interest::READABLE);
        drop(there);
        look(&netpoll);
        let is_closed = || {
            let seen = registration.seen().unwrap().set();
            seen.contains(ReadySet::READ_CLOSED)
        };
        assert!(is_closed());
        assert!(registration.try_seen(READ, blocks).is_err());
        assert!(is_closed());
        registration.clear_seen(registration.seen().unwrap(), READ);
        assert!(is_closed());
    }

    // Fails if a source that was never tried counts as worth a try again, after what was reported
    // of it has been taken back.
    #[test]
    fn what_is_taken_back_is_not_tried() {
        let netpoll = netpoll();
        let both = Interest::READABLE | Interest::WRITABLE;
        let (_here, registration, mut there) = pair(&netpoll, both);
        there.write_all(b"x").unwrap();
        look(&netpoll);
        registration.clear_seen(registration.seen().unwrap(), READ.union(ReadySet::WRITABLE));
        let mut cx = Context::from_waker(Waker::noop());
        for direction in [Direction::Read, Direction::Write] {
            let polled = registration.poll_io(&mut cx, direction, || Ok(()));
            assert!(polled.is_pending(), "{direction:?}");
        }
    }

    // Fails if a report is expected of one direction alone.
    #[test]
    fn a_report_is_expected_of_both_directions() {
        let netpoll = netpoll();
        let both = Interest::READABLE | Interest::WRITABLE;
        let (_here, registration, _there) = pair(&netpoll, both);
        registration.expect_report();
        let mut cx = Context::from_waker(Waker::noop());
        for direction in [Direction::Read, Direction::Write] {
            let polled = registration.poll_io(&mut cx, direction, || Ok(()));
            assert!(polled.is_pending(), "{direction:?}");
        }
    }

    // Fails if an answer does not count as a report: a task that asks for a report would wait for
    // one that the kernel has given already, or never gives.
    #[test]
    fn an_answer_is_a_report() {
        let netpoll = netpoll();
        let (_here, registration, _there) = pair(&netpoll, Interest::WRITABLE);
        let mut cx = Context::from_waker(Waker::noop());
        let tried = registration.poll_io(&mut cx, Direction::Write, || Ok(()));
        assert!(tried.is_ready());
        assert!(
            registration
                .poll_ready(&mut cx, Direction::Write)
                .is_ready()
        );
    }

    // Fails if a waker that waits is not woken.
    #[test]
    fn an_end_that_is_noted_and_a_wake_reach_who_waits() {
        let netpoll = netpoll();
        let (_here, registration, _there) = pair(&netpoll, Interest::READABLE);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut cx = Context::from_waker(&waker);
        let mut poll = || registration.poll_ready(&mut cx, Direction::Read);
        assert!(poll().is_pending());
        registration.wake(Direction::Write);
        assert_eq!(wakes.0.swap(0, SeqCst), 0);
        registration.wake(Direction::Read);
        assert_eq!(wakes.0.swap(0, SeqCst), 1);
        assert!(poll().is_pending());
        registration.note_end(Direction::Read);
        assert_eq!(wakes.0.swap(0, SeqCst), 1);
        assert!(matches!(poll(), Poll::Ready(Ok(ready)) if ready.is_closed()));
    }

    // Fails if an answer that says nothing about what is left takes the readiness.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_transfer_of_nothing_or_of_the_most_is_not_short() {
        let netpoll = netpoll();
        let (_here, registration, mut there) = pair(&netpoll, crate::STREAM_INTEREST);
        there.write_all(b"x").unwrap();
        look(&netpoll);
        let mut cx = Context::from_waker(Waker::noop());
        // The kernel moves no more than this at a time.
        for moved in [0, 0x7fff_0000, 1] {
            let polled = registration.poll_read_with(&mut cx, 1 << 31, || Ok(moved));
            assert!(matches!(polled, Poll::Ready(Ok(n)) if n == moved));
        }
        let drained = registration.poll_read_with(&mut cx, 1 << 31, || Ok(1));
        assert!(drained.is_pending());
    }

    // Fails if the panic of a waker that waits comes out of the drop of its source.
    #[test]
    fn the_drop_bears_a_waker_that_panics() {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("expected");
            }
        }
        let netpoll = netpoll();
        let (_here, registration, _there) = pair(&netpoll, Interest::READABLE);
        let waker = Waker::from(Arc::new(Panics));
        let mut cx = Context::from_waker(&waker);
        assert!(
            registration
                .poll_ready(&mut cx, Direction::Read)
                .is_pending()
        );
        // The registration has the last one.
        drop(waker);
        drop(registration);
    }

    // Fails if the system's answer is lost.
    #[test]
    fn a_deregistration_that_is_refused_is_an_error() {
        struct Refuses;
        impl mio::event::Source for Refuses {
            fn register(
                &mut self,
                _: &mio::Registry,
                _: mio::Token,
                _: Interest,
            ) -> io::Result<()> {
                Ok(())
            }
            fn reregister(
                &mut self,
                _: &mio::Registry,
                _: mio::Token,
                _: Interest,
            ) -> io::Result<()> {
                Ok(())
            }
            fn deregister(&mut self, _: &mio::Registry) -> io::Result<()> {
                Err(io::ErrorKind::NotFound.into())
            }
        }
        let netpoll = netpoll();
        let registration = Registration::new(&netpoll, &mut Refuses, Interest::READABLE).unwrap();
        let answer = registration.deregister(&mut Refuses).unwrap_err();
        assert_eq!(answer.kind(), io::ErrorKind::NotFound);
        assert!(!netpoll.has_sources());
        assert!(
            registration.deregister(&mut Refuses).is_ok(),
            "it is done already"
        );
    }
}
