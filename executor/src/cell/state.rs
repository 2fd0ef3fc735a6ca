//! The state word of a task: one atomic for all that its wakers, its runner, its handle and its
//! references have to agree on.
//!
//! # Layout
//!
//! ```text
//!  63                    36 35                     8 7    4  3      2      1      0
//! +------------------------+------------------------+------+------+------+------+------+
//! | wakes                  | references             |aborts|WAKER | JOIN |CANCEL| DONE |
//! +------------------------+------------------------+------+------+------+------+------+
//! ```
//!
//! | field | set by | means |
//! | --- | --- | --- |
//! | `DONE` | the runner, once | the output (or the failure) is in the cell; no poll follows |
//! | `CANCEL` | `abort`, shutdown | the worker that gets to run the task drops the future instead |
//! | `JOIN` | spawn; cleared by the handle's drop | a handle will take the output, or drop it |
//! | `WAKER` | the handle | the joiner slot is full and belongs to the runner, which wakes it when done |
//! | aborts | abort handles | how many of them there are, up to 14; 15: there were more once |
//! | references | | live table, handle, abort handles, wakers. The last one frees the cell |
//! | wakes | wakers | how many wakes came since the runner last settled them |
//!
//! # *The wake count*
//!
//! A task is **idle** while `wakes = 0`, and **queued or running** while `wakes > 0`. The thread
//! that moves the count from 0 to 1 must queue the task, and no other may: so it is in one queue at
//! most (I1). The thread that takes it from a queue may poll it, and is alone in that (S1), since
//! the count stays above zero until the runner *settles*. It then subtracts the wakes that it had
//! seen before the poll. If something is left, a wake came in the middle. The runner still owns the
//! task, and queues it once more (I2). So no wake is lost or doubled:
//!
//! - a wake before the runner's look at the count is seen by the poll: the look is an acquire load,
//!   and reads from the wake or from a later modification. Each of these is a read-modify-write and
//!   so carries the wake's release on;
//! - a wake after that look is left over by the subtraction.
//!
//! Against the usual pair of bits (*running*, *notified*) this saves a read-modify-write at the
//! beginning of each poll. For a task that yields it also saves the one at its end: it sees by a
//! plain load that it was woken meanwhile, and goes back to a queue with its count as it is. A
//! runner that knows by itself that the task is to go on (it has forked) does the same without any
//! wake.
//!
//! The count cannot overflow. A waker that finds it beyond [`WAKES_MAX`] leaves it as it is, by a
//! read-modify-write that publishes what the waker wrote. A runner that began its poll with such a
//! count can not tell whether there were wakes meanwhile: it queues the task once more, with a
//! count of one. (Rejected: to add and to take back. The runner may subtract a wake that the waker
//! is about to take back, and the count goes below zero.)
//!
//! # Which thread may touch what
//!
//! | what | `DONE` clear | `DONE` set |
//! | --- | --- | --- |
//! | the future | the thread that took the task from a queue | gone |
//! | the output | | the handle while `JOIN`; else the runner, which drops it |
//! | the joiner slot, `WAKER` clear | the handle | the handle |
//! | the joiner slot, `WAKER` set | no thread | the runner, which takes the waker out |
//!
//! (If the handle put a task's waker there, it keeps that task's address. So a second poll with the
//! same waker need not look into a slot that the runner may be emptying.)
//!
//! # References
//!
//! A queue holds none: a queued task is not done, and until it is done the live table holds one.
//! So a wake that queues costs one read-modify-write; consuming a waker gives its reference back in
//! the same one.
//!
//! # Wakers
//!
//! What is left of the references, when those of the table, the handle and the abort handles are
//! taken off, are wakers ([`Snapshot::wakers`]), and for a moment the look of another thread. All
//! of it is in one word, so there is a moment at which it is true. `cell/lost.rs` builds on that.
//!
//! Checked by `models::task`.

use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// The output is in the cell. Set once by the runner; guards the output.
const DONE: u64 = 1;
/// The future is to be dropped, not polled. Set by `abort` and shutdown, never cleared.
const CANCEL: u64 = 1 << 1;
/// A handle exists. Cleared by its drop; decides which side drops the output.
const JOIN: u64 = 1 << 2;
/// The joiner slot is full. Set and cleared by the handle while not `DONE`; then it is the
/// runner's.
const WAKER: u64 = 1 << 3;

/// One abort handle. 15 of them mean that their number is not known any more.
const ABORT: u64 = 1 << 4;
const ABORTS: u64 = 15 * ABORT;

const REF: u64 = 1 << 8;
const REFS: u64 = ((1 << 28) - 1) << 8;
/// References beyond this are a leak in a loop; the process is stopped before they wrap, as `Arc`
/// does it.
const REFS_MAX: u64 = (1 << 27) << 8;

const WAKE: u64 = 1 << 36;
const WAKES_SHIFT: u32 = 36;
/// Above this a waker does not count any further. Half of the field, so that more threads than a
/// system can have would have to be between their look and their addition to wrap it.
const WAKES_MAX: u64 = 1 << 27;
/// Above this a runner settles although it goes on, so that a task that yields for ever stays far
/// from [`WAKES_MAX`]: a hundredth of it. To settle once in a million polls costs nothing.
const WAKES_HIGH: u64 = 1 << 20;

/// What the state word said at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot(u64);

impl Snapshot {
    pub(crate) fn is_done(self) -> bool {
        self.0 & DONE != 0
    }

    pub(crate) fn is_cancelled(self) -> bool {
        self.0 & CANCEL != 0
    }

    pub(crate) fn has_handle(self) -> bool {
        self.0 & JOIN != 0
    }

    pub(crate) fn has_waker(self) -> bool {
        self.0 & WAKER != 0
    }

    /// Whether it is not queued and not running.
    pub(crate) fn is_idle(self) -> bool {
        self.wakes() == 0
    }

    pub(crate) fn wakes(self) -> u64 {
        self.0 >> WAKES_SHIFT
    }

    pub(crate) fn references(self) -> u64 {
        (self.0 & REFS) / REF
    }

    /// How many abort handles there are; 15 if there were too many once.
    pub(crate) fn aborts(self) -> u64 {
        (self.0 & ABORTS) / ABORT
    }

    /// How many of the references are wakers, if the task is in the live table and `looks` of them
    /// are the caller's. `None` if it is not known, for there were too many abort handles.
    pub(crate) fn wakers(self, looks: u64) -> Option<u64> {
        let others = 1 + u64::from(self.has_handle()) + self.aborts() + looks;
        (self.0 & ABORTS < ABORTS).then(|| self.references().saturating_sub(others))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("done", &self.is_done())
            .field("cancel", &self.is_cancelled())
            .field("join", &self.has_handle())
            .field("waker", &self.has_waker())
            .field("references", &self.references())
            .field("wakes", &self.wakes())
            .finish()
    }
}

/// What a waker has to do after its wake.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Wake {
    /// It moved the task from idle to queued, and must put it into a queue.
    Queue,
    /// Another thread has queued it, or runs it and will look again, or it is done.
    Nothing,
    /// As `Nothing`, and the reference that was given back was the last one.
    Free,
}

/// What a runner does after a poll that was not ready.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Settle {
    /// The task is idle, and no longer the runner's.
    Idle,
    /// A wake came during the poll: the runner queues it again.
    Requeue,
    /// It was cancelled during the poll: the runner drops the future.
    Cancel,
}

/// What a handle finds.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Register {
    /// The waker is in place, and will be woken.
    Registered,
    /// The task is done: the output is the handle's, and so is the joiner slot.
    Done,
}

/// What a dropped handle has to clean up, before it gives its reference back.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Detach {
    /// Nothing is left to the handle, and its reference is given back.
    Nothing,
    /// The joiner slot is the handle's again, and full.
    DropWaker,
    /// The output is the handle's (if it did not take it before).
    DropOutput,
}

/// The word itself. See the module's head.
#[derive(Debug)]
pub(crate) struct State(AtomicU64);

impl State {
    /// A task that is about to be queued for the first time: two references, for the live table
    /// and the handle.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(JOIN | (2 * REF) | WAKE))
    }

    pub(crate) fn load(&self) -> Snapshot {
        // Ordering: Acquire pairs with the runner's `transition_to_done`, so that a thread that
        // sees DONE sees the output; and with every wake, so that a poll sees what its wakers
        // wrote.
        Snapshot(self.0.load(Acquire))
    }

    // --- wakers ---

    /// Counts a wake.
    pub(crate) fn wake_by_ref(&self) -> Wake {
        if self.wakes_are_many() && self.wake_uncounted() {
            return Wake::Nothing;
        }
        // Ordering: Release publishes what the waker wrote to the poll that settles this wake;
        // Acquire takes over from the last runner's `settle` what it left in the future, for the
        // queue to pass on.
        let before = Snapshot(self.0.fetch_add(WAKE, AcqRel));
        if before.is_idle() && !before.is_done() {
            Wake::Queue
        } else {
            Wake::Nothing
        }
    }

    /// Counts a wake and gives a reference back, in one step.
    pub(crate) fn wake_by_value(&self) -> Wake {
        if self.wakes_are_many() {
            // Far from normal life: one step at a time, so that the limit holds.
            let wake = self.wake_by_ref();
            return if wake == Wake::Nothing && self.drop_reference() {
                Wake::Free
            } else {
                wake
            };
        }
        // Ordering: as in `wake_by_ref`; Release also as in `drop_reference`.
        let before = Snapshot(self.0.fetch_add(WAKE.wrapping_sub(REF), AcqRel));
        if before.is_idle() && !before.is_done() {
            Wake::Queue
        } else if before.references() == 1 {
            Wake::Free
        } else {
            Wake::Nothing
        }
    }

    fn wakes_are_many(&self) -> bool {
        Snapshot(self.0.load(Relaxed)).wakes() > WAKES_MAX
    }

    /// A wake beyond [`WAKES_MAX`]. False if the count is not that high any more.
    #[cold]
    fn wake_uncounted(&self) -> bool {
        let mut current = self.0.load(Relaxed);
        while Snapshot(current).wakes() > WAKES_MAX {
            // Ordering: Release, as a wake that counts: the next poll's load reads from this, or
            // from what came after it.
            match self
                .0
                .compare_exchange_weak(current, current, AcqRel, Relaxed)
            {
                Ok(_) => return true,
                Err(now) => current = now,
            }
        }
        false
    }

    /// Asks for the future to be dropped. `Queue`: the task was idle, and the caller must queue it,
    /// so that a worker does it (H3).
    pub(crate) fn transition_to_cancelled(&self) -> Wake {
        let mut current = self.0.load(Relaxed);
        loop {
            let snapshot = Snapshot(current);
            if snapshot.is_done() || snapshot.is_cancelled() {
                return Wake::Nothing;
            }
            // Ordering: as a wake.
            match self
                .0
                .compare_exchange_weak(current, (current | CANCEL) + WAKE, AcqRel, Relaxed)
            {
                Ok(_) if snapshot.is_idle() => return Wake::Queue,
                Ok(_) => return Wake::Nothing,
                Err(now) => current = now,
            }
        }
    }

    // --- the runner ---

    /// Settles a poll that was not ready. `seen` is what [`load`](Self::load) said before it.
    /// `settles` is told how many wakes are about to go out of the count, if any.
    pub(crate) fn settle(&self, seen: Snapshot, settles: impl FnOnce(u64)) -> Settle {
        // Ordering: Relaxed: a caller that is told to go on with the task still owns it, and the
        // next poll begins with its own acquire load.
        let now = Snapshot(self.0.load(Relaxed));
        if now.is_cancelled() {
            return Settle::Cancel;
        }
        if now.wakes() > seen.wakes() && now.wakes() < WAKES_HIGH {
            return Settle::Requeue;
        }
        if seen.wakes() > WAKES_MAX {
            return self.settle_but_one(seen, settles);
        }
        settles(seen.wakes());
        // Ordering: Release publishes the future as this poll left it to the next waker's Acquire.
        // Acquire because a cancel that slipped in is acted upon right here.
        let before = Snapshot(self.0.fetch_sub(seen.wakes() << WAKES_SHIFT, AcqRel));
        match (before.wakes() > seen.wakes(), before.is_cancelled()) {
            (false, _) => Settle::Idle,
            (true, false) => Settle::Requeue,
            (true, true) => Settle::Cancel,
        }
    }

    /// Settles a poll that the runner itself follows by another, as if it had been woken during the
    /// poll: the count stays above zero.
    pub(crate) fn settle_to_go_on(&self, seen: Snapshot, settles: impl FnOnce(u64)) -> Settle {
        // Ordering: Relaxed: as in `settle`.
        let now = Snapshot(self.0.load(Relaxed));
        if now.is_cancelled() {
            Settle::Cancel
        } else if now.wakes() < WAKES_HIGH {
            Settle::Requeue
        } else {
            self.settle_but_one(seen, settles)
        }
    }

    /// Settles all but one of the wakes that were seen, and goes on: where wakes during the poll
    /// may not have counted, or are not needed.
    #[cold]
    fn settle_but_one(&self, seen: Snapshot, settles: impl FnOnce(u64)) -> Settle {
        settles(seen.wakes() - 1);
        // Ordering: as in `settle`.
        let all_but_one = (seen.wakes() - 1) << WAKES_SHIFT;
        if Snapshot(self.0.fetch_sub(all_but_one, AcqRel)).is_cancelled() {
            Settle::Cancel
        } else {
            Settle::Requeue
        }
    }

    /// The output is in the cell. Tells which waker to wake, and which side drops the output.
    pub(crate) fn transition_to_done(&self) -> Snapshot {
        // Ordering: Release publishes the output to the handle's Acquire loads; Acquire takes over
        // the joiner slot from the handle's `register`.
        let before = Snapshot(self.0.fetch_or(DONE, AcqRel));
        debug_assert!(!before.is_done(), "a task ended twice");
        debug_assert!(!before.is_idle(), "a task ended that nobody ran");
        before
    }

    // --- the handle ---

    /// The handle has put a waker into the empty slot that it owned.
    pub(crate) fn register(&self) -> Register {
        let mut current = self.0.load(Acquire);
        loop {
            if Snapshot(current).is_done() {
                return Register::Done;
            }
            // Ordering: Release hands the slot to the runner's `transition_to_done`. Acquire on
            // both ways, since DONE makes the output the handle's.
            match self
                .0
                .compare_exchange_weak(current, current | WAKER, AcqRel, Acquire)
            {
                Ok(_) => return Register::Registered,
                Err(now) => current = now,
            }
        }
    }

    /// The handle wants the slot back, to put another waker into it.
    pub(crate) fn unregister(&self) -> Register {
        let mut current = self.0.load(Acquire);
        loop {
            if Snapshot(current).is_done() {
                return Register::Done;
            }
            // Ordering: as in `register`.
            match self
                .0
                .compare_exchange_weak(current, current & !WAKER, AcqRel, Acquire)
            {
                Ok(_) => return Register::Registered,
                Err(now) => current = now,
            }
        }
    }

    /// The handle goes away. With `Detach::Nothing` its reference is given back in the same step.
    pub(crate) fn detach(&self) -> Detach {
        let mut current = self.0.load(Acquire);
        loop {
            let snapshot = Snapshot(current);
            let (next, todo) = if snapshot.is_done() {
                (current, Detach::DropOutput)
            } else if snapshot.has_waker() {
                (current & !(JOIN | WAKER), Detach::DropWaker)
            } else {
                ((current & !JOIN) - REF, Detach::Nothing)
            };
            if next == current {
                return todo;
            }
            // Ordering: Release hands the output to the runner, and is a reference's drop; Acquire
            // takes the slot or the output over.
            match self.0.compare_exchange_weak(current, next, AcqRel, Acquire) {
                // Not done: the live table's reference is still there, so ours was not the last.
                Ok(_) => return todo,
                Err(now) => current = now,
            }
        }
    }

    // --- references ---

    pub(crate) fn add_reference(&self) {
        // Ordering: Relaxed: a new reference is made from one that exists.
        let before = self.0.fetch_add(REF, Relaxed);
        if before & REFS > REFS_MAX {
            std::process::abort();
        }
    }

    /// A reference is that of an abort handle from now on.
    pub(crate) fn begin_abort_reference(&self) {
        // Ordering: Relaxed: it only says what the reference is for.
        let _ = self.0.fetch_update(Relaxed, Relaxed, |word| {
            (word & ABORTS < ABORTS).then_some(word + ABORT)
        });
    }

    /// The same reference is that of no abort handle any more, and is given back after this.
    pub(crate) fn end_abort_reference(&self) {
        // Ordering: Relaxed: as above.
        let _ = self.0.fetch_update(Relaxed, Relaxed, |word| {
            (word & ABORTS < ABORTS).then_some(word - ABORT)
        });
    }

    /// Gives a reference back. Whether it was the last, and the cell is to be freed.
    #[must_use]
    pub(crate) fn drop_reference(&self) -> bool {
        // Ordering: Acquire: the free comes after what all owners did. References are made from
        // references, and each owner sees its own counted; or from the runner's waker, which has
        // none. But while there is a runner the live table's is counted as well. So an owner that
        // sees one sees the last, and no thread makes another.
        if Snapshot(self.0.load(Acquire)).references() == 1 {
            return true;
        }
        // Ordering: Release: what this owner did comes before the free. Acquire (for the last one):
        // the free comes after what all owners did.
        let before = Snapshot(self.0.fetch_sub(REF, AcqRel));
        debug_assert!(before.references() > 0, "a reference was given back twice");
        before.references() == 1
    }
}

#[cfg(test)]
mod tests;
