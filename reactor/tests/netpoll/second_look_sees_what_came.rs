//! What comes after a task has found nothing ready, and before its waker is in, wakes nobody: so
//! every way to wait looks a second time, and sees it.
//!
//! The moment is hit in every run. A task's waker is cloned between its first look and the lock of
//! the wakers, and a clone is user code: that of the waker here lets the thing happen. (It runs
//! under no lock, S8; under one, the test would hang.)
//!
//! An island of `unsafe`: `std` has no safe waker with a clone of one's own.
#![expect(unsafe_code, reason = "a waker with a clone of its own")]

use crate::common;

use std::future::Future;
use std::io::{Read, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

use common::{Registered, Stream, TimeLimit, look, pair};
use ws_reactor::{Direction, Netpoll, STREAM_INTEREST};

/// What a waker does when it is first cloned, and how often it was woken.
struct Hook {
    on_clone: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    wakes: AtomicUsize,
}

impl Hook {
    fn new(on_clone: impl FnOnce() + Send + 'static) -> (Arc<Hook>, Waker) {
        let hook = Arc::new(Hook {
            on_clone: Mutex::new(Some(Box::new(on_clone))),
            wakes: AtomicUsize::new(0),
        });
        let data = Arc::into_raw(hook.clone()).cast();
        // SAFETY: `data` is a count of an `Arc<Hook>`, which is `Send` and `Sync`, and the
        // functions of `HOOKED` keep to the contract of a waker: `clone` adds a count, `wake` and
        // `drop` take one, `wake_by_ref` takes none.
        let waker = unsafe { Waker::from_raw(RawWaker::new(data, &HOOKED)) };
        (hook, waker)
    }

    fn is_cloned(&self) -> bool {
        self.on_clone.lock().unwrap().is_none()
    }

    fn is_woken(&self) -> bool {
        self.wakes.load(Ordering::Relaxed) > 0
    }
}

static HOOKED: RawWakerVTable = RawWakerVTable::new(
    |data| {
        let hook = data.cast::<Hook>();
        // SAFETY: the waker that is cloned holds a count of this `Arc` while this runs.
        let this = unsafe {
            Arc::increment_strong_count(hook);
            &*hook
        };
        let on_clone = this.on_clone.lock().unwrap().take();
        if let Some(on_clone) = on_clone {
            on_clone();
        }
        RawWaker::new(data, &HOOKED)
    },
    |data| {
        // SAFETY: the waker is consumed, and its count is ours.
        let this = unsafe { Arc::from_raw(data.cast::<Hook>()) };
        this.wakes.fetch_add(1, Ordering::Relaxed);
    },
    |data| {
        // SAFETY: the waker that is borrowed holds a count of this `Arc` while this runs.
        let this = unsafe { &*data.cast::<Hook>() };
        this.wakes.fetch_add(1, Ordering::Relaxed);
    },
    // SAFETY: the waker is consumed, and its count is ours.
    |data| drop(unsafe { Arc::from_raw(data.cast::<Hook>()) }),
);

/// What may come. All of it is over when this returns.
#[derive(Clone, Copy, Debug)]
enum News {
    Edge,
    HangUp,
    Deregistration,
    Shutdown,
}

impl News {
    fn happen(self, netpoll: &Netpoll, here: &Registered<Stream>, mut there: Stream) {
        match self {
            News::Edge => {
                there.write_all(b"x").unwrap();
                look(netpoll);
            }
            News::HangUp => {
                drop(there);
                look(netpoll);
            }
            News::Deregistration => here.deregister().unwrap(),
            News::Shutdown => netpoll.shut_down(),
        }
    }
}

/// Lets each kind of news come to a task that is about to wait. `is_pending` polls, and says
/// whether it would wait.
fn news_is_not_missed(is_pending: impl Fn(&Registered<Stream>, &mut Context<'_>) -> bool) {
    for news in [
        News::Edge,
        News::HangUp,
        News::Deregistration,
        News::Shutdown,
    ] {
        let _limit = TimeLimit::new();
        let netpoll = Netpoll::new().unwrap();
        let (here, there) = pair();
        let here = Arc::new(Registered::new(&netpoll, here, STREAM_INTEREST).unwrap());
        look(&netpoll);
        let nothing = here
            .registration
            .try_io(Direction::Read, || (&here.io).read(&mut [0]));
        assert!(nothing.is_err(), "the socket is empty");

        let (hook, waker) = Hook::new({
            let here = here.clone();
            move || news.happen(&netpoll, &here, there)
        });
        let is_pending = is_pending(&here, &mut Context::from_waker(&waker));
        assert!(hook.is_cloned(), "{news:?}: it did not wait");
        assert!(!is_pending || hook.is_woken(), "{news:?} is lost");
    }
}

// Fails without the second look of `poll_waits`; at the last two, if it does not ask whether the
// source has ended.
#[test]
fn by_poll_waits() {
    news_is_not_missed(|here, cx| here.registration.poll_waits(cx, Direction::Read));
}

// Fails without the second look of `poll_ready`.
#[test]
fn by_poll_ready() {
    news_is_not_missed(|here, cx| {
        let polled = here.registration.poll_ready(cx, Direction::Read);
        polled.is_pending()
    });
}

// Fails without the second look of `poll_attempts`.
#[test]
fn by_poll_io() {
    news_is_not_missed(|here, cx| {
        let read = || (&here.io).read(&mut [0]);
        let polled = here.registration.poll_io(cx, Direction::Read, read);
        polled.is_pending()
    });
}

// Fails without the second look of `Readiness`.
#[test]
fn by_a_future() {
    news_is_not_missed(|here, cx| {
        let polled = pin!(here.registration.readiness(Direction::Read)).poll(cx);
        polled.is_pending()
    });
}
