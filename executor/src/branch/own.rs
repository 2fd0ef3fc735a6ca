//! What a thread has of its own for its forks: the tail of its P's branch deque, the scope and the
//! computation that it is in, and its back-off.
//!
//! A thread that becomes a worker, or is none any more, calls [`attach`] and [`detach`]. The rest
//! is the owner's side, in `fork_join/owner.rs`, where *How many it promotes* and *After a steal*
//! are told.
#![expect(
    unsafe_code,
    reason = "attaches the thread's tail to the branch deque of its P"
)]

use std::{cell::Cell, ptr};

use super::{Branch, BranchDeque, Tail, compute, deque::NO_DEQUE, jobs::ScopeHead};
use crate::policy::{
    Heuristic, TimedBackoff,
    constants::{FORK_WAKES, FORK_WAKES_PAUSE},
};

thread_local! {
    /// The tail of the branch deque of this thread's P, or [`NO_DEQUE`]. No destructor, like all of
    /// ours.
    static TAIL: Cell<*const Tail> = const { Cell::new(&raw const NO_DEQUE) };
    /// The same for a join whose first closure has ended. It needs the tail at once, for a store
    /// that the next join's loads may depend on. Kept on the stack meanwhile, it would be there
    /// only after a load of what was just stored. And read from the same variable, the compiler
    /// keeps that one's offset in a register, and every call has to save it, also one that does not
    /// fork.
    ///
    /// Seen before branches were linked, on an Intel Xeon (Emerald Rapids), where the address of
    /// the code alone makes a difference of a third: with the code aligned in seven ways, a join of
    /// skynet took 1.0 to 1.8 ns above plain calls (median 1.4), and 2.5 to 3.8 (2.9) with the tail
    /// on the stack and a destructor for panics.
    static TAIL_AFTER: Cell<*const Tail> = const { Cell::new(&raw const NO_DEQUE) };
    /// The scope that has the newest closure or branch on this thread's stack.
    static SCOPE: Cell<Place> = const { Cell::new(Place::NONE) };
    /// See *How many it promotes*. A try is a wake-up for a branch. It paid if the branch is stolen
    /// when its owner comes back to it.
    static WAKE_BACKOFF: TimedBackoff = const { wake_backoff() };
    /// When this thread last promoted branches, in nanoseconds of its runtime's clock. Older ones
    /// are judged by it as well.
    static PROMOTED_AT: Cell<u64> = const { Cell::new(0) };
}

/// The scope that this thread is in, and the branch deque whose list gets what is spawned there:
/// its frame looks at it afterwards.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) scope: *const ScopeHead,
    pub(crate) branch_deque: *const BranchDeque,
}

impl Place {
    const NONE: Self = Self {
        scope: ptr::null(),
        branch_deque: ptr::null(),
    };
}

const fn wake_backoff() -> TimedBackoff {
    TimedBackoff::new(FORK_WAKES, FORK_WAKES_PAUSE)
}

/// Whether this thread may wake another one for a branch, as far as the back-off goes.
pub(crate) fn may_wake(now: impl FnOnce() -> u64) -> bool {
    !Heuristic::ForkBackoff.is_on() || WAKE_BACKOFF.with(|backoff| backoff.is_due(now))
}

/// This thread's tail.
///
/// # Safety
///
/// - The reference is not used after this thread is attached or detached, unless it is attached to
///   the same P again. While a branch is on the tail, its frame is above that of the worker that
///   has the P. What attaches to another P is above in turn, and takes it back before it ends.
#[inline(always)]
pub(crate) unsafe fn tail<'a>() -> &'a Tail {
    // SAFETY: a static, or that of this thread's P, which has it until `detach`.
    unsafe { &*TAIL.get() }
}

/// The same for a join whose first closure has ended.
///
/// # Safety
///
/// - As for [`tail`].
#[inline(always)]
pub(crate) unsafe fn tail_after<'a>() -> &'a Tail {
    // SAFETY: as in `tail`.
    unsafe { &*TAIL_AFTER.get() }
}

/// From here on this is the thread's tail.
///
/// # Safety
///
/// - It is [`NO_DEQUE`], or that of a P which is this thread's until the next call.
pub(crate) unsafe fn set_tail(tail: *const Tail) {
    TAIL.set(tail);
    TAIL_AFTER.set(tail);
}

/// [`tail`] for one closure, which does not attach or detach.
pub(crate) fn with_tail<R>(f: impl FnOnce(&Tail) -> R) -> R {
    // SAFETY: by contract.
    f(unsafe { tail() })
}

/// This thread becomes the worker of the P that has this branch deque.
///
/// # Safety
///
/// - The P, and so the branch deque, is this thread's until it attaches to another one or detaches.
pub(crate) unsafe fn attach(branch_deque: &BranchDeque) {
    // SAFETY: by contract. A frame that waits for a branch on the branch deque is above that of the
    // worker, and ends before.
    unsafe { set_tail(branch_deque.attach()) };
}

/// This thread is no worker any more.
pub(crate) fn detach() {
    debug_assert!(
        !with_tail(Tail::has_branches),
        "a frame still waits for a branch"
    );
    // SAFETY: a static.
    unsafe { set_tail(&raw const NO_DEQUE) };
}

/// What a thread has of its own for its forks, while it plays another one.
#[cfg(any(test, feature = "sim"))]
pub(crate) struct Aside {
    tail: *const Tail,
    scope: Place,
    computation: usize,
    backoff: TimedBackoff,
    promoted_at: u64,
}

/// This thread plays another one, which has no P, and has not forked yet.
#[cfg(any(test, feature = "sim"))]
pub(crate) fn lay_aside() -> Aside {
    let backoff = wake_backoff();
    WAKE_BACKOFF.with(|own| own.swap(&backoff));
    let aside = Aside {
        tail: TAIL.get(),
        scope: SCOPE.replace(Place::NONE),
        computation: compute::lay_aside(),
        backoff,
        promoted_at: PROMOTED_AT.replace(0),
    };
    // SAFETY: a static.
    unsafe { set_tail(&raw const NO_DEQUE) };
    aside
}

#[cfg(any(test, feature = "sim"))]
impl Aside {
    /// This thread is itself again.
    ///
    /// # Safety
    ///
    /// - It was this thread's, whose frames are as they were.
    pub(crate) unsafe fn take_up(&self) {
        WAKE_BACKOFF.with(|own| own.swap(&self.backoff));
        SCOPE.set(self.scope);
        compute::take_up(self.computation);
        PROMOTED_AT.set(self.promoted_at);
        // SAFETY: by contract.
        unsafe { set_tail(self.tail) };
    }
}

/// Where the branches begin that what is run now may fork.
pub(crate) fn base() -> usize {
    with_tail(|tail| {
        tail.place();
        tail.top()
    })
}

/// Whether a branch waits on this thread's stack, or a scope or a computation is open there.
pub(crate) fn is_inside() -> bool {
    with_tail(Tail::has_branches) || !current_scope().scope.is_null() || compute::current() != 0
}

pub(crate) fn current_scope() -> Place {
    SCOPE.get()
}

/// Makes a scope the newest on this thread's stack. The one before.
pub(crate) fn enter_scope(place: Place) -> Place {
    SCOPE.replace(place)
}

/// This thread's next join is disturbed.
pub(crate) fn come_by() {
    with_tail(|tail| {
        if tail.branch_deque().is_some() {
            tail.ask_again();
        }
    });
}

/// Runs a branch that this thread has claimed, on the P with that index, whose tail is at `base`.
pub(crate) fn run_claimed(branch: Branch, processor: usize, base: usize) {
    stole_from(branch.branch_deque());
    match branch.computation() {
        Some(computation) => compute::within(computation, || branch.run(processor, base)),
        None => branch.run(processor, base),
    }
}

/// This thread begins with a branch of that branch deque; see *After a steal*.
fn stole_from(branch_deque: &BranchDeque) {
    if !Heuristic::AfterSteal.is_on() {
        return;
    }
    // Else the thread that comes next finds one.
    if !branch_deque.has_shared() {
        branch_deque.ask();
    }
    come_by();
}

/// This thread wakes another one for a branch.
pub(crate) fn wake_begins(now: u64) {
    WAKE_BACKOFF.with(|backoff| backoff.begin(now));
}

/// Whether the last wake for a branch paid.
pub(crate) fn wake_settled(paid: bool) {
    WAKE_BACKOFF.with(|backoff| backoff.settle(paid));
}

/// This thread promotes branches.
pub(crate) fn promotes_at(now: u64) {
    PROMOTED_AT.set(now);
}

/// When it did so last.
pub(crate) fn promoted_at() -> u64 {
    PROMOTED_AT.get()
}
