//! smol: `async-executor` with as many threads as workers, and `async-io` for timers and sockets.
//!
//! As the `smol` crate's own global executor is built: one executor in a `static`, and threads that
//! run it inside `async_io::block_on`, which also drives the reactor. The thread that calls
//! `block_on` runs its own future alone. Calls that block go to the pool of the `blocking` crate,
//! of 500 threads.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};
use async_executor::{Executor, Task};
use async_io::{Async, Timer};
use futures::StreamExt;
use hyper::server::conn::http1;
use smol_hyper::rt::FuturesIo;

use super::{Handle, Rt};
use crate::workloads::Hello;

/// What `spawn` spawns on, as in the `smol` crate.
static GLOBAL: Executor<'static> = Executor::new();

/// smol.
#[derive(Debug)]
pub(crate) struct SmolRt {
    executor: Shared,
    /// Closed, it ends the threads.
    stop: Sender<()>,
    threads: Vec<JoinHandle<()>>,
}

/// The executor of a runtime: the one in the `static` or, where its drop is what is measured, one
/// that can be dropped.
#[derive(Clone, Debug)]
pub(crate) enum Shared {
    Global,
    Owned(Arc<Executor<'static>>),
}

impl Shared {
    fn get(&self) -> &Executor<'static> {
        match self {
            Shared::Global => &GLOBAL,
            Shared::Owned(executor) => executor,
        }
    }
}

impl SmolRt {
    fn start(executor: Shared, workers: usize) -> Self {
        let (stop, stopped) = async_channel::bounded::<()>(1);
        let threads = (0..workers)
            .map(|index| {
                let (executor, stopped) = (executor.clone(), stopped.clone());
                std::thread::Builder::new()
                    .name(format!("smol-{index}"))
                    .spawn(move || work(&executor, &stopped))
                    .expect("a thread starts")
            })
            .collect();
        SmolRt {
            executor,
            stop,
            threads,
        }
    }
}

fn work(executor: &Shared, stopped: &Receiver<()>) {
    let end = async_io::block_on(executor.get().run(stopped.recv()));
    assert!(
        end.is_err(),
        "nothing is ever sent: the channel is closed to end the threads"
    );
}

impl Drop for SmolRt {
    fn drop(&mut self) {
        self.stop.close();
        for thread in self.threads.drain(..) {
            thread.join().expect("no task here panics");
        }
    }
}

impl Rt for SmolRt {
    const NAME: &'static str = "smol";

    type Join<T: Send + 'static> = Task<T>;
    type Handle = Shared;
    type Sleep = Sleep;
    type Ticker = Timer;
    type Listener = Async<TcpListener>;
    type Stream = Async<TcpStream>;

    fn build(workers: usize) -> Self {
        Self::start(Shared::Global, workers)
    }

    fn build_to_drop(workers: usize) -> Self {
        Self::start(Shared::Owned(Arc::new(Executor::new())), workers)
    }

    fn run<F>(self, root: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        async_io::block_on(self.executor.get().spawn(root))
    }

    fn block_on<F: Future>(&self, root: F) -> F::Output {
        async_io::block_on(root)
    }

    fn handle(&self) -> Shared {
        self.executor.clone()
    }

    fn spawn<F>(future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        GLOBAL.spawn(future)
    }

    fn detach<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        GLOBAL.spawn(future).detach();
    }

    async fn cancel<T: Send + 'static>(join: Task<T>) {
        // Whether it came to its end before or not: it is gone now.
        drop(join.cancel().await);
    }

    async fn spawn_blocking<T, F>(f: F) -> T
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        blocking::unblock(f).await
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        futures_lite::future::yield_now()
    }

    fn sleep(duration: Duration) -> Sleep {
        Sleep(Timer::after(duration))
    }

    fn ticker(period: Duration) -> Timer {
        Timer::interval_at(Instant::now(), period)
    }

    async fn tick(ticker: &mut Timer) {
        ticker.next().await;
    }

    async fn listen() -> io::Result<Async<TcpListener>> {
        Async::<TcpListener>::bind(([127, 0, 0, 1], 0))
    }

    fn address(listener: &Async<TcpListener>) -> io::Result<SocketAddr> {
        listener.get_ref().local_addr()
    }

    async fn accept(listener: &Async<TcpListener>) -> io::Result<Async<TcpStream>> {
        let (stream, _) = listener.accept().await?;
        stream.get_ref().set_nodelay(true)?;
        Ok(stream)
    }

    async fn serve_http(stream: Async<TcpStream>, service: Hello) -> Result<(), hyper::Error> {
        http1::Builder::new()
            .serve_connection(FuturesIo::new(stream), service)
            .await
    }
}

impl Handle<SmolRt> for Shared {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        async_io::block_on(future)
    }

    fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.get().spawn(future)
    }

    fn detach<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.get().spawn(future).detach();
    }
}

/// A timer whose output nobody wants.
#[derive(Debug)]
pub(crate) struct Sleep(Timer);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(|_| ())
    }
}
