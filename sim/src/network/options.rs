//! Options of sockets, with Linux's ranges and defaults.

use std::io;

use super::{
    Network, Ready, SocketId,
    socket::{Proto, Socket},
    tcp::{State, Tcp},
};
use crate::error::{EINVAL, ENOPROTOOPT, EOPNOTSUPP, os};

/// Smallest buffers, as `SOCK_MIN_SNDBUF` and `SOCK_MIN_RCVBUF` of Linux.
const LEAST_SEND_BUFFER: usize = 4_608;
const LEAST_RECEIVE_BUFFER: usize = 2_304;
/// Largest buffers: `net.core.wmem_max` and `rmem_max`, doubled.
const LARGEST_BUFFER: usize = 425_984;

/// When an idle connection is probed, and when it is given up with `ETIMEDOUT`.
///
/// The default is Linux's: 2 hours, 75 seconds, 9 probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Nanoseconds without a packet before the first probe.
    pub idle: u64,
    /// Nanoseconds from one probe to the next.
    pub interval: u64,
    /// Probes without an answer before the connection is given up.
    pub retries: u32,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self {
            idle: 7_200_000_000_000,
            interval: 75_000_000_000,
            retries: 9,
        }
    }
}

/// See [`Network::info`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Info {
    /// The number that Linux gives to the state.
    pub(crate) state: u8,
    /// Retransmissions since the peer was last heard.
    pub(crate) tries: u32,
    /// Bytes of a full segment.
    pub(crate) segment: u32,
    /// Nanoseconds.
    pub(crate) round_trip: u64,
    pub(crate) deviation: u64,
    /// Bytes.
    pub(crate) in_flight: u64,
}

impl Network {
    fn option(&mut self, socket: SocketId) -> io::Result<&mut Socket> {
        let key = self.key(socket)?;
        Ok(&mut self.sockets[key])
    }

    fn tcp_option(&self, socket: SocketId) -> io::Result<&Tcp> {
        match &self.sockets[self.key(socket)?].proto {
            Proto::Tcp(tcp) => Ok(tcp),
            Proto::Udp(_) => Err(os(ENOPROTOOPT)),
        }
    }

    /// Sets `TCP_NODELAY`: whether a small segment goes out while another is in flight.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT`: it is a UDP socket.
    pub fn set_nodelay(&mut self, socket: SocketId, nodelay: bool) -> io::Result<()> {
        self.tcp_option(socket)?;
        let key = self.key(socket)?;
        self.tcp_mut(key).nodelay = nodelay;
        self.tcp_output(key);
        Ok(())
    }

    /// Tells whether `TCP_NODELAY` is set.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`: it is a UDP socket.
    pub fn nodelay(&self, socket: SocketId) -> io::Result<bool> {
        self.key(socket)?;
        self.tcp_option(socket)
            .map(|tcp| tcp.nodelay)
            .map_err(|_| os(EOPNOTSUPP))
    }

    /// Sets `SO_KEEPALIVE` with its times; `None` turns it off, as it is at first.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT`: it is a UDP socket. `EINVAL`: a time or the number is 0.
    pub fn set_keepalive(&mut self, socket: SocketId, to: Option<KeepAlive>) -> io::Result<()> {
        self.tcp_option(socket)?;
        if to.is_some_and(|k| k.idle == 0 || k.interval == 0 || k.retries == 0) {
            return Err(os(EINVAL));
        }
        let key = self.key(socket)?;
        let tcp = self.tcp_mut(key);
        tcp.keepalive = to;
        tcp.keepalive_times = to.unwrap_or(tcp.keepalive_times);
        self.arm_keepalive(key);
        Ok(())
    }

    /// Sets the times of `SO_KEEPALIVE`, and does not turn it on.
    ///
    /// # Errors
    ///
    /// As [`set_keepalive`](Self::set_keepalive).
    pub fn set_keepalive_times(&mut self, socket: SocketId, to: KeepAlive) -> io::Result<()> {
        let is_on = self.keepalive(socket)?.is_some();
        self.set_keepalive(socket, Some(to))?;
        if !is_on {
            self.set_keepalive(socket, None)?;
        }
        Ok(())
    }

    /// The times of `SO_KEEPALIVE`, whether it is on or not.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT`: it is a UDP socket.
    pub fn keepalive_times(&self, socket: SocketId) -> io::Result<KeepAlive> {
        Ok(self.tcp_option(socket)?.keepalive_times)
    }

    /// Sets `TCP_USER_TIMEOUT`, in nanoseconds: how long data that was sent may wait for its
    /// acknowledgement before the connection is given up with `ETIMEDOUT`. With 0 the time is
    /// Linux's own, about 15 minutes.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT`: it is a UDP socket.
    pub fn set_user_timeout(&mut self, socket: SocketId, time: u64) -> io::Result<()> {
        self.tcp_option(socket)?;
        let key = self.key(socket)?;
        self.tcp_mut(key).user_timeout = time;
        Ok(())
    }

    /// `TCP_USER_TIMEOUT`, in nanoseconds; 0 at first.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT`: it is a UDP socket.
    pub fn user_timeout(&self, socket: SocketId) -> io::Result<u64> {
        Ok(self.tcp_option(socket)?.user_timeout)
    }

    /// Tells whether the socket listens: `SO_ACCEPTCONN`.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn is_listening(&self, socket: SocketId) -> io::Result<bool> {
        self.key(socket)?;
        let tcp = self.tcp_option(socket);
        Ok(tcp.is_ok_and(|tcp| tcp.state == State::Listen))
    }

    /// What `TCP_INFO` tells of a connection.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT`: it is a UDP socket.
    pub(crate) fn info(&self, socket: SocketId) -> io::Result<Info> {
        let tcp = self.tcp_option(socket)?;
        Ok(Info {
            state: match tcp.state {
                State::Established => 1,
                State::SynSent => 2,
                State::SynReceived => 3,
                State::FinWait1 => 4,
                State::FinWait2 => 5,
                State::Closed => 7,
                State::CloseWait => 8,
                State::LastAck => 9,
                State::Listen => 10,
                State::Closing => 11,
            },
            tries: tcp.clock.tries,
            segment: tcp.mss as u32,
            round_trip: tcp.clock.srtt,
            deviation: tcp.clock.deviation,
            in_flight: tcp.max - tcp.una,
        })
    }

    /// The times of `SO_KEEPALIVE`, if it is on.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT`: it is a UDP socket.
    pub fn keepalive(&self, socket: SocketId) -> io::Result<Option<KeepAlive>> {
        Ok(self.tcp_option(socket)?.keepalive)
    }

    /// Sets `SO_LINGER`, in nanoseconds. With 0 a close sends a RST and drops what is not sent.
    /// Another time changes nothing: no call waits here.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT`: it is a UDP socket.
    pub fn set_linger(&mut self, socket: SocketId, linger: Option<u64>) -> io::Result<()> {
        self.tcp_option(socket)?;
        let key = self.key(socket)?;
        self.tcp_mut(key).linger = linger;
        Ok(())
    }

    /// The time of `SO_LINGER`, if it is on, in nanoseconds.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT`: it is a UDP socket.
    pub fn linger(&self, socket: SocketId) -> io::Result<Option<u64>> {
        Ok(self.tcp_option(socket)?.linger)
    }

    /// Sets the time to live of packets. It is kept, and has no effect: there are no routers.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it is not from 1 to 255.
    pub fn set_ttl(&mut self, socket: SocketId, ttl: u32) -> io::Result<()> {
        let s = self.option(socket)?;
        if !(1..=255).contains(&ttl) {
            return Err(os(EINVAL));
        }
        s.ttl = ttl;
        Ok(())
    }

    /// The time to live of packets; 64 at first.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn ttl(&self, socket: SocketId) -> io::Result<u32> {
        Ok(self.sockets[self.key(socket)?].ttl)
    }

    /// Sets `SO_REUSEADDR`: whether `bind` may take the port of another socket that has it set too.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn set_reuse_address(&mut self, socket: SocketId, reuse: bool) -> io::Result<()> {
        self.option(socket)?.reuse = reuse;
        Ok(())
    }

    /// Tells whether `SO_REUSEADDR` is set.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn reuse_address(&self, socket: SocketId) -> io::Result<bool> {
        Ok(self.sockets[self.key(socket)?].reuse)
    }

    /// Sets `SO_REUSEPORT`: whether sockets that have it set too may have the same address. What
    /// comes for the address goes to one of them, by a hash of both ends.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn set_reuse_port(&mut self, socket: SocketId, reuse: bool) -> io::Result<()> {
        self.option(socket)?.reuse_port = reuse;
        Ok(())
    }

    /// Tells whether `SO_REUSEPORT` is set.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn reuse_port(&self, socket: SocketId) -> io::Result<bool> {
        Ok(self.sockets[self.key(socket)?].reuse_port)
    }

    /// Sets `IPV6_V6ONLY`: whether an IPv6 socket has nothing to do with IPv4. Off at first.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the socket is bound. `ENOPROTOOPT`: it is an IPv4 socket.
    pub fn set_only_v6(&mut self, socket: SocketId, only: bool) -> io::Result<()> {
        let s = self.option(socket)?;
        match (s.v6, s.has_port) {
            (false, _) => Err(os(ENOPROTOOPT)),
            (true, false) => {
                s.only_v6 = only;
                Ok(())
            }
            (true, true) => Err(os(EINVAL)),
        }
    }

    /// Tells whether `IPV6_V6ONLY` is set.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn only_v6(&self, socket: SocketId) -> io::Result<bool> {
        Ok(self.sockets[self.key(socket)?].only_v6)
    }

    /// Sets `SO_SNDBUF` to twice `bytes`, within Linux's limits.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn set_send_buffer_size(&mut self, socket: SocketId, bytes: usize) -> io::Result<()> {
        let key = self.key(socket)?;
        let doubled = bytes.saturating_mul(2);
        self.sockets[key].send_buffer = doubled.clamp(LEAST_SEND_BUFFER, LARGEST_BUFFER);
        self.note(key, Ready::NONE);
        Ok(())
    }

    /// `SO_SNDBUF`. As in Linux, it counts twice the data that fits.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn send_buffer_size(&self, socket: SocketId) -> io::Result<usize> {
        Ok(self.sockets[self.key(socket)?].send_buffer)
    }

    /// Sets `SO_RCVBUF` to twice `bytes`, within Linux's limits.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn set_receive_buffer_size(&mut self, socket: SocketId, bytes: usize) -> io::Result<()> {
        let s = self.option(socket)?;
        s.receive_buffer = bytes
            .saturating_mul(2)
            .clamp(LEAST_RECEIVE_BUFFER, LARGEST_BUFFER);
        Ok(())
    }

    /// `SO_RCVBUF`. As in Linux, it counts twice the data that fits.
    ///
    /// # Errors
    ///
    /// `EBADF`: the socket is closed.
    pub fn receive_buffer_size(&self, socket: SocketId) -> io::Result<usize> {
        Ok(self.sockets[self.key(socket)?].receive_buffer)
    }
}
