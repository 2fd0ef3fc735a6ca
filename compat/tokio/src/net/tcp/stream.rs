//! A TCP connection.

use std::{
    io,
    net::{self, SocketAddr},
    task::{Context, Poll},
    time::Duration,
};

use socket2::{Domain, SockRef};
use tokio_real::io::ReadBuf;
use ws_net::connect::{connect_tcp, tcp_socket};
use ws_reactor::{Direction, ReadySet, STREAM_INTEREST};

use super::split;
use crate::net::{
    ToSocketAddrs,
    addr::first_that_works,
    common::{options, std_socket, stream},
    island::{Recv, recv_read_buf},
    socket::{self, Socket},
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/struct.TcpStream.html).
pub struct TcpStream {
    pub(crate) io: Socket<net::TcpStream>,
}

std_socket!(TcpStream, net::TcpStream, STREAM_INTEREST);
stream!(TcpStream, split, [io::ErrorKind::NotConnected]);

impl TcpStream {
    /// Connects to the first of the addresses that answers.
    ///
    /// # Errors
    ///
    /// That of the last address, or of the lookup.
    pub async fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<Self> {
        first_that_works(addr, |addr| async move {
            Self::connect_by(tcp_socket(Domain::for_address(addr))?, addr).await
        })
        .await
    }

    pub(crate) async fn connect_by(socket: socket2::Socket, addr: SocketAddr) -> io::Result<Self> {
        let netpoll = socket::netpoll();
        let fd = connect_tcp(&netpoll, socket, addr).await;
        // A connect that is over leaves room to write.
        fd.map(|fd| Self {
            io: Socket::of(fd).assume(ReadySet::WRITABLE),
        })
        .map_err(socket::error)
    }

    #[inline]
    pub(crate) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let len = buf.remaining();
        self.io
            .poll_read_short(cx, len, || recv_read_buf(self.io.get(), Recv::Take, buf))
            .map_ok(drop)
    }

    /// Reads what has arrived, and leaves it there.
    ///
    /// # Errors
    ///
    /// As a read.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io
            .io(Direction::Read, || self.io.get().peek(buf))
            .await
    }

    /// Polls [`peek`](Self::peek).
    ///
    /// # Errors
    ///
    /// As a read.
    pub fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        self.io.poll(cx, Direction::Read, || {
            recv_read_buf(self.io.get(), Recv::Peek, buf)
        })
    }

    options! {
        /// The address of this side.
        local_addr() -> SocketAddr = |io| io.get().local_addr();
        /// The address of the other side.
        peer_addr() -> SocketAddr = |io| io.get().peer_addr();
        /// `TCP_NODELAY`.
        nodelay() -> bool = |io| io.get().nodelay();
        /// Sets `TCP_NODELAY`.
        set_nodelay(nodelay: bool) -> () = |io| io.get().set_nodelay(nodelay);
        /// `TCP_QUICKACK`.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        quickack() -> bool = |io| SockRef::from(io).tcp_quickack();
        /// Sets `TCP_QUICKACK`.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        set_quickack(quickack: bool) -> () = |io| SockRef::from(io).set_tcp_quickack(quickack);
        /// `SO_LINGER`.
        linger() -> Option<Duration> = |io| SockRef::from(io).linger();
        /// Sets `SO_LINGER`. With a time above zero, the drop blocks its thread.
        #[deprecated = "`SO_LINGER` causes the socket to block the thread on drop"]
        set_linger(dur: Option<Duration>) -> () = |io| SockRef::from(io).set_linger(dur);
        /// Has a close drop what was not sent, and reset the connection.
        set_zero_linger() -> () = |io| SockRef::from(io).set_linger(Some(Duration::ZERO));
        /// `IP_TTL`.
        ttl() -> u32 = |io| io.get().ttl();
        /// Sets `IP_TTL`.
        set_ttl(ttl: u32) -> () = |io| io.get().set_ttl(ttl);
    }
}
