//! A UDP socket.

use std::future::Future;
use std::io;
use std::net::{self, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use ws_executor::task::coop::cooperative;
use ws_reactor::Interest;

use crate::delegate::{std_socket, waits};
use ws_net::AsyncFd;
use ws_net::addr::{self, ToSocketAddrs, first_that_works};
use ws_net::current::in_runtime;

/// A UDP socket.
///
/// Every method takes it by reference, so that one task may receive while others send. A datagram
/// that is longer than the buffer that receives it is cut off. On Windows it is an error
/// (`WSAEMSGSIZE`, 10040), and the datagram is gone after a receive.
///
/// # Examples
///
/// ```
/// use ws::net::UdpSocket;
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let here = UdpSocket::bind("127.0.0.1:0").await?;
/// let there = UdpSocket::bind("127.0.0.1:0").await?;
/// here.send_to(b"hello", there.local_addr()?).await?;
/// let mut buffer = [0; 16];
/// let (read, from) = there.recv_from(&mut buffer).await?;
/// assert_eq!((&buffer[..read], from), (&b"hello"[..], here.local_addr()?));
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct UdpSocket {
    fd: Arc<AsyncFd<net::UdpSocket>>,
}

std_socket!(
    UdpSocket,
    net::UdpSocket,
    "UdpSocket",
    "ws::net::UdpSocket",
    Interest::READABLE | Interest::WRITABLE
);

impl UdpSocket {
    /// Makes a socket with an address of this machine: the first of `addr` that can be had.
    ///
    /// Port 0 lets the system choose. For options that have to be set before, make a socket of
    /// std's and use [`UdpSocket::from_std`].
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
    pub fn bind<A: ToSocketAddrs>(addr: A) -> impl Future<Output = io::Result<UdpSocket>> {
        in_runtime("ws::net::UdpSocket::bind", async move |netpoll| {
            first_that_works(addr, |addr| {
                let socket = net::UdpSocket::bind(addr)?;
                socket.set_nonblocking(true)?;
                UdpSocket::join(&netpoll, socket)
            })
            .await
        })
    }

    /// Sets where [`UdpSocket::send`] sends, and the only address that anything is received from.
    ///
    /// # Errors
    ///
    /// The error of the last address that was tried, or that of the lookup, which needs a runtime
    /// around it.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, the address is as it was.
    pub async fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        cooperative(first_that_works(addr, |addr| {
            self.fd.get_ref().connect(addr)
        }))
        .await
    }

    /// Sends a datagram to the address of [`UdpSocket::connect`].
    ///
    /// # Errors
    ///
    /// What the system says. [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) is about an
    /// earlier datagram that had no receiver.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, nothing was sent.
    pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.fd
            .io(Interest::WRITABLE, || self.fd.get_ref().send(buf))
            .await
    }

    /// Receives a datagram from the address of [`UdpSocket::connect`].
    ///
    /// # Errors
    ///
    /// As [`UdpSocket::send`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, nothing was received.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.fd
            .io(Interest::READABLE, || self.fd.get_ref().recv(buf))
            .await
    }

    /// Sends a datagram to the first address of `target`.
    ///
    /// # Errors
    ///
    /// What the system says, or the lookup, which needs a runtime around it.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, nothing was sent.
    pub async fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], target: A) -> io::Result<usize> {
        // Of an address that is none there is no operation that would pay.
        cooperative(async {
            let target = addr::resolve(&target)
                .await?
                .next()
                .ok_or_else(addr::no_address)?;
            self.fd
                .io(Interest::WRITABLE, || {
                    self.fd.get_ref().send_to(buf, target)
                })
                .await
        })
        .await
    }

    /// Receives a datagram, and says which address sent it.
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
            .io(Interest::READABLE, || self.fd.get_ref().recv_from(buf))
            .await
    }

    /// Receives a datagram and leaves it there for the next to receive.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Cancel safety
    ///
    /// Nothing is taken from the socket in any case.
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.fd
            .io(Interest::READABLE, || self.fd.get_ref().peek_from(buf))
            .await
    }

    /// Polls [`UdpSocket::send`].
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

    /// Polls [`UdpSocket::recv`].
    ///
    /// Of all tasks that poll for a direction, the last one is woken.
    ///
    /// # Errors
    ///
    /// As `recv`.
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.fd
            .poll_io(cx, Interest::READABLE, || self.fd.get_ref().recv(buf))
    }

    /// Polls [`UdpSocket::send_to`], with an address in numbers.
    ///
    /// Of all tasks that poll for a direction, the last one is woken.
    ///
    /// # Errors
    ///
    /// As `send_to`.
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.fd.poll_io(cx, Interest::WRITABLE, || {
            self.fd.get_ref().send_to(buf, target)
        })
    }

    /// Polls [`UdpSocket::recv_from`].
    ///
    /// Of all tasks that poll for a direction, the last one is woken.
    ///
    /// # Errors
    ///
    /// As `recv_from`.
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.fd
            .poll_io(cx, Interest::READABLE, || self.fd.get_ref().recv_from(buf))
    }

    /// Sends if there is room; see [`UdpSocket::send_to`].
    ///
    /// # Errors
    ///
    /// As `send_to`, and [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        self.fd.try_io(Interest::WRITABLE, || {
            self.fd.get_ref().send_to(buf, target)
        })
    }

    /// Receives if a datagram is there; see [`UdpSocket::recv_from`].
    ///
    /// # Errors
    ///
    /// As `recv_from`, and [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.fd
            .try_io(Interest::READABLE, || self.fd.get_ref().recv_from(buf))
    }

    /// Returns the address of this socket.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().local_addr()
    }

    /// Returns the address of [`UdpSocket::connect`].
    ///
    /// # Errors
    ///
    /// What the system says, such as [`NotConnected`](io::ErrorKind::NotConnected).
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().peer_addr()
    }

    /// Returns whether it may send to broadcast addresses.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.fd.get_ref().broadcast()
    }

    /// Says whether it may send to broadcast addresses.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.fd.get_ref().set_broadcast(broadcast)
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

    /// Joins a multicast group of IPv4, on the interface with this address.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.fd.get_ref().join_multicast_v4(&group, &interface)
    }

    /// Leaves a multicast group of IPv4.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.fd.get_ref().leave_multicast_v4(&group, &interface)
    }

    /// Joins a multicast group of IPv6, on the interface with this index.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.fd.get_ref().join_multicast_v6(group, interface)
    }

    /// Leaves a multicast group of IPv6.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.fd.get_ref().leave_multicast_v6(group, interface)
    }
}

waits!(
    UdpSocket,
    "receiving is worth trying. See [`try_recv_from`](Self::try_recv_from).",
    "sending is worth trying. See [`try_send_to`](Self::try_send_to)."
);
