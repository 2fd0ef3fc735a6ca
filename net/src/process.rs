//! Child processes: waiting for one that std has started.
//!
//! # Examples
//!
//! ```
//! use std::process::Command;
//! use ws::process::{self, Child};
//!
//! # ws::runtime::Runtime::new()?.block_on(async {
//! let child = process::spawn(Command::new("sh").args(["-c", "exit 7"]))?;
//! let mut child = Child::new(child)?;
//! assert_eq!(child.wait().await?.code(), Some(7));
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! No thread waits. Linux has a descriptor of a process, which is readable once the process has
//! ended; it goes into the netpoll. If the system refuses it, each SIGCHLD is a reason to look
//! after the child: by a listener for SIGCHLD. A signal that all threads block never comes, so a
//! thread that blocks this one looks after the child by a timer as well, every 100 ms at the
//! latest. On Windows, a thread pool of the system waits, and wakes the task.
//!
//! # Orphans
//!
//! An orphan is a child that is dropped while it runs. Once it has ended, it stays in the system as
//! a zombie until somebody asks for its status ("reaps" it).
//!
//! - With a descriptor, the descriptor stays in the netpoll. The waker that waits there reaps the
//!   child. No task is needed, and a runtime with orphans ends as any other does.
//! - Otherwise, and when the runtime ends, the orphan goes to a list of the process. Each thread
//!   that makes or drops a [`Child`] looks at it.
//!
//! Rejected: a task for each orphan. It would be counted among the runtime's tasks.
//!
//! On Windows a process without an open handle leaves nothing behind, so there are no orphans.
//!
//! Checked by `tests/a_child_is_waited_for.rs`.

#[cfg(unix)]
#[path = "process/unix.rs"]
mod os;
#[cfg(windows)]
#[path = "process/windows.rs"]
mod os;

use std::{
    future::poll_fn,
    io,
    process::{self, ExitStatus},
    sync::Arc,
    task::{Context, Poll, ready},
};

use ws_reactor::Netpoll;

use self::os::{Exit, push_orphan, reap_orphans};
use crate::{async_fd::poll_at_once, current};

/// Starts a process: as [`process::Command::spawn`], but for what it is to the scheduler.
///
/// The system stops the thread until the child runs on its own. Elsewhere that is a block, and the
/// worker's place is given to another thread. But the child needs the core of that place, so here
/// the thread keeps it, for as long as a poll may take (10 ms). Outside of a runtime it is std's
/// function.
///
/// # Errors
///
/// What the system says.
///
/// # Examples
///
/// ```
/// use std::process::Command;
/// use ws::process::{self, Child};
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let mut child = Child::new(process::spawn(&mut Command::new("true"))?)?;
/// assert!(child.wait().await?.success());
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn spawn(command: &mut process::Command) -> io::Result<process::Child> {
    ws_executor::start_process(|| command.spawn())
}

/// A child process that tasks can wait for.
///
/// A child that is dropped runs on, and is reaped when it ends.
#[derive(Debug)]
pub struct Child {
    /// Present until the drop.
    std: Option<process::Child>,
    /// None once the child has been reaped. std keeps its status then.
    exit: Option<Exit>,
}

impl Child {
    /// Takes a child of std, to wait for it in the current runtime.
    ///
    /// # Errors
    ///
    /// What the system says, and on Unix an error of kind `Other` if the runtime was shut down. The
    /// child runs on.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn new(child: process::Child) -> io::Result<Self> {
        Self::told_by(child, Exit::of)
    }

    #[track_caller]
    fn told_by(
        child: process::Child,
        exit: impl FnOnce(&process::Child, &Arc<Netpoll>) -> io::Result<Exit>,
    ) -> io::Result<Self> {
        let netpoll = current::netpoll("ws::process::Child");
        reap_orphans();
        match exit(&child, &netpoll) {
            Ok(exit) => Ok(Self {
                std: Some(child),
                exit: Some(exit),
            }),
            Err(error) => {
                push_orphan(child);
                Err(error)
            }
        }
    }

    /// Returns the child of std: its number, and its ends of pipes.
    pub fn get_ref(&self) -> &process::Child {
        present(self.std.as_ref())
    }

    /// Returns the child of std, to kill it, or to take its ends of pipes.
    pub fn get_mut(&mut self) -> &mut process::Child {
        present(self.std.as_mut())
    }

    /// Waits for the child's end.
    ///
    /// Its standard input is closed before, if it is a pipe that is still in the child of std: a
    /// child that reads until the end would not end.
    ///
    /// Once the child has ended, the answer is always the same.
    ///
    /// # Errors
    ///
    /// What the system says, and on Unix an error of kind `Other` if the runtime was shut down,
    /// unless this is polled in another one. On Windows no runtime is needed to wait.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        poll_fn(|cx| self.poll_wait(cx)).await
    }

    /// Polls [`Child::wait`].
    ///
    /// # Errors
    ///
    /// As [`Child::wait`].
    pub fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        let child = present(self.std.as_mut());
        drop(child.stdin.take());
        let Some(exit) = &mut self.exit else {
            return poll_at_once(cx, || child.wait());
        };
        let status = loop {
            match ready!(exit.poll(cx, child)) {
                // The runtime has ended. The one that polls now may be another.
                Err(error) if error.kind() == io::ErrorKind::Other => {
                    if let Some(status) = child.try_wait()? {
                        break status;
                    }
                    let Some(netpoll) = ws_executor::netpoll::current() else {
                        return Poll::Ready(Err(error));
                    };
                    *exit = Exit::of(child, &netpoll)?;
                }
                status => break status?,
            }
        };
        self.exit = None;
        Poll::Ready(Ok(status))
    }

    /// The child's status, if it has ended.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.get_mut().try_wait()?;
        if status.is_some() {
            self.exit = None;
        }
        Ok(status)
    }
}

fn present<T>(child: Option<T>) -> T {
    child.expect("only the drop takes it")
}

impl Drop for Child {
    fn drop(&mut self) {
        let (Some(mut child), Some(exit)) = (self.std.take(), self.exit.take()) else {
            return;
        };
        reap_orphans();
        drop((child.stdin.take(), child.stdout.take(), child.stderr.take()));
        exit.leave(child);
    }
}
