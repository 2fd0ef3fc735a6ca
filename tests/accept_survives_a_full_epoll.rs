//! A connection that was accepted and finds no place in the epoll is kept, and is served once there
//! is room: `accept` and `incoming` wait and try again, `poll_accept` says what is wrong and tries
//! the same connection next time. Nothing is lost when a future is dropped in between, and each
//! wait is counted.
//!
//! It fails if the connection is closed with the error, as it was once; if `is_about_room` in
//! `net/src/retry.rs` does not know `ENOSPC`; and if a wait is not counted. What happens to tasks
//! that wait beside such a connection is in the unit tests of that file.
//!
//! To have a full epoll, the test puts a function of its own in the place of the system's
//! `epoll_ctl`. There is one for the process, so one scenario runs at a time. With the feature
//! `sim` the simulation has taken that place.

#![cfg(all(target_os = "linux", target_env = "gnu", not(feature = "sim")))]
#![expect(unsafe_code, reason = "an `epoll_ctl` that refuses")]

mod net_support;

use std::ffi::c_int;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::SeqCst};
use std::task::Poll;

use futures::StreamExt;
use net_support::{Folder, poll_once, with_workers};
use ws::io::{AsyncReadExt, AsyncWriteExt};
use ws::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use ws::runtime::Handle;

/// The error of registrations; 0 if there is room.
static REFUSES_WITH: AtomicI32 = AtomicI32::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Held by the scenario that runs.
static SCENARIO: Mutex<()> = Mutex::new(());

/// How often it has to find the epoll full before there is room.
const TRIES: u64 = 4;

/// # Safety
///
/// As the system's.
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    let errno = REFUSES_WITH.load(SeqCst);
    if operation == libc::EPOLL_CTL_ADD && errno != 0 {
        REFUSED.fetch_add(1, SeqCst);
        // SAFETY: it is this thread's.
        unsafe { *libc::__errno_location() = errno };
        return -1;
    }
    // SAFETY: by the caller's contract.
    let answer = unsafe { libc::syscall(libc::SYS_epoll_ctl, epoll, operation, fd, event) };
    c_int::try_from(answer).expect("0 or -1")
}

/// There is no room as long as this lives.
struct Full;

impl Full {
    fn with(errno: c_int) -> Self {
        REFUSED.store(0, SeqCst);
        REFUSES_WITH.store(errno, SeqCst);
        Self
    }

    fn refused(&self) -> u64 {
        REFUSED.load(SeqCst)
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        REFUSES_WITH.store(0, SeqCst);
    }
}

fn one_by_one<S, F>(scenario: S)
where
    S: Fn() -> F,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let _alone = SCENARIO.lock().expect("no scenario panics before");
    with_workers(scenario);
}

/// Polls `accept` while the epoll is full, makes room, and returns what is accepted then.
async fn accept_once_there_is_room<T>(errno: c_int, accept: impl Future<Output = T>) -> T {
    let mut accept = pin!(accept);
    let delayed = || Handle::current().metrics().accepts_delayed;
    let before = delayed();
    let mut full = Some(Full::with(errno));
    let mut polls = 0;
    let accepted = poll_fn(|cx| {
        if full.as_ref().is_some_and(|full| full.refused() == TRIES) {
            full = None;
        }
        let poll = accept.as_mut().poll(cx);
        polls += 1;
        if let Some(full) = &full {
            assert!(poll.is_pending());
            // On a slow machine a poll may come before the wait is over.
            assert!(full.refused() <= polls, "more than one try a poll");
        }
        poll
    })
    .await;
    assert_eq!(delayed() - before, TRIES);
    accepted
}

#[test]
fn tcp() {
    one_by_one(async || {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        for errno in [libc::ENOSPC, libc::ENOMEM] {
            let mut client = TcpStream::connect(listener.local_addr()?).await?;
            let accept = accept_once_there_is_room(errno, listener.accept());
            let (mut server, peer) = accept.await?;
            assert_eq!(peer, client.local_addr()?);
            server.write_all(b"x").await?;
            client.read_exact(&mut [0]).await?;
        }
        Ok(())
    });
}

#[test]
fn unix() {
    one_by_one(async || {
        let folder = Folder::new();
        let path = folder.path("socket");
        let listener = UnixListener::bind(&path)?;
        let mut client = UnixStream::connect(&path).await?;
        let accept = accept_once_there_is_room(libc::ENOSPC, listener.accept());
        let (server, _) = accept.await?;
        drop(server);
        assert_eq!(client.read(&mut [0]).await?, 0);
        Ok(())
    });
}

#[test]
fn a_stream_of_connections() {
    one_by_one(async || {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let client = TcpStream::connect(listener.local_addr()?).await?;
        let mut incoming = listener.incoming();
        let next = accept_once_there_is_room(libc::ENOSPC, incoming.next());
        let server = next.await.expect("it never ends")?;
        assert_eq!(server.peer_addr()?, client.local_addr()?);
        Ok(())
    });
}

#[test]
fn a_future_that_is_dropped_loses_no_connection() {
    one_by_one(async || {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let client = TcpStream::connect(listener.local_addr()?).await?;
        let full = Full::with(libc::ENOSPC);
        let mut accept = Box::pin(listener.accept());
        // On a busy machine the connection is under way for a while.
        while full.refused() == 0 {
            assert!(poll_once(&mut accept).await.is_pending());
            ws::task::yield_now().await;
        }
        drop((accept, full));
        // A clone of the listener does as well.
        let (_server, peer) = listener.clone().accept().await?;
        assert_eq!(peer, client.local_addr()?);
        Ok(())
    });
}

#[test]
fn a_poll_tells_and_tries_the_same_one_again() {
    one_by_one(async || {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let client = TcpStream::connect(listener.local_addr()?).await?;
        let full = Full::with(libc::ENOSPC);
        for tried in 1..=3 {
            let polled = poll_fn(|cx| Poll::Ready(listener.poll_accept(cx))).await;
            let Poll::Ready(Err(error)) = polled else {
                panic!("{polled:?}")
            };
            assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
            assert_eq!(full.refused(), tried);
        }
        drop(full);
        let (_server, peer) = poll_fn(|cx| listener.poll_accept(cx)).await?;
        assert_eq!(peer, client.local_addr()?);
        Ok(())
    });
}
