//! A TCP socket before it listens or connects: the time to set options.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Socket, TcpKeepalive};

use super::tcp_listener::TcpListener;
use super::tcp_stream::TcpStream;
use crate::os::{self, descriptor_of_socket2};
use ws_net::connect::{connect_tcp, tcp_socket};
use ws_net::current::{self, in_runtime};

/// How many connections wait to be accepted, unless the user says otherwise. The system has a limit
/// of its own (`net.core.somaxconn`, 4096 since Linux 5.4).
pub(crate) const BACKLOG: i32 = 1024;

/// A TCP socket that does not listen and is not connected yet.
///
/// # Examples
///
/// Two listeners on one port, between which the system spreads the connections:
///
/// ```
/// use ws::net::TcpSocket;
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let first = TcpSocket::new_v4()?;
/// first.set_reuse_port(true)?;
/// first.bind("127.0.0.1:0".parse().unwrap())?;
/// let addr = first.local_addr()?;
/// let first = first.listen(64)?;
///
/// let second = TcpSocket::new_v4()?;
/// second.set_reuse_port(true)?;
/// second.bind(addr)?;
/// let second = second.listen(64)?;
/// assert_eq!(first.local_addr()?, second.local_addr()?);
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TcpSocket {
    socket: Socket,
}

impl TcpSocket {
    /// Makes a socket for IPv4.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn new_v4() -> io::Result<Self> {
        Self::new(Domain::IPV4)
    }

    /// Makes a socket for IPv6.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn new_v6() -> io::Result<Self> {
        Self::new(Domain::IPV6)
    }

    fn new(domain: Domain) -> io::Result<Self> {
        Ok(Self {
            socket: tcp_socket(domain)?,
        })
    }

    /// Gives the socket an address of this machine. Port 0 lets the system choose.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        self.socket.bind(&addr.into())
    }

    /// Listens, with room for `backlog` connections that were not accepted yet.
    ///
    /// # Errors
    ///
    /// What the system says, and an error of kind `Other` if the runtime was shut down.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        let netpoll = current::netpoll("ws::net::TcpSocket");
        // More than the system's type holds is more than any system gives.
        self.socket
            .listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        TcpListener::join(&netpoll, self.socket.into())
    }

    /// Connects to `addr`, from the address that was bound, if one was.
    ///
    /// # Errors
    ///
    /// What the system says, such as [`ConnectionRefused`](io::ErrorKind::ConnectionRefused).
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the socket.
    #[track_caller]
    pub fn connect(self, addr: SocketAddr) -> impl Future<Output = io::Result<TcpStream>> {
        in_runtime("ws::net::TcpSocket::connect", async move |netpoll| {
            connect_tcp(&netpoll, self.socket, addr)
                .await
                .map(TcpStream::from_fd)
        })
    }

    /// Returns the address that was bound.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let addr = self.socket.local_addr()?;
        addr.as_socket()
            .ok_or_else(|| io::Error::other("a TCP socket has an address of another kind"))
    }

    /// Lets an address be bound that an earlier connection still holds (`SO_REUSEADDR`). Listeners
    /// want this on Unix, where [`TcpListener::bind`] sets it. On Windows it takes the address of
    /// another process, and no listener needs it.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_reuse_addr(&self, reuse: bool) -> io::Result<()> {
        self.socket.set_reuse_address(reuse)
    }

    /// Returns whether [`TcpSocket::set_reuse_addr`] is in effect.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn reuse_addr(&self) -> io::Result<bool> {
        self.socket.reuse_address()
    }

    /// Says whether a socket for IPv6 leaves IPv4 alone (`IPV6_V6ONLY`).
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_only_v6(&self, only_v6: bool) -> io::Result<()> {
        self.socket.set_only_v6(only_v6)
    }

    /// Sends small writes at once; see [`TcpStream::set_nodelay`].
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.set_tcp_nodelay(nodelay)
    }

    /// Has the system probe an idle peer; see [`TcpStream::set_keepalive`].
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_keepalive(&self, keepalive: Option<&Keepalive>) -> io::Result<()> {
        Keepalive::apply(keepalive, &self.socket)
    }

    /// Says how much the system holds of what is to be sent. Linux doubles the figure.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_send_buffer_size(&self, size: usize) -> io::Result<()> {
        self.socket.set_send_buffer_size(size)
    }

    /// Returns how much the system holds of what is to be sent.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn send_buffer_size(&self) -> io::Result<usize> {
        self.socket.send_buffer_size()
    }

    /// Says how much the system holds of what has arrived. Before it listens or connects is the
    /// time for this: the window that the peer is offered depends on it. Linux doubles the figure.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_recv_buffer_size(&self, size: usize) -> io::Result<()> {
        self.socket.set_recv_buffer_size(size)
    }

    /// Returns how much the system holds of what has arrived.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn recv_buffer_size(&self) -> io::Result<usize> {
        self.socket.recv_buffer_size()
    }
}

/// Windows has no such option.
#[cfg(unix)]
impl TcpSocket {
    /// Lets several sockets listen on one port (`SO_REUSEPORT`); the system spreads the
    /// connections. All of them have to say so.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_reuse_port(&self, reuse: bool) -> io::Result<()> {
        self.socket.set_reuse_port(reuse)
    }

    /// Returns whether [`TcpSocket::set_reuse_port`] is in effect.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn reuse_port(&self) -> io::Result<bool> {
        self.socket.reuse_port()
    }
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TcpSocket").field(&self.socket).finish()
    }
}

descriptor_of_socket2!(TcpSocket);

/// When and how often the system asks an idle peer whether it is still there.
///
/// What is not set stays as the system has it: on Linux, after two hours, nine times, 75 s apart.
/// On Windows, `idle` and `interval` are set together, and one that is not set is two hours or a
/// second then, which is what Windows has by default.
///
/// OpenBSD has `interval` and `retries` for all sockets at once. A socket that is given one of them
/// there answers with [`io::ErrorKind::Unsupported`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "it has to be given to a socket"]
pub struct Keepalive {
    idle: Option<Duration>,
    interval: Option<Duration>,
    retries: Option<u32>,
}

impl Keepalive {
    /// Returns the system's settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets for how long a peer has to be silent before it is asked, in whole seconds.
    pub fn idle(self, idle: Duration) -> Self {
        Self {
            idle: Some(idle),
            ..self
        }
    }

    /// Sets how far apart the questions are, in whole seconds.
    pub fn interval(self, interval: Duration) -> Self {
        Self {
            interval: Some(interval),
            ..self
        }
    }

    /// Sets how many questions may go unanswered before the connection counts as broken.
    pub fn retries(self, retries: u32) -> Self {
        Self {
            retries: Some(retries),
            ..self
        }
    }

    pub(crate) fn apply(keepalive: Option<&Self>, socket: &Socket) -> io::Result<()> {
        let Some(keepalive) = keepalive else {
            return socket.set_keepalive(false);
        };
        if *keepalive == Self::default() {
            return socket.set_keepalive(true);
        }
        let keepalive = keepalive.completed();
        let mut params = TcpKeepalive::new();
        if let Some(idle) = keepalive.idle {
            params = params.with_time(idle);
        }
        socket.set_tcp_keepalive(&keepalive.questions(params)?)
    }

    /// With both times, if the system takes both or none.
    fn completed(&self) -> Self {
        Self {
            idle: self.idle.or(os::KEEPALIVE_IDLE),
            interval: self.interval.or(os::KEEPALIVE_INTERVAL),
            retries: self.retries,
        }
    }

    /// Adds how far apart the questions are, and how many there are. These are the systems where
    /// `socket2` has both options.
    #[cfg(any(
        target_os = "android",
        target_os = "dragonfly",
        target_os = "freebsd",
        target_os = "fuchsia",
        target_os = "illumos",
        target_os = "linux",
        target_os = "netbsd",
        target_vendor = "apple",
        windows,
    ))]
    fn questions(&self, mut params: TcpKeepalive) -> io::Result<TcpKeepalive> {
        if let Some(interval) = self.interval {
            params = params.with_interval(interval);
        }
        if let Some(retries) = self.retries {
            params = params.with_retries(retries);
        }
        Ok(params)
    }

    /// The system has one setting for all sockets, which is not ours to change.
    #[cfg(not(any(
        target_os = "android",
        target_os = "dragonfly",
        target_os = "freebsd",
        target_os = "fuchsia",
        target_os = "illumos",
        target_os = "linux",
        target_os = "netbsd",
        target_vendor = "apple",
        windows,
    )))]
    fn questions(&self, params: TcpKeepalive) -> io::Result<TcpKeepalive> {
        if self.interval.is_none() && self.retries.is_none() {
            return Ok(params);
        }
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this system sets the interval and the retries of keepalive for all sockets at once: \
             leave out both",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails on Windows if a time that is not set is handed on as zero.
    #[test]
    fn a_keepalive_with_one_time_has_the_systems_other() {
        let seconds = Duration::from_secs;
        let interval = Keepalive::new().interval(seconds(30)).completed();
        let idle = Keepalive::new().idle(seconds(30)).completed();
        if cfg!(windows) {
            let both = Keepalive::new().idle(seconds(7200));
            assert_eq!(interval, both.interval(seconds(30)));
            assert_eq!(
                idle,
                Keepalive::new().idle(seconds(30)).interval(seconds(1))
            );
        } else {
            assert_eq!((interval.idle, idle.interval), (None, None));
        }
    }
}
