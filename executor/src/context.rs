//! What the current thread is to the runtime: a worker, a guest that entered a [`Handle`], or
//! nothing.
//!
//! This is an unsafe island. A thread-local list of frames, newest first, says which runtime `spawn`
//! and `sleep` mean. Two kinds of frames lie in it: that of a worker, on the stack of the function
//! that runs it, and that of an entered handle, in a box. The cells are `const` and have no
//! destructor, so they serve inside other destructors and after the thread's end has begun.
//!
//! *Invariant*: every pointer in the list is valid. A frame takes itself out when it is dropped,
//! wherever in the list it is, so guards may be dropped in any order; one that is leaked stays valid,
//! since it keeps its runtime by an `Arc` and lies in a box that is leaked with it.
//!
//! [`Handle`]: crate::runtime::Handle
#![allow(unsafe_code)]

use std::{cell::Cell, fmt, marker::PhantomData, ptr};

use crate::{
    sched::{Shared, Worker},
    sync::Arc,
    time::TimerHandle,
};

struct Frame {
    /// Null for a guest.
    worker: *const Worker,
    shared: Arc<Shared>,
    below: Cell<*const Frame>,
}

struct Context {
    top: Cell<*const Frame>,
    /// The worker of the topmost worker's frame, which most calls ask for.
    worker: Cell<*const Worker>,
}

thread_local! {
    static CONTEXT: Context = const {
        Context { top: Cell::new(ptr::null()), worker: Cell::new(ptr::null()) }
    };
}

/// Keeps a frame in the list. Not `Send`: the list is the thread's.
struct FrameGuard {
    frame: Box<Frame>,
    not_send: PhantomData<*const ()>,
}

impl FrameGuard {
    fn push(worker: *const Worker, shared: Arc<Shared>) -> Self {
        CONTEXT.with(|context| {
            let frame = Box::new(Frame { worker, shared, below: Cell::new(context.top.get()) });
            context.top.set(&raw const *frame);
            if !worker.is_null() {
                context.worker.set(worker);
            }
            Self { frame, not_send: PhantomData }
        })
    }
}

impl Drop for FrameGuard {
    fn drop(&mut self) {
        CONTEXT.with(|context| {
            let own: *const Frame = &raw const *self.frame;
            if context.top.get() == own {
                context.top.set(self.frame.below.get());
            } else {
                let mut at = context.top.get();
                // SAFETY: by the invariant every frame in the list is valid, and ours is in it.
                while let Some(frame) = unsafe { at.as_ref() } {
                    if frame.below.get() == own {
                        frame.below.set(self.frame.below.get());
                        break;
                    }
                    at = frame.below.get();
                }
            }
            let mut at = context.top.get();
            let mut worker = ptr::null();
            // SAFETY: as above.
            while let Some(frame) = unsafe { at.as_ref() } {
                if !frame.worker.is_null() {
                    worker = frame.worker;
                    break;
                }
                at = frame.below.get();
            }
            context.worker.set(worker);
        });
    }
}

/// Runs `f` while this thread counts as `worker`.
pub(crate) fn with_worker_frame<R>(worker: &Worker, f: impl FnOnce() -> R) -> R {
    // The guard lives in this function, so `worker` outlives the frame.
    let _guard = FrameGuard::push(worker, worker.shared().clone());
    f()
}

/// The guard of [`Handle::enter`](crate::runtime::Handle::enter).
#[must_use = "the runtime is left again when the guard is dropped"]
pub struct EnterGuard<'a> {
    _frame: FrameGuard,
    handle: PhantomData<&'a ()>,
}

impl fmt::Debug for EnterGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterGuard").finish_non_exhaustive()
    }
}

/// Makes `shared` the current runtime of this thread.
pub(crate) fn enter<'a>(shared: Arc<Shared>) -> EnterGuard<'a> {
    EnterGuard { _frame: FrameGuard::push(ptr::null(), shared), handle: PhantomData }
}

/// The worker that this thread is, of whatever runtime.
pub(crate) fn with_worker<R>(f: impl FnOnce(Option<&Worker>) -> R) -> R {
    CONTEXT.with(|context| {
        // SAFETY: by the invariant; the worker's frame is on this thread's stack below us, so it
        // outlives the call.
        f(unsafe { context.worker.get().as_ref() })
    })
}

/// The current runtime, and this thread's worker if it belongs to it.
pub(crate) fn with_current<R>(f: impl FnOnce(Option<(&Arc<Shared>, Option<&Worker>)>) -> R) -> R {
    CONTEXT.with(|context| {
        // SAFETY: by the invariant.
        let Some(frame) = (unsafe { context.top.get().as_ref() }) else { return f(None) };
        // SAFETY: by the invariant.
        let worker = unsafe { context.worker.get().as_ref() }
            .filter(|worker| Arc::ptr_eq(worker.shared(), &frame.shared));
        // A clone, since `f` may leave the frame whose runtime we lend.
        match worker {
            Some(worker) => f(Some((worker.shared(), Some(worker)))),
            None => f(Some((&frame.shared.clone(), None))),
        }
    })
}

/// Whether there is a current runtime.
pub(crate) fn is_inside() -> bool {
    CONTEXT.with(|context| !context.top.get().is_null())
}

/// The timers of this thread's P, or those for foreign threads.
pub(crate) fn timers() -> Option<TimerHandle> {
    with_current(|current| {
        current.map(|(shared, worker)| match worker {
            Some(worker) => worker.timers(),
            None => shared.foreign_timers(),
        })
    })
}
