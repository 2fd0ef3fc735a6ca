//! What all sockets have in common: a descriptor in the netpoll of `ws`, with tokio's budget and
//! tokio's errors.
//!
//! Operations go by the registration and not by [`AsyncFd`], whose operations take their unit from
//! the budget of `ws`: a task of tokio's has tokio's, and may be `unconstrained` by it.
//!
//! Whatever waits for readiness itself, or tries by the readiness that was reported, goes by
//! `Registration::poll_seen` and its like. All others try a fresh socket at once, where tokio waits
//! for its first event.

use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    panic::{RefUnwindSafe, UnwindSafe},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use socket2::SockRef;
use tokio_real::task::coop::poll_proceed;
use ws_executor::budget;
use ws_net::AsyncFd;
use ws_reactor::{Direction, Netpoll, ReadySet, Registration, Seen, is_shut_down};

use crate::{
    io::{Interest, Ready},
    runtime::{self, SHUTTING_DOWN},
};

/// What a socket is registered for, but for TCP streams: those have urgent data as well.
pub(crate) const BOTH: ws_reactor::Interest =
    ws_reactor::Interest::READABLE.add(ws_reactor::Interest::WRITABLE);

/// What an accepted connection is assumed to be: there may be data, and there is room.
pub(crate) const ACCEPTED: ReadySet = ReadySet::READABLE.union(ReadySet::WRITABLE);

/// Connections that the system takes before we do.
pub(crate) const BACKLOG: i32 = 1024;

/// Takes a connection, which is in nonblocking mode.
pub(crate) fn accept(listener: &impl AsFd) -> io::Result<(socket2::Socket, socket2::SockAddr)> {
    let listener = SockRef::from(listener);
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    return listener.accept4(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    {
        let (socket, peer) = listener.accept()?;
        socket.set_nonblocking(true)?;
        Ok((socket, peer))
    }
}

/// A descriptor in the netpoll.
pub(crate) struct Socket<S> {
    fd: AsyncFd<S>,
}

// As the registration is. What the descriptor is does not matter, as in tokio.
impl<S> UnwindSafe for Socket<S> {}
impl<S> RefUnwindSafe for Socket<S> {}

/// The netpoll of the current runtime.
///
/// # Panics
///
/// If there is no runtime, or it has no I/O.
#[track_caller]
pub(crate) fn netpoll() -> Arc<Netpoll> {
    runtime::io_handle();
    ws_net::current::netpoll("tokio")
}

/// An error of `ws`, in tokio's words.
pub(crate) fn error(error: io::Error) -> io::Error {
    if is_shut_down(&error) {
        io::Error::other(SHUTTING_DOWN)
    } else {
        error
    }
}

/// The same for an operation that was tried: "would block" has no number of the system.
fn error_of_try(cause: io::Error) -> io::Error {
    match cause.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::WouldBlock.into(),
        _ => error(cause),
    }
}

/// Registering a descriptor that blocks is a mistake, which tokio looks for in debug builds.
#[track_caller]
pub(crate) fn expect_nonblocking(socket: &impl AsFd) -> io::Result<()> {
    debug_assert!(
        SockRef::from(socket).nonblocking()?,
        "Registering a blocking socket with the tokio runtime is unsupported. See \
         github.com/tokio-rs/tokio/issues/7172 for details."
    );
    Ok(())
}

/// Polls an operation with a unit of the budget.
#[inline]
pub(crate) fn poll_budgeted<R>(
    cx: &mut Context<'_>,
    poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<R>>,
) -> Poll<io::Result<R>> {
    let unit = ready!(poll_proceed(cx));
    match poll(cx) {
        Poll::Ready(answer) => {
            unit.made_progress();
            Poll::Ready(answer.map_err(error))
        }
        Poll::Pending => {
            budget::waits();
            Poll::Pending
        }
    }
}

impl<S: AsRawFd> Socket<S> {
    /// Registers a descriptor with the current runtime.
    #[track_caller]
    pub(crate) fn new(io: S, interest: ws_reactor::Interest) -> io::Result<Self> {
        Self::on(&netpoll(), io, interest)
    }

    pub(crate) fn on(
        netpoll: &Arc<Netpoll>,
        io: S,
        interest: ws_reactor::Interest,
    ) -> io::Result<Self> {
        Self::try_on(netpoll, io, interest).map_err(|(_, error)| error)
    }

    pub(crate) fn try_on(
        netpoll: &Arc<Netpoll>,
        io: S,
        interest: ws_reactor::Interest,
    ) -> Result<Self, (S, io::Error)> {
        match AsyncFd::try_on(netpoll, io, interest) {
            Ok(fd) => Ok(Self { fd }),
            Err((io, cause)) => Err((io, error(cause))),
        }
    }
}

impl<S> Socket<S> {
    pub(crate) fn of(fd: AsyncFd<S>) -> Self {
        Self { fd }
    }

    /// Counts as ready, as tokio does for a connection that was just made.
    pub(crate) fn assume(self, known: ReadySet) -> Self {
        self.registration().assume(known);
        self
    }

    /// Waits for the first event before it tries anything: for a FIFO, and for a source of an
    /// unknown state.
    pub(crate) fn expect_report(self) -> Self {
        self.registration().expect_report();
        self
    }

    #[inline]
    pub(crate) fn get(&self) -> &S {
        self.fd.get_ref()
    }

    pub(crate) fn get_mut(&mut self) -> &mut S {
        self.fd.get_mut()
    }

    pub(crate) fn into_inner(self) -> S {
        self.fd.into_inner()
    }

    pub(crate) fn netpoll(&self) -> &Arc<Netpoll> {
        self.fd.netpoll()
    }

    #[inline]
    pub(crate) fn registration(&self) -> &Registration {
        self.fd.registration()
    }

    /// Wakes the tasks that wait for a direction that was ended by `shutdown`.
    pub(crate) fn note_end(&self, how: std::net::Shutdown) {
        self.fd.note_end(how);
    }

    /// See `AsyncFd::recv_or_end`.
    pub(crate) fn recv_or_end<R>(
        &self,
        recv: impl FnOnce() -> io::Result<R>,
        end: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        self.fd.recv_or_end(recv, end)
    }

    /// Polls an operation. Of all tasks that poll for a direction, the last one is woken.
    #[inline]
    pub(crate) fn poll<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_if_ready(cx, direction, |registration, cx| {
            registration.poll_io(cx, direction, f)
        })
    }

    /// Polls a read where a short one tells that there is no more: TCP streams and pipes.
    #[inline]
    pub(crate) fn poll_read_short(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        f: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_if_ready(cx, Direction::Read, |registration, cx| {
            registration.poll_read_with(cx, len, f)
        })
    }

    /// Polls a write to a stream of bytes.
    #[inline]
    pub(crate) fn poll_write_short(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        f: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_if_ready(cx, Direction::Write, |registration, cx| {
            registration.poll_write_with(cx, len, f)
        })
    }

    #[inline]
    fn poll_if_ready<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        poll: impl FnOnce(&Registration, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        // What is not tried costs nothing.
        if self.registration().poll_waits(cx, direction) {
            budget::waits();
            return Poll::Pending;
        }
        poll_budgeted(cx, |cx| poll(self.registration(), cx))
    }

    /// Does an operation, for any number of tasks.
    pub(crate) async fn io<R>(
        &self,
        direction: Direction,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        let mut waiter = self.registration().waiter(direction);
        poll_fn(|cx| poll_budgeted(cx, |cx| waiter.poll_io(cx, &mut f))).await
    }

    /// Does an operation of the user's.
    pub(crate) async fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            wait(self.registration(), interest).await?;
            let unit = poll_fn(poll_proceed).await;
            match self.try_io(interest, &mut f) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                answer => {
                    unit.made_progress();
                    return answer;
                }
            }
        }
    }

    /// Tries an operation by what was reported.
    pub(crate) fn try_io<R>(
        &self,
        interest: Interest,
        f: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        self.registration()
            .try_seen(interest.wanted(), f)
            .map_err(error_of_try)
    }

    /// Tries an operation that changes what the descriptor is, by what was reported.
    pub(crate) fn try_io_mut<R>(
        &mut self,
        interest: Interest,
        f: impl FnOnce(&mut S) -> io::Result<R>,
    ) -> io::Result<R> {
        let (registration, io) = self.fd.registration_and_mut();
        registration
            .try_seen(interest.wanted(), || f(io))
            .map_err(error_of_try)
    }

    /// Waits for what is reported of an interest.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let seen = wait(self.registration(), interest).await?;
        Ok(ready_of(seen, interest.wanted()))
    }

    /// Polls for what is reported.
    pub(crate) fn poll_wait(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
    ) -> Poll<io::Result<Seen>> {
        poll_budgeted(cx, |cx| {
            self.registration().poll_seen(cx, interest.wanted())
        })
    }

    pub(crate) fn clear(&self, seen: Seen, part: Ready) {
        self.registration().clear_seen(seen, part.0);
    }
}

/// Waits for what is reported, for any number of tasks.
///
/// It takes no unit of the budget, as in tokio, whose users poll it in loops. It knows the
/// registration and not the socket, so that it is `Send` for a descriptor that is not `Sync`.
pub(crate) async fn wait(registration: &Registration, interest: Interest) -> io::Result<Seen> {
    let mut seen = pin!(registration.wait_seen(interest.wanted()));
    let seen = poll_fn(|cx| {
        let seen = seen.as_mut().poll(cx);
        if seen.is_pending() {
            budget::waits();
        }
        seen
    });
    seen.await.map_err(error)
}

/// What was seen of what is wanted.
pub(crate) fn ready_of(seen: Seen, wanted: ReadySet) -> Ready {
    Ready(seen.set().intersection(wanted))
}

impl<S: fmt::Debug> fmt::Debug for Socket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl<S: AsFd> AsFd for Socket<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.get().as_fd()
    }
}

impl<S: AsRawFd> AsRawFd for Socket<S> {
    fn as_raw_fd(&self) -> RawFd {
        self.get().as_raw_fd()
    }
}
