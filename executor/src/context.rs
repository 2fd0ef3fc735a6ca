//! What the current thread is to the runtime: a worker, a thread in a `block_on`, one that entered
//! a [`Handle`], or nothing.
//!
//! This is an unsafe island. A thread-local list of frames, newest first, says which runtime
//! `spawn` and `sleep` mean. A frame lies on the stack of the function that runs inside it, or, for
//! an entered handle, in a box. The cells are `const` and have no destructor, so they serve inside
//! other destructors and after the thread's end has begun.
//!
//! A thread in `block_on` gets its P when it needs one: its frame carries a [`LazyWorker`]. The
//! first spawn or wake of its runtime on this thread makes the worker, or the first wait of its
//! future. So a call into the runtime that is ready at once costs no more than the frame (H4).
//!
//! *Invariant*: every pointer in the list is valid. A frame takes itself out when its guard is
//! dropped, wherever in the list it is, so guards may be dropped in any order. A leaked one stays
//! valid: it keeps its runtime by an `Arc` and lies in a box that is leaked with it.
//!
//! [`Handle`]: crate::runtime::Handle
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    fmt,
    ptr::{self, NonNull},
    sync::Weak,
};

use crate::{
    branch,
    sched::{LazyWorker, Shared, Worker},
    sync::Arc,
    timer::TimerShard,
};

struct Frame {
    shared: *const Arc<Shared>,
    /// Null for an entered handle, and for a lazy worker that is not made yet.
    worker: Cell<*const Worker>,
    /// Null outside `block_on`.
    lazy: *const LazyWorker<'static>,
    below: Cell<*const Frame>,
}

impl Frame {
    fn new(
        shared: *const Arc<Shared>,
        worker: *const Worker,
        lazy: *const LazyWorker<'static>,
    ) -> Self {
        Self {
            shared,
            worker: Cell::new(worker),
            lazy,
            below: Cell::new(ptr::null()),
        }
    }
}

struct Context {
    top: Cell<*const Frame>,
    /// The worker of the topmost frame that has one. Most calls ask for it.
    worker: Cell<*const Worker>,
}

thread_local! {
    static CONTEXT: Context = const {
        Context { top: Cell::new(ptr::null()), worker: Cell::new(ptr::null()) }
    };
}

/// Takes a frame out of the list when dropped. Not `Send`: the list is the thread's.
struct Link {
    frame: *const Frame,
}

impl Link {
    /// # Safety
    ///
    /// - `frame` and what it points to stay where they are until the `Link` is dropped, or for
    ///   ever.
    unsafe fn new(frame: *const Frame) -> Self {
        CONTEXT.with(|context| {
            // SAFETY: by contract.
            let new = unsafe { &*frame };
            new.below.set(context.top.get());
            context.top.set(frame);
            if !new.worker.get().is_null() {
                context.worker.set(new.worker.get());
                // SAFETY: by contract. The P is this thread's until the worker's frame is left.
                // That attaches to the one below or detaches.
                unsafe { branch::attach((*new.worker.get()).branch_deque()) };
            }
        });
        Self { frame }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        CONTEXT.with(|context| {
            // SAFETY: by the contract of `new` it is still there.
            let own = unsafe { &*self.frame };
            if context.top.get() == self.frame {
                context.top.set(own.below.get());
            } else {
                let above = frames(context).find(|frame| frame.below.get() == self.frame);
                if let Some(above) = above {
                    above.below.set(own.below.get());
                }
            }
            if !own.worker.get().is_null() {
                let worker = frames(context)
                    .map(|frame| frame.worker.get())
                    .find(|worker| !worker.is_null());
                context.worker.set(worker.unwrap_or(ptr::null()));
                // SAFETY: by the invariant.
                match unsafe { context.worker.get().as_ref() } {
                    // SAFETY: as in `new`.
                    Some(worker) => unsafe { branch::attach(worker.branch_deque()) },
                    None => branch::detach(),
                }
            }
        });
    }
}

/// The list, newest first.
fn frames(context: &Context) -> impl Iterator<Item = &Frame> {
    // SAFETY: by the invariant every frame in the list is valid, and nothing is taken out
    // meanwhile.
    std::iter::successors(unsafe { context.top.get().as_ref() }, |frame| unsafe {
        frame.below.get().as_ref()
    })
}

/// Runs `f` while this thread counts as `worker`.
pub(crate) fn with_worker_frame<R>(worker: &Worker, f: impl FnOnce() -> R) -> R {
    let frame = Frame::new(worker.shared(), worker, ptr::null());
    // SAFETY: the frame and the worker outlive the link, which is dropped first.
    let _link = unsafe { Link::new(&raw const frame) };
    f()
}

/// Runs `f` while this thread may become `lazy`.
pub(crate) fn with_lazy_worker_frame<R>(lazy: &LazyWorker<'_>, f: impl FnOnce() -> R) -> R {
    // The lifetime is what the list's invariant stands for.
    let frame = Frame::new(lazy.shared(), ptr::null(), ptr::from_ref(lazy).cast());
    // SAFETY: the frame and the lazy worker outlive the link, which is dropped first.
    let _link = unsafe { Link::new(&raw const frame) };
    f()
}

/// Makes the worker of the topmost frame with a lazy worker. It is this thread's from then on.
fn become_worker(context: &Context, frame: &Frame) -> Option<*const Worker> {
    // SAFETY: by the invariant; the pointer is null or valid.
    let lazy = unsafe { frame.lazy.as_ref() }?;
    let worker: *const Worker = lazy.become_worker()?;
    frame.worker.set(worker);
    context.worker.set(worker);
    // SAFETY: the lazy worker keeps it; and as in `Link::new`.
    unsafe { branch::attach((*worker).branch_deque()) };
    Some(worker)
}

/// What an entered handle leaves in the list.
struct Entered {
    frame: Frame,
    shared: Arc<Shared>,
}

/// The guard of [`Handle::enter`](crate::runtime::Handle::enter).
///
/// It borrows nothing: a runtime may be shut down while it is entered.
#[must_use = "the runtime is left again when the guard is dropped"]
pub struct EnterGuard {
    /// None while it is being dropped.
    link: Option<Link>,
    entered: NonNull<Entered>,
}

// SAFETY: nothing can be done by a reference to it. It stays on its thread, for the list is that
// thread's.
unsafe impl Sync for EnterGuard {}

impl fmt::Debug for EnterGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterGuard").finish_non_exhaustive()
    }
}

impl Drop for EnterGuard {
    fn drop(&mut self) {
        // Out of the list first.
        self.link = None;
        // SAFETY: the box that `enter` leaked, to which nothing in the list points any more.
        drop(unsafe { Box::from_raw(self.entered.as_ptr()) });
    }
}

/// Makes `shared` the current runtime of this thread.
pub(crate) fn enter(shared: Arc<Shared>) -> EnterGuard {
    // A pointer from here on: a reference to it would end the pointer from one part of it to
    // another.
    let entered = Box::into_raw(Box::new(Entered {
        frame: Frame::new(ptr::null(), ptr::null(), ptr::null()),
        shared,
    }));
    // SAFETY: it came from a box, and nothing else has it yet.
    let entered = unsafe {
        (*entered).frame.shared = &raw const (*entered).shared;
        NonNull::new_unchecked(entered)
    };
    // SAFETY: it stays where it is until the guard's drop, which takes the link away first; if the
    // guard is leaked it stays for ever.
    let link = unsafe { Link::new(&raw const (*entered.as_ptr()).frame) };
    EnterGuard {
        link: Some(link),
        entered,
    }
}

/// Runs `f` as if on another thread that is nothing to any runtime: for a driver that plays many
/// threads.
#[cfg(any(test, feature = "sim"))]
pub(crate) fn as_another_thread<R>(f: impl FnOnce() -> R) -> R {
    struct Back(*const Frame, *const Worker, branch::Aside);
    impl Drop for Back {
        fn drop(&mut self) {
            CONTEXT.with(|context| {
                context.top.set(self.0);
                context.worker.set(self.1);
            });
            // SAFETY: it was this thread's, and the frames are as they were.
            unsafe { self.2.take_up() };
        }
    }
    let _back = CONTEXT.with(|context| {
        Back(
            context.top.replace(ptr::null()),
            context.worker.replace(ptr::null()),
            branch::lay_aside(),
        )
    });
    f()
}

/// The worker that this thread is, of any runtime. A lazy worker that is not made does not count.
#[inline]
pub(crate) fn with_worker<R>(f: impl FnOnce(Option<&Worker>) -> R) -> R {
    let worker = CONTEXT.with(|context| context.worker.get());
    // SAFETY: by the invariant; the worker's frame is on this thread's stack below us, so it
    // outlives the call.
    f(unsafe { worker.as_ref() })
}

/// The worker that this thread is in the runtime `shared`; in a `block_on` of it, it becomes one.
///
/// `f` is called outside of `CONTEXT.with`, here as in the others: what it captures then stays in
/// registers. Otherwise a spawn's future went through memory three times, each time read with wider
/// loads than it was stored with.
#[inline]
pub(crate) fn with_worker_of<R>(shared: *const Shared, f: impl FnOnce(Option<&Worker>) -> R) -> R {
    let mut worker = CONTEXT.with(|context| context.worker.get());
    if worker.is_null() {
        worker = worker_by_need(shared);
    }
    // SAFETY: as in `with_worker`.
    let worker = unsafe { worker.as_ref() };
    f(worker.filter(|worker| ptr::eq(Arc::as_ptr(worker.shared()), shared)))
}

/// The worker that this thread becomes by need, if its topmost lazy worker is one of `shared`; or
/// null.
fn worker_by_need(shared: *const Shared) -> *const Worker {
    CONTEXT.with(|context| {
        let lazy = frames(context).find(|frame| !frame.lazy.is_null());
        // SAFETY: by the invariant.
        let its = lazy.filter(|frame| ptr::eq(Arc::as_ptr(unsafe { &*frame.shared }), shared));
        its.and_then(|frame| become_worker(context, frame))
            .unwrap_or(ptr::null())
    })
}

/// Makes this thread a worker, by the topmost frame with a lazy worker, if it is none yet.
pub(crate) fn ensure_worker() {
    CONTEXT.with(|context| {
        if context.worker.get().is_null()
            && let Some(frame) = frames(context).find(|frame| !frame.lazy.is_null())
            && frame.worker.get().is_null()
        {
            let _ = become_worker(context, frame);
        }
    });
}

/// Whether this thread is a worker, or in a `block_on`.
pub(crate) fn is_busy() -> bool {
    CONTEXT.with(|context| {
        !context.worker.get().is_null() || frames(context).any(|frame| !frame.lazy.is_null())
    })
}

/// Whether this thread is a worker of `shared`, or in a `block_on` of it.
pub(crate) fn is_inside(shared: &Arc<Shared>) -> bool {
    CONTEXT.with(|context| {
        let mut inside =
            frames(context).filter(|frame| !frame.worker.get().is_null() || !frame.lazy.is_null());
        // SAFETY: by the invariant.
        inside.any(|frame| Arc::ptr_eq(unsafe { &*frame.shared }, shared))
    })
}

/// The current runtime, and this thread's worker if it is one of it.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(Option<(&Arc<Shared>, Option<&Worker>)>) -> R) -> R {
    let shared = CONTEXT.with(|context| {
        // SAFETY: by the invariant.
        unsafe { context.top.get().as_ref() }.map(|frame| frame.shared)
    });
    let Some(shared) = shared else { return f(None) };
    // SAFETY: by the invariant; it is read at once.
    let address = Arc::as_ptr(unsafe { &*shared });
    with_worker_of(address, |worker| match worker {
        Some(worker) => f(Some((worker.shared(), Some(worker)))),
        // A clone, since `f` may leave the frame whose runtime this is.
        // SAFETY: by the invariant; nothing has left the frame since.
        None => f(Some((&unsafe { &*shared }.clone(), None))),
    })
}

/// The same, but this thread becomes no worker by need.
pub(crate) fn with_entered<R>(f: impl FnOnce(Option<(&Shared, Option<&Worker>)>) -> R) -> R {
    let shared = CONTEXT.with(|context| {
        // SAFETY: by the invariant.
        unsafe { context.top.get().as_ref() }.map(|frame| frame.shared)
    });
    let Some(shared) = shared else { return f(None) };
    // SAFETY: by the invariant; it is read at once.
    let address = Arc::as_ptr(unsafe { &*shared });
    with_worker(|worker| {
        match worker.filter(|worker| ptr::eq(Arc::as_ptr(worker.shared()), address)) {
            Some(worker) => f(Some((worker.shared(), Some(worker)))),
            // SAFETY: as in `with_current`.
            None => f(Some((&unsafe { &*shared }.clone(), None))),
        }
    })
}

/// Runs `f` on the runtime, if it is there. If this thread is one of its workers, no count of
/// references is taken.
pub(crate) fn with_shared(shared: &Weak<Shared>, f: impl FnOnce(&Shared)) {
    with_worker(|worker| match worker.map(Worker::shared) {
        Some(own) if ptr::eq(Arc::as_ptr(own), shared.as_ptr()) => f(own),
        _ => {
            if let Some(shared) = shared.upgrade() {
                f(&shared);
            }
        }
    });
}

/// Runs `f` on the timers of this thread's P, or on those for foreign threads.
pub(crate) fn with_timers<R>(f: impl FnOnce(Option<&Arc<TimerShard>>) -> R) -> R {
    with_current(|current| {
        f(current.map(|(shared, worker)| match worker {
            Some(worker) => worker.timers(),
            None => shared.foreign_timers(),
        }))
    })
}
