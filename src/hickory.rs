//! What [hickory-resolver] needs of a runtime: sockets, timers, and a place to spawn (feature
//! `hickory`).
//!
//! The lookup that [`TcpStream::connect`] and its like do asks the system, which blocks a thread of
//! `spawn_blocking` for each question. A resolver of hickory's asks name servers itself, waits
//! without a thread, caches, and knows records of all kinds.
//!
//! ```no_run
//! use hickory_resolver::Resolver;
//! use ws::hickory::RuntimeProvider;
//!
//! # #[ws::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let config = hickory_resolver::config::ResolverConfig::from_parts(None, vec![], vec![]);
//! let resolver = Resolver::builder_with_config(config, RuntimeProvider::current()).build()?;
//! for address in resolver.lookup_ip("example.org.").await?.iter() {
//!     println!("{address}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `Resolver::builder` (with hickory's feature `system-config`) reads the servers from the system.
//! DNS over UDP and TCP runs on `ws`. DNS over TLS and HTTPS makes hickory compile tokio's runtime
//! in, and over QUIC it wants a socket that this provider does not give.
//!
//! A timer of hickory's is one of the runtime that it is polled in, because hickory asks for it by
//! type and not by value: await lookups inside of a runtime of `ws`.
//!
//! [hickory-resolver]: https://docs.rs/hickory-resolver

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use hickory_resolver::net::{
    runtime,
    runtime::{DnsTcpStream, DnsUdpSocket, Spawn},
};

use crate::{
    entered::entered,
    net::{TcpSocket, TcpStream, UdpSocket},
    runtime::Handle,
    time,
};

/// As long as hickory waits for a connection on tokio, unless it was told.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The runtime that a resolver runs on.
///
/// Its sockets and tasks belong to that one.
#[derive(Clone, Debug)]
pub struct RuntimeProvider {
    handle: Handle,
}

impl RuntimeProvider {
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

impl From<Handle> for RuntimeProvider {
    fn from(handle: Handle) -> Self {
        Self { handle }
    }
}

impl runtime::RuntimeProvider for RuntimeProvider {
    type Handle = Spawner;
    type Timer = Time;
    type Udp = UdpSocket;
    type Tcp = TcpStream;

    fn create_handle(&self) -> Spawner {
        Spawner(self.handle.clone())
    }

    fn connect_tcp(
        &self,
        server: SocketAddr,
        local: Option<SocketAddr>,
        limit: Option<Duration>,
    ) -> Pin<Box<dyn Send + Future<Output = io::Result<TcpStream>>>> {
        Box::pin(entered(self.handle.clone(), async move {
            let socket = match server {
                SocketAddr::V4(_) => TcpSocket::new_v4(),
                SocketAddr::V6(_) => TcpSocket::new_v6(),
            }?;
            if let Some(local) = local {
                socket.bind(local)?;
            }
            socket.set_nodelay(true)?;
            time::timeout(limit.unwrap_or(CONNECT_TIMEOUT), socket.connect(server)).await?
        }))
    }

    fn bind_udp(
        &self,
        local: SocketAddr,
        _server: SocketAddr,
    ) -> Pin<Box<dyn Send + Future<Output = io::Result<UdpSocket>>>> {
        Box::pin(entered(self.handle.clone(), UdpSocket::bind(local)))
    }
}

/// Spawns the tasks that a resolver runs for its connections. From [`RuntimeProvider`].
#[derive(Clone, Debug)]
pub struct Spawner(Handle);

impl Spawn for Spawner {
    #[track_caller]
    fn spawn_bg(&mut self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(future)); // detaches it
    }
}

/// The timers of the runtime that a resolver is polled in.
///
/// # Panics
///
/// Its futures panic outside of a runtime.
#[derive(Clone, Copy, Debug)]
pub struct Time;

#[async_trait]
impl runtime::Time for Time {
    async fn delay_for(duration: Duration) {
        time::sleep(duration).await;
    }

    async fn timeout<F: 'static + Future + Send>(
        duration: Duration,
        future: F,
    ) -> io::Result<F::Output> {
        Ok(time::timeout(duration, future).await?)
    }
}

impl DnsTcpStream for TcpStream {
    type Time = Time;
}

impl DnsUdpSocket for UdpSocket {
    type Time = Time;

    fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        UdpSocket::poll_recv_from(self, cx, buf)
    }

    fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        UdpSocket::poll_send_to(self, cx, buf, target)
    }
}
