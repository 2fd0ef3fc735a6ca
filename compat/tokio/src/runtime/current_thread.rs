//! The current-thread flavour: tasks run in order, on the thread that is in `block_on`.
//!
//! Its tasks are in a [`TaskQueue`], which the root of a `block_on` polls, between two polls of its
//! own future. Below it is a runtime of `ws` that has no thread but that of its caller
//! (`Builder::current_thread`): it has the timers, the netpoll, and the threads for blocking calls.
//!
//! A task that yields, and the future itself if it does, goes on after the timers and the netpoll
//! had their turn, as in tokio: a loop that yields until a socket is ready needs no other event.
//!
//! Any number of threads may be in `block_on`. One of them drives the queue. When it leaves, all
//! others are woken, and one of them takes over.

use std::{
    cell::Cell,
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
        let _inside = InBlockOn(IN_BLOCK_ON.replace(true));
        handle.ws.block_on(async {
            let mut future = pin!(future);
            poll_fn(|cx| {
                root.set_parent(cx.waker());
                if driver.is_none() {
                    driver = Driver::new(self, cx.waker());
                }
                let _driving = Driving::set(driver.is_some());
                if root.take()
                    && let Poll::Ready(output) =
                        future.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    return Poll::Ready(output);
                }
                if driver.is_some() {
                    self.round(&root, cx.waker());
                }
                Poll::Pending
            })
            .await
        })
    }

    /// Polls the tasks that are ready, but not for ever.
    fn round(&self, root: &Root, waker: &Waker) {
        self.queue.register(waker);
        let mut ran = 0;
        while ran < self.event_interval && self.queue.run_next() {
            ran += 1;
        }
        if self.spawner().queued() > 0 || root.is_woken() {
            ws_executor::netpoll::look_around();
            self.queue.end_round();
            waker.wake_by_ref();
        }
    }

    fn others(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

thread_local! {
    /// This thread runs the tasks of a current-thread runtime.
    static DRIVING: Cell<bool> = const { Cell::new(false) };
    /// It is in the `block_on` of one.
    static IN_BLOCK_ON: Cell<bool> = const { Cell::new(false) };
}

pub(super) fn is_driving() -> bool {
    DRIVING.get()
}

pub(crate) fn is_in_block_on() -> bool {
    IN_BLOCK_ON.get()
}

/// Puts back what there was.
struct InBlockOn(bool);

impl Drop for InBlockOn {
    fn drop(&mut self) {
        IN_BLOCK_ON.set(self.0);
    }
}

/// Puts back what there was.
struct Driving(bool);

impl Driving {
    fn set(driving: bool) -> Self {
        Self(DRIVING.replace(driving))
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        DRIVING.set(self.0);
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

    fn is_woken(&self) -> bool {
        // Ordering: Acquire as in `take`.
        self.woken.load(Acquire)
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
