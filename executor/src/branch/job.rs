//! A branch as others see it: a header with a table of two functions, in front of a closure.
//!
//! A thread that claims a branch from a branch deque gets the address of its [`Header`] and does
//! one of two things with it, once: [`Header::run`], or [`Header::give_back`]. A job of a `join`
//! lies on its owner's stack, one of a `scope` on the heap. Both begin with the header (`repr(C)`),
//! so that its address is the job's.
//!
//! *Invariant*: a job stays where it is until its owner has popped or reclaimed it, or its latch
//! (for a scope's job: the count of its scope) says that it was run or given back. The last access
//! of a thief is the step that says so.
//!
//! A job of a join is shared from its beginning: its address comes from a reference, and is in the
//! deque while its owner holds others. So whatever is written to it lies in a cell, or is an
//! atomic.
#![allow(unsafe_code)]

use std::{
    any::Any,
    cell::Cell,
    mem::MaybeUninit,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
};

use super::{
    deque::Link,
    latch::{Latch, Settled},
};
use crate::{
    park::Parker,
    sync::{
        UnsafeCell,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Release},
        },
    },
};

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

/// What can be done with a job; see the module's head.
pub(crate) struct Functions {
    /// Runs it, and says so to its owner, which sleeps on this parker.
    pub(crate) run: unsafe fn(NonNull<Header>, &Parker),
    /// Leaves it to its owner.
    pub(crate) give_back: unsafe fn(NonNull<Header>, &Parker),
}

/// The beginning of every job.
#[repr(C)]
pub(crate) struct Header {
    functions: &'static Functions,
    /// Where it is. Its owner's alone.
    pub(crate) link: Cell<Link>,
    /// What others need: there once the job is promoted, since most jobs never are.
    open: UnsafeCell<MaybeUninit<Open>>,
}

/// What a promoted job has for the threads that may claim it.
struct Open {
    /// Where it runs, so that its owner can help: the P's index plus one, and the index in its
    /// branch deque from which on its branches are this one's descendants. 0: nowhere, or not yet.
    thief: AtomicU64,
    latch: Latch,
    /// What its owner computes (`compute.rs`).
    computation: usize,
}

impl Header {
    #[inline(always)]
    pub(crate) fn new(functions: &'static Functions) -> Self {
        Self {
            functions,
            link: Cell::new(Link::NONE),
            open: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Its index in the deque.
    ///
    /// Only its owner may ask, once it was placed.
    pub(crate) fn index(&self) -> usize {
        self.link.get().index()
    }

    /// Readies the job for others, before its promotion.
    ///
    /// # Safety
    ///
    /// - The job is private, and its owner calls.
    pub(crate) unsafe fn open(this: NonNull<Self>, computation: usize) {
        let open = Open {
            thief: AtomicU64::new(0),
            latch: Latch::new(),
            computation,
        };
        // SAFETY: by contract it is there.
        let cell = unsafe { &this.as_ref().open };
        // SAFETY: by contract no other thread looks at the contents.
        cell.with_mut(|contents| unsafe {
            (*contents).write(open);
        });
    }

    /// What [`open`](Self::open) has put there.
    ///
    /// # Safety
    ///
    /// - The job was promoted.
    unsafe fn opened(&self) -> &Open {
        // SAFETY: by contract it was written, and it is not again while another thread has the job.
        self.open
            .with(|contents| unsafe { (*contents).assume_init_ref() })
    }

    /// Which P runs it, and from which index on that branch deque is its own.
    ///
    /// # Safety
    ///
    /// - The job was promoted.
    pub(crate) unsafe fn thief(&self) -> Option<(usize, usize)> {
        // SAFETY: by contract.
        let open = unsafe { self.opened() };
        // Ordering: Acquire pairs with `run`: the base is that of this run.
        let thief = open.thief.load(Acquire);
        let processor = (thief >> 32).checked_sub(1)?;
        Some((processor as usize, thief as u32 as usize))
    }

    /// What it is a part of.
    ///
    /// # Safety
    ///
    /// - The job was promoted.
    pub(crate) unsafe fn computation(&self) -> usize {
        // SAFETY: by contract.
        unsafe { self.opened() }.computation
    }

    /// How its owner learns that it has ended.
    ///
    /// # Safety
    ///
    /// - The job was promoted.
    pub(crate) unsafe fn latch(&self) -> &Latch {
        // SAFETY: by contract.
        unsafe { &self.opened().latch }
    }

    /// Ends the wait for it.
    ///
    /// # Safety
    ///
    /// - The caller has claimed the job, and this is the last that it does with it.
    /// - `parker` is that of the branch deque where it was claimed.
    unsafe fn set(this: NonNull<Self>, how: Settled, parker: &Parker) {
        // SAFETY: what was claimed was promoted, and is there until the latch is set. No reference
        // to it is alive by then.
        unsafe {
            let open = this.as_ref().open.with(|contents| contents.cast::<Open>());
            Latch::set(&raw const (*open).latch, how, parker);
        }
    }

    /// Runs the job on the P with that index. The tail of that P is at `base`.
    ///
    /// # Safety
    ///
    /// - The caller has claimed the job, has not run it, and has not given it back.
    /// - `parker` is that of the branch deque where it was claimed.
    pub(crate) unsafe fn run(this: NonNull<Self>, processor: usize, base: usize, parker: &Parker) {
        // SAFETY: by contract it is there until it has run.
        let header = unsafe { this.as_ref() };
        let thief = (processor as u64 + 1) << 32 | base as u64;
        // Ordering: Release pairs with `thief`.
        // SAFETY: what was claimed was promoted.
        let open = unsafe { header.opened() };
        open.thief.store(thief, Release);
        let run = header.functions.run;
        // SAFETY: by contract; the function belongs to this job.
        unsafe { run(this, parker) }
    }

    /// Leaves the job to its owner.
    ///
    /// # Safety
    ///
    /// As for [`run`](Self::run).
    pub(crate) unsafe fn give_back(this: NonNull<Self>, parker: &Parker) {
        // SAFETY: by contract it is there until it is given back.
        let give_back = unsafe { this.as_ref() }.functions.give_back;
        // SAFETY: by contract; the function belongs to this job.
        unsafe { give_back(this, parker) }
    }
}

/// The second branch of a join, on the stack of the first.
#[repr(C)]
pub(crate) struct StackJob<F, R> {
    pub(crate) header: Header,
    closure: UnsafeCell<MaybeUninit<F>>,
    result: UnsafeCell<MaybeUninit<Result<R, Payload>>>,
}

impl<F, R> StackJob<F, R>
where
    F: FnOnce() -> R,
{
    const FUNCTIONS: Functions = Functions {
        run: Self::run,
        give_back: Self::give_back,
    };

    #[inline(always)]
    pub(crate) fn new(closure: F) -> Self {
        Self {
            header: Header::new(&Self::FUNCTIONS),
            closure: UnsafeCell::new(MaybeUninit::new(closure)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Takes the closure out.
    ///
    /// # Safety
    ///
    /// - No other thread can, and none has: the caller popped, reclaimed or claimed the job, or got
    ///   it back.
    #[inline(always)]
    pub(crate) unsafe fn take(&self) -> F {
        // SAFETY: by contract it is there, and the caller's alone.
        self.closure
            .with(|closure| unsafe { (*closure).assume_init_read() })
    }

    /// Takes the result out.
    ///
    /// # Safety
    ///
    /// - The latch says that the job is done, and the result was not taken before.
    pub(crate) unsafe fn take_result(&self) -> Result<R, Payload> {
        // SAFETY: by contract the thief has written it, and is gone.
        self.result
            .with(|result| unsafe { (*result).assume_init_read() })
    }

    unsafe fn run(header: NonNull<Header>, parker: &Parker) {
        let this = header.cast::<Self>();
        // SAFETY: the caller of `Header::run` has claimed it.
        let job = unsafe { this.as_ref() };
        // SAFETY: as above.
        let closure = unsafe { job.take() };
        // The caller of the join resumes the panic, so no code sees what it broke without learning
        // of it.
        let result = catch_unwind(AssertUnwindSafe(closure));
        // SAFETY: no other thread looks at it before the latch is set.
        job.result.with_mut(|slot| unsafe { (*slot).write(result) });
        // SAFETY: the caller of `Header::run` has claimed it, and this is the end.
        unsafe { Header::set(header, Settled::Done, parker) };
    }

    unsafe fn give_back(header: NonNull<Header>, parker: &Parker) {
        // SAFETY: as in `run`.
        unsafe { Header::set(header, Settled::Returned, parker) };
    }
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header").finish_non_exhaustive()
    }
}
