//! The cooperative budget: how much a task may do in one poll before others get their turn (F2).
//!
//! A poll begins with `BUDGET` units. Every operation on a resource of `ws` that made progress (a
//! read, a tick, a joined task) costs one. When none is left, such an operation wakes its task and
//! is pending. So the poll comes to its end and the task to the back of the queue. When the time
//! slice is over the budget is taken away at once: a worker's attention word says so. The first
//! operation of a poll is let through in any case: else a task that computes for a slice before it
//! would never get on.
//!
//! What is not an operation of `ws` takes its units by `task::coop`.
//!
//! # Combinators
//!
//! A future that holds others pays as an operation does: else a loop around it would never end its
//! poll if what it holds is always ready. It pays one unit when it is ready, unless what it holds
//! has paid: [`charged`]. So a read under a timeout costs what the read costs. If no unit is left
//! when it begins, it yields once: `task::coop::poll_begin`.
//!
//! Of several futures in one task the first could spend the whole budget in each poll, and the ones
//! behind it would be refused for ever. So `ws::join!` polls each with [`poll_share`]: of `n`
//! futures the first may take one part in `n` of what is left, the next one part in `n - 1` of the
//! rest, and so on. What one leaves, the next ones have. `ws::select!` needs no shares: it polls in
//! a random order.
//!
//! A share may be one unit: that of the first future in seven `join!`s around one another. So no
//! operation may need two at a time, or it would be refused in each poll. If an operation holds a
//! unit and polls another one, it polls that one [`unbudgeted`].
//!
//! # Where there is none
//!
//! Outside a task (in a foreign executor) there is no budget and nothing is limited. The same holds
//! in a closure that announces its block (`block_in_place`, `spawn_blocking`): its permit is
//! elsewhere, and no task waits behind it.
//!
//! # A poll that does not come back
//!
//! Another executor's `block_on` inside a task is one poll to us, and no refusal ends it: it polls
//! again for ever. So of `REFUSALS` refusals within one poll the last is none: the poll gets its
//! units anew, and its slice does not count any more, since it heeds neither. A poll that does come
//! back is refused as often only if it has that many children that are ready: `join_all` and its
//! like poll each once, most of them give up after two refusals. It then does at most `BUDGET`
//! operations more for every `REFUSALS` children that it polled, an eighth of an operation for
//! each, and comes to its end when they were all polled (F2). Without a limit for the rest of the
//! poll, the next of these children could go on for ever. Checked by
//! `tests/liveness/another_executor_inside_a_task.rs` and by the tests below.

use std::{
    cell::Cell,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::OnceLock,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

use crate::policy::constants::{BUDGET, REFUSALS};

/// What the current poll may do: from the lowest bit on the units that are left (8 bits), the
/// refusals (16 bits), the units that are reserved for others (7 bits: at most `BUDGET - 1`), and
/// `WAITS`. One number, written and read as one: a load that is wider than the stores before it
/// waits for them. In an HTTP server a third of the samples in `Worker::poll` were at that load.
#[derive(Clone, Copy)]
struct Budget(u32);

impl Budget {
    /// In the place of the units: no limit.
    const UNLIMITED: u8 = u8::MAX;
    /// An operation of this poll waits for a timer or a source.
    const WAITS: u32 = 1 << 31;

    const fn new(left: Option<u8>) -> Self {
        match left {
            Some(left) => Self(left as u32),
            None => Self(Self::UNLIMITED as u32),
        }
    }

    /// Units that are left; None: no limit.
    fn left(self) -> Option<u8> {
        let left = self.0 as u8;
        (left != Self::UNLIMITED).then_some(left)
    }

    /// Refusals since the poll began; from `REFUSALS` on since the units were given anew, and so
    /// many more.
    fn refused(self) -> u16 {
        (self.0 >> 8) as u16
    }

    /// Units of `left` that are for the futures that are polled next; see [`poll_share`].
    fn reserved(self) -> u8 {
        (self.0 >> 24) as u8 & 0x7f
    }

    fn with_left(self, left: Option<u8>) -> Self {
        Self(self.0 & !0xff | Self::new(left).0)
    }

    fn with_refused(self, refused: u16) -> Self {
        Self(self.0 & !0xff_ff00 | u32::from(refused) << 8)
    }

    fn with_reserved(self, reserved: u8) -> Self {
        Self(self.0 & !0x7f00_0000 | u32::from(reserved) << 24)
    }

    /// Whether the next operation is refused. The first one of a poll is not when the slice is
    /// over.
    fn is_spent(self, left: u8, slice_is_over: impl FnOnce() -> bool) -> bool {
        let heeds = self.refused() < REFUSALS;
        left <= self.reserved() || (left < BUDGET && heeds && slice_is_over())
    }

    /// Whether an operation of this poll waits for a timer or a source.
    fn waits(self) -> bool {
        self.0 & Self::WAITS != 0
    }
}

thread_local! {
    static BUDGET_OF_POLL: Cell<Budget> = const { Cell::new(Budget::new(None)) };
}

/// Called at the begin of each poll of a task or a root.
static ON_POLL: OnceLock<fn()> = OnceLock::new();

/// Has `f` called at the begin of each poll of a task or a root, in the whole process: for a
/// package that has a budget of its own for these polls. The first call counts.
pub fn on_poll(f: fn()) {
    ON_POLL.get_or_init(|| f);
}

fn poll_begins() {
    if let Some(f) = ON_POLL.get() {
        f();
    }
}

/// Called with each step of a machine.
static AROUND_STEPS: OnceLock<fn(&mut dyn FnMut())> = OnceLock::new();

/// Has each step of a machine (feature `sim`), or all steps of a thread until it rests, run by `f`,
/// in the whole process: for a package that has a budget of its own, and runs the threads of its
/// runtimes by [`Builder::host`](crate::runtime::Builder::host). `f` has to call what it is given,
/// once. The first call counts.
pub fn around_steps(f: fn(&mut dyn FnMut())) {
    AROUND_STEPS.get_or_init(|| f);
}

/// Called when a simulation begins.
static AT_RUN: OnceLock<fn()> = OnceLock::new();

/// Has `f` called when a simulation begins (feature `sim`), on its thread: for a package that keeps
/// something for a thread that has to begin anew with each run. The first call counts.
pub fn at_run(f: fn()) {
    AT_RUN.get_or_init(|| f);
}

#[cfg(any(test, feature = "sim"))]
pub(crate) fn run_begins() {
    if let Some(f) = AT_RUN.get() {
        f();
    }
}

/// Runs a step of a machine.
#[cfg(any(test, feature = "sim"))]
pub(crate) fn step<R>(step: impl FnOnce() -> R) -> R {
    let Some(around) = AROUND_STEPS.get() else {
        return step();
    };
    let (mut step, mut result) = (Some(step), None);
    around(&mut || result = step.take().map(|step| step()));
    result.expect("it was called")
}

/// Runs a poll with a full budget.
pub(crate) fn with_budget<R>(poll: impl FnOnce() -> R) -> R {
    poll_begins();
    restore_after(Budget::new(Some(BUDGET)), poll)
}

/// Runs `poll` without any budget.
pub fn unbudgeted<R>(poll: impl FnOnce() -> R) -> R {
    restore_after(Budget::new(None), poll)
}

/// The same for a poll inside of another one, which waits for what this one waits for.
pub(crate) fn with_budget_inside<R>(poll: impl FnOnce() -> R) -> R {
    poll_begins();
    inside(Budget::new(Some(BUDGET)), poll)
}

/// Runs `poll` with a budget of its own, whatever is left of the current one, and whether or not
/// the time slice is over. For a poll that no loop can repeat.
pub(crate) fn renewed<R>(poll: impl FnOnce() -> R) -> R {
    match BUDGET_OF_POLL.get().left() {
        Some(_) => inside(Budget::new(Some(BUDGET)).with_refused(REFUSALS), poll),
        None => poll(),
    }
}

/// Runs a part of the current poll with another budget. What waits in it counts for the whole.
fn inside<R>(budget: Budget, poll: impl FnOnce() -> R) -> R {
    let (polled, waiting) = restore_after(budget, || (poll(), BUDGET_OF_POLL.get().waits()));
    if waiting {
        waits();
    }
    polled
}

fn restore_after<R>(budget: Budget, poll: impl FnOnce() -> R) -> R {
    struct Restore<'a>(&'a Cell<Budget>, Budget);
    impl Drop for Restore<'_> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    BUDGET_OF_POLL.with(|of_poll| {
        let _restore = Restore(of_poll, of_poll.replace(budget));
        poll()
    })
}

/// Notes that an operation of the current poll is pending, and that a timer or a source will end
/// that.
///
/// The root of a `block_on` that waits so has its thread for itself: see *Whose thread it is* in
/// `block_on.rs`.
pub fn waits() {
    BUDGET_OF_POLL.with(|budget| budget.set(Budget(budget.get().0 | Budget::WAITS)));
}

/// Runs a poll with a full budget, and tells whether something in it [`waits`].
pub(crate) fn with_budget_of_root<R>(poll: impl FnOnce() -> R) -> (R, bool) {
    with_budget(|| (poll(), BUDGET_OF_POLL.get().waits()))
}

/// A unit of the budget that was taken: given back when this is dropped, unless there was progress.
///
/// See [`poll_proceed`](crate::task::coop::poll_proceed).
#[derive(Debug)]
#[must_use = "dropping it gives the unit back"]
pub struct RestoreOnPending {
    taken: Cell<bool>,
    /// It is of the poll of this thread.
    _not_send: PhantomData<*mut ()>,
}

impl RestoreOnPending {
    fn new(taken: bool) -> Self {
        Self {
            taken: Cell::new(taken),
            _not_send: PhantomData,
        }
    }

    /// The operation did something: the unit is spent.
    pub fn made_progress(&self) {
        self.taken.set(false);
    }
}

impl Drop for RestoreOnPending {
    fn drop(&mut self) {
        if self.taken.get()
            && let Some(left) = BUDGET_OF_POLL.get().left()
        {
            // One, and not what there was: what the operation spent inside is spent.
            set_left(Some(BUDGET.min(left + 1)));
        }
    }
}

/// Takes a unit; see [`poll_proceed`](crate::task::coop::poll_proceed). `slice_is_over` is asked
/// only if the answer matters.
pub(crate) fn poll_take(
    cx: &mut Context<'_>,
    slice_is_over: impl FnOnce() -> bool,
) -> Poll<RestoreOnPending> {
    let budget = BUDGET_OF_POLL.get();
    let Some(mut left) = budget.left() else {
        return Poll::Ready(RestoreOnPending::new(false));
    };
    if budget.is_spent(left, slice_is_over) {
        if !is_one_too_many(budget.refused() + 1) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        left = BUDGET;
    }
    set_left(Some(left - 1));
    Poll::Ready(RestoreOnPending::new(true))
}

/// Whether the current poll has a unit left.
pub(crate) fn has_left(slice_is_over: impl FnOnce() -> bool) -> bool {
    let budget = BUDGET_OF_POLL.get();
    budget
        .left()
        .is_none_or(|left| !budget.is_spent(left, slice_is_over))
}

/// Whether the current poll has a budget at all.
pub(crate) fn is_limited() -> bool {
    BUDGET_OF_POLL.get().left().is_some()
}

/// Changes whenever an operation of the current poll is refused.
pub(crate) fn refusals() -> u16 {
    BUDGET_OF_POLL.get().refused()
}

/// Polls by `poll`, and takes a unit if it is ready and has taken none itself. It refuses nothing:
/// a loop that calls it asks [`poll_proceed`] or [`has_budget_remaining`] before.
///
/// [`poll_proceed`]: crate::task::coop::poll_proceed
/// [`has_budget_remaining`]: crate::task::coop::has_budget_remaining
pub fn charged<R>(poll: impl FnOnce() -> Poll<R>) -> Poll<R> {
    let before = BUDGET_OF_POLL.get().left();
    let result = poll();
    if result.is_ready()
        && let Some(left) = BUDGET_OF_POLL.get().left()
        && before == Some(left)
    {
        set_left(Some(left.saturating_sub(1)));
    }
    result
}

/// Polls by `poll` with one part in `after + 1` of what is left, for `after` others are polled
/// behind it. See *Combinators* in the module's head.
pub fn poll_share<R>(after: usize, poll: impl FnOnce() -> R) -> R {
    struct Release(u8);
    impl Drop for Release {
        fn drop(&mut self) {
            BUDGET_OF_POLL.with(|budget| budget.set(budget.get().with_reserved(self.0)));
        }
    }
    let budget = BUDGET_OF_POLL.get();
    let Some(left) = budget.left() else {
        return poll();
    };
    let reserved = budget.reserved();
    let share = usize::from(left.saturating_sub(reserved)).div_ceil(after + 1);
    let _release = Release(reserved);
    BUDGET_OF_POLL.set(budget.with_reserved(left - share as u8));
    poll()
}

/// Counts a refusal. Whether it is to be none: see *A poll that does not come back* in the module's
/// head.
#[cold]
fn is_one_too_many(refused: u16) -> bool {
    let too_many = refused.is_multiple_of(REFUSALS);
    BUDGET_OF_POLL.with(|budget| {
        let refused = if too_many { REFUSALS } else { refused };
        budget.set(budget.get().with_refused(refused));
    });
    too_many
}

fn set_left(left: Option<u8>) {
    BUDGET_OF_POLL.with(|budget| {
        budget.set(budget.get().with_left(left));
    });
}

pin_project! {
    /// A future that is polled without a budget. See [`unconstrained`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Unconstrained<F> {
        #[pin]
        future: F,
    }
}

/// Polls `future` without the cooperative budget: its operations never yield by themselves.
///
/// For code that must not be interrupted between two ready operations. It can starve others on its
/// thread for as long as it stays ready.
///
/// ```
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// let three = runtime.block_on(ws::task::unconstrained(async { 1 + 2 }));
/// assert_eq!(three, 3);
/// ```
pub fn unconstrained<F: Future>(future: F) -> Unconstrained<F> {
    Unconstrained { future }
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.project().future;
        inside(Budget::new(None), || future.poll(cx))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn is_granted() -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        match poll_take(&mut cx, || false) {
            Poll::Ready(unit) => {
                unit.made_progress();
                true
            }
            Poll::Pending => false,
        }
    }

    /// A poll that asks each of its children once: as many of them get on as the head says.
    #[test]
    fn a_sweep_over_many_children_is_bounded() {
        let budgets = 10;
        let asked = budgets * (usize::from(BUDGET) + usize::from(REFUSALS) - 1);
        let granted = with_budget(|| (0..asked).filter(|_| is_granted()).count());
        assert_eq!(granted, budgets * usize::from(BUDGET));
        with_budget(|| assert!(is_granted(), "the next poll begins anew"));
    }

    /// Below the bound there is no unit more than before.
    #[test]
    fn a_poll_with_fewer_refusals_gets_nothing_more() {
        let asked = usize::from(BUDGET) + usize::from(REFUSALS) - 1;
        let granted = with_budget(|| (0..asked).filter(|_| is_granted()).count());
        assert_eq!(granted, usize::from(BUDGET));
    }

    /// Fails if a unit that is given back in a later poll makes its budget larger than any: some
    /// more of them would make it one without a limit.
    #[test]
    fn what_is_given_back_late_is_not_more_than_a_budget() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut late = Vec::new();
        for _ in 0..2 {
            with_budget(|| {
                for _ in 0..BUDGET {
                    let Poll::Ready(unit) = poll_take(&mut cx, || false) else {
                        panic!("there is one left");
                    };
                    late.push(unit);
                }
            });
        }
        let granted = with_budget(|| {
            drop(late);
            (0..2 * usize::from(BUDGET))
                .filter(|_| is_granted())
                .count()
        });
        assert_eq!(granted, usize::from(BUDGET));
    }

    /// Fails if the count of refusals has no bound: it has 16 bits.
    #[test]
    fn refusals_are_counted_for_ever() {
        let asked = 70 * (usize::from(BUDGET) + usize::from(REFUSALS));
        let granted = with_budget(|| (0..asked).filter(|_| is_granted()).count());
        assert!(granted > 60 * usize::from(BUDGET));
    }

    /// Fails if a share that ends gives away what is reserved for those beside the outer one.
    #[test]
    fn a_share_within_a_share_leaves_the_outer_one() {
        let granted = || (0..BUDGET).filter(|_| is_granted()).count();
        let half = with_budget(|| {
            poll_share(1, || {
                poll_share(1, || ());
                granted()
            })
        });
        assert_eq!(half, usize::from(BUDGET) / 2);
    }

    /// Fails if a poll gets nothing in a slice that is over, if one with too many refusals still
    /// heeds it, and if a renewed budget does.
    #[test]
    fn a_slice_that_is_over_is_heeded_in_bounds() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut granted = |asked: usize| {
            let is_granted = |_: &usize| match poll_take(&mut cx, || true) {
                Poll::Ready(unit) => {
                    unit.made_progress();
                    true
                }
                Poll::Pending => false,
            };
            (0..asked).filter(is_granted).count()
        };
        let (budget, refusals) = (usize::from(BUDGET), usize::from(REFUSALS));
        assert_eq!(with_budget(|| granted(2)), 1);
        assert_eq!(with_budget(|| granted(refusals + budget)), 1 + budget);
        assert_eq!(with_budget(|| renewed(|| granted(budget))), budget);
    }
}
