//! What programs do with a runtime, each part by itself: a line says what came of it.

use std::{
    fs,
    future::{Future, pending},
    io,
    pin::Pin,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    time::{Duration, Instant},
};

use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket, UnixStream},
    process::Child,
    runtime::{BuildError, Builder, Runtime},
    signal::unix::{SignalKind, signal},
    time::{sleep, timeout},
};

type Work = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// The parts, by name.
fn parts() -> Vec<(&'static str, Work)> {
    vec![
        ("spawn", Box::pin(spawns())),
        ("sleep", Box::pin(sleeps())),
        ("timeout", Box::pin(times_out())),
        ("tcp", Box::pin(echoes())),
        ("udp", Box::pin(datagrams())),
        ("unix", Box::pin(pair())),
        ("blocking", Box::pin(blocks())),
        ("stuck", Box::pin(stuck())),
        ("computes", Box::pin(computes())),
        ("process", Box::pin(process())),
        ("signal", Box::pin(raises())),
        ("files", Box::pin(files())),
        ("names", Box::pin(names())),
    ]
}

/// Writes what came of a part, and gives it back if the part failed.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
pub(crate) fn row(name: &str, answer: io::Result<()>) -> Option<String> {
    let failed = answer.err().map(|error| format!("{name}: {error}"));
    match &failed {
        None => println!("row {name}: ok"),
        Some(failed) => println!("row {failed}"),
    }
    failed
}

/// An error as users see it: with what is behind it.
pub(crate) fn whole(error: &BuildError) -> String {
    let source = std::error::Error::source(error);
    match source {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Builds a runtime and does all of it. If there is no runtime, that is the only line. Gives back
/// what failed.
pub(crate) fn all(builder: &Builder) -> Vec<String> {
    match builder.clone().build() {
        Ok(runtime) => in_runtime(runtime),
        Err(error) => Vec::from_iter(row("build", Err(io::Error::other(whole(&error))))),
    }
}

/// All parts, one after the other, and the end.
pub(crate) fn in_runtime(runtime: Runtime) -> Vec<String> {
    let mut failed = Vec::new();
    runtime.block_on(async {
        for (name, part) in parts() {
            let answer = match ws::spawn(part).await {
                Ok(answer) => answer,
                Err(error) => Err(io::Error::other(error)),
            };
            failed.extend(row(name, answer));
        }
    });
    drop(runtime);
    row("end", Ok(()));
    failed
}

async fn spawns() -> io::Result<()> {
    let tasks: Vec<_> = (0..100).map(|n| ws::spawn(async move { n })).collect();
    for (n, task) in tasks.into_iter().enumerate() {
        let answer = task.await.map_err(io::Error::other)?;
        assert_eq!(n, answer);
    }
    Ok(())
}

async fn sleeps() -> io::Result<()> {
    for us in [100, 2_500, 0] {
        let began = Instant::now();
        sleep(Duration::from_micros(us)).await;
        assert!(began.elapsed() >= Duration::from_micros(us), "it is early");
    }
    Ok(())
}

/// While the only thread waits in the netpoll for an hour, another arms an earlier timer.
async fn times_out() -> io::Result<()> {
    let handle = ws::runtime::Handle::current();
    let long = ws::spawn(timeout(Duration::from_secs(3600), sleep(Duration::MAX)));
    let short = std::thread::spawn(move || {
        let over = async { timeout(Duration::from_millis(3), pending::<()>()).await };
        handle.block_on(over)
    });
    let joined = ws::spawn_blocking(move || short.join());
    let short = joined.await.map_err(io::Error::other)?;
    assert!(short.is_ok_and(|answer| answer.is_err()), "it is not over");
    long.abort();
    Ok(())
}

async fn echoes() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = ws::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let mut bytes = vec![0; 100_000];
        stream.read_exact(&mut bytes).await?;
        stream.write_all(&bytes).await
    });
    let mut stream = TcpStream::connect(address).await?;
    let sent = crate::net_support::pattern(100_000, 3);
    stream.write_all(&sent).await?;
    let mut back = Vec::new();
    stream.read_to_end(&mut back).await?;
    assert_eq!(sent, back);
    server.await.map_err(io::Error::other)?
}

async fn datagrams() -> io::Result<()> {
    let one = UdpSocket::bind("127.0.0.1:0").await?;
    let other = UdpSocket::bind("127.0.0.1:0").await?;
    one.send_to(b"hello", other.local_addr()?).await?;
    let mut bytes = [0; 16];
    let (len, from) = other.recv_from(&mut bytes).await?;
    assert_eq!((&bytes[..len], from), (&b"hello"[..], one.local_addr()?));
    Ok(())
}

async fn pair() -> io::Result<()> {
    let (mut one, mut other) = UnixStream::pair()?;
    let reader = ws::spawn(async move {
        let mut text = String::new();
        other.read_to_string(&mut text).await.map(|_| text)
    });
    one.write_all(b"hello").await?;
    drop(one);
    assert_eq!(reader.await.map_err(io::Error::other)??, "hello");
    Ok(())
}

/// More calls at once than there are workers, and each waits for the next one.
async fn blocks() -> io::Result<()> {
    let (first, mut last) = mpsc::channel();
    let mut calls = Vec::new();
    for _ in 0..4 {
        let (to, from) = mpsc::channel();
        let before = std::mem::replace(&mut last, from);
        calls.push(ws::spawn_blocking(move || {
            let _: Result<(), _> = before.recv().map(|()| to.send(()).expect("it waits"));
        }));
    }
    first.send(()).expect("the first call waits");
    for call in calls {
        call.await.map_err(io::Error::other)?;
    }
    last.recv().map_err(io::Error::other)
}

/// Tasks that wait without notice, one more than there are workers, for a task that comes later.
async fn stuck() -> io::Result<()> {
    let workers = ws::runtime::Handle::current().metrics().workers;
    let (ends, begun): (Vec<_>, Vec<_>) = (0..=workers).map(|_| mpsc::channel::<()>()).unzip();
    let stuck: Vec<_> = begun
        .into_iter()
        .map(|end| ws::spawn(async move { _ = end.recv() }))
        .collect();
    ws::spawn(async move { drop(ends) })
        .await
        .map_err(io::Error::other)?;
    for task in stuck {
        task.await.map_err(io::Error::other)?;
    }
    Ok(())
}

/// Tasks that compute, one for each worker, until a task that comes later says that it is enough.
async fn computes() -> io::Result<()> {
    let workers = ws::runtime::Handle::current().metrics().workers;
    let enough = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..workers)
        .map(|_| {
            let enough = enough.clone();
            ws::spawn(async move {
                while !enough.load(SeqCst) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    ws::spawn(async move { enough.store(true, SeqCst) })
        .await
        .map_err(io::Error::other)?;
    for task in tasks {
        task.await.map_err(io::Error::other)?;
    }
    Ok(())
}

async fn process() -> io::Result<()> {
    let child = ws::process::spawn(Command::new("/bin/sh").args(["-c", "exit 7"]))?;
    assert_eq!(Child::new(child)?.wait().await?.code(), Some(7));
    Ok(())
}

async fn raises() -> io::Result<()> {
    let mut heard = signal(SignalKind::user_defined2())?;
    signal_hook::low_level::raise(SignalKind::user_defined2().as_raw())?;
    heard.recv().await
}

async fn files() -> io::Result<()> {
    let path = std::env::temp_dir().join(format!("ws-small-{}", std::process::id()));
    let answer = async {
        ws::fs::write(&path, b"hello").await?;
        assert_eq!(ws::fs::read(&path).await?, b"hello");
        io::Result::Ok(())
    }
    .await;
    let _ = fs::remove_file(&path);
    answer
}

async fn names() -> io::Result<()> {
    let bound = TcpListener::bind("localhost:0").await?;
    assert!(bound.local_addr()?.ip().is_loopback());
    Ok(())
}
