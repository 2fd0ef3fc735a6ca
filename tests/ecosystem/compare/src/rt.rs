//! What the programs need of a runtime, and the two that bring it.

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use tokio::io::{AsyncRead, AsyncWrite};

/// As many as the machine has cores for that the proofs run on.
pub(crate) const WORKERS: usize = 2;

pub(crate) trait Rt: Sized + 'static {
    const NAME: &str;
    /// A TCP stream with tokio's traits.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;
    type Listener: Send + 'static;
    /// The stream as hyper takes it.
    type Hyper: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static;

    /// Runs a future as a task, and ends the runtime.
    fn run<F>(root: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;
    /// Spawns a task; the future that comes back is ready when that is.
    fn spawn<F>(future: F) -> impl Future<Output = F::Output> + Send + 'static
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;
    fn connect(address: SocketAddr) -> impl Future<Output = Self::Stream> + Send;
    fn listen() -> impl Future<Output = (Self::Listener, SocketAddr)> + Send;
    fn accept(listener: &Self::Listener) -> impl Future<Output = Self::Hyper> + Send;
    fn quinn() -> Arc<dyn quinn::Runtime>;
}

pub(crate) struct OnWs;

impl Rt for OnWs {
    const NAME: &str = "ws";
    type Stream = ws::net::TcpStream;
    type Listener = ws::net::TcpListener;
    type Hyper = ws::hyper::Io<ws::net::TcpStream>;

    fn run<F>(root: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let runtime = ws::runtime::Builder::new().workers(WORKERS).build();
        runtime.expect("threads can be had").run(root)
    }

    fn spawn<F>(future: F) -> impl Future<Output = F::Output> + Send + 'static
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = ws::spawn(future);
        async { task.await.expect("no task panics") }
    }

    async fn connect(address: SocketAddr) -> ws::net::TcpStream {
        let stream = ws::net::TcpStream::connect(address)
            .await
            .expect("the server listens");
        stream.set_nodelay(true).expect("a TCP stream");
        stream
    }

    async fn listen() -> (ws::net::TcpListener, SocketAddr) {
        let listener = ws::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        (listener, address)
    }

    async fn accept(listener: &ws::net::TcpListener) -> Self::Hyper {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("a TCP stream");
        ws::hyper::Io::socket(stream)
    }

    fn quinn() -> Arc<dyn quinn::Runtime> {
        Arc::new(ws::quinn::Runtime::current())
    }
}

pub(crate) struct OnTokio;

impl Rt for OnTokio {
    const NAME: &str = "tokio";
    type Stream = tokio::net::TcpStream;
    type Listener = tokio::net::TcpListener;
    type Hyper = hyper_util::rt::TokioIo<tokio::net::TcpStream>;

    fn run<F>(root: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .enable_all()
            .build()
            .expect("threads can be had");
        // On a worker, as with ws.
        let output = runtime
            .block_on(runtime.spawn(root))
            .expect("no task panics");
        runtime.shutdown_timeout(Duration::from_secs(1));
        output
    }

    fn spawn<F>(future: F) -> impl Future<Output = F::Output> + Send + 'static
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = tokio::spawn(future);
        async { task.await.expect("no task panics") }
    }

    async fn connect(address: SocketAddr) -> tokio::net::TcpStream {
        let stream = tokio::net::TcpStream::connect(address)
            .await
            .expect("the server listens");
        stream.set_nodelay(true).expect("a TCP stream");
        stream
    }

    async fn listen() -> (tokio::net::TcpListener, SocketAddr) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        (listener, address)
    }

    async fn accept(listener: &tokio::net::TcpListener) -> Self::Hyper {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("a TCP stream");
        hyper_util::rt::TokioIo::new(stream)
    }

    fn quinn() -> Arc<dyn quinn::Runtime> {
        Arc::new(quinn::TokioRuntime)
    }
}

/// Calls a generic function for the runtime of a name.
macro_rules! on {
    ($runtime:expr, $function:ident($($argument:expr),*)) => {
        match $runtime {
            crate::rt::OnWs::NAME => $function::<crate::rt::OnWs>($($argument),*),
            _ => $function::<crate::rt::OnTokio>($($argument),*),
        }
    };
}

pub(crate) use on;

/// The CPU time of this process in user mode, in microseconds.
pub(crate) fn user_us() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is good for a write of the structure, and all its bytes may be zero.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    usage.ru_utime.tv_sec as f64 * 1e6 + usage.ru_utime.tv_usec as f64
}

/// Wall-clock time and user CPU of a future, in microseconds.
pub(crate) async fn measured(future: impl Future<Output = ()>) -> [f64; 2] {
    let (begin, user) = (std::time::Instant::now(), user_us());
    future.await;
    [begin.elapsed().as_secs_f64() * 1e6, user_us() - user]
}
