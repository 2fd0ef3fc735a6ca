//! The signals of Unix.

use std::{
    collections::HashMap,
    future::poll_fn,
    io, mem,
    os::raw::c_int,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};

use ws_net::signal::unix as ws;

use crate::runtime::{Handle, Host, io_handle};

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
    /// Present from the end of [`signal`] until the drop.
    ws: Option<ws::Signal>,
    host: Weak<Host>,
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
    let host = Handle::current().host;
    let mut signal = Signal {
        kind,
        ws: host.as_ref().and_then(|host| host.listeners.begin(kind)),
        host: host.as_ref().map_or_else(Weak::new, Arc::downgrade),
    };
    if signal.ws.is_none() {
        signal.ws = Some(listen(kind)?);
    }
    Ok(signal)
}

fn listen(kind: SignalKind) -> io::Result<ws::Signal> {
    let refused = || io::Error::other(format!("Refusing to register signal {}", kind.0));
    if kind.0 <= 0 {
        return Err(refused());
    }
    if kind.0 > libc::SIGRTMAX() {
        return Err(io::Error::other("signal too large"));
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
        let ws = self.ws.as_mut().expect("it is there until the drop");
        while ready!(ws.poll_recv(cx)).is_err() {
            // Its runtime has ended. In tokio any runtime serves, and without one it waits. The
            // next listener is there before the last one is asked, so no signal is lost in between.
            let next = Handle::try_current()
                .ok()
                .and_then(|_| listen(self.kind).ok());
            if matches!(ws.forget(), Ok(true)) {
                return Poll::Ready(Some(()));
            }
            match next {
                Some(listener) => *ws = listener,
                None => return Poll::Pending,
            }
        }
        Poll::Ready(Some(()))
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        if let Some(host) = self.host.upgrade() {
            host.listeners.end(self.kind, self.ws.take());
        }
    }
}

/// Longest time between two listeners in which no signal is lost.
const GAP: Duration = Duration::from_millis(100);

/// The listeners of a runtime, and the last one of each signal that was dropped, for the next one.
///
/// A loop around `select!` drops a `ctrl_c()` in each round and makes another. In tokio, to listen
/// costs no system call, and a signal that comes in between is mostly heard: no driver has looked
/// for it. Here a listener costs two descriptors, so the next one takes those of the last. A signal
/// that came while there was no listener counts for [`GAP`], and for one listener: if there was
/// another, that has heard it.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<HashMap<SignalKind, OfKind>>);

#[derive(Debug, Default)]
struct OfKind {
    alive: usize,
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    ws: ws::Signal,
    /// When it was dropped, if it was the last one.
    since: Option<Instant>,
}

impl Listeners {
    /// A listener more; what was kept for it, if it can be had.
    fn begin(&self, kind: SignalKind) -> Option<ws::Signal> {
        let (kept, is_alone) = {
            let mut all = self.lock();
            let of_kind = all.entry(kind).or_default();
            of_kind.alive += 1;
            (of_kind.kept.take(), of_kind.alive == 1)
        };
        let mut kept = kept?;
        let counts = is_alone && kept.since.is_some_and(|since| since.elapsed() <= GAP);
        if !counts {
            kept.ws.forget().ok()?;
        }
        Some(kept.ws)
    }

    /// A listener less. Its own is kept, if there is one.
    fn end(&self, kind: SignalKind, ws: Option<ws::Signal>) {
        let ws = ws.and_then(without_past);
        let replaced = {
            let mut all = self.lock();
            let of_kind = all.entry(kind).or_default();
            of_kind.alive = of_kind.alive.saturating_sub(1);
            let is_last = of_kind.alive == 0;
            let since = is_last.then(Instant::now);
            ws.and_then(|ws| of_kind.kept.replace(Kept { ws, since }))
        };
        drop(replaced);
    }

    /// At the end of the runtime.
    pub(crate) fn clear(&self) {
        let all = mem::take(&mut *self.lock());
        drop(all);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SignalKind, OfKind>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one listener has not looked at is not for the next one. None if its runtime has ended.
fn without_past(mut ws: ws::Signal) -> Option<ws::Signal> {
    // The task's waker goes out.
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(signal) = ws.poll_recv(&mut cx) {
        signal.ok()?;
    }
    ws.forget().ok()?;
    Some(ws)
}
