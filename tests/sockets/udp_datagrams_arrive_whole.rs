//! Datagrams arrive whole, with the address of their sender; a connected socket hears its peer
//! alone.

use crate::net_support;

use std::io;

use net_support::with_workers;
use ws::net::UdpSocket;

#[test]
fn many_to_one_and_back() {
    with_workers(async || {
        const SENDERS: usize = 8;
        const EACH: usize = 100;
        let server = UdpSocket::bind("127.0.0.1:0").await?;
        let addr = server.local_addr()?;
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                ws::spawn(async move {
                    let socket = UdpSocket::bind("127.0.0.1:0").await?;
                    let mut buffer = [0; 64];
                    // One at a time, so that none is dropped for want of room.
                    for round in 0..EACH {
                        let text = format!("{sender} {round}");
                        socket.send_to(text.as_bytes(), addr).await?;
                        let (read, from) = socket.recv_from(&mut buffer).await?;
                        assert_eq!((&buffer[..read], from), (text.as_bytes(), addr));
                    }
                    Ok::<_, io::Error>(())
                })
            })
            .collect();
        let mut buffer = [0; 64];
        for _ in 0..SENDERS * EACH {
            let (read, from) = server.recv_from(&mut buffer).await?;
            server.send_to(&buffer[..read], from).await?;
        }
        for sender in senders {
            sender.await.expect("no sender panics")?;
        }
        Ok(())
    });
}

#[test]
fn a_connected_socket_hears_its_peer_alone() {
    with_workers(async || {
        let here = UdpSocket::bind("127.0.0.1:0").await?;
        let there = UdpSocket::bind("127.0.0.1:0").await?;
        let stranger = UdpSocket::bind("127.0.0.1:0").await?;
        here.connect(there.local_addr()?).await?;
        there
            .connect(format!("localhost:{}", here.local_addr()?.port()))
            .await?;
        assert_eq!(here.peer_addr()?, there.local_addr()?);

        stranger.send_to(b"psst", here.local_addr()?).await?;
        there.send(b"hello").await?;
        let mut buffer = [0; 16];
        let read = here.recv(&mut buffer).await?;
        assert_eq!(&buffer[..read], b"hello");
        Ok(())
    });
}

#[test]
fn a_peek_leaves_the_datagram() {
    with_workers(async || {
        let here = UdpSocket::bind("127.0.0.1:0").await?;
        let addr = here.local_addr()?;
        let early = here.try_recv_from(&mut [0; 8]).unwrap_err();
        assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
        here.writable().await?;
        here.try_send_to(b"self", addr)?;
        let mut buffer = [0; 2];
        assert_eq!(here.peek_from(&mut buffer).await?, (2, addr));
        let mut buffer = [0; 16];
        here.readable().await?;
        assert_eq!(here.try_recv_from(&mut buffer)?, (4, addr));
        Ok(())
    });
}

#[test]
fn a_peer_that_is_gone_is_told() {
    with_workers(async || {
        let here = UdpSocket::bind("127.0.0.1:0").await?;
        let there = UdpSocket::bind("127.0.0.1:0").await?;
        here.connect(there.local_addr()?).await?;
        drop(there);
        here.send(b"anybody?").await?;
        let error = here.recv(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        Ok(())
    });
}
