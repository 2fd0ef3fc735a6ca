//! Connecting without blocking: start, wait for room to write, ask how it went.
//!
//! 1. `connect` on a nonblocking socket. `EINPROGRESS`, or `EINTR`, which leaves it in progress
//!    too; `WSAEWOULDBLOCK` on Windows.
//! 2. Join the netpoll, and not before: epoll reports a socket as hung up if it is not connected
//!    and not connecting.
//! 3. Wait until it can be written to. `SO_ERROR` has the reason if it failed. Without one, a
//!    socket that knows its peer is connected; one that does not was woken too early and waits on.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use ws_reactor::{Interest, Netpoll, STREAM_INTEREST};

use crate::async_fd::AsyncFd;
use crate::os::{self, AsRaw, AsSocket};

/// Makes a TCP socket: nonblocking, close-on-exec.
pub fn tcp_socket(domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Connects a TCP socket that is in nonblocking mode.
pub async fn connect_tcp(
    netpoll: &Arc<Netpoll>,
    socket: Socket,
    addr: SocketAddr,
) -> io::Result<AsyncFd<TcpStream>> {
    let knows_its_peer = |stream: &TcpStream| stream.peer_addr().map(drop);
    connect(
        netpoll,
        socket,
        &addr.into(),
        STREAM_INTEREST,
        knows_its_peer,
    )
    .await
}

/// Connects a socket that is in nonblocking mode. `knows_its_peer` asks for the peer's address.
pub async fn connect<S>(
    netpoll: &Arc<Netpoll>,
    socket: Socket,
    addr: &SockAddr,
    interest: Interest,
    knows_its_peer: fn(&S) -> io::Result<()>,
) -> io::Result<AsyncFd<S>>
where
    S: From<Socket> + AsRaw + AsSocket,
{
    let in_progress = match socket.connect(addr) {
        Ok(()) => false,
        Err(error) if is_in_progress(&error) => true,
        Err(error) => return Err(error),
    };
    let fd = AsyncFd::on(netpoll, S::from(socket), interest)?;
    if in_progress {
        fd.io(Interest::WRITABLE, || outcome(fd.get_ref(), knows_its_peer))
            .await?;
    }
    Ok(fd)
}

fn is_in_progress(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(os::is_in_progress)
}

/// How the attempt to connect ended, or `WouldBlock` if it did not yet.
fn outcome<S: AsSocket>(socket: &S, knows_its_peer: fn(&S) -> io::Result<()>) -> io::Result<()> {
    if let Some(error) = SockRef::from(socket).take_error()? {
        return Err(error);
    }
    match knows_its_peer(socket) {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        answer => answer,
    }
}
