//! The simulated network's sockets, of one host.

use std::{
    io,
    net::{Shutdown, SocketAddr},
};

use ws_sim::network::{HostId, Network, Ready, SocketId};

use super::world::{Sock, World};

pub(crate) struct Simulated {
    net: Network,
    host: HostId,
    sockets: Vec<SocketId>,
}

impl Simulated {
    pub(crate) fn new() -> Self {
        let mut net = Network::new(1);
        let addrs = ["192.0.2.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        let host = net.add_host("host", &addrs).unwrap();
        Self {
            net,
            host,
            sockets: Vec::new(),
        }
    }

    fn add(&mut self, socket: SocketId) -> Sock {
        self.sockets.push(socket);
        self.sockets.len() - 1
    }
}

fn filled(mut buffer: Vec<u8>, length: io::Result<usize>) -> io::Result<Vec<u8>> {
    buffer.truncate(length?);
    Ok(buffer)
}

impl World for Simulated {
    fn tcp(&mut self, v6: bool) -> Sock {
        let socket = self.net.tcp_socket(self.host, v6);
        self.add(socket)
    }

    fn udp(&mut self, v6: bool) -> Sock {
        let socket = self.net.udp_socket(self.host, v6);
        self.add(socket)
    }

    fn bind(&mut self, s: Sock, addr: SocketAddr) -> io::Result<()> {
        self.net.bind(self.sockets[s], addr)
    }

    fn listen(&mut self, s: Sock, backlog: usize) -> io::Result<()> {
        self.net.listen(self.sockets[s], backlog)
    }

    fn connect(&mut self, s: Sock, to: SocketAddr) -> io::Result<()> {
        self.net.connect(self.sockets[s], to)
    }

    fn accept(&mut self, s: Sock) -> io::Result<(Sock, SocketAddr)> {
        let (socket, peer) = self.net.accept(self.sockets[s])?;
        Ok((self.add(socket), peer))
    }

    fn read(&mut self, s: Sock, most: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; most];
        let length = self.net.read(self.sockets[s], &mut buffer);
        filled(buffer, length)
    }

    fn peek(&mut self, s: Sock, most: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; most];
        let length = self.net.peek(self.sockets[s], &mut buffer);
        filled(buffer, length)
    }

    fn write(&mut self, s: Sock, data: &[u8]) -> io::Result<usize> {
        self.net.write(self.sockets[s], data)
    }

    fn send_to(&mut self, s: Sock, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.net.send_to(self.sockets[s], data, to)
    }

    fn recv_from(&mut self, s: Sock, most: usize) -> io::Result<(Vec<u8>, SocketAddr)> {
        let mut buffer = vec![0; most];
        let (length, from) = self.net.recv_from(self.sockets[s], &mut buffer)?;
        Ok((filled(buffer, Ok(length))?, from))
    }

    fn peek_from(&mut self, s: Sock, most: usize) -> io::Result<(Vec<u8>, SocketAddr)> {
        let mut buffer = vec![0; most];
        let (length, from) = self.net.peek_from(self.sockets[s], &mut buffer)?;
        Ok((filled(buffer, Ok(length))?, from))
    }

    fn shutdown(&mut self, s: Sock, how: Shutdown) -> io::Result<()> {
        self.net.shutdown(self.sockets[s], how)
    }

    fn close(&mut self, s: Sock) {
        self.net.close(self.sockets[s]).unwrap();
    }

    fn local(&mut self, s: Sock) -> io::Result<SocketAddr> {
        self.net.local_addr(self.sockets[s])
    }

    fn peer(&mut self, s: Sock) -> io::Result<SocketAddr> {
        self.net.peer_addr(self.sockets[s])
    }

    fn take_error(&mut self, s: Sock) -> io::Result<Option<io::Error>> {
        self.net.take_error(self.sockets[s])
    }

    fn set_reuse(&mut self, s: Sock, reuse: bool) -> io::Result<()> {
        self.net.set_reuse_address(self.sockets[s], reuse)
    }

    fn set_only_v6(&mut self, s: Sock, only: bool) -> io::Result<()> {
        self.net.set_only_v6(self.sockets[s], only)
    }

    fn set_reset_on_close(&mut self, s: Sock) -> io::Result<()> {
        self.net.set_linger(self.sockets[s], Some(0))
    }

    fn set_nodelay(&mut self, s: Sock, nodelay: bool) -> io::Result<()> {
        self.net.set_nodelay(self.sockets[s], nodelay)
    }

    fn nodelay(&mut self, s: Sock) -> io::Result<bool> {
        self.net.nodelay(self.sockets[s])
    }

    fn set_ttl(&mut self, s: Sock, ttl: u32) -> io::Result<()> {
        self.net.set_ttl(self.sockets[s], ttl)
    }

    fn ttl(&mut self, s: Sock) -> io::Result<u32> {
        self.net.ttl(self.sockets[s])
    }

    fn set_buffers(&mut self, s: Sock, bytes: usize) -> io::Result<()> {
        self.net.set_send_buffer_size(self.sockets[s], bytes)?;
        self.net.set_receive_buffer_size(self.sockets[s], bytes)
    }

    fn buffers(&mut self, s: Sock) -> io::Result<(usize, usize)> {
        let send = self.net.send_buffer_size(self.sockets[s])?;
        Ok((send, self.net.receive_buffer_size(self.sockets[s])?))
    }

    fn settle(&mut self) {
        self.net.advance_to(self.net.now() + 100_000);
    }

    fn poll(&mut self, s: Sock, wanted: Ready) -> Ready {
        let end = self.net.now() + 20_000_000_000;
        loop {
            let ready = self.net.readiness(self.sockets[s]);
            if ready.without(wanted) != ready {
                return ready;
            }
            let next = self.net.next_event().filter(|at| *at < end);
            self.net
                .advance_to(next.unwrap_or_else(|| panic!("never {wanted:?}: {ready:?}")));
        }
    }
}
