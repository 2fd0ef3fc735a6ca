//! The signals of Unix.

use std::{
    future::poll_fn,
    io,
    os::raw::c_int,
    task::{Context, Poll, ready},
};

use ws_net::signal::unix as ws;

use crate::runtime::{Handle, io_handle};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/signal/unix/struct.SignalKind.html).
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct SignalKind(c_int);

macro_rules! kinds {
    ($($(#[$meta:meta])* fn $name:ident = $signal:ident;)+) => {$(
        $(#[$meta])*
        pub const fn $name() -> Self {
            Self(libc::$signal)
        }
    )+};
}

impl SignalKind {
    /// The signal of this number.
    pub const fn from_raw(signum: c_int) -> Self {
        Self(signum)
    }

    /// The number.
    pub const fn as_raw_value(&self) -> c_int {
        self.0
    }

    kinds! {
        /// A timer of the system is over.
        fn alarm = SIGALRM;
        /// A child process has ended or stopped.
        fn child = SIGCHLD;
        /// The terminal is gone.
        fn hangup = SIGHUP;
        /// Ctrl-T.
        #[cfg(any(
            target_os = "dragonfly",
            target_os = "freebsd",
            target_os = "illumos",
            target_os = "macos",
            target_os = "netbsd",
            target_os = "openbsd",
        ))]
        fn info = SIGINFO;
        /// Ctrl-C.
        fn interrupt = SIGINT;
        /// A descriptor is ready.
        fn io = SIGIO;
        /// A write to a pipe without a reader.
        fn pipe = SIGPIPE;
        /// Ctrl-\.
        fn quit = SIGQUIT;
        /// A demand to end.
        fn terminate = SIGTERM;
        /// Whatever the program takes it for.
        fn user_defined1 = SIGUSR1;
        /// Whatever the program takes it for.
        fn user_defined2 = SIGUSR2;
        /// The terminal has another size.
        fn window_change = SIGWINCH;
    }
}

impl From<c_int> for SignalKind {
    fn from(signum: c_int) -> Self {
        Self::from_raw(signum)
    }
}

impl From<SignalKind> for c_int {
    fn from(kind: SignalKind) -> Self {
        kind.as_raw_value()
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/signal/unix/struct.Signal.html).
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
pub struct Signal {
    kind: SignalKind,
    ws: ws::Signal,
}

/// Listens for a signal, from now on.
///
/// # Errors
///
/// For a signal that no handler may take, and what the system says.
///
/// # Panics
///
/// Outside of a runtime with I/O.
#[track_caller]
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    io_handle();
    listen(kind).map(|ws| Signal { kind, ws })
}

fn listen(kind: SignalKind) -> io::Result<ws::Signal> {
    let refused = || io::Error::other(format!("Refusing to register signal {}", kind.0));
    if kind.0 <= 0 {
        return Err(refused());
    }
    match ws::signal(ws::SignalKind::from_raw(kind.0)) {
        // In the words of `ws`, not of the system.
        Err(error)
            if error.kind() == io::ErrorKind::InvalidInput && error.raw_os_error().is_none() =>
        {
            Err(refused())
        }
        listener => listener,
    }
}

impl Signal {
    /// Waits for the signal.
    pub async fn recv(&mut self) -> Option<()> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls [`Signal::recv`].
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        while ready!(self.ws.poll_recv(cx)).is_err() {
            // Its runtime has ended. In tokio any runtime serves.
            match Handle::try_current().map(|_| listen(self.kind)) {
                Ok(Ok(ws)) => self.ws = ws,
                _ => return Poll::Ready(None),
            }
        }
        Poll::Ready(Some(()))
    }
}
