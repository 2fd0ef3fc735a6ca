//! Fork and join: compute on the same workers as I/O.
//!
//! [`join`] calls two closures, which may borrow from the stack, and other workers may take the
//! second while this one is in the first. The order (J1): the second is at the tail of this
//! worker's deque, the first runs at once, thieves take from the head, the oldest first.
//!
//! | file | has |
//! | --- | --- |
//! | `scope.rs` | [`scope()`], with any number of branches |
//! | `steps.rs` | the steps of a join, on any tail |
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

mod owner;
mod scope;
mod steps;
#[cfg(test)]
pub(crate) mod tests;

pub use self::scope::{Scope, scope};
use self::{owner::Owner, steps::join_on};
use crate::branch::own;

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
        unsafe { join_on(tail, || own::tail_after(), a, b, |_| (), Owner) }
    } else {
        // A pair is put together here. If they were passed one by one, both would be in memory on
        // the way above as well, since this call wants their address.
        join_disturbed((a, b), caller)
    }
}

/// The same, when a thread asked for work, or this thread has no branch deque.
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
                Owner,
            )
        },
        owner::Way::Call => (a(), b()),
        owner::Way::Enter(shared) => owner::inside(&shared, || join(a, b)),
    }
}
