//! The ports of a host and the sockets that own them; and the routes to addresses.
//!
//! Two sockets conflict over a port if a packet could be meant for both: their addresses overlap.
//! An unspecified address overlaps with all of its family; `::` overlaps with IPv4 too, unless the
//! socket is for IPv6 only. `SO_REUSEADDR` on both ends the conflict: for UDP always, for TCP if
//! neither listens. `SO_REUSEPORT` on both ends it always. A TIME_WAIT keeps the port like a socket
//! that does not listen. These are the rules of `inet_csk_bind_conflict` and `udp_lib_lport_inuse`
//! in Linux.
//!
//! An ephemeral port is the first free one after a random start, from 32768 to 60999. For `bind`,
//! no other socket may overlap. For `connect`, connections to other addresses may share it, as long
//! as nobody has bound it.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use super::{
    HostId, Network, SocketId,
    event::{Event, EventKey},
    socket::{Proto, Socket, unspecified},
    tcp::State,
};
use crate::error::{
    EACCES, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN, EINVAL, ENETUNREACH, os,
};

const FIRST_EPHEMERAL: u16 = 32_768;
const LAST_EPHEMERAL: u16 = 60_999;

/// The broadcast address of the hosts' network.
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(10, 255, 255, 255);

pub(crate) const LOOPBACK_V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const LOOPBACK_V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Both ends of a connection: local port, local address, remote end. The port comes first, so that
/// the map of TIME_WAITs can be searched by it.
pub(crate) type Pair = (u16, IpAddr, SocketAddr);

pub(crate) fn pair(local: SocketAddr, remote: SocketAddr) -> Pair {
    (local.port(), local.ip(), remote)
}

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) addrs: Vec<IpAddr>,
    pub(crate) up: bool,
    /// Its program has slept until then: see `tcp/late.rs`.
    pub(crate) busy_until: u64,
    /// Packets of its program that leave when it goes on, each with the time before which it does
    /// not: see `tcp/late.rs`.
    pub(crate) stopped: Vec<(u64, Event)>,
    pub(crate) connections: BTreeMap<Pair, usize>,
    pub(crate) waiting: BTreeMap<Pair, TimeWait>,
    tcp_ports: BTreeMap<u16, Vec<usize>>,
    udp_ports: BTreeMap<u16, Vec<usize>>,
}

/// What is left of a connection that this end has closed first.
#[derive(Debug)]
pub(crate) struct TimeWait {
    pub(crate) snd_nxt: u64,
    pub(crate) rcv_nxt: u64,
    pub(crate) window: u64,
    pub(crate) reuse: bool,
    pub(crate) reuse_port: bool,
    /// That of the peer's last segment.
    pub(crate) time: u64,
    pub(crate) end: EventKey,
}

impl Host {
    pub(crate) fn new(name: &str, addrs: &[IpAddr]) -> Self {
        Self {
            name: name.to_owned(),
            addrs: addrs.to_vec(),
            up: true,
            busy_until: 0,
            stopped: Vec::new(),
            connections: BTreeMap::new(),
            waiting: BTreeMap::new(),
            tcp_ports: BTreeMap::new(),
            udp_ports: BTreeMap::new(),
        }
    }

    pub(crate) fn has(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.addrs.contains(&ip)
    }

    fn table(&mut self, tcp: bool) -> &mut BTreeMap<u16, Vec<usize>> {
        if tcp {
            &mut self.tcp_ports
        } else {
            &mut self.udp_ports
        }
    }

    /// The sockets that have the port, the oldest first.
    pub(crate) fn users(&self, tcp: bool, port: u16) -> &[usize] {
        let table = if tcp {
            &self.tcp_ports
        } else {
            &self.udp_ports
        };
        table.get(&port).map_or(&[], Vec::as_slice)
    }

    /// The address from which packets to `to` go.
    pub(crate) fn source_for(&self, to: IpAddr) -> io::Result<IpAddr> {
        if to.is_loopback() {
            return Ok(if to.is_ipv4() {
                LOOPBACK_V4
            } else {
                LOOPBACK_V6
            });
        }
        if self.addrs.contains(&to) {
            return Ok(to);
        }
        let source = self
            .addrs
            .iter()
            .find(|addr| addr.is_ipv4() == to.is_ipv4());
        source.copied().ok_or_else(|| os(ENETUNREACH))
    }
}

/// An address without what only the interface of a v6 socket adds: mapping, flow and scope.
pub(crate) fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

/// Tells whether a socket bound to `bound` takes packets to `ip`.
pub(crate) fn takes(bound: IpAddr, only_v6: bool, ip: IpAddr) -> bool {
    match bound {
        IpAddr::V4(any) if any.is_unspecified() => ip.is_ipv4(),
        IpAddr::V6(any) if any.is_unspecified() => ip.is_ipv6() || !only_v6,
        _ => bound == ip,
    }
}

fn overlap(a: (IpAddr, bool), b: (IpAddr, bool)) -> bool {
    takes(a.0, a.1, b.0) || takes(b.0, b.1, a.0)
}

impl Network {
    /// Binds a socket to an address of its host. Port 0 stands for an ephemeral port.
    ///
    /// # Errors
    ///
    /// - `EADDRINUSE`: another socket has the port; or all ephemeral ports are taken.
    /// - `EADDRNOTAVAIL`: the host does not have the address.
    /// - `EINVAL`: the socket is bound already, or has IPv6 and the address has not.
    /// - `EAFNOSUPPORT`: the socket has IPv4 and the address has not.
    pub fn bind(&mut self, socket: SocketId, addr: SocketAddr) -> io::Result<()> {
        let key = self.key(socket)?;
        let s = &self.sockets[key];
        if s.v6 != addr.is_ipv6() {
            return Err(os(if s.v6 { EINVAL } else { EAFNOSUPPORT }));
        }
        let addr = canonical(addr);
        if s.v6 && s.only_v6 && addr.is_ipv4() {
            return Err(os(EINVAL));
        }
        if !addr.ip().is_unspecified() && !self.hosts[s.host.0].has(addr.ip()) {
            return Err(os(EADDRNOTAVAIL));
        }
        if s.has_port || !s.is_idle() {
            return Err(os(EINVAL));
        }
        let before = std::mem::replace(&mut self.sockets[key].local, addr);
        let port = match addr.port() {
            0 => self.free_port(key, None),
            port => (!self.conflicts(key, port, false)).then_some(port),
        };
        let Some(port) = port else {
            let s = &mut self.sockets[key];
            s.local = SocketAddr::new(unspecified(s.v6), before.port());
            return Err(os(EADDRINUSE));
        };
        self.take_port(key, port);
        let s = &mut self.sockets[key];
        s.addr_locked = !addr.ip().is_unspecified();
        // As in Linux, an address of IPv6 is for IPv6 alone.
        s.only_v6 |= s.addr_locked && addr.is_ipv6();
        s.port_locked = addr.port() != 0;
        s.bound = true;
        Ok(())
    }

    /// Gives the socket an ephemeral port if it has none. `remote` is the other end, for `connect`.
    pub(crate) fn auto_bind(&mut self, key: usize, remote: Option<SocketAddr>) -> io::Result<()> {
        if self.sockets[key].has_port {
            return Ok(());
        }
        let full = match (self.sockets[key].is_tcp(), remote) {
            (true, Some(_)) => EADDRNOTAVAIL,
            (true, None) => EADDRINUSE,
            (false, _) => EAGAIN,
        };
        let port = self.free_port(key, remote).ok_or_else(|| os(full))?;
        self.take_port(key, port);
        Ok(())
    }

    /// Enters the socket among the users of a port.
    pub(crate) fn take_port(&mut self, key: usize, port: u16) {
        let s = &mut self.sockets[key];
        s.local.set_port(port);
        s.has_port = true;
        let tcp = s.is_tcp();
        self.hosts[s.host.0]
            .table(tcp)
            .entry(port)
            .or_default()
            .push(key);
    }

    /// Takes the socket off the users of its port. Its local address still names the port.
    pub(crate) fn leave_port(&mut self, key: usize) {
        let s = &mut self.sockets[key];
        if !std::mem::take(&mut s.has_port) {
            return;
        }
        let (tcp, port) = (s.is_tcp(), s.local.port());
        let table = self.hosts[s.host.0].table(tcp);
        if let Some(users) = table.get_mut(&port) {
            users.retain(|user| *user != key);
            if users.is_empty() {
                table.remove(&port);
            }
        }
    }

    /// Tells whether another socket or a TIME_WAIT keeps this one from the port. `strict` is for
    /// ephemeral ports: then `SO_REUSEADDR` does not help.
    pub(crate) fn conflicts(&self, key: usize, port: u16, strict: bool) -> bool {
        let s = &self.sockets[key];
        let (host, mine) = (&self.hosts[s.host.0], (s.local.ip(), s.only_v6));
        let (reuse, reuse_port) = (s.reuse && !strict, s.reuse_port && !strict);
        let with_socket = host.users(s.is_tcp(), port).iter().any(|&user| {
            let other = &self.sockets[user];
            user != key
                && overlap(mine, (other.local.ip(), other.only_v6))
                && !(reuse && other.reuse && !listens(other))
                && !(reuse_port && other.reuse_port)
        });
        let waiting = || {
            let first = (port, IpAddr::V4(Ipv4Addr::UNSPECIFIED), lowest());
            let of_port = host
                .waiting
                .range(first..)
                .take_while(|(pair, _)| pair.0 == port);
            of_port.into_iter().any(|(pair, wait)| {
                overlap(mine, (pair.1, false))
                    && !(reuse && wait.reuse || reuse_port && wait.reuse_port)
            })
        };
        with_socket || (s.is_tcp() && waiting())
    }

    fn free_port(&mut self, key: usize, remote: Option<SocketAddr>) -> Option<u16> {
        let count = u64::from(LAST_EPHEMERAL - FIRST_EPHEMERAL) + 1;
        let start = self.rng.below(count);
        (0..count)
            .map(|step| FIRST_EPHEMERAL + ((start + step) % count) as u16)
            .find(|&port| match remote {
                Some(remote) if self.sockets[key].is_tcp() => self.can_share(key, port, remote),
                _ => !self.conflicts(key, port, true),
            })
    }

    /// Tells whether a connection to `remote` may have this port beside other connections.
    fn can_share(&self, key: usize, port: u16, remote: SocketAddr) -> bool {
        let s = &self.sockets[key];
        let host = &self.hosts[s.host.0];
        let ends = (port, s.local.ip(), remote);
        !host.connections.contains_key(&ends)
            && !host.waiting.contains_key(&ends)
            && host.users(true, port).iter().all(|&user| {
                let other = &self.sockets[user];
                !other.bound && other.remote.is_some()
            })
    }

    /// Checks the family of a peer's address, and finds the address from which to reach it.
    pub(crate) fn route(&self, key: usize, to: SocketAddr) -> io::Result<(SocketAddr, IpAddr)> {
        let s = &self.sockets[key];
        if !s.v6 && to.is_ipv6() {
            return Err(os(EAFNOSUPPORT));
        }
        if s.v6 && to.is_ipv4() && s.is_tcp() {
            return Err(os(EINVAL));
        }
        let mut to = canonical(to);
        if to.is_ipv4() && s.only_v6 {
            return Err(os(ENETUNREACH));
        }
        if to.ip().is_unspecified() {
            to.set_ip(match (to.ip(), s.local.ip()) {
                // The socket's own address.
                (IpAddr::V4(_), own @ IpAddr::V4(ip)) if !ip.is_unspecified() => own,
                (IpAddr::V4(_), _) => LOOPBACK_V4,
                // As in Linux, `::` is of IPv4 for a socket that has an address of IPv4.
                (IpAddr::V6(_), IpAddr::V4(_)) => LOOPBACK_V4,
                (IpAddr::V6(_), IpAddr::V6(_)) => LOOPBACK_V6,
            });
        }
        let source = self.hosts[s.host.0].source_for(to.ip())?;
        let own = s.local.ip();
        if own.is_unspecified() {
            if !takes(own, s.only_v6, to.ip()) {
                return Err(os(ENETUNREACH));
            }
        } else if own.is_ipv4() && to.is_ipv6() {
            return Err(os(EAFNOSUPPORT));
        } else if own.is_ipv6() && to.is_ipv4() {
            // It has this address from an earlier peer.
            return Ok((to, source));
        } else if own.is_loopback() && !self.hosts[s.host.0].has(to.ip()) {
            return Err(os(EINVAL));
        }
        if self.is_of_nobody(to.ip()) {
            self.has_way(to.ip(), s.is_tcp())?;
        }
        Ok((to, if own.is_unspecified() { source } else { own }))
    }

    /// Whether packets to it are lost, since no host has it.
    pub(crate) fn is_of_nobody(&self, to: IpAddr) -> bool {
        !to.is_loopback() && !self.owners.contains_key(&to)
    }

    /// Whether there is a way to an address of nobody: the hosts' networks are `10.0.0.0/8` and
    /// `fd00::/8`.
    fn has_way(&self, to: IpAddr, tcp: bool) -> io::Result<()> {
        let (near, to_all) = match to {
            IpAddr::V4(ip) => (ip.octets()[0] == 10, ip == ALL_HOSTS || ip.is_broadcast()),
            IpAddr::V6(ip) => (ip.octets()[0] == 0xfd, false),
        };
        match (to_all, near) {
            (true, _) if !tcp => Err(os(EACCES)),
            (false, true) => Ok(()),
            _ => Err(os(ENETUNREACH)),
        }
    }

    /// The listener for connections to an address: one bound to just it before one bound to all.
    pub(crate) fn listener(&self, host: HostId, to: SocketAddr, from: SocketAddr) -> Option<usize> {
        let users = self.hosts[host.0].users(true, to.port());
        let matching = users.iter().copied().filter(|&key| {
            let s = &self.sockets[key];
            listens(s) && takes(s.local.ip(), s.only_v6, to.ip())
        });
        self.best(matching, from, |s| {
            (!s.local.ip().is_unspecified(), s.v6 == to.is_ipv6())
        })
    }

    /// The socket that fits best: among equals the newest, or one by a hash of the sender's
    /// address, if they share their port by `SO_REUSEPORT`.
    pub(crate) fn best<Fit: Ord>(
        &self,
        sockets: impl Iterator<Item = usize> + Clone,
        from: SocketAddr,
        fit: impl Fn(&Socket) -> Fit,
    ) -> Option<usize> {
        let best = sockets.clone().max_by_key(|&key| fit(&self.sockets[key]))?;
        let first = &self.sockets[best];
        if !first.reuse_port {
            return Some(best);
        }
        let equals: Vec<usize> = sockets
            .filter(|&key| {
                let s = &self.sockets[key];
                s.reuse_port && fit(s) == fit(first)
            })
            .collect();
        Some(equals[hash(from) % equals.len()])
    }
}

fn listens(socket: &Socket) -> bool {
    matches!(&socket.proto, Proto::Tcp(tcp) if tcp.state == State::Listen)
}

/// A hash of an address that is the same in each run: FNV-1a.
fn hash(addr: SocketAddr) -> usize {
    let ip = match addr.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let bytes = ip.octets().into_iter().chain(addr.port().to_be_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    // Low bits of the product alone hardly depend on the port.
    (hash ^ hash >> 32) as usize
}

/// The lowest address in the order of addresses.
fn lowest() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)
}
