//! What the crate [async-rs] needs of a runtime (feature `async-rs`): [lapin] runs on it, and
//! whatever else is written for that crate.
//!
//! async-rs describes a runtime by two traits, [`Executor`] and [`Reactor`], and a type that has
//! both is a [`RuntimeKit`]. Here that is [`Kit`]:
//!
//! ```no_run
//! # #[ws::main]
//! # async fn main() {
//! let runtime = async_rs::Runtime::new(ws::async_rs::Kit::current());
//! // lapin::Connection::connect_with_runtime(uri, properties, runtime).await
//! # drop(runtime);
//! # }
//! ```
//!
//! # What differs
//!
//! A [`Task`] of async-rs gives its output and no error. If the task behind it panicked, the panic
//! goes on in the one that awaits it. If it was cancelled, by the end of its runtime, awaiting it
//! panics. That is what the other runtimes of async-rs do.
//!
//! A descriptor that is registered is put into nonblocking mode, as by the others.
//!
//! [async-rs]: https://docs.rs/async-rs
//! [lapin]: https://docs.rs/lapin

use std::{
    fmt,
    future::Future,
    io::{self, IoSlice, IoSliceMut, Read, Write},
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, RawFd},
    panic,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use ::async_rs::{
    traits::{Executor, Reactor, RuntimeKit},
    util::{Task, TaskImpl},
};
use async_trait::async_trait;
use futures::{
    Stream, StreamExt,
    io::{AsyncRead, AsyncWrite},
};
use socket2::SockRef;
use ws_reactor::Interest;

use crate::{
    entered::entered, io::AsyncFd, net::TcpStream, runtime::Handle, task::JoinHandle, time,
};

/// A runtime of `ws`, as async-rs sees it.
///
/// Tasks, sockets and timers belong to that one, whichever thread uses it.
#[derive(Clone, Debug)]
pub struct Kit {
    handle: Handle,
}

impl Kit {
    /// Returns the current runtime.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn current() -> Self {
        Handle::current().into()
    }
}

impl From<Handle> for Kit {
    fn from(handle: Handle) -> Self {
        Self { handle }
    }
}

impl RuntimeKit for Kit {}

impl Executor for Kit {
    type Task<T: Send + 'static> = Spawned<T>;

    fn block_on<T, F: Future<Output = T>>(&self, future: F) -> T {
        self.handle.block_on(future)
    }

    #[track_caller]
    fn spawn<T, F>(&self, future: F) -> Task<Spawned<T>>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        Spawned(Some(self.handle.spawn(future))).into()
    }

    #[track_caller]
    fn spawn_blocking<T, F>(&self, f: F) -> Task<Spawned<T>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        Spawned(Some(self.handle.spawn_blocking(f))).into()
    }
}

/// A task that was spawned by [`Kit`]; `None` once it was cancelled or let go.
#[derive(Debug)]
pub struct Spawned<T>(Option<JoinHandle<T>>);

impl<T: Send + 'static> Future for Spawned<T> {
    type Output = T;

    /// # Panics
    ///
    /// If the task did, or was cancelled.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let task = self.0.as_mut();
        let task = task.expect("a task is not awaited after it was cancelled");
        Poll::Ready(match ready!(Pin::new(task).poll(cx)) {
            Ok(output) => output,
            Err(error) => match error.try_into_panic() {
                Ok(payload) => panic::resume_unwind(payload),
                Err(error) => panic!("{error}"),
            },
        })
    }
}

#[async_trait]
impl<T: Send + 'static> TaskImpl for Spawned<T> {
    async fn cancel(&mut self) -> Option<T> {
        let task = self.0.take()?;
        task.abort();
        task.await.ok()
    }

    fn detach(&mut self) {
        self.0 = None;
    }
}

impl Reactor for Kit {
    type TcpStream = TcpStream;
    type Sleep = time::Sleep;

    fn register<H>(&self, io: H) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static>
    where
        H: Read + Write + AsFd + AsRawFd + Send + 'static,
    {
        SockRef::from(&io).set_nonblocking(true)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        let fd = AsyncFd::on(self.handle.netpoll(), io.as_raw_fd(), both)?;
        Ok(Registered { fd, io })
    }

    fn sleep(&self, duration: Duration) -> time::Sleep {
        let _here = self.handle.enter();
        time::sleep(duration)
    }

    fn interval(&self, period: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        let _here = self.handle.enter();
        time::interval(period).map(Instant::from)
    }

    fn tcp_connect_addr(
        &self,
        addr: SocketAddr,
    ) -> impl Future<Output = io::Result<TcpStream>> + Send + 'static {
        let connect = TcpStream::connect(addr);
        entered(self.handle.clone(), async move {
            let stream = connect.await?;
            // As on the other runtimes of async-rs: small messages are sent at once.
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }
}

/// Something of a library's own that reads and writes, in the netpoll.
///
/// It needs itself mutably to read, so the netpoll has only the number of its descriptor. The order
/// of the fields is that of their drops: the number leaves the netpoll before the descriptor is
/// closed.
struct Registered<H> {
    fd: AsyncFd<RawFd>,
    io: H,
}

// Nothing in here is pinned: operations go by reference.
impl<H> Unpin for Registered<H> {}

impl<H: Read + Write> AsyncRead for Registered<H> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Self { fd, io } = self.get_mut();
        fd.poll_io(cx, Interest::READABLE, || io.read(buf))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { fd, io } = self.get_mut();
        fd.poll_io(cx, Interest::READABLE, || io.read_vectored(bufs))
    }
}

impl<H: Read + Write> AsyncWrite for Registered<H> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { fd, io } = self.get_mut();
        fd.poll_io(cx, Interest::WRITABLE, || io.write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { fd, io } = self.get_mut();
        fd.poll_io(cx, Interest::WRITABLE, || io.write_vectored(bufs))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { fd, io } = self.get_mut();
        fd.poll_io(cx, Interest::WRITABLE, || io.flush())
    }

    /// Flushes. What closes a descriptor is its drop.
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl<H> fmt::Debug for Registered<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registered")
            .field(self.fd.get_ref())
            .finish()
    }
}
