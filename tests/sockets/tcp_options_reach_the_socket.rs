//! What is set on a TCP socket is what the system then says of it, before and after it connects;
//! and a socket goes to std and comes back as it was.

use crate::net_support;

use std::io::{Read, Write};
use std::net;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use futures::StreamExt;
use futures::future::try_join;
use net_support::{tcp_pair, with_workers};
use socket2::SockRef;
use ws::io::{AsyncReadExt, AsyncWriteExt};
use ws::net::{Keepalive, TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixStream};

#[test]
fn options_of_a_stream() {
    with_workers(async || {
        let (client, _server) = tcp_pair().await?;
        for on in [true, false] {
            client.set_nodelay(on)?;
            assert_eq!(client.nodelay()?, on);
        }
        client.set_ttl(42)?;
        assert_eq!(client.ttl()?, 42);
        client.set_linger(Some(Duration::from_secs(3)))?;
        assert_eq!(client.linger()?, Some(Duration::from_secs(3)));
        // Whole seconds, and never less than was asked for.
        let most = Duration::from_secs(i32::MAX as u64);
        for (asked, set) in [
            (Duration::from_millis(500), Duration::from_secs(1)),
            (Duration::MAX, most),
        ] {
            client.set_linger(Some(asked))?;
            assert_eq!(client.linger()?, Some(set));
        }
        client.set_linger(Some(Duration::ZERO))?;
        assert_eq!(client.linger()?, Some(Duration::ZERO));
        client.set_linger(None)?;
        assert_eq!(client.linger()?, None);
        assert!(client.take_error()?.is_none());

        assert!(!client.keepalive()?);
        let keepalive = Keepalive::new()
            .idle(Duration::from_secs(11))
            .interval(Duration::from_secs(7))
            .retries(3);
        client.set_keepalive(Some(&keepalive))?;
        assert!(client.keepalive()?);
        let socket = SockRef::from(&client);
        assert_eq!(socket.tcp_keepalive_time()?, Duration::from_secs(11));
        assert_eq!(socket.tcp_keepalive_interval()?, Duration::from_secs(7));
        assert_eq!(socket.tcp_keepalive_retries()?, 3);
        client.set_keepalive(None)?;
        assert!(!client.keepalive()?);
        Ok(())
    });
}

#[test]
fn options_before_connecting() {
    with_workers(async || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuse_addr(true)?;
        socket.set_reuse_port(true)?;
        assert!(socket.reuse_addr()? && socket.reuse_port()?);
        socket.set_nodelay(true)?;
        socket.set_keepalive(Some(&Keepalive::new()))?;
        socket.set_recv_buffer_size(1 << 15)?;
        socket.set_send_buffer_size(1 << 15)?;
        // Linux doubles it.
        assert!(socket.recv_buffer_size()? >= 1 << 15);
        assert!(socket.send_buffer_size()? >= 1 << 15);

        let listener = TcpListener::bind("127.0.0.1:0").await?;
        socket.bind("127.0.0.1:0".parse().unwrap())?;
        let bound = socket.local_addr()?;
        let connect = socket.connect(listener.local_addr()?);
        let (client, (_server, peer)) = try_join(connect, listener.accept()).await?;
        assert_eq!((client.local_addr()?, peer), (bound, bound));
        assert!(client.nodelay()? && client.keepalive()?);
        Ok(())
    });
}

#[test]
fn listeners_share_a_port() {
    with_workers(async || {
        let mut addr = "127.0.0.1:0".parse().unwrap();
        let mut listeners = Vec::new();
        for _ in 0..2 {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuse_port(true)?;
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

// Fails without `SO_REUSEADDR`: the server's side of the connection holds the port for a minute.
#[test]
fn a_server_is_started_again_at_once() {
    with_workers(async || {
        let listener = TcpListener::bind("127.77.0.2:0").await?;
        let addr = listener.local_addr()?;
        let mut client = TcpStream::connect(addr).await?;
        let (server, _) = listener.accept().await?;
        drop((server, listener));
        assert_eq!(client.read(&mut [0]).await?, 0);
        drop(client);
        let listener = TcpListener::bind(addr).await?;
        assert_eq!(listener.local_addr()?, addr);
        Ok(())
    });
}

// Fails if the backlog is not passed on: the kernel lets in one more than it says, and drops the
// rest.
#[test]
fn the_backlog_is_the_systems() {
    with_workers(async || {
        let socket = TcpSocket::new_v4()?;
        socket.bind("127.0.0.1:0".parse().unwrap())?;
        let listener = socket.listen(1)?;
        let mut waiting = Vec::new();
        let full = loop {
            // Over loopback the handshake mostly happens within the call, unless it is left
            // unanswered: then for ever.
            let connect = TcpStream::connect(listener.local_addr()?);
            match ws::time::timeout(Duration::from_millis(500), connect).await {
                Ok(stream) => waiting.push(stream?),
                Err(_) => break waiting.len(),
            }
        };
        assert!(
            (1..=3).contains(&full),
            "{full} connections in a backlog of 1"
        );
        Ok(())
    });
}

// Fails if a socket leaves the runtime without leaving epoll: it cannot be registered again then.
#[test]
fn to_std_and_back() {
    with_workers(async || {
        let (client, server) = tcp_pair().await?;
        let mut client = client.into_std()?;
        client.set_nonblocking(false)?;
        client.write_all(b"from std")?;
        let mut server: TcpStream = server.into_std()?.try_into()?;
        let mut text = [0; 8];
        server.read_exact(&mut text).await?;
        assert_eq!(&text, b"from std");
        server.write_all(b"to std").await?;
        drop(server);
        let mut text = String::new();
        ws::block_in_place(|| client.read_to_string(&mut text))?;
        assert_eq!(text, "to std");

        let listener = TcpListener::bind("127.0.0.1:0").await?.into_std()?;
        let listener = TcpListener::from_std(listener)?;
        let _client = net::TcpStream::connect(listener.local_addr()?)?;
        listener.incoming().next().await.expect("it never ends")?;
        let udp = UdpSocket::bind("127.0.0.1:0").await?;
        UdpSocket::from_std(udp.into_std()?)?;
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
        let folder = net_support::Folder::new();
        let listener = ws::net::UnixListener::bind(folder.path("socket"))?;
        assert_closes_on_exec(&listener);
        let client = UnixStream::connect(folder.path("socket")).await?;
        assert_closes_on_exec(&client);
        assert_closes_on_exec(&listener.accept().await?.0);
        Ok(())
    });
}
