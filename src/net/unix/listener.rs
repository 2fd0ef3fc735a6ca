//! A Unix socket that takes connections.

use std::io;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use ws_reactor::Interest;

use super::path_addr;
use super::stream::UnixStream;
use crate::delegate::{listening_socket, std_socket};
use ws_net::AsyncFd;
use ws_net::current;
use ws_net::retry::Held;

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
#[derive(Clone)]
pub struct UnixListener {
    fd: Arc<AsyncFd<net::UnixListener>>,
    held: Arc<Held<net::UnixStream, SocketAddr>>,
}

std_socket!(
    UnixListener,
    net::UnixListener,
    "UnixListener",
    "ws::net::UnixListener",
    Interest::READABLE,
    held: Arc::default()
);

impl UnixListener {
    /// Listens at a path: the path is made and must not be there yet. On Linux, also at an abstract
    /// name: a path that begins with a zero byte.
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
        let socket = net::UnixListener::bind_addr(&path_addr(path.as_ref())?)?;
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

    /// Returns the address that it listens at.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().local_addr()
    }
}

listening_socket! {
    UnixListener, "UnixListener", net::UnixListener;
    UnixStream, net::UnixStream, SocketAddr;
    /// Takes the next connection.
    ///
    /// Retries as [`TcpListener::accept`](crate::net::TcpListener::accept) does when the system has
    /// no room.
    ///
    /// # Errors
    ///
    /// If the listener is of no more use, or the runtime was shut down.
    ///
    /// # Cancel safety
    ///
    /// No connection is lost when the future is dropped.
    accept;

    /// Polls for the next connection, without the retries of [`UnixListener::accept`].
    ///
    /// # Errors
    ///
    /// What the system says; also that it has no room; then another poll without a wait would fail
    /// as well. No connection is lost, as with
    /// [`TcpListener::poll_accept`](crate::net::TcpListener::poll_accept).
    poll_accept;

    /// Returns the connections as a stream, which never ends.
    incoming;
}
