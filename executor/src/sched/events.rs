//! What the scheduler did, one record after the other: the ring behind a flight recorder, and what
//! tests look at instead of guessing.
//!
//! # Which thread writes where
//!
//! Each P has a ring of records that its thread alone writes. What happens on threads without a P
//! (a foreign push, the monitor) goes to one more ring under a lock. The oldest records are
//! overwritten. Any thread may read at any time, and gets what is whole: a record has a number, and
//! is read as a *sequence lock* is.
//!
//! | the writer | a reader |
//! | --- | --- |
//! | 1. number to 0; fence (release) | 1. reads the number (acquire) |
//! | 2. the fields | 2. the fields; fence (acquire) |
//! | 3. the number (release) | 3. the number again: if it is the same, and the one that belongs there, the fields are whole |
//!
//! A reader that saw a field of a later record sees, by the two fences, that the number has
//! changed. All of it is atomics, so a torn record is nothing undefined. It is thrown away.
//!
//! # The price
//!
//! Without the feature `events`, nothing: [`event!`] then expands to nothing at all. A step and its
//! poll pass about six places. A branch at each would be 10 % of a step: a step takes some 120
//! instructions. With the feature, but without
//! [`Builder::events`](crate::runtime::Builder::events), the price is that branch. With both it is
//! a reading of the clock and six stores. Unit tests are built as if the feature was on.
//!
//! # The order
//!
//! Within a P, that of the records. Between Ps, that of their times. If these are equal, as they
//! often are on a virtual clock, that of the Ps' numbers. A common count would order all, but all
//! threads would write it.
//!
//! Rejected: `tracing`. A subscriber is user code, and these places are under the scheduler's feet
//! (S8).

/// Notes an event of this worker, if events are compiled in:
/// `event!(worker, Kind, task's id or 0, number)`.
macro_rules! event {
    ($at:expr, $kind:ident, $task:expr, $number:expr) => {
        #[cfg(any(test, feature = "events"))]
        $at.note(
            $crate::sched::events::EventKind::$kind,
            $task,
            $number as u64,
        );
    };
}

pub(crate) use event;

#[cfg(any(test, feature = "events"))]
pub(crate) use self::on::Log;
#[cfg(any(test, feature = "events"))]
pub use self::on::{Event, EventKind};

#[cfg(any(test, feature = "events"))]
mod on {
    use std::{fmt, time::Duration};

    use crate::{
        cell::{Id, Task},
        sched::{Shared, Worker},
        sync::{
            Mutex,
            atomic::{
                AtomicU64,
                Ordering::{Acquire, Relaxed, Release},
                fence,
            },
        },
    };

    /// An enum, and the table of its kinds by their numbers.
    macro_rules! kinds {
        ($(#[$of_all:meta])* $name:ident { $($(#[$doc:meta])* $kind:ident,)* }) => {
            $(#[$of_all])*
            pub enum $name {
                $($(#[$doc])* $kind,)*
            }

            const KINDS: &[$name] = &[$($name::$kind),*];
        };
    }

    kinds! {
        /// What an [`Event`] tells of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        EventKind {
            /// The task was spawned.
            Spawn,
            /// The task was forked: it runs when the poll that goes on has ended.
            Fork,
            /// The task was put into `runnext`.
            RunNext,
            /// The task was put into the local queue.
            Local,
            /// The task was put into the ordered queue of the P, for its priority.
            Ordered,
            /// The task was put into the queue for all.
            Global,
            /// The local queue was full: half of it, and the task of the record before, went to the
            /// global queue; the number is how many.
            Overflow,
            /// The task was put into the queue of the thread that it is pinned to.
            Pinned,
            /// The task has forked, and waits on the fork deque, where thieves may take it.
            ParentOffered,
            /// The task, which has forked, goes on where it was: no thread took it.
            ParentResumed,
            /// The task, which has forked, was stolen from the P of the number.
            ParentStolen,
            /// The task was the first of a batch that was stolen; the number is that of the P,
            /// times 2^32, and how many.
            Steal,
            /// The task was stolen out of the `runnext` of the P of the number.
            RunNextStolen,
            /// A branch of a join was stolen from the P of the number, by a search or at a waiting
            /// join.
            BranchStolen,
            /// A poll of the task begins.
            Run,
            /// The poll of the task has ended, and it waits.
            Idle,
            /// The poll of the task has ended, and it was woken meanwhile or has yielded.
            Requeue,
            /// The task has ended.
            Done,
            /// The thread goes to sleep.
            Park,
            /// The thread has woken up.
            Unpark,
            /// The thread of the P of the number is woken, with a permit.
            Wake,
            /// A thread is to be started, with a permit.
            Start,
            /// The permit of the P of the number was taken: its thread is stuck.
            Revoke,
            /// The thread has come to a fork, and gives its permit to tasks that are ready and have
            /// none.
            GiveWay,
            /// The thread has announced to block.
            Block,
            /// The thread is back from that; the number is 1 if it has a permit.
            Return,
            /// Timers were fired; the number is how many.
            Timers,
            /// The netpoll was looked at, or waited in; the number is how many wakers it brought.
            Netpoll,
        }
    }

    impl fmt::Display for EventKind {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            fmt::Debug::fmt(self, f)
        }
    }

    /// One record of [`Handle::events`](crate::runtime::Handle::events).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Event {
        /// When, since the runtime was built.
        pub time: Duration,
        /// On whose thread: the number of its P. None on a thread that has no P.
        pub processor: Option<usize>,
        /// What.
        pub kind: EventKind,
        /// Which task, if it is about one.
        pub task: Option<Id>,
        /// More about it; see [`EventKind`].
        pub number: u64,
    }

    impl fmt::Display for Event {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:>12} ns  ", self.time.as_nanos())?;
            match self.processor {
                Some(processor) => write!(f, "P {processor:<4}")?,
                None => f.write_str("no P  ")?,
            }
            write!(f, "  {}", self.kind)?;
            if let Some(task) = self.task {
                write!(f, " task {task}")?;
            }
            match self.kind {
                EventKind::Steal => {
                    let (victim, count) = (self.number >> 32, self.number as u32);
                    write!(f, ", {count} from P {victim}")
                }
                EventKind::ParentStolen
                | EventKind::RunNextStolen
                | EventKind::BranchStolen
                | EventKind::Wake
                | EventKind::Revoke => write!(f, ", P {}", self.number),
                EventKind::Overflow
                | EventKind::Return
                | EventKind::Timers
                | EventKind::Netpoll => {
                    write!(f, ", {}", self.number)
                }
                _ => Ok(()),
            }
        }
    }

    impl From<Event> for String {
        fn from(event: Event) -> Self {
            event.to_string()
        }
    }

    /// What an event may be about.
    pub(crate) trait Subject {
        /// The task's number, or 0.
        fn number(&self) -> u64;
    }

    impl Subject for Task {
        fn number(&self) -> u64 {
            self.header().id().as_u64()
        }
    }

    impl Subject for Id {
        fn number(&self) -> u64 {
            self.as_u64()
        }
    }

    /// About no task.
    impl Subject for () {
        fn number(&self) -> u64 {
            0
        }
    }

    #[derive(Debug, Default)]
    struct Record {
        /// One more than how many came before it; 0 while it is written.
        number: AtomicU64,
        time: AtomicU64,
        kind: AtomicU64,
        task: AtomicU64,
        argument: AtomicU64,
    }

    /// The ring of one P. See the module's head.
    #[derive(Debug)]
    pub(crate) struct Log {
        /// How many were written so far.
        written: AtomicU64,
        records: Box<[Record]>,
    }

    impl Log {
        pub(crate) fn new(records: usize) -> Self {
            Self {
                written: AtomicU64::new(0),
                records: (0..records.max(1)).map(|_| Record::default()).collect(),
            }
        }

        fn slot(&self, at: u64) -> &Record {
            &self.records[(at % self.records.len() as u64) as usize]
        }

        /// By one thread at a time.
        pub(crate) fn write(&self, time: u64, kind: EventKind, task: u64, argument: u64) {
            let at = self.written.load(Relaxed);
            let record = self.slot(at);
            record.number.store(0, Relaxed);
            // Ordering: Release, pairs with the fence in `read`: a reader that sees a field sees
            // that it is being written.
            fence(Release);
            record.time.store(time, Relaxed);
            record.kind.store(kind as u64, Relaxed);
            record.task.store(task, Relaxed);
            record.argument.store(argument, Relaxed);
            // Ordering: Release: a reader that sees the number sees the fields.
            record.number.store(at + 1, Release);
            self.written.store(at + 1, Release);
        }

        /// What is there, the oldest first.
        fn read(&self, processor: Option<usize>, into: &mut Vec<Event>) {
            // Ordering: Acquire: the records before it are there.
            let end = self.written.load(Acquire);
            let begin = end.saturating_sub(self.records.len() as u64);
            into.extend((begin..end).filter_map(|at| {
                let record = self.slot(at);
                // Ordering: Acquire: pairs with the last store of `write`.
                if record.number.load(Acquire) != at + 1 {
                    return None;
                }
                let event = Event {
                    time: Duration::from_nanos(record.time.load(Relaxed)),
                    processor,
                    kind: KINDS[record.kind.load(Relaxed) as usize],
                    task: Some(record.task.load(Relaxed))
                        .filter(|id| *id != 0)
                        .map(Id::new),
                    number: record.argument.load(Relaxed),
                };
                // Ordering: Acquire: see `write`.
                fence(Acquire);
                (record.number.load(Relaxed) == at + 1).then_some(event)
            }));
        }
    }

    impl Worker {
        /// Notes something that this thread does.
        pub(crate) fn note(&self, kind: EventKind, task: &impl Subject, number: u64) {
            if let Some(log) = self.log() {
                log.write(
                    self.shared().time.clock().now_ns(),
                    kind,
                    task.number(),
                    number,
                );
            }
        }
    }

    impl Shared {
        /// Notes something, on any thread.
        pub(crate) fn note(&self, kind: EventKind, task: &impl Subject, number: u64) {
            let Some(foreign) = &self.foreign.events else {
                return;
            };
            crate::context::with_worker(|worker| {
                let own = worker.filter(|it| std::ptr::eq(&raw const **it.shared(), self));
                match own {
                    Some(worker) => worker.note(kind, task, number),
                    None => {
                        let now = self.time.clock().now_ns();
                        foreign.lock().write(now, kind, task.number(), number);
                    }
                }
            });
        }

        /// All records, in the order of their times.
        pub(crate) fn read_events(&self) -> Vec<Event> {
            let mut events = Vec::new();
            for peer in self.all_peers() {
                if let Some(log) = peer.events.get() {
                    log.read(Some(peer.index), &mut events);
                }
            }
            if let Some(foreign) = &self.foreign.events {
                foreign.lock().read(None, &mut events);
            }
            events.sort_by_key(|event| event.time);
            events
        }

        /// A ring for threads without a P.
        pub(crate) fn foreign_log(records: Option<usize>) -> Option<Mutex<Log>> {
            records.map(|records| Mutex::new(Log::new(records)))
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::sync::{Arc, atomic::AtomicBool, thread};

        #[test]
        fn a_record_is_a_line() {
            let event = Event {
                time: Duration::from_nanos(17),
                processor: Some(3),
                kind: EventKind::Steal,
                task: Some(Id::new(9)),
                number: 1 << 32 | 5,
            };
            assert_eq!(EventKind::Steal.to_string(), "Steal");
            let line = "          17 ns  P 3     Steal task 9, 5 from P 1";
            assert_eq!(
                (event.to_string().as_str(), String::from(event).as_str()),
                (line, line)
            );
        }

        #[test]
        fn the_oldest_are_overwritten() {
            let log = Log::new(4);
            for n in 0..10 {
                log.write(n, EventKind::Run, n + 1, 2 * n);
            }
            let mut events = Vec::new();
            log.read(Some(3), &mut events);
            let numbers: Vec<_> = events.iter().map(|event| event.number).collect();
            assert_eq!(numbers, [12, 14, 16, 18]);
            assert!(events.iter().all(|event| event.processor == Some(3)));
        }

        /// Each record has the same number in all fields, so a torn one would show.
        #[test]
        fn what_is_read_is_whole() {
            let (log, over) = (Arc::new(Log::new(64)), Arc::new(AtomicBool::new(false)));
            let writer = {
                let (log, over) = (log.clone(), over.clone());
                thread::spawn(move || {
                    let numbers = (1..).take_while(|_| !over.load(Relaxed));
                    numbers.for_each(|n| log.write(n, EventKind::Steal, n, n));
                })
            };
            let mut seen = 0;
            while seen < 10_000 {
                let mut events = Vec::new();
                log.read(None, &mut events);
                for event in &events {
                    assert_eq!(event.time.as_nanos(), u128::from(event.number));
                    assert_eq!(event.task, Some(Id::new(event.number)));
                }
                assert!(events.is_sorted_by_key(|event| event.number));
                seen += events.len();
            }
            over.store(true, Relaxed);
            writer.join().unwrap();
        }
    }
}
