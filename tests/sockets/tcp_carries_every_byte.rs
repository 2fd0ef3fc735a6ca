//! Every byte that is written to a TCP stream is read at the other end, once and in order,
//! whichever way the stream is taken apart and whoever waits for whom.
//!
//! A mutant that clears readiness after a full read, or one that forgets the waker of a second
//! direction, hangs here.

use crate::net_support;

use std::io::{self, IoSlice, IoSliceMut};

use futures::FutureExt;
use futures::future::try_join;
use net_support::{pattern, tcp_pair, with_workers};
use ws::io::{AsyncReadExt, AsyncWriteExt};
use ws::net::{TcpListener, TcpStream, lookup_host};

/// More than both sides' buffers hold, so that each has to wait for the other.
const LEN: usize = 1 << 20;

#[test]
fn both_directions_at_once_in_one_task() {
    with_workers(async || {
        let (client, server) = tcp_pair().await?;
        let (there, back) = (pattern(LEN, 1), pattern(LEN, 2));
        let (mut got_there, mut got_back) = (vec![0; LEN], vec![0; LEN]);
        // Four futures of one task, two for each socket.
        try_join(
            try_join(
                (&client).write_all(&there),
                (&client).read_exact(&mut got_back),
            ),
            try_join(
                (&server).write_all(&back),
                (&server).read_exact(&mut got_there),
            ),
        )
        .await?;
        assert!(got_there == there && got_back == back);
        Ok(())
    });
}

#[test]
fn an_echo_server_returns_it_all() {
    with_workers(async || {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let server = ws::spawn(async move {
            let (stream, _) = listener.accept().await?;
            let copied = ws::io::copy(&stream, &mut &stream).await?;
            (&stream).close().await?;
            Ok::<_, io::Error>(copied)
        });
        let (mut read, mut write) = TcpStream::connect(addr).await?.into_split();
        let writer = ws::spawn(async move {
            write.write_all(&pattern(LEN, 3)).await?;
            write.close().await
        });
        let mut echoed = vec![0; LEN];
        read.read_exact(&mut echoed).await?;
        assert_eq!(read.read(&mut [0]).await?, 0);
        writer.await.expect("the writer does not panic")?;
        assert_eq!(
            server.await.expect("the server does not panic")?,
            LEN as u64
        );
        assert!(echoed == pattern(LEN, 3));
        Ok(())
    });
}

#[test]
fn owned_halves_in_four_tasks() {
    with_workers(async || {
        let (client, server) = tcp_pair().await?;
        let mut tasks = Vec::new();
        for (stream, sends, gets) in [(client, 4, 5), (server, 5, 4)] {
            let (mut read, mut write) = stream.into_split();
            tasks.push(ws::spawn(async move {
                write.write_all(&pattern(LEN, sends)).await
            }));
            tasks.push(ws::spawn(async move {
                let mut got = vec![0; LEN];
                read.read_exact(&mut got).await?;
                assert!(got == pattern(LEN, gets));
                assert_eq!(read.read(&mut [0]).await?, 0);
                Ok(())
            }));
        }
        for task in tasks {
            task.await.expect("no task panics")?;
        }
        Ok(())
    });
}

#[test]
fn borrowed_halves_in_one_task() {
    with_workers(async || {
        let (mut client, server) = tcp_pair().await?;
        let echo = ws::spawn(async move { ws::io::copy(&server, &mut &server).await });
        let (mut read, mut write) = client.split_mut();
        let sent = pattern(LEN, 6);
        let mut echoed = vec![0; LEN];
        try_join(write.write_all(&sent), read.read_exact(&mut echoed)).await?;
        assert!(echoed == sent);
        drop(client);
        assert_eq!(echo.await.expect("the echo does not panic")?, LEN as u64);
        Ok(())
    });
}

#[test]
fn several_buffers_in_one_call() {
    with_workers(async || {
        let (mut client, mut server) = tcp_pair().await?;
        let written = client
            .write_vectored(&[IoSlice::new(b"hel"), IoSlice::new(b""), IoSlice::new(b"lo")])
            .await?;
        assert_eq!(written, 5);
        let (mut first, mut second) = ([0; 2], [0; 8]);
        let read = server
            .read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)])
            .await?;
        assert_eq!(read, 5);
        assert_eq!((&first, &second[..3]), (b"he", &b"llo"[..]));
        // A short read by several buffers has to leave readiness right for the next.
        client.write_all(b"!").await?;
        server.read_exact(&mut first[..1]).await?;
        assert_eq!(first[0], b'!');
        Ok(())
    });
}

#[test]
fn a_name_is_looked_up() {
    with_workers(async || {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        for name in [format!("localhost:{port}"), format!("127.0.0.1:{port}")] {
            let (client, server) = try_join(TcpStream::connect(&name), listener.accept()).await?;
            assert_eq!(client.local_addr()?, server.1);
        }
        let by_pair = TcpStream::connect((String::from("localhost"), port)).await?;
        assert_eq!(by_pair.peer_addr()?, listener.local_addr()?);
        Ok(())
    });
}

// Fails if an address in numbers takes the way of a name, which is hardly ever ready at once.
#[test]
fn an_address_in_numbers_stays_on_the_thread() {
    with_workers(async || {
        let bound = TcpListener::bind("127.0.0.1:0").now_or_never();
        let addr = bound.expect("it is bound at once")?.local_addr()?;
        assert!(TcpListener::bind(addr).now_or_never().is_some());
        assert!(TcpListener::bind(("127.0.0.1", 0)).now_or_never().is_some());
        assert!(
            TcpListener::bind(String::from("[::1]:0"))
                .now_or_never()
                .is_some()
        );
        assert!(lookup_host("192.0.2.1:80").now_or_never().is_some());
        Ok(())
    });
}

#[test]
fn the_first_address_that_answers_is_taken() {
    with_workers(async || {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let good = listener.local_addr()?;
        // A port that was free a moment ago, on an address that nobody else of this machine uses.
        let nobody = TcpListener::bind("127.77.0.1:0").await?;
        let bad = nobody.local_addr()?;
        drop(nobody);
        let stream = TcpStream::connect([bad, good]).await?;
        assert_eq!(stream.peer_addr()?, good);
        Ok(())
    });
}

#[test]
fn addresses_that_are_none_are_refused() {
    with_workers(async || {
        for wrong in ["127.0.0.1", "localhost:", "localhost:99999", ""] {
            let error = TcpStream::connect(wrong).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{wrong}");
        }
        let error = TcpStream::connect(Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        // RFC 2606 keeps this name free of addresses.
        TcpStream::connect("nobody.invalid:80").await.unwrap_err();
        Ok(())
    });
}

// Fails if a transfer of 1,024 slices counts as a short one of all of them: the system takes no
// more slices at once (`IOV_MAX`), so nothing is said about the queue.
#[test]
fn more_slices_than_one_system_call_takes() {
    const SLICES: usize = 3000;
    with_workers(async || {
        let (client, server) = tcp_pair().await?;
        let sent = pattern(SLICES, 8);
        let slices: Vec<IoSlice<'_>> = sent.chunks(1).map(IoSlice::new).collect();
        let mut written = 0;
        while written < SLICES {
            written += (&client).write_vectored(&slices[written..]).await?;
        }

        let mut got = vec![0; SLICES];
        let mut read = 0;
        while read < SLICES {
            let mut slices: Vec<_> = got[read..].chunks_mut(1).map(IoSliceMut::new).collect();
            read += (&server).read_vectored(&mut slices).await?;
        }
        assert!(got == sent);
        Ok(())
    });
}
