//! Sockets work on any thread that has entered a runtime, under another executor: they are made
//! there, wait there, and a name is looked up. A thread that has entered none may use those that
//! there are.
//!
//! Fails if `netpoll::current` knows the runtime's own threads alone (by a panic), and if a
//! registration tells nobody that there is something to wait for (`Netpoll::on_unheard`; by a hang,
//! but for the name, whose lookup starts a thread).

use crate::net_support;

use std::future::Future;
use std::io;
use std::thread;

use futures::executor::block_on;
use futures::future::try_join;

use net_support::{Limit, WORKERS, pattern, runtime, tcp_pair};
use ws::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use ws::net::{TcpListener, TcpStream, UdpSocket, lookup_host};

/// More than the system takes in at once, so that both ends wait.
const LEN: usize = 4 << 20;

/// Runs a scenario on a thread of `std` that has entered a runtime, under the executor of
/// `futures`. Nothing else runs in that runtime, which has one worker, two or eight.
fn where_it_is_entered<S, F>(scenario: S)
where
    S: Fn() -> F + Copy + Send + 'static,
    F: Future<Output = io::Result<()>>,
{
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let runtime = runtime(workers);
        let handle = runtime.handle().clone();
        let thread = thread::spawn(move || {
            let _entered = handle.enter();
            block_on(scenario())
        });
        let answer = thread.join().expect("the scenario does not panic");
        answer.unwrap_or_else(|error| panic!("with {workers} workers: {error}"));
    }
}

/// Sends in both directions at once, and sees that all of it comes.
async fn both_ways(
    client: impl AsyncRead + AsyncWrite,
    server: impl AsyncRead + AsyncWrite,
) -> io::Result<()> {
    let (there, back) = (pattern(LEN, 1), pattern(LEN, 2));
    let (mut client_reads, mut client_writes) = client.split();
    let (mut server_reads, mut server_writes) = server.split();
    let (mut got_there, mut got_back) = (vec![0; LEN], vec![0; LEN]);
    try_join(
        try_join(
            server_reads.read_exact(&mut got_there),
            client_reads.read_exact(&mut got_back),
        ),
        try_join(
            client_writes.write_all(&there),
            server_writes.write_all(&back),
        ),
    )
    .await?;
    assert!(got_there == there && got_back == back);
    Ok(())
}

#[test]
fn tcp_connects_and_carries_every_byte() {
    where_it_is_entered(async || {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        // The listener waits first.
        let connect = TcpStream::connect(listener.local_addr()?);
        let ((server, peer), client) = try_join(listener.accept(), connect).await?;
        assert_eq!(peer, client.local_addr()?);
        both_ways(client, server).await
    });
}

#[test]
fn datagrams_come_to_one_that_waits() {
    where_it_is_entered(async || {
        let one = UdpSocket::bind("127.0.0.1:0").await?;
        let other = UdpSocket::bind("127.0.0.1:0").await?;
        let (mut buf, to) = ([0; 64], other.local_addr()?);
        let (got, sent) = try_join(other.recv_from(&mut buf), one.send_to(b"there", to)).await?;
        assert_eq!((got, sent), ((5, one.local_addr()?), 5));
        assert_eq!(&buf[..5], b"there");

        one.connect(other.local_addr()?).await?;
        other.connect(one.local_addr()?).await?;
        let (got, sent) = try_join(one.recv(&mut buf), other.send(b"and back")).await?;
        assert_eq!((got, sent), (8, 8));
        assert_eq!(&buf[..8], b"and back");
        Ok(())
    });
}

#[test]
fn a_name_is_looked_up() {
    where_it_is_entered(async || {
        let listener = TcpListener::bind("localhost:0").await?;
        let port = listener.local_addr()?.port();
        let connect = TcpStream::connect(("localhost", port));
        let ((mut server, _), mut client) = try_join(listener.accept(), connect).await?;
        client.write_all(b"hello").await?;
        let mut got = [0; 5];
        server.read_exact(&mut got).await?;
        assert_eq!(&got, b"hello");

        let found: Vec<_> = lookup_host(("localhost", port)).await?.collect();
        assert!(found.contains(&client.peer_addr()?), "{found:?}");
        Ok(())
    });
}

/// F6: the thread of a root that accepts leaves its tasks to others. Fails, by a hang, if
/// `poll_accept` in `net/src/retry.rs` does not say that it waits.
#[test]
fn a_root_that_accepts_is_not_held_up() {
    use std::io::Read;

    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let got = runtime(workers).block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let to = listener.local_addr()?;
            let blocks = ws::spawn(async move {
                let mut got = String::new();
                std::net::TcpStream::connect(to)?.read_to_string(&mut got)?;
                io::Result::Ok(got)
            });
            let (mut stream, _) = listener.accept().await?;
            stream.write_all(b"hello").await?;
            drop(stream);
            blocks.await.expect("it does not panic")
        });
        assert_eq!(got.unwrap(), "hello");
    }
}

#[test]
fn a_thread_that_has_entered_nothing_uses_what_there_is() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let runtime = runtime(workers);
        let (client, server) = {
            let _entered = runtime.enter();
            block_on(tcp_pair()).unwrap()
        };
        let thread = thread::spawn(|| block_on(both_ways(client, server)));
        thread.join().unwrap().unwrap();
    }
}
