//! A TCP socket that takes connections.

use std::future::Future;
use std::io;
use std::net::{self, SocketAddr};
use std::sync::Arc;

use socket2::Domain;
use ws_reactor::{Interest, Netpoll};

use super::tcp_socket::BACKLOG;
use super::tcp_stream::TcpStream;
use crate::delegate::{listening_socket, std_socket};
use crate::os::LISTENERS_REUSE_ADDRESSES;
use ws_net::AsyncFd;
use ws_net::addr::{ToSocketAddrs, first_that_works};
use ws_net::connect::tcp_socket;
use ws_net::current::in_runtime;
use ws_net::retry::Held;

/// A TCP socket that takes connections.
///
/// # Examples
///
/// ```no_run
/// use ws::net::TcpListener;
///
/// # async fn serve(_: ws::net::TcpStream) {}
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let listener = TcpListener::bind("127.0.0.1:8080").await?;
/// loop {
///     let (stream, peer) = listener.accept().await?;
///     println!("{peer} has come");
///     ws::spawn(serve(stream));
/// }
/// # #[expect(unreachable_code)]
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TcpListener {
    fd: Arc<AsyncFd<net::TcpListener>>,
    held: Arc<Held<net::TcpStream, SocketAddr>>,
}

std_socket!(
    TcpListener,
    net::TcpListener,
    "TcpListener",
    "ws::net::TcpListener",
    Interest::READABLE,
    held: Arc::default()
);

impl TcpListener {
    /// Listens on `addr`: on the first of its addresses that can be had.
    ///
    /// Port 0 lets the system choose, and [`TcpListener::local_addr`] says what it chose. The
    /// socket has `SO_REUSEADDR` set, so that a server can be started again at once, and a backlog
    /// of 1024. (On Windows that option means another thing, and is not set.) For other choices
    /// there is [`TcpSocket`](super::TcpSocket).
    ///
    /// # Errors
    ///
    /// The error of the last address that was tried, such as
    /// [`AddrInUse`](io::ErrorKind::AddrInUse), or that of the lookup.
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the socket that was being made.
    #[track_caller]
    pub fn bind<A: ToSocketAddrs>(addr: A) -> impl Future<Output = io::Result<TcpListener>> {
        in_runtime("ws::net::TcpListener::bind", async move |netpoll| {
            first_that_works(addr, |addr| listen(&netpoll, addr)).await
        })
    }

    /// Returns the address that it listens on.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().local_addr()
    }

    /// Returns how many hops a packet of its connections may go.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn ttl(&self) -> io::Result<u32> {
        self.fd.get_ref().ttl()
    }

    /// Says how many hops a packet of its connections may go.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.fd.get_ref().set_ttl(ttl)
    }
}

listening_socket! {
    TcpListener, "TcpListener", net::TcpListener;
    TcpStream, net::TcpStream, SocketAddr;
    /// Takes the next connection.
    ///
    /// Connections that break before they are taken are passed over. When the system has no
    /// descriptor, no memory or no place in an epoll for one (`EMFILE`, `ENFILE`, `ENOBUFS`,
    /// `ENOMEM`, `ENOSPC`), this waits, tries again, and takes it once there is room: clients are
    /// kept waiting, and not lost. Each such wait is counted in
    /// [`Metrics::accepts_delayed`](crate::runtime::Metrics::accepts_delayed), and a warning goes
    /// to `tracing`, once a second at most.
    ///
    /// # Errors
    ///
    /// If the listener is of no more use, or the runtime was shut down.
    ///
    /// # Cancel safety
    ///
    /// No connection is lost when the future is dropped.
    accept;

    /// Polls for the next connection, without the retries of [`TcpListener::accept`].
    ///
    /// # Errors
    ///
    /// What the system says, also of a connection that broke, and of room that it does not have
    /// (see [`TcpListener::accept`]). After the latter, another poll without a wait would fail as
    /// well, and no connection is lost: one that was taken and found no place in the epoll stays
    /// with the listener, and the next poll or accept tries it first.
    poll_accept;

    /// Returns the connections as a stream, which never ends.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt;
    /// use ws::net::{TcpListener, TcpStream};
    ///
    /// # ws::runtime::Runtime::new()?.block_on(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let _client = TcpStream::connect(listener.local_addr()?).await?;
    /// let stream = listener.incoming().next().await.expect("it never ends")?;
    /// assert_eq!(stream.local_addr()?, listener.local_addr()?);
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    incoming;
}

fn listen(netpoll: &Arc<Netpoll>, addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = tcp_socket(Domain::for_address(addr))?;
    socket.set_reuse_address(LISTENERS_REUSE_ADDRESSES)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::join(netpoll, socket.into())
}
