//! The kernel of the models: what the netpoll asks of epoll, eventfd and timerfd, made of loom's
//! locks.
//!
//! - A poll hands out all that was reported since the last one, and waits if there is nothing. Each
//!   token is in it once.
//! - A model has no clock. A timer that is set to the origin or before expires at once, and one
//!   that is set to any later time never does. Setting it takes an expiration back that nobody has
//!   fetched.
//!
//! The lock makes whatever is reported visible to the poll that fetches it, as the kernel's own
//! locks do. It is not taken where the shipped code makes no system call, so it hides no order that
//! the code has to bring by itself.

use std::{
    io, slice,
    task::{Context, Poll as TaskPoll, Wake},
    time::{Duration, Instant},
};

use mio::{Interest, Token};

use crate::{
    netpoll::Netpoll,
    registration::Registration,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    wakers::wake_all,
};

/// What was reported and not fetched.
#[derive(Debug, Default)]
struct Kernel {
    reported: Mutex<Vec<Token>>,
    changed: Condvar,
}

impl Kernel {
    fn report(&self, token: Token) {
        let mut reported = self.reported.lock();
        if !reported.contains(&token) {
            reported.push(token);
        }
        self.changed.notify_all();
    }

    fn take_back(&self, token: Token) {
        self.reported.lock().retain(|reported| *reported != token);
    }
}

#[derive(Debug)]
pub(crate) struct Registry(Arc<Kernel>);

impl Registry {
    pub(crate) fn try_clone(&self) -> io::Result<Registry> {
        Ok(Registry(self.0.clone()))
    }
}

#[derive(Debug)]
pub(crate) struct Poll(Registry);

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Registry(Arc::default())))
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.0
    }

    pub(crate) fn poll(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let kernel = &self.0.0;
        let mut reported = kernel.reported.lock();
        match timeout {
            Some(timeout) => assert!(timeout.is_zero(), "the timer keeps the time"),
            None => {
                while reported.is_empty() {
                    let woken = kernel.changed.wait(reported);
                    reported = woken.expect("a panic ends the model");
                }
            }
        }
        events.0 = reported.drain(..).map(Event).collect();
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Events(Vec<Event>);

impl Events {
    pub(crate) fn with_capacity(_: usize) -> Self {
        Self(Vec::new())
    }

    /// There is room for whatever comes.
    pub(crate) fn capacity(&self) -> usize {
        usize::MAX
    }

    pub(crate) fn iter(&self) -> slice::Iter<'_, Event> {
        self.0.iter()
    }
}

/// Every event says "readable", and nothing else.
#[derive(Debug)]
pub(crate) struct Event(Token);

impl Event {
    pub(crate) fn token(&self) -> Token {
        self.0
    }

    pub(crate) fn is_readable(&self) -> bool {
        true
    }

    pub(crate) fn is_writable(&self) -> bool {
        false
    }

    pub(crate) fn is_read_closed(&self) -> bool {
        false
    }

    pub(crate) fn is_write_closed(&self) -> bool {
        false
    }

    pub(crate) fn is_priority(&self) -> bool {
        false
    }

    pub(crate) fn is_error(&self) -> bool {
        false
    }
}

#[derive(Debug)]
pub(crate) struct Waker(Registry, Token);

impl Waker {
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        Ok(Self(registry.try_clone()?, token))
    }

    pub(crate) fn wake(&self) -> io::Result<()> {
        self.0.0.report(self.1);
        Ok(())
    }

    /// As of an eventfd: nothing has to be read.
    pub(crate) fn fetched(&self) {}
}

#[derive(Debug)]
pub(crate) struct Timer {
    registry: Registry,
    token: Token,
    origin: Instant,
}

impl Timer {
    pub(crate) fn keeps_time(&self) -> bool {
        true
    }

    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        Ok(Self {
            registry: registry.try_clone()?,
            token,
            origin: Instant::now(),
        })
    }

    pub(crate) fn origin(&self) -> Instant {
        self.origin
    }

    pub(crate) fn set(&self, at_ns: u64) -> io::Result<()> {
        let kernel = &self.registry.0;
        kernel.take_back(self.token);
        // `Alarm` counts from 1.
        if at_ns <= 1 {
            kernel.report(self.token);
        }
        Ok(())
    }
}

/// As mio's.
pub(crate) trait Source {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest)
    -> io::Result<()>;
    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()>;
    fn deregister(&mut self, registry: &Registry) -> io::Result<()>;
}

/// A pipe, with the end that is read in a netpoll.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// How many bytes were written. Read and written as weakly as can be: the order of a read and
    /// of what is known of readiness is the reactor's to bring.
    written: AtomicUsize,
    /// How many were read, by one thread.
    read: AtomicUsize,
    watched: Mutex<Option<(Registry, Token)>>,
}

impl Pipe {
    /// One whose reader is registered.
    pub(super) fn registered(netpoll: &Arc<Netpoll>) -> (Arc<Self>, Arc<Registration>) {
        let pipe = Arc::new(Self::default());
        let registration = Registration::new(netpoll, &mut &*pipe, Interest::READABLE);
        (pipe, Arc::new(registration.expect("the netpoll is open")))
    }

    pub(super) fn write(&self) {
        let watched = self.watched.lock();
        self.written.fetch_add(1, Relaxed);
        if let Some((registry, token)) = &*watched {
            registry.0.report(*token);
        }
    }

    fn has_byte(&self) -> bool {
        self.written.load(Relaxed) > self.read.load(Relaxed)
    }

    pub(super) fn read(&self) -> io::Result<()> {
        if self.has_byte() {
            self.read.fetch_add(1, Relaxed);
            Ok(())
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }
}

impl Source for &Pipe {
    fn register(&mut self, registry: &Registry, token: Token, _: Interest) -> io::Result<()> {
        *self.watched.lock() = Some((registry.try_clone()?, token));
        if self.has_byte() {
            registry.0.report(token);
        }
        Ok(())
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.register(registry, token, interest)
    }

    fn deregister(&mut self, _: &Registry) -> io::Result<()> {
        *self.watched.lock() = None;
        Ok(())
    }
}

/// Looks once, and wakes what came.
pub(super) fn look(netpoll: &Netpoll) {
    let mut ready = Vec::new();
    let mut poller = netpoll.try_poller().expect("nobody else polls");
    poller
        .look(&mut ready)
        .expect("this kernel knows no errors");
    drop(poller);
    wake_all(ready);
}

/// A task that has a thread to itself: it sleeps until it is woken. If nothing wakes it, it is a
/// deadlock, which loom reports.
pub(super) fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> TaskPoll<T>) -> T {
    let sleeper = Arc::new(Sleeper::default());
    let waker = sleeper.clone().into();
    let mut cx = Context::from_waker(&waker);
    loop {
        if let TaskPoll::Ready(answer) = poll(&mut cx) {
            return answer;
        }
        sleeper.sleep();
    }
}

#[derive(Debug, Default)]
struct Sleeper {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Sleeper {
    fn sleep(&self) {
        let mut woken = self.woken.lock();
        while !*woken {
            let guard = self.changed.wait(woken);
            woken = guard.expect("a panic ends the model");
        }
        *woken = false;
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        *self.woken.lock() = true;
        self.changed.notify_all();
    }
}
