//! What [zbus] needs of a runtime (feature `zbus`): readiness, timers, tasks, connections.
//!
//! zbus speaks D-Bus. It brings a small runtime of its own, and runs on any that implements its
//! trait [`runtime::traits::Runtime`](traits::Runtime), which [`Runtime`] here does. With zbus'
//! default features off, its own is not compiled in, and no thread of it started:
//!
//! ```toml
//! ws-runtime = { version = "0.1", features = ["zbus"] }
//! zbus = { version = "6.2", default-features = false, features = ["proxy", "service"] }
//! ```
//!
//! ```no_run
//! # #[ws::main]
//! # async fn main() -> zbus::Result<()> {
//! let connection = zbus::connection::Builder::session()
//!     .runtime(ws::zbus::Runtime::current())
//!     .build()
//!     .await?;
//! # drop(connection);
//! # Ok(())
//! # }
//! ```
//!
//! zbus 6 wants Rust 1.89, a release later than the rest of `ws`.
//!
//! # What it does by a thread
//!
//! Looking up a host name, and waiting for a child process that zbus starts (for `unixexec:`
//! addresses): both by `spawn_blocking`, for as long as they take.
//!
//! [zbus]: https://docs.rs/zbus

use std::{
    future::Future,
    io,
    net::SocketAddr,
    os::fd::OwnedFd,
    panic,
    path::Path,
    pin::Pin,
    process::{Command, ExitStatus, Stdio},
    task::{Context, Poll, ready},
    time::Duration,
};

use ::zbus::runtime::{Interest, IoSource, traits};

use crate::{
    entered::entered,
    io::AsyncFd,
    net::{TcpStream, UnixStream, unix},
    runtime::Handle,
    task::{Builder, JoinError, JoinHandle},
    time,
};

/// The runtime that a connection of zbus' runs on.
///
/// Its sockets, timers and tasks belong to that one, whichever thread uses the connection.
#[derive(Clone, Debug)]
pub struct Runtime {
    handle: Handle,
}

impl Runtime {
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

impl From<Handle> for Runtime {
    fn from(handle: Handle) -> Self {
        Self { handle }
    }
}

impl traits::Runtime for Runtime {
    type RegisteredIoSource = Registered;
    type Sleep = time::Sleep;
    type Task<T>
        = Task<T>
    where
        T: Send + 'static;

    fn register_io_source(&self, source: IoSource) -> io::Result<Registered> {
        let both = crate::io::Interest::READABLE | crate::io::Interest::WRITABLE;
        AsyncFd::on(self.handle.netpoll(), source, both).map(Registered)
    }

    fn sleep(&self, duration: Duration) -> time::Sleep {
        let _here = self.handle.enter();
        time::sleep(duration)
    }

    #[track_caller]
    fn spawn<T>(&self, name: &str, future: impl Future<Output = T> + Send + 'static) -> Task<T>
    where
        T: Send + 'static,
    {
        let task = Builder::new().name(name).spawn_on(future, &self.handle);
        Task(Some(task))
    }

    fn connect_tcp(&self, addr: SocketAddr) -> impl Future<Output = io::Result<IoSource>> + Send {
        entered(self.handle.clone(), async move {
            let stream = TcpStream::connect(addr).await?;
            Ok(OwnedFd::try_from(stream)?.into())
        })
    }

    fn connect_unix(&self, path: &Path) -> impl Future<Output = io::Result<IoSource>> + Send {
        let addr = unix_addr(path);
        entered(self.handle.clone(), async move {
            let stream = UnixStream::connect_addr(&addr?).await?;
            Ok(OwnedFd::try_from(stream)?.into())
        })
    }

    fn spawn_process(
        &self,
        mut command: Command,
        stdin: Stdio,
        stdout: Stdio,
        stderr: Stdio,
    ) -> io::Result<Pin<Box<dyn Future<Output = io::Result<ExitStatus>> + Send>>> {
        let mut child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn()?;
        // It has copies of the streams, which would keep a pipe from coming to its end.
        drop(command);
        let exit = self.handle.spawn_blocking(move || child.wait());
        Ok(Box::pin(async move { exit.await.map_err(cancelled)? }))
    }

    fn spawn_blocking<T>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = T> + Send>>
    where
        T: Send + 'static,
    {
        let task = self.handle.spawn_blocking(work);
        Box::pin(async move {
            match task.await.map_err(cancelled) {
                Ok(value) => value,
                Err(error) => panic!("{error}"),
            }
        })
    }
}

/// Goes on with the panic of a task, or says that it was cancelled.
fn cancelled(error: JoinError) -> io::Error {
    match error.try_into_panic() {
        Ok(payload) => panic::resume_unwind(payload),
        Err(error) => io::Error::other(error),
    }
}

/// The address that zbus means: a path, or on Linux an abstract name, after a zero byte.
fn unix_addr(path: &Path) -> io::Result<unix::SocketAddr> {
    #[cfg(target_os = "linux")]
    {
        use std::os::{linux::net::SocketAddrExt, unix::ffi::OsStrExt};

        if let Some(name) = path.as_os_str().as_bytes().strip_prefix(b"\0") {
            return unix::SocketAddr::from_abstract_name(name);
        }
    }
    unix::SocketAddr::from_pathname(path)
}

/// A socket or pipe of zbus' in the netpoll.
#[derive(Debug)]
pub struct Registered(AsyncFd<IoSource>);

impl traits::PollIo for Registered {
    fn poll_io<T>(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        operation: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let interest = match interest {
            Interest::Readable => crate::io::Interest::READABLE,
            Interest::Writable => crate::io::Interest::WRITABLE,
            _ => return Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        };
        self.0.poll_io(cx, interest, operation)
    }
}

/// A task that zbus spawned. Dropping it cancels the task, unless it was detached.
#[derive(Debug)]
pub struct Task<T>(Option<JoinHandle<T>>);

impl<T: Send + 'static> traits::TaskHandle<T> for Task<T> {
    fn detach(mut self) {
        self.0 = None;
    }
}

impl<T> Future for Task<T> {
    type Output = io::Result<T>;

    /// # Panics
    ///
    /// If the task did.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let task = self.0.as_mut().expect("only a drop takes the handle");
        let output = ready!(Pin::new(task).poll(cx));
        Poll::Ready(output.map_err(cancelled))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}
