//! A waker whose clone and drop run code of the test's, for what must bear that.
#![expect(
    unsafe_code,
    reason = "`std` has no safe waker with a clone of its own"
)]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{RawWaker, RawWakerVTable, Waker},
};

/// What a waker does when it is first cloned and whenever it is dropped, and how often it was
/// woken.
pub(crate) struct Hook {
    on_clone: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    on_drop: Box<dyn Fn() + Send + Sync>,
    wakes: AtomicUsize,
}

impl Hook {
    pub(crate) fn new(
        on_clone: impl FnOnce() + Send + 'static,
        on_drop: impl Fn() + Send + Sync + 'static,
    ) -> (Arc<Self>, Waker) {
        let hook = Arc::new(Self {
            on_clone: Mutex::new(Some(Box::new(on_clone))),
            on_drop: Box::new(on_drop),
            wakes: AtomicUsize::new(0),
        });
        let data = Arc::into_raw(hook.clone()).cast();
        // SAFETY: `data` is a count of an `Arc<Hook>`, which is `Send` and `Sync`, and the
        // functions of `HOOKED` keep to the contract of a waker: `clone` adds a count, `wake` and
        // `drop` take one, `wake_by_ref` takes none.
        let waker = unsafe { Waker::from_raw(RawWaker::new(data, &HOOKED)) };
        (hook, waker)
    }

    pub(crate) fn is_cloned(&self) -> bool {
        self.on_clone.lock().unwrap().is_none()
    }

    pub(crate) fn wakes(&self) -> usize {
        self.wakes.load(SeqCst)
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
        this.wakes.fetch_add(1, SeqCst);
    },
    |data| {
        // SAFETY: the waker that is borrowed holds a count of this `Arc` while this runs.
        let this = unsafe { &*data.cast::<Hook>() };
        this.wakes.fetch_add(1, SeqCst);
    },
    |data| {
        // SAFETY: the waker is consumed, and its count is ours.
        let this = unsafe { Arc::from_raw(data.cast::<Hook>()) };
        (this.on_drop)();
    },
);
