//! F7: what is always ready gives way: each asynchronous operation of `ws` alone, in a loop in
//! which it is always ready; each combinator around something that is always ready; and each way
//! that `task::coop` offers to others. Each ends its poll after the budget. So a timeout around it
//! fires, and tasks behind it get their turn, with one worker and no monitor. And a timeout does
//! not fire instead of an output that the budget held back.
//!
//! One operation a loop, so that each one that pays nothing is seen. What is ready only a limited
//! number of times is polled once, with more of it than a budget takes (`many_operations`).
//!
//! It fails when an operation takes no unit, when `budget::charged` takes none, when `poll_share`
//! lets the first of several futures spend all, when `ws::io::copy` is that of `futures`, when a
//! macro does not take a unit before it begins, when a `fork` that spawns takes none, and when a
//! timeout elapses though its future was refused.

mod many_operations;
mod the_least_share;
#[cfg(unix)]
mod unix;

use crate::net_support;

use std::cell::Cell;
use std::future::{Future, pending, poll_fn, ready};
use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready as ready_or_return};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use net_support::Limit;
use ws::fs::File;
use ws::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, Cursor};
use ws::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use ws::runtime::{Builder, Sysmon};
use ws::task::{JoinSet, LocalSet, coop};
use ws::time::timeout;

/// As long as it takes to be in the loop. Nothing is measured by it.
const SOON: Duration = Duration::from_millis(5);

/// Gives bytes for ever, and takes them.
struct Endless;

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        buffer.fill(7);
        Poll::Ready(Ok(buffer.len()))
    }
}

impl AsyncWrite for Endless {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, b: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(b.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A timeout around `greedy` fires; and beside `greedy` in a task another one gets turns.
fn gives_way<F>(greedy: fn() -> F)
where
    F: Future<Output = ()> + 'static,
{
    let _limit = Limit::new(1);
    let runtime = Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap();
    let at_the_root = runtime.block_on(async { timeout(SOON, greedy()).await });
    assert!(at_the_root.is_err());
    runtime.block_on(async {
        let in_a_task = ws::spawn_local(greedy());
        for _ in 0..5 {
            ws::task::yield_now().await;
        }
        in_a_task.abort();
        assert!(in_a_task.await.unwrap_err().is_cancelled());
    });
}

/// An open file that nobody sees.
fn tempfile() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("ws-gives-way-{}", std::process::id()));
    std::fs::File::create(path).unwrap()
}

/// A timeout in a `block_on` that is inside another poll fires as any other does.
#[test]
fn consume_budget_in_a_nested_block_on() {
    let _limit = Limit::new(1);
    let runtime = Builder::new().workers(1).build().unwrap();
    let greedy = || {
        let greedy = async {
            loop {
                coop::consume_budget().await;
            }
        };
        let elapsed = ws::runtime::Handle::current().block_on(timeout(SOON, greedy));
        elapsed.unwrap_err();
    };
    runtime.block_on(async {
        greedy();
        ws::spawn(async move { greedy() }).await.unwrap();
        ws::spawn_blocking(greedy).await.unwrap();
        ws::join(greedy, || ());
    });
    let other = Builder::new().workers(1).build().unwrap();
    other.block_on(async { runtime.block_on(async { greedy() }) });
}

macro_rules! each_gives_way {
    ($($name:ident: $future:expr;)*) => {$(
        #[test]
        fn $name() {
            gives_way(|| async { $future });
        }
    )*};
}
#[cfg(unix)]
use each_gives_way;

each_gives_way! {
    copy: drop(ws::io::copy(Endless, &mut Endless).await);
    copy_buf: drop(ws::io::copy_buf(BufReader::new(Endless), &mut Endless).await);
    a_timeout: loop {
        timeout(Duration::MAX, ready(())).await.unwrap();
    };
    a_timeout_of_no_time: loop {
        timeout(Duration::ZERO, pending::<()>()).await.unwrap_err();
    };
    select: loop {
        ws::select! { () = ready(()).fuse() => (), () = pending().fuse() => () }
    };
    join: loop {
        ws::join!(ready(()), ready(()));
    };
    try_join: loop {
        ws::try_join!(ready(Ok::<_, ()>(()))).unwrap();
    };
    fork: loop {
        drop(ws::fork(async {}).await);
    };
    consume_budget: loop {
        coop::consume_budget().await;
    };
    run_until_of_a_set: {
        let set = LocalSet::new();
        loop {
            set.run_until(ready(())).await;
        }
    };
    a_set_that_is_awaited: {
        let mut set = LocalSet::new();
        loop {
            drop(set.spawn_local(ready(())));
            (&mut set).await;
        }
    };
    file_flush: {
        let mut file = File::from_std(tempfile());
        while file.flush().await.is_ok() {}
    };
    file_close: {
        let mut file = File::from_std(tempfile());
        while file.close().await.is_ok() {}
    };
    file_into_std: {
        let mut std = tempfile();
        loop {
            std = File::from_std(std).into_std().await;
        }
    };
    stdout_flush: {
        let mut stdout = ws::io::stdout();
        while stdout.flush().await.is_ok() {}
    };
    file_type_of_an_entry: {
        let mut entries = ws::fs::read_dir(".").await.unwrap();
        let entry = entries.next().await.expect("the package is there").unwrap();
        while entry.file_type().await.is_ok() {}
    };
    read_dir_at_its_end: {
        let mut entries = ws::fs::read_dir("src").await.unwrap();
        loop {
            drop(entries.next().await);
        }
    };
    cooperative: loop {
        coop::cooperative(ready(())).await;
    };
    a_task_local: loop {
        NUMBER.scope(1, ready(())).await;
    };
    yield_now: loop {
        ws::task::yield_now().await;
    };
    sleep: loop {
        ws::time::sleep(Duration::ZERO).await;
    };
    sleep_until: loop {
        ws::time::sleep_until(ws::time::Instant::now()).await;
    };
    an_interval_that_catches_up: {
        let mut interval = ticks();
        loop {
            interval.tick().await;
        }
    };
    an_interval_as_a_stream: {
        let mut interval = ticks();
        while interval.next().await.is_some() {}
    };
    join_next_of_an_empty_set: {
        let mut set = JoinSet::<()>::new();
        while set.join_next().await.is_none() {}
    };
    join_next_with_id_of_an_empty_set: {
        let mut set = JoinSet::<()>::new();
        while set.join_next_with_id().await.is_none() {}
    };
    join_all_of_an_empty_set: loop {
        JoinSet::<()>::new().join_all().await;
    };
    shutdown_of_an_empty_set: loop {
        JoinSet::<()>::new().shutdown().await;
    };
    lookup_host: loop {
        drop(ws::net::lookup_host("127.0.0.1:80").await);
    };
    lookup_host_without_a_port: loop {
        drop(ws::net::lookup_host("127.0.0.1").await);
    };
    tcp_bind: loop {
        TcpListener::bind(ANY).await.unwrap();
    };
    tcp_connect_to_no_address: loop {
        TcpStream::connect(&[][..]).await.unwrap_err();
    };
    tcp_connect_that_is_refused: {
        let addr = TcpListener::bind(ANY).await.unwrap().local_addr().unwrap();
        loop {
            TcpStream::connect(addr).await.unwrap_err();
        }
    };
    tcp_socket_connect_that_is_refused: {
        let addr = TcpListener::bind(ANY).await.unwrap().local_addr().unwrap();
        loop {
            TcpSocket::new_v4().unwrap().connect(addr).await.unwrap_err();
        }
    };
    tcp_read_at_the_end: {
        let mut stream = ended_tcp().await;
        while stream.read(&mut [0]).await.unwrap() == 0 {}
    };
    tcp_read_vectored_at_the_end: {
        let mut stream = ended_tcp().await;
        while stream.read_vectored(&mut [IoSliceMut::new(&mut [0])]).await.unwrap() == 0 {}
    };
    tcp_peek_at_the_end: {
        let stream = ended_tcp().await;
        while stream.peek(&mut [0]).await.unwrap() == 0 {}
    };
    tcp_poll_peek_at_the_end: {
        let stream = ended_tcp().await;
        while poll_fn(|cx| stream.poll_peek(cx, &mut [0])).await.unwrap() == 0 {}
    };
    tcp_readable_at_the_end: {
        let stream = ended_tcp().await;
        loop {
            stream.readable().await.unwrap();
        }
    };
    tcp_writable: {
        let stream = ended_tcp().await;
        loop {
            stream.writable().await.unwrap();
        }
    };
    tcp_write_of_nothing: {
        let mut stream = ended_tcp().await;
        while stream.write(&[]).await.unwrap() == 0 {}
    };
    tcp_flush: {
        let mut stream = ended_tcp().await;
        loop {
            stream.flush().await.unwrap();
        }
    };
    tcp_close: {
        let mut stream = ended_tcp().await;
        loop {
            stream.close().await.unwrap();
        }
    };
    a_write_half_is_flushed: {
        let (_read, mut write) = ended_tcp().await.into_split();
        loop {
            write.flush().await.unwrap();
        }
    };
    a_borrowed_write_half_is_closed: {
        let mut stream = ended_tcp().await;
        let (_read, mut write) = stream.split_mut();
        loop {
            write.close().await.unwrap();
        }
    };
    udp_bind: loop {
        UdpSocket::bind(ANY).await.unwrap();
    };
    udp_connect: {
        let socket = UdpSocket::bind(ANY).await.unwrap();
        loop {
            socket.connect("127.0.0.1:9").await.unwrap();
        }
    };
    udp_send: {
        let socket = udp_to_itself().await;
        while socket.send(b"x").await.is_ok() {}
    };
    udp_poll_send: {
        let socket = udp_to_itself().await;
        while poll_fn(|cx| socket.poll_send(cx, b"x")).await.is_ok() {}
    };
    udp_send_to: {
        let socket = udp_to_itself().await;
        let addr = socket.local_addr().unwrap();
        while socket.send_to(b"x", addr).await.is_ok() {}
    };
    udp_poll_send_to: {
        let socket = udp_to_itself().await;
        let addr = socket.local_addr().unwrap();
        while poll_fn(|cx| socket.poll_send_to(cx, b"x", addr)).await.is_ok() {}
    };
    udp_send_to_no_address: {
        let socket = UdpSocket::bind(ANY).await.unwrap();
        while socket.send_to(b"x", &[][..]).await.is_err() {}
    };
    udp_peek_from: {
        let socket = udp_to_itself().await;
        socket.send(b"x").await.unwrap();
        while socket.peek_from(&mut [0]).await.is_ok() {}
    };
    udp_writable: {
        let socket = UdpSocket::bind(ANY).await.unwrap();
        while socket.writable().await.is_ok() {}
    };
    poll_proceed: loop {
        poll_fn(|cx| coop::poll_proceed(cx).map(|unit| unit.made_progress())).await;
    };
    has_budget_remaining: loop {
        while coop::has_budget_remaining() {
            coop::consume_budget().await;
        }
        ws::task::yield_now().await;
    };
}

ws::task_local! { static NUMBER: u32; }

const ANY: &str = "127.0.0.1:0";

/// A second's ticks that are due. (A machine that was just started has no moment long ago.)
fn ticks() -> ws::time::Interval {
    let now = ws::time::Instant::now();
    ws::time::interval_at(now - Duration::from_secs(1), Duration::from_nanos(1))
}

/// A stream whose peer has ended its side.
async fn ended_tcp() -> TcpStream {
    let (stream, mut peer) = net_support::tcp_pair().await.unwrap();
    peer.close().await.unwrap();
    stream.readable().await.unwrap();
    // Otherwise a drop would reset the connection.
    std::mem::forget(peer);
    stream
}

async fn udp_to_itself() -> UdpSocket {
    let socket = UdpSocket::bind(ANY).await.unwrap();
    socket.connect(socket.local_addr().unwrap()).await.unwrap();
    socket
}

/// Spends all that there is, in each poll, and is never done.
async fn spends_all() {
    poll_fn(|cx| {
        loop {
            ready_or_return!(coop::poll_proceed(cx)).made_progress();
        }
    })
    .await
}

/// The first future of a `join!` cannot starve those behind it: they have units in the same poll.
#[test]
fn join_shares_the_budget() {
    let _limit = Limit::new(1);
    let runtime = Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap();
    runtime.block_on(async {
        let ended = Cell::new(0);
        let ends = || ended.set(ended.get() + 1);
        let units = async {
            for _ in 0..1000 {
                coop::consume_budget().await;
            }
        };
        let all = async {
            let sleep = ws::time::sleep(SOON);
            ws::join!(spends_all(), units.map(|()| ends()), sleep.map(|()| ends()));
        };
        let mut all = std::pin::pin!(all);
        poll_fn(|cx| {
            assert!(all.as_mut().poll(cx).is_pending());
            if ended.get() == 2 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    });
}

#[test]
fn try_join_shares_the_budget() {
    let _limit = Limit::new(1);
    let runtime = Builder::new().workers(1).build().unwrap();
    let answer = runtime.block_on(async {
        ws::try_join!(spends_all().map(Ok), async {
            ws::time::sleep(SOON).await;
            Err::<(), _>("the second one ends it")
        })
    });
    assert_eq!(answer, Err("the second one ends it"));
}

/// What the first futures of a `join!` leave, the last one may spend.
#[test]
fn the_last_of_a_join_has_all_that_is_left() {
    let _limit = Limit::new(1);
    let runtime = Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut both = std::pin::pin!(async { ws::join!(pending::<()>(), spends_all()) });
        poll_fn(|cx| {
            assert!(both.as_mut().poll(cx).is_pending());
            assert!(!coop::has_budget_remaining());
            Poll::Ready(())
        })
        .await;
    });
}

/// A unit that brought nothing is given back, and what was spent inside is not.
#[test]
fn a_unit_is_given_back() {
    let _limit = Limit::new(1);
    Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap()
        .block_on(poll_fn(|cx| {
            for _ in 0..10_000 {
                assert!(coop::has_budget_remaining());
                let unit = coop::poll_proceed(cx);
                assert!(unit.is_ready(), "what was dropped was given back");
            }
            let mut inside = 0;
            while coop::has_budget_remaining() {
                let Poll::Ready(_outer) = coop::poll_proceed(cx) else {
                    break;
                };
                if let Poll::Ready(inner) = coop::poll_proceed(cx) {
                    inner.made_progress();
                    inside += 1;
                } else {
                    break;
                }
                assert!(inside < 10_000, "what was spent inside counts");
            }
            Poll::Ready(())
        }));
}

/// The budget of a poll says nothing about time: what was ready before the deadline is the answer.
#[test]
fn an_output_that_the_budget_held_back_beats_the_deadline() {
    let _limit = Limit::new(1);
    let runtime = Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap();
    let answer = runtime.block_on(async {
        let mut neighbour = std::pin::pin!(spends_all());
        let mut read = std::pin::pin!(timeout(SOON, async {
            coop::consume_budget().await;
            7
        }));
        poll_fn(|cx| {
            assert!(neighbour.as_mut().poll(cx).is_pending());
            let polled = read.as_mut().poll(cx);
            // The deadline comes between two polls.
            std::thread::sleep(SOON);
            polled
        })
        .await
    });
    assert_eq!(answer, Ok(7));
}

/// `select!` is that of `futures` in all else: `default` waits for nothing, also outside of async
/// code, and a branch may leave the loop.
#[test]
fn select_is_used_as_ever() {
    let mut never = pending::<u32>().fuse();
    let n = ws::select! { n = never => n, default => 3 };
    assert_eq!(n, 3);
    let n =
        ws::select! { n = &mut futures::future::ready(4).fuse() => n, complete => 5, default => 3 };
    assert_eq!(n, 4);
    let _limit = Limit::new(1);
    let runtime = Builder::new().workers(1).build().unwrap();
    let answer: Result<u32, String> = runtime.block_on(async {
        let mut rounds = 0;
        let mut done = futures::future::Fuse::<std::future::Ready<()>>::terminated();
        loop {
            ws::select! {
                n = ready(Ok::<u32, String>(1)).fuse() => rounds += n?,
                () = done => unreachable!(),
                complete => break,
            }
            if rounds == 5 {
                break;
            }
        }
        Ok(rounds)
    });
    assert_eq!(answer, Ok(5));
}

/// What is buffered reaches the other end while the reader has nothing more.
#[test]
fn copy_flushes_when_the_reader_has_nothing() {
    let _limit = Limit::new(1);
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime
        .block_on(async {
            let (mut client, server) = net_support::tcp_pair().await?;
            let (mut far, near) = net_support::tcp_pair().await?;
            let copied = ws::spawn(async move {
                let mut buffered = ws::io::BufWriter::new(near);
                ws::io::copy(server, &mut buffered).await
            });
            client.write_all(b"ping").await?;
            let mut got = [0; 4];
            far.read_exact(&mut got).await?;
            assert_eq!(&got, b"ping");
            client.close().await?;
            assert_eq!(copied.await.unwrap()?, 4);
            Ok::<(), io::Error>(())
        })
        .unwrap();
}

#[test]
fn copy_takes_no_end_for_progress() {
    let _limit = Limit::new(1);
    let runtime = Builder::new().workers(1).build().unwrap();
    let mut space = [0; 2];
    let mut full = Cursor::new(&mut space[..]);
    let error = runtime.block_on(ws::io::copy(&b"abc"[..], &mut full));
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::WriteZero);
}
