//! A server for HTTP/1 and HTTP/2: what lies between a listener and a service.
//!
//! # States of a connection
//!
//! | it is | limit of reads | limit of writes |
//! | --- | --- | --- |
//! | new, in a TLS handshake, or within a head | [`Server::head_time`] | [`Server::write_time`] |
//! | idle: answered, and no byte of a next request came | [`Server::idle_time`] | |
//! | answering, to the end of the body | see [`Server::ended_time`] | [`Server::write_time`] |
//! | upgraded: the service has the stream | nothing | [`Server::write_time`] |
//! | HTTP/2 with tunnels, and idle but for those | [`Server::idle_time`], from any byte | [`Server::write_time`] |
//!
//! The times are kept at the socket, below TLS and HTTP: [`Limited`] is the socket with its times,
//! and has the reasons for each. It learns from [`Open`] whether a request is in flight. The
//! service is wrapped for that ([`Counted`]).
//!
//! # The end
//!
//! 1. The future `end` is ready. Clients in the listener's queue are let in, if the netpoll has
//!    told of them, and it is closed.
//! 2. Each connection is told. An idle one ends. Another one ends when its requests are answered.
//!    On HTTP/1 that is the one in flight: those that were pipelined behind it are dropped. On
//!    HTTP/2 an end takes an answer of the client.
//! 3. The server waits for the last one, for the time of [`Server::grace`]. What is left then is
//!    aborted, and counted in [`Ended`] unless it is idle.
//!
//! *Invariant*: each connection is a task of one set, and the set belongs to the future of
//! [`Server::serve`]. So no connection outlives that future, however it ends. The exception is an
//! upgraded one, which belongs to the code that asked for the upgrade. The requests of HTTP/2 are
//! tasks of their own: those that are in flight at such an end are cancelled with their connection,
//! and are dropped a moment later.
//!
//! Rejected: hyper's own limit for heads. It knows nothing of a TLS handshake, it does not tell an
//! idle connection from a slow head, and HTTP/2 has none.

mod accept;
mod counted;
mod counts;
mod limited;

use std::{
    convert::Infallible,
    error::Error,
    fmt,
    future::Future,
    io,
    num::NonZeroUsize,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use ::hyper::{Request, Response, body::Incoming, rt, service::Service};
use ::hyper_util::server::conn::auto;
use futures::{
    FutureExt,
    channel::oneshot,
    future::{Either, Shared, poll_fn, select},
};
use ws_executor::quietly;

use super::Timer;
use crate::{
    task::{JoinError, JoinSet},
    time::{sleep, timeout},
};
pub use accept::{Acceptor, Listener, Plain, Transport};
use counted::{Counted, Failed};
pub use counts::Counts;
use counts::{Busy, InFlight, Open, Unsent};
pub use limited::Limited;

/// The pause after a connection could not be accepted, so that a lasting fault does not keep a core
/// busy. Guessed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// How many connections a server takes unless told otherwise. Guessed: a few hundred MiB at most.
const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// What an error of a service or of a body is made into.
type BoxError = Box<dyn Error + Send + Sync>;

/// What is done with such an error.
#[derive(Clone)]
struct OnError(Arc<dyn Fn(BoxError) + Send + Sync>);

impl OnError {
    fn new(f: impl Fn(BoxError) + Send + Sync + 'static) -> Self {
        Self(Arc::new(f))
    }

    /// The server lives on if the function panics.
    fn tell(&self, error: BoxError) {
        quietly("`on_error` of a server", || (self.0)(error));
    }
}

impl fmt::Debug for OnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnError").finish_non_exhaustive()
    }
}

/// A server for a service of hyper's, an axum `Router` among them, over HTTP/1 and HTTP/2 (feature
/// `hyper-server`).
///
/// It accepts connections, bounds their number and what each may take, and ends in good order. The
/// default limits are those of a server that strangers can reach.
///
/// ```
/// use std::convert::Infallible;
///
/// use hyper::{Request, Response, body::Incoming, service::service_fn};
/// use ws::{hyper::Server, net::TcpListener};
/// # use ws::{io::{AsyncReadExt, AsyncWriteExt}, net::TcpStream};
///
/// async fn hello(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
///     Ok(Response::new("hello".to_owned()))
/// }
///
/// # #[ws::main(workers = 1)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// # let address = listener.local_addr()?;
/// # let (stop, stopped) = futures::channel::oneshot::channel::<()>();
/// # let ctrl_c = stopped;
/// # let client = ws::spawn(async move {
/// #     let mut client = TcpStream::connect(address).await?;
/// #     client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await?;
/// #     let mut answer = [0; 256];
/// #     let n = client.read(&mut answer).await?;
/// #     drop(stop);
/// #     Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer[..n]).into_owned())
/// # });
/// // let ctrl_c = ws::signal::ctrl_c();
/// let ended = Server::new()
///     .serve(listener, service_fn(hello), ctrl_c)
///     .await;
/// assert_eq!(ended.cut_off, 0); // nobody was cut off
/// # assert!(client.await??.ends_with("hello"));
/// # Ok(())
/// # }
/// ```
///
/// An axum `Router` becomes a service of hyper's by `TowerToHyperService` of the crate hyper-util.
/// Upgrades, to WebSockets for example, work as hyper's documentation tells:
/// [`hyper::upgrade::on`].
///
/// # TLS
///
/// [`Server::tls`] takes a function that does the handshake. HTTP/2 is recognised by its first
/// bytes, so the acceptor may or may not offer it in ALPN.
#[derive(Clone)]
#[must_use = "a server does nothing until `serve` is awaited"]
pub struct Server<A = Plain> {
    acceptor: A,
    connections: NonZeroUsize,
    limits: Limits,
    grace: Duration,
    counts: Counts,
    on_error: OnError,
}

/// The times of a connection.
#[derive(Clone, Copy, Debug)]
struct Limits {
    head: Duration,
    idle: Duration,
    write: Duration,
    ended: Duration,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// The connections with a request that was not answered to its end within [`Server::grace`].
    /// They were aborted. So were idle ones that were still there, of clients of HTTP/2 that do not
    /// answer the farewell. Those have lost nothing, and are not counted.
    pub cut_off: usize,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// Makes a server with the default limits.
    pub fn new() -> Self {
        Self {
            acceptor: Plain,
            connections: CONNECTIONS,
            limits: Limits {
                head: Duration::from_secs(30),
                idle: Duration::from_secs(75), // as nginx's keepalive_timeout
                write: Duration::from_secs(30),
                ended: Duration::from_secs(2),
            },
            grace: Duration::from_secs(10),
            counts: Counts::default(),
            on_error: OnError::new(|error| {
                tracing::warn!(error = &*error as &dyn Error, "ws::hyper::Server");
            }),
        }
    }
}

impl<A> Server<A> {
    /// Sets how many connections are open at a time. More wait in the listener's queue.
    ///
    /// The default is 10,000. An upgraded connection counts until its stream is dropped.
    ///
    /// A clone of a server counts with it, for several listeners. Each of those that wait for a
    /// client at that moment may let one more in.
    ///
    /// # Panics
    ///
    /// If it is zero.
    #[track_caller]
    pub fn connections(mut self, most: usize) -> Self {
        let most = NonZeroUsize::new(most);
        self.connections = most.expect("a server takes at least one connection");
        self
    }

    /// Sets how long a client may take from its connect to the end of its first head, with the TLS
    /// handshake, and from the first byte of a later head to its end.
    ///
    /// The default is 30 seconds. A request's body has no limit: only the service knows what is
    /// right for it. A head that begins to come while a request is being answered has the time of
    /// [`idle_time`](Self::idle_time), from the end of that answer or from the next byte on.
    pub fn head_time(mut self, time: Duration) -> Self {
        self.limits.head = time;
        self
    }

    /// Sets how long a connection may be without a request after its last answer.
    ///
    /// The default is 75 seconds. On an idle connection, any byte counts as the begin of a head: a
    /// ping of HTTP/2, too. On a connection of HTTP/2 that has, or had, a tunnel (`CONNECT`, as for
    /// WebSockets), any byte begins this time anew: what goes through a tunnel cannot be told from
    /// the rest.
    pub fn idle_time(mut self, time: Duration) -> Self {
        self.limits.idle = time;
        self
    }

    /// Sets how long a client may take nothing of what is sent to it.
    ///
    /// The default is 30 seconds. There is progress when the socket has room again, and the system
    /// waits with that until a good part of its buffer is free. A client of HTTP/2 that opens no
    /// window for any of its answers may take up to twice that time.
    pub fn write_time(mut self, time: Duration) -> Self {
        self.limits.write = time;
        self
    }

    /// Sets how long a request may read and write nothing after its client has ended its sending
    /// side.
    ///
    /// The default is two seconds. Some clients end their side behind a request, and read the
    /// answer. A client that is gone looks the same. So the time bounds both the work for clients
    /// that are gone, and what a slow answer to such a client may take. It also bounds how long the
    /// service may leave such a client's body unread. A read of the socket counts, and hyper reads
    /// ahead of the service.
    pub fn ended_time(mut self, time: Duration) -> Self {
        self.limits.ended = time;
        self
    }

    /// Sets how long connections may take at the end.
    ///
    /// The default is ten seconds. Zero aborts all that is open. Only clients with a request in
    /// flight are counted as cut off.
    pub fn grace(mut self, time: Duration) -> Self {
        self.grace = time;
        self
    }

    /// Sets what is done with errors that are the server's own: a connection that could not be
    /// accepted, an error of the service or of a body, a panic, a handshake that failed.
    ///
    /// The default is an event of `tracing`. The errors of clients are not told: they go away, send
    /// what is no HTTP, and take too long. A panic is told as a [`JoinError`]. The error of a
    /// service or of a body is the [source](Error::source) of what is told.
    ///
    /// A panic of `f` is caught.
    pub fn on_error(mut self, f: impl Fn(BoxError) + Send + Sync + 'static) -> Self {
        self.on_error = OnError::new(f);
        self
    }

    /// Sets what makes a stream of a connection: a TLS handshake.
    ///
    /// ```
    /// # use ws::{hyper::Limited, net::TcpStream};
    /// # async fn f<T: futures::io::AsyncRead + futures::io::AsyncWrite + Send + Unpin + 'static>(
    /// #     acceptor: impl Fn(Limited<TcpStream>) -> std::future::Ready<std::io::Result<T>>
    /// #         + Clone + Send + 'static,
    /// # ) {
    /// // acceptor: futures_rustls::TlsAcceptor, and `acceptor.accept(stream)`
    /// let server = ws::hyper::Server::new().tls(move |stream| acceptor(stream));
    /// # let _ = server;
    /// # }
    /// ```
    pub fn tls<F>(self, handshake: F) -> Server<F> {
        Server {
            acceptor: handshake,
            connections: self.connections,
            limits: self.limits,
            grace: self.grace,
            counts: self.counts,
            on_error: self.on_error,
        }
    }

    /// Returns what the server counts. It can be asked while the server runs.
    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// Serves until `end` is ready, and then ends in good order: no client is let in any more, idle
    /// connections end, and requests in flight are answered. A request that was pipelined behind
    /// one in flight is dropped.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the listener is closed and every connection is aborted, but for an
    /// upgraded one: its stream is the service's.
    ///
    /// # Panics
    ///
    /// If it is polled outside of a runtime.
    pub async fn serve<L, S, B>(self, listener: L, service: S, end: impl Future) -> Ended
    where
        L: Listener,
        A: Acceptor<L::Stream>,
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: ::hyper::body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        self.serve_until(listener, service, end)
            .await
            .finish()
            .await
    }

    /// Serves until `end` is ready. Then the listener is closed, and each connection was told to
    /// end, but may not have done so: [`Draining::finish`] waits for that.
    ///
    /// It is for servers that do something in between, or end that wait by something else than the
    /// time.
    ///
    /// # Cancel safety
    ///
    /// As [`Server::serve`].
    ///
    /// # Panics
    ///
    /// If it is polled outside of a runtime.
    pub async fn serve_until<L, S, B>(self, listener: L, service: S, end: impl Future) -> Draining
    where
        L: Listener,
        A: Acceptor<L::Stream>,
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: ::hyper::body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let (close, closing) = oneshot::channel();
        let closing = closing.shared();
        let (mut connections, busy, alive) = (JoinSet::new(), Arc::default(), Alive::default());
        let connect = |connections: &mut JoinSet<()>, socket: L::Stream| {
            let open = self.counts.connection(&busy, self.on_error.clone());
            let service = Counted::new(service.clone(), open.clone());
            let socket = Limited::new(socket, open, self.limits);
            let (acceptor, closing) = (self.acceptor.clone(), closing.clone());
            let requests = Requests(self.on_error.clone());
            let connection = connection(socket, acceptor, service, requests, closing);
            let alive = alive.clone();
            let connection = told(self.on_error.clone(), connection);
            connections.spawn(connection.inspect(move |()| drop(alive)));
        };

        let mut end = pin!(end);
        loop {
            let next = self.next(&listener, &mut connections);
            let accepted = match select(end.as_mut(), pin!(next)).await {
                Either::Left(_) => break,
                Either::Right((accepted, _)) => accepted,
            };
            match accepted {
                Ok(socket) => connect(&mut connections, socket),
                Err(error) => {
                    self.on_error.tell(error.into());
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        while self.has_room()
            && let Some(Ok(socket)) = listener.accept().now_or_never()
        {
            connect(&mut connections, socket);
        }
        drop(listener);
        drop(close); // which resolves `closing`

        Draining {
            connections,
            alive,
            busy,
            grace: self.grace,
        }
    }

    /// Accepts a connection once there is room for one. Those that have ended leave the set.
    async fn next<L: Listener>(
        &self,
        listener: &L,
        connections: &mut JoinSet<()>,
    ) -> io::Result<L::Stream> {
        while connections.try_join_next().is_some() {}
        poll_fn(|cx| {
            self.counts.wake_for_room(cx.waker());
            // A connection that ends now has changed the number before it wakes: either it finds
            // the waker, or this finds the number (`AtomicWaker`).
            if self.has_room() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        listener.accept().await
    }

    fn has_room(&self) -> bool {
        self.counts.connections_open() < self.connections.get() as u64
    }
}

/// The future of a task, which tells of its error or panic itself: at once, and not when it is
/// joined.
fn told(
    on_error: OnError,
    future: impl Future<Output = Result<(), BoxError>>,
) -> impl Future<Output = ()> {
    // Not an `async fn`, which has room for the future twice.
    AssertUnwindSafe(future).catch_unwind().map(move |ended| {
        let ended = ended.unwrap_or_else(|payload| Err(JoinError::of_panic(payload).into()));
        if let Err(error) = ended {
            on_error.tell(error);
        }
    })
}

/// Spawns the requests of HTTP/2, and tells of their panics.
#[derive(Clone)]
struct Requests(OnError);

impl<F: Future<Output = ()> + Send + 'static> rt::Executor<F> for Requests {
    fn execute(&self, request: F) {
        drop(crate::spawn(told(self.0.clone(), request.map(Ok)))); // detaches it
    }
}

/// A token of each connection that has not ended.
#[derive(Clone, Default)]
struct Alive(Arc<()>);

impl Alive {
    /// How many there are besides this one.
    fn others(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

/// The connections of a server that accepts no more. If it is dropped, they are aborted.
#[must_use = "the connections are aborted when this is dropped"]
pub struct Draining {
    connections: JoinSet<()>,
    alive: Alive,
    /// How many of them are not idle.
    busy: Arc<AtomicUsize>,
    grace: Duration,
}

impl Draining {
    /// Returns how many connections have not ended.
    pub fn connections(&self) -> usize {
        self.alive.others()
    }

    /// Waits until every connection has ended, for the time of [`Server::grace`]. What is left then
    /// is aborted.
    ///
    /// # Cancel safety
    ///
    /// It can be called again, and waits for the whole time then.
    pub async fn finish(&mut self) -> Ended {
        let all = timeout(self.grace, async {
            while self.connections.join_next().await.is_some() {}
        });
        // Those that ended in time have left the set.
        let _in_time = all.await;
        let cut_off = self.busy.load(Relaxed).min(self.connections.len());
        self.connections.shutdown().await;
        Ended { cut_off }
    }
}

impl fmt::Debug for Draining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draining")
            .field("connections", &self.connections())
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}

impl<A> fmt::Debug for Server<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("connections", &self.connections)
            .field("limits", &self.limits)
            .field("grace", &self.grace)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// Resolves when connections should end.
type Closing = Shared<oneshot::Receiver<Infallible>>;

/// Whether an error says that the client has left, or took too long.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected
            | io::ErrorKind::TimedOut
    )
}

/// Answers the requests of one connection. An error is one of ours.
async fn connection<T, A, S, B>(
    socket: Limited<T>,
    acceptor: A,
    service: Counted<S>,
    requests: Requests,
    closing: Closing,
) -> Result<(), BoxError>
where
    T: Transport,
    A: Acceptor<T>,
    S: Service<Request<Incoming>, Response = Response<B>> + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: ::hyper::body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let stream = match select(pin!(acceptor.accept(socket)), closing.clone()).await {
        Either::Left((Ok(stream), _)) => stream,
        // A client that leaves, or takes too long, in its handshake is no fault of ours.
        Either::Left((Err(error), _)) if !is_gone(&error) => return Err(error.into()),
        Either::Left((Err(_), _)) | Either::Right(_) => return Ok(()),
    };
    let mut builder = auto::Builder::new(requests);
    builder.http1().timer(Timer).header_read_timeout(None);
    builder.http2().timer(Timer);
    let connection = pin!(builder.serve_connection_with_upgrades(stream, service));
    let ended = match select(connection, closing).await {
        Either::Left((ended, _)) => ended,
        Either::Right((_, mut connection)) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    match ended {
        Err(error) if is_ours(&*error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether it is to be told: the fault is the service's and not the client's, and was not told when
/// it happened.
fn is_ours(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<::hyper::Error>();
    error.is_some_and(|error| {
        let is_told = error.source().is_some_and(<dyn Error>::is::<Failed>);
        error.is_user() && !is_told
    })
}
