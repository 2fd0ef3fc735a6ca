//! The load for the echo rows: one plain thread with a poll loop, in a process of its own.
//!
//! It is on none of the runtimes and costs the same against each. Every connection has one message
//! under way: it sends, reads the answer back, checks its length, and sends the next. The parent
//! process is spoken to in lines: after a warm-up this prints [`READY`], waits for [`GO`], runs for
//! the time given, and prints a [`Load`] as JSON.

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};

use crate::BoxError;
use crate::measure::{nanos, percentile};
use crate::report;

/// What the client says when its connections stand and are warm.
pub(crate) const READY: &str = "ready";
/// What it is told then.
pub(crate) const GO: &str = "go";

const MESSAGE: [u8; 64] = [b'w'; 64];
const WARM_UP: Duration = Duration::from_millis(50);

/// What the client measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) messages: usize,
    pub(crate) wall_ns: u64,
    pub(crate) p50_ns: f64,
    pub(crate) p99_ns: f64,
}

/// A connection with one message under way.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    sent: Instant,
    /// How much of the answer is here.
    received: usize,
}

/// Runs the client, to its end.
pub(crate) fn run(address: SocketAddr, connections: usize, millis: u64) -> Result<(), BoxError> {
    let mut poll = Poll::new()?;
    let mut connections = connect(&poll, address, connections)?;
    exchange(&mut poll, &mut connections, WARM_UP)?;

    report::line(READY);
    let mut input = io::stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line)?;
    if line.trim_end() != GO {
        return Err(format!("told `{line}` instead of `{GO}`").into());
    }

    let began = Instant::now();
    let mut latencies = exchange(&mut poll, &mut connections, Duration::from_millis(millis))?;
    let wall_ns = nanos(began.elapsed());
    latencies.sort_unstable();
    let load = Load {
        messages: latencies.len(),
        wall_ns,
        p50_ns: percentile(&latencies, 50),
        p99_ns: percentile(&latencies, 99),
    };
    report::line(&serde_json::to_string(&load)?);

    // The server reads its own clocks now, and should not see our connections close before.
    line.clear();
    input.read_line(&mut line)?;
    Ok(())
}

fn connect(poll: &Poll, address: SocketAddr, count: usize) -> io::Result<Vec<Connection>> {
    (0..count)
        .map(|index| {
            let stream = std::net::TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry()
                .register(&mut stream, Token(index), Interest::READABLE)?;
            Ok(Connection {
                stream,
                sent: Instant::now(),
                received: 0,
            })
        })
        .collect()
}

/// Sends on every connection, and again after each answer while there is time, then waits for the
/// last answers. Gives the latencies.
fn exchange(
    poll: &mut Poll,
    connections: &mut [Connection],
    length: Duration,
) -> io::Result<Vec<u64>> {
    let mut events = Events::with_capacity(1024);
    let mut latencies = Vec::new();
    let end = Instant::now() + length;
    for connection in &mut *connections {
        connection.send(Instant::now())?;
    }
    let mut waiting = connections.len();
    while waiting > 0 {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            result => result?,
        }
        for event in &events {
            let connection = &mut connections[event.token().0];
            if !connection.receive()? {
                continue;
            }
            let now = Instant::now();
            latencies.push(nanos(now - connection.sent));
            if now < end {
                connection.send(now)?;
            } else {
                waiting -= 1;
            }
        }
    }
    Ok(latencies)
}

impl Connection {
    fn send(&mut self, now: Instant) -> io::Result<()> {
        self.sent = now;
        self.received = 0;
        // The last message was answered, so the socket's buffer has room for this one.
        match self.stream.write(&MESSAGE)? {
            length if length == MESSAGE.len() => Ok(()),
            length => Err(io::Error::other(format!(
                "sent {length} bytes of a message"
            ))),
        }
    }

    /// Reads what is there. Says whether the answer is whole.
    fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [0; MESSAGE.len()];
        while self.received < MESSAGE.len() {
            match self.stream.read(&mut buffer[self.received..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.received += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
