//! How good a TCP server is the runtime?
//!
//! Each connection has a task that sends back what it gets, 64 bytes at a time. The load comes from
//! another process, which is on no runtime, over 1 connection (latency), 64 or 1,000 (throughput),
//! each with one message under way. CPU time and context switches are the server's alone.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use futures::channel::oneshot;
use futures::io::{AsyncReadExt, AsyncWriteExt};

use super::{Figure, Row};
use crate::BoxError;
use crate::cli::Params;
use crate::client::{self, Load};
use crate::measure::{Measure, Meter, Outcome};
use crate::rt::Rt;
use crate::sys;

pub(super) fn rows<R: Rt>() -> [Row; 3] {
    let operation = "a message there and back";
    [
        Row::new("echo_1", operation, Figure::Time, |params| {
            echo::<R>(params, 1)
        }),
        Row::new("echo_64", operation, Figure::Time, |params| {
            echo::<R>(params, 64)
        }),
        Row::new("echo_1000", operation, Figure::Time, |params| {
            echo::<R>(params, 1_000)
        })
        .full_only(),
    ]
}

fn echo<R: Rt>(params: Params, connections: usize) -> Result<Outcome, BoxError> {
    sys::raise_file_limit()?;
    let length = params.millis(400, 250);
    let root = async move {
        let (measure, load) = serve_and_drive::<R>(connections, length, Duration::ZERO).await?;
        let wall = Duration::from_nanos(load.wall_ns);
        Ok::<Measure, BoxError>(
            measure
                .with("p50_us", load.p50_ns / 1e3)
                .with("p99_us", load.p99_ns / 1e3)
                .with(
                    "kmsg_per_s",
                    load.messages as f64 / wall.as_secs_f64() / 1e3,
                ),
        )
    };
    Ok(Outcome::Measured(R::build(params.workers).run(root)?))
}

/// Serves on the current runtime while a client in another process loads it.
pub(super) async fn serve_and_drive<R: Rt>(
    connections: usize,
    length: Duration,
    pace: Duration,
) -> Result<(Measure, Load), BoxError> {
    let listener = R::listen().await?;
    let address = R::address(&listener)?;
    R::detach(serve::<R>(listener));
    let (done, ended) = oneshot::channel();
    let driver = thread::spawn(move || {
        // The root waits for it, and has gone only if the whole process goes.
        done.send(drive(address, connections, length, pace)).is_ok()
    });
    let result = ended.await??;
    driver.join().expect("it ends after it has sent");
    Ok(result)
}

async fn serve<R: Rt>(listener: R::Listener) {
    loop {
        match R::accept(&listener).await {
            Ok(stream) => R::detach(async {
                if let Err(error) = send_back(stream).await {
                    eprintln!("echo: a connection ended: {error}");
                }
            }),
            Err(error) => {
                eprintln!("echo: no more connections: {error}");
                return;
            }
        }
    }
}

async fn send_back<S>(mut stream: S) -> io::Result<()>
where
    S: futures::io::AsyncRead + futures::io::AsyncWrite + Unpin,
{
    let mut buffer = [0; 1024];
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..length]).await?;
    }
}

/// Starts the client, waits until it is warm, lets it go, and takes its figures.
fn drive(
    address: SocketAddr,
    connections: usize,
    length: Duration,
    pace: Duration,
) -> Result<(Measure, Load), BoxError> {
    let mut client = Command::new(std::env::current_exe()?)
        .arg("--client")
        .args([
            address.to_string(),
            connections.to_string(),
            length.as_millis().to_string(),
            pace.as_micros().to_string(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = client.stdin.take().expect("it is piped");
    let mut output = BufReader::new(client.stdout.take().expect("it is piped"));
    let mut line = String::new();
    output.read_line(&mut line)?;
    if line.trim_end() != client::READY {
        return Err(format!("the client did not start: `{line}`").into());
    }

    let meter = Meter::start();
    writeln!(input, "{}", client::GO)?;
    line.clear();
    output.read_line(&mut line)?;
    let load: Load = serde_json::from_str(&line)?;
    let wall = Duration::from_nanos(load.wall_ns);
    let measure = meter.stop_after(load.messages, wall);

    // The end of its input is the client's sign to go home.
    drop(input);
    let status = client.wait()?;
    if !status.success() {
        return Err(format!("the client failed: {status}").into());
    }
    Ok((measure, load))
}
