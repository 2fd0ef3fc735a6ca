//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/unix/).
#![expect(
    unsafe_code,
    reason = "tokio's signatures: the descriptor has to stay open, which the caller promises"
)]

use std::{
    error::Error,
    fmt,
    future::poll_fn,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    task::{Context, Poll},
};

use tokio_real::task::coop::poll_proceed;
use ws_reactor::Seen;

use crate::{
    io::{Interest, Ready},
    net::{
        island,
        socket::{Socket, netpoll, ready_of, wait},
    },
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/unix/struct.AsyncFd.html).
pub struct AsyncFd<T: AsRawFd> {
    io: Socket<T>,
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/unix/struct.AsyncFdReadyGuard.html).
#[must_use = "You must explicitly choose whether to clear the readiness state by calling a method on ReadyGuard"]
pub struct AsyncFdReadyGuard<'a, T: AsRawFd> {
    async_fd: &'a AsyncFd<T>,
    event: Event,
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/unix/struct.AsyncFdReadyMutGuard.html).
#[must_use = "You must explicitly choose whether to clear the readiness state by calling a method on ReadyGuard"]
pub struct AsyncFdReadyMutGuard<'a, T: AsRawFd> {
    async_fd: &'a mut AsyncFd<T>,
    event: Event,
}

/// What was seen, and what of it was not taken back yet.
struct Event {
    seen: Seen,
    ready: Ready,
}

impl Event {
    fn new(seen: Seen, interest: Interest) -> Self {
        let ready = ready_of(seen, interest.wanted());
        Self { seen, ready }
    }

    /// Takes back also what the guard was not asked for, if it was reported by then. As in tokio.
    fn clear<T>(&mut self, io: &Socket<T>, part: Ready) {
        io.clear(self.seen, part);
        self.ready = self.ready - part;
    }
}

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

impl<T: AsRawFd> AsyncFd<T> {
    /// Registers a descriptor for reading and writing.
    ///
    /// # Errors
    ///
    /// What the system says, with the descriptor.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    ///
    /// # Safety
    ///
    /// The descriptor stays open, and the same, for as long as `inner` is in here.
    #[track_caller]
    pub unsafe fn register(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::join(inner, BOTH)
    }

    /// Registers a descriptor for an interest.
    ///
    /// # Errors
    ///
    /// What the system says, with the descriptor.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    ///
    /// # Safety
    ///
    /// As [`register`](Self::register).
    #[track_caller]
    pub unsafe fn register_with_interest(
        inner: T,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::join(inner, interest)
    }

    #[track_caller]
    fn join(inner: T, interest: Interest) -> Result<Self, AsyncFdRegisterError<T>> {
        match Socket::try_on(&netpoll(), inner, interest.asked()) {
            Ok(io) => Ok(Self {
                io: io.expect_report(),
            }),
            Err((inner, cause)) => Err(AsyncFdRegisterError { inner, cause }),
        }
    }

    /// Registers a descriptor for reading and writing.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[deprecated(note = "unsound due to lack of I/O safety; use `AsyncFd::register` instead")]
    #[track_caller]
    pub fn new(inner: T) -> io::Result<Self> {
        Ok(Self::join(inner, BOTH)?)
    }

    /// Registers a descriptor for an interest.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[deprecated(
        note = "unsound due to lack of I/O safety; use `AsyncFd::register_with_interest` instead"
    )]
    #[track_caller]
    pub fn with_interest(inner: T, interest: Interest) -> io::Result<Self> {
        Ok(Self::join(inner, interest)?)
    }

    /// Registers a descriptor for reading and writing.
    ///
    /// # Errors
    ///
    /// What the system says, with the descriptor.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[deprecated(note = "unsound due to lack of I/O safety; use `AsyncFd::register` instead")]
    #[track_caller]
    pub fn try_new(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::join(inner, BOTH)
    }

    /// Registers a descriptor for an interest.
    ///
    /// # Errors
    ///
    /// What the system says, with the descriptor.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[deprecated(
        note = "unsound due to lack of I/O safety; use `AsyncFd::register_with_interest` instead"
    )]
    #[track_caller]
    pub fn try_with_interest(
        inner: T,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::join(inner, interest)
    }

    /// What was registered.
    pub fn get_ref(&self) -> &T {
        self.io.get()
    }

    /// What was registered.
    pub fn get_mut(&mut self) -> &mut T {
        self.io.get_mut()
    }

    /// Gives back what was registered.
    pub fn into_inner(self) -> T {
        self.io.into_inner()
    }

    /// Polls for reading. Of all tasks that do, the last one is woken.
    ///
    /// # Errors
    ///
    /// If the runtime ends.
    pub fn poll_read_ready<'a>(
        &'a self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        self.poll_ready(cx, Interest::READABLE)
            .map_ok(|event| self.guard(event))
    }

    /// Polls for reading. Of all tasks that do, the last one is woken.
    ///
    /// # Errors
    ///
    /// If the runtime ends.
    pub fn poll_read_ready_mut<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        self.poll_ready(cx, Interest::READABLE)
            .map_ok(|event| self.guard_mut(event))
    }

    /// Polls for writing. Of all tasks that do, the last one is woken.
    ///
    /// # Errors
    ///
    /// If the runtime ends.
    pub fn poll_write_ready<'a>(
        &'a self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        self.poll_ready(cx, Interest::WRITABLE)
            .map_ok(|event| self.guard(event))
    }

    /// Polls for writing. Of all tasks that do, the last one is woken.
    ///
    /// # Errors
    ///
    /// If the runtime ends.
    pub fn poll_write_ready_mut<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        self.poll_ready(cx, Interest::WRITABLE)
            .map_ok(|event| self.guard_mut(event))
    }

    fn poll_ready(&self, cx: &mut Context<'_>, interest: Interest) -> Poll<io::Result<Event>> {
        self.io
            .poll_wait(cx, interest)
            .map_ok(|seen| Event::new(seen, interest))
    }

    fn guard(&self, event: Event) -> AsyncFdReadyGuard<'_, T> {
        let async_fd = self;
        AsyncFdReadyGuard { async_fd, event }
    }

    fn guard_mut(&mut self, event: Event) -> AsyncFdReadyMutGuard<'_, T> {
        let async_fd = self;
        AsyncFdReadyMutGuard { async_fd, event }
    }

    /// Waits until something of an interest is ready.
    ///
    /// # Errors
    ///
    /// If the runtime ends.
    pub async fn ready(&self, interest: Interest) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        let seen = wait(self.io.registration(), interest).await?;
        Ok(self.guard(Event::new(seen, interest)))
    }

    /// Waits until something of an interest is ready.
    ///
    /// # Errors
    ///
    /// If the runtime ends.
    pub async fn ready_mut(
        &mut self,
        interest: Interest,
    ) -> io::Result<AsyncFdReadyMutGuard<'_, T>> {
        let seen = wait(self.io.registration(), interest).await?;
        Ok(self.guard_mut(Event::new(seen, interest)))
    }

    /// Waits for reading.
    ///
    /// # Errors
    ///
    /// If the runtime ends.
    pub async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        self.ready(Interest::READABLE).await
    }

    /// Waits for reading.
    ///
    /// # Errors
    ///
    /// If the runtime ends.
    pub async fn readable_mut(&mut self) -> io::Result<AsyncFdReadyMutGuard<'_, T>> {
        self.ready_mut(Interest::READABLE).await
    }

    /// Waits for writing.
    ///
    /// # Errors
    ///
    /// If the runtime ends.
    pub async fn writable(&self) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        self.ready(Interest::WRITABLE).await
    }

    /// Waits for writing.
    ///
    /// # Errors
    ///
    /// If the runtime ends.
    pub async fn writable_mut(&mut self) -> io::Result<AsyncFdReadyMutGuard<'_, T>> {
        self.ready_mut(Interest::WRITABLE).await
    }

    /// Does an operation, as often as it would block.
    ///
    /// # Errors
    ///
    /// What `f` says.
    pub async fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io.async_io(interest, || f(self.get_ref())).await
    }

    /// Does an operation, as often as it would block.
    ///
    /// # Errors
    ///
    /// What `f` says.
    pub async fn async_io_mut<R>(
        &mut self,
        interest: Interest,
        mut f: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            wait(self.io.registration(), interest).await?;
            let unit = poll_fn(poll_proceed).await;
            match self.try_io_mut(interest, &mut f) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                answer => {
                    unit.made_progress();
                    return answer;
                }
            }
        }
    }

    /// Tries an operation, if something of the interest is ready.
    ///
    /// # Errors
    ///
    /// What `f` says, and [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_io<R>(
        &self,
        interest: Interest,
        f: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io.try_io(interest, || f(self.get_ref()))
    }

    /// Tries an operation, if something of the interest is ready.
    ///
    /// # Errors
    ///
    /// What `f` says, and [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_io_mut<R>(
        &mut self,
        interest: Interest,
        f: impl FnOnce(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io.try_io_mut(interest, f)
    }
}

impl<T: AsRawFd> AsRawFd for AsyncFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.io.as_raw_fd()
    }
}

impl<T: AsRawFd> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        island::borrow(self)
    }
}

impl<T: AsRawFd + fmt::Debug> fmt::Debug for AsyncFd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncFd")
            .field("inner", self.get_ref())
            .finish()
    }
}

macro_rules! guard {
    ($name:ident, $debug:literal) => {
        impl<T: AsRawFd> $name<'_, T> {
            /// Takes back what is ready, right after an operation that would block.
            pub fn clear_ready(&mut self) {
                self.event.clear(&self.async_fd.io, self.event.ready);
            }

            /// Takes back a part of what is ready, right after an operation that would block.
            pub fn clear_ready_matching(&mut self, ready: Ready) {
                self.event.clear(&self.async_fd.io, ready);
            }

            /// Leaves what is ready as it is.
            pub fn retain_ready(&mut self) {}

            /// What is ready.
            pub fn ready(&self) -> Ready {
                self.event.ready
            }
        }

        impl<T: AsRawFd + fmt::Debug> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($debug)
                    .field("async_fd", &self.async_fd)
                    .finish()
            }
        }
    };
}

guard!(AsyncFdReadyGuard, "ReadyGuard");
guard!(AsyncFdReadyMutGuard, "MutReadyGuard");

impl<'a, T: AsRawFd> AsyncFdReadyGuard<'a, T> {
    /// Does an operation, and takes back what is ready if it would block.
    ///
    /// # Errors
    ///
    /// If it would block.
    pub fn try_io<R>(
        &mut self,
        f: impl FnOnce(&'a AsyncFd<T>) -> io::Result<R>,
    ) -> Result<io::Result<R>, TryIoError> {
        match f(self.async_fd) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.clear_ready();
                Err(TryIoError(()))
            }
            answer => Ok(answer),
        }
    }

    /// The descriptor.
    pub fn get_ref(&self) -> &'a AsyncFd<T> {
        self.async_fd
    }

    /// What was registered.
    pub fn get_inner(&self) -> &'a T {
        self.async_fd.get_ref()
    }
}

impl<T: AsRawFd> AsyncFdReadyMutGuard<'_, T> {
    /// Does an operation, and takes back what is ready if it would block.
    ///
    /// # Errors
    ///
    /// If it would block.
    pub fn try_io<R>(
        &mut self,
        f: impl FnOnce(&mut AsyncFd<T>) -> io::Result<R>,
    ) -> Result<io::Result<R>, TryIoError> {
        match f(self.async_fd) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.clear_ready();
                Err(TryIoError(()))
            }
            answer => Ok(answer),
        }
    }

    /// The descriptor.
    pub fn get_ref(&self) -> &AsyncFd<T> {
        self.async_fd
    }

    /// The descriptor.
    pub fn get_mut(&mut self) -> &mut AsyncFd<T> {
        self.async_fd
    }

    /// What was registered.
    pub fn get_inner(&self) -> &T {
        self.async_fd.get_ref()
    }

    /// What was registered.
    pub fn get_inner_mut(&mut self) -> &mut T {
        self.async_fd.get_mut()
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/unix/struct.TryIoError.html).
#[derive(Debug)]
pub struct TryIoError(());

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/unix/struct.AsyncFdRegisterError.html).
pub struct AsyncFdRegisterError<T> {
    inner: T,
    cause: io::Error,
}

/// The name that it had before.
#[doc(hidden)]
#[deprecated(note = "use `AsyncFdRegisterError` instead")]
pub type AsyncFdTryNewError<T> = AsyncFdRegisterError<T>;

impl<T> AsyncFdRegisterError<T> {
    /// The descriptor, and why it was refused.
    pub fn into_parts(self) -> (T, io::Error) {
        (self.inner, self.cause)
    }
}

impl<T> fmt::Display for AsyncFdRegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.cause, f)
    }
}

impl<T> fmt::Debug for AsyncFdRegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.cause, f)
    }
}

impl<T> Error for AsyncFdRegisterError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

impl<T> From<AsyncFdRegisterError<T>> for io::Error {
    fn from(error: AsyncFdRegisterError<T>) -> Self {
        error.cause
    }
}
