//! How connections begin and end.
//!
//! A SYN makes a connection in `SynReceived`, which belongs to the listener. The ACK makes it
//! `Established`, and puts it into the backlog. If the backlog is full, the listener drops the SYN,
//! and drops the ACK: the client takes the connection for established, and the SYN-ACK that comes
//! again asks for its ACK again. Both are Linux's choices.
//!
//! A connection ends in `finish`, and nowhere else: it stops the timers, takes the connection off
//! the host's table, frees an ephemeral port, and frees the slot if the program has closed the
//! socket.

use std::net::{Shutdown, SocketAddr};

use super::{Backlog, Phase, State, Tcp};
use crate::{
    error::{ECONNREFUSED, ECONNRESET, EPIPE},
    network::{
        HostId, Network, Ready,
        event::Event,
        packet::{Body, Segment},
        ports::{TimeWait, pair},
        socket::{Proto, Socket},
    },
};

/// How long a TIME_WAIT keeps its port.
const TIME_WAIT: u64 = 60_000_000_000;

impl Network {
    /// Answers a segment that is for no connection.
    pub(crate) fn refuse(&mut self, host: HostId, ends: (SocketAddr, SocketAddr), seg: &Segment) {
        if seg.rst {
            return;
        }
        let answer = match seg.ack {
            Some(seq) => Segment {
                rst: true,
                seq,
                ..Segment::default()
            },
            None => Segment {
                rst: true,
                ack: Some(seg.end()),
                ..Segment::default()
            },
        };
        self.send_packet(host, ends, Body::Tcp(answer));
    }

    /// Takes a SYN for a listener.
    pub(crate) fn take_syn(
        &mut self,
        listener: usize,
        ends: (SocketAddr, SocketAddr),
        segment: &Segment,
    ) {
        let parent = &self.sockets[listener];
        let Proto::Tcp(tcp) = &parent.proto else {
            unreachable!("only TCP sockets listen")
        };
        let Backlog {
            limit, requests, ..
        } = &tcp.backlog;
        if tcp.backlog.is_full() || requests.len() > *limit {
            return;
        }
        let child = Tcp {
            state: State::SynReceived,
            phase: Phase::Connected,
            parent: Some(listener),
            nodelay: tcp.nodelay,
            keepalive: tcp.keepalive,
            keepalive_times: tcp.keepalive_times,
            user_timeout: tcp.user_timeout,
            linger: tcp.linger,
            rcv_nxt: segment.seq + 1,
            ..Tcp::new()
        };
        let socket = Socket {
            only_v6: parent.only_v6,
            reuse: parent.reuse,
            reuse_port: parent.reuse_port,
            ttl: parent.ttl,
            receive_buffer: parent.receive_buffer,
            send_buffer: parent.send_buffer,
            local: ends.0,
            remote: Some(ends.1),
            bound: true,
            addr_locked: true,
            // What was shut down before it listened.
            shut_read: parent.shut_read,
            shut_write: parent.shut_write,
            ..Socket::new(parent.host, parent.v6, Proto::Tcp(Box::new(child)))
        };
        let host = parent.host;
        let key = self.add_socket(socket);
        self.take_port(key, ends.0.port());
        self.hosts[host.0]
            .connections
            .insert(pair(ends.0, ends.1), key);
        self.tcp_mut(listener).backlog.requests.push(key);
        self.send_syn(key);
    }

    /// Takes a segment for a connection that waits for a SYN-ACK.
    pub(crate) fn take_syn_ack(&mut self, key: usize, segment: &Segment) {
        let (receive_buffer, tcp) = self.tcp_parts(key);
        let acknowledged = segment.ack == Some(tcp.max);
        if segment.ack.is_some() && !acknowledged {
            let s = &self.sockets[key];
            let ends = (s.local, s.peer());
            return self.refuse(s.host, ends, segment);
        }
        if acknowledged && segment.rst {
            return self.reset(key);
        }
        if segment.rst || !segment.syn {
            return;
        }
        if !acknowledged {
            return self.open_both(key, segment);
        }
        tcp.rcv_nxt = segment.seq + 1;
        tcp.rcv_adv = tcp.rcv_nxt + tcp.window(receive_buffer);
        tcp.una = tcp.max;
        tcp.nxt = tcp.max;
        tcp.right_edge = tcp.una + segment.window;
        tcp.state = State::Established;
        self.has_connected(key);
        self.send_ack(key);
        self.note(key, Ready::NONE);
    }

    /// Both ends have sent a SYN at the same time, or a socket has connected to itself.
    fn open_both(&mut self, key: usize, segment: &Segment) {
        let (receive_buffer, tcp) = self.tcp_parts(key);
        tcp.state = State::SynReceived;
        tcp.rcv_nxt = segment.seq + 1;
        tcp.rcv_adv = tcp.rcv_nxt + tcp.window(receive_buffer);
        self.resend_syn(key);
        self.note(key, Ready::NONE);
    }

    /// Whether it is the SYN-ACK of the other end, after both have sent a SYN.
    pub(crate) fn is_other_syn_ack(&self, key: usize, segment: &Segment) -> bool {
        let tcp = self.tcp(key);
        tcp.state == State::SynReceived
            && tcp.parent.is_none()
            && segment.ack == Some(tcp.max)
            && segment.seq + 1 == tcp.rcv_nxt
    }

    /// Takes the ACK of a SYN-ACK. Tells whether the connection is established now.
    pub(crate) fn take_last_ack(&mut self, key: usize, segment: &Segment) -> bool {
        let tcp = self.tcp(key);
        let parent = tcp.parent;
        if segment.ack != Some(tcp.max) {
            let s = &self.sockets[key];
            let ends = (s.local, s.peer());
            self.refuse(s.host, ends, segment);
            return false;
        }
        if let Some(parent) = parent {
            let backlog = &mut self.tcp_mut(parent).backlog;
            if backlog.is_full() {
                return false;
            }
            backlog.requests.retain(|request| *request != key);
            backlog.queue.push_back(key);
        }
        let tcp = self.tcp_mut(key);
        tcp.una = tcp.max;
        tcp.nxt = tcp.max;
        tcp.right_edge = tcp.una + segment.window;
        tcp.state = State::Established;
        self.has_connected(key);
        if let Some(parent) = parent {
            self.note(parent, Ready::READABLE);
        }
        if self.sockets[key].shut_write {
            self.send_fin(key);
        }
        true
    }

    /// The handshake has ended: what that means for the timers.
    fn has_connected(&mut self, key: usize) {
        let now = self.now;
        let clock = &mut self.tcp_mut(key).clock;
        clock.tries = 0;
        clock.last_heard = now;
        if let Some((_, sent)) = clock.timed.take() {
            self.measure(key, now.saturating_sub(sent));
        }
        self.stop_retransmit(key);
        self.arm_keepalive(key);
    }

    /// Ends a connection because of a RST, with the error that belongs to its state.
    pub(crate) fn reset(&mut self, key: usize) {
        let error = match self.tcp(key).state {
            State::SynSent => ECONNREFUSED,
            State::CloseWait => EPIPE,
            _ => ECONNRESET,
        };
        self.fail(key, error);
    }

    /// Ends a connection with an error for the program.
    pub(crate) fn fail(&mut self, key: usize, error: i32) {
        self.sockets[key].error = Some(error);
        self.finish(key);
    }

    /// Ends a connection with a RST for the peer.
    pub(crate) fn abort(&mut self, key: usize) {
        self.send_rst(key);
        self.finish(key);
    }

    /// Ends a connection that this end closed first, or at the same time.
    pub(crate) fn finish_to_time_wait(&mut self, key: usize) {
        let s = &self.sockets[key];
        let (host, reuse, reuse_port) = (s.host, s.reuse, s.reuse_port);
        let ends = pair(s.local, s.peer());
        let end = self
            .events
            .add(self.now + TIME_WAIT, Event::Forget(host, ends));
        let tcp = self.tcp(key);
        let wait = TimeWait {
            snd_nxt: tcp.max,
            rcv_nxt: tcp.rcv_nxt,
            window: tcp.rcv_adv - tcp.rcv_nxt,
            reuse,
            reuse_port,
            time: tcp.clock.peer_time,
            end,
        };
        self.finish(key);
        self.hosts[host.0].waiting.insert(ends, wait);
    }

    /// Ends a connection: `tcp_done`. After it the socket may be gone.
    pub(crate) fn finish(&mut self, key: usize) {
        self.stop_timers(key);
        let s = &mut self.sockets[key];
        s.shut(Shutdown::Both);
        let (host, local, closed) = (s.host, s.local, s.closed);
        if let Some(remote) = s.remote {
            let ends = pair(local, remote);
            self.hosts[host.0].connections.remove(&ends);
        }
        if !self.sockets[key].port_locked {
            self.leave_port(key);
        }
        let tcp = self.tcp_mut(key);
        let was_request = tcp.state == State::SynReceived && tcp.parent.is_some();
        tcp.state = State::Closed;
        tcp.unsent.clear();
        tcp.beyond.clear();
        if let (true, Some(parent)) = (was_request, tcp.parent) {
            self.tcp_mut(parent)
                .backlog
                .requests
                .retain(|request| *request != key);
        }
        if closed || was_request {
            self.free(key);
        } else {
            self.note(key, Ready::NONE);
        }
    }

    /// Takes a segment for a connection that waits in TIME_WAIT. Tells whether it is settled with
    /// that; a SYN for a new connection is not.
    pub(crate) fn take_in_time_wait(
        &mut self,
        host: HostId,
        ends: (SocketAddr, SocketAddr),
        segment: &Segment,
    ) -> bool {
        let key = pair(ends.0, ends.1);
        let Some(wait) = self.hosts[host.0].waiting.get(&key) else {
            return false;
        };
        let answer = Segment {
            seq: wait.snd_nxt,
            ack: Some(wait.rcv_nxt),
            window: wait.window,
            ..Segment::default()
        };
        // A SYN that is newer than the last segment is no copy of an old one, whatever its number.
        let newer =
            segment.time > wait.time || (segment.time == wait.time && segment.seq > wait.rcv_nxt);
        let anew = segment.syn && segment.ack.is_none() && !segment.rst && newer;
        let end = wait.end;
        if anew || (segment.rst && segment.seq == wait.rcv_nxt) {
            self.events.cancel(end);
            self.hosts[host.0].waiting.remove(&key);
            return !anew;
        }
        if !segment.rst && segment.end() != segment.seq {
            self.send_packet(host, ends, Body::Tcp(answer));
        }
        true
    }
}
