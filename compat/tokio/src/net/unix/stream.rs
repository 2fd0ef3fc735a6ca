//! A Unix connection.

use std::{
    io,
    os::{fd::AsFd, unix::net},
    path::Path,
    task::{Context, Poll},
};

use socket2::{Domain, SockAddr, Type};
use tokio_real::io::ReadBuf;
use ws_net::connect::connect;
use ws_reactor::{Direction, ReadySet};

use super::{SocketAddr, UCred, split};
use crate::io::Interest;
use crate::net::{
    common::{options, std_socket, stream},
    island::{Recv, peer_cred, recv_read_buf},
    socket::{self, BOTH, Socket},
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/struct.UnixStream.html).
pub struct UnixStream {
    pub(super) io: Socket<net::UnixStream>,
}

std_socket!(UnixStream, net::UnixStream, BOTH);
stream!(UnixStream, split, [] as [io::ErrorKind; 0]);

impl UnixStream {
    /// Connects to the listener at a path.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn connect<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        Self::connect_addr(&SocketAddr::of_path(path)?).await
    }

    /// Connects to the listener at an address.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn connect_addr(addr: &SocketAddr) -> io::Result<Self> {
        let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        Self::connect_by(socket, &addr.to_socket2()?).await
    }

    pub(super) async fn connect_by(socket: socket2::Socket, addr: &SockAddr) -> io::Result<Self> {
        let netpoll = socket::netpoll();
        let knows_its_peer = |stream: &net::UnixStream| stream.peer_addr().map(drop);
        let fd = connect(&netpoll, socket, addr, BOTH, knows_its_peer).await;
        let io = Socket::of(fd.map_err(socket::error)?).expect_report();
        // Connected, but the listener may go before it accepts: the first event says so.
        io.ready(Interest::WRITABLE).await?;
        match io.get().take_error()? {
            Some(error) => Err(error),
            None => Ok(Self { io }),
        }
    }

    /// Two streams that are connected to each other.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = net::UnixStream::pair()?;
        one.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        let join = |stream| {
            let io = Socket::new(stream, BOTH)?.assume(ReadySet::WRITABLE);
            Ok::<_, io::Error>(Self { io })
        };
        Ok((join(one)?, join(other)?))
    }

    /// Not by the short way: a read stops where descriptors were sent along.
    pub(crate) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io
            .poll(cx, Direction::Read, || {
                recv_read_buf(self.io.get(), Recv::Take, buf)
            })
            .map_ok(drop)
    }

    options! {
        /// The address of this side.
        local_addr() -> SocketAddr = |io| io.get().local_addr().map(SocketAddr);
        /// The address of the other side.
        peer_addr() -> SocketAddr = |io| io.get().peer_addr().map(SocketAddr);
        /// The process at the other side.
        peer_cred() -> UCred = |io| {
            let (uid, gid, pid) = peer_cred(io.as_fd())?;
            Ok(UCred { pid, uid, gid })
        };
    }
}
