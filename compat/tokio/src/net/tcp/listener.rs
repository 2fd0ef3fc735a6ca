//! A TCP socket that takes connections.

use std::{
    io,
    net::{self, SocketAddr},
    task::{Context, Poll},
};

use socket2::Domain;
use ws_net::connect::tcp_socket;
use ws_reactor::{Direction, STREAM_INTEREST};

use super::stream::TcpStream;
use crate::net::{
    ToSocketAddrs,
    addr::first_that_works,
    common::{options, std_socket},
    socket::{self, ACCEPTED, BACKLOG, BOTH, Socket},
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/struct.TcpListener.html).
pub struct TcpListener {
    io: Socket<net::TcpListener>,
}

std_socket!(TcpListener, net::TcpListener, BOTH);

impl TcpListener {
    /// Listens on the first of the addresses that can be had.
    ///
    /// # Errors
    ///
    /// That of the last address, or of the lookup.
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<Self> {
        first_that_works(addr, |addr| async move {
            let socket = tcp_socket(Domain::for_address(addr))?;
            socket.set_reuse_address(true)?;
            socket.bind(&addr.into())?;
            socket.listen(BACKLOG)?;
            Self::new(socket.into())
        })
        .await
    }

    /// Takes the next connection.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let accepted = self.io.io(Direction::Read, || self.accept_now()).await;
        accepted.and_then(|accepted| self.join(accepted))
    }

    /// Polls [`accept`](Self::accept).
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        self.io
            .poll(cx, Direction::Read, || self.accept_now())
            .map(|accepted| self.join(accepted?))
    }

    fn accept_now(&self) -> io::Result<(net::TcpStream, SocketAddr)> {
        let (stream, peer) = socket::accept(self.io.get())?;
        let peer = peer.as_socket().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((stream.into(), peer))
    }

    /// The connection is of the listener's runtime.
    fn join(
        &self,
        (stream, peer): (net::TcpStream, SocketAddr),
    ) -> io::Result<(TcpStream, SocketAddr)> {
        let io = Socket::on(self.io.netpoll(), stream, STREAM_INTEREST)?.assume(ACCEPTED);
        Ok((TcpStream { io }, peer))
    }

    options! {
        /// The address that it listens on.
        local_addr() -> SocketAddr = |io| io.get().local_addr();
        /// `IP_TTL`.
        ttl() -> u32 = |io| io.get().ttl();
        /// Sets `IP_TTL`.
        set_ttl(ttl: u32) -> () = |io| io.get().set_ttl(ttl);
    }
}
