//! What programs call, in the order of the checks of `inet_stream_connect`, `tcp_sendmsg`,
//! `tcp_recvmsg`, `inet_shutdown` and `__tcp_close` in Linux.

use std::{
    collections::VecDeque,
    io,
    net::{Shutdown, SocketAddr},
};

use super::{Late, Phase, State, Tcp};
use crate::{
    error::{
        EADDRINUSE, EADDRNOTAVAIL, EAGAIN, EALREADY, ECONNABORTED, ECONNRESET, EINPROGRESS, EINVAL,
        EISCONN, ENOTCONN, EOPNOTSUPP, EPIPE, os,
    },
    network::{
        HostId, Network, Ready, SocketId,
        event::{Event, Timer},
        ports::pair,
        socket::{Proto, Socket, unspecified},
    },
};

/// How long a closed socket waits for the peer's FIN: `tcp_fin_timeout`.
const FIN_TIMEOUT: u64 = 60_000_000_000;

impl Network {
    /// Makes a TCP socket on a host.
    ///
    /// # Panics
    ///
    /// Panics if the host has crashed and was not restarted.
    #[track_caller]
    pub fn tcp_socket(&mut self, host: HostId, v6: bool) -> SocketId {
        self.check_up(host);
        let key = self.add_socket(Socket::new(host, v6, Proto::Tcp(Box::new(Tcp::new()))));
        self.id(key)
    }

    /// Makes the socket a listener, or changes the backlog of one. One connection more than
    /// `backlog` may wait, as in Linux. An unbound socket gets an ephemeral port.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the socket is or was connected.
    /// - `EADDRINUSE`: another socket listens there, or no ephemeral port is left.
    /// - `EOPNOTSUPP`: it is a UDP socket.
    pub fn listen(&mut self, socket: SocketId, backlog: usize) -> io::Result<()> {
        let key = self.key(socket)?;
        if !self.sockets[key].is_tcp() {
            return Err(os(EOPNOTSUPP));
        }
        let tcp = self.tcp(key);
        if tcp.phase != Phase::Unconnected || !matches!(tcp.state, State::Closed | State::Listen) {
            return Err(os(EINVAL));
        }
        if tcp.state == State::Closed {
            self.auto_bind(key, None)?;
            let s = &self.sockets[key];
            // As a listener it has no right any more to what it shares by SO_REUSEADDR.
            if self.conflicts_with_listener(key, s.local.port()) {
                return Err(os(EADDRINUSE));
            }
            self.sockets[key].bound = true;
        }
        let tcp = self.tcp_mut(key);
        tcp.state = State::Listen;
        tcp.backlog.limit = backlog;
        self.note(key, Ready::NONE);
        Ok(())
    }

    fn conflicts_with_listener(&self, key: usize, port: u16) -> bool {
        self.sockets[key].has_port && self.conflicts(key, port, false)
    }

    /// Takes the oldest connection from the backlog, and gives its peer's address. It has the
    /// listener's options.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: none waits.
    /// - `EINVAL`: the socket does not listen.
    /// - `EOPNOTSUPP`: it is a UDP socket.
    pub fn accept(&mut self, listener: SocketId) -> io::Result<(SocketId, SocketAddr)> {
        let key = self.key(listener)?;
        if !self.sockets[key].is_tcp() {
            return Err(os(EOPNOTSUPP));
        }
        let tcp = self.tcp_mut(key);
        if tcp.state != State::Listen {
            return Err(os(EINVAL));
        }
        let child = tcp.backlog.queue.pop_front().ok_or_else(|| os(EAGAIN))?;
        self.note(key, Ready::NONE);
        let s = &mut self.sockets[child];
        s.last = Ready::NONE;
        let peer = s.shown(s.peer());
        self.tcp_mut(child).parent = None;
        self.note(child, Ready::NONE);
        Ok((self.id(child), peer))
    }

    pub(crate) fn tcp_connect(&mut self, key: usize, to: io::Result<SocketAddr>) -> io::Result<()> {
        let tcp = self.tcp(key);
        match (tcp.phase, tcp.state) {
            (Phase::Disconnecting, _) => return Err(os(EINVAL)),
            (Phase::Connected, _) => return Err(os(EISCONN)),
            (Phase::Connecting, State::SynSent) => return Err(os(EALREADY)),
            (Phase::Connecting, State::Closed) => {
                let ended = self.sockets[key].take_error();
                self.renew(key);
                return ended.and(Err(os(ECONNABORTED)));
            }
            (Phase::Connecting, _) => {
                self.tcp_mut(key).phase = Phase::Connected;
                return Ok(());
            }
            (Phase::Unconnected, State::Closed) => {}
            (Phase::Unconnected, _) => return Err(os(EISCONN)),
        }
        let (to, source) = self.route(key, to?)?;
        let before = self.sockets[key].local;
        self.sockets[key].local.set_ip(source);
        if let Err(error) = self.auto_bind(key, Some(to)) {
            self.sockets[key].local = before;
            return Err(error);
        }
        let s = &mut self.sockets[key];
        let ends = pair(s.local, to);
        let host = &mut self.hosts[s.host.0];
        if host.connections.contains_key(&ends) || host.waiting.contains_key(&ends) {
            s.local = before;
            return Err(os(EADDRNOTAVAIL));
        }
        host.connections.insert(ends, key);
        (s.remote, s.error) = (Some(to), None);
        self.tcp_mut(key).phase = Phase::Connecting;
        self.send_syn(key);
        Err(os(EINPROGRESS))
    }

    /// Ends what the socket does, and makes it as new: `tcp_disconnect`.
    pub(crate) fn tcp_disconnect(&mut self, key: usize) {
        use State::*;

        let state = self.tcp(key).state;
        let reset = match state {
            Closed => None,
            Listen => {
                self.stop_listening(key);
                self.finish(key);
                None
            }
            SynSent | LastAck | Closing => {
                self.finish(key);
                (state == SynSent).then_some(ECONNRESET)
            }
            SynReceived | Established | CloseWait | FinWait1 | FinWait2 => {
                self.abort(key);
                Some(ECONNRESET)
            }
        };
        let error = self.sockets[key].error;
        self.renew(key);
        self.sockets[key].error = reset.or(error);
    }

    /// Makes the socket as new, but for what the program has bound and set.
    fn renew(&mut self, key: usize) {
        let s = &mut self.sockets[key];
        (s.shut_read, s.shut_write, s.error, s.remote) = (false, false, None, None);
        if !s.addr_locked {
            s.local.set_ip(unspecified(s.v6));
        }
        let old = self.tcp_mut(key);
        let fresh = Tcp {
            nodelay: old.nodelay,
            keepalive: old.keepalive,
            keepalive_times: old.keepalive_times,
            user_timeout: old.user_timeout,
            linger: old.linger,
            ..Tcp::new()
        };
        *old = fresh;
    }

    pub(crate) fn tcp_read(
        &mut self,
        key: usize,
        buffer: &mut [u8],
        peek: bool,
    ) -> io::Result<usize> {
        let tcp = self.tcp(key);
        if tcp.state == State::Listen {
            return Err(os(ENOTCONN));
        }
        if tcp.received.is_empty() {
            let (done, closed) = (tcp.fin_received, tcp.state == State::Closed);
            let s = &mut self.sockets[key];
            if !done {
                s.take_error()?;
            }
            return match (done || s.shut_read, closed) {
                (true, _) => Ok(0),
                (false, true) => Err(os(ENOTCONN)),
                (false, false) => Err(os(EAGAIN)),
            };
        }
        let tcp = self.tcp_mut(key);
        let length = copy_front(&tcp.received, buffer);
        if !peek && length > 0 {
            tcp.received.drain(..length);
            self.update_window(key);
        }
        Ok(length)
    }

    pub(crate) fn tcp_write(&mut self, key: usize, data: &[u8]) -> io::Result<usize> {
        let state = self.tcp(key).state;
        let s = &mut self.sockets[key];
        if s.error.is_some() {
            s.take_error()?;
        }
        if s.shut_write {
            return Err(os(EPIPE));
        }
        match state {
            State::Established | State::CloseWait => {}
            State::SynSent | State::SynReceived => return Err(os(EAGAIN)),
            _ => return Err(os(EPIPE)),
        }
        let capacity = s.send_buffer / 2;
        let tcp = self.tcp_mut(key);
        let room = capacity.saturating_sub(tcp.buffered()).min(data.len());
        if room == 0 && !data.is_empty() {
            return Err(os(EAGAIN));
        }
        let data = &data[..room];
        if !self.waits_for_program(key, || Late::Bytes(data.to_vec())) {
            self.tcp_mut(key).unsent.extend(data);
            self.tcp_output(key);
        }
        Ok(room)
    }

    pub(crate) fn tcp_shutdown(&mut self, key: usize, how: Shutdown) -> io::Result<()> {
        let tcp = self.tcp_mut(key);
        if tcp.phase == Phase::Connecting {
            let failed = tcp.state == State::Closed;
            tcp.phase = if failed {
                Phase::Disconnecting
            } else {
                Phase::Connected
            };
        }
        match tcp.state {
            State::Closed => {
                self.sockets[key].shut(how);
                return Err(os(ENOTCONN));
            }
            State::Listen if how == Shutdown::Write => {}
            State::Listen | State::SynSent => self.tcp_disconnect(key),
            _ => {
                self.sockets[key].shut(how);
                if how != Shutdown::Read && !self.waits_for_program(key, || Late::Fin) {
                    self.send_fin(key);
                }
            }
        }
        Ok(())
    }

    /// Closes the sending half, if it is open: `tcp_close_state`.
    pub(crate) fn send_fin(&mut self, key: usize) {
        let tcp = self.tcp_mut(key);
        tcp.state = match tcp.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            _ => return,
        };
        tcp.fin_queued = true;
        self.tcp_output(key);
    }

    pub(crate) fn tcp_close(&mut self, key: usize) {
        let s = &mut self.sockets[key];
        s.closed = true;
        let is_idle = matches!(
            self.tcp(key).state,
            State::Closed | State::Listen | State::SynSent
        );
        if is_idle || !self.waits_for_program(key, || Late::Close) {
            self.sockets[key].shut(Shutdown::Both);
            self.end_by_close(key);
        }
    }

    /// Ends the connection of a socket that its program has closed.
    pub(crate) fn end_by_close(&mut self, key: usize) {
        let tcp = self.tcp_mut(key);
        let unread = !tcp.received.is_empty();
        match tcp.state {
            State::Closed => self.free(key),
            State::Listen => {
                self.stop_listening(key);
                self.free(key);
            }
            State::SynSent => self.finish(key),
            _ if unread => self.abort(key),
            State::Established | State::CloseWait | State::FinWait1 | State::FinWait2
                if tcp.linger == Some(0) =>
            {
                self.abort(key);
            }
            State::FinWait2 => self.wait_for_fin(key),
            _ => {
                tcp.received = VecDeque::new();
                self.send_fin(key);
            }
        }
    }

    /// Limits how long a closed socket waits for the peer's FIN.
    pub(crate) fn wait_for_fin(&mut self, key: usize) {
        let at = self.now + FIN_TIMEOUT;
        let timer = self.events.add(at, Event::Timer(key, Timer::Orphan));
        self.tcp_mut(key).clock.orphan = Some(timer);
    }

    /// Ends all connections that nobody has accepted: those that are established get a RST.
    fn stop_listening(&mut self, key: usize) {
        let backlog = std::mem::take(&mut self.tcp_mut(key).backlog);
        for child in backlog.queue.into_iter().chain(backlog.requests) {
            self.sockets[child].closed = true;
            match self.tcp(child).state {
                State::Closed => self.free(child),
                State::SynReceived => self.finish(child),
                _ => self.abort(child),
            }
        }
    }
}

/// Copies the first bytes of a queue, as many as fit.
pub(crate) fn copy_front(from: &VecDeque<u8>, to: &mut [u8]) -> usize {
    let length = from.len().min(to.len());
    let (first, second) = from.as_slices();
    let head = length.min(first.len());
    to[..head].copy_from_slice(&first[..head]);
    to[head..length].copy_from_slice(&second[..length - head]);
    length
}
