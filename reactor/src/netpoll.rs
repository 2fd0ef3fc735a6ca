//! The netpoll: where the runtime learns what the kernel has to say.
//!
//! # What it is for
//!
//! As in Go, tasks wait for sockets without a thread. Threads of the scheduler look here when they
//! have nothing else to do, and now and then when they have. One of them waits here when there is
//! nothing at all. The netpoll knows wakers and not tasks. It hands the wakers of ready sources to
//! the thread that looked, and does no more: which task runs where is the scheduler's business.
//!
//! # One poller at a time
//!
//! [`Netpoll::try_poller`] gives out at most one [`Poller`], and never blocks: a thread that finds
//! another one polling has nothing to gain by waiting for it. While one thread waits in
//! [`Poller::wait`], no other looks, and none needs to: the kernel tells the waiting one at once.
//!
//! # Waiting, step by step
//!
//! 1. [`Poller::prepare`]. From here on every [`Netpoll::arm`] and [`Netpoll::interrupt`] reaches
//!    the wait.
//! 2. The caller looks at its timers and queues once more. What was put there before a fence that
//!    preceded ours, it sees now. What is put there later comes with an `arm` or `interrupt`, which
//!    sees that a thread is about to wait.
//! 3. [`Poller::wait`], or [`Poller::cancel`] if the look found something.
//!
//! A wait ends for one of three reasons ([`WaitResult`]), and only then: a waker is there to be
//! woken, a thread interrupts, or the deadline has come. Edges for which no task waits are noted
//! and do not end it. A timer that was set for a deadline which no longer holds does not end it
//! either (see `alarm.rs`).
//!
//! # Nobody waits
//!
//! A thread has to wait for a timer that was armed and for a source that was registered. Whether a
//! thread does is one load, of what it says in step 1 (`Alarm::is_awaited`). If none does, the
//! netpoll calls what [`Netpoll::on_unheard`] set: the scheduler knows whether a thread will still
//! come by, or sends one. Two store-load races are closed there, with a sequentially consistent
//! fence on either side of each:
//!
//! - A timer and a thread that is about to wait: see `alarm.rs`. With a source there is no such
//!   race, since the kernel tells a waiting thread of it.
//! - A timer or source and a thread that leaves. The thread stores that it does not wait, fences,
//!   and looks whether anything is to be waited for (`Env::poll_as` in the executor). So either
//!   that look sees the timer or source, or the thread that brought it sees that no thread waits.
//!
//! # An interrupt is not lost
//!
//! The flag `interrupted` is the interrupt, and the event in the poll only cuts a wait short. So it
//! does not matter which call fetches that event: a [`Poller::look`] may have it, and the flag
//! still stands.
//!
//! | interrupt | wait |
//! | --- | --- |
//! | 1. swaps the flag to true; if it was true, ends here | 1. `prepare`: says that a thread waits; fence |
//! | 2. ends here if no thread waits | 2. swaps the flag to false; if it was true, does not block |
//! | 3. writes the event | 3. blocks; then swaps the flag to false again |
//!
//! If the flag is raised before step 2 on the right, the wait does not block. If it is raised
//! later, then step 1 on the left reads what step 2 on the right wrote, or what came after that. So
//! it acquires what the fence of `prepare` releases: the interrupt sees that a thread waits, and
//! its event ends the block. It needs no fence of its own, since both swap the same word. A caller
//! that finds the flag raised leaves the rest to the thread that raised it. That thread is past its
//! swap and will write, or has written, or did not need to. An event may be left over for which the
//! flag was taken already: the next wait fetches it, finds no flag, and sleeps on.
//!
//! Checked by `models::netpoll`, on a kernel that is played, and by
//! `tests/netpoll/interrupt_is_never_lost.rs` on the real one.
//!
//! # System calls
//!
//! `look` is one `epoll_wait` with a timeout of zero. `wait` is one `epoll_wait`, and a
//! `timerfd_settime` only if the deadline is earlier than what the timer is set to. An interrupt is
//! one write, if a thread waits and no interrupt is under way; otherwise nothing.
//!
//! # Rejected
//!
//! - A thread of its own for polling: every event would cost two context switches.
//! - A poll for each processor: registering moves with the task or events come to the wrong thread,
//!   and an idle processor's events wait until a thread looks there.
//! - Waking inside the dispatch: it runs user code under our locks (S8), and the scheduler can push
//!   a batch at once, which it can not do with one wake-up after the other.

use std::fmt;
use std::io;
use std::task::Waker;
use std::time::{Duration, Instant};

use mio::Token;

use crate::alarm::{Alarm, Arm};
use crate::kernel::{Events, Poll, PollWaker, Registry};
use crate::source::Waiting;
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Arc, Mutex, MutexGuard, OnceLock};
use crate::table::{ALARM, INTERRUPT, Seen, Table};
use crate::wakers::wake_all;

/// How many events the first look fetches at most. After a look that fetched as many as it could,
/// the next one fetches twice as many, up to [`BATCH_MAX`]. Few programs have so many sockets that
/// are ready at once, and the others keep 10 kB.
const BATCH_FIRST: usize = 128;
/// The most events that a look fetches. 12 kB of events, 30 us of work: enough that a storm costs
/// few system calls, and little enough that the first of a batch does not wait long for the last.
/// The kernel goes round: what did not fit comes first in the next look.
const BATCH_MAX: usize = 1024;

/// The sources of a runtime, and the way to wait for them.
///
/// Shared by all threads of the runtime, and kept alive by every
/// [`Registration`](crate::Registration).
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
/// use ws_reactor::Netpoll;
///
/// let netpoll = Netpoll::new()?;
/// let mut poller = netpoll.try_poller().expect("nobody else polls");
/// assert!(netpoll.try_poller().is_none());
///
/// let mut ready = Vec::new();
/// let deadline = Instant::now() + Duration::from_micros(200);
/// poller.prepare();
/// let result = poller.wait(Some(deadline), &mut ready)?;
/// assert!(result.timed_out && Instant::now() >= deadline);
/// assert!(ready.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Netpoll {
    /// The thread that has the lock is the poller.
    driver: Mutex<Driver>,
    registry: Registry,
    waker: PollWaker,
    /// See *An interrupt is not lost*.
    interrupted: AtomicBool,
    pub(crate) table: Table,
    alarm: Alarm,
    /// See [`Netpoll::on_unheard`].
    on_unheard: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// See [`Netpoll::on_wake`].
    on_wake: OnceLock<OnWake>,
    /// See [`Netpoll::simulate_signals`].
    #[cfg(unix)]
    signals: OnceLock<crate::Signals>,
}

type OnWake = Box<dyn Fn(Vec<Waker>) + Send + Sync>;

struct Driver {
    poll: Poll,
    events: Events,
}

/// The right to poll, and the means. Given back on drop.
pub struct Poller<'a> {
    netpoll: &'a Netpoll,
    driver: MutexGuard<'a, Driver>,
    is_prepared: bool,
}

/// Why a wait ended. Several reasons may come together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct WaitResult {
    /// At least one waker was appended.
    pub events: bool,
    /// [`Netpoll::interrupt`] was called since the last wait that said so.
    pub interrupted: bool,
    /// The deadline has come.
    pub timed_out: bool,
}

impl Netpoll {
    /// Creates a netpoll without sources.
    ///
    /// # Errors
    ///
    /// What the system says: it needs four file descriptors on Linux (epoll and its duplicate,
    /// eventfd, timerfd), all of them close-on-exec. If a sandbox refuses one of the last two, the
    /// netpoll does without ([`Facility`](crate::Facility)).
    pub fn new() -> io::Result<Arc<Netpoll>> {
        Self::with_waker(PollWaker::new)
    }

    fn with_waker(
        waker: impl FnOnce(&Registry, Token) -> io::Result<PollWaker>,
    ) -> io::Result<Arc<Netpoll>> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        Ok(Arc::new(Netpoll {
            waker: waker(&registry, INTERRUPT)?,
            alarm: Alarm::new(&registry, ALARM)?,
            interrupted: AtomicBool::new(false),
            table: Table::default(),
            on_unheard: OnceLock::new(),
            on_wake: OnceLock::new(),
            #[cfg(unix)]
            signals: OnceLock::new(),
            driver: Mutex::new(Driver {
                poll,
                events: Events::with_capacity(BATCH_FIRST),
            }),
            registry,
        }))
    }

    /// Sets what is called where a timer was armed ([`arm`](Self::arm)) or a source registered, and
    /// no thread waits: on the thread that did it, after the timer or source can be seen, and after
    /// a sequentially consistent fence. False if it was set before.
    pub fn on_unheard(&self, hook: impl Fn() + Send + Sync + 'static) -> bool {
        self.on_unheard.set(Box::new(hook)).is_ok()
    }

    /// Calls `f` with each waker that a source has, and with what it waits for. A waker that a poll
    /// function was called with stays until the next event, also if its task waits no more.
    ///
    /// Locks are held meanwhile: `f` must call nothing of the netpoll, and neither wake nor drop a
    /// waker.
    pub fn for_each_waiter(&self, mut f: impl FnMut(&Waker, Waiting)) {
        self.table.for_each_waiter(&mut f);
    }

    /// Sets what wakes the waiters of a source where no event does: it is closed, the netpoll ends,
    /// or a caller wants it. It runs on that thread, which may be in the drop of a source, so a
    /// panic must go no further. Without it each is woken in turn, and one that blocks keeps the
    /// others waiting. False if it was set before.
    pub fn on_wake(&self, hook: impl Fn(Vec<Waker>) + Send + Sync + 'static) -> bool {
        self.on_wake.set(Box::new(hook)).is_ok()
    }

    /// From now on its runtime is one of a simulated process: [`signals`](Self::signals) are those
    /// that somebody raises there, and not the system's.
    #[cfg(unix)]
    pub fn simulate_signals(&self) {
        self.signals.get_or_init(crate::Signals::default);
    }

    /// The signals of a simulated process. None for a real one.
    #[cfg(unix)]
    pub fn signals(&self) -> Option<&crate::Signals> {
        self.signals.get()
    }

    pub(crate) fn wake_all(&self, wakers: Vec<Waker>) {
        match self.on_wake.get() {
            _ if wakers.is_empty() => {}
            Some(hook) => hook(wakers),
            None => wake_all(wakers),
        }
    }

    /// A source was registered.
    pub(crate) fn registered(&self) {
        // Ordering: SeqCst pairs with the fence in `Env::poll_as` of the executor: either this
        // thread sees that no thread waits, or the thread that has left the wait sees the source
        // (`has_sources`). Model `netpoll::a_source_is_registered_beside_a_thread_that_leaves`.
        fence(Ordering::SeqCst);
        if !self.alarm.is_awaited() {
            self.is_unheard();
        }
    }

    fn is_unheard(&self) {
        if let Some(hook) = self.on_unheard.get() {
            hook();
        }
    }

    /// Returns the right to poll, or `None` while another thread has it. Does not block.
    pub fn try_poller(&self) -> Option<Poller<'_>> {
        Some(Poller {
            netpoll: self,
            driver: self.driver.try_lock()?,
            is_prepared: false,
        })
    }

    /// Makes the thread that waits in [`Poller::wait`], or the next one that does, return soon.
    ///
    /// May be called by any thread at any time. At most one system call, and none if no thread
    /// waits or an interrupt is under way.
    ///
    /// # Panics
    ///
    /// If the system refuses to wake the poller, which no system does while the netpoll is there: a
    /// scheduler that can not wake its threads is at its end.
    pub fn interrupt(&self) {
        // Ordering: Release pairs with the Acquire in `take_interrupt`: the wait that takes the
        // interrupt sees what each caller did before, also a caller that found the flag raised.
        // Acquire pairs with the fence in `Alarm::prepare`, by way of the swap behind it: a caller
        // that comes after that sees that a thread waits. Models
        // `netpoll::an_interrupt_ends_the_wait` and `netpoll::two_interrupts_are_both_seen`.
        if self.interrupted.swap(true, Ordering::AcqRel) {
            return;
        }
        if self.alarm.is_awaited() {
            self.wake();
        }
    }

    /// Takes note that a timer was armed: the thread that waits will return by then. If no thread
    /// waits, the deadline is not asked for, and what [`on_unheard`](Self::on_unheard) set is
    /// called.
    ///
    /// The waiting thread is not woken for it. Costs a fence and a load if the deadline is no
    /// earlier than the one that is waited for, and one system call if it is.
    ///
    /// Before this is called, the timer has to be visible to a thread that looks for timers between
    /// [`Poller::prepare`] and [`Poller::wait`].
    ///
    /// # Panics
    ///
    /// As [`Netpoll::interrupt`].
    pub fn arm(&self, deadline: impl FnOnce() -> Instant) {
        match self.alarm.arm(deadline) {
            Arm::Done => {}
            Arm::Unheard => self.is_unheard(),
            // Not an interrupt: the wait looks at its deadline again and goes on.
            Arm::Wake => self.wake(),
        }
    }

    /// A look makes sense from now on, whether there is a source or not: mio keeps a named pipe
    /// open until it has heard of all its operations, also of those that the drop of the pipe has
    /// cancelled.
    #[cfg(windows)]
    pub fn expects_completions(&self) {
        self.table.expects_completions();
    }

    /// Returns whether any source is registered, so that a look makes sense.
    pub fn has_sources(&self) -> bool {
        self.table.has_sources()
    }

    /// Ends it: all waiters are woken, and every operation on a registration fails from now on.
    ///
    /// The thread in [`Poller::wait`] is interrupted. Can be called again.
    ///
    /// # Panics
    ///
    /// As [`Netpoll::interrupt`]. A panic of a waker goes no further than the panic hook.
    pub fn shut_down(&self) {
        let wakers = self.table.shut_down();
        self.interrupt();
        self.wake_all(wakers);
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    fn wake(&self) {
        self.waker
            .wake()
            .expect("the poller can be woken as long as the netpoll is there");
    }

    fn take_interrupt(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `interrupt`. For its Acquire, the fence in
        // `Alarm::prepare` stands before this.
        self.interrupted.swap(false, Ordering::Acquire)
    }
}

impl fmt::Debug for Netpoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Netpoll")
            .field("has_sources", &self.has_sources())
            .field("is_awaited", &self.alarm.is_awaited())
            .finish_non_exhaustive()
    }
}

impl Poller<'_> {
    /// Looks without blocking. Wakers of what became ready are appended to `ready`, for the caller
    /// to wake.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn look(&mut self, ready: &mut Vec<Waker>) -> io::Result<()> {
        let seen = self.poll(|| Some(Duration::ZERO), ready)?;
        if seen.alarm {
            self.netpoll.alarm.rang();
        }
        Ok(())
    }

    /// Step 1 of waiting: from now on every [`Netpoll::arm`] and [`Netpoll::interrupt`] reaches the
    /// wait. The caller looks at all its timers and queues once more after this.
    pub fn prepare(&mut self) {
        self.is_prepared = true;
        self.netpoll.alarm.prepare();
    }

    /// Step 2: waits until a waker can be woken, for an interrupt, or for the deadline: the earlier
    /// of this one and what was armed since [`Poller::prepare`]. Without any, it waits for ever.
    ///
    /// Without a `prepare` before, it does that first. Wakers are appended to `ready`, for the
    /// caller to wake.
    ///
    /// # Errors
    ///
    /// What the system says; being interrupted by a signal is not an error, and does not end the
    /// wait. What was appended to `ready` before is to be woken all the same.
    pub fn wait(
        &mut self,
        deadline: Option<Instant>,
        ready: &mut Vec<Waker>,
    ) -> io::Result<WaitResult> {
        if !self.is_prepared {
            self.prepare();
        }
        let result = self.wait_prepared(deadline, ready);
        self.cancel();
        let mut result = result?;
        // Once more, now that no thread writes an event any longer: it saves the next wait a round.
        result.interrupted |= self.netpoll.take_interrupt();
        Ok(result)
    }

    /// Step 2, if the caller changed its mind.
    pub fn cancel(&mut self) {
        if self.is_prepared {
            self.is_prepared = false;
            self.netpoll.alarm.finish();
        }
    }

    fn wait_prepared(
        &mut self,
        deadline: Option<Instant>,
        ready: &mut Vec<Waker>,
    ) -> io::Result<WaitResult> {
        let alarm = &self.netpoll.alarm;
        let before = ready.len();
        let mut result = WaitResult {
            interrupted: self.netpoll.take_interrupt(),
            ..WaitResult::default()
        };
        loop {
            let timeout = if result.interrupted {
                Some(Duration::ZERO)
            } else {
                alarm.aim(deadline)?;
                None
            };
            let seen = self.poll(|| timeout.or_else(|| alarm.timeout()), ready)?;
            if seen.alarm {
                alarm.rang();
            }
            result.events = ready.len() > before;
            result.interrupted |= self.netpoll.take_interrupt();
            result.timed_out = (seen.alarm || !alarm.keeps_time()) && alarm.is_due();
            if result != WaitResult::default() {
                return Ok(result);
            }
        }
    }

    /// One poll. A signal in the middle of it starts it again, with a new timeout.
    fn poll(
        &mut self,
        timeout: impl Fn() -> Option<Duration>,
        ready: &mut Vec<Waker>,
    ) -> io::Result<Seen> {
        let Driver { poll, events } = &mut *self.driver;
        loop {
            match poll.poll(events, timeout()) {
                Ok(()) => {
                    let mut fetched = 0;
                    let counted = events.iter().inspect(|_| fetched += 1);
                    let seen = self.netpoll.table.dispatch(counted, ready);
                    if fetched == events.capacity() && fetched < BATCH_MAX {
                        *events = Events::with_capacity(2 * fetched);
                    }
                    if seen.interrupt {
                        self.netpoll.waker.fetched();
                    }
                    return Ok(seen);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Poller<'_> {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl fmt::Debug for Poller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller")
            .field("is_prepared", &self.is_prepared)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, target_os = "linux", not(ws_loom)))]
mod tests {
    use super::*;
    use std::{net::UdpSocket, os::fd::AsRawFd};

    use crate::{Interest, Registration, SourceFd};

    /// Fails if looks stay short where more is ready, or if the first one is long.
    #[test]
    fn looks_grow_with_what_they_find() {
        const SOCKETS: usize = 300;
        let netpoll = Netpoll::new().unwrap();
        let _registered = Vec::from_iter((0..SOCKETS).map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut source = SourceFd(&socket.as_raw_fd());
            let registration = Registration::new(&netpoll, &mut source, Interest::WRITABLE);
            (registration.unwrap(), socket)
        }));
        let mut capacities = Vec::new();
        for _ in 0..4 {
            let mut poller = netpoll.try_poller().unwrap();
            capacities.push(poller.driver.events.capacity());
            poller.look(&mut Vec::new()).unwrap();
        }
        // 128 and 172 of the 300 come. After them nothing does.
        assert_eq!(capacities, [128, 256, 256, 256]);
    }

    /// Fails if a poll leaves the bytes of the pipe where they are: see `poll_waker.rs`.
    #[test]
    fn whatever_fetches_the_event_of_a_pipe_empties_it() {
        let netpoll = Netpoll::with_waker(PollWaker::pipe).unwrap();
        let polls: [fn(&mut Poller<'_>); 2] = [
            |poller| poller.look(&mut Vec::new()).unwrap(),
            |poller| assert!(poller.wait(None, &mut Vec::new()).unwrap().interrupted),
        ];
        for poll in polls {
            let mut poller = netpoll.try_poller().unwrap();
            poller.prepare();
            netpoll.interrupt();
            netpoll.wake();
            poll(&mut poller);
            assert!(netpoll.waker.is_empty());
        }
    }
}
