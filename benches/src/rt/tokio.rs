//! tokio's multi-thread runtime, in three ways.
//!
//! As `#[tokio::main]` builds it, but for the number of workers.
//!
//! | runtime | is |
//! | --- | --- |
//! | `tokio` | `run` spawns its root, as tokio's guide says for work that should be fast |
//! | `tokio-main` | `run` polls its root in `block_on`, on a thread that is no worker, as `#[tokio::main]` does |
//! | `tokio-handoff` | `tokio` with `enable_eager_driver_handoff`, its own cure for blocked workers. It is behind `--cfg tokio_unstable`, so the suite builds a second program for it (`peers.rs`), and the others stay as users have them |

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::io::{AsyncRead, AsyncWrite};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::Interval;

use super::{Handle, Rt};
use crate::workloads::Hello;

/// tokio: whether the root of `run` is a task, and whether the driver is handed off eagerly.
#[derive(Debug)]
pub(crate) struct Tokio<const ROOT_IS_TASK: bool, const HANDOFF: bool>(Runtime);

/// tokio as its guide has it.
pub(crate) type TokioRt = Tokio<true, false>;
/// tokio with its root in `block_on`.
pub(crate) type TokioMain = Tokio<false, false>;
/// tokio with eager hand-off of its driver.
#[cfg(tokio_unstable)]
pub(crate) type TokioHandoff = Tokio<true, true>;

impl<const ROOT_IS_TASK: bool, const HANDOFF: bool> Rt for Tokio<ROOT_IS_TASK, HANDOFF> {
    const NAME: &'static str = match (ROOT_IS_TASK, HANDOFF) {
        (true, false) => "tokio",
        (false, _) => "tokio-main",
        (true, true) => "tokio-handoff",
    };

    type Join<T: Send + 'static> = Join<T>;
    type Handle = tokio::runtime::Handle;
    type Sleep = tokio::time::Sleep;
    type Ticker = Interval;
    type Listener = TcpListener;
    type Stream = Stream;

    fn build(workers: usize) -> Self {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers).enable_io().enable_time();
        #[cfg(tokio_unstable)]
        if HANDOFF {
            builder.enable_eager_driver_handoff();
        }
        Tokio(builder.build().expect("tokio starts"))
    }

    fn run<F>(self, root: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        if ROOT_IS_TASK {
            self.0.block_on(Join(self.0.spawn(root)))
        } else {
            self.0.block_on(root)
        }
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
        Join(tokio::spawn(future))
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
        tokio::task::spawn_blocking(f)
            .await
            .expect("no call here panics")
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        tokio::time::sleep(duration)
    }

    fn ticker(period: Duration) -> Interval {
        tokio::time::interval(period)
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

    async fn accept(listener: &TcpListener) -> io::Result<Stream> {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        Ok(Stream(stream))
    }

    async fn serve_http(stream: Stream, service: Hello) -> Result<(), hyper::Error> {
        http1::Builder::new()
            .serve_connection(TokioIo::new(stream.0), service)
            .await
    }
}

impl<const ROOT_IS_TASK: bool, const HANDOFF: bool> Handle<Tokio<ROOT_IS_TASK, HANDOFF>>
    for tokio::runtime::Handle
{
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        tokio::runtime::Handle::block_on(self, future)
    }

    fn spawn<F>(&self, future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Join(tokio::runtime::Handle::spawn(self, future))
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

/// A stream that speaks the traits of `futures::io`.
#[derive(Debug)]
pub(crate) struct Stream(TcpStream);

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
