//! A TCP socket before it is a listener or a stream.

use std::{
    fmt, io,
    net::{self, SocketAddr},
    os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd},
    time::Duration,
};

use socket2::Domain;
use ws_net::connect::tcp_socket;

use crate::net::{TcpListener, TcpStream, common::options};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/struct.TcpSocket.html).
pub struct TcpSocket {
    io: socket2::Socket,
}

impl TcpSocket {
    /// A socket of IPv4.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn new_v4() -> io::Result<Self> {
        tcp_socket(Domain::IPV4).map(Self::of)
    }

    /// A socket of IPv6.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn new_v6() -> io::Result<Self> {
        tcp_socket(Domain::IPV6).map(Self::of)
    }

    /// A stream of std's, which should be neither connected nor listening, and in nonblocking mode.
    pub fn from_std_stream(stream: net::TcpStream) -> Self {
        Self::of(stream.into())
    }

    pub(crate) fn of(io: socket2::Socket) -> Self {
        Self { io }
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect_by(self.io, addr).await
    }

    /// Listens.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        self.io.listen(backlog.try_into().unwrap_or(i32::MAX))?;
        TcpListener::new(self.io.into())
    }

    options! {
        /// `SO_KEEPALIVE`.
        keepalive() -> bool = |io| io.keepalive();
        /// Sets `SO_KEEPALIVE`.
        set_keepalive(keepalive: bool) -> () = |io| io.set_keepalive(keepalive);
        /// `SO_REUSEADDR`.
        reuseaddr() -> bool = |io| io.reuse_address();
        /// Sets `SO_REUSEADDR`.
        set_reuseaddr(reuseaddr: bool) -> () = |io| io.set_reuse_address(reuseaddr);
        /// `SO_REUSEPORT`.
        reuseport() -> bool = |io| io.reuse_port();
        /// Sets `SO_REUSEPORT`.
        set_reuseport(reuseport: bool) -> () = |io| io.set_reuse_port(reuseport);
        /// `SO_SNDBUF`.
        send_buffer_size() -> u32 = |io| io.send_buffer_size().map(|size| size as u32);
        /// Sets `SO_SNDBUF`.
        set_send_buffer_size(size: u32) -> () = |io| io.set_send_buffer_size(size as usize);
        /// `SO_RCVBUF`.
        recv_buffer_size() -> u32 = |io| io.recv_buffer_size().map(|size| size as u32);
        /// Sets `SO_RCVBUF`.
        set_recv_buffer_size(size: u32) -> () = |io| io.set_recv_buffer_size(size as usize);
        /// `SO_LINGER`.
        linger() -> Option<Duration> = |io| io.linger();
        /// Sets `SO_LINGER`. With a time above zero, the drop blocks its thread.
        #[deprecated = "`SO_LINGER` causes the socket to block the thread on drop"]
        set_linger(dur: Option<Duration>) -> () = |io| io.set_linger(dur);
        /// Has a close drop what was not sent, and reset the connection.
        set_zero_linger() -> () = |io| io.set_linger(Some(Duration::ZERO));
        /// `TCP_NODELAY`.
        nodelay() -> bool = |io| io.tcp_nodelay();
        /// Sets `TCP_NODELAY`.
        set_nodelay(nodelay: bool) -> () = |io| io.set_tcp_nodelay(nodelay);
        /// `IPV6_TCLASS`.
        tclass_v6() -> u32 = |io| io.tclass_v6();
        /// Sets `IPV6_TCLASS`.
        set_tclass_v6(tclass: u32) -> () = |io| io.set_tclass_v6(tclass);
        /// `IP_TOS`.
        tos_v4() -> u32 = |io| io.tos_v4();
        /// `IP_TOS`.
        #[deprecated(note = "`tos` related methods have been renamed `tos_v4` since they are IPv4-specific.")]
        tos() -> u32 = |io| io.tos_v4();
        /// Sets `IP_TOS`.
        set_tos_v4(tos: u32) -> () = |io| io.set_tos_v4(tos);
        /// Sets `IP_TOS`.
        #[deprecated(note = "`tos` related methods have been renamed `tos_v4` since they are IPv4-specific.")]
        set_tos(tos: u32) -> () = |io| io.set_tos_v4(tos);
        /// `SO_BINDTODEVICE`.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        device() -> Option<Vec<u8>> = |io| io.device();
        /// Sets `SO_BINDTODEVICE`.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        bind_device(interface: Option<&[u8]>) -> () = |io| io.bind_device(interface);
        /// The address of this side.
        local_addr() -> SocketAddr = |io| {
            let addr = io.local_addr()?.as_socket();
            addr.ok_or_else(|| io::Error::new(
                io::ErrorKind::InvalidInput,
                "invalid address family (not IPv4 or IPv6)",
            ))
        };
        /// The error that waits at the socket, which is taken away.
        take_error() -> Option<io::Error> = |io| io.take_error();
        /// Sets the address of this side.
        bind(addr: SocketAddr) -> () = |io| io.bind(&addr.into());
    }
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.fmt(f)
    }
}

impl AsFd for TcpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl AsRawFd for TcpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.io.as_raw_fd()
    }
}

impl IntoRawFd for TcpSocket {
    fn into_raw_fd(self) -> RawFd {
        self.io.into_raw_fd()
    }
}
