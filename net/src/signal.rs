//! Signals of the system: Ctrl-C, and the others that Unix and Windows have.
//!
//! # Examples
//!
//! A program that ends cleanly on Ctrl-C or SIGTERM:
//!
//! ```no_run
//! use futures::FutureExt;
//! use ws::signal::unix::{SignalKind, signal};
//!
//! # async fn serve() {}
//! #[ws::main]
//! async fn main() -> std::io::Result<()> {
//!     let mut terminate = signal(SignalKind::terminate())?;
//!     ws::select! {
//!         () = serve().fuse() => {}
//!         interrupted = ws::signal::ctrl_c().fuse() => interrupted?,
//!         terminated = terminate.recv().fuse() => terminated?,
//!     }
//!     // Finish here what is in flight.
//!     Ok(())
//! }
//! ```
//!
//! # What listening changes
//!
//! The first time that a process listens for a signal, the system's default action is replaced for
//! good: after one `ctrl_c()`, a second Ctrl-C does not end the process, also when nothing listens
//! any more. On Unix a handler that was installed before, by other code, is still called. On
//! Windows it is not, as long as something listens: the event ends at the handler that takes it.
//!
//! On Unix a child that is made by `fork` without `exec` has the handler and a copy of the socket
//! by which it wakes the listeners. So a signal that comes to such a child wakes the listeners of
//! the parent. Fork before the first listener, or call `exec` in the child, which has no handler
//! then.
//!
//! # How it works, on Unix
//!
//! A handler may do next to nothing, so it writes a byte to a socket. Each [`Signal`](unix::Signal)
//! has its own pair of sockets, with an end in the registry of `signal-hook`, which calls all that
//! listen for a signal, and the other in the netpoll of its runtime. So listeners are independent
//! of each other, also in different runtimes, and no thread and no global state of ours is needed.
//! It costs two descriptors a listener, and a process has a handful of listeners.
//!
//! Rejected: one pair of sockets for the process and a broadcast behind it. It saves descriptors,
//! and takes a task that outlives its runtime.
//!
//! In a simulated host the signals are those of that host alone: a listener has its end in a table
//! of its runtime, and not in the registry of the process.
//!
//! Checked by `tests/signal_reaches_every_listener.rs`, and `sim/tests/signals.rs`.

use std::future::Future;
use std::io;

use crate::current::in_runtime;

/// Waits for the next Ctrl-C (SIGINT).
///
/// It listens from the first poll until the future is dropped. To miss none in between, keep a
/// `Signal` of the module `unix` or `windows`.
///
/// # Errors
///
/// What the system says, and on Unix an error of kind `Other` if the runtime was shut down. On
/// Windows a listener does not end with its runtime.
///
/// # Panics
///
/// The future panics if it is first polled outside of a runtime.
///
/// # Cancel safety
///
/// A signal that comes after the future was dropped is not seen by the next one; a `Signal` that
/// was there before sees it. Its default action does not come back.
///
/// # Examples
///
/// ```no_run
/// # ws::runtime::Runtime::new()?.block_on(async {
/// println!("press Ctrl-C to end this");
/// ws::signal::ctrl_c().await?;
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn ctrl_c() -> impl Future<Output = io::Result<()>> {
    in_runtime("ws::signal::ctrl_c", async move |netpoll| {
        let mut signal = interrupt(&netpoll)?;
        signal.recv().await
    })
}

#[cfg(unix)]
pub mod unix;
#[cfg(windows)]
pub mod windows;

#[cfg(unix)]
use unix::interrupt;
#[cfg(windows)]
use windows::interrupt;
