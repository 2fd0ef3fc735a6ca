//! What happens to a packet between two hosts: time, loss, partitions, held packets.
//!
//! For each ordered pair of hosts there is a `Path`: the link that was set for it, or the default
//! one; whether it is cut or held; and two times that make it a queue. A packet first waits until
//! the ones before it are through (`busy_until`), takes its length divided by the bandwidth, and
//! then the latency. The queue has no end: no packet is lost because a link is slow. But a datagram
//! is in its socket's send buffer until it is through, so a socket has only so many there.
//!
//! A path is first in, first out, so jitter alone does not change the order of packets. Only a
//! datagram that the chance `reorder_ppm` picks may be passed by later ones.
//!
//! A cut path loses what is sent, and what arrives while it is cut. A held path keeps both until it
//! is released. Within a host there is no link: a packet takes [`LOOPBACK`].

use std::{collections::VecDeque, net::SocketAddr};

use super::{
    HostId, Network,
    event::Event,
    packet::{Body, Packet},
};
use crate::rng::Rng;

/// Latency of a packet within one host, in nanoseconds.
pub(crate) const LOOPBACK: u64 = 1_000;

/// Why a packet is lost.
const CUT: &str = "lost in a partition";

/// Longest latency, in nanoseconds: 36 years. So sums of times have room.
const LONGEST: u64 = 1 << 60;

/// How long a packet is on its way. All times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Always the same.
    Constant(u64),
    /// Any time from `min` to `max`, both included, with the same chance.
    Uniform {
        /// The shortest time.
        min: u64,
        /// The longest time.
        max: u64,
    },
    /// `min`, and an exponentially distributed time after it: most packets are fast, few are late.
    Exponential {
        /// The shortest time.
        min: u64,
        /// The mean of what comes on top.
        mean: u64,
    },
}

/// One direction of the way between two hosts. Chances are in parts per million.
///
/// The default has a latency of 100 us and no faults.
///
/// ```
/// use ws_sim::network::{Latency, Link};
///
/// let wan = Link { latency: Latency::Constant(40_000_000), loss_ppm: 1_000, ..Link::default() };
/// assert_eq!(wan.bandwidth, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// How long a packet is on its way. What is above 36 years counts as 36 years.
    pub latency: Latency,
    /// A uniform time from 0 to this comes on top of the latency, in nanoseconds.
    pub jitter: u64,
    /// Bytes a second, headers included; `None` is no limit, and so is 0.
    pub bandwidth: Option<u64>,
    /// The chance that a packet is lost. A datagram has this chance for each of its fragments.
    pub loss_ppm: u32,
    /// The chance that a datagram arrives twice.
    pub duplicate_ppm: u32,
    /// The chance that later datagrams may pass this one, which takes up to twice as long.
    pub reorder_ppm: u32,
    /// The chance that bits change. Checksums find it: the packet is dropped on arrival. A TCP
    /// connection that got 8 such packets is reset.
    pub corrupt_ppm: u32,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            latency: Latency::Constant(100_000),
            jitter: 0,
            bandwidth: None,
            loss_ppm: 0,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            corrupt_ppm: 0,
        }
    }
}

impl Latency {
    pub(crate) fn draw(self, rng: &mut Rng) -> u64 {
        match self {
            Self::Constant(time) => time,
            Self::Uniform { min, max } => {
                let span = max.saturating_sub(min).saturating_add(1);
                min.saturating_add(rng.below(span))
            }
            Self::Exponential { min, mean } => min.saturating_add(rng.exponential(mean)),
        }
        .min(LONGEST)
    }

    /// Panics if no time is in it.
    #[track_caller]
    pub(crate) fn check(self) {
        if let Self::Uniform { min, max } = self {
            assert!(
                min <= max,
                "a latency from {min} to {max} ns has no time in it: give the shorter one as `min`"
            );
        }
    }

    /// The same, and so many nanoseconds more.
    pub(crate) fn longer(self, by: u64) -> Self {
        match self {
            Self::Constant(time) => Self::Constant(time.saturating_add(by)),
            Self::Uniform { min, max } => Self::Uniform {
                min: min.saturating_add(by),
                max: max.saturating_add(by),
            },
            Self::Exponential { min, mean } => Self::Exponential {
                min: min.saturating_add(by),
                mean,
            },
        }
    }
}

impl Link {
    fn delay(&self, rng: &mut Rng) -> u64 {
        let latency = self.latency.draw(rng);
        let jitter = if self.jitter == 0 {
            0
        } else {
            rng.below(self.jitter.saturating_add(1))
        };
        latency.saturating_add(jitter).min(LONGEST)
    }

    /// Time that the link needs for `bytes`, one after the other.
    fn occupied(&self, bytes: usize) -> u64 {
        match self.bandwidth {
            None | Some(0) => 0,
            Some(rate) => {
                let time = bytes as u128 * 1_000_000_000 / u128::from(rate);
                u64::try_from(time).unwrap_or(u64::MAX)
            }
        }
    }
}

/// The state of one direction between two hosts.
#[derive(Debug, Default)]
pub(crate) struct Path {
    link: Option<Link>,
    cut: bool,
    held: bool,
    /// What a hold keeps: first what was under way when it began, then what was sent since.
    waiting: VecDeque<Box<Packet>>,
    /// How many of these were under way.
    under_way: usize,
    /// The last packet has left the link's queue at this time.
    busy_until: u64,
    /// The last packet that keeps the order arrives at this time.
    last_arrival: u64,
}

impl Network {
    /// Sets the link for packets from one host to another. The way back keeps its own.
    ///
    /// # Panics
    ///
    /// If its latency is [`Latency::Uniform`] with a `min` above its `max`.
    #[track_caller]
    pub fn set_link(&mut self, from: HostId, to: HostId, link: Link) {
        link.latency.check();
        self.path(from, to).link = Some(link);
    }

    /// Sets the link of all pairs of hosts that have none of their own.
    ///
    /// # Panics
    ///
    /// As [`set_link`](Self::set_link).
    #[track_caller]
    pub fn set_default_link(&mut self, link: Link) {
        link.latency.check();
        self.default_link = link;
    }

    /// The link that was set for a way, and the one that it uses.
    pub(crate) fn link(&self, from: HostId, to: HostId) -> (Option<Link>, Link) {
        let own = self.paths.get(&(from, to)).and_then(|path| path.link);
        (own, own.unwrap_or(self.default_link))
    }

    /// Gives a way its own link again, or the default one.
    pub(crate) fn restore_link(&mut self, from: HostId, to: HostId, link: Option<Link>) {
        self.path(from, to).link = link;
    }

    /// Cuts every way between a host of `a` and a host of `b`, in both directions.
    pub fn partition(&mut self, a: &[HostId], b: &[HostId]) {
        self.partition_one_way(a, b);
        self.partition_one_way(b, a);
    }

    /// Cuts the ways from the hosts of `from` to those of `to`. The ways back stay.
    ///
    /// A host that is in both groups still reaches itself.
    pub fn partition_one_way(&mut self, from: &[HostId], to: &[HostId]) {
        self.each_path(from, to, |path| path.cut = true);
    }

    /// Ends all partitions. Packets that were lost in them stay lost.
    pub fn heal(&mut self) {
        self.paths.values_mut().for_each(|path| path.cut = false);
    }

    /// Ends partitions from the hosts of `from` to those of `to`. The ways back stay as they are.
    pub fn heal_one_way(&mut self, from: &[HostId], to: &[HostId]) {
        self.each_path(from, to, |path| path.cut = false);
    }

    /// Keeps all packets from hosts of `from` to hosts of `to` until [`release`](Self::release).
    pub fn hold(&mut self, from: &[HostId], to: &[HostId]) {
        self.each_path(from, to, |path| path.held = true);
    }

    /// Lets the packets go that a hold has kept: first those that were under way when it began, in
    /// the order in which they would have arrived, then those that were sent in it. Each then takes
    /// the time of its link.
    pub fn release(&mut self, from: &[HostId], to: &[HostId]) {
        for &a in from {
            for &b in to {
                let path = self.path(a, b);
                (path.held, path.under_way) = (false, 0);
                for packet in std::mem::take(&mut path.waiting) {
                    self.travel(a, b, packet);
                }
            }
        }
    }

    fn path(&mut self, from: HostId, to: HostId) -> &mut Path {
        self.paths.entry((from, to)).or_default()
    }

    fn each_path(&mut self, from: &[HostId], to: &[HostId], change: impl Fn(&mut Path)) {
        for &a in from {
            for &b in to {
                change(self.path(a, b));
            }
        }
    }

    /// Sends a packet from a host on its way. Its ends are from where and to where. A packet to an
    /// address that no host has is lost.
    pub(crate) fn send_packet(&mut self, from: HostId, ends: (SocketAddr, SocketAddr), body: Body) {
        let packet = Box::new(Packet {
            from: ends.0,
            to: ends.1,
            corrupt: false,
            body,
            number: 0,
        });
        let leaves = self.time_of(from);
        if leaves > self.now {
            self.events.add(leaves, Event::Departure { from, packet });
        } else {
            self.depart(from, packet);
        }
    }

    /// A packet leaves its host now.
    pub(crate) fn depart(&mut self, from: HostId, mut packet: Box<Packet>) {
        self.digest_packet(1, &packet);
        self.log_sent(from, &mut packet);
        let Some(to) = self.owner_of(from, packet.to) else {
            return;
        };
        if from == to {
            let at = self.now + LOOPBACK;
            self.events.add(at, Event::Arrival { from, to, packet });
        } else {
            self.travel(from, to, packet);
        }
    }

    fn owner_of(&self, from: HostId, to: SocketAddr) -> Option<HostId> {
        if to.ip().is_loopback() {
            Some(from)
        } else {
            self.owners.get(&to.ip()).copied()
        }
    }

    fn travel(&mut self, from: HostId, to: HostId, packet: Box<Packet>) {
        let (sender, bytes) = (packet.sender(), packet.wire_len());
        let left = self.pass(from, to, packet);
        if let (Some(sender), Some(at)) = (sender, left.filter(|left| *left > self.now)) {
            self.udp_leaves(sender, at, bytes);
        }
    }

    /// Gives when the packet leaves the queue of the link, if it comes there.
    fn pass(&mut self, from: HostId, to: HostId, mut packet: Box<Packet>) -> Option<u64> {
        let path = self.paths.entry((from, to)).or_default();
        if path.cut {
            self.log_lost(from, &packet, CUT);
            return None;
        }
        if path.held {
            path.waiting.push_back(packet);
            return None;
        }
        let (link, rng) = (path.link.unwrap_or(self.default_link), &mut self.rng);
        let free = self.now.max(path.busy_until);
        let left = free.saturating_add(link.occupied(packet.wire_len()));
        path.busy_until = left;
        if (0..packet.fragments()).any(|_| rng.chance(link.loss_ppm)) {
            self.log_lost(from, &packet, "lost on the way");
            return Some(left);
        }
        packet.corrupt |= rng.chance(link.corrupt_ppm);
        let datagram = packet.is_datagram();
        let twice = datagram && rng.chance(link.duplicate_ppm);
        for copy in std::iter::repeat_n(packet, 1 + usize::from(twice)) {
            let delay = link.delay(rng);
            let at = if datagram && rng.chance(link.reorder_ppm) {
                let passed_for = rng.below(delay.max(1) + 1);
                left.saturating_add(delay).saturating_add(passed_for)
            } else {
                path.last_arrival = path.last_arrival.max(left.saturating_add(delay));
                path.last_arrival
            };
            self.events.add(
                at,
                Event::Arrival {
                    from,
                    to,
                    packet: copy,
                },
            );
        }
        Some(left)
    }

    /// Takes a packet that arrives, unless a partition or a hold has come in between.
    pub(crate) fn arrive(&mut self, from: HostId, to: HostId, packet: Box<Packet>) {
        if from != to {
            let path = self.path(from, to);
            if path.cut {
                return self.log_lost(from, &packet, CUT);
            }
            if path.held {
                // It was sent before what was sent in the hold.
                path.waiting.insert(path.under_way, packet);
                path.under_way += 1;
                return;
            }
        }
        self.digest_packet(2, &packet);
        if self.hosts[to.0].up {
            self.log_arrived(to, &packet);
            self.deliver(to, *packet);
        } else {
            self.log_lost(from, &packet, "lost, since the host is down");
        }
    }
}
