//! TCP connections: states, sequence numbers, what a socket is ready for.
//!
//! | state | the connection | leaves it by |
//! | --- | --- | --- |
//! | `Closed` | never connected, or over: Linux's `TCP_CLOSE` | `connect`, `listen` |
//! | `Listen` | has a backlog of connections | `close`, `shutdown` of reading |
//! | `SynSent` | waits for a SYN-ACK | SYN-ACK, RST, `ETIMEDOUT` |
//! | `SynReceived` | belongs to a listener, waits for the ACK | ACK with room in the backlog |
//! | | or both ends have sent a SYN | ACK |
//! | `Established` | both directions are open | a FIN, sent or received |
//! | `FinWait1` | this end has closed; its FIN is not acknowledged | ACK, FIN |
//! | `FinWait2` | and is acknowledged; the other end is open | FIN; 60 s after a `close` |
//! | `CloseWait` | the other end has closed, this one has not | `shutdown`, `close` |
//! | `Closing` | both have closed, this end's FIN is not acknowledged | ACK |
//! | `LastAck` | as `Closing`, but the other end closed first | ACK |
//!
//! TIME_WAIT is not a state of a socket. As in Linux, a connection that this end closed first ends
//! with `Closed`, and leaves a [`TimeWait`](super::ports::TimeWait) behind for 60 s.
//!
//! # Sequence numbers
//!
//! ```text
//! sent:      una ........ nxt ........ max ........ end of the buffer, then the FIN
//!             acknowledged | sent (again) | sent once | not sent
//!            una <= nxt <= max <= end + 1
//! received:  rcv_nxt ........ rcv_adv
//!             in order         the window that the peer knows
//! ```
//!
//! `nxt` goes back to `una` when the retransmission timer fires (go-back-N); segments that the
//! other end has kept make it jump forward again. So `max` tells which acknowledgements are true.
//! The FIN has the number after the last byte, so it takes effect after the last byte was received.
//!
//! # Errors
//!
//! The order is that of `tcp_recvmsg` and `tcp_sendmsg`. A read first gives data; then `Ok(0)` if a
//! FIN came; then the pending error, once; then `Ok(0)`. A write first gives the pending error,
//! once, then `EPIPE`. After a RST the pending error is `ECONNREFUSED` in `SynSent`, `EPIPE` in
//! `CloseWait`, and `ECONNRESET` elsewhere. A RST drops what was not sent, and keeps what was
//! received.
//!
//! | file | what it has |
//! | --- | --- |
//! | `tcp/calls.rs` | what programs call |
//! | `tcp/input.rs` | segments that arrive |
//! | `tcp/handshake.rs` | SYNs, and the end of a connection |
//! | `tcp/output.rs` | segments that go out |
//! | `tcp/late.rs` | what a program does that is ahead of the network |
//! | `tcp/timers.rs` | retransmission, probes |

mod calls;
mod handshake;
mod input;
mod late;
mod output;
mod timers;

use std::collections::{BTreeMap, VecDeque};

use self::late::Late;
use super::{
    KeepAlive, Network, Ready,
    event::EventKey,
    socket::{Proto, Socket},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
}

/// What `connect` has to know of its own past: Linux's `socket_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Unconnected,
    Connecting,
    Connected,
    /// Shut down after it failed to connect.
    Disconnecting,
}

/// The backlog of a listener.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) limit: usize,
    /// Connections for `accept`, the oldest first.
    pub(crate) queue: VecDeque<usize>,
    /// Connections in `SynReceived`.
    pub(crate) requests: Vec<usize>,
}

impl Backlog {
    /// Linux lets one more connection wait than `listen` was told.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() > self.limit
    }
}

/// What a TCP socket has beside the rest.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) state: State,
    pub(crate) phase: Phase,
    pub(crate) backlog: Backlog,
    /// The listener in whose backlog it is.
    pub(crate) parent: Option<usize>,
    pub(crate) nodelay: bool,
    pub(crate) keepalive: Option<KeepAlive>,
    pub(crate) keepalive_times: KeepAlive,
    /// 0 is Linux's own.
    pub(crate) user_timeout: u64,
    pub(crate) linger: Option<u64>,

    pub(crate) mss: usize,
    pub(crate) una: u64,
    pub(crate) nxt: u64,
    pub(crate) max: u64,
    /// The peer takes bytes up to this number.
    pub(crate) right_edge: u64,
    /// Bytes in flight at most: the slow start.
    pub(crate) cwnd: u64,
    /// Bytes from `una` on.
    pub(crate) unsent: VecDeque<u8>,
    pub(crate) fin_queued: bool,
    /// What its program has done at a later time: see `tcp/late.rs`.
    pub(crate) late: VecDeque<(EventKey, Late)>,

    pub(crate) rcv_nxt: u64,
    pub(crate) rcv_adv: u64,
    pub(crate) received: VecDeque<u8>,
    /// Segments beyond a hole.
    pub(crate) beyond: BTreeMap<u64, Vec<u8>>,
    /// The number of the peer's FIN, if it is known.
    pub(crate) fin_at: Option<u64>,
    /// The peer's FIN was reached: Linux's `SOCK_DONE`.
    pub(crate) fin_received: bool,

    pub(crate) clock: Clock,
}

/// The timers of a connection, and what they depend on. Times are in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    pub(crate) retransmit: Option<EventKey>,
    pub(crate) keepalive: Option<EventKey>,
    pub(crate) orphan: Option<EventKey>,
    /// Smoothed round trip, and its deviation. 0 is no measurement.
    pub(crate) srtt: u64,
    pub(crate) deviation: u64,
    /// The segment that is measured: its end, and when it was sent.
    pub(crate) timed: Option<(u64, u64)>,
    /// Retransmissions, or probes of a closed window, since the peer was last heard.
    pub(crate) tries: u32,
    /// When the timer of the first try began.
    pub(crate) sent_at: u64,
    /// When the first of them was sent.
    pub(crate) trying_since: u64,
    /// When the first probe was sent of a window that is closed still.
    pub(crate) probing_since: Option<u64>,
    pub(crate) duplicate_acks: u32,
    /// Where the sending was when the last loss was noticed by them.
    pub(crate) recover: u64,
    pub(crate) last_heard: u64,
    /// The newest time that a segment of the peer had.
    pub(crate) peer_time: u64,
    /// Keep-alive probes without an answer.
    pub(crate) probes: u32,
    /// Segments whose checksum was wrong.
    pub(crate) corrupt: u32,
}

impl Tcp {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Closed,
            phase: Phase::Unconnected,
            backlog: Backlog::default(),
            parent: None,
            nodelay: false,
            keepalive: None,
            keepalive_times: KeepAlive::default(),
            user_timeout: 0,
            linger: None,
            mss: 536,
            una: 0,
            nxt: 0,
            max: 0,
            right_edge: 0,
            cwnd: 0,
            unsent: VecDeque::new(),
            fin_queued: false,
            late: VecDeque::new(),
            rcv_nxt: 0,
            rcv_adv: 0,
            received: VecDeque::new(),
            beyond: BTreeMap::new(),
            fin_at: None,
            fin_received: false,
            clock: Clock::default(),
        }
    }

    /// The number after the last byte of the buffer, which is that of the FIN. Only outside of the
    /// handshake, in which the SYN is at `una`.
    pub(crate) fn data_end(&self) -> u64 {
        self.una + self.unsent.len() as u64
    }

    /// The FIN is sent, and acknowledged: `una` is beyond it.
    pub(crate) fn in_flight(&self) -> bool {
        self.max > self.una
    }

    pub(crate) fn has_peer(&self) -> bool {
        !matches!(self.state, State::Closed | State::Listen | State::SynSent)
    }

    /// As `tcp_poll` of Linux.
    pub(crate) fn ready(&self, socket: &Socket) -> Ready {
        let mut ready = Ready::NONE;
        if self.state == State::Listen {
            ready.set_if(!self.backlog.queue.is_empty(), Ready::READABLE);
            return ready;
        }
        let shut = socket.shut_read && socket.shut_write;
        ready.set_if(shut || self.state == State::Closed, Ready::WRITE_CLOSED);
        ready.set_if(socket.shut_read, Ready::READABLE | Ready::READ_CLOSED);
        if !matches!(self.state, State::SynSent | State::SynReceived) {
            ready.set_if(!self.received.is_empty(), Ready::READABLE);
            let room = 3 * self.buffered() <= 2 * (socket.send_buffer / 2);
            ready.set_if(socket.shut_write || room, Ready::WRITABLE);
        }
        ready
    }

    /// Bytes in the send buffer.
    pub(crate) fn buffered(&self) -> usize {
        let late = self.late.iter().map(|(_, late)| late.len());
        self.unsent.len() + late.sum::<usize>()
    }

    /// Bytes that fit into the receive buffer.
    pub(crate) fn window(&self, receive_buffer: usize) -> u64 {
        (receive_buffer / 2).saturating_sub(self.received.len()) as u64
    }
}

impl Network {
    pub(crate) fn tcp(&self, key: usize) -> &Tcp {
        match &self.sockets[key].proto {
            Proto::Tcp(tcp) => tcp,
            Proto::Udp(_) => unreachable!("called for TCP sockets alone"),
        }
    }

    pub(crate) fn tcp_mut(&mut self, key: usize) -> &mut Tcp {
        self.tcp_parts(key).1
    }

    /// A socket, and what it has as a TCP socket. The first has its `proto` borrowed by the second,
    /// so the parts come as what callers need: the receive buffer's size.
    pub(crate) fn tcp_parts(&mut self, key: usize) -> (usize, &mut Tcp) {
        let socket = &mut self.sockets[key];
        match &mut socket.proto {
            Proto::Tcp(tcp) => (socket.receive_buffer, tcp),
            Proto::Udp(_) => unreachable!("called for TCP sockets alone"),
        }
    }
}
