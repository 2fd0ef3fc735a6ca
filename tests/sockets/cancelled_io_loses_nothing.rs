//! An operation that is dropped before it is ready has moved nothing, and leaves the socket in
//! order for the next one; a peek moves nothing in any case.
//!
//! A mutant whose dropped future leaves the readiness cleared, or takes along the waker of another,
//! hangs here.

use crate::net_support;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use net_support::{poll_once, tcp_pair, with_workers};
use ws::io::{AsyncReadExt, AsyncWriteExt};
use ws::net::{TcpListener, TcpStream, UdpSocket};
use ws::time::timeout;

#[test]
fn a_read_after_a_dropped_read() {
    with_workers(async || {
        let (mut client, mut server) = tcp_pair().await?;
        let mut buffer = [0; 8];
        for round in 0..100u8 {
            assert!(server.read(&mut buffer).now_or_never().is_none());
            client.write_all(&[round]).await?;
            assert_eq!(server.read(&mut buffer).await?, 1);
            assert_eq!(buffer[0], round);
        }
        Ok(())
    });
}

#[test]
fn a_read_after_one_that_timed_out() {
    with_workers(async || {
        let (mut client, mut server) = tcp_pair().await?;
        let mut buffer = [0; 8];
        timeout(Duration::from_millis(5), server.read(&mut buffer))
            .await
            .expect_err("nothing was written");
        client.write_all(b"late").await?;
        let read = timeout(Duration::from_secs(60), server.read(&mut buffer)).await??;
        assert_eq!(&buffer[..read], b"late");
        Ok(())
    });
}

#[test]
fn a_dropped_reader_leaves_the_others_wakers() {
    with_workers(async || {
        let (mut client, server) = tcp_pair().await?;
        let server = Arc::new(server);
        let other = server.clone();
        let stays = ws::spawn(async move { other.peek(&mut [0; 8]).await });
        let mut buffer = [0; 8];
        let mut goes = Box::pin(server.peek(&mut buffer));
        assert!(poll_once(&mut goes).await.is_pending());
        ws::task::yield_now().await;
        drop(goes);
        client.write_all(b"x").await?;
        assert_eq!(stays.await.expect("the peeker does not panic")?, 1);
        Ok(())
    });
}

#[test]
fn a_connection_after_a_dropped_accept() {
    with_workers(async || {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        for _ in 0..100 {
            assert!(listener.accept().now_or_never().is_none());
            let client = TcpStream::connect(listener.local_addr()?).await?;
            let (_, peer) = listener.accept().await?;
            assert_eq!(peer, client.local_addr()?);
        }
        Ok(())
    });
}

#[test]
fn a_datagram_after_a_dropped_receive() {
    with_workers(async || {
        let here = UdpSocket::bind("127.0.0.1:0").await?;
        let mut buffer = [0; 8];
        for round in 0..100u8 {
            assert!(here.recv_from(&mut buffer).now_or_never().is_none());
            here.send_to(&[round], here.local_addr()?).await?;
            assert_eq!(here.recv_from(&mut buffer).await?.0, 1);
            assert_eq!(buffer[0], round);
        }
        Ok(())
    });
}

#[test]
fn a_peek_leaves_everything_where_it_is() {
    with_workers(async || {
        let (mut client, mut server) = tcp_pair().await?;
        let mut buffer = [0; 8];
        assert!(server.peek(&mut buffer).now_or_never().is_none());
        client.write_all(b"peek").await?;
        let peeked = server.peek(&mut buffer[..2]).await?;
        assert_eq!(&buffer[..peeked], b"pe");
        // All of it and less than there is room for: a reader would take that for a sign that
        // nothing is left.
        let peeked = server.peek(&mut buffer).await?;
        assert_eq!(&buffer[..peeked], b"peek");
        let peeked = std::future::poll_fn(|cx| server.poll_peek(cx, &mut buffer)).await?;
        assert_eq!(&buffer[..peeked], b"peek");
        server.read_exact(&mut buffer[..4]).await?;
        assert_eq!(&buffer[..4], b"peek");
        client.close().await?;
        assert_eq!(server.peek(&mut buffer).await?, 0);
        Ok(())
    });
}
