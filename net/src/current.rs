//! The runtime that a socket joins: the current one, or a panic at the caller's line.
//!
//! A socket is registered with the netpoll of the runtime that is current where it is made, and
//! stays with it, whatever thread polls it later. Without a runtime there is nothing to register
//! with. That is a mistake in the program and not a condition to handle, so it panics, and the
//! panic has to point into the user's code.
//!
//! - A plain function says `#[track_caller]` and calls [`netpoll`].
//! - An `async fn` cannot: its body runs inside `poll`, and the caller is gone. So `connect`,
//!   `bind` and their kin are plain functions that return an [`InRuntime`]. It looks for the
//!   runtime when it is polled for the first time, so that
//!   `runtime.block_on(TcpStream::connect(..))` works although the future was made outside. Its
//!   `poll` is `#[track_caller]`, which gives the line of the `.await`, and the message has the
//!   line of the call, for futures that are awaited by a combinator.
//!
//! It also has a part in the budget: to bind, or to be refused by the system, is ready at once,
//! again and again (F7).
//!
//! What is made from another socket (an accepted stream) joins the runtime of that one, and does
//! not ask for the current runtime.
//!
//! Checked by `tests/outside_a_runtime_panics_at_the_callers_line.rs`.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use ws_executor::task::coop::{Coop, cooperative};
use ws_reactor::Netpoll;

/// Returns the netpoll of the current runtime.
///
/// # Panics
///
/// Panics at the caller's line if there is none.
#[track_caller]
pub fn netpoll(what: &str) -> Arc<Netpoll> {
    match ws_executor::netpoll::current() {
        Some(netpoll) => netpoll,
        None => panic!(
            "{what} was used outside of a ws runtime: call it from a task, from `block_on`, or after \
             `Handle::enter`"
        ),
    }
}

pin_project! {
    /// A future that is given the current runtime's netpoll at its first poll.
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct InRuntime<S, F> {
        what: &'static str,
        called_at: &'static Location<'static>,
        // Taken by the first poll.
        start: Option<S>,
        // Set by the first poll.
        #[pin]
        future: Option<Coop<F>>,
    }
}

/// Makes a future of `start`, which runs at the first poll, inside a runtime.
///
/// # Panics
///
/// The future panics if it is first polled outside of a runtime.
#[track_caller]
pub fn in_runtime<S, F>(what: &'static str, start: S) -> InRuntime<S, F>
where
    S: FnOnce(Arc<Netpoll>) -> F,
    F: Future,
{
    InRuntime {
        what,
        called_at: Location::caller(),
        start: Some(start),
        future: None,
    }
}

impl<S, F> Future for InRuntime<S, F>
where
    S: FnOnce(Arc<Netpoll>) -> F,
    F: Future,
{
    type Output = F::Output;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        if let Some(start) = this.start.take() {
            let Some(netpoll) = ws_executor::netpoll::current() else {
                panic!(
                    "{} was used outside of a ws runtime: await it in a task, in `block_on`, or after \
                     `Handle::enter` (it was called at {})",
                    this.what, this.called_at
                );
            };
            this.future.set(Some(cooperative(start(netpoll))));
        }
        this.future
            .as_pin_mut()
            .expect("a future that panicked at its first poll is not polled again")
            .poll(cx)
    }
}
