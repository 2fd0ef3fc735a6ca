//! The events of a console that Windows has.

use std::{
    future::poll_fn,
    io,
    sync::Arc,
    task::{Context, Poll},
};

use ws_executor::task::coop;
use ws_reactor::{ConsoleEvent, ConsoleListener, Netpoll};

use crate::current;

/// Which event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignalKind(ConsoleEvent);

macro_rules! kinds {
    ($($(#[$meta:meta])* $name:ident = $event:ident;)+) => {
        impl SignalKind {$(
            $(#[$meta])*
            pub const fn $name() -> Self {
                Self(ConsoleEvent::$event)
            }
        )+}
    };
}

kinds! {
    /// Ctrl-C.
    ctrl_c = CtrlC;
    /// Ctrl-Break.
    ctrl_break = CtrlBreak;
    /// The window of the console is closed. The program has some seconds to end.
    ctrl_close = Close;
    /// The user logs off. Only services are told.
    ctrl_logoff = Logoff;
    /// The system ends. Only services are told.
    ctrl_shutdown = Shutdown;
}

/// A listener for one event; from [`signal`].
///
/// It listens until it is dropped. Any number may listen for the same event, in any runtimes, and
/// each is told. It does not end with its runtime.
#[derive(Debug)]
pub struct Signal(ConsoleListener);

/// Listens for an event, from now on.
///
/// While there is a listener for [`ctrl_close`](SignalKind::ctrl_close),
/// [`ctrl_logoff`](SignalKind::ctrl_logoff) or [`ctrl_shutdown`](SignalKind::ctrl_shutdown), the
/// process goes on after the event until it ends by itself, or until Windows ends it some seconds
/// later.
///
/// # Errors
///
/// What the system says.
///
/// # Panics
///
/// Panics outside of a runtime.
///
/// # Examples
///
/// ```no_run
/// use ws::signal::windows::{SignalKind, signal};
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let mut closed = signal(SignalKind::ctrl_close())?;
/// closed.recv().await?;
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    Signal::listen(&current::netpoll("ws::signal::windows::Signal"), kind)
}

/// A listener for Ctrl-C.
pub(super) fn interrupt(netpoll: &Arc<Netpoll>) -> io::Result<Signal> {
    Signal::listen(netpoll, SignalKind::ctrl_c())
}

impl Signal {
    fn listen(_: &Arc<Netpoll>, kind: SignalKind) -> io::Result<Self> {
        ConsoleListener::new(kind.0).map(Self)
    }

    /// Waits until the event has come at least once since the last time.
    ///
    /// # Errors
    ///
    /// None at the time of writing.
    ///
    /// # Cancel safety
    ///
    /// No event is lost when the future is dropped.
    pub async fn recv(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls [`Signal::recv`].
    ///
    /// # Errors
    ///
    /// As `recv`.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let unit = std::task::ready!(coop::poll_proceed(cx));
        self.0.poll_recv(cx).map(|()| {
            unit.made_progress();
            Ok(())
        })
    }
}
