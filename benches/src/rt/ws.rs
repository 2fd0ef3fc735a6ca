//! `ws` itself, and `ws-nosysmon`, which is `ws` without its monitor.
//!
//! `run` makes the calling thread a worker and its root a task, as `#[ws::main]` does; `block_on`
//! polls a root on the calling thread beside a running runtime.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::server::conn::http1;
use ws::hyper::Io;
use ws::net::{TcpListener, TcpStream};
use ws::runtime::{Builder, Runtime, Sysmon};
use ws::task::{JoinHandle, Priority};
use ws::time::{Interval, Sleep};

use super::{Handle, Rank, Rt};
use crate::workloads::Hello;

/// `ws`, with or without sysmon.
#[derive(Debug)]
pub(crate) struct Ws<const SYSMON: bool>(Runtime);

/// `ws` as it is.
pub(crate) type WsRt = Ws<true>;
/// `ws` without sysmon.
pub(crate) type WsNoSysmon = Ws<false>;

impl<const SYSMON: bool> Rt for Ws<SYSMON> {
    const NAME: &'static str = if SYSMON { "ws" } else { "ws-nosysmon" };

    type Join<T: Send + 'static> = Join<T>;
    type Handle = ws::runtime::Handle;
    type Sleep = Sleep;
    type Ticker = Interval;
    type Listener = TcpListener;
    type Stream = TcpStream;

    fn build(workers: usize) -> Self {
        let builder =
            Builder::new()
                .workers(workers)
                .sysmon(if SYSMON { Sysmon::On } else { Sysmon::Off });
        Ws(builder.build().expect("ws starts"))
    }

    fn run<F>(self, root: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.run(root)
    }

    fn block_on<F: Future>(&self, root: F) -> F::Output {
        self.0.block_on(root)
    }

    fn handle(&self) -> Self::Handle {
        self.0.handle().clone()
    }

    fn spawn<F>(future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Join(ws::spawn(future))
    }

    async fn fork<F>(future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Join(ws::fork(future).await)
    }

    async fn cancel<T: Send + 'static>(join: Join<T>) {
        join.0.abort();
        // Whether it came to its end before or not: it is gone now.
        drop(join.0.await);
    }

    async fn spawn_blocking<T, F>(f: F) -> T
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        ws::spawn_blocking(f).await.expect("no call here panics")
    }

    fn spawn_ranked<F>(rank: Rank, future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let priority = match rank {
            Rank::Highest => Priority::HIGHEST,
            Rank::Lowest => Priority::LOWEST,
        };
        Join(ws::task::Builder::new().priority(priority).spawn(future))
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        ws::task::yield_now()
    }

    fn sleep(duration: Duration) -> Sleep {
        ws::time::sleep(duration)
    }

    fn ticker(period: Duration) -> Interval {
        ws::time::interval(period)
    }

    async fn tick(ticker: &mut Interval) {
        ticker.tick().await;
    }

    async fn listen() -> io::Result<TcpListener> {
        TcpListener::bind("127.0.0.1:0").await
    }

    fn address(listener: &TcpListener) -> io::Result<SocketAddr> {
        listener.local_addr()
    }

    async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn serve_http(stream: TcpStream, service: Hello) -> Result<(), hyper::Error> {
        http1::Builder::new()
            .serve_connection(Io::socket(stream), service)
            .await
    }
}

impl<const SYSMON: bool> Handle<Ws<SYSMON>> for ws::runtime::Handle {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        ws::runtime::Handle::block_on(self, future)
    }

    fn spawn<F>(&self, future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Join(ws::runtime::Handle::spawn(self, future))
    }
}

/// A join handle that unwraps.
#[derive(Debug)]
pub(crate) struct Join<T>(JoinHandle<T>);

impl<T> Future for Join<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|output| output.expect("no task here panics"))
    }
}
