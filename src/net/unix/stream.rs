//! A Unix stream.
//!
//! Reads do without the shortcut of TCP's: the kernel ends a read of a Unix stream where descriptors or
//! credentials were sent along, so a short one does not say that there is no more.

use std::future::Future;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::io::{AsyncRead, AsyncWrite};
use socket2::{Domain, SockAddr, Socket, Type};
use ws_reactor::{Direction, Interest, Netpoll};

use super::sock_addr;
use crate::async_fd::AsyncFd;
use crate::current::{self, in_runtime};
use crate::delegate::{by_reference, std_socket};
use crate::net::connect::connect;
use crate::net::patience::Backoff;
use crate::net::split::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// A connection between two Unix sockets.
///
/// Reads and writes by [`AsyncRead`] and [`AsyncWrite`], as itself and as a reference. Closing it as an
/// `AsyncWrite` ends the sending side and leaves the receiving side open; dropping it closes both.
///
/// # Examples
///
/// ```
/// use ws::io::{AsyncReadExt, AsyncWriteExt};
/// use ws::net::UnixStream;
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let (mut here, mut there) = UnixStream::pair()?;
/// here.write_all(b"hello").await?;
/// drop(here);
/// let mut text = String::new();
/// there.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UnixStream {
    fd: AsyncFd<net::UnixStream>,
}

std_socket!(
    UnixStream,
    net::UnixStream,
    "UnixStream",
    "ws::net::UnixStream",
    BOTH
);

impl UnixStream {
    /// Connects to the listener at a path.
    ///
    /// Waits while the listener's queue is full.
    ///
    /// # Errors
    ///
    /// What the system says, such as [`NotFound`](io::ErrorKind::NotFound), or
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) where nobody listens any more.
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection that was being made.
    #[track_caller]
    pub fn connect<P: AsRef<Path>>(path: P) -> impl Future<Output = io::Result<UnixStream>> {
        in_runtime("ws::net::UnixStream::connect", async move |netpoll| {
            let addr = SockAddr::unix(path)?;
            connect_patiently(&netpoll, &addr).await
        })
    }

    /// Connects to the listener at an address.
    ///
    /// # Errors
    ///
    /// As [`UnixStream::connect`].
    ///
    /// # Panics
    ///
    /// As [`UnixStream::connect`].
    #[track_caller]
    pub fn connect_addr(addr: &SocketAddr) -> impl Future<Output = io::Result<UnixStream>> {
        let addr = sock_addr(addr);
        in_runtime("ws::net::UnixStream::connect_addr", async move |netpoll| {
            connect_patiently(&netpoll, &addr?).await
        })
    }

    /// Makes two streams that are connected to each other and have no address.
    ///
    /// # Errors
    ///
    /// What the system says, and an error of kind `Other` if the runtime was shut down.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let netpoll = current::netpoll("ws::net::UnixStream");
        let (one, other) = net::UnixStream::pair()?;
        one.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        Ok((Self::join(&netpoll, one)?, Self::join(&netpoll, other)?))
    }

    /// Returns the address of this side.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().local_addr()
    }

    /// Returns the address of the other side.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().peer_addr()
    }

    /// Waits until a read is worth trying. See [`UnixStream::try_read`].
    ///
    /// # Errors
    ///
    /// If the runtime of the socket was shut down.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn readable(&self) -> io::Result<()> {
        self.fd.ready(Direction::Read).await.map(drop)
    }

    /// Waits until a write is worth trying. See [`UnixStream::try_write`].
    ///
    /// # Errors
    ///
    /// If the runtime of the socket was shut down.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn writable(&self) -> io::Result<()> {
        self.fd.ready(Direction::Write).await.map(drop)
    }

    /// Reads if there is something to read.
    ///
    /// # Errors
    ///
    /// As a read, and [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.fd
            .try_io(Interest::READABLE, || self.fd.get_ref().read(buf))
    }

    /// Writes if there is room.
    ///
    /// # Errors
    ///
    /// As a write, and [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.fd
            .try_io(Interest::WRITABLE, || self.fd.get_ref().write(buf))
    }

    /// Ends the sending side, the receiving side, or both.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.fd.get_ref().shutdown(how)
    }

    /// Reads into memory that need not be initialised: gives what socket2's `recv` says of it.
    #[cfg(any(feature = "hyper", feature = "tokio-io"))]
    pub(crate) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [std::mem::MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        let socket = socket2::SockRef::from(self.fd.get_ref());
        // Not by the short way; see `transfer.rs` of the reactor.
        self.fd.poll_io(cx, Interest::READABLE, || socket.recv(buf))
    }

    /// Borrows the two directions apart, for two futures of one task.
    ///
    /// (`split` is the name that [`AsyncReadExt`](crate::io::AsyncReadExt) has for halves with a lock between
    /// them, which no socket needs.)
    pub fn split_mut(&mut self) -> (ReadHalf<'_, UnixStream>, WriteHalf<'_, UnixStream>) {
        split::borrowed(self)
    }

    /// Takes the two directions apart, for two tasks.
    ///
    /// When the write half is dropped, the sending side is ended, and the peer reads the end of the
    /// stream.
    pub fn into_split(self) -> (OwnedReadHalf<UnixStream>, OwnedWriteHalf<UnixStream>) {
        split::owned(self)
    }
}

/// Connects, and waits while the listener's queue is full: see `patience.rs`.
async fn connect_patiently(netpoll: &Arc<Netpoll>, addr: &SockAddr) -> io::Result<UnixStream> {
    let mut backoff = Backoff::new();
    loop {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        let knows_its_peer = |stream: &net::UnixStream| stream.peer_addr().map(drop);
        match connect(netpoll, socket, addr, BOTH, knows_its_peer).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                backoff.wait_after(error).await?;
            }
            Err(error) => return Err(error),
            Ok(fd) => return Ok(UnixStream { fd }),
        }
    }
}

impl AsyncRead for &UnixStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &self.fd).poll_read(cx, buf)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &self.fd).poll_read_vectored(cx, bufs)
    }
}

impl AsyncWrite for &UnixStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut socket = self.fd.get_ref();
        self.fd
            .poll_write_short(cx, buf.len(), || socket.write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut socket = self.fd.get_ref();
        let len = bufs.iter().map(|buf| buf.len()).sum();
        self.fd
            .poll_write_short(cx, len, || socket.write_vectored(bufs))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What was written is the peer's to read.
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(split::end_sending(self.shutdown(Shutdown::Write)))
    }
}

by_reference! { impl[] AsyncRead for UnixStream }
by_reference! { impl[] AsyncWrite for UnixStream }
