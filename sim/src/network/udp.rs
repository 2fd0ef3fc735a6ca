//! Datagrams.
//!
//! A datagram goes to the socket that fits best: connected to the sender, then bound to the
//! address, then bound to all; among equals, the newest. If none fits, the sender's host gets an
//! ICMP *port unreachable*, and a socket that is connected there has the error `ECONNREFUSED`. A
//! pending error comes before data, as in Linux. A full receive queue drops what arrives.
//!
//! A send never waits: the link's queue has no end. So a UDP socket is always writable.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
};

use super::{
    HostId, Network, Ready, SocketId,
    packet::{Body, Datagram},
    ports::takes,
    socket::{Proto, Socket},
};
use crate::error::{EAGAIN, ECONNREFUSED, EDESTADDRREQ, EINVAL, EMSGSIZE, EPIPE, os};

/// Largest payload over IPv4: 65535 less the headers of IP and UDP.
const LARGEST_V4: usize = 65_507;
/// Largest payload over IPv6, whose length does not count its own header.
const LARGEST_V6: usize = 65_527;
/// What Linux charges for a datagram in a queue beside its bytes, about.
const OVERHEAD: usize = 768;

/// What is known of a datagram that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) from: SocketAddr,
    /// The address that it was sent to.
    pub(crate) to: IpAddr,
    pub(crate) tos: u8,
}

/// How a datagram is sent, where that is not what the socket says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Departure {
    pub(crate) to: Option<SocketAddr>,
    /// The address of the sender.
    pub(crate) from: Option<IpAddr>,
    pub(crate) tos: u8,
}

/// What a UDP socket has beside the rest.
#[derive(Debug, Default)]
pub(crate) struct Udp {
    queue: VecDeque<(Arrival, Vec<u8>)>,
    /// The bytes of the queue with their overhead.
    charged: usize,
}

impl Udp {
    pub(crate) fn ready(&self, socket: &Socket) -> Ready {
        let mut ready = Ready::WRITABLE;
        ready.set_if(!self.queue.is_empty() || socket.shut_read, Ready::READABLE);
        ready.set_if(socket.shut_read, Ready::READ_CLOSED);
        ready.set_if(socket.shut_read && socket.shut_write, Ready::WRITE_CLOSED);
        ready
    }

    /// The length of the first datagram, or 0.
    pub(crate) fn first_len(&self) -> usize {
        self.queue.front().map_or(0, |(_, data)| data.len())
    }
}

impl Network {
    /// Makes a UDP socket on a host.
    ///
    /// # Panics
    ///
    /// Panics if the host has crashed and was not restarted.
    #[track_caller]
    pub fn udp_socket(&mut self, host: HostId, v6: bool) -> SocketId {
        self.check_up(host);
        let key = self.add_socket(Socket::new(host, v6, Proto::Udp(Udp::default())));
        self.id(key)
    }

    /// Sends a datagram to the peer of a connected UDP socket.
    ///
    /// # Errors
    ///
    /// As [`send_to`](Self::send_to), and `EDESTADDRREQ`: it is not connected.
    pub fn send(&mut self, socket: SocketId, data: &[u8]) -> io::Result<usize> {
        let key = self.udp_key(socket)?;
        let result = self.udp_send(key, data, Departure::default());
        self.note(key, Ready::NONE);
        result
    }

    /// Sends a datagram. A socket that is not bound gets an ephemeral port.
    ///
    /// # Errors
    ///
    /// - `EMSGSIZE`: more than 65507 bytes, or 65527 for IPv6.
    /// - `ECONNREFUSED`: nobody had the port of an earlier datagram. This one is not sent.
    /// - `EINVAL`: the port is 0. `EPIPE`: the sending half is shut down.
    /// - `ENETUNREACH`, `EHOSTUNREACH`, `EAFNOSUPPORT`: there is no way to the address.
    pub fn send_to(&mut self, socket: SocketId, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        let to = Some(to);
        self.send_message(
            socket,
            data,
            Departure {
                to,
                ..Departure::default()
            },
        )
    }

    /// Sends a datagram: as [`send_to`](Self::send_to).
    pub(crate) fn send_message(
        &mut self,
        socket: SocketId,
        data: &[u8],
        how: Departure,
    ) -> io::Result<usize> {
        let key = self.udp_key(socket)?;
        let result = self.udp_send(key, data, how);
        self.note(key, Ready::NONE);
        result
    }

    /// Receives a datagram: as [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// `EAGAIN`: none has arrived. `ECONNREFUSED`: nobody has the port of the peer.
    pub fn recv(&mut self, socket: SocketId, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv_from(socket, buffer).map(|(length, _)| length)
    }

    /// Receives a datagram and its sender. What does not fit into the buffer is lost.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn recv_from(
        &mut self,
        socket: SocketId,
        buffer: &mut [u8],
    ) -> io::Result<(usize, SocketAddr)> {
        let (length, arrival) = self.recv_message(socket, buffer, false)?;
        Ok((length, arrival.from))
    }

    /// Receives a datagram, or looks at it, and what is known of it.
    pub(crate) fn recv_message(
        &mut self,
        socket: SocketId,
        buffer: &mut [u8],
        peek: bool,
    ) -> io::Result<(usize, Arrival)> {
        let key = self.udp_key(socket)?;
        let result = self.udp_receive(key, buffer, peek);
        self.note(key, Ready::NONE);
        result
    }

    /// Receives a datagram and its sender, and leaves it in the queue.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn peek_from(
        &mut self,
        socket: SocketId,
        buffer: &mut [u8],
    ) -> io::Result<(usize, SocketAddr)> {
        let (length, arrival) = self.recv_message(socket, buffer, true)?;
        Ok((length, arrival.from))
    }

    pub(crate) fn udp_connect(&mut self, key: usize, to: SocketAddr) -> io::Result<()> {
        if !self.sockets[key].addr_locked {
            let s = &mut self.sockets[key];
            s.local.set_ip(super::socket::unspecified(s.v6));
        }
        let (to, source) = self.route(key, to)?;
        self.auto_bind(key, None)?;
        let s = &mut self.sockets[key];
        s.local.set_ip(source);
        s.remote = Some(to);
        Ok(())
    }

    pub(crate) fn udp_send(
        &mut self,
        key: usize,
        data: &[u8],
        how: Departure,
    ) -> io::Result<usize> {
        self.auto_bind(key, None)?;
        if data.len() > 0xffff {
            return Err(os(EMSGSIZE));
        }
        let s = &self.sockets[key];
        let (to, source) = match (how.to, s.remote) {
            (Some(to), _) if to.port() == 0 => return Err(os(EINVAL)),
            (Some(to), _) => self.route(key, to)?,
            (None, Some(peer)) => (peer, s.local.ip()),
            (None, None) => return Err(os(EDESTADDRREQ)),
        };
        let s = &mut self.sockets[key];
        if data.len() > if to.is_ipv4() { LARGEST_V4 } else { LARGEST_V6 } {
            return Err(os(EMSGSIZE));
        }
        s.take_error()?;
        if s.shut_write {
            return Err(os(EPIPE));
        }
        let (host, port) = (s.host, s.local.port());
        let source = match how.from {
            Some(own) if !self.hosts[host.0].has(own) => return Err(os(EINVAL)),
            own => own.unwrap_or(source),
        };
        let from = SocketAddr::new(source, port);
        let data_of = Datagram {
            tos: how.tos,
            data: data.to_vec(),
        };
        let body = Body::Udp(data_of);
        self.send_packet(host, (from, to), body);
        Ok(data.len())
    }

    pub(crate) fn udp_receive(
        &mut self,
        key: usize,
        buffer: &mut [u8],
        peek: bool,
    ) -> io::Result<(usize, Arrival)> {
        let s = &mut self.sockets[key];
        s.take_error()?;
        let Proto::Udp(udp) = &mut s.proto else {
            unreachable!("called for UDP sockets alone")
        };
        let (arrival, data) = udp.queue.front().ok_or_else(|| os(EAGAIN))?;
        let (mut arrival, length) = (*arrival, data.len().min(buffer.len()));
        buffer[..length].copy_from_slice(&data[..length]);
        if !peek {
            udp.charged -= data.len() + OVERHEAD;
            udp.queue.pop_front();
        }
        arrival.from = s.shown(arrival.from);
        Ok((length, arrival))
    }

    /// The socket that a datagram is for.
    fn udp_receiver(&self, host: HostId, to: SocketAddr, from: SocketAddr) -> Option<usize> {
        let users = self.hosts[host.0].users(false, to.port());
        let fitting = users.iter().copied().filter(|&key| {
            let s = &self.sockets[key];
            takes(s.local.ip(), s.only_v6, to.ip()) && s.remote.is_none_or(|peer| peer == from)
        });
        fitting.max_by_key(|&key| {
            let s = &self.sockets[key];
            let exact = !s.local.ip().is_unspecified();
            (s.remote.is_some(), exact, s.v6 == to.is_ipv6())
        })
    }

    pub(crate) fn udp_arrives(
        &mut self,
        host: HostId,
        to: SocketAddr,
        from: SocketAddr,
        datagram: Datagram,
    ) {
        let Some(key) = self.udp_receiver(host, to, from) else {
            let body = Body::Unreachable;
            self.send_packet(host, (to, from), body);
            return;
        };
        let s = &mut self.sockets[key];
        let Proto::Udp(udp) = &mut s.proto else {
            unreachable!("the table of UDP ports")
        };
        let Datagram { tos, data } = datagram;
        if udp.charged + data.len() + OVERHEAD > s.receive_buffer.max(OVERHEAD + data.len()) {
            return;
        }
        udp.charged += data.len() + OVERHEAD;
        let arrival = Arrival {
            from,
            to: to.ip(),
            tos,
        };
        udp.queue.push_back((arrival, data));
        self.note(key, Ready::READABLE);
    }

    pub(crate) fn udp_unreachable(&mut self, host: HostId, to: SocketAddr, from: SocketAddr) {
        if let Some(key) = self.udp_receiver(host, to, from)
            && self.sockets[key].remote.is_some()
        {
            self.sockets[key].error = Some(ECONNREFUSED);
            self.note(key, Ready::ERROR);
        }
    }
}
