//! A descriptor in the netpoll: what every socket of `ws::net` is made of, and open to
//! users.
//!
//! # What it is for
//!
//! Anything that epoll and its like can watch becomes awaitable by it: sockets of other libraries,
//! pipes, eventfds, inotify, terminals. It joins three things that know nothing of each other: the
//! descriptor, its [`Registration`], and the cooperative budget of the executor.
//!
//! # One operation
//!
//! 1. In `poll_budgeted` only: if the direction does not count as ready, keep the waker; pending.
//! 2. Take a unit of the budget. None left: the task was woken already, and is pending (F2).
//! 3. Try, if the direction counts as ready. "Would block" clears the readiness and keeps the
//!    waker.
//! 4. Done, with success or an error: the unit is spent. Pending: it is given back.
//!
//! By `poll_budgeted` go [`AsyncFd::poll_ready`], reading TCP streams, and writing TCP and Unix
//! streams. What begins with step 2 goes by [`AsyncFd::poll_io`] (accepting, peeking, datagrams,
//! reading Unix streams, and reading and writing an `AsyncFd` itself), or is a future
//! ([`AsyncFd::io`], [`AsyncFd::ready`]). Flushing and closing never wait: they take their unit by
//! `poll_at_once`.
//!
//! Steps 1 and 3 are the registration's; why no edge and no waker is lost stands there. An edge
//! wakes all futures that wait for its direction, and the last task that polled it by a poll
//! function. So any number of tasks may await the same descriptor, and one task a direction may
//! poll it (`AsyncRead` and `AsyncWrite` poll).
//!
//! # The end
//!
//! The descriptor leaves the netpoll before it is closed or given back. A descriptor that is closed
//! first would stay in epoll for as long as a duplicate of it lives (in a child process, say), and
//! its number may be another's by then. How it leaves depends on how it came, by its number or as a
//! mio source with a way of its own, so the constructor leaves a function behind that knows. The
//! same goes for asking the system about a descriptor once more ([`AsyncFd::clear_ready`]).

use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::io::{AsyncRead, AsyncWrite};
use pin_project_lite::pin_project;
use ws_executor::{budget, task::coop};
use ws_reactor::{Direction, Interest, Netpoll, Ready, Registration, Source, Waiter};

use crate::by_reference;
use crate::current;
use crate::os::{self, AsRaw};

/// Most slices that one system call takes (`IOV_MAX` of Linux). std passes on no more.
const SLICES_MAX: usize = 1024;

/// The bytes that one vectored system call has room for. What lies behind [`SLICES_MAX`] slices is
/// not tried, so a transfer without it is not a short one.
#[doc(hidden)]
pub fn vectored_len(lens: impl Iterator<Item = usize>) -> usize {
    lens.take(SLICES_MAX).sum()
}

/// What is registered unless the user says otherwise.
const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// A descriptor or mio source that tasks can wait for.
///
/// The descriptor has to be in nonblocking mode. It stays with the runtime that is current when
/// this is made: once that is shut down, every operation that may wait is an error.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
/// use ws::io::{AsyncFd, Interest};
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let (here, mut there) = UnixStream::pair()?;
/// here.set_nonblocking(true)?;
/// let here = AsyncFd::new(here)?;
///
/// there.write_all(b"hello")?;
/// let mut buffer = [0; 16];
/// let read = here
///     .io(Interest::READABLE, || here.get_ref().read(&mut buffer))
///     .await?;
/// assert_eq!(&buffer[..read], b"hello");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AsyncFd<T> {
    registration: Registration,
    /// Present until [`AsyncFd::into_inner`].
    io: Option<T>,
    /// Takes the source out of the netpoll. See *The end*.
    leave: fn(&mut Registration, &mut T) -> io::Result<()>,
    /// Takes readiness back; see [`AsyncFd::clear_ready`].
    clear: fn(&Registration, &T, Ready),
}

impl<T: AsRaw> AsyncFd<T> {
    /// Registers a descriptor for reading and writing.
    ///
    /// Anything that has a descriptor will do, also a bare `RawFd`, which is left open when this
    /// is dropped. mio's own sources may go in here as well.
    ///
    /// The descriptor has to stay open until this is dropped. If a bare one is closed before, the
    /// system says nothing more about it: a task that waits goes on waiting, and the descriptor's
    /// number may soon be another's.
    ///
    /// # Errors
    ///
    /// What the system says: regular files and directories cannot be watched on Linux. An error of
    /// kind `Other` if the runtime was shut down.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn new(io: T) -> io::Result<Self> {
        Self::with_interest(io, BOTH)
    }

    /// Registers a descriptor for what `interest` says, and nothing else.
    ///
    /// # Errors
    ///
    /// As [`AsyncFd::new`].
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn with_interest(io: T, interest: Interest) -> io::Result<Self> {
        Self::on(&current::netpoll("ws::io::AsyncFd"), io, interest)
    }

    /// Registers a descriptor with the netpoll of some runtime.
    #[doc(hidden)]
    pub fn on(netpoll: &Arc<Netpoll>, io: T, interest: Interest) -> io::Result<Self> {
        Self::try_on(netpoll, io, interest).map_err(|(_, error)| error)
    }

    /// The same, and gives the descriptor back if there is no room for it.
    #[doc(hidden)]
    pub fn try_on(
        netpoll: &Arc<Netpoll>,
        io: T,
        interest: Interest,
    ) -> Result<Self, (T, io::Error)> {
        match os::register(netpoll, &io, interest) {
            Ok(registration) => Ok(Self {
                registration,
                io: Some(io),
                leave: os::leave,
                clear: os::clear_ready,
            }),
            Err(error) => Err((io, error)),
        }
    }
}

impl<T: Source> AsyncFd<T> {
    /// Registers a mio source in its own way, for reading and writing.
    ///
    /// For sources that are more than one descriptor, or hide it. For all others, [`AsyncFd::new`]
    /// does the same.
    ///
    /// # Errors
    ///
    /// What the source says, and an error of kind `Other` if the runtime was shut down.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn from_source(io: T) -> io::Result<Self> {
        Self::from_source_with_interest(io, BOTH)
    }

    /// Registers a mio source in its own way, for what `interest` says.
    ///
    /// # Errors
    ///
    /// As [`AsyncFd::from_source`].
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn from_source_with_interest(mut io: T, interest: Interest) -> io::Result<Self> {
        let netpoll = current::netpoll("ws::io::AsyncFd");
        Ok(Self {
            registration: Registration::new(&netpoll, &mut io, interest)?,
            io: Some(io),
            leave: |registration, io| registration.leave(io),
            clear: |registration, _, ready| registration.clear_ready(ready),
        })
    }
}

impl<T> AsyncFd<T> {
    /// Returns what was registered.
    #[inline]
    pub fn get_ref(&self) -> &T {
        present(self.io.as_ref())
    }

    /// Returns what was registered.
    ///
    /// Replacing it by another leaves that one unregistered, so that no task that waits is ever
    /// woken.
    pub fn get_mut(&mut self) -> &mut T {
        present(self.io.as_mut())
    }

    /// Takes the source out of the netpoll and gives it back, still in nonblocking mode.
    pub fn into_inner(mut self) -> T {
        self.leave();
        present(self.io.take())
    }

    /// Polls an operation: calls `f` whenever the descriptor may be ready for `interest`, until `f`
    /// says anything but [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// One waker a direction is kept for all poll functions of the descriptor: if several tasks
    /// poll the same direction, the last one is woken, and the others may wait for ever.
    /// [`AsyncFd::io`] serves any number of tasks. With an interest in both directions, `f` is
    /// called when either may be ready.
    ///
    /// `f` should try one operation and return its `WouldBlock` unchanged: readiness is forgotten
    /// on that word, and comes back with the next edge. With an interest in both directions that
    /// word may be about either, so readiness stays as it is, and `f` is called again after the
    /// next edge.
    ///
    /// # Errors
    ///
    /// What `f` says; an error of kind `Other` once the runtime was shut down; and
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for a direction that was not registered.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use std::io::Read;
    /// use std::os::unix::net::UnixStream;
    /// use ws::io::{AsyncFd, Interest};
    ///
    /// # ws::runtime::Runtime::new()?.block_on(async {
    /// let (here, there) = UnixStream::pair()?;
    /// here.set_nonblocking(true)?;
    /// let here = AsyncFd::new(here)?;
    /// drop(there);
    /// let mut byte = [0];
    /// let read = poll_fn(|cx| {
    ///     here.poll_io(cx, Interest::READABLE, || here.get_ref().read(&mut byte))
    /// });
    /// assert_eq!(read.await?, 0);
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let unit = ready!(coop::poll_proceed(cx));
        let answer = match direction(interest) {
            Some(direction) => self.registration.poll_io(cx, direction, f),
            None => self.registration.poll_io_either(cx, f),
        };
        settle(unit, answer)
    }

    /// Does an operation: calls `f` whenever the descriptor may be ready for `interest`, until `f`
    /// says anything but [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// # Errors
    ///
    /// As [`AsyncFd::poll_io`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, `f` has not succeeded.
    pub async fn io<R>(
        &self,
        interest: Interest,
        f: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        // A future takes its waker along when it is dropped; see `Registration`.
        match direction(interest) {
            Some(direction) => budgeted(self.registration.async_io(direction, f)).await,
            None => budgeted(self.registration.async_io_either(f)).await,
        }
    }

    /// A place among the waiters of a direction.
    #[doc(hidden)]
    pub fn waiter(&self, direction: Direction) -> Waiter<'_> {
        self.registration.waiter(direction)
    }

    /// Wakes all tasks that wait for a direction, for news that does not come from the system.
    #[doc(hidden)]
    pub fn wake(&self, direction: Direction) {
        self.registration.wake(direction);
    }

    /// Tells the tasks that wait for a direction that it was ended by `shutdown`; see *Closed* in
    /// `readiness.rs` of the reactor.
    #[doc(hidden)]
    pub fn note_end(&self, how: Shutdown) {
        if how != Shutdown::Write {
            self.registration.note_end(Direction::Read);
        }
        if how != Shutdown::Read {
            self.registration.note_end(Direction::Write);
        }
    }

    /// A read of a datagram by `recv`, or `end` where the receiving side has ended and nothing is
    /// left.
    #[doc(hidden)]
    pub fn recv_or_end<R>(
        &self,
        recv: impl FnOnce() -> io::Result<R>,
        end: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        // Asked before: what came between the try and the end would be lost.
        let has_ended = self.registration.is_closed(Direction::Read);
        match recv() {
            Err(error) if has_ended && error.kind() == io::ErrorKind::WouldBlock => end(),
            answer => answer,
        }
    }

    /// Tries an operation now.
    ///
    /// # Errors
    ///
    /// As [`AsyncFd::poll_io`]; and [`WouldBlock`](io::ErrorKind::WouldBlock) if the descriptor is
    /// not ready; then `f` may not have been called.
    pub fn try_io<R>(&self, interest: Interest, f: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        match direction(interest) {
            Some(direction) => self.registration.try_io(direction, f),
            None => self.registration.try_io_either(f),
        }
    }

    /// Waits until a direction may be ready, and says what is known of it.
    ///
    /// Any number of tasks may wait. Nothing is ready before the system has said so, also right
    /// after the registration.
    ///
    /// Ready means that an operation is worth trying. If a caller finds that it is not, it says so
    /// by [`AsyncFd::clear_ready`]; else this never waits again. [`AsyncFd::io`] does both.
    ///
    /// # Errors
    ///
    /// An error of kind `Other` once the runtime was shut down, and
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for a direction that was not registered.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn ready(&self, direction: Direction) -> io::Result<Ready> {
        budgeted(self.registration.readiness(direction)).await
    }

    /// Polls for readiness of a direction; see [`AsyncFd::ready`]. Of all tasks that poll for a
    /// direction, the last one is woken.
    ///
    /// # Errors
    ///
    /// As [`AsyncFd::ready`].
    pub fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<Ready>> {
        self.poll_budgeted(cx, direction, |registration, cx| {
            registration.poll_ready(cx, direction)
        })
    }

    /// Forgets a readiness that was found untrue, unless there was news since it was reported.
    ///
    /// Only right after an operation that would block: what is still there is not reported again.
    /// The end of what can be read or written is: a direction that is closed becomes ready again,
    /// and waits if it is not closed any more, as a FIFO that was opened by another writer. For
    /// this the system is asked once more. A source from [`AsyncFd::from_source`] cannot be asked
    /// about, and stays ready once it was closed, until an operation by [`AsyncFd::io`] or its like
    /// gets [`WouldBlock`](io::ErrorKind::WouldBlock) from the system.
    pub fn clear_ready(&self, ready: Ready) {
        (self.clear)(&self.registration, self.get_ref(), ready);
    }

    /// Does an operation once, whatever is known of readiness, which stays as it is.
    ///
    /// For the few that no event is ever about.
    #[doc(hidden)]
    pub async fn once<R>(&self, mut f: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        budgeted(poll_fn(|_| {
            // Asks only whether the runtime is still there: "not ready" is no objection.
            match self.registration.try_io(Direction::Write, || Ok(())) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => Poll::Ready(Err(error)),
                _ => Poll::Ready(f()),
            }
        }))
        .await
    }

    /// Returns the registration, for a caller that has a budget of its own.
    #[doc(hidden)]
    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    /// The same, beside what was registered.
    #[doc(hidden)]
    pub fn registration_and_mut(&mut self) -> (&Registration, &mut T) {
        (&self.registration, present(self.io.as_mut()))
    }

    /// Returns the netpoll of this descriptor, for others that shall join it.
    #[doc(hidden)]
    pub fn netpoll(&self) -> &Arc<Netpoll> {
        self.registration.netpoll()
    }

    /// Polls a read of at most `len` bytes from a TCP stream or pipe, where a short one spares the
    /// next system call. See `poll_read_with` of the registration for where it must not be used.
    #[inline]
    #[doc(hidden)]
    pub fn poll_read_short(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        f: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_budgeted(cx, Direction::Read, |registration, cx| {
            registration.poll_read_with(cx, len, f)
        })
    }

    /// Polls a write of at most `len` bytes to a byte stream, where a short one spares the next
    /// system call.
    #[inline]
    #[doc(hidden)]
    pub fn poll_write_short(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        f: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_budgeted(cx, Direction::Write, |registration, cx| {
            registration.poll_write_with(cx, len, f)
        })
    }

    #[inline]
    fn poll_budgeted<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        poll: impl FnOnce(&Registration, &mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        // Each request of a server ends with a read that finds nothing.
        if self.registration.poll_waits(cx, direction) {
            budget::waits();
            return Poll::Pending;
        }
        let unit = ready!(coop::poll_proceed(cx));
        let answer = poll(&self.registration, cx);
        settle(unit, answer)
    }

    fn leave(&mut self) {
        if let Some(io) = &mut self.io {
            // The registration is gone whatever the answer. An error says that the system does not
            // know the descriptor, because a user of a bare `RawFd` has closed it: then there is
            // nothing left to undo.
            let _gone_already = (self.leave)(&mut self.registration, io);
        }
    }
}

impl<T> Drop for AsyncFd<T> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[inline]
fn present<R>(io: Option<R>) -> R {
    io.expect("only `into_inner` takes it, and the whole with it")
}

/// An operation that never waits. It pays as the others do, or a loop around it would not end its
/// poll.
#[inline]
#[doc(hidden)]
pub fn poll_at_once<R>(
    cx: &mut Context<'_>,
    f: impl FnOnce() -> io::Result<R>,
) -> Poll<io::Result<R>> {
    ready!(coop::poll_proceed(cx)).made_progress();
    Poll::Ready(f())
}

/// The direction that an interest is about, unless it is about both.
fn direction(interest: Interest) -> Option<Direction> {
    // Urgent data and the like are read as well.
    let reads = interest != Interest::WRITABLE;
    match (reads, interest.is_writable()) {
        (true, true) => None,
        (true, false) => Some(Direction::Read),
        (false, _) => Some(Direction::Write),
    }
}

pin_project! {
    /// A future that takes a unit of the budget for each poll, and keeps it when it is ready.
    struct Budgeted<F> {
        #[pin]
        future: F,
    }
}

fn budgeted<F: Future>(future: F) -> Budgeted<F> {
    Budgeted { future }
}

/// Keeps the unit of an operation that is ready; one that is not waits for its source.
#[inline]
pub(crate) fn settle<R>(unit: budget::RestoreOnPending, answer: Poll<R>) -> Poll<R> {
    if answer.is_ready() {
        unit.made_progress();
    } else {
        budget::waits();
    }
    answer
}

impl<F: Future> Future for Budgeted<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let unit = ready!(coop::poll_proceed(cx));
        settle(unit, self.project().future.poll(cx))
    }
}

impl<T: fmt::Debug> fmt::Debug for AsyncFd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncFd")
            .field("io", self.get_ref())
            .field("registration", &self.registration)
            .finish()
    }
}

/// For what can be read by reference, such as pipes and streams of std.
impl<T> AsyncRead for &AsyncFd<T>
where
    for<'a> &'a T: Read,
{
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Interest::READABLE, || self.get_ref().read(buf))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Interest::READABLE, || {
            self.get_ref().read_vectored(bufs)
        })
    }
}

/// For what can be written by reference, such as pipes and streams of std.
///
/// Closing flushes and closes nothing: what closes a descriptor is its drop.
impl<T> AsyncWrite for &AsyncFd<T>
where
    for<'a> &'a T: Write,
{
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Interest::WRITABLE, || self.get_ref().write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Interest::WRITABLE, || {
            self.get_ref().write_vectored(bufs)
        })
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Mostly there is nothing to flush, and no reason to wait until there is room for more.
        match ready!(poll_at_once(cx, || self.get_ref().flush())) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.poll_io(cx, Interest::WRITABLE, || self.get_ref().flush())
            }
            answer => Poll::Ready(answer),
        }
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

// Nothing in here is pinned: operations go by reference.
impl<T> Unpin for AsyncFd<T> {}

by_reference! { impl[T] AsyncRead for AsyncFd<T> where { for<'a> &'a T: Read } }
by_reference! { impl[T] AsyncWrite for AsyncFd<T> where { for<'a> &'a T: Write } }
