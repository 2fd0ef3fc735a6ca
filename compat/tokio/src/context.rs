//! What tokio's own code knows of this thread.
//!
//! The parts of tokio that are its own (`sync`, the utilities of `io`, `task::coop`) look at a
//! thread-local of tokio's for two things:
//!
//! - *The budget.* What can be ready for ever takes a unit from it, and is pending without one.
//!   Outside of a poll of tokio's scheduler there is no limit.
//! - *Whether the thread drives a runtime.* If it does, `blocking_recv` and its like panic, and so
//!   does a runtime that is started.
//!
//! Both are set here by tokio's public API, around the scheduler of `ws`. There is one runtime of
//! tokio's in the process ([`REAL`]), of the current-thread kind and without drivers: it has no
//! thread, no descriptor and no task. Its `Handle::block_on` sets both for as long as one poll of
//! its future takes, and that poll is whatever is to run inside ([`inside`]).
//!
//! *The units.* Such a poll begins with a full budget, and so must each poll of a task of ours. A
//! unit that was taken and is given back restores what there was before ([`RestoreOnPending`]). So
//! each thread keeps one that it has taken from a full budget: giving it back fills the budget, and
//! the next one is taken at once (`fill`). This is two accesses to a thread-local for a poll, and
//! leaves 127 units of the 128.
//!
//! *Code that blocks* must not be limited: a loop around something that is refused would never end.
//! tokio's `block_in_place` leaves both behind for a closure ([`outside`]).
//!
//! *Simulated hosts*: `ws-sim` builds their runtimes, and knows nothing of this package. So this
//! package asks the executor to run each of their steps [`inside`]. It does so before `main`, and
//! makes its runtime of tokio's then (`AT_START`): what a process does once must not be done by one
//! of its runs and not by the next, since a runtime draws a random number when it is made.
//!
//! Rejected: wrappers around all that can be ready for ever. They are most of `sync`, and their
//! types would not be tokio's. A `LocalSet` of tokio's around each poll, which has a budget as
//! well: it takes a lock and five atomic operations.
//!
//! Checked by `tests/budget.rs`.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::pin,
    sync::LazyLock,
    task::{Context, Poll, Waker},
};

use tokio_real::{
    runtime::{Builder, Handle, Runtime},
    task::coop::{RestoreOnPending, poll_proceed},
};

use crate::trace::Unseen;

/// See the module's head.
static REAL: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread()
        .build()
        .expect("a runtime without drivers asks the system for nothing")
});

thread_local! {
    /// The unit that fills the budget when it is given back. None: this thread never polled for a
    /// runtime of ours.
    static FULL: RefCell<Option<RestoreOnPending>> = const { RefCell::new(None) };
    /// [`inside`] is on the stack, and no [`outside`] above it.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn real() -> &'static Handle {
    REAL.handle()
}

/// Runs `f` as a thread that drives a runtime.
///
/// # Panics
///
/// If this thread does so already: with tokio's words.
#[track_caller]
pub(crate) fn inside<R>(f: impl FnOnce() -> R) -> R {
    ws_executor::budget::on_poll(fill);
    let mut f = Some(f);
    let mut unseen = Unseen::begin();
    real().block_on(poll_fn(|_| {
        unseen.end();
        let f = f.take().expect("it is polled once");
        let _inside = Restore::set(true);
        take();
        Poll::Ready(f())
    }))
}

/// Waits for a future on this thread, which counts as one that drives a runtime, and drives none.
///
/// # Panics
///
/// As [`inside`].
#[track_caller]
pub(crate) fn alone<F: Future>(future: F) -> F::Output {
    ws_executor::budget::on_poll(fill);
    let mut future = pin!(future);
    let mut unseen = Unseen::begin();
    real().block_on(poll_fn(|cx| {
        unseen.end();
        let _inside = Restore::set(true);
        take();
        future.as_mut().poll(cx)
    }))
}

/// Runs code that may block, on a thread that may be [`inside`].
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> R {
    if !INSIDE.get() {
        return f();
    }
    let _outside = Outside(Restore::set(false));
    tokio_real::task::block_in_place(f)
}

/// The poll that goes on afterwards has a limit again, and begins anew: tokio's `block_in_place`
/// restores the budget of its own workers alone.
struct Outside(Restore);

impl Drop for Outside {
    fn drop(&mut self) {
        INSIDE.set(self.0.0);
        fill();
    }
}

/// The loader calls this before `main`: see *Simulated hosts* in the module's head.
#[cfg(target_os = "linux")]
#[allow(
    unsafe_code,
    reason = "it asks the linker for a place in a table of functions, which the loader calls with \
              the arguments of `main`; a function of C may ignore them"
)]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn start() {
        LazyLock::force(&REAL);
        ws_executor::budget::at_run(|| {
            // tokio draws the keys of a hash map when a thread is inside for the first time. So it
            // is, before the run has its own.
            inside(|| ());
            crate::macros::support::begins_anew();
        });
        ws_executor::budget::around_steps(|step| {
            if INSIDE.get() {
                step();
            } else {
                inside(step);
            }
        });
    }
    start
};

/// Whether this thread drives a runtime.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

struct Restore(bool);

impl Restore {
    fn set(inside: bool) -> Self {
        Self(INSIDE.replace(inside))
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

/// Takes the unit from a budget that is full.
fn take() {
    let mut cx = Context::from_waker(Waker::noop());
    if let Poll::Ready(unit) = poll_proceed(&mut cx) {
        // At the end of the thread there is no poll any more.
        let _ = FULL.try_with(|full| full.replace(Some(unit)));
    }
}

/// Before each poll of a task.
fn fill() {
    if !INSIDE.get() {
        return;
    }
    let full = FULL.try_with(RefCell::take).ok().flatten();
    if let Some(full) = full {
        drop(full);
        take();
    }
}
