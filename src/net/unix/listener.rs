//! A Unix socket that takes connections.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::stream::{FusedStream, Stream};
use ws_reactor::Interest;

use super::stream::UnixStream;
use crate::async_fd::AsyncFd;
use crate::current;
use crate::delegate::std_socket;
use crate::net::patience::{Backoff, poll_accept};

/// A Unix socket that takes connections.
///
/// # Examples
///
/// ```
/// use ws::net::{UnixListener, UnixStream};
///
/// # let folder = std::env::temp_dir().join(format!("ws-doc-listener-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("socket");
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let listener = UnixListener::bind(&path)?;
/// let client = UnixStream::connect(&path).await?;
/// let (server, _) = listener.accept().await?;
/// # drop((client, server));
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UnixListener {
    fd: AsyncFd<net::UnixListener>,
}

std_socket!(
    UnixListener,
    net::UnixListener,
    "UnixListener",
    "ws::net::UnixListener",
    Interest::READABLE
);

impl UnixListener {
    /// Listens at a path, which is made and must not be there yet.
    ///
    /// # Errors
    ///
    /// What the system says, such as [`AddrInUse`](io::ErrorKind::AddrInUse).
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        let netpoll = current::netpoll("ws::net::UnixListener");
        let socket = net::UnixListener::bind(path)?;
        socket.set_nonblocking(true)?;
        Self::join(&netpoll, socket)
    }

    /// Listens at an address.
    ///
    /// # Errors
    ///
    /// As [`UnixListener::bind`].
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<Self> {
        let netpoll = current::netpoll("ws::net::UnixListener");
        let socket = net::UnixListener::bind_addr(addr)?;
        socket.set_nonblocking(true)?;
        Self::join(&netpoll, socket)
    }

    /// Takes the next connection.
    ///
    /// As patient as [`TcpListener::accept`](crate::net::TcpListener::accept) when the system has no room.
    ///
    /// # Errors
    ///
    /// If the listener is of no more use, or the runtime was shut down.
    ///
    /// # Cancel safety
    ///
    /// No connection is lost when the future is dropped.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let mut backoff = Backoff::new();
        poll_fn(|cx| self.poll_accept_patiently(cx, &mut backoff)).await
    }

    /// Polls for the next connection, without the patience of [`UnixListener::accept`].
    ///
    /// # Errors
    ///
    /// What the system says; also that the table of descriptors is full, in which case another poll
    /// without a wait would fail as well.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        let listener = self.fd.get_ref();
        let accepted = self
            .fd
            .poll_io(cx, Interest::READABLE, || listener.accept());
        Poll::Ready(self.adopt(ready!(accepted)))
    }

    /// Returns the connections as a stream, which never ends.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming {
            listener: self,
            backoff: Backoff::new(),
        }
    }

    /// Returns the address that it listens at.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().local_addr()
    }

    fn poll_accept_patiently(
        &self,
        cx: &mut Context<'_>,
        backoff: &mut Backoff,
    ) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        let listener = self.fd.get_ref();
        let accepted = poll_accept(&self.fd, cx, backoff, || listener.accept());
        Poll::Ready(self.adopt(ready!(accepted)))
    }

    /// Has an accepted connection join the listener's runtime.
    fn adopt(
        &self,
        accepted: io::Result<(net::UnixStream, SocketAddr)>,
    ) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, peer) = accepted?;
        stream.set_nonblocking(true)?;
        Ok((UnixStream::join(self.fd.netpoll(), stream)?, peer))
    }
}

/// The connections of a [`UnixListener`] as a stream; from [`UnixListener::incoming`].
pub struct Incoming<'a> {
    listener: &'a UnixListener,
    backoff: Backoff,
}

impl Stream for Incoming<'_> {
    type Item = io::Result<UnixStream>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let accepted = ready!(this.listener.poll_accept_patiently(cx, &mut this.backoff));
        Poll::Ready(Some(accepted.map(|(stream, _)| stream)))
    }
}

impl FusedStream for Incoming<'_> {
    fn is_terminated(&self) -> bool {
        false
    }
}

impl fmt::Debug for Incoming<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Incoming").field(self.listener).finish()
    }
}
