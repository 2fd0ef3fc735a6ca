//! What TCP and UDP sockets share: their data, and the calls that do not ask which of both it is.
//!
//! A socket that its program has closed may live on without it (`closed`), until its data is
//! delivered. A connection that waits in a backlog has no program yet. Both have no news.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr},
};

use super::{
    HostId, Network, Ready, SocketId,
    tcp::{State, Tcp},
    udp::{Departure, Udp},
};
use crate::error::{EBADF, EINVAL, ENOTCONN, EOPNOTSUPP, os};

/// Buffers of a new socket as `SO_RCVBUF` and `SO_SNDBUF` give them: twice the payload.
pub(crate) const DEFAULT_BUFFER: usize = 262_144;

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) generation: u32,
    pub(crate) host: HostId,
    pub(crate) v6: bool,
    pub(crate) only_v6: bool,
    pub(crate) reuse: bool,
    pub(crate) reuse_port: bool,
    pub(crate) ttl: u32,
    pub(crate) receive_buffer: usize,
    pub(crate) send_buffer: usize,
    /// In canonical form: never an IPv4 address mapped into IPv6. So are all other addresses.
    pub(crate) local: SocketAddr,
    pub(crate) remote: Option<SocketAddr>,
    /// The program has bound it, or the listener that it comes from.
    pub(crate) bound: bool,
    /// The address was given by the program; a disconnect keeps it.
    pub(crate) addr_locked: bool,
    /// The port was given by the program; the end of the connection does not free it.
    pub(crate) port_locked: bool,
    /// It is among the users of its port.
    pub(crate) has_port: bool,
    /// The error that waits for the program: `sk_err`.
    pub(crate) error: Option<i32>,
    pub(crate) shut_read: bool,
    pub(crate) shut_write: bool,
    pub(crate) closed: bool,
    pub(crate) last: Ready,
    pub(crate) news: Ready,
    pub(crate) proto: Proto,
}

#[derive(Debug)]
pub(crate) enum Proto {
    Tcp(Box<Tcp>),
    Udp(Udp),
}

impl Socket {
    pub(crate) fn new(host: HostId, v6: bool, proto: Proto) -> Self {
        Self {
            generation: 0,
            host,
            v6,
            only_v6: false,
            reuse: false,
            reuse_port: false,
            ttl: 64,
            receive_buffer: DEFAULT_BUFFER,
            send_buffer: DEFAULT_BUFFER,
            local: SocketAddr::new(unspecified(v6), 0),
            remote: None,
            bound: false,
            addr_locked: false,
            port_locked: false,
            has_port: false,
            error: None,
            shut_read: false,
            shut_write: false,
            closed: false,
            last: Ready::NONE,
            news: Ready::NONE,
            proto,
        }
    }

    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self.proto, Proto::Tcp(_))
    }

    /// Neither connected nor listening: `TCP_CLOSE`.
    pub(crate) fn is_idle(&self) -> bool {
        match &self.proto {
            Proto::Tcp(tcp) => tcp.state == State::Closed,
            Proto::Udp(_) => self.remote.is_none(),
        }
    }

    /// The other end of a connection.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.remote.expect("a connection has a peer")
    }

    pub(crate) fn take_error(&mut self) -> io::Result<()> {
        self.error.take().map_or(Ok(()), |number| Err(os(number)))
    }

    /// An address as the program sees it.
    pub(crate) fn shown(&self, addr: SocketAddr) -> SocketAddr {
        match addr.ip() {
            IpAddr::V4(ip) if self.v6 => {
                SocketAddr::new(IpAddr::V6(ip.to_ipv6_mapped()), addr.port())
            }
            _ => addr,
        }
    }
}

pub(crate) fn unspecified(v6: bool) -> IpAddr {
    if v6 {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    }
}

impl Network {
    /// The slot of a socket that its program has not closed.
    pub(crate) fn key(&self, id: SocketId) -> io::Result<usize> {
        match self.sockets.get(id.slot) {
            Some(socket) if socket.generation == id.generation && !socket.closed => Ok(id.slot),
            _ => Err(os(EBADF)),
        }
    }

    /// Enters a socket into the table.
    pub(crate) fn add_socket(&mut self, mut socket: Socket) -> usize {
        self.generation += 1;
        socket.generation = self.generation;
        let key = self.sockets.insert(socket);
        self.sockets[key].last = self.ready(key);
        key
    }

    pub(crate) fn id(&self, key: usize) -> SocketId {
        SocketId {
            slot: key,
            generation: self.sockets[key].generation,
        }
    }

    #[track_caller]
    pub(crate) fn check_up(&self, host: HostId) {
        let host = &self.hosts[host.0];
        assert!(
            host.up,
            "host {:?} has crashed: call restart before its next socket",
            host.name
        );
    }

    /// What the socket is ready for now. Nothing, if it is closed.
    pub fn readiness(&self, socket: SocketId) -> Ready {
        self.key(socket).map_or(Ready::NONE, |key| self.ready(key))
    }

    pub(crate) fn ready(&self, key: usize) -> Ready {
        let s = &self.sockets[key];
        let mut ready = match &s.proto {
            Proto::Tcp(tcp) => tcp.ready(s),
            Proto::Udp(udp) => udp.ready(s),
        };
        let listens = matches!(&s.proto, Proto::Tcp(tcp) if tcp.state == State::Listen);
        ready.set_if(s.error.is_some() && !listens, Ready::ERROR);
        ready
    }

    /// Connects the socket. TCP answers `EINPROGRESS`, and the socket becomes writable when the
    /// handshake has ended; UDP is connected at once.
    ///
    /// # Errors
    ///
    /// - `EINPROGRESS`, `EALREADY`: the handshake has begun, now or before.
    /// - `EISCONN`: the socket is connected, or listens. The first call after the end of a
    ///   handshake gives `Ok`, as in Linux.
    /// - `ECONNREFUSED`, `ECONNRESET`, `ETIMEDOUT`, `ECONNABORTED`: how the handshake ended.
    /// - `EADDRNOTAVAIL`: no ephemeral port is left, or this connection exists.
    /// - `ENETUNREACH`: there is no way to the address. `EHOSTUNREACH`: no host has had it for 3 s.
    /// - `EAFNOSUPPORT`, `EINVAL`: the address is of the wrong family.
    pub fn connect(&mut self, socket: SocketId, to: SocketAddr) -> io::Result<()> {
        self.connect_to(socket, Ok(to))
    }

    /// The same. An address that is none is told after what the socket has against a connection.
    pub(crate) fn connect_to(
        &mut self,
        socket: SocketId,
        to: io::Result<SocketAddr>,
    ) -> io::Result<()> {
        let key = self.key(socket)?;
        let result = match self.sockets[key].proto {
            Proto::Tcp(_) => self.tcp_connect(key, to),
            Proto::Udp(_) => self
                .auto_bind(key, None)
                .and_then(|()| self.udp_connect(key, to?)),
        };
        self.note(key, Ready::NONE);
        result
    }

    /// Ends the connection of a socket, or its listening, so that it can be connected again:
    /// `connect` to `AF_UNSPEC`. A TCP connection is reset.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn disconnect(&mut self, socket: SocketId) -> io::Result<()> {
        let key = self.key(socket)?;
        match self.sockets[key].proto {
            Proto::Tcp(_) => self.tcp_disconnect(key),
            Proto::Udp(_) => self.udp_disconnect(key),
        }
        self.note(key, Ready::NONE);
        Ok(())
    }

    /// Whether the socket is of IPv6.
    pub(crate) fn is_v6(&self, socket: SocketId) -> io::Result<bool> {
        Ok(self.sockets[self.key(socket)?].v6)
    }

    /// Reads what has arrived: bytes of a stream, or one datagram, whose rest is lost if it is
    /// longer than the buffer. `Ok(0)` is the end of the stream, or an empty datagram.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: nothing has arrived.
    /// - `ECONNRESET`, `ECONNREFUSED`, `ETIMEDOUT`, `EPIPE`: how the connection ended; once.
    /// - `ENOTCONN`: a TCP socket that was never connected.
    pub fn read(&mut self, socket: SocketId, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(socket, buffer, false)
    }

    /// Reads like [`read`](Self::read), and leaves what it has read where it is.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn peek(&mut self, socket: SocketId, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(socket, buffer, true)
    }

    fn receive(&mut self, id: SocketId, buffer: &mut [u8], peek: bool) -> io::Result<usize> {
        let key = self.key(id)?;
        let result = match self.sockets[key].proto {
            Proto::Tcp(_) => self.tcp_read(key, buffer, peek),
            Proto::Udp(_) => self
                .udp_receive(key, buffer, peek)
                .map(|(length, _)| length),
        };
        self.note(key, Ready::NONE);
        result
    }

    /// Writes as much as there is room for, and answers how much that was; or sends one datagram to
    /// the peer.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: there is no room, or the handshake has not ended.
    /// - `EPIPE`: the socket is not connected, or its sending half is closed.
    /// - `ECONNRESET`, `ECONNREFUSED`, `ETIMEDOUT`: how the connection ended; once.
    /// - UDP: `EDESTADDRREQ` without a peer, `EMSGSIZE` above 65507 bytes (65527 for IPv6).
    pub fn write(&mut self, socket: SocketId, data: &[u8]) -> io::Result<usize> {
        let key = self.key(socket)?;
        let result = match self.sockets[key].proto {
            Proto::Tcp(_) => self.tcp_write(key, data),
            Proto::Udp(_) => self.udp_send(key, data, Departure::default()),
        };
        self.note(key, Ready::NONE);
        result
    }

    /// Closes one direction of a connection, or both.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`: the socket is not connected, or not any more. As in Linux, the direction is
    /// closed all the same.
    pub fn shutdown(&mut self, socket: SocketId, how: Shutdown) -> io::Result<()> {
        let key = self.key(socket)?;
        let result = match self.sockets[key].proto {
            Proto::Tcp(_) => self.tcp_shutdown(key, how),
            Proto::Udp(_) => {
                let s = &mut self.sockets[key];
                s.shut(how);
                s.remote.map(|_| ()).ok_or_else(|| os(ENOTCONN))
            }
        };
        if self.sockets.contains(key) {
            self.note(key, Ready::NONE);
        }
        result
    }

    /// Closes the socket. TCP sends what is still to be sent in the background, or a RST if data
    /// was not read or the socket has a linger time of 0.
    ///
    /// # Errors
    ///
    /// `EBADF`: it is closed already, or its host has crashed.
    pub fn close(&mut self, socket: SocketId) -> io::Result<()> {
        let key = self.key(socket)?;
        match self.sockets[key].proto {
            Proto::Tcp(_) => self.tcp_close(key),
            Proto::Udp(_) => {
                self.stop_leaving(key);
                self.free(key);
            }
        }
        Ok(())
    }

    /// Takes a socket without timers and connection out of the table.
    pub(crate) fn free(&mut self, key: usize) {
        self.leave_port(key);
        self.sockets.remove(key);
    }

    /// The address that the socket is bound to. Port 0 stands for none.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn local_addr(&self, socket: SocketId) -> io::Result<SocketAddr> {
        let s = &self.sockets[self.key(socket)?];
        Ok(s.shown(s.local))
    }

    /// The address of the peer.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`: the socket is not connected, or not any more.
    pub fn peer_addr(&self, socket: SocketId) -> io::Result<SocketAddr> {
        let s = &self.sockets[self.key(socket)?];
        let connected = match &s.proto {
            Proto::Tcp(tcp) => tcp.has_peer(),
            Proto::Udp(_) => s.remote.is_some_and(|peer| peer.port() != 0),
        };
        let peer = s.remote.filter(|_| connected).ok_or_else(|| os(ENOTCONN))?;
        Ok(s.shown(peer))
    }

    /// The bytes of a packet on the way to the peer: `IP_MTU`.
    pub(crate) fn mtu(&self, socket: SocketId) -> io::Result<usize> {
        let peer = self.peer_addr(socket)?.ip().to_canonical();
        Ok(self.mtu_to(self.key(socket)?, peer))
    }

    /// The bytes of a packet on the way to an address. Within a host they are Linux's.
    pub(crate) fn mtu_to(&self, key: usize, to: IpAddr) -> usize {
        match self.hosts[self.sockets[key].host.0].has(to) {
            true if to.is_ipv4() => 65_535,
            true => 65_536,
            false => 1_500,
        }
    }

    /// Takes the error that waits at the socket: `SO_ERROR`.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn take_error(&mut self, socket: SocketId) -> io::Result<Option<io::Error>> {
        let key = self.key(socket)?;
        let error = self.sockets[key].error.take().map(os);
        self.note(key, Ready::NONE);
        Ok(error)
    }

    /// The bytes that wait for a read: of a stream, or of the first datagram.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed. `EINVAL`: it listens.
    pub fn unread(&self, socket: SocketId) -> io::Result<usize> {
        match &self.sockets[self.key(socket)?].proto {
            Proto::Tcp(tcp) if tcp.state == State::Listen => Err(os(EINVAL)),
            Proto::Tcp(tcp) => Ok(tcp.received.len()),
            Proto::Udp(udp) => Ok(udp.first_len()),
        }
    }

    /// Whether a stream has some bytes, less than so many, and more may come.
    pub(crate) fn has_less(&self, socket: SocketId, bytes: usize) -> io::Result<bool> {
        let s = &self.sockets[self.key(socket)?];
        Ok(match &s.proto {
            Proto::Tcp(tcp) => {
                let is_open = !s.shut_read && tcp.state != State::Closed;
                is_open && !tcp.received.is_empty() && tcp.received.len() < bytes
            }
            Proto::Udp(_) => false,
        })
    }

    /// Bytes that were written and that the peer has not acknowledged.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed. `EINVAL`: it listens.
    pub fn unacknowledged(&self, socket: SocketId) -> io::Result<usize> {
        match &self.sockets[self.key(socket)?].proto {
            Proto::Tcp(tcp) if tcp.state == State::Listen => Err(os(EINVAL)),
            Proto::Tcp(tcp) => Ok(tcp.buffered() + usize::from(tcp.fin_queued)),
            Proto::Udp(udp) => Ok(udp.sending()),
        }
    }

    /// The slot of a UDP socket.
    pub(crate) fn udp_key(&self, socket: SocketId) -> io::Result<usize> {
        let key = self.key(socket)?;
        if self.sockets[key].is_tcp() {
            Err(os(EOPNOTSUPP))
        } else {
            Ok(key)
        }
    }
}

impl Socket {
    pub(crate) fn shut(&mut self, how: Shutdown) {
        self.shut_read |= how != Shutdown::Write;
        self.shut_write |= how != Shutdown::Read;
    }
}
