//! A source in the netpoll, and how tasks wait for it.
//!
//! # What it is for
//!
//! A socket is registered once, for edges, for both directions, and stays so for its life. After
//! that its owner does not talk to epoll any more: operations are tried first, and only one that is
//! told "would block" waits for the next edge. A task that writes to a socket with room in it, or
//! reads what is there, pays one system call and one load of the readiness word.
//!
//! # The loop
//!
//! Every operation, in `poll_io` as in `async_io`, goes through the same steps:
//!
//! 1. Take a snapshot of the readiness word. Ended: an error. Not ready: to 4.
//! 2. Try. Anything but "would block" is the answer.
//! 3. Clear the readiness of the snapshot, unless an event has come since (then to 1).
//! 4. Put the waker in, and take another snapshot. An event since step 1: to 1. Otherwise pending.
//!
//! Step 4 asks for an event *since*, and not whether the direction is ready: a direction that is
//! closed stays ready. An operation may say "would block" all the same, for reasons of its own (a
//! TLS record that is not complete). Then the loop would spin.
//!
//! Why no edge is lost between these steps stands in `readiness.rs` (a late clear) and in
//! `source.rs` (a late waker).
//!
//! # Poll functions and futures
//!
//! Poll functions serve one task a direction: the last that polled is woken. Futures serve any
//! number, and a future takes its waker along when it is dropped. Traits such as `AsyncRead` go by
//! [`Registration::poll_io`], since they have no place for a waker. `async fn`s go by
//! [`Registration::async_io`], and a future or stream that is written by hand goes by a [`Waiter`].
//!
//! # Fresh sources
//!
//! Nothing is known of a source that was registered just now. An operation is tried, since that
//! tells more than a look at epoll and is often the whole work. But a caller that asks for
//! readiness itself waits for the first event, which the kernel sends for what it finds at the
//! registration: until an event came, or an operation had an answer, a source is not ready. The
//! word has a bit a direction for this; see `readiness.rs`.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll};

use mio::Interest;

use crate::kernel::Source as Pollable;
use crate::netpoll::Netpoll;
use crate::os::Watch;
use crate::readiness::{Direction, Ready, Report, Snapshot, Why};
use crate::source::Source;
use crate::sync::Arc;
use crate::wakers::{Key, quietly};

/// A source that is registered with a [`Netpoll`], and the readiness of its two directions.
///
/// It does not own the source, and removing a source from epoll needs the source. So the owner
/// calls [`Registration::leave`], or [`Registration::deregister`] if others may wait for it, before
/// the source is closed or given away. A drop without it only takes away the token: the kernel
/// forgets a descriptor when its last duplicate is closed, and events that come until then are
/// ignored.
///
/// # Examples
///
/// ```
/// use std::future::Future;
/// use std::io::{Read, Write};
/// use std::os::{fd::AsRawFd, unix::net::UnixStream};
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
/// use ws_reactor::{Direction, Netpoll, Registration, STREAM_INTEREST, SourceFd};
///
/// let netpoll = Netpoll::new()?;
/// let (here, mut there) = UnixStream::pair()?;
/// here.set_nonblocking(true)?;
/// let registration = Registration::new(&netpoll, &mut SourceFd(&here.as_raw_fd()), STREAM_INTEREST)?;
///
/// let mut cx = Context::from_waker(Waker::noop());
/// let mut buffer = [0; 16];
/// {
///     let mut read = pin!(registration.async_io(Direction::Read, || (&here).read(&mut buffer)));
///     assert!(read.as_mut().poll(&mut cx).is_pending());
///
///     there.write_all(b"hello")?;
///     let mut ready = Vec::new();
///     let result = netpoll.try_poller().expect("nobody else polls").wait(None, &mut ready)?;
///     assert!(result.events);
///     ready.into_iter().for_each(Waker::wake);
///     assert!(matches!(read.as_mut().poll(&mut cx), Poll::Ready(Ok(5))));
/// }
/// assert_eq!(&buffer[..5], b"hello");
/// registration.deregister(&mut SourceFd(&here.as_raw_fd()))?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Registration {
    netpoll: Arc<Netpoll>,
    source: Arc<Source>,
    /// What the system wants to be told after "would block". Told before a clear.
    pub(crate) watch: Watch,
}

// No user code runs in the middle of a change of it, so a panic leaves nothing half done.
impl UnwindSafe for Registration {}
impl RefUnwindSafe for Registration {}

impl Registration {
    /// Registers a source, once and for all, edge-triggered.
    ///
    /// Operations are tried before any task waits. Readiness itself begins with the first event,
    /// which the kernel sends at once for what is ready already. A stream should be connected, or
    /// connecting, by now: epoll reports one that is neither as hung up.
    ///
    /// # Errors
    ///
    /// What the system says (regular files can not be registered, and there is a limit for each
    /// user), and `ErrorKind::Other` if the netpoll was shut down.
    pub fn new(
        netpoll: &Arc<Netpoll>,
        source: &mut impl Pollable,
        interest: Interest,
    ) -> io::Result<Registration> {
        // Made first, so that every return from here on takes the entry out of the table again.
        let registration = Registration {
            netpoll: netpoll.clone(),
            source: netpoll.table.insert(interest)?,
            watch: Watch::none(),
        };
        source.register(netpoll.registry(), registration.source.token, interest)?;
        netpoll.registered();
        Ok(registration)
    }

    /// Takes the source out of the netpoll, and wakes all tasks that wait for it. Their operations,
    /// and all later ones, fail with `ErrorKind::Other`.
    ///
    /// Again, it does nothing.
    ///
    /// # Errors
    ///
    /// What the system says. The registration is gone all the same.
    ///
    /// A panic of a waker goes no further than the panic hook.
    pub fn deregister(&self, source: &mut impl Pollable) -> io::Result<()> {
        if !self.source.readiness.deregister() {
            return Ok(());
        }
        let answer = source.deregister(self.netpoll.registry());
        drop(self.netpoll.table.remove(&self.source));
        let mut waiting = Vec::new();
        self.source.take_all(&mut waiting);
        self.netpoll.wake_all(waiting);
        answer
    }

    /// Takes the source out of the netpoll, for an owner that nobody shares it with: no task is
    /// woken. The wakers that poll functions have left behind are dropped with this value. Whoever
    /// drops a socket may hold a lock that its waker takes.
    ///
    /// # Errors
    ///
    /// What the system says. The registration is gone all the same.
    pub fn leave(&mut self, source: &mut impl Pollable) -> io::Result<()> {
        if !self.source.readiness.deregister() {
            return Ok(());
        }
        source.deregister(self.netpoll.registry())
    }

    /// Notes the number of the source's descriptor, which
    /// [`Netpoll::for_each_waiter`](crate::Netpoll::for_each_waiter) tells.
    pub fn note_descriptor(&self, descriptor: i32) {
        let place = &self.source.descriptor;
        place.store(descriptor, std::sync::atomic::Ordering::Relaxed);
    }

    /// Returns the netpoll of this source.
    pub fn netpoll(&self) -> &Arc<Netpoll> {
        &self.netpoll
    }

    /// Polls for readiness in a direction: perhaps an operation will succeed now.
    ///
    /// Of all tasks that poll for a direction, the last one is woken. [`Registration::readiness`]
    /// serves any number of them.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Other` if the source was deregistered or the netpoll shut down,
    /// `ErrorKind::InvalidInput` if the interest does not include the direction.
    pub fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<Ready>> {
        let mut snapshot = self.source.look()?;
        if !snapshot.is_reported(direction) {
            self.source.wait(direction, cx.waker())?;
            snapshot = self.source.look()?;
        }
        if snapshot.is_reported(direction) {
            Poll::Ready(Ok(snapshot.ready(direction)))
        } else {
            Poll::Pending
        }
    }

    /// Waits for readiness in a direction: perhaps an operation will succeed then.
    ///
    /// Any number of tasks may wait; all of them are woken.
    ///
    /// # Errors
    ///
    /// As [`Registration::poll_ready`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped; its waker goes with it.
    pub fn readiness(&self, direction: Direction) -> Readiness<'_> {
        Readiness {
            waiter: self.waiter(direction),
        }
    }

    /// A place among the waiters of a direction, for a future or stream that is written by hand.
    pub fn waiter(&self, direction: Direction) -> Waiter<'_> {
        Waiter {
            registration: self,
            direction,
            key: None,
        }
    }

    /// Wakes all tasks that wait for a direction, as an event does, and changes nothing else: for
    /// news that does not come from the system.
    ///
    /// A panic of a waker goes no further than the panic hook.
    pub fn wake(&self, direction: Direction) {
        let mut waiting = Vec::new();
        self.source.take(direction, &mut waiting);
        self.netpoll.wake_all(waiting);
    }

    /// Notes that the caller has ended a direction, just before: wakes all tasks that wait for it,
    /// and has operations be tried from now on. The system does not report each such end.
    ///
    /// A panic of a waker goes no further than the panic hook.
    pub fn note_end(&self, direction: Direction) {
        let mut waiting = Vec::new();
        self.source.note(Report::end_of(direction), &mut waiting);
        self.netpoll.wake_all(waiting);
    }

    /// Whether a direction is known to be closed.
    ///
    /// For reads of datagrams, which ask before they try: behind the end the system says `EAGAIN`
    /// to them for ever.
    pub fn is_closed(&self, direction: Direction) -> bool {
        let snapshot = self.source.readiness.snapshot();
        snapshot.ready(direction).is_closed()
    }

    /// Takes back what `ready` says, for a caller that has found it untrue. Does nothing if an
    /// event has come since, and a closed direction stays ready.
    ///
    /// Only right after an operation that would block: a direction that is cleared while there is
    /// still something to read is not reported again.
    pub fn clear_ready(&self, ready: Ready) {
        self.watch.rearm();
        self.source.readiness.clear(ready, Why::Asked);
    }

    /// The same for a caller that has the source at hand: then the kernel is asked again whether a
    /// closed direction is closed, and the direction stays ready no longer than that. One system
    /// call, for a closed direction only.
    pub fn clear_ready_of(&self, ready: Ready, source: &mut impl Pollable) {
        let Source {
            token, interest, ..
        } = *self.source;
        let registry = self.netpoll.registry();
        // The kernel reports what holds now as an event of its own. If it refuses, the direction
        // stays ready, and the next operation meets the error.
        let why = if ready.is_closed() && source.reregister(registry, token, interest).is_ok() {
            Why::Reported
        } else {
            Why::Asked
        };
        self.source.readiness.clear(ready, why);
    }

    /// Tries an operation now. `f` is called if the direction is ready, otherwise the answer is
    /// `ErrorKind::WouldBlock` at once; and if `f` says so, readiness is cleared.
    ///
    /// # Errors
    ///
    /// What `f` says, `ErrorKind::WouldBlock`, and as [`Registration::poll_ready`].
    pub fn try_io<T>(
        &self,
        direction: Direction,
        f: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let snapshot = self.source.look()?;
        if !snapshot.is_ready(direction) {
            self.source.expect_interest(direction)?;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let answer = f();
        if let Err(error) = &answer
            && error.kind() == io::ErrorKind::WouldBlock
        {
            self.clear_blocked(snapshot.ready(direction), error);
        }
        answer
    }

    /// Polls for whether there is nothing to try in a direction: then the waker is kept until the
    /// next edge, or until another task polls.
    ///
    /// False if an operation is worth trying, or fails because the source or the netpoll has ended.
    /// A caller that counts its operations asks this first, since one that is not tried costs
    /// nothing.
    #[inline]
    pub fn poll_waits(&self, cx: &mut Context<'_>, direction: Direction) -> bool {
        let waits = |snapshot: Snapshot| !snapshot.is_ready(direction) && !snapshot.is_ended();
        waits(self.source.readiness.snapshot())
            && self.source.wait(direction, cx.waker()).is_ok()
            && waits(self.source.readiness.snapshot())
    }

    /// Polls an operation: calls `f` until it says anything but `ErrorKind::WouldBlock`, whenever
    /// the direction is ready.
    ///
    /// Of all tasks that poll for a direction, the last one is woken. [`Registration::async_io`]
    /// and [`Waiter::poll_io`] serve any number of them.
    ///
    /// # Errors
    ///
    /// What `f` says, and as [`Registration::poll_ready`].
    #[inline]
    pub fn poll_io<T>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut f: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.poll_attempts(cx, direction, |_| f())
    }

    /// Does an operation: calls `f` until it says anything but `ErrorKind::WouldBlock`, whenever
    /// the direction is ready.
    ///
    /// # Errors
    ///
    /// What `f` says, and as [`Registration::poll_ready`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, `f` has not succeeded.
    pub async fn async_io<T>(
        &self,
        direction: Direction,
        mut f: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        self.attempts(direction, |_| f()).await
    }

    /// Tries an operation that may be about either direction, if one is ready, as
    /// [`Registration::try_io`] does; but readiness stays, see [`Registration::poll_io_either`].
    ///
    /// # Errors
    ///
    /// As [`Registration::try_io`].
    pub fn try_io_either<T>(&self, mut f: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let snapshot = self.source.look()?;
        if let Some(answer) = self.attempt_either(snapshot, &mut f) {
            return answer;
        }
        self.source.expect_interest(Direction::Read)?;
        self.source.expect_interest(Direction::Write)?;
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Polls an operation that may be about either direction, as [`Registration::poll_io`] does.
    ///
    /// Its "would block" does not say which direction it is about, so it clears nothing: the other
    /// one may have an edge that no caller has seen. Then it waits for the next edge of either,
    /// although one may count as ready.
    ///
    /// # Errors
    ///
    /// As [`Registration::poll_io`].
    pub fn poll_io_either<T>(
        &self,
        cx: &mut Context<'_>,
        mut f: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let attempt = |snapshot| self.attempt_either(snapshot, &mut f);
        self.try_or_wait(attempt, || {
            self.source.wait(Direction::Read, cx.waker())?;
            self.source.wait(Direction::Write, cx.waker())
        })
    }

    /// [`Registration::poll_io_either`] as a future.
    ///
    /// # Errors
    ///
    /// As [`Registration::async_io`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, `f` has not succeeded.
    pub async fn async_io_either<T>(&self, mut f: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut read = self.waiter(Direction::Read);
        let mut write = self.waiter(Direction::Write);
        poll_fn(|cx| {
            let attempt = |snapshot| self.attempt_either(snapshot, &mut f);
            self.try_or_wait(attempt, || {
                read.wait(cx)?;
                write.wait(cx)
            })
        })
        .await
    }

    /// The loop, for poll functions.
    #[inline]
    pub(crate) fn poll_attempts<T>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut attempt: impl FnMut(Ready) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.try_or_wait(
            |snapshot| self.attempt(snapshot, direction, &mut attempt),
            || self.source.wait(direction, cx.waker()),
        )
    }

    /// The loop. `wait` puts the waker in.
    #[inline]
    fn try_or_wait<T>(
        &self,
        mut attempt: impl FnMut(Snapshot) -> Option<io::Result<T>>,
        mut wait: impl FnMut() -> io::Result<()>,
    ) -> Poll<io::Result<T>> {
        let mut snapshot = self.source.look()?;
        loop {
            if let Some(answer) = attempt(snapshot) {
                return Poll::Ready(answer);
            }
            wait()?;
            let again = self.source.look()?;
            if !again.is_newer_than(snapshot) {
                return Poll::Pending;
            }
            snapshot = again;
        }
    }

    /// The loop, for futures.
    pub(crate) async fn attempts<T>(
        &self,
        direction: Direction,
        mut attempt: impl FnMut(Ready) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut waiter = self.waiter(direction);
        poll_fn(|cx| waiter.poll_attempts(cx, &mut attempt)).await
    }

    /// Steps 2 and 3. `None` if there is nothing to do but wait.
    #[inline]
    fn attempt<T>(
        &self,
        snapshot: Snapshot,
        direction: Direction,
        attempt: &mut impl FnMut(Ready) -> io::Result<T>,
    ) -> Option<io::Result<T>> {
        if !snapshot.is_ready(direction) {
            return None;
        }
        let seen = snapshot.ready(direction);
        match attempt(seen) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.clear_blocked(seen, &error);
                None
            }
            answer => {
                if !snapshot.is_reported(direction) {
                    self.source.readiness.answered(direction);
                }
                Some(answer)
            }
        }
    }

    /// Clears after an operation that would block, and as much as its error is worth: one that
    /// comes from the kernel has a number, and knows of everything; one that the operation made up
    /// does not.
    fn clear_blocked(&self, seen: Ready, error: &io::Error) {
        let why = match error.raw_os_error() {
            Some(_) => Why::KernelWouldBlock,
            None => Why::Asked,
        };
        self.watch.rearm();
        self.source.readiness.clear(seen, why);
    }

    /// Step 2 of an operation that may be about either direction. `None` if there is nothing to do
    /// but wait.
    fn attempt_either<T>(
        &self,
        snapshot: Snapshot,
        f: &mut impl FnMut() -> io::Result<T>,
    ) -> Option<io::Result<T>> {
        if !snapshot.is_ready(Direction::Read) && !snapshot.is_ready(Direction::Write) {
            return None;
        }
        match f() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.watch.rearm();
                None
            }
            answer => Some(answer),
        }
    }

    #[inline]
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Wakers that poll functions have left behind go with the source, not under the table's
        // lock. Their drop is user code.
        drop(self.netpoll.table.remove(&self.source));
        let mut left = Vec::new();
        self.source.take_all(&mut left);
        for waker in left {
            quietly(|| drop(waker));
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("interest", &self.source.interest)
            .field("readiness", &self.source.readiness)
            .finish_non_exhaustive()
    }
}

/// A place among the waiters of a direction of a source; from [`Registration::waiter`].
///
/// Any number of them may wait at once, and each leaves when it is dropped.
#[derive(Debug)]
pub struct Waiter<'a> {
    registration: &'a Registration,
    direction: Direction,
    /// Our waker's place, if we have waited.
    key: Option<Key>,
}

impl Waiter<'_> {
    /// Polls an operation, as [`Registration::poll_io`] does.
    ///
    /// # Errors
    ///
    /// As [`Registration::poll_io`].
    pub fn poll_io<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut f: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.poll_attempts(cx, &mut |_| f())
    }

    fn poll_attempts<T>(
        &mut self,
        cx: &mut Context<'_>,
        attempt: &mut impl FnMut(Ready) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let (registration, direction) = (self.registration, self.direction);
        registration.try_or_wait(
            |snapshot| registration.attempt(snapshot, direction, attempt),
            || self.wait(cx),
        )
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        if let Poll::Ready(answer) = self.look() {
            return Poll::Ready(answer);
        }
        self.wait(cx)?;
        // Ready or not, the waker stays until the drop.
        self.look()
    }

    fn look(&self) -> Poll<io::Result<Ready>> {
        let snapshot = self.registration.source.look()?;
        if snapshot.is_reported(self.direction) {
            Poll::Ready(Ok(snapshot.ready(self.direction)))
        } else {
            Poll::Pending
        }
    }

    pub(crate) fn wait(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let source = &self.registration.source;
        source.wait_at(self.direction, &mut self.key, cx.waker())
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            let source = &self.registration.source;
            source.stop_waiting(self.direction, key);
        }
    }
}

/// Waits until a direction of a source is ready; from [`Registration::readiness`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Readiness<'a> {
    waiter: Waiter<'a>,
}

impl Future for Readiness<'_> {
    type Output = io::Result<Ready>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.waiter.poll_ready(cx)
    }
}
