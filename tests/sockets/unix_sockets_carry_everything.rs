//! Unix sockets carry what is sent, by path, by abstract name and in pairs; and a queue that is
//! full is waited for, where the system tells when there is room and where it does not.

use crate::net_support;

use std::io;
use std::net::Shutdown;
use std::time::Duration;

use futures::FutureExt;
use futures::StreamExt;
use futures::future::try_join;
use net_support::{Folder, pattern, with_workers};
use ws::io::{AsyncReadExt, AsyncWriteExt};
use ws::net::unix::SocketAddr;
use ws::net::{UnixDatagram, UnixListener, UnixStream};
use ws::task::unconstrained;
use ws::time::timeout;

const LEN: usize = 1 << 20;

#[test]
fn a_stream_by_path() {
    with_workers(async || {
        let folder = Folder::new();
        let path = folder.path("socket");
        let error = UnixStream::connect(&path).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&path)?;
        let error = UnixListener::bind(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        let server = ws::spawn(async move {
            let (stream, _) = listener.accept().await?;
            let (mut read, mut write) = stream.into_split();
            ws::io::copy(&mut read, &mut write).await
        });
        let client = UnixStream::connect(&path).await?;
        assert_eq!(client.peer_addr()?.as_pathname(), Some(path.as_path()));
        let sent = pattern(LEN, 7);
        let mut echoed = vec![0; LEN];
        try_join(
            (&client).write_all(&sent),
            (&client).read_exact(&mut echoed),
        )
        .await?;
        assert!(echoed == sent);
        drop(client);
        assert_eq!(
            server.await.expect("the server does not panic")?,
            LEN as u64
        );
        Ok(())
    });
}

#[test]
fn a_pair_and_its_end() {
    with_workers(async || {
        let (mut here, mut there) = UnixStream::pair()?;
        let reader = ws::spawn(async move {
            let mut text = String::new();
            there.read_to_string(&mut text).await?;
            let (_, mut write) = there.split_mut();
            write.write_all(b"bye").await?;
            Ok::<_, io::Error>(text)
        });
        here.write_all(b"hello").await?;
        here.shutdown(Shutdown::Write)?;
        assert_eq!(reader.await.expect("the reader does not panic")?, "hello");
        let mut text = String::new();
        here.read_to_string(&mut text).await?;
        assert_eq!(text, "bye");
        Ok(())
    });
}

#[cfg(target_os = "linux")]
#[test]
fn abstract_names() {
    use std::os::linux::net::SocketAddrExt;

    with_workers(async || {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = |what| format!("ws-test-{what}-{}-{count}", std::process::id());
        let addr = SocketAddr::from_abstract_name(name("stream"))?;
        let listener = UnixListener::bind_addr(&addr)?;
        let mut incoming = listener.incoming();
        let accept = async { incoming.next().await.expect("it never ends") };
        let (client, server) = try_join(UnixStream::connect_addr(&addr), accept).await?;
        assert_eq!(
            client.peer_addr()?.as_abstract_name(),
            Some(name("stream").as_bytes())
        );
        drop(client);
        assert_eq!((&server).read(&mut [0]).await?, 0);

        let addr = SocketAddr::from_abstract_name(name("datagram"))?;
        let receiver = UnixDatagram::bind_addr(&addr)?;
        let sender = UnixDatagram::unbound()?;
        sender.send_to_addr(b"one", &addr).await?;
        sender.connect_addr(&addr)?;
        sender.send(b"two").await?;
        let mut buffer = [0; 8];
        assert_eq!(receiver.recv(&mut buffer).await?, 3);
        assert_eq!(receiver.recv(&mut buffer).await?, 3);
        assert_eq!(&buffer[..3], b"two");
        Ok(())
    });
}

/// Every function that takes a path takes an abstract name in its place.
#[cfg(target_os = "linux")]
#[test]
fn abstract_names_as_paths() {
    with_workers(async || {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = |what| format!("\0ws-test-path-{what}-{}-{count}", std::process::id());
        let listener = UnixListener::bind(name("stream"))?;
        let mut incoming = listener.incoming();
        let accept = async { incoming.next().await.expect("it never ends") };
        let (client, server) = try_join(UnixStream::connect(name("stream")), accept).await?;
        drop(client);
        assert_eq!((&server).read(&mut [0]).await?, 0);

        let receiver = UnixDatagram::bind(name("datagram"))?;
        let sender = UnixDatagram::unbound()?;
        sender.send_to(b"one", name("datagram")).await?;
        sender.connect(name("datagram"))?;
        sender.send(b"two").await?;
        let mut buffer = [0; 8];
        assert_eq!(receiver.recv(&mut buffer).await?, 3);
        assert_eq!(receiver.recv(&mut buffer).await?, 3);
        assert_eq!(&buffer[..3], b"two");
        Ok(())
    });
}

#[test]
fn datagrams_by_path() {
    with_workers(async || {
        let folder = Folder::new();
        let here = UnixDatagram::bind(folder.path("here"))?;
        let there = UnixDatagram::bind(folder.path("there"))?;
        here.send_to(b"ping", folder.path("there")).await?;
        let mut buffer = [0; 16];
        let (read, from) = there.recv_from(&mut buffer).await?;
        assert_eq!(&buffer[..read], b"ping");
        assert_eq!(from.as_pathname(), Some(folder.path("here").as_path()));
        there.connect(folder.path("here"))?;
        there.send(b"pong").await?;
        assert_eq!(here.recv(&mut buffer).await?, 4);
        drop(here);
        let error = there.send(b"anybody?").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        Ok(())
    });
}

#[test]
fn a_sender_waits_for_room() {
    with_workers(async || {
        const COUNT: usize = 2000;
        let (here, there) = UnixDatagram::pair()?;
        let sender = ws::spawn(async move {
            for number in 0..COUNT {
                here.send(&number.to_le_bytes()).await?;
            }
            Ok::<_, io::Error>(())
        });
        let mut buffer = [0; size_of::<usize>()];
        for number in 0..COUNT {
            there.recv(&mut buffer).await?;
            assert_eq!(usize::from_le_bytes(buffer), number);
        }
        sender.await.expect("the sender does not panic")
    });
}

// Fails (hangs) if `send_to` waits for an event: for a receiver that it is not connected to, none
// comes.
#[test]
fn a_sender_that_is_not_connected_waits_for_room() {
    with_workers(async || {
        let folder = Folder::new();
        let path = folder.path("socket");
        let receiver = UnixDatagram::bind(&path)?;
        // By another: what a socket has sent itself makes an event for it when it is received.
        let other = UnixDatagram::unbound()?;
        let mut sent = 0;
        // Without a budget: a send that is refused for want of one would pass for a queue that is
        // full.
        while unconstrained(other.send_to(b"x", &path))
            .now_or_never()
            .transpose()?
            .is_some()
        {
            sent += 1;
        }
        let sender = UnixDatagram::unbound()?;
        let mut waiting = Box::pin(sender.send_to(b"last", &path));
        // Time for the event of its registration, which is the only one that it ever gets.
        timeout(Duration::from_millis(20), &mut waiting)
            .await
            .expect_err("the queue is full");
        let mut buffer = [0; 8];
        for _ in 0..sent {
            assert_eq!(receiver.recv(&mut buffer).await?, 1);
        }
        assert!(sent > 0);
        assert_eq!(waiting.await?, 4);
        assert_eq!(receiver.recv(&mut buffer).await?, 4);
        Ok(())
    });
}

// Fails with an error of kind `WouldBlock` if `connect` takes a full queue for a failure.
#[cfg(target_os = "linux")]
#[test]
fn a_client_waits_for_a_place_in_the_queue() {
    with_workers(async || {
        let folder = Folder::new();
        let path = folder.path("socket");
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
        socket.bind(&socket2::SockAddr::unix(&path)?)?;
        socket.listen(1)?;
        let listener = UnixListener::from_std(socket.into())?;
        let mut clients = Vec::new();
        while let Some(client) = UnixStream::connect(&path).now_or_never() {
            clients.push(client?);
        }
        let waiting = ws::spawn(async move { UnixStream::connect(&path).await });
        for _ in 0..clients.len() + 1 {
            listener.accept().await?;
        }
        waiting.await.expect("the client does not panic")?;
        Ok(())
    });
}
