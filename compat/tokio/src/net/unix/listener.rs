//! A Unix socket that takes connections.

use std::{
    io,
    os::unix::net,
    path::Path,
    task::{Context, Poll},
};

use socket2::{Domain, Type};
use ws_reactor::Direction;

use super::{SocketAddr, stream::UnixStream};
use crate::net::{
    common::{options, std_socket, take_error},
    socket::{self, ACCEPTED, BACKLOG, BOTH, Socket},
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/struct.UnixListener.html).
pub struct UnixListener {
    io: Socket<net::UnixListener>,
}

std_socket!(UnixListener, net::UnixListener, BOTH);

impl UnixListener {
    /// Listens at a path, which must not be there yet.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        Self::bind_addr(&SocketAddr::of_path(path)?)
    }

    /// Listens at an address.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<Self> {
        let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&addr.to_socket2()?)?;
        socket.listen(BACKLOG)?;
        Self::new(socket.into())
    }

    /// Takes the next connection.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let accepted = self.io.io(Direction::Read, || self.accept_now()).await;
        accepted.and_then(|accepted| self.join(accepted))
    }

    /// Polls [`accept`](Self::accept).
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        self.io
            .poll(cx, Direction::Read, || self.accept_now())
            .map(|accepted| self.join(accepted?))
    }

    fn accept_now(&self) -> io::Result<(net::UnixStream, SocketAddr)> {
        let (stream, peer) = socket::accept(self.io.get())?;
        Ok((stream.into(), SocketAddr::of(&peer)?))
    }

    /// The connection is of the listener's runtime.
    fn join(
        &self,
        (stream, peer): (net::UnixStream, SocketAddr),
    ) -> io::Result<(UnixStream, SocketAddr)> {
        let io = Socket::on(self.io.netpoll(), stream, BOTH)?.assume(ACCEPTED);
        Ok((UnixStream { io }, peer))
    }

    take_error!();

    options! {
        /// The address that it listens on.
        local_addr() -> SocketAddr = |io| io.get().local_addr().map(SocketAddr);
    }
}
