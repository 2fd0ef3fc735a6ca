//! What the tests of sockets and signals share.
#![allow(dead_code, reason = "each test uses a part of it")]

#[path = "../../executor/tests/common/skip.rs"]
mod skip;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::task::{Context, Poll, Wake};
use std::thread;
use std::time::Duration;

use ws::net::{TcpListener, TcpStream};
use ws::runtime::{Builder, Runtime};

#[allow(unused_imports, reason = "each test uses a part of it")]
pub(crate) use skip::skipped;

/// What a test may take before it counts as hung. Nothing is measured by it.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) const WORKERS: [usize; 3] = [1, 2, 8];

pub(crate) fn runtime(workers: usize) -> Runtime {
    Builder::new()
        .workers(workers)
        // As long as it takes: an end that hangs is a test that hangs.
        .shutdown_grace(Duration::from_secs(3600))
        .build()
        .expect("a runtime can be built")
}

/// Runs a scenario as the root task of a runtime, with one worker, two and eight.
pub(crate) fn with_workers<S, F>(scenario: S)
where
    S: Fn() -> F,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let answer = runtime(workers).run(scenario());
        answer.unwrap_or_else(|error| panic!("with {workers} workers: {error}"));
    }
}

/// Ends the process if it is not dropped in time: a wake-up was lost.
pub(crate) struct Limit {
    _alive: mpsc::Sender<()>,
}

impl Limit {
    pub(crate) fn new(workers: usize) -> Self {
        let (alive, ended) = mpsc::channel();
        let name = thread::current().name().unwrap_or("main").to_owned();
        thread::spawn(move || {
            if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{name} hangs with {workers} workers");
                process::abort();
            }
        });
        Self { _alive: alive }
    }
}

/// Two ends of a TCP connection over loopback.
pub(crate) async fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let client = TcpStream::connect(listener.local_addr()?).await?;
    let (server, _) = listener.accept().await?;
    Ok((client, server))
}

/// Bytes without a short period, so that a block that is lost, doubled or swapped shows.
pub(crate) fn pattern(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 24) as u8
        })
        .collect()
}

/// A waker that counts.
#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls a future once, within the calling task.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    let mut future = Pin::new(future);
    std::future::poll_fn(move |cx: &mut Context<'_>| Poll::Ready(future.as_mut().poll(cx))).await
}

/// A folder that goes with its value.
pub(crate) struct Folder(std::path::PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "ws-test-{}-{}",
            process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        if path.exists() {
            // The number is ours, so whoever left it is gone.
            std::fs::remove_dir_all(&path).expect("a folder can be removed");
        }
        std::fs::create_dir(&path).expect("a folder can be made");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("the folder can be removed");
    }
}
