//! The timers of a connection.
//!
//! | timer | runs while | fires |
//! | --- | --- | --- |
//! | retransmit | a SYN, data or a FIN is in flight | sends again, with twice the time |
//! | retransmit | data waits for a closed window | sends a probe, with twice the time |
//! | keep-alive | it is on, and nothing is in flight | sends a probe, or gives up |
//! | orphan | a closed socket waits for a FIN | forgets the connection |
//!
//! The time to retransmit follows RFC 6298 with Linux's limits: it is the round trip and at least
//! 200 ms, and 120 s at most. The SYN and its answer measure the first round trip, and until then
//! it is 1 s. A connection is given up with `ETIMEDOUT`:
//!
//! - after 6 SYNs more than the first, 127 s, as `tcp_syn_retries`;
//! - after 5 SYN-ACKs more than the first, 63 s, without an error for anybody;
//! - after 924.6 s without an answer to data, a FIN or a probe of the window: the time that 15
//!   retransmissions take in Linux, `tcp_retries2`;
//! - after `TCP_USER_TIMEOUT`, if it is set: since data was sent that is not acknowledged, or since
//!   the first probe of a window that stays closed, also if the probes are answered;
//! - after the probes of keep-alive.
//!
//! If no host has the address, it fails with `EHOSTUNREACH` after 3 s, as if ARP had no answer.

use super::State;
use crate::{
    error::{EHOSTUNREACH, ETIMEDOUT},
    network::{
        Network,
        event::{Event, Timer},
        packet::Segment,
    },
};

const SECOND: u64 = 1_000_000_000;
const LEAST_TIMEOUT: u64 = SECOND / 5;
const LARGEST_TIMEOUT: u64 = 120 * SECOND;
const FIRST_TIMEOUT: u64 = SECOND;
const SYN_TRIES: u32 = 6;
const SYN_ACK_TRIES: u32 = 5;
/// SYNs more than the first until it is known that no host has the address: after 3 s.
const ARP_TRIES: u32 = 1;
/// 15 retransmissions that begin with 200 ms and double up to 120 s.
const GIVE_UP: u64 = 924_600_000_000;

impl Network {
    /// Starts the retransmission timer anew.
    pub(crate) fn arm_retransmit(&mut self, key: usize) {
        self.stop_retransmit(key);
        let clock = &self.tcp(key).clock;
        let base = match clock.srtt {
            0 => FIRST_TIMEOUT,
            srtt => srtt + (4 * clock.deviation).max(LEAST_TIMEOUT),
        };
        let mut wait = (base << clock.tries.min(20)).min(LARGEST_TIMEOUT);
        let user_timeout = self.tcp(key).user_timeout;
        if user_timeout > 0 {
            let since = match (clock.probing_since, clock.tries) {
                (Some(since), _) => since,
                (None, 0) => self.now,
                (None, _) => clock.trying_since,
            };
            let left = (since + user_timeout).saturating_sub(self.now);
            wait = wait.min(left.max(1));
        }
        let at = self.time_of(self.sockets[key].host).saturating_add(wait);
        let timer = self.events.add(at, Event::Timer(key, Timer::Retransmit));
        let now = self.now;
        let clock = &mut self.tcp_mut(key).clock;
        clock.retransmit = Some(timer);
        if clock.tries == 0 {
            clock.sent_at = now;
        }
    }

    pub(crate) fn stop_retransmit(&mut self, key: usize) {
        if let Some(timer) = self.tcp_mut(key).clock.retransmit.take() {
            self.events.cancel(timer);
        }
    }

    /// Starts the keep-alive timer, if it is on and the connection is open.
    pub(crate) fn arm_keepalive(&mut self, key: usize) {
        let now = self.now;
        let tcp = self.tcp_mut(key);
        let wait = match (tcp.keepalive, tcp.state) {
            (_, State::Closed | State::Listen | State::SynSent | State::SynReceived) => None,
            (Some(times), _) if tcp.clock.probes > 0 => Some(times.interval),
            (Some(times), _) => Some(times.idle.saturating_sub(now - tcp.clock.last_heard).max(1)),
            (None, _) => None,
        };
        if let Some(old) = tcp.clock.keepalive.take() {
            self.events.cancel(old);
        }
        if let Some(wait) = wait {
            let timer = self
                .events
                .add(now + wait, Event::Timer(key, Timer::KeepAlive));
            self.tcp_mut(key).clock.keepalive = Some(timer);
        }
    }

    pub(crate) fn stop_timers(&mut self, key: usize) {
        self.stop_late(key);
        let clock = &mut self.tcp_mut(key).clock;
        let timers = [
            clock.retransmit.take(),
            clock.keepalive.take(),
            clock.orphan.take(),
        ];
        for timer in timers.into_iter().flatten() {
            self.events.cancel(timer);
        }
    }

    pub(crate) fn tcp_timer(&mut self, key: usize, timer: Timer) {
        let clock = &mut self.tcp_mut(key).clock;
        match timer {
            Timer::Retransmit => {
                clock.retransmit = None;
                self.retransmit(key);
            }
            Timer::KeepAlive => {
                clock.keepalive = None;
                self.probe_idle(key);
            }
            Timer::Late => self.do_late(key),
            Timer::Left => {}
            Timer::Orphan => {
                clock.orphan = None;
                self.finish(key);
            }
        }
    }

    fn retransmit(&mut self, key: usize) {
        let now = self.now;
        let tcp = self.tcp_mut(key);
        let clock = &mut tcp.clock;
        if clock.tries == 0 {
            clock.trying_since = now;
            if tcp.user_timeout > 0 {
                // Since it was sent, and not since it was sent again.
                clock.trying_since = clock.sent_at;
            }
        }
        let is_syn = matches!(tcp.state, State::SynSent | State::SynReceived);
        let since = match (tcp.user_timeout, clock.probing_since) {
            // A peer that answers each probe and does not read is given up as well.
            (1.., Some(since)) => since,
            _ => clock.trying_since,
        };
        let given_up = match tcp.state {
            State::SynSent => clock.tries >= SYN_TRIES,
            State::SynReceived => clock.tries >= SYN_ACK_TRIES,
            _ if tcp.user_timeout > 0 => now - since >= tcp.user_timeout,
            _ => now - since >= GIVE_UP,
        };
        let is_alone = tcp.state == State::SynSent && clock.tries >= ARP_TRIES;
        if !is_syn && !tcp.in_flight() {
            tcp.clock.probing_since.get_or_insert(now);
        }
        if is_alone && self.is_of_nobody(self.sockets[key].peer().ip()) {
            return self.fail(key, EHOSTUNREACH);
        }
        if given_up {
            return self.fail(key, ETIMEDOUT);
        }
        let tcp = self.tcp_mut(key);
        let clock = &mut tcp.clock;
        clock.tries += 1;
        clock.timed = None;
        clock.duplicate_acks = 0;
        if is_syn {
            self.resend_syn(key);
        } else if tcp.in_flight() {
            tcp.nxt = tcp.una;
            tcp.cwnd = tcp.mss as u64;
            // The first segment goes out even if the window has closed: it is the probe as well.
            let end = self.resend_first(key);
            self.tcp_mut(key).nxt = end;
        } else {
            self.probe(key);
        }
        self.arm_retransmit(key);
    }

    /// Sends a segment from before the window: the peer answers with its newest window.
    fn probe(&mut self, key: usize) {
        let seq = self.tcp(key).una - 1;
        self.send_segment(
            key,
            Segment {
                seq,
                ..Segment::default()
            },
        );
    }

    fn probe_idle(&mut self, key: usize) {
        let now = self.now;
        let tcp = self.tcp_mut(key);
        let Some(times) = tcp.keepalive else { return };
        if tcp.in_flight() || !tcp.unsent.is_empty() {
            // The retransmission timer finds out whether the peer is there.
            (tcp.clock.probes, tcp.clock.last_heard) = (0, now);
        } else if tcp.clock.probes > 0 || now - tcp.clock.last_heard >= times.idle {
            if tcp.clock.probes >= times.retries {
                self.send_rst(key);
                return self.fail(key, ETIMEDOUT);
            }
            tcp.clock.probes += 1;
            self.probe(key);
        }
        self.arm_keepalive(key);
    }

    /// Takes a round trip into the estimate, as RFC 6298 does.
    pub(crate) fn measure(&mut self, key: usize, round_trip: u64) {
        let clock = &mut self.tcp_mut(key).clock;
        if clock.srtt == 0 {
            clock.srtt = round_trip.max(1);
            clock.deviation = round_trip / 2;
        } else {
            clock.deviation = (3 * clock.deviation + clock.srtt.abs_diff(round_trip)) / 4;
            clock.srtt = ((7 * clock.srtt + round_trip) / 8).max(1);
        }
    }
}
