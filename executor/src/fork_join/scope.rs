//! `scope`: any number of branches that borrow, and an end after all of them.
//!
//! A branch of a scope is a job on the heap. It waits on the same deque as those of joins, at the tail of
//! the thread that spawned it, and is stolen in the same way. The scope counts the branches that have not
//! ended ([`Exit`]). At its end its owner pops its own tail down to where the scope began, and runs what it
//! finds; before each branch it looks whether somebody asked, as before a push. Then it waits for those that were stolen, as a
//! stalled join does: without a permit, and running nothing foreign.
//!
//! # Who pushes where
//!
//! An index of the deque belongs to a frame (*Mine or nothing* in `deque.rs`), so a branch may go to the
//! tail only if the frame on top of this thread's stack is that of the scope. Else it goes to the scope's
//! list, and its owner pushes it from there at the end. That is so for a scope that is used from inside a
//! join, from another scope inside, or on another thread; and where not all that is below has an index.
//!
//! Its branches lie in the array from the beginning, since it is by the top that the scope knows them again. So what is linked
//! is placed when a scope begins.
//!
//! A branch gets a scope of its own for what it spawns in turn, and ends after that: so a tree of branches
//! goes to the tails of those who run them, not to one list.
#![allow(unsafe_code)]

use std::{
    any::Any,
    fmt,
    marker::PhantomData,
    mem,
    panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind},
    ptr::{self, NonNull},
};

use super::{
    Exit, Tail, compute,
    job::{Functions, Header, Payload},
    owner::{self, Way, with_tail},
};
use crate::{
    blocking,
    no_unwind::NoUnwind,
    sched::park::Parker,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::discard,
};

/// Runs a closure that may spawn branches, which may borrow from outside of it, and ends after all of them.
///
/// As for [`join()`](crate::join), branches run on this thread, the newest first, except those that another
/// worker is idle for and takes, the oldest first.
///
/// # Panics
///
/// If the closure or a branch does, after all others have ended; of several panics the closure's, or else
/// one of the branches', reaches the caller. Also outside of a runtime, as [`join()`](crate::join).
///
/// Inside a [`compute()`](crate::compute) whose future was dropped it unwinds before it calls the closure, although nothing panicked,
/// as [`join()`](crate::join) does. A scope that has begun by then spawns and runs its branches all the same; a fork inside of one unwinds.
///
/// # Examples
///
/// ```
/// let runtime = ws_executor::runtime::Runtime::new().unwrap();
/// let mut squares = vec![0; 10];
/// runtime.block_on(async {
///     ws_executor::scope(|scope| {
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
/// ws_executor::scope(|scope| {
///     let number = 1;
///     scope.spawn(|_| assert_eq!(number, 1));
/// });
/// ```
///
/// And to be sendable:
///
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// ws_executor::scope(|scope| scope.spawn(|_| drop(shared.clone())));
/// ```
#[track_caller]
pub fn scope<'scope, F, R>(f: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    let caller = Location::caller();
    if !with_tail(Tail::is_undisturbed) {
        match owner::prepare(caller) {
            // Those who asked are heard at the first spawn.
            Way::Push => with_tail(Tail::ask_again),
            Way::Call => {}
            Way::Enter(shared) => return owner::inside(&shared, || scope(f)),
        }
    }
    let scope = Scope::new();
    let result = scope.run(f);
    match (result, scope.failure.lock().take()) {
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
pub struct Scope<'scope> {
    /// The address of the owner's tail, by which its thread is known, unless it has none.
    tail: usize,
    /// The tail's top while nothing but this scope has pushed since it began, and it may push.
    top: AtomicUsize,
    exit: Exit,
    /// Branches that are not on a deque.
    list: Mutex<Vec<Spawned>>,
    /// The first panic of a branch.
    failure: Mutex<Option<Payload>>,
    /// Branches borrow for exactly this long.
    lifetime: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

/// A branch in the list.
struct Spawned(NonNull<Header>);

// SAFETY: a job is made to be run by another thread: its closure is `Send`.
unsafe impl Send for Spawned {}

/// No top is this: the scope may not push.
const CLOSED: usize = usize::MAX;

impl<'scope> Scope<'scope> {
    fn new() -> Self {
        let (tail, top) = with_tail(|tail| {
            let top = if tail.lane().is_some() && tail.place(0) {
                tail.top()
            } else {
                CLOSED
            };
            (ptr::from_ref(tail).addr(), top)
        });
        Self {
            tail,
            top: AtomicUsize::new(top),
            exit: Exit::new(),
            list: Mutex::new(Vec::new()),
            failure: Mutex::new(None),
            lifetime: PhantomData,
        }
    }

    /// Spawns a branch, which gets a scope for what it spawns in turn, and ends after that.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// fn visit<'scope>(scope: &ws_executor::Scope<'scope>, depth: usize, leaves: &'scope AtomicUsize) {
    ///     if depth == 0 {
    ///         leaves.fetch_add(1, Ordering::Relaxed);
    ///         return;
    ///     }
    ///     for _ in 0..2 {
    ///         scope.spawn(move |scope| visit(scope, depth - 1, leaves));
    ///     }
    /// }
    ///
    /// let runtime = ws_executor::runtime::Runtime::new().unwrap();
    /// let leaves = AtomicUsize::new(0);
    /// runtime.block_on(async { ws_executor::scope(|scope| visit(scope, 5, &leaves)) });
    /// assert_eq!(leaves.into_inner(), 32);
    /// ```
    pub fn spawn<F>(&self, f: F)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let job = HeapJob::leak(f, self);
        self.exit.begin();
        let pushed = with_tail(|tail| self.is_on_top(tail) && self.push(tail, job));
        if !pushed {
            self.list.lock().push(Spawned(job));
        }
    }

    /// Whether the newest frame that may use this thread's tail is the scope's.
    fn is_on_top(&self, tail: &Tail) -> bool {
        ptr::from_ref(tail).addr() == self.tail
            && !tail.has_linked()
            && tail.top() == self.top.load(Relaxed)
            && owner::current_scope() == ptr::from_ref(self).addr()
    }

    fn push(&self, tail: &Tail, job: NonNull<Header>) -> bool {
        let disturbed = !tail.is_undisturbed();
        if disturbed {
            // The job is counted, and a scope whose job is lost never ends.
            let waiting = NoUnwind;
            owner::come_to_a_fork(tail);
            waiting.over();
            // Not here: the job is counted, and has to be pushed.
            compute::heed_later(tail);
        }
        // SAFETY: it is attached. The job is freed when it has run, which is after its index was popped or
        // reclaimed by `drain`, or else by a thief; and `drain` settles those when all have ended.
        let pushed = unsafe { tail.push_placed(job) };
        if pushed {
            self.top.store(tail.top(), Relaxed);
        }
        if disturbed {
            owner::feed(tail);
        }
        pushed
    }

    /// Runs the closure, and then everything that it has spawned.
    fn run<R>(&self, f: impl FnOnce(&Self) -> R) -> std::thread::Result<R> {
        let outer = owner::enter_scope(ptr::from_ref(self).addr());
        let base = with_tail(Tail::top);
        let result = catch_unwind(AssertUnwindSafe(|| f(self)));
        let waiting = NoUnwind;
        with_tail(|tail| self.drain(tail, base));
        waiting.over();
        owner::enter_scope(outer);
        result
    }

    /// Returns when all branches have ended.
    fn drain(&self, tail: &Tail, base: usize) {
        loop {
            // While a branch runs here, its frame is on top and not ours.
            self.top.store(CLOSED, Relaxed);
            while tail.top() > base {
                let Some(job) = take_newest(tail, base) else {
                    // Stolen, and so are all older ones.
                    break;
                };
                self.run_here(job);
            }
            let Some(Spawned(job)) = self.list.lock().pop() else {
                if self.exit.is_open() {
                    break;
                }
                self.wait(tail);
                continue;
            };
            // The others of the list go to the tail, where they can be stolen meanwhile.
            if tail.lane().is_some() && !tail.has_linked() && tail.top() == base {
                self.top.store(base, Relaxed);
                let mut rest = mem::take(&mut *self.list.lock()).into_iter();
                while let Some(Spawned(job)) = rest.next() {
                    if !self.push(tail, job) {
                        let mut list = self.list.lock();
                        list.push(Spawned(job));
                        list.extend(rest);
                        break;
                    }
                }
                self.top.store(CLOSED, Relaxed);
            }
            self.run_here(job);
        }
        if tail.lane().is_some() {
            tail.settle_all(base);
        }
    }

    fn run_here(&self, job: NonNull<Header>) {
        let nobody = Parker::new();
        // This thread counts down, and does not sleep meanwhile.
        // SAFETY: the job is the caller's alone.
        unsafe { Header::run_by_owner(job, &nobody) };
    }

    /// Sleeps until all have ended, or one was given back.
    fn wait(&self, tail: &Tail) {
        let Some(lane) = tail.lane() else {
            unreachable!("without a lane nothing was stolen")
        };
        if owner::spin_until(|| self.exit.is_open()) {
            return;
        }
        blocking::block_in_place(|| {
            if !self.exit.is_open() && self.list.lock().is_empty() {
                lane.bed.park();
            }
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

/// The newest branch from `base` on, for this thread to run, or none if it was stolen. Those who asked find half of the others;
/// see *Whom it feeds* in `owner.rs`.
fn take_newest(tail: &Tail, base: usize) -> Option<NonNull<Header>> {
    let index = tail.top() - 1;
    // SAFETY: below the top.
    let job = unsafe { tail.job_at(index) };
    if !tail.pop_placed(index) {
        if !tail.reclaim(index) {
            owner::was_stolen();
            return None;
        }
        owner::reclaimed();
    }
    // Not before: who came to a branch that was stolen has nothing for them.
    if !tail.is_undisturbed() {
        owner::come_to_a_fork(tail);
        compute::heed_later(tail);
        owner::feed_with(tail, (tail.top() - base).div_ceil(2));
    }
    Some(job)
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
    /// Valid until this job is counted as ended.
    scope: NonNull<Scope<'scope>>,
}

impl<'scope, F> HeapJob<'scope, F>
where
    F: FnOnce(&Scope<'scope>) + Send + 'scope,
{
    const FUNCTIONS: Functions = Functions {
        run: Self::run,
        give_back: Self::give_back,
    };

    fn leak(closure: F, scope: &Scope<'scope>) -> NonNull<Header> {
        let job = Box::new(Self {
            header: Header::new(&Self::FUNCTIONS),
            closure,
            scope: NonNull::from(scope),
        });
        NonNull::from(Box::leak(job)).cast()
    }

    unsafe fn run(header: NonNull<Header>, bed: &Parker) {
        // SAFETY: `leak` made it from a box, and who runs the job is the only one who has it.
        let job = unsafe { Box::from_raw(header.cast::<Self>().as_ptr()) };
        let Self { closure, scope, .. } = *job;
        let own = Scope::new();
        let result = own.run(closure);
        // SAFETY: this job is counted, so the scope is there.
        let parent = unsafe { scope.as_ref() };
        if let Err(payload) = result {
            parent.fail(payload);
        }
        let failure = own.failure.lock().take();
        if let Some(payload) = failure {
            parent.fail(payload);
        }
        // SAFETY: the job was counted when it was spawned, and this is the last of it.
        unsafe { Exit::end(&raw const (*scope.as_ptr()).exit, bed) };
    }

    unsafe fn give_back(header: NonNull<Header>, bed: &Parker) {
        // SAFETY: the caller has claimed the job, which is counted, so both are there.
        let scope = unsafe { (*header.cast::<Self>().as_ptr()).scope };
        let put = || {
            // SAFETY: this thread is counted meanwhile.
            let parent = unsafe { scope.as_ref() };
            parent.list.lock().push(Spawned(header));
        };
        // SAFETY: as above.
        unsafe { Exit::hand_back(&raw const (*scope.as_ptr()).exit, bed, put) };
    }
}
