//! The loads. Each checks its own results, and panics if they are wrong.

use std::{
    future::{Future, pending},
    hint, io,
    pin::Pin,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use futures::{
    StreamExt,
    channel::{mpsc, oneshot},
};
use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket, UnixStream},
    runtime::Runtime,
    task::{self, JoinHandle, JoinSet},
};

use crate::{books::Books, forks};

/// What tasks panic with on purpose.
pub(crate) const EXPECTED: &str = "expected by the soak";

/// Later than the soak.
const FAR: Duration = Duration::from_secs(86_400 * 365);

type Boxed = Pin<Box<dyn Future<Output = u64> + Send>>;

/// One round of everything at once.
pub(crate) fn all(runtime: &Runtime, books: &Books, sysmon: bool) {
    let mut tasks: Vec<JoinHandle<()>> = Vec::new();
    let mut start = |load: Pin<Box<dyn Future<Output = ()> + Send>>| {
        tasks.push(runtime.spawn(books.enter(load)));
    };
    for _ in 0..2 {
        start(Box::pin(trees(books.clone())));
        start(Box::pin(channels(books.clone())));
        start(Box::pin(timers(books.clone())));
        start(Box::pin(blocking(books.clone(), sysmon)));
        start(Box::pin(aborts_and_panics(books.clone())));
        start(Box::pin(pinned(books.clone())));
        start(Box::pin(sockets(books.clone())));
        start(Box::pin(forks::forks(books.clone())));
    }
    start(Box::pin(computes(books.clone())));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| foreign(runtime, books));
        }
    });
    for task in tasks {
        runtime.block_on(task).expect("a load does not panic");
    }
}

/// Tasks that wait for ever, in every way: for the end of the runtime.
pub(crate) fn left_waiting(runtime: &Runtime, books: &Books, workers: usize) {
    // One that is alone would compute for ever, and not come to the end.
    if workers > 1 {
        drop(runtime.spawn(books.enter(ws::compute(forks::for_ever))));
    }
    for n in 0..200 {
        drop(match n % 4 {
            0 => runtime.spawn(books.enter(pending::<()>())),
            1 => runtime.spawn(books.enter(async { ws::time::sleep(FAR).await })),
            2 => runtime.spawn(books.enter(async {
                loop {
                    task::yield_now().await;
                }
            })),
            _ => {
                let inner = books.enter(pending::<()>());
                runtime.spawn(books.enter(async move {
                    drop(ws::spawn_local(inner).await);
                }))
            }
        });
    }
}

/// Trees of tasks that are joined, at random; each counts its leaves.
async fn trees(books: Books) {
    fn node(books: Books, depth: u64) -> Boxed {
        let own = books.clone();
        Box::pin(own.enter(async move {
            if depth == 0 {
                return 1;
            }
            let children: Vec<_> = (0..3)
                .map(|_| ws::spawn(node(books.clone(), depth - 1)))
                .collect();
            if books.below(3) == 0 {
                task::yield_now().await;
            }
            let mut leaves = 0;
            for child in children {
                leaves += child.await.expect("a node does not panic");
            }
            leaves
        }))
    }
    let depth = books.below(6);
    let leaves = node(books.clone(), depth).await;
    assert_eq!(leaves, 3_u64.pow(depth as u32));
    books.done("leaves of trees", leaves);
}

/// Many senders and one receiver; then a token that goes round a ring.
async fn channels(books: Books) {
    let (send, mut receive) = mpsc::channel(8);
    let senders = 1 + books.below(10);
    for sender in 0..senders {
        let mut send = send.clone();
        drop(ws::spawn(books.enter(async move {
            use futures::SinkExt;
            for n in 0..100 {
                send.send(sender * 100 + n)
                    .await
                    .expect("somebody receives");
            }
        })));
    }
    drop(send);
    let mut all = Vec::new();
    while let Some(message) = receive.next().await {
        all.push(message);
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..senders * 100), "a message was lost");

    let hops = 1 + books.below(50);
    let (first, mut last) = oneshot::channel();
    for _ in 0..hops {
        let (send, receive) = oneshot::channel();
        let from = std::mem::replace(&mut last, receive);
        drop(ws::spawn(books.enter(async move {
            let token: u64 = from.await.expect("it comes");
            send.send(token + 1).expect("somebody waits");
        })));
    }
    first.send(0).expect("somebody waits");
    assert_eq!(last.await.expect("it comes"), hops);
    books.done("messages", senders * 100 + hops);
}

/// Sleeps, which are never early; timeouts; a ticker.
async fn timers(books: Books) {
    let mut set = JoinSet::new();
    for _ in 0..50 {
        let (micros, own) = (books.below(3000), books.clone());
        set.spawn(books.enter(async move {
            let (begin, wanted) = (Instant::now(), Duration::from_micros(micros));
            match own.below(3) {
                0 => {
                    let never = ws::time::timeout(wanted, pending::<()>());
                    assert!(never.await.is_err(), "it never ends");
                }
                1 => {
                    // The one that is armed first goes unused.
                    let mut sleep = std::pin::pin!(ws::time::sleep(Duration::from_secs(3600)));
                    assert!(futures::poll!(sleep.as_mut()).is_pending());
                    sleep.as_mut().reset(ws::time::Instant::now() + wanted);
                    sleep.await;
                }
                _ => ws::time::sleep(wanted).await,
            }
            assert!(begin.elapsed() >= wanted, "too early");
        }));
    }
    while let Some(joined) = set.join_next().await {
        joined.expect("a timer does not panic");
    }
    let mut ticks = ws::time::interval(Duration::from_micros(300));
    for _ in 0..5 {
        ticks.tick().await;
    }
    books.done("timers", 55);
}

/// Code that blocks, announced and not.
async fn blocking(books: Books, sysmon: bool) {
    let mut jobs = Vec::new();
    for n in 0..20_u64 {
        let nap = Duration::from_micros(books.below(500));
        jobs.push(ws::spawn_blocking(move || {
            thread::sleep(nap);
            n
        }));
    }
    let (send, receive) = std::sync::mpsc::channel();
    drop(ws::spawn(
        books.enter(async move { send.send(5).expect("somebody waits") }),
    ));
    // Nobody but the monitor brings a thread to the task that it waits for, if it does not say so.
    let five = if sysmon && books.below(2) == 0 {
        receive.recv()
    } else {
        ws::block_in_place(|| receive.recv())
    };
    assert_eq!(five, Ok(5));
    for (n, job) in jobs.into_iter().enumerate() {
        if n % 5 == 4 {
            job.abort();
            drop(job.await);
        } else {
            assert_eq!(job.await.expect("a job does not panic"), n as u64);
        }
    }
    books.done("blocking calls", 21);
}

/// What computes for long, now and then for longer than a slice.
async fn computes(books: Books) {
    let until = Instant::now() + Duration::from_micros(books.below(15_000));
    let mut rounds = 0_u64;
    while Instant::now() < until {
        rounds = hint::black_box(rounds + 1);
        if rounds.is_multiple_of(1024) && books.below(2) == 0 {
            task::yield_if_due().await;
        }
    }
    books.done("long polls", 1);
}

async fn aborts_and_panics(books: Books) {
    for n in 0..30 {
        let doomed = ws::spawn(books.enter(async move {
            if n % 2 == 0 {
                task::yield_now().await;
            }
            if n % 3 == 0 {
                std::panic::panic_any(EXPECTED);
            }
            pending::<()>().await;
        }));
        if n % 3 == 0 {
            let error = doomed.await.expect_err("it panics");
            assert_eq!(error.into_panic().downcast_ref(), Some(&EXPECTED));
        } else {
            if n % 5 == 0 {
                task::yield_now().await;
            }
            doomed.abort();
            assert!(doomed.await.expect_err("it never ends").is_cancelled());
        }
    }
    books.done("aborts and panics", 30);
}

/// Tasks that are not `Send`, which stay on their thread.
async fn pinned(books: Books) {
    let mut tasks = Vec::new();
    for _ in 0..10 {
        let own = books.clone();
        tasks.push(ws::spawn_pinned(move || {
            let entered = own.clone();
            entered.enter(async move {
                let (here, count) = (thread::current().id(), Rc::new(1_u64));
                for _ in 0..own.below(5) {
                    match own.below(3) {
                        0 => task::yield_now().await,
                        1 => ws::time::sleep(Duration::from_micros(own.below(200))).await,
                        _ => drop(ws::spawn(task::yield_now()).await),
                    }
                    assert_eq!(thread::current().id(), here, "a pinned task has moved");
                }
                *count
            })
        }));
    }
    let mut sum = 0;
    for task in tasks {
        sum += task.await.expect("a pinned task does not panic");
    }
    assert_eq!(sum, 10);
    books.done("pinned tasks", sum);
}

/// Echo over TCP and a Unix pair, datagrams over UDP, and peers that go away.
async fn sockets(books: Books) {
    let bytes = echo(&books).await.expect("loopback works");
    books.done("bytes echoed", bytes);
}

async fn echo(books: &Books) -> io::Result<u64> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = ws::spawn(books.enter(async move {
        let (stream, _) = listener.accept().await?;
        answer(stream).await
    }));
    let mut bytes = asks(TcpStream::connect(address).await?, books).await?;
    server.await.expect("the server does not panic")?;

    let (client, peer) = UnixStream::pair()?;
    let server = ws::spawn(books.enter(answer(peer)));
    bytes += asks(client, books).await?;
    server.await.expect("the server does not panic")?;

    let (one, other) = (
        UdpSocket::bind("127.0.0.1:0").await?,
        UdpSocket::bind("127.0.0.1:0").await?,
    );
    one.connect(other.local_addr()?).await?;
    one.send(&[7; 100]).await?;
    let mut datagram = [0; 200];
    assert_eq!(other.recv(&mut datagram).await?, 100);
    Ok(bytes + 100)
}

async fn answer(
    mut stream: impl futures::AsyncRead + futures::AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut buffer = vec![0; 1000];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return stream.close().await,
            len => stream.write_all(&buffer[..len]).await?,
        }
    }
}

async fn asks(
    mut stream: impl futures::AsyncRead + futures::AsyncWrite + Unpin,
    books: &Books,
) -> io::Result<u64> {
    let mut sum = 0;
    for _ in 0..books.below(20) {
        let message: Vec<u8> = (0..1 + books.below(900))
            .map(|_| books.below(256) as u8)
            .collect();
        stream.write_all(&message).await?;
        let mut back = vec![0; message.len()];
        stream.read_exact(&mut back).await?;
        assert!(back == message, "the echo differs");
        sum += message.len() as u64;
    }
    stream.close().await?;
    assert_eq!(stream.read(&mut [0]).await?, 0);
    Ok(sum)
}

/// A thread of the user's own that calls in.
fn foreign(runtime: &Runtime, books: &Books) {
    for n in 0..50 {
        let sum = runtime.block_on(async {
            let child = ws::spawn(books.enter(async move { n }));
            let local = ws::spawn_local(books.enter(async move {
                task::yield_now().await;
                Rc::new(n)
            }));
            child.await.expect("it ends") + *local.await.expect("it ends")
        });
        assert_eq!(sum, 2 * n);
        let spawned = runtime.spawn(books.enter(async move { n }));
        if n % 2 == 0 {
            assert_eq!(runtime.block_on(spawned).expect("it ends"), n);
        }
    }
    books.done("calls from foreign threads", 100);
}
