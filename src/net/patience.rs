//! Patience: how `accept` and `connect` go on when the system has no room.
//!
//! # Accepting
//!
//! | error | what it says | then |
//! | --- | --- | --- |
//! | `ECONNABORTED`, network errors | this one connection is gone before it was taken | the next |
//! | `EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM` | no descriptor, or no memory, for now | wait, then try again |
//! | others | the listener is of no use | an error |
//!
//! The second kind is the dangerous one. The connection stays in the queue and the listener stays ready,
//! so a loop that goes on at once spins at full speed, and one that ends takes the server down for what is
//! over soon. The clients do not notice the wait: the kernel has answered them and keeps them in its
//! queue. No event says that a descriptor is free again, so this is a timer: 1 ms at first, twice as
//! much with each failure, 100 ms at most. (Go's `net/http` does the same with 5 ms and 1 s.)
//!
//! Linux hands errors of a new connection to `accept`, which accept(2) says to treat as "try again".
//!
//! # Connecting, and datagrams
//!
//! A Unix socket whose listener's queue is full answers `EAGAIN` to a nonblocking connect, and no event
//! says when there is room. Nor does one after `EAGAIN` to a Unix datagram, if others have filled the queue of
//! its receiver and the sender is not connected to that. The same wait serves both.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ws_executor::budget;
use ws_executor::time::{Sleep, sleep};
use ws_reactor::{Direction, Waiter};

use crate::async_fd::AsyncFd;

const WAIT_MIN: Duration = Duration::from_millis(1);
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Waits between attempts, twice as long each time.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    /// The wait that is going on.
    sleep: Option<Sleep>,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self {
            next: WAIT_MIN,
            sleep: None,
        }
    }

    /// Begins a wait.
    fn begin(&mut self) {
        self.sleep = Some(sleep(self.next));
        self.next = (self.next * 2).min(WAIT_MAX);
    }

    /// Ready when no wait is going on.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(sleep) = &mut self.sleep {
            ready!(Pin::new(sleep).poll(cx));
            self.sleep = None;
        }
        Poll::Ready(())
    }

    /// Waits once, after `error`. Outside of a runtime there is no timer to wait by, and the error is the
    /// answer.
    pub(crate) async fn wait_after(&mut self, error: io::Error) -> io::Result<()> {
        if !has_timers() {
            return Err(error);
        }
        self.begin();
        std::future::poll_fn(|cx| self.poll_over(cx)).await;
        Ok(())
    }
}

/// One who takes connections: its place among those who wait for the listener, and its patience with the system.
pub(crate) struct Accepting<'a> {
    waiter: Waiter<'a>,
    backoff: Backoff,
}

impl<'a> Accepting<'a> {
    pub(crate) fn new<L>(listener: &'a AsyncFd<L>) -> Self {
        Self {
            waiter: listener.waiter(Direction::Read),
            backoff: Backoff::new(),
        }
    }

    /// Accepts by `accept`.
    pub(crate) fn poll_accept<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut accept: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            ready!(self.backoff.poll_over(cx));
            let unit = ready!(budget::poll_proceed(cx));
            let accepted = ready!(self.waiter.poll_io(cx, &mut accept));
            unit.made_progress();
            match accepted {
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) if is_about_room(&error) && has_timers() => self.backoff.begin(),
                Err(error) => return Poll::Ready(Err(error)),
                Ok(accepted) => {
                    self.backoff = Backoff::new();
                    return Poll::Ready(Ok(accepted));
                }
            }
        }
    }
}

/// Whether this thread has a current runtime. A foreign executor that polls us has none.
fn has_timers() -> bool {
    ws_executor::netpoll::current().is_some()
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
    kind_says_so || matches!(error.raw_os_error(), Some(libc::EPROTO | libc::ENOPROTOOPT))
}

fn is_about_room(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails if the error of one connection is the answer, and if a success keeps the patience of before.
    #[test]
    fn a_broken_connection_is_passed_over_and_a_success_ends_the_patience() {
        crate::runtime::Runtime::new().unwrap().block_on(async {
            let (here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            let here = AsyncFd::new(here).unwrap();
            let mut accepting = Accepting::new(&here);
            // From the last to the first.
            let mut answers = vec![
                Ok(7),
                Err(libc::ECONNABORTED),
                Err(libc::EMFILE),
                Err(libc::EMFILE),
            ];
            let mut accept = || {
                let answer = answers.pop().expect("the success ends it");
                answer.map_err(io::Error::from_raw_os_error)
            };
            let accepted = std::future::poll_fn(|cx| accepting.poll_accept(cx, &mut accept)).await;
            assert_eq!(accepted.unwrap(), 7);
            assert_eq!(accepting.backoff.next, WAIT_MIN);
        });
    }

    #[test]
    fn each_error_has_its_remedy() {
        let errno = io::Error::from_raw_os_error;
        for room in [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM] {
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

    // Fails without the upper limit: after ten seconds without room, the next try would be ten seconds away.
    #[test]
    fn waits_grow_up_to_a_limit() {
        crate::runtime::Runtime::new().unwrap().block_on(async {
            let mut backoff = Backoff::new();
            for _ in 0..20 {
                backoff.begin();
            }
            assert_eq!(backoff.next, WAIT_MAX);
        });
    }
}
