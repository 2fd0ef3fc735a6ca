//! What a task did so far: numbers that its polls leave in its cell.
//!
//! | number | from |
//! | --- | --- |
//! | polls, wakes, moves to another P | every poll |
//! | busy time, longest poll | every measured poll |
//! | longest time from a wake to the poll | every timed wake |
//!
//! A poll is measured if its worker says so: each one at the recorder's level `full`, a sample of
//! them otherwise (*Measured polls* in `sched/measure.rs`). A measured poll that leaves the task
//! idle has the next wake timed. A thread that wakes a task to trace its poll notes that here, too
//! (`traced.rs`).
//!
//! *Invariant*: one thread at a time writes. It is the one that runs the task, until it settles the
//! poll; or the waker that has moved the task from idle to queued, until it queues it. Each hands
//! the numbers on with the future itself. Any thread reads them, and needs no order between them,
//! but for the two parts of one (`parts.rs`).
//!
//! Two numbers have other writers. The monitor notes a long poll as it sees it
//! ([`Account::lasted`]), and the handle counts its registrations ([`Account::registers`]).
//!
//! The atomics are those of the standard library and not of `sync.rs`: no protocol needs an order
//! between them, and the models would try all orders. (The look for lost tasks compares numbers of
//! two readings, `cell/lost.rs`.)
//!
//! What is measured has a box of its own, made for the first of it, since most tasks are never
//! measured. With all numbers in the cell, which is then larger than what the allocator of glibc
//! keeps at hand, a spawn and a join took 15 % more instructions. Of polls, wakes and moves the
//! cell has the lowest bits, and the box has the rest (`parts.rs`).
#![expect(unsafe_code, reason = "a box that is made once, while others read")]

mod lane;
mod parts;
mod shown;

use std::{
    marker::PhantomData,
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::Duration,
};

pub(crate) use self::lane::{Lane, LaneWord};
pub use self::shown::TaskAccount;
use self::{
    lane::{BITS, TIMED, TRACED},
    parts::{Halves, MOVES, POLLS, WAKES, add, add_one},
};
use super::id::Id;

/// See the module's head. What each poll writes is at the end.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Account {
    measured: AtomicPtr<Measured>,
    owns: PhantomData<Box<Measured>>,
    /// The number less that of the parent; 0: it has none, or they are too far apart. The parent's
    /// may be the greater one, since workers take numbers in blocks.
    parent: i32,
    /// How often its handle has put a joiner into the slot.
    registrations: AtomicU32,
    /// Wakes that are not in the state word any more: the lowest bits.
    wakes: AtomicU8,
    /// The lowest bits.
    moves: AtomicU8,
    /// The P that polled it last, and whether the next wake is timed: see [`Lane`].
    lane: AtomicU16,
    /// The lowest bits.
    polls: AtomicU32,
}

/// What was measured, and the halves of what is counted.
#[derive(Debug, Default)]
struct Measured {
    halves: Halves,
    polls: AtomicU32,
    sum_ns: AtomicU64,
    longest_ns: AtomicU64,
    longest_wait_ns: AtomicU64,
    /// The ticks of a timed wake; 0 if there was none.
    woken_at: AtomicU64,
}

/// What there is to note of a poll, beside that it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// The ticks of the wake before it, if that was timed.
    pub(crate) woken_at: Option<u64>,
    pub(crate) is_traced: bool,
}

/// See [`Account::parent`].
fn distance(id: Id, parent: Id) -> i32 {
    let distance = id.as_u64().wrapping_sub(parent.as_u64()).cast_signed();
    i32::try_from(distance).unwrap_or(0)
}

impl Account {
    #[inline(always)]
    pub(super) fn new(lane: Lane, id: Id, parent: Option<Id>) -> Self {
        Self {
            polls: AtomicU32::new(0),
            lane: AtomicU16::new(lane.plain().0),
            moves: AtomicU8::new(0),
            wakes: AtomicU8::new(0),
            parent: parent.map_or(0, |parent| distance(id, parent)),
            registrations: AtomicU32::new(0),
            measured: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    fn get_measured(&self) -> Option<&Measured> {
        // Ordering: Acquire pairs with the Release in `measured`.
        let measured = NonNull::new(self.measured.load(Acquire))?;
        // SAFETY: `measured` has put a box there, and it stays until the drop.
        Some(unsafe { measured.as_ref() })
    }

    /// What was measured; on a thread that may write.
    fn measured(&self) -> &Measured {
        self.get_measured().unwrap_or_else(|| {
            let made = NonNull::from(Box::leak(Box::<Measured>::default()));
            // Ordering: Release: a thread that finds the box finds it empty. Two threads that make
            // one are the one that runs the task and the monitor.
            let found =
                self.measured
                    .compare_exchange(ptr::null_mut(), made.as_ptr(), Release, Acquire);
            match found.map_err(NonNull::new) {
                Err(Some(theirs)) => {
                    // SAFETY: it was leaked above, and no other thread has seen it.
                    drop(unsafe { Box::from_raw(made.as_ptr()) });
                    // SAFETY: as in `get_measured`.
                    unsafe { theirs.as_ref() }
                }
                // SAFETY: it stays until the drop.
                _ => unsafe { made.as_ref() },
            }
        })
    }

    /// A poll begins, on a P. Returns whether that is all: if not, there is
    /// [`moves_to`](Self::moves_to).
    #[inline(always)]
    pub(crate) fn begins_poll(&self, lane: Lane) -> bool {
        let polls = self.polls.load(Relaxed).wrapping_add(1);
        self.polls.store(polls, Relaxed);
        if POLLS.ends_a_half(polls.into()) {
            self.half_of_polls();
        }
        self.lane.load(Relaxed) == lane.0
    }

    #[cold]
    fn half_of_polls(&self) {
        self.measured().halves.count(|of| add_one(&of.polls));
    }

    /// The poll is on another P than the last one, or its wake was timed, or it is to be looked at
    /// or traced.
    pub(crate) fn moves_to(&self, lane: Lane) -> Moved {
        let lane = lane.plain();
        let before = self.lane.load(Relaxed);
        self.lane.store(lane.0, Relaxed);
        let from = before & !BITS;
        if from != lane.0 && from != Lane::NONE.0 {
            let moves = self.moves.load(Relaxed).wrapping_add(1);
            self.moves.store(moves, Relaxed);
            if MOVES.ends_a_half(moves.into()) {
                self.measured().halves.count(|of| add_one(&of.moves));
            }
        }
        let timed = (before & TIMED != 0).then(|| self.get_measured()).flatten();
        let woken_at = timed.map_or(0, |measured| {
            let woken_at = measured.woken_at.load(Relaxed);
            measured.woken_at.store(0, Relaxed);
            woken_at
        });
        Moved {
            woken_at: (woken_at != 0).then_some(woken_at),
            is_traced: before & TRACED != 0,
        }
    }

    /// The next poll is traced. For a waker that is about to queue the task.
    pub(super) fn trace(&self) {
        self.lane.store(self.lane.load(Relaxed) | TRACED, Relaxed);
    }

    /// A measured poll has ended. The next wake is timed.
    #[cold]
    pub(crate) fn polled(&self, ns: u64) {
        let measured = self.measured();
        let polls = measured.polls.load(Relaxed);
        measured.polls.store(polls.saturating_add(1), Relaxed);
        add(&measured.sum_ns, ns);
        measured.longest_ns.fetch_max(ns, Relaxed);
        self.lane.store(self.lane.load(Relaxed) | TIMED, Relaxed);
    }

    /// A poll was seen to last this long: by the monitor, which sees only long ones.
    pub(crate) fn lasted(&self, ns: u64) {
        self.measured().longest_ns.fetch_max(ns, Relaxed);
    }

    /// Whether a wake that queues the task is to be timed.
    #[inline(always)]
    pub(crate) fn times_wake(&self) -> bool {
        self.lane.load(Relaxed) & TIMED != 0
    }

    /// The task was woken, at so many ticks, and is about to be queued.
    pub(crate) fn woken(&self, ticks: u64) {
        self.measured().woken_at.store(ticks.max(1), Relaxed);
    }

    /// A poll began, this long after a timed wake.
    pub(crate) fn waited(&self, ns: u64) {
        self.measured().longest_wait_ns.fetch_max(ns, Relaxed);
    }

    /// A poll leaves so many wakes settled.
    #[inline(always)]
    pub(super) fn settles(&self, wakes: u64) {
        let before = u64::from(self.wakes.load(Relaxed));
        if before % WAKES.half() + wakes < WAKES.half() {
            self.wakes.store((before + wakes) as u8, Relaxed);
        } else {
            self.settles_halves(wakes);
        }
    }

    #[cold]
    fn settles_halves(&self, mut wakes: u64) {
        let halves = &self.measured().halves;
        while wakes > 0 {
            let before = self.wakes.load(Relaxed);
            let to_go = WAKES.half() - u64::from(before) % WAKES.half();
            let now = before.wrapping_add(to_go.min(wakes) as u8);
            self.wakes.store(now, Relaxed);
            if wakes >= to_go {
                halves.count(|of| add(&of.wakes, 1));
            }
            wakes = wakes.saturating_sub(to_go);
        }
    }

    /// The task that spawned the one of this number.
    pub(crate) fn parent(&self, id: Id) -> Option<Id> {
        (self.parent != 0)
            .then(|| Id::new(id.as_u64().wrapping_add_signed(-i64::from(self.parent))))
    }

    /// Its handle has put a joiner into the slot.
    pub(super) fn registers(&self) {
        let before = self.registrations.load(Relaxed);
        self.registrations.store(before.wrapping_add(1), Relaxed);
    }

    /// How often its handle has put a joiner into the slot.
    pub(crate) fn registrations(&self) -> u32 {
        self.registrations.load(Relaxed)
    }

    /// How often it was polled: the part of the number that is here.
    pub(crate) fn polls(&self) -> u32 {
        self.polls.load(Relaxed)
    }

    /// The numbers as they are. `unsettled` are the wakes that the state word has.
    pub(crate) fn read(&self, unsettled: u64) -> TaskAccount {
        let halves = || self.get_measured().map(|measured| &measured.halves);
        let polls = POLLS.read(
            || halves().map_or(0, |halves| halves.polls.load(Relaxed).into()),
            || self.polls().into(),
        );
        let wakes = WAKES.read(
            || halves().map_or(0, |halves| halves.wakes.load(Relaxed)),
            || self.wakes.load(Relaxed).into(),
        );
        let moves = MOVES.read(
            || halves().map_or(0, |halves| halves.moves.load(Relaxed).into()),
            || self.moves.load(Relaxed).into(),
        );
        let mut account = TaskAccount {
            polls,
            // The one that a new task is born with is its spawn.
            wakes: (wakes + unsettled).saturating_sub(1),
            moves: u32::try_from(moves).unwrap_or(u32::MAX),
            ..TaskAccount::default()
        };
        if let Some(measured) = self.get_measured() {
            let ns = |number: &AtomicU64| Duration::from_nanos(number.load(Relaxed));
            account.measured_polls = measured.polls.load(Relaxed);
            account.measured_busy = ns(&measured.sum_ns);
            account.longest_poll = ns(&measured.longest_ns);
            account.longest_wait = ns(&measured.longest_wait_ns);
        }
        account
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Some(measured) = NonNull::new(*self.measured.get_mut()) {
            // SAFETY: `measured` has leaked it, and no other thread has the account.
            drop(unsafe { Box::from_raw(measured.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A poll on this P. Returns the ticks of the wake before it, if that was timed.
    fn poll(account: &Account, processor: usize) -> Option<u64> {
        let lane = Lane::of(processor);
        let moved = (!account.begins_poll(lane)).then(|| account.moves_to(lane));
        moved.and_then(|moved| moved.woken_at)
    }

    #[test]
    fn a_poll_on_another_p_is_a_move() {
        let account = Account::new(Lane::NONE, Id::new(9), None);
        for (processor, moves) in [(3, 0), (3, 0), (0, 1), (3, 2)] {
            assert_eq!(poll(&account, processor), None);
            assert_eq!(account.read(0).moves, moves);
        }
        assert_eq!(account.read(0).polls, 4);
        let here = Account::new(Lane::of(1), Id::new(9), None);
        assert_eq!((poll(&here, 2), here.read(0).moves), (None, 1));
    }

    #[test]
    fn the_wake_after_a_measured_poll_is_timed_once() {
        let account = Account::new(Lane::of(0), Id::new(9), None);
        poll(&account, 0);
        assert!(!account.times_wake());
        account.polled(700);
        assert!(account.times_wake());
        account.woken(17);
        assert_eq!(poll(&account, 0), Some(17));
        assert!(!account.times_wake());
        assert_eq!(poll(&account, 0), None);
        // It was not woken, but has yielded.
        account.polled(300);
        assert_eq!(poll(&account, 1), None);
        let read = account.read(0);
        assert_eq!((read.moves, read.measured_polls), (1, 2));
        assert_eq!(read.measured_busy, Duration::from_nanos(1000));
        assert_eq!(read.longest_poll, Duration::from_nanos(700));
        assert_eq!(read.busy(), Duration::from_nanos(2000), "four polls");
    }

    #[test]
    fn the_spawn_is_no_wake() {
        let account = Account::new(Lane::NONE, Id::new(9), None);
        assert_eq!(account.read(1).wakes, 0);
        account.settles(1);
        assert_eq!((account.read(0).wakes, account.read(2).wakes), (0, 2));
    }

    #[test]
    fn a_parent_is_known_by_the_distance() {
        let far = 1 << 40;
        let parent_of = |id, parent| {
            let id = Id::new(id);
            Account::new(Lane::NONE, id, Some(Id::new(parent))).parent(id)
        };
        assert_eq!(parent_of(far + 7, far), Some(Id::new(far)));
        assert_eq!(parent_of(far, far + 7), Some(Id::new(far + 7)));
        let most = (1 << 31) - 1;
        assert_eq!(parent_of(far + most, far), Some(Id::new(far)));
        assert_eq!(parent_of(far + most + 1, far), None);
        assert_eq!(
            parent_of(far, far + most + 1),
            Some(Id::new(far + most + 1))
        );
        assert_eq!(parent_of(far, far + most + 2), None);
        assert_eq!(parent_of(1, u64::MAX), Some(Id::new(u64::MAX)), "it wraps");
    }

    #[test]
    fn the_longest_stays() {
        let account = Account::new(Lane::NONE, Id::new(9), None);
        for ns in [200, 900, 300] {
            account.lasted(ns);
            account.waited(ns + 5);
        }
        let read = account.read(0);
        assert_eq!(read.longest_poll, Duration::from_nanos(900));
        assert_eq!(read.longest_wait, Duration::from_nanos(905));
        assert_eq!(
            (read.measured_polls, read.measured_busy),
            (0, Duration::ZERO)
        );
    }

    #[test]
    fn the_numbers_have_two_parts() {
        let account = Account::new(Lane::of(0), Id::new(9), None);
        account.settles(1);
        for n in 1..=1000_u32 {
            poll(&account, n as usize % 2);
            account.settles(n.into());
            let read = account.read(0);
            assert_eq!((read.polls, read.moves), (n.into(), n));
            assert_eq!(read.wakes, u64::from(n) * u64::from(n + 1) / 2);
        }
    }

    /// Fails if a half is missed that ends with one wake more, as most do.
    #[test]
    fn wakes_that_come_one_by_one_are_counted() {
        let account = Account::new(Lane::NONE, Id::new(9), None);
        for wakes in 1..=1000 {
            account.settles(1);
            assert_eq!(account.read(1).wakes, wakes);
        }
    }

    /// Fails if the bit of the P stays in the task's word, or counts as another P.
    #[test]
    fn a_poll_that_is_looked_at_is_no_move() {
        let word = LaneWord::new(Lane::of(2));
        let account = Account::new(word.get(), Id::new(9), None);
        for polls in 1..=3 {
            assert!(!account.begins_poll(word.get()), "it is looked at");
            let _ = account.moves_to(word.get());
            let read = account.read(1);
            assert_eq!((read.polls, read.moves), (polls, 0));
        }
        word.look_at_next(false);
        assert!(account.begins_poll(word.get()));
    }

    /// Fails if the mark of a trace takes away what is noted beside it.
    #[test]
    fn a_trace_leaves_the_last_p_and_the_timed_wake() {
        let account = Account::new(Lane::of(0), Id::new(9), None);
        account.polled(700);
        account.woken(17);
        account.trace();
        let moved = account.moves_to(Lane::of(1));
        assert!(moved.is_traced && moved.woken_at == Some(17));
        assert_eq!(account.read(1).moves, 1);
    }

    #[test]
    fn each_registration_counts() {
        let account = Account::new(Lane::NONE, Id::new(9), None);
        for registrations in 0..3 {
            assert_eq!(account.registrations(), registrations);
            account.registers();
        }
    }

    #[test]
    fn moves_stay_at_the_most_that_they_can_be() {
        let account = Account::new(Lane::of(0), Id::new(9), None);
        account.measured().halves.moves.store(u32::MAX - 1, Relaxed);
        assert_eq!(account.read(1).moves, u32::MAX);
    }

    #[test]
    fn polls_have_more_than_32_bits() {
        let account = Account::new(Lane::of(0), Id::new(9), None);
        for half in 1..=4_u64 {
            // As if as many polls had been.
            account.polls.fetch_add(u32::MAX / 2, Relaxed);
            assert_eq!(account.read(0).polls, (half << 31) - 1);
            poll(&account, 0);
            assert_eq!(account.read(0).polls, half << 31);
        }
    }
}
