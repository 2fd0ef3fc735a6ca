//! How the end of a child is seen on Unix, and how an orphan is reaped. See *How it works* above.

use std::{
    io,
    os::fd::OwnedFd,
    process::{self, ExitStatus},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker, ready},
    time::Duration,
};

use ws_executor::time::{Instant, Sleep, sleep};
use ws_reactor::{Direction, Interest, Netpoll};

use crate::{
    async_fd::AsyncFd,
    signal::unix::{Signal, SignalKind},
};

/// What tells of the end.
#[derive(Debug)]
pub(super) enum Exit {
    Pidfd(AsyncFd<OwnedFd>),
    /// Boxed: it is large, and rare.
    Sigchld(Box<BySignal>),
}

/// A child that no descriptor tells of. Each SIGCHLD is a reason to look at it.
///
/// A signal that every thread blocks never comes. What other threads block is not known. So a
/// thread that blocks SIGCHLD itself looks at the child from time to time.
#[derive(Debug)]
pub(super) struct BySignal {
    signal: Signal,
    /// Ends when a thread that blocks the signal looks again.
    look: Sleep,
    pause: Duration,
}

/// The time between the first two looks at a child, which doubles from look to look.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

impl Exit {
    pub(super) fn of(child: &process::Child, netpoll: &Arc<Netpoll>) -> io::Result<Self> {
        match ws_reactor::pidfd_open(child.id()) {
            Ok(pidfd) => AsyncFd::on(netpoll, pidfd, Interest::READABLE).map(Self::Pidfd),
            Err(_) => Self::sigchld(netpoll),
        }
    }

    fn sigchld(netpoll: &Arc<Netpoll>) -> io::Result<Self> {
        Ok(Self::Sigchld(Box::new(BySignal {
            signal: Signal::listen(netpoll, SignalKind::child())?,
            look: sleep(FIRST_PAUSE),
            pause: FIRST_PAUSE,
        })))
    }

    /// Polls for the end, and reaps the child then.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        child: &mut process::Child,
    ) -> Poll<io::Result<ExitStatus>> {
        match self {
            Self::Pidfd(pidfd) => pidfd.poll_io(cx, Interest::READABLE, || {
                // While it is traced, it has ended for its tracer alone. There is another event
                // when it has ended for us.
                let status = child.try_wait()?;
                status.ok_or_else(|| io::ErrorKind::WouldBlock.into())
            }),
            Self::Sigchld(by_signal) => by_signal.poll(cx, child),
        }
    }

    /// Takes a child that nobody waits for any more.
    pub(super) fn leave(self, mut child: process::Child) {
        match self {
            _ if has_ended(&mut child) => {}
            Self::Pidfd(pidfd) => Orphan::wait_for(child, pidfd),
            Self::Sigchld(_) => push_orphan(child),
        }
    }
}

impl BySignal {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        child: &mut process::Child,
    ) -> Poll<io::Result<ExitStatus>> {
        loop {
            // Before the look, so that no signal falls between the two.
            let signal = self.signal.poll_recv(cx);
            if let Some(status) = child.try_wait()? {
                return Poll::Ready(Ok(status));
            }
            if signal.is_pending() && ws_reactor::blocks_signal(SignalKind::child().as_raw()) {
                ready!(self.poll_look(cx))?;
            } else {
                ready!(signal)?;
            }
        }
    }

    fn poll_look(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // As a socket says it, of whose runtime the timer is.
        let over = |_| io::Error::other("the runtime was shut down");
        ready!(self.look.try_poll(cx)).map_err(over)?;
        self.pause = LONGEST_PAUSE.min(2 * self.pause);
        self.look.reset(Instant::now() + self.pause);
        Poll::Ready(Ok(()))
    }
}

/// A child that is reaped by the waker that waits for its descriptor.
///
/// The descriptor's registration holds the waker, and so itself, until it takes the waker out to
/// wake it.
struct Orphan {
    /// None once it was woken.
    child: Mutex<Option<process::Child>>,
    pidfd: AsyncFd<OwnedFd>,
}

impl Orphan {
    fn wait_for(child: process::Child, pidfd: AsyncFd<OwnedFd>) {
        let orphan = Arc::new(Self {
            child: Mutex::new(Some(child)),
            pidfd,
        });
        let waker = Waker::from(orphan.clone());
        let mut cx = Context::from_waker(&waker);
        // It has just ended, or the runtime has.
        if orphan.pidfd.poll_ready(&mut cx, Direction::Read).is_ready() {
            orphan.wake();
        }
    }
}

impl Wake for Orphan {
    fn wake(self: Arc<Self>) {
        let child = self.child.lock();
        let child = child.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut child) = child
            && !has_ended(&mut child)
        {
            push_orphan(child);
        }
    }
}

/// Orphans that no descriptor tells of.
static ORPHANS: Mutex<Vec<process::Child>> = Mutex::new(Vec::new());

pub(super) fn push_orphan(child: process::Child) {
    let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
    orphans.push(child);
}

pub(super) fn reap_orphans() {
    let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
    orphans.retain_mut(|orphan| !has_ended(orphan));
}

/// Reaps the child if it has ended. A child that cannot be asked for was reaped by other code.
fn has_ended(child: &mut process::Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use ws_executor::runtime::Runtime;

    use super::*;
    use crate::process::Child;

    fn by_sigchld(command: &mut Command) -> Child {
        let child = command.spawn().expect("a child can be started");
        Child::told_by(child, |_, netpoll| Exit::sigchld(netpoll)).expect("SIGCHLD can be heard")
    }

    // Fails if the signal is looked for after the child, or if one signal stands for one child.
    #[test]
    fn without_a_descriptor_sigchld_tells_of_the_end() {
        let runtime = Runtime::new().expect("a runtime can be built");
        runtime.block_on(async {
            let mut children: Vec<_> = (0..20)
                .map(|code| by_sigchld(Command::new("sh").args(["-c", &format!("exit {code}")])))
                .collect();
            for (code, child) in children.iter_mut().enumerate() {
                let status = child.wait().await.expect("it can be waited for");
                assert_eq!(status.code(), i32::try_from(code).ok());
            }
        });
    }

    #[test]
    fn without_a_descriptor_the_next_child_reaps_an_orphan() {
        let runtime = Runtime::new().expect("a runtime can be built");
        runtime.block_on(async {
            let mut orphan = by_sigchld(Command::new("cat").stdin(Stdio::piped()));
            let stdin = orphan.get_mut().stdin.take();
            let id = orphan.get_ref().id();
            drop(orphan);
            let is_orphan = || {
                let orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
                orphans.iter().any(|orphan| orphan.id() == id)
            };
            assert!(is_orphan());
            drop(stdin);
            while is_orphan() {
                let mut child = by_sigchld(&mut Command::new("true"));
                child.wait().await.expect("it can be waited for");
            }
        });
    }
}
