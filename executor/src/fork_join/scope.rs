//! `scope`: any number of branches that borrow, and an end after all of them.
//!
//! A branch of a scope is a job on the heap (`branch/jobs.rs`). A spawn puts it into a list of the
//! branch deque and wakes a worker, if one is idle and none searches. So idle workers see every
//! branch at once, also while its spawner computes or blocks. Branches that wait for each other all
//! run if there are as many free workers.
//!
//! The scope counts the branches that have not ended ([`CountLatch`]). All of them count in the
//! same scope, also those that a branch spawns: a branch ends without waiting for them, and a chain
//! of branches needs no stack.
//!
//! # The end
//!
//! The owner of the scope runs jobs of its scope in a loop, the newest of its own list first. If
//! its list has none, it takes one from another worker's list, the oldest first. If no list has
//! one, all are being run elsewhere: the owner spins for a moment, gives its permit to another
//! thread and sleeps (*A job for a sleeper* in `branch/count_latch.rs`).
//!
//! # Which list
//!
//! | where it is spawned | list |
//! | --- | --- |
//! | the owner, in the closure or in a branch that it runs at the end | the owner's |
//! | a worker, in a branch that it has stolen | this worker's |
//! | anywhere else: inside a join's second half, or inside another scope; on a plain thread | the owner's |
//!
//! In the first two rows the frame that looks at the list afterwards is below the spawn on the same
//! stack. So no list has a job when its worker leaves it.
//!
//! # What a wake-up is worth
//!
//! *How many it promotes* in `owner.rs` has the back-off. It is the same one: after three wake-ups
//! in a row from which no thread came in time to take a job, a spawn wakes no thread for 20 us to
//! 1.3 ms. The monitor finds what waits meanwhile beside an idle worker. A runtime without a
//! monitor has no back-off for jobs: else no thread would find them.
//!
//! Rejected: jobs in the deque of the joins, as it was here before. An index of the deque belongs
//! to a frame, so a branch had to wait for all that it had spawned, on top of it. A thread that
//! came to one of its own branches while it could not push to the deque kept that branch to itself.
#![allow(unsafe_code)]

use std::{
    any::Any,
    fmt,
    marker::PhantomData,
    panic::{AssertUnwindSafe, Location, RefUnwindSafe, UnwindSafe, catch_unwind, resume_unwind},
    ptr::{self, NonNull},
};

use super::owner::{self, Way};
use crate::{
    block_on::in_place::block_in_place,
    branch::{
        BranchDeque, CountLatch, Tail, compute,
        job::Payload,
        jobs::{Header, Job, ScopeHead},
        own::{self, with_tail},
    },
    cell::discard,
    context,
    no_unwind::NoUnwind,
    permit::env::Env,
    sched::Shared,
    sync::{Arc, Mutex},
};

/// Runs a closure that may spawn branches, which may borrow from outside of it, and ends after all
/// of them.
///
/// Idle workers see a branch as soon as it is spawned, and take the oldest first. This thread runs
/// the others when the closure has ended, the newest first. It waits for those that are still being
/// run, and runs nothing else meanwhile.
///
/// Branches may wait for each other, if there are as many workers that have nothing else to do. If
/// a branch waits for one that is not begun, and all workers are busy or blocked in the same way,
/// it waits until the runtime has found out that they block, and lets other threads have their
/// places. Without the monitor it may wait for ever.
///
/// A branch costs an allocation and two short locks. It needs no stack of any other branch, so
/// branches may spawn branches without a limit.
///
/// # Panics
///
/// If the closure or a branch does, after all others have ended; of several panics the closure's,
/// or else one of the branches', reaches the caller. A branch that has panicked does not keep
/// others from being begun.
///
/// Outside of a runtime, as [`join()`](crate::join).
///
/// Inside a [`compute()`](crate::compute) whose future was dropped it unwinds before it calls the
/// closure, although nothing panicked, as [`join()`](crate::join) does. A scope that has begun by
/// then spawns and runs its branches all the same; a fork inside of one unwinds.
///
/// # Examples
///
/// ```
/// let runtime = ws::runtime::Runtime::new().unwrap();
/// let mut squares = vec![0; 10];
/// runtime.block_on(async {
///     ws::scope(|scope| {
///         for (number, square) in squares.iter_mut().enumerate() {
///             scope.spawn(move |_| *square = number * number);
///         }
///     });
/// });
/// assert_eq!(squares[9], 81);
/// ```
///
/// What is borrowed has to live longer than the scope:
///
/// ```compile_fail,E0373
/// ws::scope(|scope| {
///     let number = 1;
///     scope.spawn(|_| assert_eq!(number, 1));
/// });
/// ```
///
/// And to be sendable:
///
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// ws::scope(|scope| scope.spawn(|_| drop(shared.clone())));
/// ```
#[track_caller]
pub fn scope<'scope, F, R>(f: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    let caller = Location::caller();
    if !with_tail(Tail::is_undisturbed) {
        match owner::prepare(caller) {
            // The threads that asked are heard at the first join.
            Way::Push => with_tail(Tail::ask_again),
            Way::Call => {}
            Way::Enter(shared) => return owner::inside(&shared, || scope(f)),
        }
    }
    let scope = Scope {
        core: Core::new(),
        lifetime: PhantomData,
    };
    let result = scope.core.run(|| f(&scope));
    match (result, scope.core.failure.lock().take()) {
        (Ok(result), None) => result,
        (Ok(_), Some(payload)) => resume_unwind(payload),
        (Err(payload), failure) => {
            // The caller sees one panic.
            failure.into_iter().for_each(discard);
            resume_unwind(payload)
        }
    }
}

/// Where branches are spawned. See [`scope`].
#[repr(transparent)]
pub struct Scope<'scope> {
    core: Core,
    /// Branches borrow for exactly this long.
    lifetime: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

/// What a scope is to its jobs, whatever they borrow.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Core {
    /// The jobs point to it, and by it to the whole.
    head: ScopeHead,
    latch: CountLatch,
    /// The owner's runtime, or null if it has no P.
    shared: *const Shared,
    /// The first panic of a branch.
    failure: Mutex<Option<Payload>>,
}

// SAFETY: its pointer is read alone, and points to what is `Sync`; see `shared`.
unsafe impl Sync for Core {}
// SAFETY: as above.
unsafe impl Send for Core {}
// A panic leaves nothing half done: the list and the count are the runtime's.
impl UnwindSafe for Core {}
impl RefUnwindSafe for Core {}

impl<'scope> Scope<'scope> {
    /// Spawns a branch, which gets the scope for what it spawns in turn.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// fn visit<'scope>(scope: &ws::Scope<'scope>, depth: usize, leaves: &'scope AtomicUsize) {
    ///     if depth == 0 {
    ///         leaves.fetch_add(1, Ordering::Relaxed);
    ///         return;
    ///     }
    ///     for _ in 0..2 {
    ///         scope.spawn(move |scope| visit(scope, depth - 1, leaves));
    ///     }
    /// }
    ///
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// let leaves = AtomicUsize::new(0);
    /// runtime.block_on(async { ws::scope(|scope| visit(scope, 5, &leaves)) });
    /// assert_eq!(leaves.into_inner(), 32);
    /// ```
    pub fn spawn<F>(&self, f: F)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let job = Box::new(HeapJob {
            header: Header {
                run: HeapJob::<'scope, F>::run,
                scope: NonNull::from(&self.core).cast(),
            },
            closure: f,
            lifetime: PhantomData,
        });
        // What is counted has to come into a list.
        let spawning = NoUnwind;
        self.core.latch.begin();
        // SAFETY: it is counted, and begins with its header.
        self.core
            .push(unsafe { Job::new(NonNull::from(Box::leak(job)).cast()) });
        spawning.over();
    }
}

impl Core {
    fn new() -> Self {
        let (owner_deque, shared) = context::with_worker(|worker| match worker {
            Some(worker) => {
                let shared = worker.shared();
                let branch_deque = &shared.peer(worker.index()).queues.branch_deque;
                (branch_deque.clone(), Arc::as_ptr(shared))
            }
            None => (Arc::new(BranchDeque::new()), ptr::null()),
        });
        Self {
            head: ScopeHead {
                owner_deque,
                computation: compute::current(),
                run_stolen: owner::run_stolen,
            },
            latch: CountLatch::new(),
            shared,
            failure: Mutex::new(None),
        }
    }

    /// The runtime whose workers may run its jobs.
    fn shared(&self) -> Option<&Shared> {
        // SAFETY: null, or that of a worker whose frame is on the owner's stack, below this scope,
        // and keeps it.
        unsafe { self.shared.as_ref() }
    }

    /// Makes a job visible. It is counted.
    fn push(&self, job: Job) {
        let at = own::current_scope();
        if ptr::eq(at.scope, &raw const self.head) {
            // SAFETY: the frame that set it keeps the branch deque, and is below on this stack.
            unsafe { &*at.branch_deque }.jobs.push(job);
        } else {
            self.head.owner_deque.jobs.push(job);
        }
        let Some(shared) = self.shared() else {
            return;
        };
        if self.latch.is_asleep() {
            self.head.owner_deque.parker.unpark(|| ());
        }
        owner::wake_for_a_job(shared);
    }

    /// Runs the closure, and then everything that was spawned.
    fn run<R>(&self, f: impl FnOnce() -> R) -> std::thread::Result<R> {
        let outer = own::enter_scope(own::Place {
            scope: ptr::from_ref(self).cast(),
            branch_deque: Arc::as_ptr(&self.head.owner_deque),
        });
        let result = catch_unwind(AssertUnwindSafe(f));
        let waiting = NoUnwind;
        self.drain();
        waiting.over();
        own::enter_scope(outer);
        result
    }

    /// Returns when all branches have ended.
    fn drain(&self) {
        while !self.latch.is_open() {
            owner::come_by_between_jobs();
            if let Some(job) = self.take() {
                job.run();
            } else if !owner::spin_until(|| self.latch.is_open()) {
                self.sleep();
            }
        }
    }

    /// A job of this scope, for its owner.
    fn take(&self) -> Option<Job> {
        let own = self.head.owner_deque.jobs.take_newest_of(&self.head);
        if own.is_some() {
            owner::took_its_own();
            return own;
        }
        owner::was_stolen();
        let mut others = self.shared()?.peers();
        others.find_map(|peer| peer.queues.branch_deque.jobs.take_oldest_of(&self.head))
    }

    /// Sleeps until all have ended, or a job waits in a list.
    fn sleep(&self) {
        let shared = self.shared();
        let shared = shared.expect("who has no P runs all jobs itself");
        block_in_place(|| {
            // Its permit is free only now, and no thread has searched with it.
            for peer in shared.peers() {
                peer.queues.branch_deque.ask();
            }
            self.latch.fall_asleep();
            while !self.latch.is_open()
                && !shared
                    .peers()
                    .any(|peer| peer.queues.branch_deque.jobs.has_of(&self.head))
            {
                self.head.owner_deque.parker.park();
            }
            self.latch.wake_up();
        });
    }

    /// A branch has panicked: the first one is kept.
    fn fail(&self, payload: Box<dyn Any + Send>) {
        let mut failure = self.failure.lock();
        let spare = if failure.is_none() {
            failure.replace(payload)
        } else {
            Some(payload)
        };
        drop(failure);
        spare.into_iter().for_each(discard);
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

/// A branch of a scope.
#[repr(C)]
struct HeapJob<'scope, F> {
    header: Header,
    closure: F,
    lifetime: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

impl<'scope, F> HeapJob<'scope, F>
where
    F: FnOnce(&Scope<'scope>) + Send + 'scope,
{
    unsafe fn run(header: NonNull<Header>) {
        // SAFETY: `spawn` made it from a box, and only the thread that runs the job has it.
        let job = unsafe { Box::from_raw(header.cast::<Self>().as_ptr()) };
        let Self {
            header, closure, ..
        } = *job;
        // SAFETY: it is the core of such a scope, and nothing but a core; and it is there, since
        // this job is counted.
        let scope = unsafe { header.scope.cast::<Scope<'scope>>().as_ref() };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| closure(scope))) {
            scope.core.fail(payload);
        }
        let core = header.scope.cast::<Core>().as_ptr();
        // SAFETY: the job was counted when it was spawned, and this is the last of it. The branch
        // deque is kept by its own reference.
        unsafe {
            CountLatch::end(&raw const (*core).latch, || {
                (*core).head.owner_deque.clone()
            })
        };
    }
}
