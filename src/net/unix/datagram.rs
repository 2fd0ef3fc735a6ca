//! A Unix socket for datagrams.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

use ws_executor::task::coop::cooperative;
use ws_reactor::Interest;

use super::path_addr;
use crate::delegate::{std_socket, waits};
use ws_net::AsyncFd;
use ws_net::current;
use ws_net::retry::Backoff;

/// A Unix socket for datagrams.
///
/// Unlike UDP it is reliable: a send waits while the receiver's queue is full.
///
/// # Examples
///
/// ```
/// use ws::net::UnixDatagram;
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let (here, there) = UnixDatagram::pair()?;
/// here.send(b"hello").await?;
/// let mut buffer = [0; 16];
/// let read = there.recv(&mut buffer).await?;
/// assert_eq!(&buffer[..read], b"hello");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct UnixDatagram {
    fd: Arc<AsyncFd<net::UnixDatagram>>,
}

std_socket!(
    UnixDatagram,
    net::UnixDatagram,
    "UnixDatagram",
    "ws::net::UnixDatagram",
    Interest::READABLE | Interest::WRITABLE
);

impl UnixDatagram {
    /// Makes a socket at a path: the path is made and must not be there yet. On Linux, also at an
    /// abstract name: a path that begins with a zero byte.
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
        let netpoll = current::netpoll("ws::net::UnixDatagram");
        let socket = net::UnixDatagram::bind_addr(&path_addr(path.as_ref())?)?;
        socket.set_nonblocking(true)?;
        Self::join(&netpoll, socket)
    }

    /// Makes a socket at an address.
    ///
    /// # Errors
    ///
    /// As [`UnixDatagram::bind`].
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<Self> {
        let netpoll = current::netpoll("ws::net::UnixDatagram");
        let socket = net::UnixDatagram::bind_addr(addr)?;
        socket.set_nonblocking(true)?;
        Self::join(&netpoll, socket)
    }

    /// Makes a socket without an address, which can send, and receive nothing but answers if it is
    /// connected.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn unbound() -> io::Result<Self> {
        let netpoll = current::netpoll("ws::net::UnixDatagram");
        let socket = net::UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Self::join(&netpoll, socket)
    }

    /// Makes two sockets that are connected to each other and have no address.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn pair() -> io::Result<(Self, Self)> {
        let netpoll = current::netpoll("ws::net::UnixDatagram");
        let (one, other) = net::UnixDatagram::pair()?;
        one.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        Ok((Self::join(&netpoll, one)?, Self::join(&netpoll, other)?))
    }

    /// Sets where [`UnixDatagram::send`] sends, and which socket may send here.
    ///
    /// # Errors
    ///
    /// What the system says, such as [`NotFound`](io::ErrorKind::NotFound).
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.connect_addr(&path_addr(path.as_ref())?)
    }

    /// As [`UnixDatagram::connect`], with an address.
    ///
    /// # Errors
    ///
    /// As [`UnixDatagram::connect`].
    pub fn connect_addr(&self, addr: &SocketAddr) -> io::Result<()> {
        self.fd.get_ref().connect_addr(addr)
    }

    /// Sends a datagram to the socket it is connected to.
    ///
    /// # Errors
    ///
    /// What the system says, such as [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) if
    /// that was closed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, nothing was sent.
    pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.fd
            .io(Interest::WRITABLE, || self.fd.get_ref().send(buf))
            .await
    }

    /// Sends a datagram to the socket at a path.
    ///
    /// While that socket's queue is full, this tries again now and then: no system tells when there
    /// is room. To one that it is connected to, [`UnixDatagram::send`] is told.
    ///
    /// # Errors
    ///
    /// What the system says, such as [`NotFound`](io::ErrorKind::NotFound).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, nothing was sent.
    pub async fn send_to(&self, buf: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        // Of a path that is no address there is no operation that would pay.
        cooperative(async {
            let addr = path_addr(path.as_ref())?;
            self.send_with_retries(|socket| socket.send_to_addr(buf, &addr))
                .await
        })
        .await
    }

    /// As [`UnixDatagram::send_to`], to an address.
    ///
    /// # Errors
    ///
    /// As [`UnixDatagram::send_to`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, nothing was sent.
    pub async fn send_to_addr(&self, buf: &[u8], addr: &SocketAddr) -> io::Result<usize> {
        self.send_with_retries(|socket| socket.send_to_addr(buf, addr))
            .await
    }

    /// Sends by `send`; see `retry.rs`.
    async fn send_with_retries(
        &self,
        mut send: impl FnMut(&net::UnixDatagram) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut backoff = Backoff::default();
        loop {
            match self.fd.once(|| send(self.fd.get_ref())).await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    backoff.wait_after(error).await?;
                }
                answer => return answer,
            }
        }
    }

    /// Receives a datagram. Once the receiving side has ended and nothing is left, no bytes.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, nothing was received.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.fd.io(Interest::READABLE, || self.recv_now(buf)).await
    }

    /// Receives a datagram, and says which address sent it. Once the receiving side has ended and
    /// nothing is left, no bytes from an unnamed address.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, nothing was received.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.fd
            .io(Interest::READABLE, || {
                let recv = || self.fd.get_ref().recv_from(buf);
                // The unnamed address, as std's blocking socket says.
                let end = || SocketAddr::from_pathname("").map(|nobody| (0, nobody));
                self.fd.recv_or_end(recv, end)
            })
            .await
    }

    fn recv_now(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.fd
            .recv_or_end(|| self.fd.get_ref().recv(buf), || Ok(0))
    }

    /// Polls [`UnixDatagram::send`].
    ///
    /// Of all tasks that poll for a direction, the last one is woken.
    ///
    /// # Errors
    ///
    /// As `send`.
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.fd
            .poll_io(cx, Interest::WRITABLE, || self.fd.get_ref().send(buf))
    }

    /// Polls [`UnixDatagram::recv`].
    ///
    /// Of all tasks that poll for a direction, the last one is woken.
    ///
    /// # Errors
    ///
    /// As `recv`.
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.fd
            .poll_io(cx, Interest::READABLE, || self.recv_now(buf))
    }

    /// Returns the address of this socket.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().local_addr()
    }

    /// Returns the address that it is connected to.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().peer_addr()
    }

    /// Ends the sending side, the receiving side, or both.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.fd.get_ref().shutdown(how)?;
        self.fd.note_end(how);
        Ok(())
    }
}

waits!(
    UnixDatagram,
    "receiving is worth trying.",
    "sending is worth trying."
);
