//! Retries: how `accept` and `connect` go on when the system has no room.
//!
//! # Accepting
//!
//! | error | what it says | then |
//! | --- | --- | --- |
//! | `ECONNABORTED`, network errors | this one connection is gone before it was taken | the next |
//! | `EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`, `ENOSPC` | no descriptor, no memory, or no place in an epoll, for now | wait, then try again |
//! | others | the listener is of no use | an error |
//!
//! The second kind is the dangerous one. The connection stays in the queue and the listener stays
//! ready. So a loop that goes on at once spins at full speed, and one that ends takes the server
//! down for what is over soon. The clients do not notice the wait: the kernel has answered them and
//! keeps them in its queue. No event says that a descriptor is free again, so this is a timer: 1 ms
//! at first, twice as much with each failure, 100 ms at most. (Go's `net/http` does the same with 5
//! ms and 1 s.)
//!
//! The timer is one of the current runtime, which may end during the wait, and need not be that of
//! the socket. Then there is nothing to wait by any more, and the answer is an error, as that of
//! every operation after the end.
//!
//! Linux hands errors of a new connection to `accept`, which accept(2) says to treat as "try
//! again".
//!
//! Each wait is counted (`Metrics::accepts_delayed`), and reported once a second at most.
//!
//! # Held connections
//!
//! The system may have room for a connection, and the netpoll none: `epoll_ctl` fails if there is
//! no memory (`ENOMEM`), or if the user has as many registrations as the system allows (`ENOSPC`,
//! see `/proc/sys/fs/epoll/max_user_watches`). The connection has left the kernel's queue by then,
//! and cannot go back. So it goes into the listener's [`Held`], and each accept looks there before
//! it asks the system:
//!
//! | a task that puts one in | a task that takes one |
//! | --- | --- |
//! | 1. puts it in, under the lock | 1. looks there, then asks the system |
//! | 2. wakes all waiters of the listener | 2. if it would block: puts its waker in, looks there again |
//!
//! *Invariant*: no task waits for the listener alone while a connection is held. A task that put
//! its waker in before step 2 of the other side is woken by that. One that came later finds the
//! connection at its second look. So every task that accepts has a try of its own, and a wait of
//! its own after it. None depends on another, and a future may be dropped at any time. A held
//! connection is closed with its listener, as those in the kernel's queue are.
//!
//! # Connecting, and datagrams
//!
//! A Unix socket whose listener's queue is full answers `EAGAIN` to a nonblocking connect, and no
//! event says when there is room. The same holds for `EAGAIN` to a Unix datagram, if others have
//! filled the queue of its receiver and the sender is not connected to that. The same wait serves
//! both.

use std::io;
use std::sync::Mutex;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ws_executor::netpoll::{self, Pause};
use ws_executor::task::coop;
use ws_reactor::{Direction, Waiter};

use crate::async_fd::{AsyncFd, settle};
use crate::os;

const WAIT_MIN: Duration = Duration::from_millis(1);
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Waits between attempts, twice as long each time.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    /// The wait that is going on.
    pause: Option<Pause>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            next: WAIT_MIN,
            pause: None,
        }
    }
}

impl Backoff {
    /// Begins a wait.
    fn begin(&mut self) {
        self.pause = Some(Pause::new(self.next));
        self.next = (self.next * 2).min(WAIT_MAX);
    }

    /// Ready when no wait is going on.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(pause) = &mut self.pause else {
            return Poll::Ready(Ok(()));
        };
        let answer = ready!(pause.poll(cx));
        self.pause = None;
        Poll::Ready(answer)
    }

    /// Waits once, after `error`. Outside of a runtime there is no timer to wait by, and the error
    /// is the answer.
    pub async fn wait_after(&mut self, error: io::Error) -> io::Result<()> {
        // A foreign executor that polls us has none.
        if netpoll::current().is_none() {
            return Err(error);
        }
        self.begin();
        std::future::poll_fn(|cx| self.poll_over(cx)).await
    }
}

/// Connections that left the system's queue and found no room in the netpoll, with the addresses of
/// their peers; see *Held connections*.
#[derive(Debug)]
pub struct Held<S, A>(Mutex<Vec<(S, A)>>);

impl<S, A> Default for Held<S, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S, A> Held<S, A> {
    /// The next connection: one that is held, or one that `poll` brings.
    pub fn poll_next(
        &self,
        poll: impl FnOnce() -> Poll<io::Result<(S, A)>>,
    ) -> Poll<io::Result<(S, A)>> {
        if let Some(held) = self.lock().pop() {
            return Poll::Ready(Ok(held));
        }
        let polled = poll();
        if polled.is_pending()
            && let Some(held) = self.lock().pop()
        {
            return Poll::Ready(Ok(held));
        }
        polled
    }

    /// Has a connection join the netpoll of its listener, or holds it if there is no room.
    pub fn join<L, T>(
        &self,
        listener: &AsyncFd<L>,
        (socket, peer): (S, A),
        join: impl FnOnce(S) -> Result<T, (S, io::Error)>,
    ) -> io::Result<(T, A)> {
        match join(socket) {
            Ok(joined) => Ok((joined, peer)),
            Err((socket, error)) => {
                if is_about_room(&error) {
                    self.lock().push((socket, peer));
                    listener.wake(Direction::Read);
                }
                Err(error)
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(S, A)>> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

/// A caller that takes connections: its place among the waiters of the listener, and its retries
/// with the system.
#[derive(Debug)]
pub struct Accepting<'a, L, S, A> {
    listener: &'a AsyncFd<L>,
    held: &'a Held<S, A>,
    waiter: Waiter<'a>,
    backoff: Backoff,
}

impl<'a, L, S, A> Accepting<'a, L, S, A> {
    pub fn new(listener: &'a AsyncFd<L>, held: &'a Held<S, A>) -> Self {
        Self {
            listener,
            held,
            waiter: listener.waiter(Direction::Read),
            backoff: Backoff::default(),
        }
    }

    /// Takes a connection by `accept`, and has it join the netpoll by `join`.
    pub fn poll_accept<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut accept: impl FnMut() -> io::Result<(S, A)>,
        mut join: impl FnMut(S) -> Result<T, (S, io::Error)>,
    ) -> Poll<io::Result<(T, A)>> {
        let Self {
            listener,
            held,
            waiter,
            backoff,
        } = self;
        loop {
            ready!(backoff.poll_over(cx))?;
            let unit = ready!(coop::poll_proceed(cx));
            let polled = held.poll_next(|| waiter.poll_io(cx, &mut accept));
            let accepted = ready!(settle(unit, polled));
            match accepted.and_then(|accepted| held.join(listener, accepted, &mut join)) {
                Err(error) if is_about_one_connection(&error) => {}
                // Outside of a runtime there is no timer to wait by.
                Err(error) if is_about_room(&error) && netpoll::accept_waits(&error) => {
                    backoff.begin();
                }
                Err(error) => return Poll::Ready(Err(error)),
                Ok(accepted) => {
                    *backoff = Backoff::default();
                    return Poll::Ready(Ok(accepted));
                }
            }
        }
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkDown,
        NetworkUnreachable,
    };
    let kind_says_so = matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionReset
            | HostUnreachable
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
    );
    let number = error.raw_os_error();
    kind_says_so || number.is_some_and(os::is_about_one_connection)
}

fn is_about_room(error: &io::Error) -> bool {
    let number_says_so = error.raw_os_error().is_some_and(os::is_about_room);
    // A netpoll that has no token left says so without a number.
    number_says_so || error.kind() == io::ErrorKind::OutOfMemory
}

#[cfg(all(test, unix))]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::task::{Wake, Waker};

    use super::*;

    // Fails if the error of one connection is the answer, and if the wait stays long after a
    // success.
    #[test]
    fn a_broken_connection_is_passed_over_and_a_success_ends_the_retries() {
        ws_executor::runtime::Runtime::new()
            .unwrap()
            .block_on(async {
                let (here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
                here.set_nonblocking(true).unwrap();
                let here = AsyncFd::new(here).unwrap();
                let held = Held::default();
                let mut accepting = Accepting::new(&here, &held);
                // From the last to the first.
                let mut answers = vec![
                    Ok((7, ())),
                    Err(libc::ECONNABORTED),
                    Err(libc::EMFILE),
                    Err(libc::EMFILE),
                ];
                let mut accept = || {
                    let answer = answers.pop().expect("the success ends it");
                    answer.map_err(io::Error::from_raw_os_error)
                };
                let accepted = poll_fn(|cx| accepting.poll_accept(cx, &mut accept, Ok)).await;
                assert_eq!(accepted.unwrap().0, 7);
                assert_eq!(accepting.backoff.next, WAIT_MIN);
            });
    }

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
        }
    }

    fn nothing_comes() -> io::Result<(u32, ())> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    // Fails without the wake in `Held::join`, and without the second look in `Held::poll_next`.
    #[test]
    fn nobody_waits_beside_a_held_connection() {
        ws_executor::runtime::Runtime::new()
            .unwrap()
            // On a slow machine the slice is over before the last look, which says nothing here.
            .block_on(coop::unconstrained(async {
                let (here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
                here.set_nonblocking(true).unwrap();
                let here = AsyncFd::new(here).unwrap();
                let held = Held::default();
                let is_there_room = Cell::new(false);
                let join = |connection: u32| {
                    if is_there_room.get() {
                        Ok(connection)
                    } else {
                        Err((connection, io::Error::from_raw_os_error(libc::ENOSPC)))
                    }
                };

                // One waits, and a connection of another's finds no room.
                let woken = Arc::new(Woken::default());
                let waker = Waker::from(woken.clone());
                let mut cx = Context::from_waker(&waker);
                let mut waits = Accepting::new(&here, &held);
                assert!(waits.poll_accept(&mut cx, nothing_comes, join).is_pending());
                held.join(&here, (1, ()), join).expect_err("there is none");
                assert!(woken.0.load(SeqCst));
                is_there_room.set(true);
                let accepted = waits.poll_accept(&mut cx, nothing_comes, join);
                assert!(matches!(accepted, Poll::Ready(Ok((1, ())))));

                // One has looked, and has not put its waker in when another's is refused.
                let (here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
                here.set_nonblocking(true).unwrap();
                let here = AsyncFd::new(here).unwrap();
                let mut looks = Accepting::new(&here, &held);
                let other_comes = || {
                    is_there_room.set(false);
                    held.join(&here, (2, ()), join).expect_err("there is none");
                    is_there_room.set(true);
                    nothing_comes()
                };
                let accepted = looks.poll_accept(&mut cx, other_comes, join);
                assert!(matches!(accepted, Poll::Ready(Ok((2, ())))));
            }));
    }

    #[test]
    fn each_error_has_its_remedy() {
        let errno = io::Error::from_raw_os_error;
        for room in [
            libc::EMFILE,
            libc::ENFILE,
            libc::ENOBUFS,
            libc::ENOMEM,
            libc::ENOSPC,
        ] {
            assert!(is_about_room(&errno(room)));
            assert!(!is_about_one_connection(&errno(room)));
        }
        for one in [
            libc::ECONNABORTED,
            libc::EPROTO,
            libc::ENETDOWN,
            libc::EINTR,
        ] {
            assert!(is_about_one_connection(&errno(one)));
            assert!(!is_about_room(&errno(one)));
        }
        for fatal in [libc::EBADF, libc::EINVAL, libc::ENOTSOCK] {
            assert!(!is_about_one_connection(&errno(fatal)));
            assert!(!is_about_room(&errno(fatal)));
        }
    }

    // Fails without the upper limit: after ten seconds without room, the next try would be ten
    // seconds away.
    #[test]
    fn waits_grow_up_to_a_limit() {
        ws_executor::runtime::Runtime::new()
            .unwrap()
            .block_on(async {
                let mut backoff = Backoff::default();
                for _ in 0..20 {
                    backoff.begin();
                }
                assert_eq!(backoff.next, WAIT_MAX);
            });
    }
}
