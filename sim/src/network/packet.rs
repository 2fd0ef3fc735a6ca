//! What travels: TCP segments, UDP datagrams, and the one ICMP message that programs notice.

use std::net::SocketAddr;

use super::{Network, SocketId};

/// Largest payload of a datagram, or of a fragment of one, on a link with an MTU of 1500 bytes.
const FRAGMENT: usize = 1_472;

#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// A link has changed bits of it.
    pub(crate) corrupt: bool,
    pub(crate) body: Body,
    /// Its number in the log, or 0: see `log.rs`.
    pub(crate) number: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Tcp(Segment),
    Udp(Datagram),
    /// ICMP port unreachable: the answer to a datagram from `to` to `from`.
    Unreachable,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Datagram {
    /// The type of service, or traffic class: its last two bits are those of ECN.
    pub(crate) tos: u8,
    /// The socket whose send buffer it is in until it has left a slow link's queue.
    pub(crate) sender: Option<SocketId>,
    pub(crate) data: Vec<u8>,
}

/// A TCP segment. Sequence numbers have 64 bits here: they begin at a random 32-bit number, as on
/// the wire, but do not wrap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) ack: Option<u64>,
    pub(crate) seq: u64,
    /// Bytes beyond `ack` that the sender has room for.
    pub(crate) window: u64,
    /// When it was sent, in milliseconds. On the wire it is an option, which Linux always has.
    pub(crate) time: u64,
    pub(crate) data: Vec<u8>,
}

impl Segment {
    /// The sequence number after this segment.
    pub(crate) fn end(&self) -> u64 {
        self.seq + self.data.len() as u64 + u64::from(self.syn) + u64::from(self.fin)
    }
}

impl Packet {
    pub(crate) fn is_datagram(&self) -> bool {
        matches!(self.body, Body::Udp(_))
    }

    pub(crate) fn sender(&self) -> Option<SocketId> {
        match &self.body {
            Body::Udp(datagram) => datagram.sender,
            _ => None,
        }
    }

    fn payload(&self) -> &[u8] {
        match &self.body {
            Body::Tcp(segment) => &segment.data,
            Body::Udp(datagram) => &datagram.data,
            Body::Unreachable => &[],
        }
    }

    pub(crate) fn fragments(&self) -> usize {
        if self.is_datagram() {
            self.payload().len().div_ceil(FRAGMENT).max(1)
        } else {
            1
        }
    }

    /// Bytes on the wire, with the headers of IP and of TCP or UDP.
    pub(crate) fn wire_len(&self) -> usize {
        let ip = if self.to.is_ipv4() { 20 } else { 40 };
        match &self.body {
            Body::Tcp(segment) => ip + 20 + segment.data.len(),
            Body::Udp(datagram) => ip * self.fragments() + 8 + datagram.data.len(),
            Body::Unreachable => ip + 36,
        }
    }
}

impl Network {
    /// Adds one word to the digest of the run.
    pub(crate) fn digest_word(&mut self, word: u64) {
        // The step of FxHash with a rotation: fast, and every bit counts.
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn digest_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.digest_word(u64::from_le_bytes(word));
        }
    }

    fn digest_addr(&mut self, addr: SocketAddr) {
        match addr.ip() {
            std::net::IpAddr::V4(ip) => self.digest_bytes(&ip.octets()),
            std::net::IpAddr::V6(ip) => self.digest_bytes(&ip.octets()),
        }
        self.digest_word(u64::from(addr.port()));
    }

    /// Adds a packet to the digest: `step` is 1 for one that is sent, 2 for one that arrives.
    pub(crate) fn digest_packet(&mut self, step: u64, packet: &Packet) {
        self.digest_word(self.now);
        self.digest_word(step << 1 | u64::from(packet.corrupt));
        self.digest_addr(packet.from);
        self.digest_addr(packet.to);
        match &packet.body {
            Body::Tcp(s) => {
                let flags = u64::from(s.syn) | u64::from(s.fin) << 1 | u64::from(s.rst) << 2;
                self.digest_word(flags);
                self.digest_word(s.seq);
                self.digest_word(s.ack.unwrap_or(u64::MAX));
                self.digest_word(s.window);
                self.digest_bytes(&s.data);
            }
            Body::Udp(datagram) => {
                self.digest_word(u64::from(datagram.tos));
                self.digest_bytes(&datagram.data);
            }
            Body::Unreachable => self.digest_word(3),
        }
    }
}
