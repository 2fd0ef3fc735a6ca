//! The life of the server: `ws::hyper::Server` with the limits of the arguments, until a signal.
//!
//! The first signal ends it in good order: nobody is let in any more, and requests in flight are
//! answered, within the time of `--grace`. A second signal ends that wait.

use std::{
    convert::Infallible,
    fmt::Display,
    io::{self, Write},
    pin::pin,
    sync::Arc,
};

use futures::future::{Either, select};
use hyper::service::service_fn;
use ws::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{
    args::Args,
    routes::{App, respond},
};

/// How it ended.
pub(crate) enum Ended {
    /// Every request in flight was answered.
    Clean,
    /// Some were not, within the time for it.
    CutOff { connections: usize },
}

/// Serves until a signal comes, and ends as told above.
pub(crate) async fn serve(args: Args) -> io::Result<Ended> {
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| context(&format!("cannot listen on {}", args.listen), &error))?;
    let mut signals = Signals::new()?;
    say(&format!(
        "listening on http://{}, files of {}",
        listener.local_addr()?,
        args.dir.display()
    ))?;

    if let Some(addr) = args.inspect {
        let page = ws::inspect::serve(addr)
            .await
            .map_err(|error| context(&format!("cannot show the scheduler on {addr}"), &error))?;
        say(&format!("the scheduler is on http://{}", page.addr()))?;
    }

    let server = ws::hyper::Server::new()
        .connections(args.connections)
        .write_time(args.write_time)
        .ended_time(args.ended_time)
        .grace(args.grace)
        .on_error(|error| warn(chain(&*error)));
    let app = Arc::new(App {
        dir: args.dir,
        counts: server.counts(),
    });
    let service = service_fn(move |request| {
        let app = app.clone();
        async move { Ok::<_, Infallible>(respond(&app, &request).await) }
    });
    let mut name = Ok("");
    let end = async { name = signals.next().await };
    let mut draining = server.serve_until(listener, service, end).await;
    let open = draining.connections();
    say(&format!("{}: no more connections, {open} open", name?))?;

    let cut_off = match select(pin!(draining.finish()), pin!(signals.next())).await {
        Either::Left((ended, _)) => Some(ended.cut_off),
        Either::Right((signal, _)) => signal.map(|_| None)?,
    };
    let connections = cut_off.unwrap_or_else(|| draining.connections());
    if connections > 0 {
        return Ok(Ended::CutOff { connections });
    }
    say("every request was answered")?;
    Ok(Ended::Clean)
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

/// An error with its sources, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |line, source| {
        format!("{line}: {source}")
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
