//! The netpoll of the `ws` runtime: readiness of sources, and the wakers that wait for it.
//!
//! It stands between the kernel and the scheduler, and knows nothing of tasks. What goes in are
//! [sources](Source) (sockets, pipes, anything that epoll and its like can watch); what comes out
//! are [wakers](std::task::Waker), in batches, for the scheduler to wake.
//!
//! - A [`Netpoll`] holds the sources of one runtime. One thread at a time is its [`Poller`], which
//!   looks or waits; others [interrupt](Netpoll::interrupt) it, or [bring its deadline
//!   forward](Netpoll::arm) without waking it.
//! - A [`Registration`] is one source in it. Tasks wait for a [`Direction`] of it: one by poll
//!   functions, and any number at once by futures.
//!
//! mio is named in this crate alone; what a user of sources needs of it is re-exported here.
//!
//! # Examples
//!
//! A task is only a waker here, and the scheduler a loop that polls.
//!
//! ```
//! use std::io::{self, Read, Write};
//! use std::os::{fd::AsRawFd, unix::net::UnixStream};
//! use std::task::{Context, Poll, Waker};
//! use ws_reactor::{Direction, Netpoll, Registration, STREAM_INTEREST, SourceFd};
//!
//! let netpoll = Netpoll::new()?;
//! let (here, mut there) = UnixStream::pair()?;
//! here.set_nonblocking(true)?;
//! let registration = Registration::new(&netpoll, &mut SourceFd(&here.as_raw_fd()), STREAM_INTEREST)?;
//!
//! let mut cx = Context::from_waker(Waker::noop());
//! let mut byte = [0];
//! let mut poll_read = || registration.poll_io(&mut cx, Direction::Read, || (&here).read(&mut byte));
//! assert!(poll_read().is_pending());
//!
//! there.write_all(b"!")?;
//! let mut ready = Vec::new();
//! let mut poller = netpoll.try_poller().expect("nobody else polls");
//! let result = poller.wait(None, &mut ready)?;
//! assert!(result.events && ready.len() == 1);
//! assert!(matches!(poll_read(), Poll::Ready(Ok(1))));
//! registration.deregister(&mut SourceFd(&here.as_raw_fd()))?;
//! # Ok::<(), io::Error>(())
//! ```
//!
//! # The files
//!
//! | file | asks |
//! | --- | --- |
//! | `netpoll.rs` | which thread polls, which waits, and how is a wait ended? |
//! | `alarm.rs` | until when does it wait, and how is that brought forward? |
//! | `sys.rs` | how does the kernel count nanoseconds? (`unsafe` code) |
//! | `poll_waker.rs` | how does a thread end the wait of another? |
//! | `kernel.rs` | where does a model have a kernel of its own? |
//! | `table.rs` | which source is an event about? |
//! | `source.rs` | how do a waiting task and an event not miss each other? |
//! | `readiness.rs` | what is known of a source, and why is no edge erased? |
//! | `wakers.rs` | which callers wait? |
//! | `registration.rs` | how does a task try, wait, and try again? |
//! | `seen.rs` | how does a task wait for a choice of what events say? |
//! | `transfer.rs` | what does a short read tell? |
//! | `thread.rs` | does a thread compute, or wait? |
//! | `inherited.rs` | what does a new thread have from the one that made it? |
//! | `pidfd.rs` | has a process ended? (`unsafe` code) |
//! | `signals.rs` | which listeners do the signals of a simulated process have? |
//! | `refused.rs` | what does the system refuse, and what is lost by that? |
//! | `unix.rs`, `windows.rs` | what is different between Unix and Windows? (`unsafe` code in their folders) |
//!
//! # Locks
//!
//! In this order: the driver (held by the [`Poller`]), the table, the wakers of one source; and on
//! its own the setting of the timer. No waker is cloned, woken or dropped under any of them but the
//! first, which no thread waits for.

#![cfg_attr(
    all(test, ws_loom),
    allow(
        dead_code,
        private_bounds,
        unused_imports,
        reason = "the models use a part of what is here"
    )
)]

mod alarm;
mod cpu_set;
mod inherited;
mod kernel;
#[cfg(all(test, ws_loom))]
mod models;
mod netpoll;
#[cfg(unix)]
mod pidfd;
mod poll_waker;
mod readiness;
mod refused;
mod registration;
mod seen;
#[cfg(unix)]
mod signals;
mod source;
mod sync;
mod sys;
mod table;
mod thread;
mod transfer;
#[cfg(unix)]
mod unix;
mod wakers;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as os;
#[cfg(windows)]
use windows as os;

pub use cpu_set::{CpuSet, allowed_cpus, current_cpu};
pub use inherited::Inherited;
#[cfg(unix)]
pub use inherited::blocks_signal;
pub use os::stderr_now;
#[cfg(unix)]
pub use os::{wait_readable, wait_writable};
#[cfg(unix)]
pub use pidfd::pidfd_open;
pub use refused::{Facility, Refusal, refusals, untell, untold_refusals};
pub use thread::{ThreadId, note_of_proc, stack_size, try_join};

pub use mio::Interest;
pub use mio::event::Source;
#[cfg(unix)]
pub use mio::unix::{SourceFd, pipe};
#[cfg(windows)]
#[doc(hidden)]
pub use os::pipe_of_sockets as pipe;
#[cfg(windows)]
pub use os::{
    ConsoleEvent, ConsoleListener, ExitWatch, NamedPipe, PipeEnd, PipeInfo, PipeServer,
    keep_from_children, open_client,
};

pub use netpoll::{Netpoll, Poller, WaitResult};
pub use readiness::{Direction, Ready, ReadySet, Seen};
pub use registration::{Readiness, Registration, Waiter};
#[cfg(unix)]
pub use signals::Signals;
pub use source::{Waiting, is_shut_down};
pub use transfer::STREAM_INTEREST;
