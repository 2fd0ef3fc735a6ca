//! Fork and join: compute on the same workers as I/O.
//!
//! [`join`] calls two closures, which may borrow from the stack, and other workers may take the
//! second while this one is in the first. The order (J1): the second is at the tail of this
//! worker's deque, the first runs at once, thieves take from the head, the oldest first.
//!
//! | file | has |
//! | --- | --- |
//! | `scope.rs` | [`scope()`], with any number of branches |
//! | `owner.rs` | the thread's side: for which threads it promotes branches, what it does at a join that is not ready |
//! | `branch/deque.rs` | where branches wait, and how they are taken (*Asks*, *Mine or nothing*) |
//!
//! What a branch is to other threads is one layer below the scheduler, in `branch/`. This layer is
//! above: it needs the worker of the current thread.
//!
//! # The steps of a join
//!
//! 1. The second closure becomes a job on this stack frame, and is linked to the tail.
//! 2. The first closure is called.
//! 3. The job is still private, as it mostly is: it is taken back, and its closure is called. That
//!    is five loads, five stores and two comparisons more than two plain calls, beside what the
//!    closures have captured.
//! 4. It was promoted, but no thread took it: the same, after a compare-and-swap.
//! 5. It was stolen: *the waiting join*.
//!
//! A panic in the first closure takes the same steps, and drops the second if no thread has begun
//! it. So no frame is left before everything that may borrow from it has ended (J5).
//!
//! That includes panics of ours. The wait for a branch that is out comes by the scheduler, down to
//! where it starts threads, and if something there unwound, a thief would go on with a frame that
//! is gone. So whatever it calls of the user's is called so that a panic stays there (`report` and
//! `quietly` in `cell/raw.rs`), and what unwinds all the same aborts the process (S6): see
//! `no_unwind.rs`.
//!
//! # *The waiting join*
//!
//! Everything newer on this worker's tail belonged to the first closure, and has ended with it; and
//! by *Mine or nothing* there is nothing older either. So the worker may
//!
//! 1. help: take branches from the branch deque of the thief, but only those that it pushed while
//!    it ran ours. They are descendants of our branch: they have an index not below the one where
//!    the thief began with ours, since it placed all that it had then. If ours has not ended
//!    *after* our claim, it was being run at the claim. If it has ended, the claimed branch belongs
//!    to another frame, and is given back to its owner;
//! 2. give its permit to another thread and sleep on the latch, after a while without success.
//!
//! It never runs anything else. What runs above a frame of the user's was forked below that frame,
//! so a lock that is held across a join is never met by other work on the same thread (J2; rayon
//! #592). And a descendant needs no more stack above our frame than it would at its own place, but
//! for the wait itself. What is taken from the thief was forked in our branch, so of two levels of
//! a recursion one at most is a waiting join that helps on this stack. If one is, the two take some
//! 700 bytes together (x86-64, release).
#![allow(unsafe_code)]

#[cfg(not(ws_loom))]
mod owner;
#[cfg(not(ws_loom))]
mod scope;
#[cfg(all(test, not(ws_loom)))]
pub(crate) mod tests;

use std::{
    cell::UnsafeCell,
    mem::{ManuallyDrop, MaybeUninit},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::{self, NonNull},
};

#[cfg(not(ws_loom))]
pub use self::scope::{Scope, scope};
#[cfg(not(ws_loom))]
use crate::branch::own;
use crate::{
    branch::{
        Header, Settled, Tail,
        job::{self, StackJob},
    },
    cell::discard,
    no_unwind::NoUnwind,
};

/// Calls two closures, if others are idle at the same time, and returns both results.
///
/// `a` runs here and now. `b` runs here after it, unless another worker is idle and takes it
/// meanwhile. So both may borrow from this stack frame. A fork that no worker takes costs about as
/// much as a call. With one worker the order is that of `(a(), b())`.
///
/// A worker that was idle before the call sees `b` at once, if no older branch waits for it. A
/// worker that becomes idle later sees `b` when `a` forks or ends. So `a` must not wait for
/// anything that `b` does. If `a` takes long without a fork, `b` may wait for it beside an idle
/// worker. For a few long branches [`scope()`] is the better choice: all workers see its branches
/// at once.
///
/// Inside a task, or a `block_on`, the two run on its runtime. On a plain thread that has
/// [entered](crate::runtime::Handle::enter) a runtime, `a` runs on that thread, and the runtime's
/// workers may take `b`.
///
/// While `b` runs elsewhere and `a` is done, the thread helps with what `b` has forked, or lets
/// another thread have its place and sleeps. It never runs anything else there: so a lock that the
/// caller holds is not met by other work on the same stack.
///
/// # Panics
///
/// If `a` or `b` does, after both have ended. If `a` panics and `b` has not begun, `b` is dropped;
/// if both panic, the panic of `a` is what the caller sees. An exception of another language that
/// comes out of `a` or `b` may end the process.
///
/// Outside of a runtime: a pool of its own for such calls would be threads beside those of the
/// program's runtime, on the same cores, and nothing would ever end them.
///
/// Inside a [`compute()`](crate::compute) whose future was dropped it unwinds before it calls `a`,
/// although nothing panicked: without the panic hook, and with a payload of a private type. Code
/// that catches this payload may go on, and the next join unwinds again.
///
/// # Examples
///
/// ```
/// fn sum(numbers: &[u64]) -> u64 {
///     if numbers.len() < 100 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = ws::join(|| sum(left), || sum(right));
///     left + right
/// }
///
/// let runtime = ws::runtime::Runtime::new().unwrap();
/// let numbers: Vec<u64> = (0..10_000).collect();
/// assert_eq!(runtime.block_on(async { sum(&numbers) }), 49_995_000);
/// ```
///
/// What cannot be sent to another thread cannot be forked:
///
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// ws::join(|| (), || println!("{shared}"));
/// ```
///
/// Both sides cannot change the same thing either:
///
/// ```compile_fail,E0499
/// let mut count = 0;
/// ws::join(|| count += 1, || count += 1);
/// ```
#[cfg(not(ws_loom))]
#[inline(always)]
#[track_caller]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let caller = std::panic::Location::caller();
    // SAFETY: nothing here attaches or detaches before the branch is on the tail.
    let tail = unsafe { own::tail() };
    if tail.is_undisturbed() {
        // SAFETY: it is attached. What attaches this thread to another P meanwhile is above, and
        // takes that back before `a` ends.
        unsafe {
            join_on(
                tail,
                || own::tail_after(),
                a,
                b,
                |_| (),
                owner::wait_for_thief,
            )
        }
    } else {
        // A pair is put together here. If they were passed one by one, both would be in memory on
        // the way above as well, since this call wants their address.
        join_disturbed((a, b), caller)
    }
}

/// The same, when a thread asked for work, or this thread has no branch deque.
#[cfg(not(ws_loom))]
#[cold]
#[inline(never)]
fn join_disturbed<A, B, RA, RB>(
    (a, b): (A, B),
    caller: &'static std::panic::Location<'static>,
) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    match owner::prepare(caller) {
        // SAFETY: it is attached, and nothing attaches or detaches before the branch is on the
        // tail; afterwards as in `join`.
        owner::Way::Push => unsafe {
            join_on(
                own::tail(),
                || own::tail_after(),
                a,
                b,
                owner::promote_for_asks,
                owner::wait_for_thief,
            )
        },
        owner::Way::Call => (a(), b()),
        owner::Way::Enter(shared) => owner::inside(&shared, || join(a, b)),
    }
}

/// What lies on the stack during a join: what it needs after its first closure has ended, but for
/// the tail.
///
/// Nothing of it is in a register: every call below would have to save that. A recursion has many
/// calls that do not fork, and each level would load from the stack what the one below it has just
/// stored there. (The address of the job is known to others, so the compiler does not take a copy
/// for what is here.)
struct Frame<F, R, RA> {
    job: StackJob<F, R>,
    first: UnsafeCell<MaybeUninit<RA>>,
}

/// The result of the first closure, in its [`Frame`].
struct First<'a, RA>(&'a UnsafeCell<MaybeUninit<RA>>);

impl<'a, RA> First<'a, RA> {
    /// # Safety
    ///
    /// - No other code uses the place while the result is there.
    #[inline(always)]
    unsafe fn new(place: &'a UnsafeCell<MaybeUninit<RA>>, result: RA) -> Self {
        // SAFETY: by contract.
        unsafe { (*place.get()).write(result) };
        Self(place)
    }

    #[inline(always)]
    fn take(self) -> RA {
        let this = ManuallyDrop::new(self);
        // SAFETY: `new` has written it, and this and `drop` do not come a second time.
        unsafe { (*this.0.get()).assume_init_read() }
    }
}

impl<RA> Drop for First<'_, RA> {
    /// The second closure panicked.
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: as in `take`.
        unsafe { (*self.0.get()).assume_init_drop() };
    }
}

/// The steps of a join, on the tail of this thread. `after` is that tail again, once the first
/// closure has ended; `pushed` is called after the push, `wait_for_thief` waits for a branch that
/// was stolen.
///
/// A panic of the first closure is caught and resumed, though nothing but a destructor is needed:
/// one keeps the panic in a register while it runs, and every call would have to save that
/// register.
///
/// # Safety
///
/// - The tail is attached.
/// - `after` returns that tail, and it and `pushed` do not unwind.
#[inline(always)]
pub(crate) unsafe fn join_on<'t, A, B, RA, RB, T, S>(
    tail: &'t Tail,
    after: T,
    a: A,
    b: B,
    pushed: impl FnOnce(&Tail),
    wait_for_thief: S,
) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB,
    T: Fn() -> &'t Tail,
    S: Fn(&Tail, &Header) -> Settled,
{
    let frame = Frame {
        job: StackJob::new(b),
        first: UnsafeCell::new(MaybeUninit::uninit()),
    };
    let job = &frame.job;
    // SAFETY: it is attached. The frame is left only when the job is the owner's again, or done:
    // nothing leaves it before `pop`, a panic of `a` goes on only through `Abandon`, and what comes
    // after a branch that was not popped sees to that.
    unsafe { tail.push(NonNull::from(job).cast()) };
    pushed(tail);
    // Called where it lies: moved to where a panic would go, it would be copied once more.
    let a = ManuallyDrop::new(a);
    // SAFETY: this is the one place that takes it, and runs once.
    match catch_unwind(AssertUnwindSafe(|| unsafe { ptr::read(&*a) }())) {
        Ok(first) => {
            // SAFETY: the frame is used here alone, but for its job.
            let first = unsafe { First::new(&frame.first, first) };
            let ending = NoUnwind;
            let same = after();
            debug_assert!(ptr::eq(same, tail), "the thread has another P");
            let popped = same.pop(&job.header);
            ending.over();
            let second = if popped {
                // SAFETY: it was popped.
                let closure = unsafe { job.take() };
                closure()
            } else {
                // Not `same`: that would be kept in a register meanwhile, which every call would
                // have to save.
                run_shared(after(), job, wait_for_thief)
            };
            (first.take(), second)
        }
        Err(payload) => give_up(after, job, wait_for_thief, payload),
    }
}

/// The second branch was promoted: its result, from wherever it is run.
#[cold]
#[inline(never)]
fn run_shared<F, R, S>(tail: &Tail, job: &StackJob<F, R>, wait_for_thief: S) -> R
where
    F: FnOnce() -> R,
    S: Fn(&Tail, &Header) -> Settled,
{
    match wait_shared(tail, job, wait_for_thief) {
        Err(closure) => closure(),
        Ok(Ok(result)) => result,
        Ok(Err(payload)) => resume_unwind(payload),
    }
}

/// The first branch panicked: nothing of the second is left when the panic reaches the caller.
#[cold]
#[inline(never)]
fn give_up<'t, F, R, T, S>(
    after: T,
    job: &StackJob<F, R>,
    wait_for_thief: S,
    first: job::Payload,
) -> !
where
    F: FnOnce() -> R,
    T: Fn() -> &'t Tail,
    S: Fn(&Tail, &Header) -> Settled,
{
    // A destructor of the second branch is to see that its thread panics, as those of the first
    // have.
    let _abandon = Abandon {
        after,
        job,
        wait_for_thief,
    };
    resume_unwind(first)
}

/// Takes the second branch back when it is dropped, or waits for it, and drops what is left of it.
struct Abandon<'a, 't, F, R, T, S>
where
    F: FnOnce() -> R,
    T: Fn() -> &'t Tail,
    S: Fn(&Tail, &Header) -> Settled,
{
    after: T,
    job: &'a StackJob<F, R>,
    wait_for_thief: S,
}

impl<'t, F, R, T, S> Drop for Abandon<'_, 't, F, R, T, S>
where
    F: FnOnce() -> R,
    T: Fn() -> &'t Tail,
    S: Fn(&Tail, &Header) -> Settled,
{
    fn drop(&mut self) {
        let ending = NoUnwind;
        let tail = (self.after)();
        let popped = tail.pop(&self.job.header);
        ending.over();
        let left = if popped {
            // SAFETY: it was popped.
            Err(unsafe { self.job.take() })
        } else {
            wait_shared(tail, self.job, &self.wait_for_thief)
        };
        // The caller sees the first panic. One more, of a destructor, would abort.
        match left {
            Ok(Err(payload)) => discard(payload),
            left => {
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(left))) {
                    discard(payload);
                }
            }
        }
    }
}

/// What the thief returned, or the closure.
fn wait_shared<F, R, S>(
    tail: &Tail,
    job: &StackJob<F, R>,
    wait_for_thief: S,
) -> Result<std::thread::Result<R>, F>
where
    F: FnOnce() -> R,
    S: Fn(&Tail, &Header) -> Settled,
{
    let waiting = NoUnwind;
    let index = job.header.index();
    if tail.reclaim(index) {
        waiting.over();
        #[cfg(not(ws_loom))]
        owner::reclaimed();
        // SAFETY: it was reclaimed.
        return Err(unsafe { job.take() });
    }
    let settled = wait_for_thief(tail, &job.header);
    tail.settle(index);
    waiting.over();
    match settled {
        // SAFETY: it is done, and this is the one place that asks.
        Settled::Done => Ok(unsafe { job.take_result() }),
        // SAFETY: it was given back.
        Settled::Returned => Err(unsafe { job.take() }),
    }
}
