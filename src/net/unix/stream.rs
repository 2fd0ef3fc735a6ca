//! A Unix stream.
//!
//! Reads do without the shortcut of TCP's: the kernel ends a read of a Unix stream where
//! descriptors or credentials were sent along, so a short one does not say that there is no more.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::io::AsyncRead;
use socket2::{Domain, SockAddr, Socket, Type};
use ws_reactor::{Interest, Netpoll};

use super::sock_addr;
use crate::delegate::{std_socket, stream_socket};
use crate::net::split;
use ws_net::AsyncFd;
use ws_net::connect::connect;
use ws_net::current::{self, in_runtime};
use ws_net::retry::Backoff;

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// A connection between two Unix sockets.
///
/// Reads and writes by [`AsyncRead`] and [`AsyncWrite`](futures::io::AsyncWrite), as itself and as
/// a reference. Closing it as an `AsyncWrite` ends the sending side and leaves the receiving side
/// open; dropping it closes both. A clone is the same connection, which is closed when the last one
/// is dropped; see *Clones* in [`ws::net`](crate::net#clones).
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
#[derive(Clone)]
pub struct UnixStream {
    fd: Arc<AsyncFd<net::UnixStream>>,
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
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) where no socket listens any more.
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
            connect_with_retries(&netpoll, &addr).await
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
    ///
    /// # Cancel safety
    ///
    /// As [`UnixStream::connect`].
    #[track_caller]
    pub fn connect_addr(addr: &SocketAddr) -> impl Future<Output = io::Result<UnixStream>> {
        let addr = sock_addr(addr);
        in_runtime("ws::net::UnixStream::connect_addr", async move |netpoll| {
            connect_with_retries(&netpoll, &addr?).await
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

    /// Looks at the first bytes that have come, and leaves them there.
    #[cfg(feature = "hyper-server")]
    pub(crate) fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [std::mem::MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        let socket = socket2::SockRef::from(self.fd.get_ref());
        self.fd.poll_io(cx, Interest::READABLE, || socket.peek(buf))
    }

    /// Waits until the peer has ended its sending side, whatever is still to be read, or until the
    /// runtime is shut down.
    #[cfg(feature = "hyper-server")]
    pub(crate) fn poll_read_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let closed = ws_reactor::ReadySet::READ_CLOSED;
        self.fd.registration().poll_seen(cx, closed).map(drop)
    }
}

stream_socket!(UnixStream);

/// Connects, and waits while the listener's queue is full: see `retry.rs`.
async fn connect_with_retries(netpoll: &Arc<Netpoll>, addr: &SockAddr) -> io::Result<UnixStream> {
    let mut backoff = Backoff::default();
    loop {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        let knows_its_peer = |stream: &net::UnixStream| stream.peer_addr().map(drop);
        match connect(netpoll, socket, addr, BOTH, knows_its_peer).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                backoff.wait_after(error).await?;
            }
            Err(error) => return Err(error),
            Ok(fd) => return Ok(UnixStream { fd: Arc::new(fd) }),
        }
    }
}

impl AsyncRead for &UnixStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self.fd).poll_read(cx, buf)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self.fd).poll_read_vectored(cx, bufs)
    }
}

impl split::sealed::Sealed for UnixStream {}

impl split::Duplex for UnixStream {
    fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
        UnixStream::shutdown(self, how)
    }

    fn is_clone_of(&self, other: &Self) -> bool {
        UnixStream::is_clone_of(self, other)
    }
}
