//! However a TCP connection ends, both sides learn it: a side that was ended is read to its end, a
//! reset is an error, and a refusal is one. Nobody waits for ever.

use crate::net_support;

use std::io;
use std::net::Shutdown;
use std::time::Duration;

use net_support::{tcp_pair, with_workers};
use ws::io::{AsyncReadExt, AsyncWriteExt};
use ws::net::{TcpListener, TcpSocket, TcpStream};

#[test]
fn the_end_of_the_sending_side_is_read_and_the_other_side_stays() {
    with_workers(async || {
        for by_close in [true, false] {
            let (mut client, mut server) = tcp_pair().await?;
            client.write_all(b"last words").await?;
            if by_close {
                client.close().await?;
            } else {
                client.shutdown(Shutdown::Write)?;
            }
            let mut text = String::new();
            server.read_to_string(&mut text).await?;
            assert_eq!(text, "last words");

            server.write_all(b"answer").await?;
            let mut answer = [0; 6];
            client.read_exact(&mut answer).await?;
            assert_eq!(&answer, b"answer");
            assert_eq!(
                client.write(b"more").await.unwrap_err().kind(),
                io::ErrorKind::BrokenPipe
            );
        }
        Ok(())
    });
}

#[test]
fn a_reader_that_waits_is_woken_by_the_end() {
    with_workers(async || {
        let (client, mut server) = tcp_pair().await?;
        let reader = ws::spawn(async move { server.read(&mut [0; 8]).await });
        ws::task::yield_now().await;
        drop(client);
        assert_eq!(reader.await.expect("the reader does not panic")?, 0);
        Ok(())
    });
}

// Fails without the shutdown in the half's drop.
#[test]
fn a_dropped_write_half_ends_the_sending_side() {
    with_workers(async || {
        let (client, mut server) = tcp_pair().await?;
        let (read, write) = client.into_split();
        drop(write);
        assert_eq!(server.read(&mut [0; 8]).await?, 0);
        drop(read);
        Ok(())
    });
}

// Fails if the close of a half does nothing: while it lives, its drop does not end the sending side
// either.
#[test]
fn a_closed_write_half_ends_the_sending_side() {
    with_workers(async || {
        let (mut client, mut server) = tcp_pair().await?;
        let (mut read, mut write) = client.split_mut();
        write.close().await?;
        assert_eq!(server.read(&mut [0; 8]).await?, 0);
        server.write_all(b"answer").await?;
        read.read_exact(&mut [0; 6]).await?;

        let (client, mut server) = tcp_pair().await?;
        let (mut read, mut write) = client.into_split();
        write.close().await?;
        assert_eq!(server.read(&mut [0; 8]).await?, 0);
        server.write_all(b"answer").await?;
        read.read_exact(&mut [0; 6]).await?;
        Ok(())
    });
}

#[test]
fn halves_are_forgotten_and_reunited() {
    with_workers(async || {
        let (client, mut server) = tcp_pair().await?;
        let (read, write) = client.into_split();
        write.forget();
        // Nothing was ended, so nothing can be read. The other direction says when to look.
        server.write_all(b"x").await?;
        read.as_ref().readable().await?;
        let early = server.try_read(&mut [0; 8]).unwrap_err();
        assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
        drop(read);

        let (one, one_peer) = tcp_pair().await?;
        let (other, _other_peer) = tcp_pair().await?;
        let (one_read, one_write) = one.into_split();
        let (other_read, other_write) = other.into_split();
        let error = one_read.reunite(other_write).unwrap_err();
        let mut one = error.read.reunite(one_write).expect("they belong together");
        // To put them together ends nothing.
        one.write_all(b"whole").await?;
        (&one_peer).read_exact(&mut [0; 5]).await?;
        let other = other_read
            .reunite(error.write)
            .expect("they belong together");
        drop(other);
        drop(one_peer);
        assert_eq!(one.read(&mut [0; 8]).await?, 0);
        Ok(())
    });
}

#[test]
fn a_reset_is_an_error_for_one_that_waits_and_for_one_that_comes_later() {
    with_workers(async || {
        let (client, mut server) = tcp_pair().await?;
        let reader = ws::spawn(async move {
            let waited = server.read(&mut [0; 8]).await;
            // The error is gone with the one that it was told to; now it is an end.
            (waited, server.write(b"x").await, server.close().await)
        });
        ws::task::yield_now().await;
        client.set_linger(Some(Duration::ZERO))?;
        drop(client);
        let (waited, later, close) = reader.await.expect("the reader does not panic");
        assert_eq!(waited.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(later.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        close?;
        Ok(())
    });
}

#[test]
fn a_writer_that_waits_is_woken_by_a_reset() {
    with_workers(async || {
        let (client, mut server) = tcp_pair().await?;
        // Nobody reads, so at some point this waits.
        let writer = ws::spawn(async move {
            loop {
                if let Err(error) = server.write(&[0; 1 << 16]).await {
                    return error;
                }
            }
        });
        client.readable().await?;
        client.set_linger(Some(Duration::ZERO))?;
        drop(client);
        let error = writer.await.expect("the writer does not panic");
        assert!(
            matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            ),
            "{error}"
        );
        Ok(())
    });
}

#[test]
fn a_connection_is_refused_where_nobody_listens() {
    with_workers(async || {
        // Bound and not listening: nobody else can take the port meanwhile.
        let bound = TcpSocket::new_v4()?;
        bound.bind("127.0.0.1:0".parse().unwrap())?;
        let error = TcpStream::connect(bound.local_addr()?).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        Ok(())
    });
}

// Fails if the error is that of the first address, or of any but the last.
#[test]
fn of_several_addresses_the_last_error_is_told() {
    with_workers(async || {
        // Bound and not listening: nobody else can take the port meanwhile.
        let bound = TcpSocket::new_v4()?;
        bound.bind("127.0.0.1:0".parse().unwrap())?;
        let refused = (bound.local_addr()?, io::ErrorKind::ConnectionRefused);
        let broadcast = "255.255.255.255:9".parse().unwrap();
        let unreachable = (broadcast, io::ErrorKind::NetworkUnreachable);
        for [first, last] in [[refused, unreachable], [unreachable, refused]] {
            let error = TcpStream::connect([first.0, last.0]).await.unwrap_err();
            assert_eq!(error.kind(), last.1, "{error}");
        }

        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let in_use = (listener.local_addr()?, io::ErrorKind::AddrInUse);
        // RFC 5737 keeps this address for documents.
        let foreign = "192.0.2.1:0".parse().unwrap();
        let foreign = (foreign, io::ErrorKind::AddrNotAvailable);
        for [first, last] in [[in_use, foreign], [foreign, in_use]] {
            let addrs = [first.0, last.0];
            let error = TcpListener::bind(addrs).await.unwrap_err();
            assert_eq!(error.kind(), last.1, "{error}");
        }
        Ok(())
    });
}

#[test]
fn an_address_in_use_is_refused() {
    with_workers(async || {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let error = TcpListener::bind(listener.local_addr()?).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        Ok(())
    });
}
