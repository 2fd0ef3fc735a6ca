//! What [quinn] needs of a runtime: UDP sockets, timers, and a place to spawn (feature `quinn`).
//!
//! QUIC runs on UDP, in user space. quinn asks its runtime for four things:
//!
//! | trait | by |
//! | --- | --- |
//! | [`quinn::Runtime`] | [`Runtime`] |
//! | [`AsyncTimer`] | a [`Sleep`](crate::time::Sleep), which is moved and not made anew |
//! | [`AsyncUdpSocket`] | a socket in the netpoll, with the system calls of `quinn-udp` |
//! | [`UdpPoller`] | the write direction of that socket |
//!
//! ```
//! use std::{io, net::UdpSocket, sync::Arc};
//! use quinn::{Endpoint, EndpointConfig, ServerConfig};
//!
//! /// Listens on a port, in the current runtime.
//! fn listen(config: EndpointConfig, server: ServerConfig, port: u16) -> io::Result<Endpoint> {
//!     let socket = UdpSocket::bind(("::", port))?;
//!     let runtime = Arc::new(ws::quinn::Runtime::current());
//!     Endpoint::new(config, Some(server), socket, runtime)
//! }
//! # let _: fn(_, _, _) -> _ = listen;
//! ```
//!
//! (`Endpoint::client` and `Endpoint::server` look for a runtime that was compiled in, and know of
//! tokio's and smol's.) Take quinn without its default features, and with a provider of
//! cryptography, `rustls-ring` for one.
//!
//! # Segmentation offload
//!
//! `quinn-udp` sends and receives many datagrams by one system call where the kernel can take them
//! apart and put them together (GSO and GRO). It asks the socket what is possible; the answer is
//! passed on.
//!
//! # Waiting to send
//!
//! Any number of connections send on one socket. Each has a poller of its own, because it wants to
//! be woken for itself. So a poller that has to wait does so by a future: any number of futures may
//! wait at once.
//!
//! [quinn]: https://docs.rs/quinn

use std::{
    fmt::{self, Debug},
    future::Future,
    io::{self, IoSliceMut},
    net,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Instant,
};

use ::quinn::{
    AsyncTimer, AsyncUdpSocket, UdpPoller,
    udp::{RecvMeta, Transmit},
};
use quinn_udp::UdpSocketState;
use ws_reactor::{Direction, Interest};

use crate::{runtime::Handle, time};
use ws_net::AsyncFd;

/// The runtime that an endpoint of quinn's runs on.
///
/// Its sockets, timers and tasks belong to that one, whichever thread uses the endpoint.
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

impl ::quinn::Runtime for Runtime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        let _here = self.handle.enter();
        Box::pin(Timer(time::sleep_until(deadline.into())))
    }

    #[track_caller]
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        drop(self.handle.spawn(future)); // detaches it
    }

    fn wrap_udp_socket(&self, socket: net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        let both = Interest::READABLE | Interest::WRITABLE;
        let fd = AsyncFd::on(self.handle.netpoll(), socket, both)?;
        Ok(Arc::new(Socket { fd, state }))
    }

    fn now(&self) -> Instant {
        let _here = self.handle.enter();
        time::Instant::now().into()
    }
}

/// A type of its own, because trait and future are both from elsewhere.
#[derive(Debug)]
struct Timer(time::Sleep);

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.0.reset(deadline.into());
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

/// A UDP socket, and what the system can do for it.
#[derive(Debug)]
struct Socket {
    fd: AsyncFd<net::UdpSocket>,
    state: UdpSocketState,
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller {
            socket: self,
            wait: None,
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let socket = self.fd.get_ref();
        self.fd.try_io(Interest::WRITABLE, || {
            self.state.send(socket.into(), transmit)
        })
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let socket = self.fd.get_ref();
        self.fd.poll_io(cx, Interest::READABLE, || {
            self.state.recv(socket.into(), bufs, meta)
        })
    }

    fn local_addr(&self) -> io::Result<net::SocketAddr> {
        self.fd.get_ref().local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

/// Waits until a socket may be written to. See *Waiting to send*.
struct Poller {
    socket: Arc<Socket>,
    /// The wait, if one goes on.
    wait: Option<Pin<Box<Wait>>>,
}

type Wait = dyn Future<Output = io::Result<()>> + Send + Sync;

impl UdpPoller for Poller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.wait.is_none() {
            // Mostly there is room, and no wait to be made.
            let mut nobody = Context::from_waker(Waker::noop());
            let ready = this.socket.fd.poll_ready(&mut nobody, Direction::Write);
            if let Poll::Ready(answer) = ready {
                return Poll::Ready(answer.map(drop));
            }
        }
        let wait = this.wait.get_or_insert_with(|| {
            let socket = this.socket.clone();
            Box::pin(async move { socket.fd.ready(Direction::Write).await.map(drop) })
        });
        let answer = ready!(wait.as_mut().poll(cx));
        this.wait = None;
        Poll::Ready(answer)
    }
}

impl Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Poller").field(&self.socket).finish()
    }
}
