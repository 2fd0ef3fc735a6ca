//! The deque of sync branches: one array, whose newest part is its owner's alone.
//!
//! A `join` pushes its second branch here, runs the first, and mostly finds the second where it put it.
//! So the common case must cost next to nothing: no fence, no read-modify-write, no word that another
//! thread writes. This is the split deque of Lace (van Dijk and van de Pol, *Lace: non-blocking split
//! deque for work-stealing*, 2014), with thieves who claim before they read.
//!
//! ```text
//! index    0 ........ head ........ split ........ top
//!          | stolen   | shared      | private      |
//!                       thieves       the owner pushes
//!                       take here     and pops here
//! ```
//!
//! - `top` and `split` are the owner's: two plain cells of the [`Tail`].
//! - `head` and a copy of `split` are one atomic word of the [`Lane`], which is what others see.
//! - The owner *promotes* branches by adding to `split` in the word: the oldest first, since they are
//!   the largest. It does so only when somebody is hungry, or was (*After a steal* in `owner.rs`).
//! - A thief claims the branch at `head` by a compare-and-swap that moves `head` on.
//! - The owner *reclaims* a promoted branch by a compare-and-swap that moves `split` back.
//!
//! # Hunger
//!
//! `limit` is what `top` is compared with at each push: the capacity, or 0 when somebody asked for work.
//! So one comparison finds out about a full array and about hungry thieves, as a goroutine's stack
//! check does for its preemption. A thief that finds nothing stores 0. A thread without a P uses a tail
//! whose limit is always 0.
//!
//! # *Mine or nothing*
//!
//! *Invariant*: every index below `top` belongs to one frame of the owner's stack that waits for it, in
//! the order of the frames; and a frame gives its index up only when its branch has ended, or was
//! reclaimed.
//!
//! - Claims go from the oldest on. So if a frame finds its branch claimed, all older ones are claimed
//!   as well, and the shared part is empty. A worker that pops at its own tail finds its own branch, or
//!   nothing: never that of an older frame (J2).
//! - A slot is written when its index is pushed, and not again before that branch has ended. So a
//!   thief may read the slot *after* its claim, however late it comes to that, and no value of the word
//!   that comes back (ABA) does harm: what is at `head` is what it claims.
//! - The array may grow while thieves are on their way: the old one is kept, and a claimed slot is the
//!   same in both.
//!
//! # *Two Ps on one stack*
//!
//! A thread that clears away for a runtime whose last thread was refused takes a P for that, and drops futures as
//! its worker; and it may be deep in a join of another P when that happens. The joins of those destructors use
//! the second P's tail, whose indices begin at 0; the frames below keep theirs, in the first P's lane, and use that
//! tail again when the thread is back.
//!
//! # Rejected
//!
//! `crossbeam-deque` for every branch: push and pop cost 12 ns together, five times what a join may.
//! A linked list of the frames (chili, spice): no capacity to watch, but finding the oldest is a walk or
//! one more store per join, and promotion needs a second container.
//!
//! Checked by `models::fork_join`.
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    mem::ManuallyDrop,
    ptr::{self, NonNull},
};

use super::{job::Header, latch::Latch};
use crate::{
    queue::Padded,
    sched::park::Parker,
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicBool, AtomicPtr, AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// Slots of the first array. It doubles when it is full; guessed: a balanced recursion is less deep.
const FIRST_CAPACITY: usize = if cfg!(ws_loom) { 1 } else { 128 };
/// Indices are halves of a word. A join deeper than this is a plain call. (Tests come to the end sooner.)
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
pub(crate) struct Lane {
    word: Padded<AtomicU64>,
    /// The owner's end, of which others touch the limit alone.
    tail: Tail,
    /// A thread at a stalled join looks here for a branch: it is hungry, although it does not search and its
    /// permit is not free.
    helper: AtomicBool,
    /// The first slot of the newest array.
    slots: AtomicPtr<Slot>,
    /// All arrays that there were; they stay until the end.
    arrays: Mutex<Vec<Vec<Slot>>>,
    /// Where its thread sleeps when it waits for a branch.
    pub(crate) bed: Parker,
}

impl Lane {
    pub(crate) fn new() -> Self {
        Self {
            word: Padded(AtomicU64::new(0)),
            tail: Tail::new(),
            helper: AtomicBool::new(false),
            slots: AtomicPtr::new(ptr::null_mut()),
            arrays: Mutex::new(Vec::new()),
            bed: Parker::new(),
        }
    }

    /// Whether there is a branch to take.
    pub(crate) fn has_shared(&self) -> bool {
        let word = Word::from(self.word.0.load(Relaxed));
        word.head < word.split
    }

    /// Asks the owner for work. False if that was done before, and it has not come by since.
    pub(crate) fn ask(&self) -> bool {
        let limit = &self.tail.limit.0;
        limit.load(Relaxed) != 0 && {
            limit.store(0, Relaxed);
            true
        }
    }

    /// The same for a thread at a stalled join.
    #[cfg(not(ws_loom))]
    pub(crate) fn ask_as_helper(&self) {
        if !self.helper.load(Relaxed) {
            self.helper.store(true, Relaxed);
        }
        self.ask();
    }

    /// Whether such a thread has asked since the last time.
    #[cfg(not(ws_loom))]
    pub(crate) fn take_helper(&self) -> bool {
        self.helper.load(Relaxed) && self.helper.swap(false, Relaxed)
    }

    /// The owner's end, for this thread; also when it comes back to that from another P's, and a frame has
    /// waited for a branch meanwhile.
    ///
    /// # Safety
    ///
    /// - The P is this thread's, and no other thread uses its tail meanwhile.
    /// - The lane stays where it is while the tail is used.
    pub(crate) unsafe fn attach(&self) -> &Tail {
        self.tail.lane.set(self);
        &self.tail
    }

    /// Claims the oldest branch, if its index is `base` or more.
    pub(crate) fn claim(this: &Arc<Self>, base: usize) -> Option<Branch> {
        let job = this.claim_job(base)?;
        Some(Branch {
            job,
            lane: this.clone(),
        })
    }

    /// Claims a branch that is a descendant of the one with that latch, which is run on this lane's thread
    /// with its tail at `base`: see *The stalled join*.
    pub(crate) fn claim_descendant(this: &Arc<Self>, base: usize, latch: &Latch) -> Option<Branch> {
        let branch = Self::claim(this, base)?;
        // If it has ended meanwhile, this one is somebody else's, and goes back by its drop.
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
            // Ordering: Acquire pairs with the Release of `promote`: the slot, the array and the job
            // are there.
            match self
                .word
                .0
                .compare_exchange_weak(now, now + 1, Acquire, Relaxed)
            {
                Ok(_) => {
                    // Ordering: Acquire pairs with the Release of `grow`, if it is a later array.
                    let slots = self.slots.load(Acquire);
                    // SAFETY: `head` is below `split`, so it lies in this array: it is the one that was
                    // there at the promotion, or a later and larger one that has the same slot.
                    let slot = unsafe { &*slots.add(word.head) };
                    // By *Mine or nothing* nobody writes the slot before the branch has ended.
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
    job: NonNull<Header>,
    lane: Arc<Lane>,
}

impl Branch {
    /// Runs it on the P with that index, whose tail is at `base`.
    pub(crate) fn run(self, processor: usize, base: usize) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the fields are not used again; `drop` is not called.
        let lane = unsafe { ptr::read(&raw const this.lane) };
        // SAFETY: it was claimed in that lane, and `self` is the only evidence of it.
        let run = || unsafe { Header::run(this.job, processor, base, &lane.bed) };
        #[cfg(not(ws_loom))]
        super::owner::stole_from(&lane);
        #[cfg(not(ws_loom))]
        // SAFETY: what was claimed was promoted.
        super::compute::within(unsafe { this.job.as_ref().computation() }, run);
        #[cfg(ws_loom)]
        run();
    }
}

impl Drop for Branch {
    fn drop(&mut self) {
        // SAFETY: it was claimed in that lane, and was not run.
        unsafe { Header::give_back(self.job, &self.lane.bed) };
    }
}

/// The owner's end of a lane. A thread that has a P uses that of its P.
///
/// It lies in the lane, and a thread knows it by one pointer: so a join loads that pointer, and finds all
/// else at a fixed distance.
#[derive(Debug)]
pub(crate) struct Tail {
    /// See *Hunger*. In a line of its own, since others write it.
    limit: Padded<AtomicUsize>,
    /// What it lies in, once it was attached.
    lane: Cell<*const Lane>,
    slots: Cell<*const Slot>,
    capacity: Cell<usize>,
    top: Cell<usize>,
    split: Cell<usize>,
}

// SAFETY: its cells are used by the thread that has the P alone, by the contract of `Lane::attach`; others use
// `limit`, which is atomic. Nobody changes the tail of who has no lane.
unsafe impl Sync for Tail {}
// SAFETY: its pointers are to its own lane and to that lane's arrays.
unsafe impl Send for Tail {}

/// The tail of who has no lane: its limit is always 0.
#[cfg(not(ws_loom))]
pub(super) static NO_LANE: Tail = Tail::new();

impl Tail {
    #[cfg(not(ws_loom))]
    const fn new() -> Self {
        Self {
            limit: Padded(AtomicUsize::new(0)),
            lane: Cell::new(ptr::null()),
            slots: Cell::new(ptr::null()),
            capacity: Cell::new(0),
            top: Cell::new(0),
            split: Cell::new(0),
        }
    }

    #[cfg(ws_loom)]
    fn new() -> Self {
        Self {
            limit: Padded(AtomicUsize::new(0)),
            lane: Cell::new(ptr::null()),
            slots: Cell::new(ptr::null()),
            capacity: Cell::new(0),
            top: Cell::new(0),
            split: Cell::new(0),
        }
    }

    /// The lane that it is attached to.
    pub(crate) fn lane(&self) -> Option<&Lane> {
        // SAFETY: null, or what it lies in, by the contract of `attach`.
        unsafe { self.lane.get().as_ref() }
    }

    fn attached(&self) -> &Lane {
        self.lane().expect("only who is attached has pushed")
    }

    /// The next index.
    #[inline(always)]
    pub(crate) fn top(&self) -> usize {
        self.top.get()
    }

    /// Whether a push may go on at once: there is room, and nobody asked for work.
    #[inline(always)]
    pub(crate) fn is_undisturbed(&self) -> bool {
        self.top.get() < self.limit.0.load(Relaxed)
    }

    /// # Safety
    ///
    /// - There is room: [`is_undisturbed`](Self::is_undisturbed) or [`make_room`](Self::make_room) said
    ///   so, and nothing was pushed since.
    /// - `job` stays where it is until [`pop`](Self::pop) or [`reclaim`](Self::reclaim) of its index is
    ///   true, or [`settle`](Self::settle) is called for it.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, job: NonNull<Header>) {
        let top = self.top.get();
        // SAFETY: there is room, by contract.
        let slot = unsafe { &*self.slots.get().add(top) };
        // Ordering: Relaxed: `promote` publishes it.
        slot.store(job.as_ptr(), Relaxed);
        self.top.set(top + 1);
    }

    /// Takes the newest branch back, if it is still private.
    #[inline(always)]
    pub(crate) fn pop(&self, index: usize) -> bool {
        debug_assert_eq!(self.top.get(), index + 1, "a branch was left above");
        let private = index >= self.split.get();
        if private {
            self.top.set(index);
        }
        private
    }

    /// The job at an index that was pushed and not given up.
    ///
    /// # Safety
    ///
    /// - The index was pushed, and is below the capacity.
    #[cfg(not(ws_loom))]
    pub(crate) unsafe fn job_at(&self, index: usize) -> NonNull<Header> {
        // SAFETY: by contract.
        let slot = unsafe { &*self.slots.get().add(index) };
        NonNull::new(slot.load(Relaxed)).expect("it was pushed")
    }

    /// All branches from `base` on were stolen, and have ended.
    #[cfg(not(ws_loom))]
    pub(crate) fn settle_all(&self, base: usize) {
        if self.top.get() > base {
            self.top.set(base + 1);
            self.settle(base);
        }
    }

    /// How many branches nobody else can see.
    pub(crate) fn private(&self) -> usize {
        self.top.get() - self.split.get()
    }

    /// Sees to room for one more, and takes note of those who asked. False if there cannot be any.
    pub(crate) fn make_room(&self) -> bool {
        if self.top.get() >= self.capacity.get() && !self.grow() {
            return false;
        }
        // Ordering: Relaxed: an ask that comes now is for the work that is promoted next, or is seen
        // at the next push.
        self.limit.0.store(self.capacity.get(), Relaxed);
        true
    }

    /// The next push comes by as if somebody had asked.
    #[cfg(not(ws_loom))]
    pub(crate) fn ask_again(&self) {
        self.limit.0.store(0, Relaxed);
    }

    /// A larger array, with the same slots.
    fn grow(&self) -> bool {
        let old = self.capacity.get();
        let new = (old * 2).max(FIRST_CAPACITY);
        if new > MAX_CAPACITY {
            return false;
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
        let lane = self.attached();
        self.slots.set(array.as_ptr());
        self.capacity.set(new);
        // Ordering: Release pairs with the claim. Thieves that are on their way find their slot in the
        // old array too.
        lane.slots.store(array.as_ptr().cast_mut(), Release);
        lane.arrays.lock().push(array);
        true
    }

    /// Lets others see the `count` oldest branches that are private. The caller wakes somebody then.
    pub(crate) fn promote(&self, count: usize, computation: usize) {
        debug_assert!(count <= self.private());
        for index in self.split.get()..self.split.get() + count {
            // SAFETY: within the array that is attached.
            let job = unsafe { &*self.slots.get().add(index) }.load(Relaxed);
            let job = NonNull::new(job).expect("the slot was written when its index was pushed");
            // SAFETY: it is below `top` and private.
            unsafe { Header::open(job, computation) };
        }
        self.split.set(self.split.get() + count);
        // Ordering: Release pairs with the claim: the slots and their jobs are there.
        self.attached()
            .word
            .0
            .fetch_add(count as u64 * SPLIT, Release);
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
            // Ordering: Relaxed: of two who want it one gets it. Who claims an older one after this still
            // sees its promotion, since a read-modify-write does not end a release sequence.
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
        debug_assert_eq!(self.top.get(), index + 1, "a branch was left above");
        let empty = Word {
            head: index,
            split: index,
        };
        // Ordering: Relaxed: nothing is shown by it. The shared part is empty by *Mine or nothing*, so
        // nobody else changes the word.
        self.attached().word.0.store(empty.into(), Relaxed);
        self.split.set(index);
        self.top.set(index);
    }
}
