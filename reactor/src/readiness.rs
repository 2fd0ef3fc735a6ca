//! What is known of a source: one atomic word, its snapshots and its transitions.
//!
//! # The word
//!
//! ```text
//!  63                11   10    9     8     7     6     5     4     3     2     1     0
//! +-------------------+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+
//! |       tick        | PRIO| W_UN| R_UN| SHUT|DEREG| W_ER| R_ER| W_CL| R_CL| W_RD| R_RD|
//! +-------------------+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+
//! ```
//!
//! A ready bit says "perhaps": an operation in that direction is worth trying. An event sets it,
//! and a caller that tried and was told `EAGAIN` clears it. epoll is asked for edges, so it speaks
//! once: a bit that is cleared wrongly is a task that sleeps for ever; a bit that is set wrongly
//! costs one system call. Every rule below leans to that side.
//!
//! The two *unknown* bits are those of a source that was registered just now. An operation is worth
//! trying then, but no event has said that the direction is ready. They go with the first
//! operation: if it finds nothing, as a ready bit does, and otherwise a ready bit takes their
//! place, since what one call has found the next may find as well. An event says more than they do.
//!
//! An error waits at a source for whichever direction comes first, and the other one may have a
//! task that waits, too. So each has an error bit, and the direction that collects the error does
//! not hide it from the other.
//!
//! The word holds nothing of a direction that the interest leaves out. The kernel reports the end
//! of every source, whatever it was asked for; see [`Report::within`].
//!
//! # The invariant: no edge is erased
//!
//! *If the kernel has reported an event that no operation has seen, its ready bit is set.*
//!
//! The danger is a clear that comes late: a task reads until `EAGAIN`, then data arrives and the
//! poller sets the bit, then the task clears it. So every event adds one to the tick, an operation
//! takes its snapshot *before* it asks the kernel, and a clear does nothing unless the tick is
//! still that of the snapshot. If the tick is the same, no event was noted since before the
//! operation, so what the operation saw is the newest there is; what arrived after it is an event
//! still to be noted. With 53 bits the tick does not wrap in a lifetime.
//!
//! One tick serves both directions. An event between a snapshot for reading and its clear may have
//! been about writing only. Then the clear is skipped for nothing, and costs one more `EAGAIN`. It
//! did not seem worth a second counter.
//!
//! # Closed
//!
//! End of file, hang-up and errors are edges as well, and after the last of them nothing ever
//! comes. So [`Why::Asked`] and [`Why::Short`] leave the closed bits alone, and a closed direction
//! stays ready. Two reasons clear them:
//!
//! - [`Why::KernelWouldBlock`]: a direction that is closed answers end of file or an error, so if
//!   the kernel says `EAGAIN` the bit is out of date (a FIFO or pseudo-terminal whose other side
//!   was opened again; a stream that was registered before it was connected, which epoll first
//!   reports as hung up; an ICMP error that the last operation has collected).
//! - [`Why::Reported`]: the kernel was made to say once more what holds. If the direction is closed
//!   still, that is an event of its own, which comes after.
//!
//! Datagram sockets are the exception: a nonblocking read behind `SHUT_RD` says `EAGAIN` for ever,
//! where a blocking one brings no bytes. So their reads ask before they try whether the direction
//! is closed ([`Registration::is_closed`](crate::Registration::is_closed)), and take `EAGAIN` for
//! that end.
//!
//! The kernel does not report every end either: `SHUT_WR` on a Unix socket without room makes no
//! event, although the next write fails at once. So a caller that ends a direction notes that
//! itself, as an event ([`Registration::note_end`](crate::Registration::note_end)). If the *peer*
//! of a Unix stream ends its receiving side and keeps the socket, this cannot be seen: a task that
//! waits for room waits until it closes.
//!
//! Keeping the bits would make a loop of "wait, try" spin:
//! `tests/sockets/a_fifo_that_is_opened_again_waits.rs` of the root.
//!
//! # What writes
//!
//! | transition | by |
//! | --- | --- |
//! | [`ReadinessCell::note`] | the one poller, for each event; a caller that ends a direction |
//! | [`ReadinessCell::clear`] | any task, after an operation |
//! | [`ReadinessCell::answered`] | any task, after an operation of a fresh source |
//! | [`ReadinessCell::assume`], [`ReadinessCell::expect_report`] | the owner of a fresh source |
//! | [`ReadinessCell::deregister`] | the owner of the source, once |
//! | [`ReadinessCell::shut_down`] | the end of the netpoll, once |
//!
//! The transitions and the tick are checked by the tests in this file, a late clear beside an event
//! by `models::source`, and the edges themselves, on real sockets and pipes, by
//! `tests/netpoll/readiness_is_never_lost.rs`.

use std::fmt;

use mio::Interest;

use crate::kernel::Event;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Reading may succeed. Set by an event, cleared by an operation that found nothing.
const READ_READY: u64 = 1;
/// Writing may succeed. Set by an event, cleared by an operation that found no room.
const WRITE_READY: u64 = 1 << 1;
/// The peer will send no more, or the source hung up. See *Closed*.
const READ_CLOSED: u64 = 1 << 2;
/// The peer will take no more, or the source hung up. See *Closed*.
const WRITE_CLOSED: u64 = 1 << 3;
/// An error waits at the source, and no read has looked for it yet.
const READ_ERROR: u64 = 1 << 4;
/// An error waits at the source, and no write has looked for it yet.
const WRITE_ERROR: u64 = 1 << 5;
/// The owner took the source out. Never cleared.
const DEREGISTERED: u64 = 1 << 6;
/// The netpoll has ended. Never cleared.
const SHUT_DOWN: u64 = 1 << 7;
/// The source is fresh: reading was not tried and not reported. Set at registration alone.
const READ_UNKNOWN: u64 = 1 << 8;
/// The source is fresh: writing was not tried and not reported. Set at registration alone.
const WRITE_UNKNOWN: u64 = 1 << 9;
/// Urgent data, or whatever else the source calls exceptional (`EPOLLPRI`).
const PRIORITY: u64 = 1 << 10;
/// One event; the bits from here up count them.
const TICK: u64 = 1 << 11;

const READ_BITS: u64 = READ_READY | READ_CLOSED | READ_ERROR | PRIORITY | READ_UNKNOWN;
const WRITE_BITS: u64 = WRITE_READY | WRITE_CLOSED | WRITE_ERROR | WRITE_UNKNOWN;
const ERROR_BITS: u64 = READ_ERROR | WRITE_ERROR;
const UNKNOWN_BITS: u64 = READ_UNKNOWN | WRITE_UNKNOWN;
const CLOSED_BITS: u64 = READ_CLOSED | WRITE_CLOSED;
const REPORTED_BITS: u64 = (READ_BITS | WRITE_BITS) & !UNKNOWN_BITS;
const ENDED_BITS: u64 = DEREGISTERED | SHUT_DOWN;

/// The two ways that data goes, each with its own readiness and its own wakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Reading, accepting, receiving; also urgent data, if the interest includes it.
    Read,
    /// Writing, sending, and the end of a connect.
    Write,
}

impl Direction {
    #[inline]
    const fn bits(self) -> u64 {
        match self {
            Direction::Read => READ_BITS,
            Direction::Write => WRITE_BITS,
        }
    }

    /// Whether an interest includes this direction.
    #[inline]
    pub(crate) fn is_in(self, interest: Interest) -> bool {
        match self {
            // Urgent data is read as well, so anything beyond writing is about reading.
            Direction::Read => interest != Interest::WRITABLE,
            Direction::Write => interest.is_writable(),
        }
    }
}

/// What was known of a direction of a source at one moment.
///
/// Handed out when the direction is worth trying, and taken back by
/// [`Registration::clear_ready`](crate::Registration::clear_ready), which does nothing if an event
/// has come in between.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    snapshot: Snapshot,
    direction: Direction,
}

impl Ready {
    /// The direction this is about.
    #[inline]
    pub fn direction(self) -> Direction {
        self.direction
    }

    /// Whether the direction will not carry data any more: end of file, or hang-up.
    #[inline]
    pub fn is_closed(self) -> bool {
        self.bits() & CLOSED_BITS != 0
    }

    /// Whether an error waits at the source, for the next operation to collect.
    #[inline]
    pub fn is_error(self) -> bool {
        self.bits() & ERROR_BITS != 0
    }

    /// Whether the source reported urgent data. Only where the interest included it.
    #[inline]
    pub fn is_priority(self) -> bool {
        self.bits() & PRIORITY != 0
    }

    #[inline]
    fn bits(self) -> u64 {
        self.snapshot.0 & self.direction.bits()
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready")
            .field("direction", &self.direction)
            .field("closed", &self.is_closed())
            .field("error", &self.is_error())
            .field("priority", &self.is_priority())
            .field("tick", &self.snapshot.tick())
            .finish()
    }
}

/// A set of what events say of a source, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadySet(u64);

impl ReadySet {
    /// Nothing.
    pub const EMPTY: Self = Self(0);
    /// Reading may succeed.
    pub const READABLE: Self = Self(READ_READY);
    /// Writing may succeed.
    pub const WRITABLE: Self = Self(WRITE_READY);
    /// The peer will send no more, or the source hung up.
    pub const READ_CLOSED: Self = Self(READ_CLOSED);
    /// The peer will take no more, or the source hung up.
    pub const WRITE_CLOSED: Self = Self(WRITE_CLOSED);
    /// An error waits at the source.
    pub const ERROR: Self = Self(ERROR_BITS);
    /// Urgent data, if the interest included it.
    pub const PRIORITY: Self = Self(PRIORITY);

    /// What is in either set.
    #[inline]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both sets.
    #[inline]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in this set and not in the other.
    #[inline]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there is nothing in the set.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of the other set is in this one.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a task that waits for the set waits in this direction.
    #[inline]
    pub(crate) fn concerns(self, direction: Direction) -> bool {
        self.0 & direction.bits() != 0
    }
}

/// What events have said of a source, in both directions, up to one moment.
///
/// [`Registration::clear_seen`](crate::Registration::clear_seen) takes it back, unless an event has
/// come in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    snapshot: Snapshot,
}

impl Seen {
    /// What the events have said.
    #[inline]
    pub fn set(self) -> ReadySet {
        let reported = self.snapshot.0 & REPORTED_BITS;
        // An error that one of the directions has still to collect is an error of the source.
        ReadySet(match reported & ERROR_BITS {
            0 => reported,
            _ => reported | ERROR_BITS,
        })
    }
}

/// One value of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot(u64);

impl Snapshot {
    /// Whether an operation in this direction is worth trying.
    #[inline]
    pub(crate) fn is_ready(self, direction: Direction) -> bool {
        self.0 & direction.bits() != 0
    }

    /// Whether an event has said that an operation in this direction is worth trying.
    #[inline]
    pub(crate) fn is_reported(self, direction: Direction) -> bool {
        self.0 & direction.bits() & !UNKNOWN_BITS != 0
    }

    pub(crate) fn is_shut_down(self) -> bool {
        self.0 & SHUT_DOWN != 0
    }

    pub(crate) fn is_deregistered(self) -> bool {
        self.0 & DEREGISTERED != 0
    }

    /// Whether nothing will ever be reported again.
    #[inline]
    pub(crate) fn is_ended(self) -> bool {
        self.0 & ENDED_BITS != 0
    }

    /// Whether an event was noted between the two, whichever direction it was about.
    #[inline]
    pub(crate) fn is_newer_than(self, other: Snapshot) -> bool {
        self.tick() != other.tick()
    }

    /// This snapshot as the user sees it.
    #[inline]
    pub(crate) fn ready(self, direction: Direction) -> Ready {
        Ready {
            snapshot: self,
            direction,
        }
    }

    /// This snapshot as a user of both directions sees it.
    #[inline]
    pub(crate) fn seen(self) -> Seen {
        Seen { snapshot: self }
    }

    #[inline]
    fn tick(self) -> u64 {
        self.0 / TICK
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("read", &self.is_ready(Direction::Read))
            .field("write", &self.is_ready(Direction::Write))
            .field("deregistered", &self.is_deregistered())
            .field("shut_down", &self.is_shut_down())
            .field("tick", &self.tick())
            .finish()
    }
}

/// What one event reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report(u64);

impl Report {
    #[inline]
    pub(crate) fn of(event: &Event) -> Self {
        let mut bits = 0;
        let mut set = |condition: bool, bit: u64| {
            if condition {
                bits |= bit;
            }
        };
        set(event.is_readable(), READ_READY);
        set(event.is_writable(), WRITE_READY);
        set(event.is_read_closed(), READ_CLOSED);
        set(event.is_write_closed(), WRITE_CLOSED);
        set(event.is_priority(), PRIORITY);
        set(event.is_error(), ERROR_BITS);
        Self(bits)
    }

    /// What there is to report of a direction that the caller has ended.
    pub(crate) fn end_of(direction: Direction) -> Self {
        Self(match direction {
            Direction::Read => READ_CLOSED,
            Direction::Write => WRITE_CLOSED,
        })
    }

    /// What it says of the directions that were asked for. Hang-ups and errors are reported
    /// unasked. A direction that no task may wait for must not begin to be ready by them.
    #[inline]
    pub(crate) fn within(self, interest: Interest) -> Self {
        let mut asked = 0;
        for direction in [Direction::Read, Direction::Write] {
            if direction.is_in(interest) {
                asked |= direction.bits();
            }
        }
        Self(self.0 & asked)
    }

    /// Whether it is news for a task that waits in this direction.
    #[inline]
    pub(crate) fn concerns(self, direction: Direction) -> bool {
        self.0 & direction.bits() != 0
    }
}

/// Why readiness is cleared; it decides what may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The caller says so.
    Asked,
    /// Fewer bytes went through than were asked for. See *Short transfers* in `transfer.rs`.
    Short,
    /// The kernel said `EAGAIN` itself. See *Closed*.
    KernelWouldBlock,
    /// The kernel was asked to report anew, just before. See *Closed*.
    Reported,
}

/// The word.
pub(crate) struct ReadinessCell(AtomicU64);

impl ReadinessCell {
    /// Of a source that was registered just now nothing is known, and operations are tried: a
    /// caller that has data to write, or knows that some is there to read, needs one system call
    /// and no look at epoll.
    pub(crate) fn fresh(interest: Interest) -> Self {
        let mut bits = 0;
        if interest.is_readable() {
            bits |= READ_UNKNOWN;
        }
        if interest.is_writable() {
            bits |= WRITE_UNKNOWN;
        }
        Self(AtomicU64::new(bits))
    }

    #[inline]
    pub(crate) fn snapshot(&self) -> Snapshot {
        // Ordering: Acquire pairs with the Release of `note`: a thread that sees a tick also sees
        // the kernel as the poller saw it. And it keeps the load before the operation that follows.
        // A snapshot that was taken after its operation could carry the tick of an event which that
        // operation did not see. Its clear would then erase an edge. Model
        // `source::a_read_that_finds_nothing_meets_an_event`.
        Snapshot(self.0.load(Ordering::Acquire))
    }

    /// An event came.
    #[inline]
    pub(crate) fn note(&self, report: Report) {
        // Ordering: Release pairs with the Acquire of `snapshot`, in the same model. Relaxed is
        // enough for the failed load, which publishes nothing. The closure never answers `None`.
        let noted = self
            .0
            .fetch_update(Ordering::Release, Ordering::Relaxed, |word| {
                Some((word | report.0).wrapping_add(TICK))
            });
        debug_assert!(noted.is_ok());
    }

    /// Takes back what `seen` says is ready. Says whether it did; it does not if an event has come
    /// since, or if there is nothing in `seen` that may be cleared for this reason.
    #[inline]
    pub(crate) fn clear(&self, seen: Ready, why: Why) -> bool {
        let bits = match why {
            Why::Asked => seen.bits() & !CLOSED_BITS,
            // A closed or failed source has no further edge for what is still in it, and urgent
            // data ends a read early.
            Why::Short if seen.is_closed() || seen.is_error() || seen.is_priority() => 0,
            Why::Short => seen.bits(),
            Why::KernelWouldBlock | Why::Reported => seen.bits(),
        };
        self.clear_bits(seen.snapshot, bits)
    }

    /// Counts as reported what the caller knows, and no event has said.
    pub(crate) fn assume(&self, known: ReadySet) {
        // Ordering: Relaxed. It carries nothing; a bit that is set wrongly costs one system call.
        self.0.fetch_or(known.0, Ordering::Relaxed);
    }

    /// An operation of a fresh source, which no event has reported yet, had an answer: the
    /// direction counts as reported. It was worth trying before, and is so after.
    #[cold]
    pub(crate) fn answered(&self, direction: Direction) {
        let (unknown, ready) = match direction {
            Direction::Read => (READ_UNKNOWN, READ_READY),
            Direction::Write => (WRITE_UNKNOWN, WRITE_READY),
        };
        // Ordering: Relaxed, as in `assume`. Whoever has cleared the direction meanwhile knows
        // more.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bits| {
                (bits & unknown != 0).then_some(bits & !unknown | ready)
            });
    }

    /// From now on nothing is worth trying before an event.
    pub(crate) fn expect_report(&self) {
        // Ordering: Relaxed. It carries nothing, and the bits of events stay.
        self.0.fetch_and(!UNKNOWN_BITS, Ordering::Relaxed);
    }

    /// Takes back a part of what `seen` says, in both directions. A closed direction stays so,
    /// unless the kernel has said that it is not.
    pub(crate) fn clear_seen(&self, seen: Seen, part: ReadySet, why: Why) -> bool {
        let mut bits = seen.set().intersection(part).0;
        if why != Why::KernelWouldBlock {
            bits &= !CLOSED_BITS;
        }
        if bits & READ_READY != 0 {
            bits |= READ_UNKNOWN;
        }
        if bits & WRITE_READY != 0 {
            bits |= WRITE_UNKNOWN;
        }
        self.clear_bits(seen.snapshot, bits)
    }

    #[inline]
    fn clear_bits(&self, seen: Snapshot, bits: u64) -> bool {
        if bits == 0 {
            return false;
        }
        // Ordering: Relaxed. The word guards no memory, and the tick is part of the value that is
        // compared, so a clear that is late fails whatever the order of other variables.
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                (!Snapshot(word).is_newer_than(seen)).then_some(word & !bits)
            })
            .is_ok()
    }

    /// The owner takes the source out. Says whether this was the first time.
    pub(crate) fn deregister(&self) -> bool {
        // Ordering: Relaxed. A waiter is told through the lock of the wakers; see `source.rs`.
        // Model `source::a_deregistration_tells_who_waits`.
        let before = self.0.fetch_or(DEREGISTERED, Ordering::Relaxed);
        before & DEREGISTERED == 0
    }

    /// The netpoll ends.
    pub(crate) fn shut_down(&self) {
        // Ordering: Relaxed, for the same reason. Model `source::a_shutdown_tells_who_waits`.
        self.0.fetch_or(SHUT_DOWN, Ordering::Relaxed);
    }
}

impl fmt::Debug for ReadinessCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

#[cfg(all(test, not(ws_loom)))]
mod tests;
