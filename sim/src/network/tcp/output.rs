//! Segments that go out.
//!
//! `tcp_output` sends what the peer's window, the slow start and Nagle's rule allow, from `nxt` on.
//! Every segment carries the newest acknowledgement and window. After it the retransmission timer
//! runs if something is in flight, or if data waits for a window to open.

use super::{State, Tcp};
use crate::network::{
    Network,
    packet::{Body, Segment},
};

/// Segments that a connection may have in flight at first, as `TCP_INIT_CWND` of Linux.
const FIRST_SEGMENTS: u64 = 10;

/// Nanoseconds of one tick of the time in a segment: 1 ms, as Linux.
const TICK: u64 = 1_000_000;

impl Network {
    /// Sends a segment of a connection, with its acknowledgement and window.
    pub(crate) fn send_segment(&mut self, key: usize, mut segment: Segment) {
        let (receive_buffer, tcp) = self.tcp_parts(key);
        if tcp.state != State::SynSent {
            segment.ack = Some(tcp.rcv_nxt);
        }
        tcp.rcv_adv = tcp.rcv_adv.max(tcp.rcv_nxt + tcp.window(receive_buffer));
        segment.window = tcp.rcv_adv - tcp.rcv_nxt;
        let s = &self.sockets[key];
        let (host, from) = (s.host, s.local);
        let to = s.peer();
        segment.time = self.time_of(host) / TICK;
        let body = Body::Tcp(segment);
        self.send_packet(host, (from, to), body);
    }

    pub(crate) fn send_ack(&mut self, key: usize) {
        let seq = self.tcp(key).max;
        self.send_segment(
            key,
            Segment {
                seq,
                ..Segment::default()
            },
        );
    }

    /// Sends the first SYN, or SYN-ACK, of a connection.
    pub(crate) fn send_syn(&mut self, key: usize) {
        let isn = self.rng.next_u64() & 0xffff_ffff;
        let s = &self.sockets[key];
        let remote = s.peer().ip();
        let near = remote.is_loopback() || self.hosts[s.host.0].addrs.contains(&remote);
        let headers = if remote.is_ipv4() { 40 } else { 60 };
        let tcp = self.tcp_mut(key);
        if tcp.state == State::Closed {
            tcp.state = State::SynSent;
        }
        (tcp.una, tcp.nxt, tcp.max) = (isn, isn, isn + 1);
        tcp.mss = if near {
            65_536 - headers - 12
        } else {
            1_500 - headers
        };
        tcp.cwnd = FIRST_SEGMENTS * tcp.mss as u64;
        self.resend_syn(key);
        let sent = self.time_of(self.sockets[key].host);
        self.tcp_mut(key).clock.timed = Some((isn + 1, sent));
        self.arm_retransmit(key);
    }

    pub(crate) fn resend_syn(&mut self, key: usize) {
        let tcp = self.tcp_mut(key);
        let seq = tcp.una;
        tcp.nxt = seq + 1;
        // Which of them an answer is for is not known.
        tcp.clock.timed = None;
        self.send_segment(
            key,
            Segment {
                syn: true,
                seq,
                ..Segment::default()
            },
        );
    }

    /// Sends a RST that the peer's window takes.
    pub(crate) fn send_rst(&mut self, key: usize) {
        let seq = self.tcp(key).max;
        self.send_segment(
            key,
            Segment {
                rst: true,
                seq,
                ..Segment::default()
            },
        );
    }

    /// Sends what may be sent now, and starts the timer.
    pub(crate) fn tcp_output(&mut self, key: usize) {
        if matches!(
            self.tcp(key).state,
            State::Closed | State::Listen | State::SynSent | State::SynReceived
        ) {
            return;
        }
        while let Some(segment) = self.tcp(key).next_segment() {
            let (now, end) = (self.now, segment.end());
            let tcp = self.tcp_mut(key);
            if segment.seq == tcp.max && tcp.clock.timed.is_none() {
                tcp.clock.timed = Some((end, now));
            }
            tcp.nxt = end;
            tcp.max = tcp.max.max(end);
            self.send_segment(key, segment);
        }
        let tcp = self.tcp(key);
        let waits = tcp.in_flight() || tcp.data_end() > tcp.una;
        if waits && tcp.clock.retransmit.is_none() {
            self.arm_retransmit(key);
        }
    }

    /// Sends the first segment that is not acknowledged once more, and gives its end.
    pub(crate) fn resend_first(&mut self, key: usize) -> u64 {
        let tcp = self.tcp_mut(key);
        let window = tcp.right_edge.saturating_sub(tcp.una) as usize;
        let segment = tcp.segment(tcp.una, tcp.mss.min(tcp.unsent.len()).min(window));
        let end = segment.end();
        tcp.clock.timed = None;
        tcp.max = tcp.max.max(end);
        self.send_segment(key, segment);
        end
    }

    /// Tells the peer of room in the receive buffer, if it is worth a segment: two full ones, or
    /// half of the buffer.
    pub(crate) fn update_window(&mut self, key: usize) {
        let (receive_buffer, tcp) = self.tcp_parts(key);
        let opened = (tcp.rcv_nxt + tcp.window(receive_buffer)).saturating_sub(tcp.rcv_adv);
        let worth = (2 * tcp.mss as u64).min(receive_buffer as u64 / 4);
        let open = matches!(
            tcp.state,
            State::Established | State::FinWait1 | State::FinWait2
        );
        if open && opened >= worth.max(1) {
            self.send_ack(key);
        }
    }
}

impl Tcp {
    /// The segment with so many bytes from `seq` on, and with the FIN if it comes next.
    fn segment(&self, seq: u64, length: usize) -> Segment {
        let start = (seq - self.una) as usize;
        let data: Vec<u8> = self.unsent.range(start..start + length).copied().collect();
        let fin = self.fin_queued && seq + length as u64 == self.data_end();
        Segment {
            seq,
            fin,
            data,
            ..Segment::default()
        }
    }

    /// The next segment from `nxt` on, if one may be sent.
    fn next_segment(&self) -> Option<Segment> {
        let end = self.data_end();
        if self.nxt > end {
            return None; // The FIN is sent.
        }
        let edge = self.right_edge.min(self.una + self.cwnd).min(end);
        let length = (edge.saturating_sub(self.nxt) as usize).min(self.mss);
        let last = self.nxt + length as u64 == end;
        let fin = self.fin_queued && last;
        if length == 0 && !fin {
            return None;
        }
        // Nagle: a small segment waits while another is in flight. One that is small because of
        // the window always waits.
        let busy = self.nxt > self.una;
        if length < self.mss && busy && !fin && (!last || !self.nodelay) {
            return None;
        }
        Some(self.segment(self.nxt, length))
    }
}
