//! A Unix socket for datagrams.

use std::{
    io,
    net::Shutdown,
    os::unix::net,
    path::Path,
    task::{Context, Poll},
};

use bytes::BufMut;
use tokio_real::io::ReadBuf;
use ws_reactor::{Direction, ReadySet};

use super::SocketAddr;
use crate::{
    io::Interest,
    net::{
        common::{datagrams, std_socket},
        island::{Recv, recv_buf, recv_buf_from, recv_from_read_buf, recv_read_buf},
        socket::{BOTH, Socket},
    },
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/struct.UnixDatagram.html).
pub struct UnixDatagram {
    io: Socket<net::UnixDatagram>,
}

std_socket!(UnixDatagram, net::UnixDatagram, BOTH);
datagrams!(UnixDatagram, SocketAddr, SocketAddr::from, SocketAddr::of);

impl UnixDatagram {
    /// Makes a socket at a path, which must not be there yet.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        let addr = SocketAddr::of_path(path)?;
        Self::nonblocking(net::UnixDatagram::bind_addr(&addr.0)?)
    }

    /// Two sockets that are connected to each other.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = net::UnixDatagram::pair()?;
        let join = |socket| {
            let io = Self::nonblocking(socket)?.io.assume(ReadySet::WRITABLE);
            Ok::<_, io::Error>(Self { io })
        };
        Ok((join(one)?, join(other)?))
    }

    /// A socket without an address.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn unbound() -> io::Result<Self> {
        Self::nonblocking(net::UnixDatagram::unbound()?)
    }

    fn nonblocking(socket: net::UnixDatagram) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Self::new(socket)
    }

    /// Sets where it sends to.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.io.get().connect_addr(&SocketAddr::of_path(path)?.0)
    }

    /// Sends to the socket at a path.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn send_to<P: AsRef<Path>>(&self, buf: &[u8], target: P) -> io::Result<usize> {
        let target = SocketAddr::of_path(target)?.0;
        self.io
            .io(Direction::Write, || {
                self.io.get().send_to_addr(buf, &target)
            })
            .await
    }

    /// Polls [`send_to`](Self::send_to).
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn poll_send_to<P: AsRef<Path>>(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: P,
    ) -> Poll<io::Result<usize>> {
        let target = SocketAddr::of_path(target)?.0;
        self.io.poll(cx, Direction::Write, || {
            self.io.get().send_to_addr(buf, &target)
        })
    }

    /// Sends to the socket at a path, if there is room.
    ///
    /// # Errors
    ///
    /// What the system says, and [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_send_to<P: AsRef<Path>>(&self, buf: &[u8], target: P) -> io::Result<usize> {
        let target = SocketAddr::of_path(target)?.0;
        self.io.try_io(Interest::WRITABLE, || {
            self.io.get().send_to_addr(buf, &target)
        })
    }

    /// Ends the sending side, the receiving side, or both.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.get().shutdown(how)?;
        self.io.note_end(how);
        Ok(())
    }
}
