//! A network of hosts with TCP and UDP sockets, whose calls answer as a nonblocking Linux kernel's.
//!
//! # How it works
//!
//! A [`Network`] is one value without threads. A program calls socket operations; each answers at
//! once, and may put packets on their way. A packet's arrival and a timer are *events* in one queue
//! ([`next_event`](Network::next_event)). The caller moves the time with
//! [`advance_to`](Network::advance_to), which processes the events in their order. What became
//! ready waits in [`take_news`](Network::take_news).
//!
//! | file | what it has |
//! | --- | --- |
//! | `network.rs` | hosts, time, crashes, news |
//! | `network/event.rs` | the queue of events |
//! | `network/link.rs` | latency, loss, partitions and holds between hosts |
//! | `network/log.rs` | what is sent and arrives, in words |
//! | `network/packet.rs` | what travels, and the digest of a run |
//! | `network/ports.rs` | ports and their owners, ephemeral ports, routes |
//! | `network/socket.rs` | calls that TCP and UDP share |
//! | `network/options.rs` | options of sockets |
//! | `network/tcp.rs`, `network/tcp/` | connections: the table of states is there |
//! | `network/udp.rs` | datagrams |
//!
//! # The invariants
//!
//! 1. *Same seed, same calls, same run.* Every choice comes from one generator, every iteration is
//!    over an ordered map or a vector, and events of one time keep the order in which they were
//!    added. [`digest`](Network::digest) is a hash of all packets and timers so far; the test
//!    `same_seed_same_run` compares it for two runs.
//! 2. *Whole or reset.* The bytes that one end reads are a prefix of those that the other end has
//!    written, in order. If the stream ends with `Ok(0)`, they are all that it has written. A byte
//!    enters the receive buffer only at the sequence number `rcv_nxt`, and the end of the stream
//!    has a sequence number as well.
//! 3. *Nothing hangs silently.* A connection with data in flight, a closed window, or a handshake
//!    that has not ended has a timer. The timer sends again, or ends the connection with
//!    `ETIMEDOUT`. The exception is Linux's: without keep-alive, an idle connection
//!    whose peer has crashed, or whose RST was lost, never ends.
//! 4. *News are edges that are not lost.* After each step the network compares what a socket is
//!    ready for with what it was; what came on top is news. Data that arrives is always news, as
//!    with edge-triggered `epoll`.
//!
//! # What was left out, and why
//!
//! - Congestion control beyond a slow start that begins again after a timeout: links have no queue
//!   that overflows, so nothing depends on it. The peer's window is the limit.
//! - SACK, delayed acknowledgements, urgent data, fast open and buffers that tune
//!   themselves: programs see none of them but in time.
//! - SYN cookies: a SYN is dropped if the backlog is full, as with `tcp_syncookies = 0`.
//! - A close that waits (`linger` with a time above 0): no call waits here. It closes at once, and
//!   the data is sent in the background.
//! - Multicast, broadcast, raw sockets, privileged ports, ICMP but for ports that
//!   nobody has.
//! - Routes and ARP: a connection to an address of 10.0.0.0/8 or fd00::/8 that no host has fails
//!   after 3 s, and a datagram to it is lost. Beyond these networks there is no way.
//!
//! # Example
//!
//! ```
//! use ws_sim::network::{Network, Ready};
//!
//! let mut net = Network::new(7);
//! let a = net.add_host("a", &["10.0.0.1".parse()?])?;
//! let b = net.add_host("b", &["10.0.0.2".parse()?])?;
//!
//! let listener = net.tcp_socket(b, false);
//! net.bind(listener, "10.0.0.2:80".parse()?)?;
//! net.listen(listener, 16)?;
//!
//! let client = net.tcp_socket(a, false);
//! assert!(net.connect(client, "10.0.0.2:80".parse()?).is_err()); // in progress
//! while let Some(at) = net.next_event() {
//!     net.advance_to(at);
//! }
//! assert!(net.readiness(client).contains(Ready::WRITABLE));
//!
//! let (server, peer) = net.accept(listener)?;
//! assert_eq!(Some(peer), net.local_addr(client).ok());
//! net.write(server, b"hello")?;
//! while let Some(at) = net.next_event() {
//!     net.advance_to(at);
//! }
//! let mut buffer = [0; 16];
//! assert_eq!(net.read(client, &mut buffer)?, 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod event;
mod link;
mod log;
mod options;
mod packet;
mod ports;
mod ready;
mod socket;
mod tcp;
mod udp;

use std::{collections::BTreeMap, net::IpAddr};

use slab::Slab;

pub(crate) use self::event::EventKey;
pub(crate) use self::log::{Note, Way, bytes};
pub(crate) use self::udp::{Arrival, Departure};
use self::{
    event::{Event, Events, Timer},
    link::Path,
    log::Log,
    packet::{Body, Packet},
    ports::Host,
    socket::{Proto, Socket},
};
pub use self::{
    link::{Latency, Link},
    options::KeepAlive,
    ready::Ready,
};
use crate::{
    error::{Error, Kind},
    rng::Rng,
};

/// A host of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(usize);

/// A socket of a host. It stays invalid after the socket is closed; calls then answer `EBADF`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    slot: usize,
    generation: u32,
}

/// Hosts, their sockets, and the links between them: see the [module](self).
#[derive(Debug)]
pub struct Network {
    rng: Rng,
    now: u64,
    events: Events,
    hosts: Vec<Host>,
    names: BTreeMap<String, HostId>,
    owners: BTreeMap<IpAddr, HostId>,
    sockets: Slab<Socket>,
    generation: u32,
    default_link: Link,
    paths: BTreeMap<(HostId, HostId), Path>,
    /// Sockets with news, in the order in which the news came.
    news: Vec<SocketId>,
    /// An event is processed, and no program acts.
    is_in_event: bool,
    /// Files of hosts whose alarm has come: see `set_alarm`.
    alarms: Vec<(HostId, usize)>,
    digest: u64,
    log: Option<Log>,
}

impl Network {
    /// Makes a network without hosts, at time 0. All its randomness comes from the seed.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            now: 0,
            events: Events::default(),
            hosts: Vec::new(),
            names: BTreeMap::new(),
            owners: BTreeMap::new(),
            sockets: Slab::new(),
            generation: 0,
            default_link: Link::default(),
            paths: BTreeMap::new(),
            news: Vec::new(),
            is_in_event: false,
            alarms: Vec::new(),
            digest: seed,
            log: None,
        }
    }

    /// Adds a host. It also has the loopback addresses, which need not be given.
    ///
    /// # Errors
    ///
    /// A host with this name or with one of the addresses exists. Or the name cannot be that of a
    /// host: it is empty, longer than 64 bytes, an address or `localhost`, it ends with a dot, or
    /// has a space or a control character. Or an address cannot be that of a host: it is loopback,
    /// unspecified, multicast, or IPv4 mapped into IPv6. No host is added.
    ///
    /// ```
    /// use ws_sim::network::Network;
    ///
    /// let mut net = Network::new(0);
    /// net.add_host("a", &["10.0.0.1".parse()?])?;
    /// let again = net.add_host("b", &["10.0.0.1".parse()?]).unwrap_err();
    /// assert!(again.is_address_taken());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_host(&mut self, name: &str, addrs: &[IpAddr]) -> Result<HostId, Error> {
        if !can_be_name(name) {
            return Err(Error(Kind::NameUnusable(name.to_owned())));
        }
        let key = name.to_ascii_lowercase();
        if self.names.contains_key(&key) {
            return Err(Error(Kind::HostTwice(name.to_owned())));
        }
        for (index, &addr) in addrs.iter().enumerate() {
            if addr.is_loopback()
                || addr.is_unspecified()
                || addr.is_multicast()
                || addr.to_canonical() != addr
            {
                return Err(Error(Kind::AddressUnusable(addr)));
            }
            let owner = match self.owners.get(&addr) {
                Some(host) => &self.hosts[host.0].name,
                None if addrs[..index].contains(&addr) => name,
                None => continue,
            };
            return Err(Error(Kind::AddressTwice {
                addr,
                owner: owner.to_owned(),
            }));
        }
        let id = HostId(self.hosts.len());
        self.hosts.push(Host::new(name, addrs));
        self.names.insert(key, id);
        self.owners.extend(addrs.iter().map(|&addr| (addr, id)));
        Ok(id)
    }

    /// The addresses of a host, in the order in which they were given. Empty if there is no such
    /// host. `localhost` is every host's own loopback. As in DNS, small and capital letters are the
    /// same, and the name may end with a dot.
    pub fn lookup(&self, name: &str) -> Vec<IpAddr> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        if name == "localhost" {
            return vec![ports::LOOPBACK_V4, ports::LOOPBACK_V6];
        }
        self.names
            .get(&name)
            .map(|id| self.hosts[id.0].addrs.clone())
            .unwrap_or_default()
    }

    /// The addresses of a host.
    pub(crate) fn addresses(&self, host: HostId) -> &[IpAddr] {
        &self.hosts[host.0].addrs
    }

    /// The name that belongs to an address.
    pub(crate) fn name_of(&self, addr: IpAddr) -> Option<&str> {
        if addr.is_loopback() {
            return Some("localhost");
        }
        self.owners.get(&addr).map(|id| self.host_name(*id))
    }

    /// The simulated time, in nanoseconds since the network was made.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The time at which something happens next by itself, if anything does.
    pub fn next_event(&self) -> Option<u64> {
        self.events.next_time()
    }

    /// Sets the time, and processes all events up to it and at it, in their order. A time that has
    /// passed already changes nothing.
    pub fn advance_to(&mut self, now: u64) {
        self.is_in_event = true;
        while let Some(((at, number), event)) = self.events.take(now) {
            self.now = self.now.max(at);
            match event {
                Event::Arrival { from, to, packet } => self.arrive(from, to, packet),
                Event::Timer(key, timer) => {
                    self.digest_word(at);
                    self.digest_word(number);
                    match timer {
                        Timer::Left => self.udp_left(key, (at, number)),
                        _ => self.tcp_timer(key, timer),
                    }
                }
                Event::Departure { from, packet } => self.depart(from, packet),
                Event::Alarm(host, file) => {
                    self.digest_word(at);
                    self.alarms.push((host, file));
                }
                Event::Forget(host, pair) => {
                    self.hosts[host.0].waiting.remove(&pair);
                }
            }
        }
        self.now = self.now.max(now);
        self.is_in_event = false;
    }

    /// Takes what sockets became ready for since the last call, each socket once, in the order in
    /// which the first news of each came. A closed socket has no news.
    pub fn take_news(&mut self) -> Vec<(SocketId, Ready)> {
        let mut all = Vec::with_capacity(self.news.len());
        for id in std::mem::take(&mut self.news) {
            if let Some(socket) = self.sockets.get_mut(id.slot)
                && socket.generation == id.generation
                && !socket.closed
            {
                all.push((id, std::mem::take(&mut socket.news)));
            }
        }
        all
    }

    /// Plans an alarm for a file of a host. A crash of the host cancels it.
    pub(crate) fn set_alarm(&mut self, host: HostId, file: usize, at: u64) -> EventKey {
        self.events.add(at, Event::Alarm(host, file))
    }

    pub(crate) fn cancel_alarm(&mut self, alarm: EventKey) {
        self.events.cancel(alarm);
    }

    /// Takes the files whose alarm has come.
    pub(crate) fn take_alarms(&mut self) -> impl Iterator<Item = usize> + use<> {
        std::mem::take(&mut self.alarms)
            .into_iter()
            .map(|(_, file)| file)
    }

    /// A hash of all packets and timers so far. Two runs with the same digest were the same.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Stops a host. All its sockets are gone, and no peer is told. What arrives is lost.
    ///
    /// Peers learn of it when they give up, or from the RST that answers a segment after the
    /// [`restart`](Self::restart). Packets that the host has sent before still arrive.
    pub fn crash(&mut self, host: HostId) {
        let gone: Vec<usize> = self
            .sockets
            .iter()
            .filter(|(_, s)| s.host == host)
            .map(|(key, _)| key)
            .collect();
        self.events.retain(|event| match event {
            Event::Timer(key, _) => gone.binary_search(key).is_err(),
            Event::Forget(of, _) | Event::Alarm(of, _) => *of != host,
            Event::Departure { from, .. } => *from != host,
            Event::Arrival { .. } => true,
        });
        self.alarms.retain(|(of, _)| *of != host);
        for key in gone {
            self.sockets.remove(key);
        }
        let host = &mut self.hosts[host.0];
        let fresh = Host::new(&host.name, &host.addrs);
        *host = fresh;
        host.up = false;
    }

    /// Starts a host again after a crash, with no sockets.
    pub fn restart(&mut self, host: HostId) {
        self.hosts[host.0].up = true;
    }

    /// Hands a packet to the socket that it is for.
    fn deliver(&mut self, host: HostId, packet: Packet) {
        let Packet {
            from,
            to,
            corrupt,
            body,
            number: _,
        } = packet;
        match body {
            Body::Tcp(segment) => self.tcp_arrives(host, (to, from), segment, corrupt),
            Body::Udp(_) | Body::Unreachable if corrupt => {}
            Body::Udp(datagram) => self.udp_arrives(host, to, from, datagram),
            Body::Unreachable => self.udp_unreachable(host, to, from),
        }
    }

    /// Notes what the socket became ready for. `arrived` is news even if it was so before.
    fn note(&mut self, key: usize, arrived: Ready) {
        let ready = self.ready(key);
        let socket = &mut self.sockets[key];
        let new = ready.without(socket.last) | arrived;
        socket.last = ready;
        let quiet = matches!(&socket.proto, Proto::Tcp(tcp) if tcp.parent.is_some());
        if new.is_none() || socket.closed || quiet {
            return;
        }
        let first = socket.news.is_none();
        socket.news |= new;
        if first {
            self.news.push(SocketId {
                slot: key,
                generation: socket.generation,
            });
        }
        self.digest_word(u64::from(new.bits()));
    }
}

/// Whether the resolver can find a host of that name, and `uname` has room for it.
fn can_be_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && !name.ends_with('.')
        && !name.eq_ignore_ascii_case("localhost")
        && !name.contains(|c: char| c.is_whitespace() || c.is_control())
        && name.parse::<IpAddr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Nothing else shows them: all that leads to a socket of a crashed host is gone.
    #[test]
    fn a_crash_leaves_nothing_of_the_sockets() {
        let mut net = Network::new(1);
        let addrs = ["10.0.0.1", "10.0.0.2"].map(|addr| addr.parse::<IpAddr>().unwrap());
        let [a, b] = ["a", "b"].map(|name| name.to_owned());
        let a = net.add_host(&a, &addrs[..1]).unwrap();
        net.add_host(&b, &addrs[1..]).unwrap();
        let socket = net.tcp_socket(a, false);
        net.connect(socket, (addrs[1], 80).into()).unwrap_err();
        net.udp_socket(a, false);
        net.crash(a);
        assert_eq!(net.sockets.len(), 0);
        // The SYN is on its way, and no timer sends it again.
        while let Some(at) = net.next_event() {
            net.advance_to(at);
        }
        assert!(net.now() < 1_000_000_000);
    }
}
