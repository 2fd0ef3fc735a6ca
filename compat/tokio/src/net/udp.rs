//! A UDP socket.

use std::{
    io,
    net::{self, Ipv4Addr, Ipv6Addr, SocketAddr},
    task::{Context, Poll},
};

use bytes::BufMut;
use socket2::{SockAddr, SockRef};
use tokio_real::io::ReadBuf;
use ws_reactor::Direction;

use super::{
    ToSocketAddrs,
    addr::first_that_works,
    common::{datagrams, options, std_socket},
    island::{Recv, recv_buf, recv_buf_from, recv_from_read_buf, recv_read_buf},
    socket::{BOTH, Socket},
};
use crate::io::Interest;

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/struct.UdpSocket.html).
pub struct UdpSocket {
    io: Socket<net::UdpSocket>,
}

std_socket!(UdpSocket, net::UdpSocket, BOTH);
datagrams!(UdpSocket, SocketAddr, std::convert::identity, internet);

fn internet(addr: &SockAddr) -> io::Result<SocketAddr> {
    addr.as_socket()
        .ok_or_else(|| io::Error::other("sender not available"))
}

impl UdpSocket {
    /// Makes a socket at the first of the addresses that can be had.
    ///
    /// # Errors
    ///
    /// That of the last address, or of the lookup.
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<Self> {
        first_that_works(addr, |addr| async move {
            let socket = net::UdpSocket::bind(addr)?;
            socket.set_nonblocking(true)?;
            Self::new(socket)
        })
        .await
    }

    /// Sets the only address that it sends to, and receives from.
    ///
    /// # Errors
    ///
    /// That of the last address, or of the lookup.
    pub async fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        first_that_works(addr, |addr| async move { self.io.get().connect(addr) }).await
    }

    /// Sends to the first of the addresses.
    ///
    /// # Errors
    ///
    /// What the system says, also of the lookup.
    pub async fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        let Some(target) = ws_net::addr::resolve(&addr).await?.next() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no addresses to send data to",
            ));
        };
        self.io
            .io(Direction::Write, || self.io.get().send_to(buf, target))
            .await
    }

    /// Polls for a send to an address.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.io
            .poll(cx, Direction::Write, || self.io.get().send_to(buf, target))
    }

    /// Sends to an address, if there is room.
    ///
    /// # Errors
    ///
    /// What the system says, and [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        self.io
            .try_io(Interest::WRITABLE, || self.io.get().send_to(buf, target))
    }

    /// Receives a datagram, and leaves it there.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let peek = || self.recv_or_end(|| self.io.get().peek(buf));
        self.io.io(Direction::Read, peek).await
    }

    /// Polls [`peek`](Self::peek).
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let peek = || self.recv_or_end(|| recv_read_buf(self.io.get(), Recv::Peek, buf));
        self.io.poll(cx, Direction::Read, peek).map_ok(drop)
    }

    /// Receives a datagram, if there is one, and leaves it there.
    ///
    /// # Errors
    ///
    /// What the system says, and [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io
            .try_io(Interest::READABLE, || self.io.get().peek(buf))
    }

    /// Receives a datagram with its sender, and leaves it there.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io
            .io(Direction::Read, || self.io.get().peek_from(buf))
            .await
    }

    /// Polls [`peek_from`](Self::peek_from).
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let peek = || recv_from_read_buf(self.io.get(), Recv::Peek, buf);
        self.io
            .poll(cx, Direction::Read, peek)
            .map(|addr| internet(&addr?))
    }

    /// Receives a datagram with its sender, if there is one, and leaves it there.
    ///
    /// # Errors
    ///
    /// What the system says, and [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io
            .try_io(Interest::READABLE, || self.io.get().peek_from(buf))
    }

    /// The sender of the next datagram, which is left there.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn peek_sender(&self) -> io::Result<SocketAddr> {
        self.io.io(Direction::Read, || self.sender_now()).await
    }

    /// Polls [`peek_sender`](Self::peek_sender).
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        self.io.poll(cx, Direction::Read, || self.sender_now())
    }

    /// The sender of the next datagram, if there is one.
    ///
    /// # Errors
    ///
    /// What the system says, and [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        self.io.try_io(Interest::READABLE, || self.sender_now())
    }

    fn sender_now(&self) -> io::Result<SocketAddr> {
        internet(&SockRef::from(&self.io).peek_sender()?)
    }

    options! {
        /// `SO_BROADCAST`.
        broadcast() -> bool = |io| io.get().broadcast();
        /// Sets `SO_BROADCAST`.
        set_broadcast(on: bool) -> () = |io| io.get().set_broadcast(on);
        /// `IP_MULTICAST_LOOP`.
        multicast_loop_v4() -> bool = |io| io.get().multicast_loop_v4();
        /// Sets `IP_MULTICAST_LOOP`.
        set_multicast_loop_v4(on: bool) -> () = |io| io.get().set_multicast_loop_v4(on);
        /// `IP_MULTICAST_TTL`.
        multicast_ttl_v4() -> u32 = |io| io.get().multicast_ttl_v4();
        /// Sets `IP_MULTICAST_TTL`.
        set_multicast_ttl_v4(ttl: u32) -> () = |io| io.get().set_multicast_ttl_v4(ttl);
        /// `IPV6_MULTICAST_LOOP`.
        multicast_loop_v6() -> bool = |io| io.get().multicast_loop_v6();
        /// Sets `IPV6_MULTICAST_LOOP`.
        set_multicast_loop_v6(on: bool) -> () = |io| io.get().set_multicast_loop_v6(on);
        /// `IPV6_TCLASS`.
        tclass_v6() -> u32 = |io| SockRef::from(io).tclass_v6();
        /// Sets `IPV6_TCLASS`.
        set_tclass_v6(tclass: u32) -> () = |io| SockRef::from(io).set_tclass_v6(tclass);
        /// `IP_TTL`.
        ttl() -> u32 = |io| io.get().ttl();
        /// Sets `IP_TTL`.
        set_ttl(ttl: u32) -> () = |io| io.get().set_ttl(ttl);
        /// `IP_TOS`.
        tos_v4() -> u32 = |io| SockRef::from(io).tos_v4();
        /// `IP_TOS`.
        #[deprecated(note = "`tos` related methods have been renamed `tos_v4` since they are IPv4-specific.")]
        tos() -> u32 = |io| SockRef::from(io).tos_v4();
        /// Sets `IP_TOS`.
        set_tos_v4(tos: u32) -> () = |io| SockRef::from(io).set_tos_v4(tos);
        /// Sets `IP_TOS`.
        #[deprecated(note = "`tos` related methods have been renamed `tos_v4` since they are IPv4-specific.")]
        set_tos(tos: u32) -> () = |io| SockRef::from(io).set_tos_v4(tos);
        /// `SO_BINDTODEVICE`.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        device() -> Option<Vec<u8>> = |io| SockRef::from(io).device();
        /// Sets `SO_BINDTODEVICE`.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        bind_device(interface: Option<&[u8]>) -> () = |io| SockRef::from(io).bind_device(interface);
        /// Joins a multicast group.
        join_multicast_v4(multiaddr: Ipv4Addr, interface: Ipv4Addr) -> () =
            |io| io.get().join_multicast_v4(&multiaddr, &interface);
        /// Joins a multicast group.
        join_multicast_v6(multiaddr: &Ipv6Addr, interface: u32) -> () =
            |io| io.get().join_multicast_v6(multiaddr, interface);
        /// Leaves a multicast group.
        leave_multicast_v4(multiaddr: Ipv4Addr, interface: Ipv4Addr) -> () =
            |io| io.get().leave_multicast_v4(&multiaddr, &interface);
        /// Leaves a multicast group.
        leave_multicast_v6(multiaddr: &Ipv6Addr, interface: u32) -> () =
            |io| io.get().leave_multicast_v6(multiaddr, interface);
    }
}
