//! The steps of a join, on any tail: the models drive them without a worker.
//!
//! See *The steps of a join* in `fork_join.rs`. What the thread does at a branch that it promoted,
//! and needs a worker for, is an [`AtPromoted`].
#![allow(unsafe_code)]

use std::{
    cell::UnsafeCell,
    mem::{ManuallyDrop, MaybeUninit},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::{self, NonNull},
};

use crate::{
    branch::{
        Header, Settled, Tail,
        job::{self, StackJob},
    },
    cell::discard,
    no_unwind::NoUnwind,
};

/// What an owner does when it comes to a branch that it promoted.
pub(crate) trait AtPromoted {
    /// No thread took it: it is the owner's again.
    fn reclaimed(&self) {}

    /// It was stolen: waits for its end.
    fn wait_for_thief(&self, tail: &Tail, header: &Header) -> Settled;
}

impl<S: Fn(&Tail, &Header) -> Settled> AtPromoted for S {
    fn wait_for_thief(&self, tail: &Tail, header: &Header) -> Settled {
        self(tail, header)
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
/// closure has ended; `pushed` is called after the push.
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
    at_promoted: S,
) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB,
    T: Fn() -> &'t Tail,
    S: AtPromoted,
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
                run_shared(after(), job, at_promoted)
            };
            (first.take(), second)
        }
        Err(payload) => give_up(after, job, at_promoted, payload),
    }
}

/// The second branch was promoted: its result, from wherever it is run.
#[cold]
#[inline(never)]
fn run_shared<F, R, S>(tail: &Tail, job: &StackJob<F, R>, at_promoted: S) -> R
where
    F: FnOnce() -> R,
    S: AtPromoted,
{
    match wait_shared(tail, job, &at_promoted) {
        Err(closure) => closure(),
        Ok(Ok(result)) => result,
        Ok(Err(payload)) => resume_unwind(payload),
    }
}

/// The first branch panicked: nothing of the second is left when the panic reaches the caller.
#[cold]
#[inline(never)]
fn give_up<'t, F, R, T, S>(after: T, job: &StackJob<F, R>, at_promoted: S, first: job::Payload) -> !
where
    F: FnOnce() -> R,
    T: Fn() -> &'t Tail,
    S: AtPromoted,
{
    // A destructor of the second branch is to see that its thread panics, as those of the first
    // have.
    let _abandon = Abandon {
        after,
        job,
        at_promoted,
    };
    resume_unwind(first)
}

/// Takes the second branch back when it is dropped, or waits for it, and drops what is left of it.
struct Abandon<'a, 't, F, R, T, S>
where
    F: FnOnce() -> R,
    T: Fn() -> &'t Tail,
    S: AtPromoted,
{
    after: T,
    job: &'a StackJob<F, R>,
    at_promoted: S,
}

impl<'t, F, R, T, S> Drop for Abandon<'_, 't, F, R, T, S>
where
    F: FnOnce() -> R,
    T: Fn() -> &'t Tail,
    S: AtPromoted,
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
            wait_shared(tail, self.job, &self.at_promoted)
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
    at_promoted: &S,
) -> Result<std::thread::Result<R>, F>
where
    F: FnOnce() -> R,
    S: AtPromoted,
{
    let waiting = NoUnwind;
    let index = job.header.index();
    if tail.reclaim(index) {
        waiting.over();
        at_promoted.reclaimed();
        // SAFETY: it was reclaimed.
        return Err(unsafe { job.take() });
    }
    let settled = at_promoted.wait_for_thief(tail, &job.header);
    tail.settle(index);
    waiting.over();
    match settled {
        // SAFETY: it is done, and this is the one place that asks.
        Settled::Done => Ok(unsafe { job.take_result() }),
        // SAFETY: it was given back.
        Settled::Returned => Err(unsafe { job.take() }),
    }
}
