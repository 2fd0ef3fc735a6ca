//! What Windows does not have, or Wine does not tell.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, AsRawFd};

use socket2::SockRef;
#[cfg(target_os = "linux")]
use ws::net::{TcpListener, UdpSocket, UnixDatagram};
use ws::net::{TcpSocket, TcpStream, UnixStream};

use crate::net_support::with_workers;
#[cfg(target_os = "linux")]
use crate::net_support::{Folder, tcp_pair};

/// Whether the system has these numbers for the probes of a connection, the times in seconds.
pub(super) fn is_kept_alive(
    client: &TcpStream,
    idle: u64,
    interval: u64,
    retries: u32,
) -> io::Result<()> {
    let socket = SockRef::from(client);
    assert_eq!(socket.tcp_keepalive_time()?.as_secs(), idle);
    assert_eq!(socket.tcp_keepalive_interval()?.as_secs(), interval);
    assert_eq!(socket.tcp_keepalive_retries()?, retries);
    Ok(())
}

#[test]
fn listeners_share_a_port() {
    with_workers(async || {
        let mut addr = "127.0.0.1:0".parse().unwrap();
        let mut listeners = Vec::new();
        for _ in 0..2 {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuse_port(true)?;
            assert!(socket.reuse_port()?);
            socket.bind(addr)?;
            addr = socket.local_addr()?;
            listeners.push(socket.listen(16)?);
        }
        // The system chooses which of them takes it.
        let _client = TcpStream::connect(addr).await?;
        let (first, second) = (listeners[0].accept(), listeners[1].accept());
        let (stream, _) = futures::future::select(Box::pin(first), Box::pin(second))
            .await
            .factor_first()
            .0?;
        assert_eq!(stream.local_addr()?, addr);
        Ok(())
    });
}

#[test]
fn unix_streams_go_to_std_and_back() {
    with_workers(async || {
        let (one, other) = UnixStream::pair()?;
        UnixStream::from_std(one.into_std()?)?;
        UnixStream::from_std(other.into_std()?)?;
        Ok(())
    });
}

/// The flags that the system has for a descriptor. `O_CLOEXEC` is the same bit on all Linuxes we
/// know of.
#[cfg(target_os = "linux")]
#[track_caller]
fn assert_closes_on_exec(fd: &impl AsFd) {
    let fd = fd.as_fd().as_raw_fd();
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).expect("it is open");
    let flags = info
        .lines()
        .find_map(|line| line.strip_prefix("flags:"))
        .and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok())
        .expect("the system tells the flags");
    assert_ne!(flags & libc::O_CLOEXEC, 0, "not close-on-exec");
    assert_ne!(flags & libc::O_NONBLOCK, 0, "not in nonblocking mode");
}

#[cfg(target_os = "linux")]
#[test]
fn every_descriptor_closes_on_exec() {
    with_workers(async || {
        let (client, server) = tcp_pair().await?;
        assert_closes_on_exec(&client);
        assert_closes_on_exec(&server);
        assert_closes_on_exec(&TcpListener::bind("127.0.0.1:0").await?);
        assert_closes_on_exec(&TcpSocket::new_v4()?);
        assert_closes_on_exec(&UdpSocket::bind("127.0.0.1:0").await?);
        let (one, other) = UnixStream::pair()?;
        assert_closes_on_exec(&one);
        assert_closes_on_exec(&other);
        assert_closes_on_exec(&UnixDatagram::unbound()?);
        let folder = Folder::new();
        let listener = ws::net::UnixListener::bind(folder.path("socket"))?;
        assert_closes_on_exec(&listener);
        let client = UnixStream::connect(folder.path("socket")).await?;
        assert_closes_on_exec(&client);
        assert_closes_on_exec(&listener.accept().await?.0);
        Ok(())
    });
}
