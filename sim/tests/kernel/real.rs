//! The kernel's sockets.

#![expect(unsafe_code, reason = "poll, which the standard library does not have")]

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    time::{Duration, Instant},
};

use socket2::{Domain, SockAddr, Socket, Type};
use ws_sim::network::Ready;

use super::world::{Sock, World};

#[derive(Default)]
pub(crate) struct Real {
    sockets: Vec<Option<Socket>>,
}

const EVENTS: [(Ready, i16); 5] = [
    (Ready::READABLE, libc::POLLIN),
    (Ready::WRITABLE, libc::POLLOUT),
    (Ready::READ_CLOSED, libc::POLLRDHUP),
    (Ready::WRITE_CLOSED, libc::POLLHUP),
    (Ready::ERROR, libc::POLLERR),
];

impl Real {
    fn add(&mut self, socket: Socket) -> Sock {
        socket.set_nonblocking(true).unwrap();
        self.sockets.push(Some(socket));
        self.sockets.len() - 1
    }

    fn make(&mut self, v6: bool, kind: Type) -> Sock {
        let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
        self.add(Socket::new(domain, kind, None).unwrap())
    }

    fn get(&self, s: Sock) -> &Socket {
        self.sockets[s].as_ref().unwrap()
    }

    fn udp_of(&self, s: Sock) -> UdpSocket {
        UdpSocket::from(self.get(s).try_clone().unwrap())
    }

    fn poll_once(&self, s: Sock, events: i16, timeout: i32) -> i16 {
        let mut entry = libc::pollfd {
            fd: self.get(s).as_raw_fd(),
            events,
            revents: 0,
        };
        // SAFETY: `entry` is one valid pollfd for the time of the call, as the count says.
        let result = unsafe { libc::poll(&mut entry, 1, timeout) };
        assert!(result >= 0);
        entry.revents
    }
}

/// Cuts a buffer to what was read into it.
fn filled(mut buffer: Vec<u8>, length: io::Result<usize>) -> io::Result<Vec<u8>> {
    buffer.truncate(length?);
    Ok(buffer)
}

impl World for Real {
    fn tcp(&mut self, v6: bool) -> Sock {
        self.make(v6, Type::STREAM)
    }

    fn udp(&mut self, v6: bool) -> Sock {
        self.make(v6, Type::DGRAM)
    }

    fn bind(&mut self, s: Sock, addr: SocketAddr) -> io::Result<()> {
        self.get(s).bind(&addr.into())
    }

    fn listen(&mut self, s: Sock, backlog: usize) -> io::Result<()> {
        self.get(s).listen(backlog as i32)
    }

    fn connect(&mut self, s: Sock, to: SocketAddr) -> io::Result<()> {
        self.get(s).connect(&to.into())
    }

    fn accept(&mut self, s: Sock) -> io::Result<(Sock, SocketAddr)> {
        let (socket, peer) = self.get(s).accept()?;
        Ok((self.add(socket), peer.as_socket().unwrap()))
    }

    fn read(&mut self, s: Sock, most: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; most];
        let length = self.get(s).read(&mut buffer);
        filled(buffer, length)
    }

    fn peek(&mut self, s: Sock, most: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; most];
        let stream = TcpStream::from(self.get(s).try_clone()?);
        let length = stream.peek(&mut buffer);
        filled(buffer, length)
    }

    fn write(&mut self, s: Sock, data: &[u8]) -> io::Result<usize> {
        self.get(s).write(data)
    }

    fn send_to(&mut self, s: Sock, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.get(s).send_to(data, &SockAddr::from(to))
    }

    fn recv_from(&mut self, s: Sock, most: usize) -> io::Result<(Vec<u8>, SocketAddr)> {
        let mut buffer = vec![0; most];
        let (length, from) = self.udp_of(s).recv_from(&mut buffer)?;
        Ok((filled(buffer, Ok(length))?, from))
    }

    fn peek_from(&mut self, s: Sock, most: usize) -> io::Result<(Vec<u8>, SocketAddr)> {
        let mut buffer = vec![0; most];
        let (length, from) = self.udp_of(s).peek_from(&mut buffer)?;
        Ok((filled(buffer, Ok(length))?, from))
    }

    fn shutdown(&mut self, s: Sock, how: Shutdown) -> io::Result<()> {
        self.get(s).shutdown(how)
    }

    fn close(&mut self, s: Sock) {
        self.sockets[s] = None;
    }

    fn local(&mut self, s: Sock) -> io::Result<SocketAddr> {
        Ok(self.get(s).local_addr()?.as_socket().unwrap())
    }

    fn peer(&mut self, s: Sock) -> io::Result<SocketAddr> {
        Ok(self.get(s).peer_addr()?.as_socket().unwrap())
    }

    fn take_error(&mut self, s: Sock) -> io::Result<Option<io::Error>> {
        self.get(s).take_error()
    }

    fn set_reuse(&mut self, s: Sock, reuse: bool) -> io::Result<()> {
        self.get(s).set_reuse_address(reuse)
    }

    fn set_only_v6(&mut self, s: Sock, only: bool) -> io::Result<()> {
        self.get(s).set_only_v6(only)
    }

    fn set_reset_on_close(&mut self, s: Sock) -> io::Result<()> {
        self.get(s).set_linger(Some(Duration::ZERO))
    }

    fn set_nodelay(&mut self, s: Sock, nodelay: bool) -> io::Result<()> {
        self.get(s).set_tcp_nodelay(nodelay)
    }

    fn nodelay(&mut self, s: Sock) -> io::Result<bool> {
        self.get(s).tcp_nodelay()
    }

    fn set_ttl(&mut self, s: Sock, ttl: u32) -> io::Result<()> {
        self.get(s).set_ttl_v4(ttl)
    }

    fn ttl(&mut self, s: Sock) -> io::Result<u32> {
        self.get(s).ttl_v4()
    }

    fn set_buffers(&mut self, s: Sock, bytes: usize) -> io::Result<()> {
        self.get(s).set_send_buffer_size(bytes)?;
        self.get(s).set_recv_buffer_size(bytes)
    }

    fn buffers(&mut self, s: Sock) -> io::Result<(usize, usize)> {
        Ok((
            self.get(s).send_buffer_size()?,
            self.get(s).recv_buffer_size()?,
        ))
    }

    fn settle(&mut self) {
        (0..100).for_each(|_| std::thread::yield_now());
    }

    fn poll(&mut self, s: Sock, wanted: Ready) -> Ready {
        let all = EVENTS.iter().fold(0, |sum, (_, event)| sum | event);
        let chosen = EVENTS.iter().filter(|(bit, _)| wanted.contains(*bit));
        let events = chosen.fold(0, |sum, (_, event)| sum | event);
        let end = Instant::now() + Duration::from_secs(20);
        while self.poll_once(s, events, 100) & events == 0 {
            assert!(Instant::now() < end, "the kernel never said {wanted:?}");
        }
        let found = self.poll_once(s, all, 0);
        let mut ready = Ready::NONE;
        EVENTS
            .iter()
            .filter(|(_, event)| found & event != 0)
            .for_each(|(bit, _)| ready |= *bit);
        ready
    }
}
