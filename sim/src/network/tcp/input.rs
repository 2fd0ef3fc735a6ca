//! Segments that arrive, in the order of RFC 9293, section 3.10.7: sequence number, RST, SYN,
//! acknowledgement, data, FIN. What Linux does otherwise:
//!
//! - A RST ends the connection only if its number is exactly `rcv_nxt`; elsewhere in the window it
//!   is answered, and the answer makes a true peer send the exact one (RFC 5961).
//! - Data for a socket whose both directions are shut is answered with a RST.

use std::net::SocketAddr;

use super::{State, Tcp};
use crate::network::{HostId, Network, Ready, packet::Segment};

/// Segments with a wrong checksum until a connection is reset.
const CORRUPT_LIMIT: u32 = 8;

impl Network {
    /// Takes a segment for a host. `ends` are the receiver's address and the sender's.
    pub(crate) fn tcp_arrives(
        &mut self,
        host: HostId,
        ends: (SocketAddr, SocketAddr),
        segment: Segment,
        corrupt: bool,
    ) {
        let pair = super::super::ports::pair(ends.0, ends.1);
        if let Some(&key) = self.hosts[host.0].connections.get(&pair) {
            return if corrupt {
                self.count_corrupt(key)
            } else {
                self.segment(key, segment)
            };
        }
        if corrupt || self.take_in_time_wait(host, ends, &segment) {
            return;
        }
        let begins = segment.syn && segment.ack.is_none() && !segment.rst;
        match self.listener(host, ends.0, ends.1).filter(|_| begins) {
            Some(listener) => self.take_syn(listener, ends, &segment),
            None => self.refuse(host, ends, &segment),
        }
    }

    fn count_corrupt(&mut self, key: usize) {
        let clock = &mut self.tcp_mut(key).clock;
        clock.corrupt += 1;
        if clock.corrupt >= CORRUPT_LIMIT {
            self.send_rst(key);
            self.reset(key);
        }
    }

    fn segment(&mut self, key: usize, segment: Segment) {
        let now = self.now;
        let tcp = self.tcp_mut(key);
        tcp.clock.peer_time = tcp.clock.peer_time.max(segment.time);
        if tcp.state == State::SynSent {
            return self.take_syn_ack(key, &segment);
        }
        if segment.end() < tcp.rcv_nxt || segment.seq > tcp.rcv_adv.max(tcp.rcv_nxt) + 1 {
            if !segment.rst {
                // The peer has sent this before, or it probes: tell it where the window is.
                self.heard(key, &segment);
                self.send_ack(key);
            }
            return;
        }
        if segment.rst {
            return if segment.seq == tcp.rcv_nxt {
                self.reset(key)
            } else {
                self.send_ack(key)
            };
        }
        if segment.syn && !self.is_other_syn_ack(key, &segment) {
            // It came twice, or its answer was lost.
            let again = self.tcp(key).state == State::SynReceived;
            return if again {
                self.resend_syn(key)
            } else {
                self.send_ack(key)
            };
        }
        let Some(ack) = segment.ack else { return };
        let is_request = self.tcp(key).state == State::SynReceived;
        if is_request && !self.take_last_ack(key, &segment) {
            return;
        }
        let tcp = self.tcp_mut(key);
        if ack > tcp.max {
            return self.send_ack(key);
        }
        tcp.clock.last_heard = now;
        tcp.clock.probes = 0;
        let retransmit = self.take_ack(key, ack, &segment);
        if !self.after_ack(key, ack) {
            return;
        }
        if retransmit {
            self.resend_first(key);
        }
        if self.take_data(key, segment) {
            self.tcp_output(key);
            self.note(key, Ready::NONE);
        }
    }

    /// Takes from a segment outside of the window that the peer is there, and its window.
    fn heard(&mut self, key: usize, segment: &Segment) {
        let now = self.now;
        let tcp = self.tcp_mut(key);
        tcp.clock.last_heard = now;
        tcp.clock.probes = 0;
        if let Some(ack) = segment.ack
            && (tcp.una..=tcp.max).contains(&ack)
        {
            tcp.right_edge = tcp.right_edge.max(ack + segment.window);
        }
    }

    /// Takes an acknowledgement and a window. Tells whether the first segment is to be sent again.
    fn take_ack(&mut self, key: usize, ack: u64, segment: &Segment) -> bool {
        let now = self.now;
        let tcp = self.tcp_mut(key);
        if ack < tcp.una {
            return false;
        }
        let edge = tcp.right_edge.max(ack + segment.window);
        let opened = edge > std::mem::replace(&mut tcp.right_edge, edge);
        if opened || ack > tcp.una {
            tcp.clock.probing_since = None;
        }
        if ack == tcp.una {
            if !tcp.in_flight() {
                // The answer to a probe: the peer is there. The next probe still waits longer.
                tcp.clock.trying_since = now;
                if opened {
                    tcp.clock.tries = 0;
                    self.stop_retransmit(key);
                }
                return false;
            }
            let pure = segment.end() == segment.seq && !opened;
            tcp.clock.duplicate_acks += u32::from(pure);
            let lost = pure && tcp.clock.duplicate_acks == 3 && ack >= tcp.clock.recover;
            if lost {
                tcp.clock.recover = tcp.max;
            }
            return lost;
        }
        let acknowledged = ack - tcp.una;
        let bytes = (acknowledged as usize).min(tcp.unsent.len());
        tcp.unsent.drain(..bytes);
        // One number more than there were bytes is the FIN's.
        if acknowledged as usize > bytes {
            tcp.fin_queued = false;
        }
        tcp.una = ack;
        tcp.nxt = tcp.nxt.max(ack);
        tcp.cwnd = tcp.cwnd.saturating_add(acknowledged);
        tcp.clock.tries = 0;
        tcp.clock.duplicate_acks = 0;
        if let Some((_, sent)) = tcp.clock.timed.take_if(|(end, _)| *end <= ack) {
            self.measure(key, now - sent);
        }
        self.stop_retransmit(key);
        // NewReno: what was in flight at the first loss may have more holes.
        let tcp = self.tcp(key);
        tcp.in_flight() && ack < tcp.clock.recover && tcp.nxt == tcp.max
    }

    /// Moves on to the next state if the FIN was acknowledged. Tells whether the connection lives.
    fn after_ack(&mut self, key: usize, ack: u64) -> bool {
        let tcp = self.tcp_mut(key);
        let fin_acknowledged = !tcp.fin_queued && ack == tcp.max && !tcp.in_flight();
        match tcp.state {
            State::FinWait1 if fin_acknowledged => {
                tcp.state = State::FinWait2;
                if self.sockets[key].closed {
                    self.wait_for_fin(key);
                }
                true
            }
            State::Closing if fin_acknowledged => {
                self.finish_to_time_wait(key);
                false
            }
            State::LastAck if fin_acknowledged => {
                self.finish(key);
                false
            }
            _ => true,
        }
    }

    /// Takes data and a FIN. Tells whether the connection lives.
    fn take_data(&mut self, key: usize, segment: Segment) -> bool {
        if segment.end() == segment.seq {
            return true;
        }
        let s = &self.sockets[key];
        let (deaf, receive_buffer) = (s.shut_read && s.shut_write, s.receive_buffer);
        let tcp = self.tcp_mut(key);
        if tcp.fin_received {
            self.send_ack(key);
            return true;
        }
        let new = segment.seq + segment.data.len() as u64 > tcp.rcv_nxt;
        if deaf && new && !segment.data.is_empty() {
            self.abort_for_data(key, &segment);
            return false;
        }
        let edge = tcp.rcv_adv.max(tcp.rcv_nxt + tcp.window(receive_buffer));
        let before = tcp.rcv_nxt;
        tcp.store(segment, edge);
        let (arrived, fin) = (tcp.rcv_nxt > before, tcp.fin_at == Some(tcp.rcv_nxt));
        if fin {
            return self.take_fin(key);
        }
        self.send_ack(key);
        if arrived {
            self.note(key, Ready::READABLE);
        }
        true
    }

    /// Answers data that nobody will read. The RST has the number that the peer expects.
    fn abort_for_data(&mut self, key: usize, segment: &Segment) {
        let s = &self.sockets[key];
        let ends = (s.local, s.peer());
        let host = s.host;
        self.refuse(host, ends, segment);
        self.reset(key);
    }

    /// Takes the peer's FIN. Tells whether the connection lives.
    fn take_fin(&mut self, key: usize) -> bool {
        let tcp = self.tcp_mut(key);
        tcp.rcv_nxt += 1;
        tcp.fin_received = true;
        let ends = tcp.state == State::FinWait2;
        tcp.state = match tcp.state {
            State::Established => State::CloseWait,
            State::FinWait1 => State::Closing,
            other => other,
        };
        self.sockets[key].shut_read = true;
        self.send_ack(key);
        if ends {
            self.finish_to_time_wait(key);
        } else {
            self.note(key, Ready::READABLE | Ready::READ_CLOSED);
        }
        !ends
    }
}

impl Tcp {
    /// Stores what is new of a segment and lies before `edge`; then moves what has become
    /// continuous into the receive buffer.
    fn store(&mut self, segment: Segment, edge: u64) {
        let Segment {
            seq, fin, mut data, ..
        } = segment;
        let end = seq + data.len() as u64;
        if fin {
            self.fin_at = Some(end);
        }
        data.truncate(edge.saturating_sub(seq) as usize);
        if !data.is_empty() {
            let kept = self.beyond.entry(seq).or_default();
            if kept.len() < data.len() {
                *kept = data;
            }
        }
        while let Some(first) = self.beyond.first_entry()
            && *first.key() <= self.rcv_nxt
        {
            let (seq, data) = first.remove_entry();
            let known = (self.rcv_nxt - seq) as usize;
            if known < data.len() {
                self.received.extend(&data[known..]);
                self.rcv_nxt = seq + data.len() as u64;
            }
        }
    }
}
