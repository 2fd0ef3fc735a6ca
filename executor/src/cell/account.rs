//! What a task did so far: numbers that its polls leave in its cell.
//!
//! | number | from |
//! | --- | --- |
//! | polls, wakes, moves to another P, the time of the last poll that left it idle | every poll |
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
//! the numbers on with the future itself. Any thread reads them, and needs no order between them.
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
//! keeps at hand, a spawn and a join took 15 % more instructions.
#![expect(unsafe_code, reason = "a box that is made once, while others read")]

use std::{
    marker::PhantomData,
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::Duration,
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
    /// Wakes that are not in the state word any more, above the moves: [`MOVES`].
    wakes_and_moves: AtomicU64,
    /// When its last poll began that left it idle, in milliseconds of the runtime's clock.
    idle_ms: AtomicU32,
    /// The P that polled it last, and whether the next wake is timed: see [`Lane`].
    lane: AtomicU32,
    polls: AtomicU64,
}

/// What was measured.
#[derive(Debug, Default)]
struct Measured {
    polls: AtomicU32,
    sum_ns: AtomicU64,
    longest_ns: AtomicU64,
    longest_wait_ns: AtomicU64,
    /// The ticks of a timed wake; 0 if there was none.
    woken_at: AtomicU64,
}

/// The bits of the moves, which stay at the most that they can be.
const MOVES: u64 = (1 << 24) - 1;
const WAKE: u64 = MOVES + 1;

/// A P as an account notes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane(u32);

/// In the word of a lane: the next wake is timed. A poll sees it by the comparison that it makes
/// anyway.
const TIMED: u32 = 1 << 31;
/// The same: the next poll is traced.
const TRACED: u32 = 1 << 30;
/// In the word of a P, and never in that of a task: the next poll is looked at (`measure.rs`). So
/// the same comparison sees this, too.
const LOOKED_AT: u32 = 1 << 29;
const BITS: u32 = TIMED | TRACED | LOOKED_AT;

/// The lane of a P, as its polls compare it. Other threads may set [`LOOKED_AT`].
#[derive(Debug)]
pub(crate) struct LaneWord(AtomicU32);

/// What there is to note of a poll, beside that it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// The ticks of the wake before it, if that was timed.
    pub(crate) woken_at: Option<u64>,
    pub(crate) is_traced: bool,
}

impl Lane {
    /// Polled nowhere yet, or by a thread that is no P's.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn of(processor: usize) -> Self {
        Self((processor as u32 + 1) & !BITS)
    }

    /// Whether the poll that compares it is looked at.
    pub(crate) fn is_looked_at(self) -> bool {
        self.0 & LOOKED_AT != 0
    }

    fn plain(self) -> Self {
        Self(self.0 & !LOOKED_AT)
    }
}

impl LaneWord {
    /// The first poll is looked at.
    pub(crate) fn new(lane: Lane) -> Self {
        Self(AtomicU32::new(lane.0 | LOOKED_AT))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Lane {
        Lane(self.0.load(Relaxed))
    }

    /// The next poll is looked at, or is not. A P's thread writes it, and threads that have a look
    /// at each of the polls; in `measure.rs` is why no look of theirs is lost.
    pub(crate) fn look_at_next(&self, is_looked_at: bool) {
        let lane = self.get().plain().0;
        let bit = if is_looked_at { LOOKED_AT } else { 0 };
        self.0.store(lane | bit, Relaxed);
    }
}

/// Adds; on the one thread that writes.
#[inline(always)]
fn add(number: &AtomicU64, n: u64) {
    number.store(number.load(Relaxed) + n, Relaxed);
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
            polls: AtomicU64::new(0),
            wakes_and_moves: AtomicU64::new(0),
            lane: AtomicU32::new(lane.plain().0),
            idle_ms: AtomicU32::new(0),
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
        add(&self.polls, 1);
        self.lane.load(Relaxed) == lane.0
    }

    /// The poll is on another P than the last one, or its wake was timed, or it is to be looked at
    /// or traced.
    pub(crate) fn moves_to(&self, lane: Lane) -> Moved {
        let lane = lane.plain();
        let before = self.lane.load(Relaxed);
        self.lane.store(lane.0, Relaxed);
        let from = before & !BITS;
        if from != lane.0 && from != Lane::NONE.0 {
            let moves = self.wakes_and_moves.load(Relaxed) & MOVES;
            add(&self.wakes_and_moves, u64::from(moves < MOVES));
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

    /// A poll that began at `now_ms` leaves so many wakes settled, and the task mostly idle.
    #[inline(always)]
    pub(super) fn settles(&self, wakes: u64, now_ms: u32) {
        add(&self.wakes_and_moves, wakes * WAKE);
        self.idle_ms.store(now_ms, Relaxed);
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

    /// How often it was polled.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Relaxed)
    }

    /// When the last poll began that left it idle.
    pub(crate) fn idle_ms(&self) -> u32 {
        self.idle_ms.load(Relaxed)
    }

    /// The numbers as they are. `unsettled` are the wakes that the state word has.
    pub(crate) fn read(&self, unsettled: u64) -> TaskAccount {
        let wakes_and_moves = self.wakes_and_moves.load(Relaxed);
        let mut account = TaskAccount {
            polls: self.polls.load(Relaxed),
            // The one that a new task is born with is its spawn.
            wakes: (wakes_and_moves / WAKE + unsettled).saturating_sub(1),
            moves: (wakes_and_moves & MOVES) as u32,
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

/// What a task did so far. See [`TaskDump`](crate::runtime::TaskDump).
///
/// At the recorder's level [`Full`](crate::trace::Level::Full) each poll is measured, otherwise
/// about one in 128, and `measured_polls` says how many that were. At level
/// [`Off`](crate::trace::Level::Off) none is.
///
/// ```
/// use ws::task::yield_now;
///
/// # let runtime = ws::runtime::Builder::new().workers(1).build().unwrap();
/// let task = runtime.spawn(async {
///     yield_now().await;
///     std::future::pending::<()>().await
/// });
/// runtime.block_on(async { yield_now().await });
/// # while runtime.handle().dump()[0].account.polls < 2 { std::thread::yield_now(); }
/// let account = runtime.handle().dump()[0].account;
/// assert_eq!((account.polls, account.wakes), (2, 1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskAccount {
    /// Polls, the one that runs included.
    pub polls: u64,
    /// Wakes. A wake of a task that is queued already counts, too.
    pub wakes: u64,
    /// How often a poll was on another P than the poll before it, or than the spawn; up to
    /// 16,777,215.
    pub moves: u32,
    /// Since when it is idle: how long ago its last poll ended, to about 10 ms. Without the monitor
    /// ([`Builder::sysmon`](crate::runtime::Builder::sysmon)) the time of that poll may be
    /// included. `None` if it is not idle.
    pub idle_for: Option<Duration>,
    /// How many of the polls were measured.
    pub measured_polls: u32,
    /// How long these took together.
    pub measured_busy: Duration,
    /// The longest poll: of those that were measured, and of those that the monitor sees. It sees
    /// one that lasts longer than the time from one of its looks to the next, 1 to 10 ms, and
    /// mostly sees it shorter than it is by up to that time. An announced block
    /// ([`block_in_place`](crate::block_in_place())) is no part of a poll that was measured. If the
    /// monitor looks meanwhile, it sees two polls, before the block and after it.
    pub longest_poll: Duration,
    /// The longest time from a wake to the poll that followed, of those that were timed: the next
    /// wake after a measured poll is.
    pub longest_wait: Duration,
}

impl TaskAccount {
    /// How long it was polled altogether. If not all polls were measured, it is an estimate, which
    /// may be far off: as if the others had taken as long as those. Zero if none was measured.
    pub fn busy(&self) -> Duration {
        let measured = u128::from(self.measured_polls.max(1));
        let ns = self.measured_busy.as_nanos() * u128::from(self.polls) / measured;
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// ```
/// let account = ws::runtime::TaskAccount::default();
/// assert_eq!(account.to_string(), "0 polls, 0 wakes, 0 moves");
/// ```
impl std::fmt::Display for TaskAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} polls, {} wakes, {} moves",
            self.polls, self.wakes, self.moves
        )?;
        if let Some(idle_for) = self.idle_for {
            write!(f, ", idle for {idle_for:?}")?;
        }
        if self.measured_polls > 0 {
            write!(
                f,
                ", busy {:?} ({} polls measured), longest wait {:?}",
                self.busy(),
                self.measured_polls,
                self.longest_wait
            )?;
        }
        if self.longest_poll > Duration::ZERO {
            write!(f, ", longest poll {:?}", self.longest_poll)?;
        }
        Ok(())
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
        account.settles(1, 5);
        assert_eq!((account.read(0).wakes, account.read(2).wakes), (0, 2));
        assert_eq!(account.idle_ms(), 5);
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
    fn moves_stay_at_the_most_that_they_can_be() {
        let account = Account::new(Lane::of(0), Id::new(9), None);
        account.settles(3, 0);
        account.wakes_and_moves.store(3 * WAKE + MOVES - 1, Relaxed);
        for processor in [1, 2, 3] {
            poll(&account, processor);
        }
        let read = account.read(1);
        assert_eq!((u64::from(read.moves), read.wakes), (MOVES, 3));
    }

    #[test]
    fn it_says_what_it_knows() {
        let ms = Duration::from_millis;
        let mut account = TaskAccount {
            polls: 10,
            wakes: 9,
            moves: 3,
            ..TaskAccount::default()
        };
        assert_eq!(account.to_string(), "10 polls, 9 wakes, 3 moves");
        account.idle_for = Some(ms(70));
        account.longest_poll = ms(6);
        let long = "10 polls, 9 wakes, 3 moves, idle for 70ms, longest poll 6ms";
        assert_eq!(account.to_string(), long);
        account.measured_polls = 2;
        account.measured_busy = ms(4);
        account.longest_wait = ms(5);
        let all = "10 polls, 9 wakes, 3 moves, idle for 70ms, busy 20ms (2 polls measured), \
                   longest wait 5ms, longest poll 6ms";
        assert_eq!(account.to_string(), all);
    }
}
