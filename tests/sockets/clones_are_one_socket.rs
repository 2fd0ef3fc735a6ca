//! Clones of a socket are one socket: what one sends or ends, all do, and it is closed when the
//! last of them goes.
//!
//! What one ends, the others are told, as those of std's blocking sockets are: also where the
//! system makes no event of it (a Unix stream without room whose sending side ends) and where it
//! says `EAGAIN` for ever (a Unix datagram socket whose receiving side has ended).
//!
//! It fails if a clone closes the socket, or if `into_std` takes it out of the runtime while there
//! are clones.

use crate::net_support;

use std::io;
use std::net::Shutdown;
use std::os::fd::AsRawFd;

use net_support::{Folder, tcp_pair, with_workers};
use ws::io::{AsyncReadExt, AsyncWriteExt};
use ws::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};

#[test]
fn one_clone_reads_while_another_writes() {
    with_workers(async || {
        let (mut client, mut server) = tcp_pair().await?;
        let mut reads = server.clone();
        let reader = ws::spawn(async move {
            let mut text = String::new();
            reads.read_to_string(&mut text).await.map(|_| text)
        });
        server.write_all(b"out").await?;
        client.read_exact(&mut [0; 3]).await?;
        client.write_all(b"in").await?;
        client.close().await?;
        assert_eq!(reader.await.expect("it does not panic")?, "in");
        Ok(())
    });
}

#[test]
fn the_last_clone_closes() {
    with_workers(async || {
        let (tcp, mut tcp_peer) = tcp_pair().await?;
        let mut clone = tcp.clone();
        drop(tcp);
        clone.write_all(b"x").await?;
        assert_eq!(tcp_peer.read(&mut [0; 8]).await?, 1);
        drop(clone);
        assert_eq!(tcp_peer.read(&mut [0; 8]).await?, 0);

        let (unix, mut unix_peer) = UnixStream::pair()?;
        let mut clone = unix.clone();
        drop(unix);
        clone.write_all(b"x").await?;
        assert_eq!(unix_peer.read(&mut [0; 8]).await?, 1);
        drop(clone);
        assert_eq!(unix_peer.read(&mut [0; 8]).await?, 0);
        Ok(())
    });
}

#[test]
fn futures_of_all_clones_are_woken() {
    with_workers(async || {
        let (mut client, server) = tcp_pair().await?;
        let clones = [server.clone(), server.clone(), server];
        let peeks = clones.map(|clone| ws::spawn(async move { clone.peek(&mut [0]).await }));
        ws::task::yield_now().await;
        client.write_all(b"x").await?;
        for peek in peeks {
            assert_eq!(peek.await.expect("it does not panic")?, 1);
        }
        Ok(())
    });
}

#[test]
fn a_clone_that_becomes_std_leaves_the_others_in_the_runtime() {
    with_workers(async || {
        let (tcp, mut peer) = tcp_pair().await?;
        let number = tcp.as_raw_fd();
        let duplicate = tcp.clone().into_std()?;
        assert_ne!(duplicate.as_raw_fd(), number);
        io::Write::write_all(&mut &duplicate, b"a")?;
        drop(duplicate);
        (&tcp).write_all(b"b").await?;
        let mut both = [0; 2];
        peer.read_exact(&mut both).await?;
        assert_eq!(both, *b"ab");
        // It still waits, and is woken.
        let reads = tcp.clone();
        let reader = ws::spawn(async move { (&reads).read(&mut [0; 8]).await });
        ws::task::yield_now().await;
        peer.write_all(b"c").await?;
        assert_eq!(reader.await.expect("it does not panic")?, 1);
        // The last one is the socket itself.
        assert_eq!(tcp.into_std()?.as_raw_fd(), number);
        Ok(())
    });
}

#[test]
fn a_dropped_write_half_ends_the_sending_side_of_clones() {
    with_workers(async || {
        let (tcp, mut peer) = tcp_pair().await?;
        let mut clone = tcp.clone();
        let (read, write) = tcp.into_split();
        drop(write);
        assert_eq!(peer.read(&mut [0; 8]).await?, 0);
        let error = clone.write_all(b"x").await.expect_err("it has ended");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        drop(read);
        peer.write_all(b"y").await?;
        assert_eq!(clone.read(&mut [0; 8]).await?, 1);
        Ok(())
    });
}

#[test]
fn halves_of_clones_are_halves_of_one_stream() {
    with_workers(async || {
        let (tcp, mut peer) = tcp_pair().await?;
        let (read, other_write) = tcp.clone().into_split();
        let (other_read, write) = tcp.into_split();
        let mut whole = read.reunite(write).expect("they are one socket");
        other_write.forget();
        drop(other_read);
        whole.write_all(b"x").await?;
        assert_eq!(peer.read(&mut [0; 8]).await?, 1);
        Ok(())
    });
}

#[test]
fn clones_of_a_listener_take_a_connection_each() {
    with_workers(async || {
        let tcp = TcpListener::bind("127.0.0.1:0").await?;
        let addr = tcp.local_addr()?;
        let accepts = [tcp.clone(), tcp].map(|tcp| ws::spawn(async move { tcp.accept().await }));
        let clients = [
            TcpStream::connect(addr).await?,
            TcpStream::connect(addr).await?,
        ];
        let mut peers = Vec::new();
        for accept in accepts {
            peers.push(accept.await.expect("it does not panic")?.1);
        }
        for client in clients {
            assert!(peers.contains(&client.local_addr()?));
        }

        let folder = Folder::new();
        let path = folder.path("socket");
        let unix = UnixListener::bind(&path)?;
        let clone = unix.clone();
        drop(unix);
        let _client = UnixStream::connect(&path).await?;
        clone.accept().await?;
        Ok(())
    });
}

#[test]
fn clones_of_datagram_sockets() {
    with_workers(async || {
        let udp = UdpSocket::bind("127.0.0.1:0").await?;
        let clone = udp.clone();
        let receiver = ws::spawn(async move { clone.recv(&mut [0; 8]).await });
        udp.send_to(b"to itself"[..2].as_ref(), udp.local_addr()?)
            .await?;
        assert_eq!(receiver.await.expect("it does not panic")?, 2);

        let (here, there) = UnixDatagram::pair()?;
        let clone = here.clone();
        drop(here);
        there.send(b"abc").await?;
        assert_eq!(clone.recv(&mut [0; 8]).await?, 3);
        Ok(())
    });
}

// Fails without `note_end` in the shutdown of a stream.
#[test]
fn a_writer_is_told_of_the_end_of_its_side() {
    async fn full(stream: &mut UnixStream) -> io::Result<()> {
        while futures::poll!(std::pin::pin!(stream.write(&[0; 1 << 16]))).is_ready() {}
        Ok(())
    }

    with_workers(async || {
        for by_close in [false, true] {
            let (mut here, _there) = UnixStream::pair()?;
            full(&mut here).await?;
            let mut ends = here.clone();
            let mut write = Box::pin(here.write_all(b"x"));
            assert!(futures::poll!(&mut write).is_pending());
            if by_close {
                ends.close().await?;
            } else {
                ends.shutdown(Shutdown::Write)?;
            }
            let error = write.await.expect_err("its side has ended");
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
        Ok(())
    });
}

// The first half fails without the look at the end in the reads of `UnixDatagram`, the second
// without `note_end`.
#[test]
fn datagrams_are_told_of_the_end_of_their_side() {
    with_workers(async || {
        for how in [Shutdown::Read, Shutdown::Both] {
            let (here, there) = UnixDatagram::pair()?;
            let ends = here.clone();
            let mut buffer = [0; 4];
            let mut recv = Box::pin(here.recv(&mut buffer));
            assert!(futures::poll!(&mut recv).is_pending());
            ends.shutdown(how)?;
            assert_eq!(recv.await?, 0);
            assert_eq!(here.recv(&mut [0; 4]).await?, 0);
            let (len, addr) = here.recv_from(&mut [0; 4]).await?;
            assert!(len == 0 && addr.is_unnamed());

            // What was sent before the end is still received.
            let (here, before) = UnixDatagram::pair()?;
            before.send(b"abc").await?;
            here.shutdown(how)?;
            assert_eq!(here.recv(&mut [0; 4]).await?, 3);
            assert_eq!(here.recv(&mut [0; 4]).await?, 0);
            drop(there);
        }
        for how in [Shutdown::Write, Shutdown::Both] {
            let (here, _there) = UnixDatagram::pair()?;
            while futures::poll!(std::pin::pin!(here.send(b"x"))).is_ready() {}
            let mut send = Box::pin(here.send(b"x"));
            assert!(futures::poll!(&mut send).is_pending());
            here.shutdown(how)?;
            let error = send.await.expect_err("its side has ended");
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
        Ok(())
    });
}
