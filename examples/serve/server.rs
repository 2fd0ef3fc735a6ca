//! The life of the server and of its connections.
//!
//! Each connection is a task in a set. At the end, in this order:
//!
//! 1. The first signal comes. Who is in the listener's queue by then is let in, and the listener is
//!    closed.
//! 2. Every connection hears of it: one that is idle is closed, one that is in the middle of a
//!    request answers that and is closed then.
//! 3. The server waits for the last one, until the time of `--grace` is over or a second signal
//!    comes. What is left then is aborted.

use std::{
    convert::Infallible,
    fmt::Display,
    io::{self, Write},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::{
    FutureExt,
    channel::oneshot,
    future::{Either, Shared, select},
};
use hyper::{server::conn::http1, service::service_fn};
use ws::{
    net::{TcpListener, TcpStream},
    signal::unix::{Signal, SignalKind, signal},
    task::{JoinError, JoinSet},
    time::{sleep, timeout},
};

use crate::{
    args::Args,
    metrics::{Counts, Open},
    routes::{App, respond},
    stream::Stream,
};

/// How long a client may take for the head of a request, and how long a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// The pause after a connection could not be accepted, so that a lasting fault does not keep a core
/// busy.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A socket that listens, and all that connections need.
pub(crate) struct Server {
    listener: TcpListener,
    signals: Signals,
    app: Arc<App>,
    connections: usize,
    write_time: Duration,
    ended_time: Duration,
    grace: Duration,
}

/// How it ended.
pub(crate) enum Ended {
    /// Every request in flight was answered.
    Clean,
    /// Some were not, within the time for it.
    CutOff { connections: usize },
}

/// Resolves when connections should end.
type Closing = Shared<oneshot::Receiver<Infallible>>;

impl Server {
    pub(crate) async fn bind(args: &Args) -> io::Result<Self> {
        let listener = TcpListener::bind(args.listen)
            .await
            .map_err(|error| context(&format!("cannot listen on {}", args.listen), &error))?;
        Ok(Self {
            listener,
            signals: Signals::new()?,
            app: Arc::new(App {
                dir: args.dir.clone(),
                counts: Arc::new(Counts::default()),
            }),
            connections: args.connections,
            write_time: args.write_time,
            ended_time: args.ended_time,
            grace: args.grace,
        })
    }

    /// Serves until a signal comes, and ends as told above.
    pub(crate) async fn run(mut self) -> io::Result<Ended> {
        say(&format!(
            "listening on http://{}, files of {}",
            self.listener.local_addr()?,
            self.app.dir.display()
        ))?;

        let (close, closing) = oneshot::channel();
        let closing = closing.shared();
        let mut connections = JoinSet::new();
        let connect = |connections: &mut JoinSet<()>, stream: TcpStream| {
            if let Err(error) = stream.set_nodelay(true) {
                warn(context("cannot set TCP_NODELAY", &error));
            }
            let open = self.app.counts.connection();
            let stream = Stream::new(stream, open.clone(), self.write_time, self.ended_time);
            connections.spawn(connection(stream, self.app.clone(), closing.clone(), open));
        };

        let name = loop {
            let accept = next_connection(&self.listener, &mut connections, self.connections);
            let accepted = match select(pin!(self.signals.next()), pin!(accept)).await {
                Either::Left((signal, _)) => break signal?,
                Either::Right((accepted, _)) => accepted,
            };
            match accepted {
                Ok(stream) => connect(&mut connections, stream),
                Err(error) => {
                    warn(context("cannot accept a connection", &error));
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        };
        while connections.len() < self.connections
            && let Some(Ok((stream, _))) = self.listener.accept().now_or_never()
        {
            connect(&mut connections, stream);
        }
        drop(self.listener);
        drop(close); // which resolves `closing`

        let open = self.app.counts.connections_open();
        say(&format!("{name}: no more connections, {open} open"))?;
        let all = timeout(self.grace, async {
            while let Some(ended) = connections.join_next().await {
                report(ended);
            }
        });
        match select(pin!(self.signals.next()), pin!(all)).await {
            Either::Right((Ok(()), _)) => {
                say("every request was answered")?;
                return Ok(Ended::Clean);
            }
            Either::Right((Err(_), _)) => {}
            Either::Left((signal, _)) => {
                signal?;
            }
        }
        let left = connections.len();
        connections.shutdown().await;
        Ok(Ended::CutOff { connections: left })
    }
}

/// Accepts a connection once there is room for one. Those that have ended leave the set.
async fn next_connection(
    listener: &TcpListener,
    connections: &mut JoinSet<()>,
    most: usize,
) -> io::Result<TcpStream> {
    while let Some(ended) = connections.try_join_next() {
        report(ended);
    }
    while connections.len() >= most {
        connections.join_next().await.into_iter().for_each(report);
    }
    listener.accept().await.map(|(stream, _)| stream)
}

/// Tells of a task that did not end as it should. The panic's own message is on stderr by now.
fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        warn(format_args!("a connection's {error}"));
    }
}

/// The two signals that ask for an end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let listen =
            |kind| signal(kind).map_err(|error| context("cannot listen for signals", &error));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next of them, and returns its name.
    async fn next(&mut self) -> io::Result<&'static str> {
        let interrupt = pin!(self.interrupt.recv());
        let terminate = pin!(self.terminate.recv());
        match select(interrupt, terminate).await {
            Either::Left((came, _)) => came.map(|()| "SIGINT"),
            Either::Right((came, _)) => came.map(|()| "SIGTERM"),
        }
    }
}

/// Answers the requests of one connection, one after the other.
async fn connection(stream: Stream, app: Arc<App>, closing: Closing, open: Arc<Open>) {
    let service = service_fn(|request| {
        // Not in the future: hyper looks for the client's end before it polls that.
        let (app, in_flight) = (app.clone(), open.request());
        async move { Ok::<_, Infallible>(respond(&app, in_flight, &request).await) }
    });
    let connection = http1::Builder::new()
        .timer(ws::hyper::Timer)
        .header_read_timeout(HEAD_TIME)
        .serve_connection(stream, service);
    let result = match select(pin!(connection), closing).await {
        Either::Left((result, _)) => result,
        Either::Right((_, mut connection)) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result
        && let Some(message) = worth_a_line(&error)
    {
        warn(format_args!("a connection ended: {message}"));
    }
}

/// What the operator should read of an error, if anything.
///
/// Clients go away, send what is no HTTP, and take too long. That is the ordinary life of a server,
/// and hyper has answered what can be answered. Our own faults are told: a body that could not be
/// read.
fn worth_a_line(error: &hyper::Error) -> Option<String> {
    use std::error::Error;
    error.is_user().then(|| {
        error
            .source()
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
    })
}

/// Prints a line at once, also into a pipe.
pub(crate) fn say(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush())
}

/// Writes a line for the operator. If nobody can read it (stderr is closed, or its disk full), the
/// server goes on; `eprintln!` would panic.
pub(crate) fn warn(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "serve: {line}");
}

fn context(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
