//! F7: what is always ready gives way: each combinator of `ws` alone, around something that is always ready, and each way that
//! `task::coop` offers to others, ends its poll after the budget. So a timeout around it fires, and tasks behind it get
//! their turn, with one worker and no monitor.
//!
//! It fails when `budget::charged` takes no unit, when `poll_share` lets the first of several futures spend all, when
//! `ws::io::copy` is that of `futures`, when a macro does not take a unit before it begins, and when a `fork` that spawns
//! takes none.

mod net_support;

use std::cell::Cell;
use std::future::{Future, pending, poll_fn, ready};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready as ready_or_return};
use std::time::Duration;

use futures::FutureExt;
use net_support::Limit;
use ws::io::{AsyncRead, AsyncWrite, BufReader, Cursor};
use ws::runtime::Builder;
use ws::task::coop;
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

/// A timeout around `greedy` fires, in a task and at the root; and beside the one in a task another one gets turns.
fn gives_way<F>(greedy: fn() -> F)
where
    F: Future<Output = ()> + 'static,
{
    let _limit = Limit::new(1);
    let runtime = Builder::new().workers(1).sysmon(false).build().unwrap();
    let at_the_root = runtime.block_on(async { timeout(SOON, greedy()).await });
    assert!(at_the_root.is_err());
    runtime.block_on(async {
        let turns = Rc::new(Cell::new(0));
        let taken = turns.clone();
        let neighbour = ws::spawn_local(async move {
            loop {
                taken.set(taken.get() + 1);
                ws::task::yield_now().await;
            }
        });
        // As often as it takes: where this thread has no core for a while, the time may be over at the first look.
        let in_a_task = ws::spawn_local(async move {
            while turns.get() < 2 {
                assert!(timeout(SOON, greedy()).await.is_err());
            }
        });
        in_a_task.await.unwrap();
        neighbour.abort();
    });
}

macro_rules! gives_way {
    ($($name:ident: $future:expr;)*) => {$(
        #[test]
        fn $name() {
            gives_way(|| async { $future });
        }
    )*};
}

gives_way! {
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
    cooperative: loop {
        coop::cooperative(ready(())).await;
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
    let runtime = Builder::new().workers(1).sysmon(false).build().unwrap();
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

/// A unit that brought nothing is given back, and what was spent inside is not.
#[test]
fn a_unit_is_given_back() {
    let _limit = Limit::new(1);
    Builder::new()
        .workers(1)
        .sysmon(false)
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

/// `select!` is that of `futures` in all else: `default` waits for nothing, also outside of async code, and a branch may leave the loop.
#[test]
fn select_is_used_as_ever() {
    let mut never = pending::<u32>().fuse();
    let n = ws::select! { n = never => n, default => 3 };
    assert_eq!(n, 3);
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
            use ws::io::{AsyncReadExt, AsyncWriteExt};
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
