//! A TCP connection.

use std::future::Future;
use std::io::{self, IoSliceMut, Read};
use std::net::{self, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::io::AsyncRead;
use socket2::{Domain, SockRef};
#[cfg(feature = "hyper-server")]
use ws_reactor::ReadySet;
use ws_reactor::{Interest, STREAM_INTEREST};

use super::tcp_socket::Keepalive;
use crate::delegate::{std_socket, stream_socket};
use crate::os::LINGER_SECONDS_MAX;
use ws_net::addr::{self, ToSocketAddrs};
use ws_net::connect::{connect_tcp, tcp_socket};
use ws_net::current::in_runtime;
use ws_net::{AsyncFd, vectored_len};

/// A TCP connection.
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
/// use ws::net::{TcpListener, TcpStream};
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let mut client = TcpStream::connect(listener.local_addr()?).await?;
/// let (mut server, _) = listener.accept().await?;
///
/// client.write_all(b"ping").await?;
/// client.close().await?;
/// let mut text = String::new();
/// server.read_to_string(&mut text).await?;
/// assert_eq!(text, "ping");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TcpStream {
    fd: Arc<AsyncFd<net::TcpStream>>,
}

std_socket!(
    TcpStream,
    net::TcpStream,
    "TcpStream",
    "ws::net::TcpStream",
    STREAM_INTEREST
);

impl TcpStream {
    /// Connects to `addr`: to the first of its addresses that answers.
    ///
    /// A name is looked up off the workers; an address in numbers never leaves the thread.
    ///
    /// # Errors
    ///
    /// The error of the last address that was tried, such as
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused), or that of the lookup.
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection that was being made.
    #[track_caller]
    pub fn connect<A: ToSocketAddrs>(addr: A) -> impl Future<Output = io::Result<TcpStream>> {
        in_runtime("ws::net::TcpStream::connect", async move |netpoll| {
            let mut answer = Err(addr::no_address());
            for addr in addr::resolve(&addr).await? {
                let fd = match tcp_socket(Domain::for_address(addr)) {
                    Ok(socket) => connect_tcp(&netpoll, socket, addr).await,
                    Err(error) => Err(error),
                };
                match fd {
                    Ok(fd) => return Ok(TcpStream::from_fd(fd)),
                    Err(error) => answer = Err(error),
                }
            }
            answer
        })
    }

    pub(crate) fn from_fd(fd: AsyncFd<net::TcpStream>) -> Self {
        Self { fd: Arc::new(fd) }
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
    /// What the system says, such as [`NotConnected`](io::ErrorKind::NotConnected) after a reset.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().peer_addr()
    }

    /// Reads what has arrived and leaves it there for the next read.
    ///
    /// Waits until something has arrived; zero is the end of the stream, or of `buf`.
    ///
    /// # Errors
    ///
    /// As a read.
    ///
    /// # Cancel safety
    ///
    /// Nothing is taken from the stream in any case.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ws::io::{AsyncReadExt, AsyncWriteExt};
    /// # use ws::net::{TcpListener, TcpStream};
    /// # ws::runtime::Runtime::new()?.block_on(async {
    /// # let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// # let mut client = TcpStream::connect(listener.local_addr()?).await?;
    /// # let (mut server, _) = listener.accept().await?;
    /// client.write_all(b"x").await?;
    /// let mut byte = [0];
    /// assert_eq!(server.peek(&mut byte).await?, 1);
    /// assert_eq!(server.read(&mut byte).await?, 1);
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.fd
            .io(Interest::READABLE, || self.fd.get_ref().peek(buf))
            .await
    }

    /// Polls [`TcpStream::peek`].
    ///
    /// Of all tasks that poll for a direction, the last one is woken.
    ///
    /// # Errors
    ///
    /// As a read.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.fd
            .poll_io(cx, Interest::READABLE, || self.fd.get_ref().peek(buf))
    }

    /// Waits until the peer has ended its sending side, whatever is still to be read, or until the
    /// runtime is shut down.
    #[cfg(feature = "hyper-server")]
    pub(crate) fn poll_read_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let seen = self.fd.registration().poll_seen(cx, ReadySet::READ_CLOSED);
        seen.map(drop)
    }

    /// Reads into memory that need not be initialised: gives what socket2's `recv` says of it.
    #[cfg(any(feature = "hyper", feature = "tokio-io"))]
    #[inline]
    pub(crate) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [std::mem::MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        self.fd
            .poll_read_short(cx, buf.len(), || SockRef::from(self.fd.get_ref()).recv(buf))
    }

    /// Returns whether small writes are sent at once; see [`TcpStream::set_nodelay`].
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.fd.get_ref().nodelay()
    }

    /// Sends small writes at once (`TCP_NODELAY`), and does not hold them back to send more
    /// together.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.fd.get_ref().set_nodelay(nodelay)
    }

    /// Returns whether the system probes an idle peer; see [`TcpStream::set_keepalive`].
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn keepalive(&self) -> io::Result<bool> {
        SockRef::from(self).keepalive()
    }

    /// Has the system probe an idle peer, so that one that is gone is noticed; `None` switches it
    /// off.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::net::{Keepalive, TcpListener, TcpStream};
    ///
    /// # ws::runtime::Runtime::new()?.block_on(async {
    /// # let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let stream = TcpStream::connect(listener.local_addr()?).await?;
    /// stream.set_keepalive(Some(&Keepalive::new().idle(Duration::from_secs(60))))?;
    /// assert!(stream.keepalive()?);
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_keepalive(&self, keepalive: Option<&Keepalive>) -> io::Result<()> {
        Keepalive::apply(keepalive, &SockRef::from(self))
    }

    /// Returns how long a close waits for what was not sent yet; see [`TcpStream::set_linger`].
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        SockRef::from(self).linger()
    }

    /// Says what becomes of data that was not sent yet when the socket is closed (`SO_LINGER`).
    ///
    /// With `None` the system goes on sending in the background. With a time of zero it drops the
    /// data and resets the connection. With any other, the drop of the socket *blocks its thread*.
    /// The system counts whole seconds, so a part of one counts as one. On Windows it counts up to
    /// 65,535, and a longer time counts as that.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        // Rounded down, half a second would be zero, which drops the data.
        let seconds = |linger: Duration| {
            let more = u64::from(linger.subsec_nanos() > 0);
            let whole = linger.as_secs().saturating_add(more);
            Duration::from_secs(whole.min(LINGER_SECONDS_MAX))
        };
        SockRef::from(self).set_linger(linger.map(seconds))
    }

    /// Returns how many hops a packet may go.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn ttl(&self) -> io::Result<u32> {
        self.fd.get_ref().ttl()
    }

    /// Says how many hops a packet may go.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.fd.get_ref().set_ttl(ttl)
    }
}

stream_socket!(TcpStream);

impl AsyncRead for &TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut socket = self.fd.get_ref();
        self.fd.poll_read_short(cx, buf.len(), || socket.read(buf))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut socket = self.fd.get_ref();
        let len = vectored_len(bufs.iter().map(|buf| buf.len()));
        self.fd
            .poll_read_short(cx, len, || socket.read_vectored(bufs))
    }
}
