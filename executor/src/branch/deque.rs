//! The deque of sync branches: a chain that is its owner's alone, and an array that others take
//! from.
//!
//! A `join` pushes its second branch here, runs the first, and mostly finds the second where it put
//! it. So the common case must cost next to nothing: no fence, no read-modify-write, no word that
//! another thread writes. This is the split deque of Lace (van Dijk and van de Pol, *Lace:
//! non-blocking split deque for work-stealing*, 2014), with thieves that claim before they read,
//! and with a newest part that is not in the array yet.
//!
//! ```text
//! index    0 ........ head ........ split ........ top
//!          | stolen   | shared      | private      | <- linked <- linked <- newest
//!                       thieves                                             the owner pushes
//!                       take here                                           and pops here
//! ```
//!
//! - `newest`, `top` and `split` are the owner's: plain cells of the [`Tail`].
//! - `head` and a copy of `split` are one atomic word of the [`BranchDeque`], which is what others
//!   see.
//! - A push *links*: the job keeps the one that was the newest before it, and is the newest. That
//!   is all that most branches ever see: a pop makes the one before it the newest again.
//! - The owner *places* branches when it wants to know where they are, and all that are linked at
//!   once: they get the indices from `top` on, the oldest the lowest, and their jobs keep these
//!   instead of the link. So a job says by itself where it is, and a branch is placed once at most,
//!   however often a thread asks.
//! - It *promotes* branches by adding to `split` in the word: the oldest first, since they are the
//!   largest. It does so only when a thread asks for one, or did (*After a steal* in
//!   `fork_join/owner.rs`).
//! - A thief claims the branch at `head` by a compare-and-swap that moves `head` on.
//! - The owner *reclaims* a promoted branch by a compare-and-swap that moves `split` back.
//!
//! # Asks
//!
//! A thief that finds nothing says so by a flag. The owner looks at the flag before each push, as a
//! goroutine's stack check does for its preemption. A thread without a P uses a tail whose flag is
//! always up, so that one comparison finds out about both.
//!
//! # *Mine or nothing*
//!
//! *Invariant*: every branch that is linked or has an index below `top` belongs to one frame of the
//! owner's stack that waits for it, in the order of the frames. What is linked is newer than what
//! is placed. A frame gives its branch's place up only when that has ended, or was reclaimed.
//!
//! - Claims go from the oldest on. So if a frame finds its branch claimed, all older ones are
//!   claimed as well, and the shared part is empty. A worker that pops at its own tail finds its
//!   own branch, or nothing: never that of an older frame (J2).
//! - A slot is written when its index is given to a branch, and not again before that branch has
//!   ended. So a thief may read the slot *after* its claim, however late it comes to that. No value
//!   of the word that comes back (ABA) does harm: what is at `head` is what it claims.
//! - The array may grow while thieves are on their way: the old one is kept, and a claimed slot is
//!   the same in both.
//!
//! # *Two Ps on one stack*
//!
//! If the last thread of a runtime was refused, the thread that clears away for it takes a P for
//! that, and drops futures as its worker. It may be deep in a join of another P when that happens.
//! The joins of those destructors use the second P's tail. The frames below keep theirs, in the
//! first P's branch deque, and use that tail again when the thread is back.
//!
//! # Rejected
//!
//! `crossbeam-deque` for every branch: push and pop cost 12 ns together, five times what a join
//! may.
//!
//! A chain of the frames and nothing else (spice): finding the oldest is a walk for each promotion,
//! which a recursion that is a million deep pays again and again. Here it pays once for each level:
//! some 60 ns, where the stack is not in the cache any more, so that the first ask in such a
//! recursion took 58 ms.
//!
//! Every branch into the array at once, as it was here before: a push loads where the array is and
//! has two addresses to store, for some 0.8 ns of the 2.7 that a join of fib took above plain calls
//! in a small model (Intel Xeon, the median of the code aligned in seven ways).
//!
//! The newest in a thread-local of its own: 0.4 ns more for fib and 0.5 less for skynet in the same
//! model, and it has to be exchanged whenever the thread gets another P.
//!
//! Checked by `models::fork_join`.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::{
    cell::Cell,
    fmt, iter,
    mem::ManuallyDrop,
    ptr::{self, NonNull},
};

use ws_queue::const_fn;

use super::{
    job::Header,
    jobs::{Job, Jobs},
    latch::Latch,
};
use crate::{
    park::Parker,
    queue::Padded,
    sync::{
        Arc, MODELLED, Mutex,
        atomic::{
            AtomicBool, AtomicPtr, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// Slots of the first array. A later one has the next power of two that is enough; guessed: a
/// balanced recursion is less deep.
const FIRST_CAPACITY: usize = if MODELLED { 1 } else { 128 };
/// Indices are halves of a word. A branch beyond the last one stays linked, and no other thread
/// sees it. (Tests come to the end sooner.)
const MAX_CAPACITY: usize = if cfg!(test) { 1 << 10 } else { 1 << 31 };

/// One in the half of the word that is `split`.
const SPLIT: u64 = 1 << 32;

type Slot = AtomicPtr<Header>;

#[derive(Clone, Copy)]
struct Word {
    head: usize,
    split: usize,
}

impl From<u64> for Word {
    fn from(word: u64) -> Self {
        Self {
            head: word as u32 as usize,
            split: (word >> 32) as usize,
        }
    }
}

impl From<Word> for u64 {
    fn from(word: Word) -> Self {
        word.head as u64 | (word.split as u64) << 32
    }
}

/// What others see of a P's branches.
#[derive(Debug)]
pub(crate) struct BranchDeque {
    word: Padded<AtomicU64>,
    /// The owner's end. Other threads touch only its flag.
    tail: Tail,
    /// A thread at a waiting join looks here for a branch: it asks for one, although it does not
    /// search and its permit is not free.
    helper: AtomicBool,
    /// The first slot of the newest array.
    slots: AtomicPtr<Slot>,
    /// All arrays that there were; they stay until the end.
    arrays: Mutex<Vec<Vec<Slot>>>,
    /// The branches of scopes, which have no index.
    pub(crate) jobs: Jobs,
    /// Where its thread sleeps when it waits for a branch.
    pub(crate) parker: Parker,
}

impl AsRef<Parker> for BranchDeque {
    fn as_ref(&self) -> &Parker {
        &self.parker
    }
}

impl BranchDeque {
    pub(crate) fn new() -> Self {
        Self {
            word: Padded(AtomicU64::new(0)),
            tail: Tail::new(),
            helper: AtomicBool::new(false),
            slots: AtomicPtr::new(ptr::null_mut()),
            arrays: Mutex::new(Vec::new()),
            jobs: Jobs::new(),
            parker: Parker::new(),
        }
    }

    /// Whether there is a branch to take.
    pub(crate) fn has_shared(&self) -> bool {
        if !self.jobs.is_empty() {
            return true;
        }
        self.shared() > 0
    }

    /// How many branches of joins there are to take.
    pub(crate) fn shared(&self) -> usize {
        let word = Word::from(self.word.0.load(Relaxed));
        word.split.saturating_sub(word.head)
    }

    /// Whether a branch was promoted that its owner has not come back to: it is to be taken, or was
    /// stolen.
    pub(crate) fn has_promoted(&self) -> bool {
        if !self.jobs.is_empty() {
            return true;
        }
        Word::from(self.word.0.load(Relaxed)).split > 0
    }

    /// Asks the owner for work. False if that was done before, and it has not come by since.
    pub(crate) fn ask(&self) -> bool {
        let asked = &self.tail.asked.0;
        !asked.load(Relaxed) && {
            asked.store(true, Relaxed);
            true
        }
    }

    /// The same for a thread at a waiting join.
    pub(crate) fn ask_as_helper(&self) {
        if !self.helper.load(Relaxed) {
            self.helper.store(true, Relaxed);
        }
        self.ask();
    }

    /// Whether such a thread has asked since the last time.
    pub(crate) fn take_helper(&self) -> bool {
        self.helper.load(Relaxed) && self.helper.swap(false, Relaxed)
    }

    /// The owner's end, for this thread; also when it comes back to that from another P's, and a
    /// frame has waited for a branch meanwhile.
    ///
    /// # Safety
    ///
    /// - The P is this thread's, and no other thread uses its tail meanwhile.
    /// - The branch deque stays where it is while the tail is used.
    pub(crate) unsafe fn attach(&self) -> &Tail {
        self.tail.branch_deque.set(self);
        &self.tail
    }

    /// Takes the oldest branch of a join, or else the oldest job: for a thread that has nothing of
    /// the user's below.
    pub(crate) fn take(this: &Arc<Self>) -> Option<Branch> {
        Self::claim(this, 0).or_else(|| {
            Some(Branch {
                what: What::Job(this.jobs.take_oldest()?),
                branch_deque: this.clone(),
            })
        })
    }

    /// Claims the oldest branch of a join, if its index is `base` or more.
    pub(crate) fn claim(this: &Arc<Self>, base: usize) -> Option<Branch> {
        let job = this.claim_job(base)?;
        Some(Branch {
            what: What::Half(job),
            branch_deque: this.clone(),
        })
    }

    /// Claims a branch that is a descendant of the one with that latch, which is run on this branch
    /// deque's thread with its tail at `base`: see *The waiting join*.
    pub(crate) fn claim_descendant(this: &Arc<Self>, base: usize, latch: &Latch) -> Option<Branch> {
        let branch = Self::claim(this, base)?;
        // If it has ended meanwhile, this one belongs to another frame, and goes back by its drop.
        latch.settled().is_none().then_some(branch)
    }

    fn claim_job(&self, base: usize) -> Option<NonNull<Header>> {
        // Ordering: Relaxed: the compare-and-swap decides.
        let mut now = self.word.0.load(Relaxed);
        loop {
            let word = Word::from(now);
            if word.head < base || word.head >= word.split {
                return None;
            }
            // Ordering: Acquire pairs with the Release of `promote`: the slot, the array and the
            // job are there.
            match self
                .word
                .0
                .compare_exchange_weak(now, now + 1, Acquire, Relaxed)
            {
                Ok(_) => {
                    // Ordering: Acquire pairs with the Release of `grow`, if it is a later array.
                    let slots = self.slots.load(Acquire);
                    // SAFETY: `head` is below `split`, so it lies in this array: it is the one that
                    // was there at the promotion, or a later and larger one that has the same slot.
                    let slot = unsafe { &*slots.add(word.head) };
                    // By *Mine or nothing* no thread writes the slot before the branch has ended.
                    return NonNull::new(slot.load(Relaxed));
                }
                Err(other) => now = other,
            }
        }
    }
}

/// A branch that this thread has claimed. Dropped, it goes back to its owner.
#[derive(Debug)]
#[must_use = "its owner waits for it"]
pub(crate) struct Branch {
    what: What,
    branch_deque: Arc<BranchDeque>,
}

#[derive(Debug)]
enum What {
    /// The second closure of a join.
    Half(NonNull<Header>),
    Job(Job),
}

impl Branch {
    /// Where it was claimed.
    pub(super) fn branch_deque(&self) -> &BranchDeque {
        &self.branch_deque
    }

    /// The computation that a branch of a join is a part of. A job enters that of its scope itself.
    pub(super) fn computation(&self) -> Option<usize> {
        match &self.what {
            // SAFETY: what was claimed was promoted.
            What::Half(job) => Some(unsafe { job.as_ref().computation() }),
            What::Job(_) => None,
        }
    }

    /// Runs it on the P with that index. The tail of that P is at `base`.
    pub(crate) fn run(self, processor: usize, base: usize) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the fields are not used again; `drop` is not called.
        let (what, branch_deque) = unsafe {
            (
                ptr::read(&raw const this.what),
                ptr::read(&raw const this.branch_deque),
            )
        };
        match what {
            // SAFETY: it was claimed in that branch deque, and `self` is the only evidence of it.
            What::Half(job) => unsafe { Header::run(job, processor, base, &branch_deque.parker) },
            What::Job(job) => job.run_stolen(),
        }
    }
}

impl Drop for Branch {
    fn drop(&mut self) {
        match &self.what {
            // SAFETY: it was claimed in that branch deque, and was not run.
            What::Half(job) => unsafe { Header::give_back(*job, &self.branch_deque.parker) },
            What::Job(job) => {
                // Its owner may have seen no job in the lists meanwhile, and sleep. Once it is back
                // the scope may end.
                let owner_deque = job.scope().owner_deque.clone();
                // SAFETY: this is the only use of it: the field is not dropped as a job, and `self`
                // is gone afterwards.
                self.branch_deque.jobs.put_back(unsafe { ptr::read(job) });
                owner_deque.parker.unpark(|| ());
            }
        }
    }
}

/// What a job keeps for its owner: the one that was the newest before it, or null for what is
/// placed; or its index.
///
/// A job's address is even. An index is shifted, and odd.
#[derive(Clone, Copy)]
pub(crate) struct Link(*const Header);

impl Link {
    /// The link of a job that is not pushed yet, or is the oldest that is linked.
    pub(crate) const NONE: Self = Self(ptr::null());

    fn at(index: usize) -> Self {
        Self(ptr::without_provenance(index << 1 | 1))
    }

    #[inline(always)]
    fn is_placed(self) -> bool {
        self.0.addr() & 1 != 0
    }

    pub(crate) fn index(self) -> usize {
        debug_assert!(self.is_placed());
        self.0.addr() >> 1
    }
}

/// The owner's end of a branch deque. A thread that has a P uses that of its P.
///
/// It lies in the branch deque, and a thread knows it by one pointer: so a join loads that pointer,
/// and finds all else at a fixed distance.
pub(crate) struct Tail {
    /// See *Asks*. In a line of its own, since others write it.
    asked: Padded<AtomicBool>,
    /// The newest branch that is linked, or null.
    newest: Cell<*const Header>,
    /// What it lies in, once it was attached.
    branch_deque: Cell<*const BranchDeque>,
    slots: Cell<*const Slot>,
    capacity: Cell<usize>,
    top: Cell<usize>,
    split: Cell<usize>,
}

// SAFETY: only the thread that has the P uses its cells, by the contract of `BranchDeque::attach`;
// others use `asked`, which is atomic. No thread changes `NO_DEQUE`.
unsafe impl Sync for Tail {}
// SAFETY: its pointers are to its own branch deque, to that branch deque's arrays, and to jobs,
// which may be sent.
unsafe impl Send for Tail {}

/// The tail of a thread that has no branch deque: its flag is always up.
#[cfg(not(ws_loom))]
pub(crate) static NO_DEQUE: Tail = Tail::new();

impl Tail {
    const_fn! {
        fn new() -> Self {
            Self {
                asked: Padded(AtomicBool::new(true)),
                newest: Cell::new(ptr::null()),
                branch_deque: Cell::new(ptr::null()),
                slots: Cell::new(ptr::null()),
                capacity: Cell::new(0),
                top: Cell::new(0),
                split: Cell::new(0),
            }
        }
    }

    /// The branch deque that it is attached to.
    pub(crate) fn branch_deque(&self) -> Option<&BranchDeque> {
        // SAFETY: null, or what it lies in, by the contract of `attach`.
        unsafe { self.branch_deque.get().as_ref() }
    }

    fn attached(&self) -> &BranchDeque {
        self.branch_deque()
            .expect("only an attached thread has pushed")
    }

    /// Whether a branch was pushed and not given up.
    pub(crate) fn has_branches(&self) -> bool {
        self.has_linked() || self.top.get() != 0
    }

    /// Whether a branch is not placed.
    pub(crate) fn has_linked(&self) -> bool {
        !self.newest.get().is_null()
    }

    /// The next index. What is linked comes before it.
    pub(crate) fn top(&self) -> usize {
        self.top.get()
    }

    /// Whether no thread asked for work, and there is a branch deque.
    #[inline(always)]
    pub(crate) fn is_undisturbed(&self) -> bool {
        !self.asked.0.load(Relaxed)
    }

    /// Takes note of the threads that asked: the next push is undisturbed again.
    pub(crate) fn heed(&self) {
        // Ordering: Relaxed: an ask that comes now is for the work that is promoted next, or is
        // seen at the next push.
        self.asked.0.store(false, Relaxed);
    }

    /// The next push comes by as if a thread had asked.
    pub(crate) fn ask_again(&self) {
        self.asked.0.store(true, Relaxed);
    }

    /// # Safety
    ///
    /// - This is attached.
    /// - `job` stays where it is until [`pop`](Self::pop) or [`reclaim`](Self::reclaim) says that
    ///   it is this thread's, or [`settle`](Self::settle) is called for its index.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, job: NonNull<Header>) {
        // SAFETY: by contract it is there.
        unsafe { job.as_ref() }.link.set(Link(self.newest.get()));
        self.newest.set(job.as_ptr());
    }

    /// Takes the newest branch back, if it is still private.
    #[inline(always)]
    pub(crate) fn pop(&self, job: &Header) -> bool {
        let link = job.link.get();
        if link.is_placed() {
            self.pop_placed(link.index())
        } else {
            debug_assert!(ptr::eq(self.newest.get(), job), "a branch was left above");
            self.newest.set(link.0);
            true
        }
    }

    /// The same for a branch that was placed.
    ///
    /// `extern "C"`, so that the compiler knows that nothing unwinds out of it: every level of
    /// joins would save a register for what is to be done then. (What unwinds here, a debug
    /// assertion, ends the process either way; in a model only now.)
    #[cold]
    #[inline(never)]
    pub(crate) extern "C" fn pop_placed(&self, index: usize) -> bool {
        self.assert_newest(index);
        let private = index >= self.split.get();
        if private {
            self.top.set(index);
        }
        private
    }

    fn assert_newest(&self, index: usize) {
        debug_assert!(!self.has_linked(), "a branch was left above");
        debug_assert_eq!(self.top.get(), index + 1, "a branch was left above");
    }

    /// The job at an index that was given and not given up.
    ///
    /// # Safety
    ///
    /// - The index is below [`top`](Self::top).
    pub(crate) unsafe fn job_at(&self, index: usize) -> NonNull<Header> {
        // SAFETY: within the array, by contract.
        let slot = unsafe { &*self.slots.get().add(index) };
        NonNull::new(slot.load(Relaxed)).expect("the slot was written with its index")
    }

    /// Gives the job that index.
    ///
    /// # Safety
    ///
    /// - The job is this thread's, and is there.
    /// - The index is free, and below the capacity.
    unsafe fn put(&self, job: NonNull<Header>, index: usize) {
        // SAFETY: by contract.
        let (slot, job_ref) = unsafe { (&*self.slots.get().add(index), job.as_ref()) };
        // Ordering: Relaxed: `promote` publishes it.
        slot.store(job.as_ptr(), Relaxed);
        job_ref.link.set(Link::at(index));
    }

    /// Gives every branch an index, but for those that have to stay linked because there is no
    /// room.
    pub(crate) fn place(&self) {
        let linked = self.linked().count();
        if linked == 0 {
            // Nothing is written here: a thread that has no branch deque, and asks for its `base`,
            // shares its tail with others.
            return;
        }
        let end = self.top.get() + linked;
        if self.capacity.get() < end {
            self.grow(end);
        }
        let placed = end.min(self.capacity.get());
        let mut first_linked = None;
        for (job, index) in self.linked().zip((0..end).rev()) {
            // `linked` has gone on by now, so the link may be written.
            if index < placed {
                // SAFETY: it is linked, so it is private, and its frame waits for it; the index is
                // not below `top`.
                unsafe { self.put(job, index) };
            } else {
                first_linked = Some(job);
            }
        }
        self.top.set(placed);
        match first_linked {
            // SAFETY: as above.
            Some(job) => unsafe { job.as_ref() }.link.set(Link::NONE),
            None => self.newest.set(ptr::null()),
        }
    }

    /// The branches that are linked, the newest first. Their links may be written once they were
    /// passed.
    fn linked(&self) -> impl Iterator<Item = NonNull<Header>> {
        let mut next = self.newest.get();
        iter::from_fn(move || {
            let job = NonNull::new(next.cast_mut())?;
            // SAFETY: it is linked, so its frame waits for it.
            next = unsafe { job.as_ref() }.link.get().0;
            Some(job)
        })
    }

    /// A larger array, with the same slots, and room for so many, if there is one.
    fn grow(&self, wanted: usize) {
        let old = self.capacity.get();
        let new = wanted
            .next_power_of_two()
            .clamp(FIRST_CAPACITY, MAX_CAPACITY);
        if new == old {
            return;
        }
        let array: Vec<Slot> = (0..new)
            .map(|index| {
                let job = if index < old {
                    // SAFETY: within the array that is attached.
                    unsafe { &*self.slots.get().add(index) }.load(Relaxed)
                } else {
                    ptr::null_mut()
                };
                Slot::new(job)
            })
            .collect();
        let branch_deque = self.attached();
        self.slots.set(array.as_ptr());
        self.capacity.set(new);
        // Ordering: Release pairs with the claim. Thieves that are on their way find their slot in
        // the old array too.
        branch_deque.slots.store(array.as_ptr().cast_mut(), Release);
        branch_deque.arrays.lock().push(array);
    }

    /// Lets others see the oldest branches that are private, so many at most. How many: the caller
    /// wakes threads for them.
    pub(crate) fn promote(&self, at_most: usize, computation: usize) -> usize {
        self.place();
        let count = at_most.min(self.top.get() - self.split.get());
        for index in self.split.get()..self.split.get() + count {
            // SAFETY: it is below `top`.
            let job = unsafe { self.job_at(index) };
            // SAFETY: it is private.
            unsafe { Header::open(job, computation) };
        }
        self.split.set(self.split.get() + count);
        // Ordering: Release pairs with the claim: the slots and their jobs are there.
        self.attached()
            .word
            .0
            .fetch_add(count as u64 * SPLIT, Release);
        count
    }

    /// Takes the newest branch back, though it was promoted. False if a thief has it.
    pub(crate) fn reclaim(&self, index: usize) -> bool {
        let word = &self.attached().word.0;
        // Ordering: Relaxed: a branch that was claimed is waited for at its latch.
        let mut now = word.load(Relaxed);
        loop {
            let seen = Word::from(now);
            if seen.head > index {
                return false;
            }
            debug_assert_eq!(seen.split, index + 1, "a newer branch was left");
            // Ordering: Relaxed: of two threads that want it one gets it. A thread that claims an
            // older one after this still sees its promotion, since a read-modify-write does not end
            // a release sequence.
            match word.compare_exchange_weak(now, now - SPLIT, Relaxed, Relaxed) {
                Ok(_) => {
                    self.split.set(index);
                    self.top.set(index);
                    return true;
                }
                Err(other) => now = other,
            }
        }
    }

    /// The newest branch was stolen, and has ended.
    pub(crate) fn settle(&self, index: usize) {
        self.assert_newest(index);
        let empty = Word {
            head: index,
            split: index,
        };
        // Ordering: Relaxed: nothing is shown by it. The shared part is empty by *Mine or nothing*,
        // so no other thread changes the word.
        self.attached().word.0.store(empty.into(), Relaxed);
        self.split.set(index);
        self.top.set(index);
    }
}

impl fmt::Debug for Tail {
    /// Any thread may print a runtime's handle, and so a branch deque: only the owner may read the
    /// cells.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail")
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}
