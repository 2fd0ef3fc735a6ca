//! Datagrams.
//!
//! A datagram goes to the socket that fits best: connected to the sender, then bound to the
//! address, then bound to all; among equals, the newest. If none fits, the sender's host gets an
//! ICMP *port unreachable*, and a socket that is connected there has the error `ECONNREFUSED`. A
//! pending error comes before data, as in Linux. A full receive queue drops what arrives.
//!
//! A datagram is in the send buffer until it has left the queue of a link with a bandwidth. While
//! the buffer is full, a send answers `EAGAIN`. Below the half of it the socket is writable. Over
//! other links a send never waits.

use std::{
    collections::{BTreeMap, VecDeque},
    io, mem,
    net::{IpAddr, SocketAddr},
};

use super::{
    HostId, Network, Ready, SocketId,
    event::{Event, EventKey, Timer},
    packet::{Body, Datagram},
    ports::takes,
    socket::{Proto, Socket},
};
use crate::error::{
    EAFNOSUPPORT, EAGAIN, ECONNREFUSED, EDESTADDRREQ, EINVAL, EMSGSIZE, ENETUNREACH, EPIPE, os,
};

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
    /// More of the same datagram will come: `MSG_MORE`.
    pub(crate) more: bool,
    /// It must not be sent in fragments.
    pub(crate) whole: bool,
    /// It is a part of a send that has found room in the send buffer.
    pub(crate) follows: bool,
}

/// What a UDP socket has beside the rest.
#[derive(Debug, Default)]
pub(crate) struct Udp {
    queue: VecDeque<(Arrival, Vec<u8>)>,
    /// The bytes of the queue with their overhead.
    charged: usize,
    /// What each datagram in the send buffer is charged, by the event at which it leaves.
    leaving: BTreeMap<EventKey, usize>,
    /// A datagram whose end is not there yet, and its ends.
    begun: Option<((SocketAddr, SocketAddr), Datagram)>,
}

impl Udp {
    pub(crate) fn ready(&self, socket: &Socket) -> Ready {
        let mut ready = Ready::NONE;
        ready.set_if(2 * self.sending() <= socket.send_buffer, Ready::WRITABLE);
        ready.set_if(!self.queue.is_empty() || socket.shut_read, Ready::READABLE);
        ready.set_if(socket.shut_read, Ready::READ_CLOSED);
        ready.set_if(socket.shut_read && socket.shut_write, Ready::WRITE_CLOSED);
        ready
    }

    /// What the send buffer is charged.
    pub(crate) fn sending(&self) -> usize {
        self.leaving.values().sum()
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
    /// - `EAGAIN`: the send buffer is full of what has not left a slow link's queue.
    /// - `EINVAL`: the port is 0. `EPIPE`: the sending half is shut down.
    /// - `ENETUNREACH`, `EAFNOSUPPORT`: there is no way to the address.
    /// - `EACCES`: it is the address of all.
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
        if to.is_ipv4() && self.sockets[key].only_v6 {
            return Err(os(EAFNOSUPPORT));
        }
        let (to, source) = self.route(key, to)?;
        let s = &mut self.sockets[key];
        if s.local.ip().is_unspecified() {
            s.local.set_ip(source);
        }
        s.remote = Some(to);
        Ok(())
    }

    /// As `udp_disconnect`.
    pub(crate) fn udp_disconnect(&mut self, key: usize) {
        let s = &mut self.sockets[key];
        s.remote = None;
        if !s.addr_locked {
            s.local.set_ip(super::socket::unspecified(s.v6));
        }
        if !s.port_locked {
            self.leave_port(key);
            self.sockets[key].local.set_port(0);
        }
    }

    /// Whether a datagram has begun, to which the next send adds.
    pub(crate) fn has_begun(&self, socket: SocketId) -> io::Result<bool> {
        Ok(self.udp(self.udp_key(socket)?).begun.is_some())
    }

    fn udp(&self, key: usize) -> &Udp {
        match &self.sockets[key].proto {
            Proto::Udp(udp) => udp,
            Proto::Tcp(_) => unreachable!("called for UDP sockets alone"),
        }
    }

    fn udp_mut(&mut self, key: usize) -> &mut Udp {
        match &mut self.sockets[key].proto {
            Proto::Udp(udp) => udp,
            Proto::Tcp(_) => unreachable!("called for UDP sockets alone"),
        }
    }

    /// Adds to a datagram that has begun. It goes where its begin goes.
    fn udp_add(&mut self, key: usize, data: &[u8], how: Departure) -> io::Result<usize> {
        let Some((ends, mut datagram)) = self.udp_mut(key).begun.take() else {
            return Ok(0);
        };
        datagram.data.extend_from_slice(data);
        if datagram.data.len() > self.largest(key, ends.1, how.whole) {
            return Err(os(EMSGSIZE));
        }
        if how.more {
            self.udp_mut(key).begun = Some((ends, datagram));
        } else {
            self.send_packet(self.sockets[key].host, ends, Body::Udp(datagram));
        }
        Ok(data.len())
    }

    /// The most bytes of a datagram, and of one that must not be sent in fragments.
    fn largest(&self, key: usize, to: SocketAddr, whole: bool) -> usize {
        let headers = if to.is_ipv4() { 28 } else { 48 };
        match whole {
            true => largest(to).min(self.mtu_to(key, to.ip()) - headers),
            false => largest(to),
        }
    }

    /// A datagram of a socket waits in a link's queue until a time.
    pub(crate) fn udp_leaves(&mut self, socket: SocketId, at: u64, bytes: usize) {
        // It may have been closed meanwhile.
        if let Ok(key) = self.udp_key(socket) {
            let event = self.events.add(at, Event::Timer(key, Timer::Left));
            self.udp_mut(key).leaving.insert(event, bytes + OVERHEAD);
            self.note(key, Ready::NONE);
        }
    }

    pub(crate) fn udp_left(&mut self, key: usize, event: EventKey) {
        self.udp_mut(key).leaving.remove(&event);
        self.note(key, Ready::NONE);
    }

    /// The socket is closed. Its datagrams go on.
    pub(crate) fn stop_leaving(&mut self, key: usize) {
        for event in mem::take(&mut self.udp_mut(key).leaving).into_keys() {
            self.events.cancel(event);
        }
    }

    /// What a send does before it looks at its address.
    pub(crate) fn prepare_send(&mut self, socket: SocketId, len: usize) -> io::Result<()> {
        let key = self.udp_key(socket)?;
        self.auto_bind(key, None)?;
        if len > 0xffff {
            return Err(os(EMSGSIZE));
        }
        Ok(())
    }

    /// Where a datagram goes to, and from which address.
    fn udp_way(&self, key: usize, to: Option<SocketAddr>) -> io::Result<(SocketAddr, IpAddr)> {
        let s = &self.sockets[key];
        Ok(match (to, s.remote) {
            (Some(to), _) if s.only_v6 && to.ip().to_canonical().is_ipv4() => {
                return Err(os(ENETUNREACH));
            }
            (Some(to), _) if to.port() == 0 => return Err(os(EINVAL)),
            (Some(to), _) => self.route(key, to)?,
            // As in Linux, a socket of IPv6 sends to a peer of IPv4 as to any address of IPv4.
            (None, Some(peer)) if s.v6 && peer.is_ipv4() && peer.port() == 0 => {
                return Err(os(EINVAL));
            }
            (None, Some(peer)) if peer.is_ipv4() != s.local.is_ipv4() => self.route(key, peer)?,
            (None, Some(peer)) => (peer, s.local.ip()),
            (None, None) => return Err(os(EDESTADDRREQ)),
        })
    }

    pub(crate) fn udp_send(
        &mut self,
        key: usize,
        data: &[u8],
        how: Departure,
    ) -> io::Result<usize> {
        self.prepare_send(self.id(key), data.len())?;
        if let Some((ends, _)) = &self.udp(key).begun {
            // A socket of IPv6 looks at the family of the address, and no further.
            if how.to.is_some_and(|to| to.ip().to_canonical().is_ipv4()) && self.sockets[key].v6 {
                if self.sockets[key].only_v6 {
                    return Err(os(ENETUNREACH));
                }
                if ends.1.is_ipv6() {
                    return Err(os(EINVAL));
                }
            }
            return self.udp_add(key, data, how);
        }
        let (to, source) = self.udp_way(key, how.to)?;
        if data.len() > self.largest(key, to, how.whole) {
            return Err(os(EMSGSIZE));
        }
        let s = &mut self.sockets[key];
        s.take_error()?;
        if s.shut_write {
            return Err(os(EPIPE));
        }
        let room = s.send_buffer;
        if !how.follows && self.udp(key).sending() >= room {
            return Err(os(EAGAIN));
        }
        let s = &self.sockets[key];
        let (host, port) = (s.host, s.local.port());
        let source = match how.from {
            Some(own) if !self.hosts[host.0].has(own) => return Err(os(EINVAL)),
            own => own.unwrap_or(source),
        };
        let from = SocketAddr::new(source, port);
        let data_of = Datagram {
            tos: how.tos,
            sender: Some(self.id(key)),
            data: data.to_vec(),
        };
        if how.more {
            self.udp_mut(key).begun = Some(((from, to), data_of));
        } else {
            self.send_packet(host, (from, to), Body::Udp(data_of));
        }
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
            takes(s.local.ip(), s.only_v6, to.ip())
                && s.remote.is_none_or(|peer| is_from(peer, from))
        });
        self.best(fitting, from, |s| {
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
        let Datagram { tos, data, .. } = datagram;
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

fn largest(to: SocketAddr) -> usize {
    if to.is_ipv4() { LARGEST_V4 } else { LARGEST_V6 }
}

/// Whether a socket that is connected to `peer` takes a datagram. Port 0 stands for any.
fn is_from(peer: SocketAddr, from: SocketAddr) -> bool {
    peer == from || (peer.port() == 0 && peer.ip() == from.ip())
}
