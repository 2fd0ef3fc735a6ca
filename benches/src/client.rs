//! The load for the echo rows: plain threads, mostly one with a poll loop, in a process of its own.
//!
//! It is on none of the runtimes and costs the same against each. Every connection has one message
//! under way: it sends, reads the answer back, checks its length, and sends the next. Or, on each
//! connection with a thread of its own, a message is due at a steady pace, and one that is due
//! while the last one is still under way counts from then: what a server that stalls for 100 ms
//! does to the messages of these 100 ms is not hidden by the client's waiting for the first of
//! them. The parent process is spoken to in lines: after a warm-up this prints [`READY`], waits for
//! [`GO`], runs for the time given, and prints a [`Load`] as JSON.

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::thread;
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

/// What the client is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) length: Duration,
    /// From one message to the next; zero for "as soon as the answer is here".
    pub(crate) pace: Duration,
}

/// What the client measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) messages: usize,
    pub(crate) wall_ns: u64,
    pub(crate) p50_ns: f64,
    pub(crate) p99_ns: f64,
    pub(crate) max_ns: f64,
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
pub(crate) fn run(plan: &Plan) -> Result<(), BoxError> {
    let mut client = Client::connect(plan)?;
    client.exchange(WARM_UP)?;

    report::line(READY);
    let mut input = io::stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line)?;
    if line.trim_end() != GO {
        return Err(format!("told `{line}` instead of `{GO}`").into());
    }

    let began = Instant::now();
    let mut latencies = client.exchange(plan.length)?;
    let wall_ns = nanos(began.elapsed());
    latencies.sort_unstable();
    let load = Load {
        messages: latencies.len(),
        wall_ns,
        p50_ns: percentile(&latencies, 50),
        p99_ns: percentile(&latencies, 99),
        max_ns: percentile(&latencies, 100),
    };
    report::line(&serde_json::to_string(&load)?);

    // The server reads its own clocks now, and should not see our connections close before.
    line.clear();
    input.read_line(&mut line)?;
    Ok(())
}

/// The connections, and how they are used.
enum Client {
    Busy {
        poll: Poll,
        connections: Vec<Connection>,
    },
    Paced {
        streams: Vec<std::net::TcpStream>,
        pace: Duration,
    },
}

impl Client {
    fn connect(plan: &Plan) -> io::Result<Self> {
        if plan.pace > Duration::ZERO {
            let connect = |_| {
                let stream = std::net::TcpStream::connect(plan.address)?;
                stream.set_nodelay(true)?;
                Ok(stream)
            };
            let streams = (0..plan.connections)
                .map(connect)
                .collect::<io::Result<_>>()?;
            let pace = plan.pace;
            return Ok(Client::Paced { streams, pace });
        }
        let poll = Poll::new()?;
        let connections = connect(&poll, plan.address, plan.connections)?;
        Ok(Client::Busy { poll, connections })
    }

    fn exchange(&mut self, length: Duration) -> io::Result<Vec<u64>> {
        match self {
            Client::Busy { poll, connections } => exchange(poll, connections, length),
            Client::Paced { streams, pace } => {
                let pace = *pace;
                thread::scope(|scope| {
                    let exchanges: Vec<_> = streams
                        .iter_mut()
                        .map(|stream| scope.spawn(move || exchange_paced(stream, pace, length)))
                        .collect();
                    let mut all = Vec::new();
                    for exchange in exchanges {
                        all.extend(exchange.join().expect("no exchange panics")?);
                    }
                    Ok(all)
                })
            }
        }
    }
}

/// Sends a message each `pace`. What was due while an earlier one was under way counts as answered
/// with that one, and is not sent: so a stall is seen by all the messages that it holds up, and the
/// run ends in time even if every message stalls. What this thread's own sleep adds does not count.
fn exchange_paced(
    stream: &mut std::net::TcpStream,
    pace: Duration,
    length: Duration,
) -> io::Result<Vec<u64>> {
    let mut latencies = Vec::new();
    let mut due = Instant::now();
    let end = due + length;
    let mut buffer = [0; MESSAGE.len()];
    while due < end {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        stream.write_all(&MESSAGE)?;
        stream.read_exact(&mut buffer)?;
        let answered = Instant::now();
        latencies.push(nanos(answered - sent));
        // A thread that slept too long missed nothing by the server's fault.
        due = (due + pace).max(sent);
        while due < answered {
            latencies.push(nanos(answered - due));
            due += pace;
        }
    }
    Ok(latencies)
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
