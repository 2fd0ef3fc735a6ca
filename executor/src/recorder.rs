//! The flight recorder: what the scheduler did last, there when somebody asks for it.
//!
//! # Which thread writes where
//!
//! Each P has a ring of records ([`ring`]), which its thread alone writes. What happens on threads
//! without a P (a push from outside, the monitor) goes to one more ring, under a lock. The oldest
//! records are overwritten. Any thread may take a [`Recording`] at any time, and no thread waits
//! for it.
//!
//! # What is recorded
//!
//! A record is two words:
//!
//! ```text
//!  63                                                              8 7        0
//! +-----------------------------------------------------------------+----------+
//! | ticks since the runtime was built                               | kind     |
//! +----------+----------------+-------------------------------------+----------+
//! | how many | number of a P  | the low 40 bits of the task's id               |
//! +----------+----------------+------------------------------------------------+
//!  63      56 55            40 39                                             0
//! ```
//!
//! The second word of a kind that is about no task is a number. The bits of an id that are left out
//! are those of the newest id in the process, or one less: no task in the ring is 2^40 spawns old.
//!
//! A line of a log has more than one record: see `recorder/log.rs`. So has the name of a task: see
//! `recorder/named.rs`.
//!
//! # How much
//!
//! | level | what |
//! | --- | --- |
//! | [`Level::Off`] | nothing |
//! | [`Level::Sparse`], the default | what is rare or long ([`EventKind`]); marks, spans and lines of a log |
//! | [`Level::Full`] | besides, each spawn, wake and poll |
//!
//! A place that may record costs one load and one branch at any level ([`Recorder::takes`]). What
//! happens to each task has three: its spawn, its wake, and its poll. Where a task goes into a
//! queue there were seven more, which cost a yield 4 % of its instructions. These are only there
//! with the feature `queue-records`, for tests. The level may be changed at any time. What other
//! threads do at that moment is recorded or not.
//!
//! Rejected: a copy of the level in each P, which the owner refreshes. It saves nothing where the
//! level is read from a line that all threads have and none writes.
//!
//! # The time
//!
//! The monotonic clock of the system takes longer to read than a record to write. So where the
//! processor's counter of ticks runs evenly, which the kernel says by using it itself, a record has
//! that. The clock is read when the runtime is built, and when a recording is taken. All times in
//! between follow from the two ([`ticks`]). Where time is virtual it is the runtime's, or
//! that of a time line which the machines of a simulation share ([`timeline`]).
//!
//! # The order
//!
//! Within a P, that of the records. Between Ps, that of their times. If these are equal, as they
//! often are on a virtual clock, that of the Ps' numbers. A count of all would order them, and all
//! threads would write it.
//!
//! Rejected: `tracing`. A subscriber is user code, and these places are under the scheduler's feet
//! (S8).

mod kinds;
pub(crate) mod log;
mod map;
mod merged;
mod named;
pub(crate) mod names;
mod of_runtime;
mod perfetto;
mod protobuf;
mod ring;
mod ticks;
#[cfg(any(test, feature = "sim"))]
mod timeline;

pub use self::kinds::{Event, EventKind, Level, RecordedTask, Recording, UnknownLevel};
pub(crate) use self::map::Map;
pub use self::of_runtime::NewEvents;
#[cfg(any(test, feature = "sim"))]
pub(crate) use self::perfetto::Hosts;
pub(crate) use self::ring::Ring;
pub(crate) use self::{
    kinds::Subject,
    merged::Merged,
    named::Named,
    of_runtime::{Recorder, began, recorder_bytes},
    perfetto::{Known, Process, Writer, program},
};
#[cfg(any(test, feature = "sim"))]
pub use self::{
    perfetto::{Arrow, Host, Moment},
    timeline::Timeline,
};
