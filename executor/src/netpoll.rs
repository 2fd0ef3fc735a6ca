//! The netpoll of the current runtime, and what is counted of its sockets, for the crate that
//! builds them.

use std::{
    io,
    task::{Context, Poll, ready},
    time::Duration,
};

use ws_reactor::Netpoll;

use crate::{
    advice::{Advised, advice},
    context,
    sched::{Shared, Worker},
    sync::{Arc, atomic::Ordering::Relaxed},
    task::coop,
    time::{Sleep, sleep},
    timer::ShutDown,
};

/// The netpoll of this thread's current runtime, if there is one.
pub fn current() -> Option<Arc<Netpoll>> {
    context::with_current(|current| current.map(|(shared, _)| shared.io.netpoll.clone()))
}

/// Fires the timers that are due and looks at the netpoll, on a worker that is in the middle of a
/// poll.
pub fn look_around() {
    context::with_worker(|worker| {
        if let Some(worker) = worker {
            worker.look_around();
        }
    });
}

/// The index of the worker that this thread is, below the number of workers. None in a `block_on`
/// and in a blocking call.
pub fn worker_index() -> Option<usize> {
    context::with_worker(|worker| worker.and_then(Worker::worker_index))
}

/// Counts and reports that a listener waits, since the system has no room for a connection. False
/// outside of a runtime: then there is no timer to wait by.
pub fn accept_waits(error: &io::Error) -> bool {
    context::with_current(|current| {
        current
            .map(|(shared, _)| shared.accept_waits(error))
            .is_some()
    })
}

/// A wait of an operation on a socket for what no event tells of.
///
/// It is a [`Sleep`], but the end of the runtime is an error and not a panic: operations on sockets
/// promise that.
#[derive(Debug)]
pub struct Pause(Sleep);

impl Pause {
    /// # Panics
    ///
    /// Outside of a runtime.
    pub fn new(duration: Duration) -> Self {
        Self(sleep(duration))
    }

    /// Ready when it is over.
    ///
    /// # Errors
    ///
    /// Of kind `Other` if the runtime of its timer was shut down before that.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let unit = ready!(coop::poll_proceed(cx));
        let answer = ready!(self.0.try_poll(cx));
        unit.made_progress();
        Poll::Ready(answer.map_err(|ShutDown| {
            io::Error::other("the runtime was shut down while this waited to try again")
        }))
    }
}

impl Shared {
    fn accept_waits(&self, error: &io::Error) {
        let count = self.io.accepts_delayed.fetch_add(1, Relaxed) + 1;
        if self.io.accept_reports.passes() {
            let advice = advice("a connection", error);
            let words = Advised(error, advice);
            self.telling.reports.tell_limited(
                || tracing::warn!(%error, advice, count, "no room for a connection: accept waits"),
                format_args!("no room for a connection: accept waits: {words}"),
            );
        }
    }
}
