//! What a server takes its connections from, and what makes streams of them.

use std::{
    future::Future,
    io,
    task::{Context, Poll},
};

use ::hyper::rt;

use super::Limited;
#[cfg(doc)]
use super::Server;
#[cfg(unix)]
use crate::net::{UnixListener, UnixStream};
use crate::{
    hyper::{Io, Socket},
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};

/// A listener of [`ws::net`](crate::net) that a [`Server`] accepts from.
pub trait Listener: Send + Sync + 'static {
    /// Its connections.
    type Stream: Transport;

    /// Accepts a connection, with the options that suit a server.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        // It fails if the client is gone, which the first read will tell as well.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

#[cfg(unix)]
impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

/// A socket below HTTP.
pub trait Transport: Socket + AsyncWrite + Send + Unpin + 'static {
    /// Waits until something can be read, and says whether it is the end of the stream.
    fn poll_at_end(&self, cx: &mut Context<'_>) -> Poll<bool>;

    /// Waits until the peer has ended its sending side, whatever is still to be read.
    fn poll_read_closed(&self, cx: &mut Context<'_>) -> Poll<()>;
}

impl Transport for TcpStream {
    fn poll_at_end(&self, cx: &mut Context<'_>) -> Poll<bool> {
        self.poll_peek(cx, &mut [0])
            .map(|peeked| matches!(peeked, Ok(0)))
    }

    fn poll_read_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_read_closed(cx)
    }
}

#[cfg(unix)]
impl Transport for UnixStream {
    fn poll_at_end(&self, cx: &mut Context<'_>) -> Poll<bool> {
        self.poll_peek(cx, &mut [std::mem::MaybeUninit::uninit()])
            .map(|peeked| matches!(peeked, Ok(0)))
    }

    fn poll_read_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_read_closed(cx)
    }
}

/// What makes a stream of a connection: [`Plain`], or a function for [`Server::tls`].
pub trait Acceptor<T>: Clone + Send + 'static {
    /// What HTTP is spoken on.
    type Stream: rt::Read + rt::Write + Send + Unpin + 'static;

    /// Makes the stream.
    fn accept(&self, socket: Limited<T>) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// No TLS.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl<T: Transport> Acceptor<T> for Plain {
    type Stream = Limited<T>;

    async fn accept(&self, socket: Limited<T>) -> io::Result<Limited<T>> {
        Ok(socket)
    }
}

impl<T, F, H, S> Acceptor<T> for F
where
    F: Fn(Limited<T>) -> H + Clone + Send + 'static,
    H: Future<Output = io::Result<S>> + Send,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Stream = Io<S>;

    fn accept(&self, socket: Limited<T>) -> impl Future<Output = io::Result<Io<S>>> + Send {
        let handshake = self(socket);
        async move { handshake.await.map(Io::new) }
    }
}
