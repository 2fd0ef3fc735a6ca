//! What `cargo xtask calls` counts system calls and context switches of: a path, so many times.
//!
//! `ws-calls PATH TIMES`. The thread of `main` is the only worker and there is no monitor, so a run
//! makes the same calls each time. Both ends of a connection are tasks of that worker: what is
//! counted is what both do. The counts of two runs with different `TIMES` are subtracted, so the
//! start and the end of the program are not in them. How often the thread was put to sleep is
//! printed.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::{convert::Infallible, error::Error, time::Duration};

use http_body_util::Full;
use hyper::{Response, body::Bytes, server::conn::http1, service::service_fn};
use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

#[path = "../own_clock.rs"]
mod own_clock;

type Done = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, times] = &arguments[..] else {
        return Err("usage: ws-calls PATH TIMES".into());
    };
    let times = times.parse()?;
    let runtime = ws::runtime::Builder::new()
        .workers(1)
        .sysmon(ws::runtime::Sysmon::Off)
        .seed(1)
        .build()?;
    // About an echo. Timers are set by the kernel's clock.
    let step = Duration::from_micros(if path.starts_with("timers") { 0 } else { 5 });
    own_clock::within(step, || match path.as_str() {
        "ping_pong" => runtime.run(ping_pong(times)),
        "echo" => runtime.run(echo(times)),
        "echo_64" => runtime.run(echo_64(times)),
        "hello" => runtime.run(hello(times)),
        "connect" => runtime.run(connect(times)),
        "timers" => runtime.run(timers(times)),
        "timers_dropped" => runtime.run(timers_dropped(times)),
        _ => Err(format!("no path `{path}`").into()),
    })?;
    println!("switches {}", switches()?);
    Ok(())
}

/// Messages between two tasks: no call at all.
async fn ping_pong(times: usize) -> Done {
    let (ping, pinged) = async_channel::bounded(1);
    let (pong, ponged) = async_channel::bounded(1);
    let answers = ws::spawn(async move {
        while let Ok(trip) = pinged.recv().await {
            pong.send(trip).await.expect("the other end waits for it");
        }
    });
    for trip in 0..times {
        ping.send(trip).await?;
        assert_eq!(ponged.recv().await?, trip);
    }
    ping.close();
    answers.await?;
    Ok(())
}

/// A server that sends back what comes.
async fn server() -> std::io::Result<TcpListener> {
    TcpListener::bind("127.0.0.1:0").await
}

async fn answers(mut peer: TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 64];
    while let len @ 1.. = peer.read(&mut buffer).await? {
        peer.write_all(&buffer[..len]).await?;
    }
    Ok(())
}

async fn asks(mut stream: TcpStream, times: usize) -> std::io::Result<()> {
    let mut answer = [0; 5];
    for _ in 0..times {
        stream.write_all(b"hello").await?;
        stream.read_exact(&mut answer).await?;
    }
    Ok(())
}

/// A message there and back.
async fn echo(times: usize) -> Done {
    let listener = server().await?;
    let stream = TcpStream::connect(listener.local_addr()?).await?;
    let (peer, _) = listener.accept().await?;
    let answers = ws::spawn(answers(peer));
    asks(stream, times).await?;
    Ok(answers.await??)
}

/// The same over 64 connections at once.
async fn echo_64(times: usize) -> Done {
    const CONNECTIONS: usize = 64;
    let listener = server().await?;
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(listener.local_addr()?).await?;
        let (peer, _) = listener.accept().await?;
        tasks.push(ws::spawn(answers(peer)));
        tasks.push(ws::spawn(asks(stream, times / CONNECTIONS)));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// A request that hyper answers, over one connection that stays open.
async fn hello(times: usize) -> Done {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let listener = server().await?;
    let mut stream = TcpStream::connect(listener.local_addr()?).await?;
    let (peer, _) = listener.accept().await?;
    let served = ws::spawn(http1::Builder::new().serve_connection(
        ws::hyper::Io::new(peer),
        service_fn(|_| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"Hello!\n"))))
        }),
    ));
    let mut buffer = [0; 512];
    for _ in 0..times {
        stream.write_all(REQUEST).await?;
        let mut len = 0;
        while !buffer[..len].ends_with(b"Hello!\n") {
            let more = stream.read(&mut buffer[len..]).await?;
            assert!(more > 0, "the server has closed the connection");
            len += more;
        }
    }
    drop(stream);
    Ok(served.await??)
}

/// A connection that is made, accepted and closed.
async fn connect(times: usize) -> Done {
    let listener = server().await?;
    let address = listener.local_addr()?;
    for _ in 0..times {
        let stream = TcpStream::connect(address).await?;
        let (peer, _) = listener.accept().await?;
        // Abrupt, so that the ports are free again at once.
        stream.set_linger(Some(Duration::ZERO))?;
        drop((stream, peer));
    }
    Ok(())
}

/// A task that sleeps.
async fn timers(times: usize) -> Done {
    for _ in 0..times {
        ws::time::sleep(Duration::from_micros(500)).await;
    }
    Ok(())
}

/// A timeout that is not needed: no call at all.
async fn timers_dropped(times: usize) -> Done {
    for _ in 0..times {
        let far = Duration::from_secs(3600);
        ws::time::timeout(far, ws::task::yield_now()).await?;
    }
    Ok(())
}

/// How often this thread has gone to sleep so far.
fn switches() -> Result<u64, Box<dyn Error + Send + Sync>> {
    const FIELD: &str = "voluntary_ctxt_switches:";
    let status = std::fs::read_to_string("/proc/thread-self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(FIELD));
    Ok(line
        .ok_or("the kernel does not count them")?
        .trim()
        .parse()?)
}
