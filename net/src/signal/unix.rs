//! The signals that Unix has.

use std::fmt;
use std::io::{self, Read};
use std::os::raw::c_int;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context, Poll};

use signal_hook::SigId;
use signal_hook::consts;
use signal_hook::low_level::{pipe, unregister};
use ws_reactor::{Interest, Netpoll};

use crate::async_fd::AsyncFd;
use crate::current;

/// Which signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignalKind(c_int);

impl SignalKind {
    /// The signal of this number.
    ///
    /// ```
    /// use ws::signal::unix::SignalKind;
    ///
    /// assert_eq!(SignalKind::from_raw(2), SignalKind::interrupt());
    /// ```
    pub const fn from_raw(number: c_int) -> Self {
        Self(number)
    }

    /// The number of this signal.
    pub const fn as_raw(self) -> c_int {
        self.0
    }

    /// SIGALRM: a timer of the system is over.
    pub const fn alarm() -> Self {
        Self(consts::SIGALRM)
    }

    /// SIGCHLD: a child process has ended or stopped.
    pub const fn child() -> Self {
        Self(consts::SIGCHLD)
    }

    /// SIGHUP: the terminal is gone; daemons take it as "read your configuration again".
    pub const fn hangup() -> Self {
        Self(consts::SIGHUP)
    }

    /// SIGINT: Ctrl-C.
    pub const fn interrupt() -> Self {
        Self(consts::SIGINT)
    }

    /// SIGPIPE: a write to a pipe without a reader. Rust programs ignore it from their start.
    pub const fn pipe() -> Self {
        Self(consts::SIGPIPE)
    }

    /// SIGQUIT: Ctrl-\.
    pub const fn quit() -> Self {
        Self(consts::SIGQUIT)
    }

    /// SIGTERM: end cleanly.
    pub const fn terminate() -> Self {
        Self(consts::SIGTERM)
    }

    /// SIGUSR1: whatever the program takes it for.
    pub const fn user_defined1() -> Self {
        Self(consts::SIGUSR1)
    }

    /// SIGUSR2: whatever the program takes it for.
    pub const fn user_defined2() -> Self {
        Self(consts::SIGUSR2)
    }

    /// SIGWINCH: the terminal has another size.
    pub const fn window_change() -> Self {
        Self(consts::SIGWINCH)
    }
}

/// A listener for one signal; from [`signal`].
///
/// It listens until it is dropped. Any number may listen for the same signal, in any runtimes,
/// and each is told.
pub struct Signal {
    kind: SignalKind,
    /// The handler writes a byte to the other end for each signal.
    bytes: AsyncFd<UnixStream>,
    place: Place,
}

/// What owns the end that is written to.
enum Place {
    Registry(SigId),
    /// The table of a simulated host.
    Simulated(Arc<Netpoll>, u64),
}

/// Listens for a signal, from now on.
///
/// # Errors
///
/// [`InvalidInput`](io::ErrorKind::InvalidInput) for signals that no handler may take: SIGKILL
/// and SIGSTOP, and those that report a fault of the program itself, SIGSEGV, SIGILL and
/// SIGFPE. Otherwise what the system says, and an error of kind `Other` if the runtime was shut
/// down.
///
/// # Panics
///
/// Panics outside of a runtime.
///
/// # Examples
///
/// ```
/// use ws::signal::unix::{SignalKind, signal};
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let mut changed = signal(SignalKind::user_defined1())?;
/// signal_hook::low_level::raise(SignalKind::user_defined1().as_raw())?;
/// changed.recv().await?;
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    Signal::listen(&current::netpoll("ws::signal::unix::Signal"), kind)
}

/// A listener for Ctrl-C.
pub(super) fn interrupt(netpoll: &Arc<Netpoll>) -> io::Result<Signal> {
    Signal::listen(netpoll, SignalKind::interrupt())
}

impl Signal {
    pub(crate) fn listen(netpoll: &Arc<Netpoll>, kind: SignalKind) -> io::Result<Self> {
        if consts::FORBIDDEN.contains(&kind.0) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("signal {} cannot be listened for", kind.0),
            ));
        }
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        let bytes = AsyncFd::on(netpoll, read, Interest::READABLE)?;
        let place = match netpoll.signals() {
            None => Place::Registry(pipe::register(kind.0, write)?),
            Some(signals) => {
                write.set_nonblocking(true)?;
                Place::Simulated(netpoll.clone(), signals.listen(kind.0, write))
            }
        };
        Ok(Self { kind, bytes, place })
    }

    /// Waits until the signal has come at least once since the last time.
    ///
    /// As in the system itself, several that come close together may count as one.
    ///
    /// # Errors
    ///
    /// An error of kind `Other` if the runtime was shut down.
    ///
    /// # Cancel safety
    ///
    /// No signal is lost when the future is dropped.
    pub async fn recv(&mut self) -> io::Result<()> {
        self.bytes
            .io(Interest::READABLE, || drain(self.bytes.get_ref()))
            .await
    }

    /// Polls [`Signal::recv`].
    ///
    /// # Errors
    ///
    /// As `recv`.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bytes
            .poll_io(cx, Interest::READABLE, || drain(self.bytes.get_ref()))
    }
}

impl Signal {
    /// Forgets the signals that have come, for a listener in the place of another. Says whether
    /// there were any, also after the end of its runtime.
    ///
    /// # Errors
    ///
    /// What the system says.
    #[doc(hidden)]
    pub fn forget(&mut self) -> io::Result<bool> {
        match drain(self.bytes.get_ref()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            drained => drained.map(|()| true),
        }
    }
}

/// Takes all bytes; there has to be one at least.
fn drain(mut bytes: &UnixStream) -> io::Result<()> {
    let mut buffer = [0; 256];
    let mut read = bytes.read(&mut buffer)?;
    // What comes meanwhile counts as well. A short read is the last: no byte comes with
    // descriptors.
    while read == buffer.len() {
        read = match bytes.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            more => more?,
        };
    }
    Ok(())
}

impl Drop for Signal {
    fn drop(&mut self) {
        match &self.place {
            Place::Registry(id) => drop(unregister(*id)),
            Place::Simulated(netpoll, id) => {
                if let Some(signals) = netpoll.signals() {
                    signals.forget(*id);
                }
            }
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signal").field(&self.kind).finish()
    }
}
