//! What [hyper] needs of a runtime: streams, timers, and a place to spawn (feature `hyper`).
//!
//! hyper runs on any runtime that brings it the traits of [`hyper::rt`]. They are
//! implemented here:
//!
//! | trait | by | for |
//! | --- | --- | --- |
//! | [`Read`], [`Write`] | [`Io`] | the streams of [`ws::net`](crate::net), and any stream of `futures::io` |
//! | [`Timer`](::hyper::rt::Timer) | [`Timer`] | time limits on headers, keep-alive pings |
//! | [`Executor`](::hyper::rt::Executor) | [`Executor`] | the tasks that hyper spawns for HTTP/2 |
//!
//! With the feature `hyper-server` there is also a whole server: `Server`.
//!
//! [`Io`] works the other way round as well, so that an upgraded connection is a stream of
//! `futures::io` again.
//!
//! hyper depends on tokio's crate, for its channels; this feature brings them into the tree, and no
//! other part of tokio. No runtime of tokio's is needed or started.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use futures::{AsyncReadExt, AsyncWriteExt};
//! use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
//! use ws::net::{TcpListener, TcpStream};
//!
//! async fn hello(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
//!     Ok(Response::new("hello".to_owned()))
//! }
//!
//! # #[ws::main(workers = 1)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let address = listener.local_addr()?;
//! ws::spawn(async move {
//!     let (stream, _) = listener.accept().await.unwrap();
//!     http1::Builder::new()
//!         .timer(ws::hyper::Timer)
//!         .serve_connection(ws::hyper::Io::socket(stream), service_fn(hello))
//!         .await
//!         .unwrap();
//! });
//!
//! let mut client = TcpStream::connect(address).await?;
//! client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer).await?;
//! assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"));
//! assert!(answer.ends_with("\r\n\r\nhello"));
//! # Ok(())
//! # }
//! ```
//!
//! # Reading
//!
//! hyper's read buffer is not initialised, and `futures::io` reads into initialised bytes only. So
//! [`Io::new`] and [`Io::vectored`] read into eight kibibytes of zeros on the stack and copy what
//! came. [`Io::socket`] reads into hyper's buffer. Writes are passed on as they are.

use std::{
    fmt,
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use ::hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use futures::io::{AsyncRead, AsyncWrite};
use pin_project_lite::pin_project;

use crate::{time, uninit};

#[cfg(feature = "hyper-server")]
mod server;

#[cfg(feature = "hyper-server")]
pub use server::{Acceptor, Counts, Draining, Ended, Limited, Listener, Plain, Server, Transport};

pub use crate::uninit::Socket;

/// The most that one read by way of the stack takes: hyper starts with buffers of this size.
const READ_BYTES_MAX: usize = 8 * 1024;

pin_project! {
    /// Makes a stream of `futures::io` one of hyper's, and one of hyper's a stream of
    /// `futures::io`.
    ///
    /// ```
    /// use futures::{AsyncReadExt, io::Cursor};
    /// use ws::hyper::Io;
    ///
    /// # futures::future::FutureExt::now_or_never(async {
    /// let theirs = Io::new(Cursor::new(*b"abc")); // hyper reads from it
    /// let mut ours = Io::new(theirs); // and this is how it comes back
    /// let mut read = String::new();
    /// ours.read_to_string(&mut read).await.unwrap();
    /// assert_eq!(read, "abc");
    /// # }).unwrap();
    /// ```
    pub struct Io<T> {
        #[pin]
        inner: T,
        vectored: bool,
        // How to read into hyper's buffer, if it can be done.
        read: Option<Direct<T>>,
    }
}

/// Reads into hyper's buffer, without a copy.
type Direct<T> = fn(Pin<&mut T>, &mut Context<'_>, ReadBufCursor<'_>) -> Poll<io::Result<()>>;

impl<T> Io<T> {
    /// Wraps a stream. Nothing more is known about it.
    ///
    /// hyper then copies small buffers together, so that one write carries head and body.
    pub const fn new(inner: T) -> Self {
        Self {
            inner,
            vectored: false,
            read: None,
        }
    }

    /// Wraps a stream whose `poll_write_vectored` writes all the slices in one go.
    ///
    /// hyper then hands over its buffers as they are. On a stream that only has the trait's
    /// default, which writes the first slice and no other, every response would be several writes.
    pub const fn vectored(inner: T) -> Self {
        Self {
            inner,
            vectored: true,
            read: None,
        }
    }

    /// Wraps a socket: it is read into hyper's buffer without a copy, and written as by
    /// [`Io::vectored`].
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use std::pin::Pin;
    /// use hyper::rt::{Read, ReadBuf};
    /// use ws::{hyper::Io, io::AsyncWriteExt, net::UnixStream};
    ///
    /// # ws::runtime::Runtime::new()?.block_on(async {
    /// let (here, mut there) = UnixStream::pair()?;
    /// there.write_all(b"hello").await?;
    /// let mut io = Io::socket(here);
    /// let mut bytes = [0; 8];
    /// let mut buf = ReadBuf::new(&mut bytes);
    /// poll_fn(|cx| Pin::new(&mut io).poll_read(cx, buf.unfilled())).await?;
    /// assert_eq!(buf.filled(), b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn socket(inner: T) -> Self
    where
        T: Socket,
    {
        Self {
            inner,
            vectored: true,
            read: Some(uninit::read_into_hyper::<T>),
        }
    }

    /// Returns the stream within.
    pub const fn get_ref(&self) -> &T {
        &self.inner
    }

    /// Returns the stream within, to change it.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Unwraps the stream.
    pub fn into_inner(self) -> T {
        self.inner
    }
}

impl<T: fmt::Debug> fmt::Debug for Io<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Io").field(&self.inner).finish()
    }
}

impl<T: AsyncRead> Read for Io<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        if let Some(read) = this.read {
            return read(this.inner, cx, buf);
        }
        by_way_of_the_stack(this.inner, cx, buf)
    }
}

/// Not a part of its caller, so that the eight kibibytes are only on the stack of callers that need
/// them.
#[inline(never)]
fn by_way_of_the_stack<T: AsyncRead>(
    stream: Pin<&mut T>,
    cx: &mut Context<'_>,
    mut buf: ReadBufCursor<'_>,
) -> Poll<io::Result<()>> {
    let mut bytes = [0; READ_BYTES_MAX];
    let room = buf.remaining().min(READ_BYTES_MAX);
    let read = ready!(stream.poll_read(cx, &mut bytes[..room]))?;
    buf.put_slice(&bytes[..read]);
    Poll::Ready(Ok(()))
}

impl<T: AsyncWrite> Write for Io<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_close(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.vectored
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write_vectored(cx, bufs)
    }
}

impl<T: Read> AsyncRead for Io<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(self.project().inner.poll_read(cx, buf.unfilled()))?;
        Poll::Ready(Ok(buf.filled().len()))
    }
}

impl<T: Write> AsyncWrite for Io<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write_vectored(cx, bufs)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_shutdown(cx)
    }
}

/// Lets hyper wait, on the timers of the runtime that it is polled in.
///
/// hyper has no time limits without a timer: a server wants one, so that a client which never ends
/// its request does not keep a connection for ever.
///
/// # Panics
///
/// Its methods panic outside of a runtime, except `now`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

impl ::hyper::rt::Timer for Timer {
    #[track_caller]
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn ::hyper::rt::Sleep>> {
        Box::pin(Sleep(time::sleep(duration)))
    }

    #[track_caller]
    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn ::hyper::rt::Sleep>> {
        Box::pin(Sleep(time::sleep_until(deadline.into())))
    }

    fn now(&self) -> Instant {
        time::Instant::now().into()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn ::hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(ours) => ours.get_mut().0.reset(deadline.into()),
            // Made by another timer, so it is replaced, as hyper does by default.
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

/// A wait of hyper's. A type of its own, because trait and future are both from elsewhere.
#[derive(Debug)]
struct Sleep(time::Sleep);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl ::hyper::rt::Sleep for Sleep {}

/// Lets hyper spawn tasks: [`ws::spawn`](crate::spawn), detached.
///
/// HTTP/1 spawns nothing; HTTP/2 spawns a task for each request.
///
/// ```
/// use hyper::rt::Executor as _;
///
/// # #[ws::main(workers = 1)]
/// # async fn main() {
/// let (answer, question) = futures::channel::oneshot::channel();
/// ws::hyper::Executor.execute(async move { answer.send(42) });
/// assert_eq!(question.await, Ok(42));
/// # }
/// ```
///
/// # Panics
///
/// `execute` panics outside of a runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct Executor;

impl<F> ::hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[track_caller]
    fn execute(&self, future: F) {
        drop(crate::spawn(future)); // detaches it
    }
}

#[cfg(test)]
mod tests;
