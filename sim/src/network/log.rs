//! What hosts send and get, in words, for the message of a run that failed and for its recording.
//!
//! Nothing is kept until [`Network::keep_log`] is called: then a packet costs a text. A run that
//! fails is run again with it, so the good runs pay one branch a packet.
//!
//! A packet that is kept has a number. So its arrival, or its loss, is told beside the same number
//! as its sending. An acknowledgement without data tells nobody anything, and is not kept.
//!
//! *Invariant*: the log changes neither a packet nor the digest.

use std::{collections::VecDeque, fmt, net::SocketAddr};

use super::{
    HostId, Network,
    packet::{Body, Packet},
};

/// Notes that are kept of each host: the newest. Guessed: more than a page can show.
const KEPT: usize = 1 << 16;

/// What happened to a host, and when.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    /// In nanoseconds.
    pub(crate) at: u64,
    pub(crate) text: String,
    pub(crate) packet: Option<Way>,
}

/// The number of a packet that leaves or arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Leaves(u64),
    Arrives(u64),
}

/// What is kept. A host has one, and the network has one for faults that belong to no host.
pub(crate) struct Log {
    /// The time of a note that is made at some time. It puts notes of one time into their order.
    time: Box<dyn Fn(u64) -> u64>,
    of_hosts: Vec<VecDeque<Note>>,
    of_network: VecDeque<Note>,
    packets: u64,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

impl Log {
    /// What happened to a host, or else to the network. The oldest first.
    pub(crate) fn notes(&self, host: Option<HostId>) -> impl DoubleEndedIterator<Item = &Note> {
        let notes = match host {
            Some(host) => self.of_hosts.get(host.0),
            None => Some(&self.of_network),
        };
        notes.into_iter().flatten()
    }

    fn add(&mut self, host: Option<HostId>, now: u64, text: String, packet: Option<Way>) {
        let notes = match host {
            Some(HostId(index)) => {
                if self.of_hosts.len() <= index {
                    self.of_hosts.resize_with(index + 1, VecDeque::new);
                }
                &mut self.of_hosts[index]
            }
            None => &mut self.of_network,
        };
        if notes.len() == KEPT {
            notes.pop_front();
        }
        let at = (self.time)(now);
        notes.push_back(Note { at, text, packet });
    }
}

impl Network {
    /// Keeps from now on what hosts send and get. `time` is given the simulated time, and answers
    /// what the note has.
    pub(crate) fn keep_log(&mut self, time: Box<dyn Fn(u64) -> u64>) {
        self.log = Some(Log {
            time,
            of_hosts: Vec::new(),
            of_network: VecDeque::new(),
            packets: 0,
        });
    }

    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Notes what happens to a host, or else to the network. The text is made if a log is kept.
    pub(crate) fn note_event(&mut self, host: Option<HostId>, text: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.add(host, self.now, text(), None);
        }
    }

    /// A host sends a packet, which gets its number.
    pub(crate) fn log_sent(&mut self, from: HostId, packet: &mut Packet) {
        if self.log.is_some()
            && let Some((text, _)) = sent(packet, &self.shown(packet.to))
            && let Some(log) = &mut self.log
        {
            log.packets += 1;
            packet.number = log.packets;
            log.add(Some(from), self.now, text, Some(Way::Leaves(log.packets)));
        }
    }

    /// A packet arrives at a host.
    pub(crate) fn log_arrived(&mut self, to: HostId, packet: &Packet) {
        if packet.number > 0
            && let Some(text) = arrived(packet, &self.shown(packet.from))
            && let Some(log) = &mut self.log
        {
            let way = Way::Arrives(packet.number);
            log.add(Some(to), self.now, text, Some(way));
        }
    }

    /// A packet of a host does not arrive, or not yet.
    pub(crate) fn log_lost(&mut self, from: HostId, packet: &Packet, why: &str) {
        if packet.number > 0
            && let Some((_, what)) = sent(packet, &self.shown(packet.to))
            && let Some(log) = &mut self.log
        {
            let text = format!("{why}: {what}");
            log.add(Some(from), self.now, text, None);
        }
    }

    pub(crate) fn host_name(&self, host: HostId) -> &str {
        &self.hosts[host.0].name
    }

    /// An end of a connection, with the name of its host.
    fn shown(&self, end: SocketAddr) -> String {
        match self.owners.get(&end.ip()) {
            Some(host) => format!("{}:{}", self.hosts[host.0].name, end.port()),
            None => end.to_string(),
        }
    }
}

/// What a host did when it sent a packet, and what the packet is.
fn sent(packet: &Packet, to: &str) -> Option<(String, String)> {
    let sent = |what: String| (format!("sent {what}"), what);
    let segment = match &packet.body {
        Body::Udp(one) => return Some(sent(format!("a datagram of {} to {to}", bytes(&one.data)))),
        Body::Unreachable => {
            let refused = format!("refused a datagram of {to}");
            return Some((refused, format!("the refusal of a datagram of {to}")));
        }
        Body::Tcp(segment) => segment,
    };
    Some(match (segment.syn, segment.ack) {
        _ if segment.rst => {
            let did = format!("reset the connection to {to}");
            (did, format!("the reset of the connection to {to}"))
        }
        (true, None) => {
            let did = format!("asked {to} for a connection");
            (did, format!("the request for a connection to {to}"))
        }
        (true, Some(_)) => {
            let did = format!("took the connection of {to}");
            (did, format!("the answer to the request of {to}"))
        }
        _ if !segment.data.is_empty() && segment.fin => {
            sent(format!("{} to {to}, the last ones", bytes(&segment.data)))
        }
        _ if !segment.data.is_empty() => sent(format!("{} to {to}", bytes(&segment.data))),
        _ if segment.fin => sent(format!("the end of the stream to {to}")),
        _ => return None,
    })
}

fn arrived(packet: &Packet, from: &str) -> Option<String> {
    if packet.corrupt {
        return Some(format!("dropped a damaged packet of {from}"));
    }
    let segment = match &packet.body {
        Body::Udp(one) => {
            return Some(format!(
                "got a datagram of {} from {from}",
                bytes(&one.data)
            ));
        }
        Body::Unreachable => return Some(format!("heard that {from} takes no datagrams")),
        Body::Tcp(segment) => segment,
    };
    Some(match (segment.syn, segment.ack) {
        _ if segment.rst => format!("heard that {from} reset the connection"),
        (true, None) => format!("was asked by {from} for a connection"),
        (true, Some(_)) => format!("heard that {from} took the connection"),
        _ if !segment.data.is_empty() && segment.fin => {
            format!("got {} from {from}, the last ones", bytes(&segment.data))
        }
        _ if !segment.data.is_empty() => format!("got {} from {from}", bytes(&segment.data)),
        _ if segment.fin => format!("got the end of the stream from {from}"),
        _ => return None,
    })
}

/// How many bytes these are, in words.
pub(crate) fn bytes(data: &[u8]) -> String {
    match data.len() {
        1 => "1 byte".to_owned(),
        many => format!("{many} bytes"),
    }
}
