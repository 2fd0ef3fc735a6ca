//! What a workload may ask of a runtime, and the runtimes that answer.
//!
//! The trait is as small as the workloads allow, so that each adapter is the code that a user of
//! that runtime would write, with nothing of ours in between: `spawn` is the runtime's own free
//! function, a join is its own handle in a newtype that unwraps the result, streams are its own
//! streams. Functions that act on the current runtime have no receiver and are called from a task.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::io::{AsyncRead, AsyncWrite};

use crate::joins::{Chili, ForkJoin, Rayon};
use crate::workloads::TOKIO_RAYON;

mod smol;
mod tokio;
mod ws;

pub(crate) use self::smol::SmolRt;
#[cfg(tokio_unstable)]
pub(crate) use self::tokio::TokioHandoff;
pub(crate) use self::tokio::{TokioMain, TokioRt};
pub(crate) use self::ws::{WsNoSysmon, WsRt};

/// The runtimes that run every row, in the order of the first round. The first is the one under
/// test.
pub(crate) const ALL_ROWS: &[&str] = &[WsRt::NAME, TokioRt::NAME, SmolRt::NAME];

/// Those that run some rows only: other ways to use the same runtimes, and libraries for fork and
/// join.
pub(crate) const SOME_ROWS: &[&str] = &[
    WsNoSysmon::NAME,
    TokioMain::NAME,
    Rayon::NAME,
    Chili::NAME,
    TOKIO_RAYON,
];

/// How urgent a task is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rank {
    /// Before all others.
    Highest,
    /// After all others.
    Lowest,
}

/// An asynchronous runtime with worker threads.
pub(crate) trait Rt: Sized + Send + 'static {
    /// As in `--runtimes` and in the tables.
    const NAME: &'static str;

    /// Awaits a task's output. A panic in the task is a panic here.
    type Join<T: Send + 'static>: Future<Output = T> + Send + Unpin + 'static;
    /// Reaches into the runtime from any thread.
    type Handle: Handle<Self>;
    /// Is ready after a while.
    type Sleep: Future<Output = ()> + Send + 'static;
    /// Is ready over and over.
    type Ticker: Send + 'static;
    /// A listening TCP socket.
    type Listener: Send + Sync + 'static;
    /// A connected TCP socket.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Starts a runtime with so many workers. There is one in a process, unless
    /// [`build_to_drop`](Rt::build_to_drop) made it.
    fn build(workers: usize) -> Self;

    /// Starts a runtime that is only used through its handle, and whose drop drops its tasks.
    fn build_to_drop(workers: usize) -> Self {
        Self::build(workers)
    }

    /// Runs `root` as a task, waits for it, and ends the runtime.
    fn run<F>(self, root: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    /// Runs `root` on the calling thread, as the body of `main` mostly is.
    fn block_on<F: Future>(&self, root: F) -> F::Output;

    /// A handle for foreign threads.
    fn handle(&self) -> Self::Handle;

    /// Spawns a task from a task.
    fn spawn<F>(future: F) -> Self::Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    /// Spawns a task that is more or less urgent than others, where the runtime has a word for
    /// that.
    fn spawn_ranked<F>(_rank: Rank, future: F) -> Self::Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Self::spawn(future)
    }

    /// Spawns a task from a task, and wants no answer.
    fn detach<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // On most runtimes a dropped join detaches; the one that cancels overrides this.
        drop(Self::spawn(future));
    }

    /// Spawns a task, and waits for nothing but that: where the runtime can run the child before
    /// its parent, it does.
    fn fork<F>(future: F) -> impl Future<Output = Self::Join<F::Output>> + Send
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        std::future::ready(Self::spawn(future))
    }

    /// Cancels a task, and waits until it is gone.
    fn cancel<T: Send + 'static>(join: Self::Join<T>) -> impl Future<Output = ()> + Send;

    /// Calls a function that blocks, where it holds up no task, and waits for its output.
    fn spawn_blocking<T, F>(f: F) -> impl Future<Output = T> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static;

    /// Lets others run first.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// A timer that has not been polled yet.
    fn sleep(duration: Duration) -> Self::Sleep;

    /// Ticks at once, and then once in each period since.
    fn ticker(period: Duration) -> Self::Ticker;

    /// Waits for the next tick.
    fn tick(ticker: &mut Self::Ticker) -> impl Future<Output = ()> + Send;

    /// Listens on a free port of the loopback interface.
    fn listen() -> impl Future<Output = io::Result<Self::Listener>> + Send;

    /// Where it listens.
    fn address(listener: &Self::Listener) -> io::Result<SocketAddr>;

    /// Waits for the next connection, and switches Nagle's algorithm off on it.
    fn accept(listener: &Self::Listener) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Serves one HTTP/1 connection to its end, through hyper and the adapter that a user of this
    /// runtime would take.
    fn serve_http(
        stream: Self::Stream,
        service: crate::workloads::Hello,
    ) -> impl Future<Output = Result<(), hyper::Error>> + Send;
}

/// A runtime seen from a foreign thread.
pub(crate) trait Handle<R: Rt>: Clone + Send + 'static {
    /// Blocks the calling thread until the future is done.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Spawns a task.
    fn spawn<F>(&self, future: F) -> R::Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    /// Spawns a task, and wants no answer.
    fn detach<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(self.spawn(future));
    }
}
