//! What the programs of the suite need of sockets, and how they note what they see.

use std::{
    fmt::Debug,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr},
};

use ws_sim::network::Ready;

/// A number for a socket.
pub(crate) type Sock = usize;

/// Nonblocking sockets of one host.
pub(crate) trait World {
    fn tcp(&mut self, v6: bool) -> Sock;
    fn udp(&mut self, v6: bool) -> Sock;
    fn bind(&mut self, s: Sock, addr: SocketAddr) -> io::Result<()>;
    fn listen(&mut self, s: Sock, backlog: usize) -> io::Result<()>;
    fn connect(&mut self, s: Sock, to: SocketAddr) -> io::Result<()>;
    fn accept(&mut self, s: Sock) -> io::Result<(Sock, SocketAddr)>;
    fn read(&mut self, s: Sock, most: usize) -> io::Result<Vec<u8>>;
    fn peek(&mut self, s: Sock, most: usize) -> io::Result<Vec<u8>>;
    fn write(&mut self, s: Sock, data: &[u8]) -> io::Result<usize>;
    fn send_to(&mut self, s: Sock, data: &[u8], to: SocketAddr) -> io::Result<usize>;
    fn recv_from(&mut self, s: Sock, most: usize) -> io::Result<(Vec<u8>, SocketAddr)>;
    fn peek_from(&mut self, s: Sock, most: usize) -> io::Result<(Vec<u8>, SocketAddr)>;
    fn shutdown(&mut self, s: Sock, how: Shutdown) -> io::Result<()>;
    fn close(&mut self, s: Sock);
    fn local(&mut self, s: Sock) -> io::Result<SocketAddr>;
    fn peer(&mut self, s: Sock) -> io::Result<SocketAddr>;
    fn take_error(&mut self, s: Sock) -> io::Result<Option<io::Error>>;
    fn set_reuse(&mut self, s: Sock, reuse: bool) -> io::Result<()>;
    fn set_only_v6(&mut self, s: Sock, only: bool) -> io::Result<()>;
    fn set_reset_on_close(&mut self, s: Sock) -> io::Result<()>;
    fn set_nodelay(&mut self, s: Sock, nodelay: bool) -> io::Result<()>;
    fn nodelay(&mut self, s: Sock) -> io::Result<bool>;
    fn set_ttl(&mut self, s: Sock, ttl: u32) -> io::Result<()>;
    fn ttl(&mut self, s: Sock) -> io::Result<u32>;
    fn set_buffers(&mut self, s: Sock, bytes: usize) -> io::Result<()>;
    fn buffers(&mut self, s: Sock) -> io::Result<(usize, usize)>;
    /// Lets packets arrive that are on their way. On the kernel's loopback they are at once there,
    /// unless its thread for them is late.
    fn settle(&mut self);
    /// Waits until the socket is ready for any of `wanted`, and gives all it is ready for.
    fn poll(&mut self, s: Sock, wanted: Ready) -> Ready;
}

/// What a program has seen.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) lines: Vec<String>,
    ports: Vec<u16>,
}

impl Trace {
    /// Notes an answer: its value, or the number of its error and its kind.
    pub(crate) fn say<T: Debug>(&mut self, what: &str, answer: io::Result<T>) -> Option<T> {
        match answer {
            Ok(value) => {
                self.lines.push(format!("{what}: {value:?}"));
                Some(value)
            }
            Err(error) => {
                self.lines.push(format!(
                    "{what}: {:?} {:?}",
                    error.raw_os_error(),
                    error.kind()
                ));
                None
            }
        }
    }

    /// Notes an address, with a name for its port.
    pub(crate) fn addr(
        &mut self,
        what: &str,
        answer: io::Result<SocketAddr>,
    ) -> Option<SocketAddr> {
        let addr = match answer {
            Ok(addr) => addr,
            Err(error) => {
                self.say::<()>(what, Err(error));
                return None;
            }
        };
        let known = self.ports.iter().position(|port| *port == addr.port());
        let name = known.unwrap_or_else(|| {
            self.ports.push(addr.port());
            self.ports.len() - 1
        });
        let port = if addr.port() == 0 {
            "none".to_owned()
        } else {
            format!("p{name}")
        };
        self.lines.push(format!("{what}: {} {port}", addr.ip()));
        Some(addr)
    }

    pub(crate) fn ready(&mut self, what: &str, ready: Ready) {
        self.lines.push(format!("{what}: {ready:?}"));
    }
}

/// Port 0 of 127.0.0.1.
pub(crate) fn any() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)
}

/// Port 0 of ::1.
pub(crate) fn any_v6() -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0)
}

/// A listener at 127.0.0.1, and its address.
pub(crate) fn listener(w: &mut dyn World) -> (Sock, SocketAddr) {
    let s = w.tcp(false);
    w.bind(s, any()).unwrap();
    w.listen(s, 8).unwrap();
    let addr = w.local(s).unwrap();
    (s, addr)
}

/// Connects, and waits for the end of the handshake.
pub(crate) fn client(w: &mut dyn World, to: SocketAddr) -> Sock {
    let s = w.tcp(to.is_ipv6());
    let error = w.connect(s, to).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINPROGRESS));
    w.poll(s, Ready::WRITABLE);
    w.settle();
    s
}

/// Both ends of a connection: the client's and the server's.
pub(crate) fn connection(w: &mut dyn World) -> (Sock, Sock) {
    let (listener, addr) = listener(w);
    let client = client(w, addr);
    w.poll(listener, Ready::READABLE);
    let (server, _) = w.accept(listener).unwrap();
    w.close(listener);
    (client, server)
}

/// A TCP address at which nobody listens. A bound socket keeps others away from the port.
pub(crate) fn nobody(w: &mut dyn World) -> SocketAddr {
    let s = w.tcp(false);
    w.bind(s, any()).unwrap();
    w.local(s).unwrap()
}
