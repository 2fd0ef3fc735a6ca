//! What a program does while its host is ahead of the network.
//!
//! A program that sleeps in the middle of a step is ahead: its clock shows a later time than the
//! network's ([`Network::set_busy`]). What it then writes, shuts down or closes happens at its own
//! time. Until then it waits here, in order, each with a timer. The kernel of that host is not
//! ahead: it acknowledges segments and sends older data in the meantime, as a kernel does while a
//! thread sleeps.
//!
//! *Invariant*: bytes that wait here count against the send buffer, and none is sent before its
//! time. What comes after a waiting entry waits behind it.
//!
//! A packet without a connection waits as [`Event::Departure`].
//!
//! A program that is stopped has no time of its own: what waits then waits until it goes on
//! ([`Network::stop_program`]). One that is killed never comes to it ([`Network::kill_program`]).
//!
//! Rejected: a packet with a later begin on its link. A link is first in, first out, so it would
//! hold up the acknowledgements of the kernel; and an acknowledgement would send the bytes early.

use std::net::Shutdown;

use crate::network::{
    HostId, Network,
    event::{Event, EventKey, Timer},
    ports::Host,
    socket::Proto,
};

/// What waits for the time of the program.
#[derive(Debug)]
pub(crate) enum Late {
    Bytes(Vec<u8>),
    Fin,
    Close,
}

impl Late {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Fin | Self::Close => 0,
        }
    }
}

impl Network {
    /// Tells that a host's program has slept until a time, in nanoseconds. What its calls send
    /// before that time leaves at it. Answers are those of the present.
    ///
    /// ```
    /// use ws_sim::network::Network;
    ///
    /// let mut net = Network::new(7);
    /// let host = net.add_host("a", &["10.0.0.1".parse()?])?;
    /// let socket = net.udp_socket(host, false);
    /// net.set_busy(host, 1_000_000);
    /// net.send_to(socket, b"x", "10.0.0.1:9".parse()?)?;
    /// assert_eq!(net.next_event(), Some(1_000_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_busy(&mut self, host: HostId, until: u64) {
        self.hosts[host.0].busy_until = until;
    }

    /// The time of a host's program, if the program acts now. Otherwise it is the network's.
    pub(crate) fn time_of(&self, host: HostId) -> u64 {
        if self.is_in_event {
            self.now
        } else {
            self.now.max(self.hosts[host.0].busy_until)
        }
    }

    /// Lets something wait, if its program is ahead or if something waits already. Tells whether
    /// it does.
    pub(crate) fn waits_for_program(&mut self, key: usize, late: impl FnOnce() -> Late) -> bool {
        let at = self.time_of(self.sockets[key].host);
        let last = self.tcp(key).late.back().map(|((at, _), _)| *at);
        if at == self.now && last.is_none() {
            return false;
        }
        let at = at.max(last.unwrap_or(0));
        let timer = self.events.add(at, Event::Timer(key, Timer::Late));
        self.tcp_mut(key).late.push_back((timer, late()));
        true
    }

    /// The time of the oldest entry has come.
    pub(crate) fn do_late(&mut self, key: usize) {
        match self.tcp_mut(key).late.pop_front() {
            Some((_, Late::Bytes(bytes))) => {
                self.tcp_mut(key).unsent.extend(bytes);
                self.tcp_output(key);
            }
            Some((_, Late::Fin)) => self.send_fin(key),
            Some((_, Late::Close)) => {
                self.sockets[key].shut(Shutdown::Both);
                self.end_by_close(key);
            }
            None => {}
        }
    }

    fn tcp_of(&self, host: HostId) -> Vec<usize> {
        let its = self
            .sockets
            .iter()
            .filter(|(_, socket)| socket.host == host);
        let tcp = its.filter(|(_, socket)| matches!(socket.proto, Proto::Tcp(_)));
        tcp.map(|(key, _)| key).collect()
    }

    fn take_departures(&mut self, host: HostId) -> Vec<(u64, Event)> {
        self.events
            .take_all(|event| matches!(event, Event::Departure { from, .. } if *from == host))
    }

    /// The program of a host stands still. It does nothing more until it [goes
    /// on](Self::resume_program).
    pub(crate) fn stop_program(&mut self, host: HostId) {
        let departures = self.take_departures(host);
        self.hosts[host.0].stopped.extend(departures);
        for key in self.tcp_of(host) {
            let timers: Vec<EventKey> = self.tcp(key).late.iter().map(|(at, _)| *at).collect();
            timers.into_iter().for_each(|at| self.events.cancel(at));
        }
    }

    /// The program of a host goes on. What it would have done in the meantime it does now.
    pub(crate) fn resume_program(&mut self, host: HostId) {
        for (at, event) in std::mem::take(&mut self.hosts[host.0].stopped) {
            self.events.add(at.max(self.now), event);
        }
        for key in self.tcp_of(host) {
            for place in 0..self.tcp(key).late.len() {
                let timer = self.tcp(key).late[place].0;
                self.events.cancel(timer);
                let at = timer.0.max(self.now);
                let timer = self.events.add(at, Event::Timer(key, Timer::Late));
                self.tcp_mut(key).late[place].0 = timer;
            }
        }
    }

    /// The program of a host ends now: it does nothing of what it would do at a later time. Sockets
    /// that it would close then are closed.
    pub(crate) fn kill_program(&mut self, host: HostId) {
        self.take_departures(host);
        let Host {
            stopped,
            busy_until,
            ..
        } = &mut self.hosts[host.0];
        stopped.clear();
        *busy_until = 0;
        for key in self.tcp_of(host) {
            let last = self.tcp(key).late.back();
            let is_closed = matches!(last, Some((_, Late::Close)));
            self.stop_late(key);
            if is_closed {
                self.tcp_close(key);
            }
        }
    }

    pub(crate) fn stop_late(&mut self, key: usize) {
        let waiting: Vec<EventKey> = self.tcp_mut(key).late.drain(..).map(|(at, _)| at).collect();
        waiting.into_iter().for_each(|at| self.events.cancel(at));
    }
}
