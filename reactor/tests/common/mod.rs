//! What the tests share: wakers that count, sockets that do not block, and a poller.

#![allow(
    dead_code,
    unused_imports,
    reason = "every file of tests uses a part of it"
)]

use std::io;
use std::net::{TcpListener, TcpStream};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use ws_reactor::{Interest, Netpoll, Registration, WaitResult};

/// Only how long a broken build hangs before its test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// The same, `WS_TEST_PATIENCE` times: for checkers that slow everything down.
pub(crate) fn patience() -> Duration {
    let times = std::env::var("WS_TEST_PATIENCE").map_or(1, |text| text.parse().unwrap());
    PATIENCE * times
}

/// Rounds of two threads that are to meet by chance: so many, or as many as the machine gets done
/// in a while.
const ROUNDS: usize = 20_000;
const ROUNDS_TIME: Duration = Duration::from_secs(10);

/// Whether this is to be the last of [`ROUNDS`] that began then.
pub(crate) fn is_last(round: usize, begin: Instant) -> bool {
    round + 1 == ROUNDS || begin.elapsed() > ROUNDS_TIME
}

/// A turn in a loop that waits for another thread: mostly so short that the two can meet anywhere,
/// and now and then it gives up the core, for there may be only one.
pub(crate) fn spin(turn: usize) {
    if turn % 64 == 63 {
        thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// Ends the process if the test that holds it hangs: a mutant is to fail, and not to stop
/// everything.
pub(crate) struct TimeLimit {
    _is_over: mpsc::Sender<()>,
}

impl TimeLimit {
    pub(crate) fn new() -> Self {
        let (is_over, wait) = mpsc::channel();
        let test = thread::current().name().unwrap_or("a test").to_owned();
        thread::spawn(move || {
            if wait.recv_timeout(2 * patience()) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{test} hangs");
                process::abort();
            }
        });
        Self { _is_over: is_over }
    }
}

/// Counts how often it is woken.
#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn new() -> (Arc<Wakes>, Waker) {
        let wakes = Arc::new(Wakes::default());
        (wakes.clone(), Waker::from(wakes))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A socket of `std` in a netpoll.
pub(crate) struct Registered<S: Socket> {
    pub(crate) io: S,
    pub(crate) registration: Registration,
}

impl<S: Socket> Registered<S> {
    pub(crate) fn new(netpoll: &Arc<Netpoll>, io: S, interest: Interest) -> io::Result<Self> {
        let registration = os::register(netpoll, &io, interest)?;
        Ok(Self { io, registration })
    }

    pub(crate) fn deregister(&self) -> io::Result<()> {
        os::deregister(&self.registration, &self.io)
    }
}

pub(crate) use os::{Socket, Stream, pair};

#[cfg(unix)]
mod os {
    use ws_reactor::SourceFd;

    use super::*;

    pub(crate) use std::os::fd::AsRawFd as Socket;
    /// A stream that has a pair.
    pub(crate) use std::os::unix::net::UnixStream as Stream;

    pub(super) fn register(
        netpoll: &Arc<Netpoll>,
        io: &impl Socket,
        interest: Interest,
    ) -> io::Result<Registration> {
        Registration::new(netpoll, &mut SourceFd(&io.as_raw_fd()), interest)
    }

    pub(super) fn deregister(registration: &Registration, io: &impl Socket) -> io::Result<()> {
        registration.deregister(&mut SourceFd(&io.as_raw_fd()))
    }

    pub(crate) fn pair() -> (Stream, Stream) {
        let (a, b) = Stream::pair().unwrap();
        a.set_nonblocking(true).unwrap();
        b.set_nonblocking(true).unwrap();
        (a, b)
    }
}

#[cfg(windows)]
mod os {
    use super::*;

    pub(crate) use std::{net::TcpStream as Stream, os::windows::io::AsRawSocket as Socket};

    pub(super) fn register(
        netpoll: &Arc<Netpoll>,
        io: &impl Socket,
        interest: Interest,
    ) -> io::Result<Registration> {
        Registration::of_socket(netpoll, io, interest)
    }

    pub(super) fn deregister(registration: &Registration, _: &impl Socket) -> io::Result<()> {
        registration.deregister_socket()
    }

    pub(crate) fn pair() -> (Stream, Stream) {
        tcp_pair()
    }
}

/// The accepted side, and the side that connected. Nothing is delayed.
pub(crate) fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (here, _) = listener.accept().unwrap();
    for stream in [&here, &there] {
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
    }
    (here, there)
}

/// Looks once, and wakes. Says how many were woken.
pub(crate) fn look(netpoll: &Netpoll) -> usize {
    let mut ready = Vec::new();
    let mut poller = netpoll.try_poller().expect("nobody else polls");
    poller.look(&mut ready).unwrap();
    drop(poller);
    wake(ready)
}

/// Waits until somebody can be woken, and wakes. Says how many were woken.
pub(crate) fn wait(netpoll: &Netpoll) -> usize {
    let (result, ready) = wait_until(netpoll, Some(Instant::now() + patience()));
    assert!(result.events, "nothing came: {result:?}");
    wake(ready)
}

pub(crate) fn wait_until(netpoll: &Netpoll, deadline: Option<Instant>) -> (WaitResult, Vec<Waker>) {
    let mut ready = Vec::new();
    let mut poller = netpoll.try_poller().expect("nobody else polls");
    let result = poller.wait(deadline, &mut ready).unwrap();
    assert_eq!(result.events, !ready.is_empty());
    (result, ready)
}

fn wake(ready: Vec<Waker>) -> usize {
    let count = ready.len();
    ready.into_iter().for_each(Waker::wake);
    count
}
