//! `docs/porting.md`, followed: a small service on tokio, and what it has become. The same client
//! talks to both.

mod after;
mod before;

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    net::{SocketAddr, TcpStream},
    sync::mpsc,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use crate::harness::{self, proofs};

/// What both services know.
#[derive(Clone, Copy)]
struct Limits {
    /// A client that says nothing for this time is sent away.
    silence: Duration,
    /// At most one line in this time.
    per_line: Duration,
}

fn connect(address: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    BufReader::new(stream)
}

fn line(client: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line
}

/// Starts a service, which tells its address, and talks to it until it has ended.
fn drive(serve: fn(Limits, CancellationToken, mpsc::Sender<SocketAddr>)) {
    let start = |silence, per_line| {
        let limits = Limits {
            silence,
            per_line: Duration::from_millis(per_line),
        };
        let stop = CancellationToken::new();
        let (send, address) = mpsc::channel();
        let stopped = stop.clone();
        // Not a runtime's.
        let thread = harness::thread(move || serve(limits, stopped, send));
        (address.recv().unwrap(), stop, thread)
    };

    // Lines come back, no faster than the limit. Then the service is told to stop, and says so to
    // the clients that are there.
    let (address, stop, service) = start(Duration::from_secs(60), 5);
    // The connection's limit counts from when it is accepted, which nobody here knows to be later
    // than this.
    let begin = Instant::now();
    let mut talking = connect(address);
    let mut waiting = connect(address);
    for n in 0..20 {
        talking
            .get_mut()
            .write_all(format!("line {n}\n").as_bytes())
            .unwrap();
    }
    for n in 0..20 {
        assert_eq!(line(&mut talking), format!("line {n}\n"));
    }
    assert!(begin.elapsed() >= 19 * Duration::from_millis(5));
    waiting.get_mut().write_all(b"here\n").unwrap();
    assert_eq!(line(&mut waiting), "here\n");
    stop.cancel();
    for mut client in [talking, waiting] {
        assert_eq!(line(&mut client), "bye\n");
        assert_eq!(line(&mut client), "");
    }
    service.join().unwrap();
    assert_eq!(
        TcpStream::connect(address).unwrap_err().kind(),
        ErrorKind::ConnectionRefused
    );

    // A client that says nothing is sent away.
    let (address, stop, service) = start(Duration::from_millis(50), 1);
    let mut silent = connect(address);
    assert_eq!(line(&mut silent), "too slow\n");
    assert_eq!(line(&mut silent), "");
    stop.cancel();
    service.join().unwrap();
}

/// What had to change behind the lines of `use`, as the table in the guide says it.
const CHANGES: [(&str, &str); 8] = [
    ("listener.accept() =>", "listener.accept().fuse() =>"),
    ("stop.cancelled() =>", "stop.cancelled().fuse() =>"),
    (
        "connections.spawn(connection(stream, limits, stop.clone()))",
        "ws::spawn(connections.track_future(connection(stream, limits, stop.clone())))",
    ),
    ("lines.next_line()) =>", "lines.next()).fuse() =>"),
    ("Ok(Ok(Some(line)))", "Ok(Some(Ok(line)))"),
    ("Ok(Ok(None))", "Ok(None)"),
    ("Ok(Err(error))", "Ok(Some(Err(error)))"),
    ("write.shutdown()", "write.close()"),
];

/// With these changes the service as it was is the service as it is.
#[test]
fn nothing_else_had_to_change() {
    let code = |file: &'static str| file.split_once("use super::Limits;").unwrap().1;
    let mut ported = code(include_str!("ported/before.rs")).to_owned();
    for (before, after) in CHANGES {
        assert!(ported.contains(before), "{before}");
        ported = ported.replace(before, after);
    }
    assert_eq!(ported, code(include_str!("ported/after.rs")));
}

proofs! {
    /// The service as it was. Its runtime of tokio's has no thread but the one that it runs on.
    async fn before_the_port(env) {
        ws::spawn_blocking(|| drive(|limits, stop, address| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                address.send(listener.local_addr().unwrap()).unwrap();
                before::serve(listener, limits, stop).await.unwrap();
            });
        }))
        .await
        .unwrap();
    }

    /// The service after the port, and no thread of tokio's.
    async fn after_the_port(env) {
        ws::spawn_blocking(|| drive(|limits, stop, address| {
            harness::runtime().build().unwrap().block_on(async {
                let listener = ws::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                address.send(listener.local_addr().unwrap()).unwrap();
                after::serve(listener, limits, stop).await.unwrap();
            });
        }))
        .await
        .unwrap();
    }
}
