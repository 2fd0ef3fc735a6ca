//! What is set on a TCP socket is what the system then says of it, before and after it connects;
//! and a socket goes to std and comes back as it was.

#[cfg(unix)]
mod unix;

use crate::net_support;

use std::io::{Read, Write};
use std::net;
use std::time::Duration;

use futures::StreamExt;
use futures::future::try_join;
use net_support::{tcp_pair, with_workers};
use ws::io::{AsyncReadExt, AsyncWriteExt};
use ws::net::{Keepalive, TcpListener, TcpSocket, TcpStream, UdpSocket};

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
        let most = if cfg!(windows) {
            u16::MAX.into()
        } else {
            i32::MAX as u64
        };
        let most = Duration::from_secs(most);
        for (asked, set) in [
            (Duration::from_millis(500), Duration::from_secs(1)),
            (most + Duration::from_secs(2), most),
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
            .interval(Duration::from_secs(7));
        #[cfg(unix)]
        let keepalive = keepalive.retries(3);
        client.set_keepalive(Some(&keepalive))?;
        assert!(client.keepalive()?);
        #[cfg(unix)]
        unix::is_kept_alive(&client, 11, 7, 3)?;
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
        assert!(socket.reuse_addr()?);
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
        Ok(())
    });
}
