//! The current-thread flavour: tasks run in order, on the thread that is in `block_on`.
//!
//! Its tasks are in a [`TaskQueue`], which the root of a `block_on` polls, between two polls of its
//! own future. Below it is a runtime of `ws` that has no thread but that of its caller
//! (`Builder::current_thread`): it has the timers, the netpoll, and the threads for blocking calls.
//!
//! A task that yields is woken after the timers and the netpoll had their turn, and not before
//! ([`defer`]), as in tokio: a loop that yields until a socket is ready needs no other event, and does
//! not keep the round going.
//!
//! Any number of threads may be in `block_on`. One of them drives the queue. When it leaves, all
//! others are woken, and one of them takes over.

use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    mem,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicBool,
            Ordering::{AcqRel, Acquire, Release},
        },
    },
    task::{Context, Poll, Wake, Waker},
};

use ws_executor::task::{Spawner, TaskQueue};

use super::Handle;

/// Tasks that run before the timers and the netpoll have their turn. As in tokio.
pub(crate) const EVENT_INTERVAL: u32 = 61;

/// See the module's head.
pub(super) struct CurrentThread {
    queue: TaskQueue,
    event_interval: u32,
    driven: AtomicBool,
    /// Those that wait for their turn to drive.
    others: Mutex<Vec<Waker>>,
}

impl CurrentThread {
    pub(super) fn new(queue: TaskQueue, event_interval: u32) -> Self {
        Self {
            queue,
            event_interval,
            driven: AtomicBool::new(false),
            others: Mutex::default(),
        }
    }

    pub(super) fn spawner(&self) -> &Spawner {
        self.queue.spawner()
    }

    pub(super) fn block_on<F: Future>(&self, handle: &Handle, future: F) -> F::Output {
        let root = Arc::new(Root::default());
        let waker = Waker::from(root.clone());
        let mut driver = None;
        handle.ws.block_on(async {
            let mut future = pin!(future);
            poll_fn(|cx| {
                root.set_parent(cx.waker());
                if driver.is_none() {
                    driver = Driver::new(self, cx.waker());
                }
                let _deferring = driver.as_ref().map(|_| Deferring::begin());
                if root.take()
                    && let Poll::Ready(output) =
                        future.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    return Poll::Ready(output);
                }
                if driver.is_some() {
                    self.round(cx.waker());
                }
                Poll::Pending
            })
            .await
        })
    }

    /// Polls the tasks that are ready, but not for ever.
    fn round(&self, waker: &Waker) {
        self.queue.register(waker);
        let ran_out = (0..self.event_interval).any(|_| !self.queue.run_next());
        if !ran_out || is_deferring() {
            ws_executor::netpoll::look_around();
            wake_deferred();
        }
        if self.spawner().queued() > 0 {
            waker.wake_by_ref();
        }
    }

    fn others(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// The tasks that have yielded in this round. None: this thread is in no round.
    static DEFERRED: RefCell<Option<Vec<Waker>>> = const { RefCell::new(None) };
}

/// A round, with the poll of the root before it.
struct Deferring(Option<Vec<Waker>>);

impl Deferring {
    fn begin() -> Self {
        Self(DEFERRED.replace(Some(Vec::new())))
    }
}

impl Drop for Deferring {
    fn drop(&mut self) {
        // Something is left only if the root is ready, or panics: then it was the root that yielded.
        let left = DEFERRED.replace(self.0.take());
        left.into_iter().flatten().for_each(Waker::wake);
    }
}

/// Has a task that yields be woken at the end of the round. False on a thread that is in none.
pub(crate) fn defer(waker: &Waker) -> bool {
    // A clone before the borrow: it is code of the user's.
    let waker = waker.clone();
    DEFERRED.with_borrow_mut(|deferred| match deferred {
        Some(deferred) => {
            deferred.push(waker);
            true
        }
        None => false,
    })
}

fn is_deferring() -> bool {
    DEFERRED.with_borrow(|deferred| deferred.as_ref().is_some_and(|tasks| !tasks.is_empty()))
}

fn wake_deferred() {
    let deferred = DEFERRED.with_borrow_mut(|deferred| deferred.as_mut().map(mem::take));
    deferred.into_iter().flatten().for_each(Waker::wake);
}

/// The right to drive the queue.
struct Driver<'a>(&'a CurrentThread);

impl<'a> Driver<'a> {
    /// If another thread has it, `waker` is woken when that gives it up.
    fn new(queue: &'a CurrentThread, waker: &Waker) -> Option<Self> {
        let take = || !queue.driven.swap(true, AcqRel);
        if take() {
            return Some(Self(queue));
        }
        let waker = waker.clone();
        let stale = {
            let mut others = queue.others();
            let stale = others
                .extract_if(.., |other| other.will_wake(&waker))
                .next();
            others.push(waker);
            stale
        };
        drop(stale);
        // It may have been given up in between.
        take().then(|| Self(queue))
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        self.0.driven.store(false, Release);
        let others = mem::take(&mut *self.0.others());
        others.into_iter().for_each(Waker::wake);
    }
}

/// The waker of a `block_on`'s own future: it is polled when it was woken, and not whenever a task
/// was.
struct Root {
    woken: AtomicBool,
    parent: Mutex<Option<Waker>>,
}

impl Default for Root {
    fn default() -> Self {
        Self {
            // The first poll is due.
            woken: AtomicBool::new(true),
            parent: Mutex::default(),
        }
    }
}

impl Root {
    fn set_parent(&self, waker: &Waker) {
        let mut parent = self.parent.lock().unwrap_or_else(PoisonError::into_inner);
        if !parent
            .as_ref()
            .is_some_and(|parent| parent.will_wake(waker))
        {
            // Both are wakers of a thread of `ws`: no code of the user's.
            *parent = Some(waker.clone());
        }
    }

    fn take(&self) -> bool {
        // Ordering: Acquire pairs with the wake: its writes are seen by the poll.
        self.woken.load(Acquire) && self.woken.swap(false, AcqRel)
    }
}

impl Wake for Root {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Ordering: Release publishes what the waker wrote.
        if !self.woken.swap(true, AcqRel) {
            let parent = self
                .parent
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            if let Some(parent) = parent {
                parent.wake();
            }
        }
    }
}
