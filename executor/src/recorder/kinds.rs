//! What a recording tells, and how a record becomes that.

use std::{
    fmt, io,
    panic::Location,
    str::FromStr,
    time::{Duration, SystemTime},
};

use super::{log, map::Map, names, perfetto, ticks::Scale};
use crate::cell::{Header, Id};

/// How much of what the scheduler does is recorded.
///
/// # Examples
///
/// ```
/// use ws::{runtime::Runtime, trace::Level};
///
/// let runtime = Runtime::new()?;
/// runtime.handle().record(Level::Full);
/// # Ok::<(), ws::runtime::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Level {
    /// Nothing.
    Off,
    /// What is rare or long: [`EventKind`] says which.
    #[default]
    Sparse,
    /// Besides, each spawn, each wake and each poll.
    Full,
}

/// As in `WS_RECORD`: what [`FromStr`] takes.
///
/// ```
/// use ws::trace::Level;
///
/// assert_eq!(Level::Sparse.to_string(), "sparse");
/// ```
impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Off => "off",
            Self::Sparse => "sparse",
            Self::Full => "full",
        })
    }
}

impl FromStr for Level {
    type Err = UnknownLevel;

    /// `off`, `sparse` or `full`.
    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        match text {
            "off" => Ok(Self::Off),
            "sparse" => Ok(Self::Sparse),
            "full" => Ok(Self::Full),
            _ => Err(UnknownLevel(())),
        }
    }
}

/// The error of a text that names no [`Level`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLevel(());

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the level must be `off`, `sparse` or `full`")
    }
}

impl std::error::Error for UnknownLevel {}

/// What the second word of a record holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    /// A task, and the number of a P, or 0.
    Task,
    /// A task, the number of a P, and a count.
    Counted,
    /// A task, the number of a name, and a count.
    Named,
    /// The same, with 12 bits for each.
    Span,
    /// A line of a log: a task, the number of its target, its level and how long its text is.
    Line,
    /// The name of a task: the same, with the number of a place, and 0 for the level.
    Name,
    Number,
}

/// An enum, and what is to be known of its kinds.
macro_rules! kinds {
    (
        $(#[$of_all:meta])*
        $name:ident { $($(#[$doc:meta])* $kind:ident: $level:ident, $about:ident;)* }
    ) => {
        $(#[$of_all])*
        pub enum $name {
            $($(#[$doc])* $kind,)*
        }

        const KINDS: &[$name] = &[$($name::$kind),*];

        impl $name {
            /// The level from which on it is recorded.
            ///
            /// # Examples
            ///
            /// ```
            /// use ws::trace::{EventKind, Level};
            ///
            /// assert_eq!(EventKind::Park.level(), Level::Sparse);
            /// assert_eq!(EventKind::Run.level(), Level::Full);
            /// ```
            #[inline]
            pub const fn level(self) -> Level {
                match self {
                    $(Self::$kind => Level::$level,)*
                }
            }

            fn about(self) -> About {
                match self {
                    $(Self::$kind => About::$about,)*
                }
            }
        }
    };
}

kinds! {
    /// What an [`Event`] tells of.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    #[repr(u8)]
    EventKind {
        /// The task was spawned. [`Level::Full`].
        Spawn: Full, Task;
        /// The task was forked: it runs when the poll that goes on has ended. [`Level::Full`].
        Fork: Full, Task;
        /// The task was put into `runnext`. Needs the feature
        /// `queue-records`.
        RunNext: Full, Task;
        /// The task was put into the local queue. Needs the feature
        /// `queue-records`.
        Local: Full, Task;
        /// The task was put into the ordered queue of the P, for its priority. Needs the feature
        /// `queue-records`.
        Ordered: Full, Task;
        /// The task was put into the queue for all. Needs the feature
        /// `queue-records`.
        Global: Full, Task;
        /// The local queue was full: half of it, and the task of the record before, went to the
        /// global queue; the number is how many.
        Overflow: Sparse, Number;
        /// The task was put into the queue of the thread that it is pinned to. Needs the feature
        /// `queue-records`.
        Pinned: Full, Task;
        /// The task has forked, and waits on the fork deque, where thieves may take it.
        /// Needs the feature `queue-records`.
        ParentOffered: Full, Task;
        /// The task, which has forked, goes on where it was: no thread took it. Needs
        /// the feature `queue-records`.
        ParentResumed: Full, Task;
        /// The task, which has forked, was stolen from the P of the number.
        ParentStolen: Sparse, Task;
        /// The task was the first of a batch that was stolen; the number is that of the P, times
        /// 2^32, and how many (255: that many or more).
        Steal: Sparse, Counted;
        /// The task was stolen out of the `runnext` of the P of the number.
        RunNextStolen: Sparse, Task;
        /// A branch of a join was stolen from the P of the number, by a search or at a waiting
        /// join.
        BranchStolen: Sparse, Number;
        /// The task waited, and was woken by what this thread does: by the task whose poll goes on,
        /// or else by a socket, a timer or a thread from outside. A task that is woken during its
        /// own poll has a [`Requeue`](Self::Requeue) instead. [`Level::Full`].
        Wake: Full, Task;
        /// A poll of the task begins. [`Level::Full`].
        Run: Full, Task;
        /// The poll of the task has ended, and it waits. [`Level::Full`].
        Idle: Full, Task;
        /// The poll of the task has ended, and it was woken meanwhile or has yielded.
        /// [`Level::Full`].
        Requeue: Full, Task;
        /// The task has ended. [`Level::Full`].
        Done: Full, Task;
        /// The thread goes to sleep.
        Park: Sparse, Number;
        /// The thread has woken up.
        Unpark: Sparse, Number;
        /// The thread leaves its P: it ends, or its `block_on` does.
        Leave: Sparse, Number;
        /// The thread of the P of the number is woken, with a permit.
        WakeThread: Sparse, Number;
        /// A thread is to be started, with a permit.
        StartThread: Sparse, Number;
        /// The permit of the P of the number was taken: its thread is stuck.
        Revoke: Sparse, Number;
        /// The thread has come to a fork, and gives its permit to tasks that are ready and have
        /// none.
        GiveWay: Sparse, Number;
        /// The thread has announced to block.
        Block: Sparse, Number;
        /// The thread is back from that; the number is 1 if it has a permit.
        Return: Sparse, Number;
        /// Timers were fired; the number is how late the first of them was in microseconds, times
        /// 2^32, and how many.
        Timers: Sparse, Number;
        /// The netpoll has brought wakers; the number is how many.
        Netpoll: Sparse, Number;
        /// The monitor sees that a poll of the task has lasted for a millisecond or longer. The
        /// number is that of the P, times 2^32, and how many tenths of a millisecond it is since
        /// the monitor saw the poll first (255: that many or more). The poll began up to one look
        /// before that.
        LongPoll: Sparse, Counted;
        /// The monitor sees that the poll of the last [`LongPoll`](Self::LongPoll) on the P of the
        /// number is over.
        LongPollEnd: Sparse, Number;
        /// A stall of the task was reported; the number is that of its P. See
        /// [`Builder::on_stall`](crate::runtime::Builder::on_stall).
        Stall: Sparse, Task;
        /// The monitor counted the tasks that wait in queues: the number is how many are in the
        /// global queue, times 2^32, and how many in the local ones.
        Queued: Sparse, Number;
        /// A [`mark`](crate::trace::mark).
        Mark: Sparse, Named;
        /// A [`span`](crate::trace::span) begins. The number is below 4,096: spans of one name that
        /// a task has open at the same time mostly have different ones.
        SpanBegin: Sparse, Span;
        /// The [`span`](crate::trace::span) with that name and number has ended.
        SpanEnd: Sparse, Span;
        /// A line of a log, with its [text](Event::text). The name is its target. The number is its
        /// level: 1 is an error, 2 a warning, 3 an information, 4 is for debugging, and 5 a trace.
        /// `ws::trace::Layer` records it, with the feature `tracing-layer`.
        Log: Sparse, Line;
        /// A poll of the task follows, and the task has a name: the [text](Event::text). It is told
        /// now and then, so that a recording has the names of tasks that have ended. The number
        /// stands for the place where it was spawned, for [`Recording::tasks`]. [`Level::Full`].
        Named: Full, Name;
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What the scheduler did at one moment; a part of a [`Recording`].
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The name of a mark or a span; the target of a line of a log.
    pub name: Option<&'static str>,
    /// The text of a line of a log: its message and its fields. The name of a task.
    pub text: Option<Box<str>>,
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
        if self.kind == EventKind::Log {
            write!(f, " {}", log::level_name(self.number))?;
        }
        if let Some(name) = self.name {
            write!(f, " {name:?}")?;
        }
        if let Some(text) = &self.text {
            write!(f, " {text:?}")?;
        }
        if let Some(task) = self.task {
            write!(f, " task {task}")?;
        }
        let (high, low) = (self.number >> 32, self.number as u32);
        match self.kind {
            EventKind::Steal => write!(f, ", {low} from P {high}"),
            EventKind::LongPoll => {
                write!(f, ", P {high}, for {}.{} ms", low / 10, low % 10)
            }
            EventKind::Timers => write!(f, ", {low}, {high} us late"),
            EventKind::Named => match names::place(self.number) {
                Some(place) => write!(f, ", spawned at {place}"),
                None => Ok(()),
            },
            EventKind::Queued => write!(f, ", {high} for all, {low} in local queues"),
            EventKind::ParentStolen
            | EventKind::RunNextStolen
            | EventKind::BranchStolen
            | EventKind::WakeThread
            | EventKind::LongPollEnd
            | EventKind::Stall
            | EventKind::Revoke => write!(f, ", P {}", self.number),
            EventKind::Overflow | EventKind::Return | EventKind::Netpoll => {
                write!(f, ", {}", self.number)
            }
            _ => Ok(()),
        }
    }
}

impl Event {
    /// The task whose name it tells.
    pub(crate) fn named(&self) -> Option<(Id, RecordedTask)> {
        if self.kind != EventKind::Named {
            return None;
        }
        let task = RecordedTask {
            name: Some(self.text.as_deref()?.to_owned()),
            location: names::place(self.number)?,
        };
        Some((self.task?, task))
    }
}

impl From<Event> for String {
    fn from(event: Event) -> Self {
        event.to_string()
    }
}

/// A task of a [`Recording`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedTask {
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// Where it was spawned.
    pub location: &'static Location<'static>,
}

/// Its name, and where it was spawned.
///
/// ```
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// let task = ws::task::Builder::new().name("waits");
/// let id = task.spawn_on(std::future::pending::<()>(), runtime.handle()).id();
/// let recording = runtime.handle().recording();
/// assert!(recording.tasks[&id].to_string().starts_with("\"waits\", spawned at "));
/// ```
impl fmt::Display for RecordedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name:?}, ")?;
        }
        write!(f, "spawned at {}", self.location)
    }
}

/// What the scheduler did last; see [`Handle::recording`](crate::runtime::Handle::recording).
///
/// Shown as text it has a line for each event. [`write_perfetto`](Self::write_perfetto) makes a
/// picture of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recording {
    /// In the order of time.
    pub events: Vec<Event>,
    /// How many older events were overwritten. The text of a line of a log counts as an event for
    /// each 15 bytes.
    pub overwritten: u64,
    /// From this time on, since the runtime was built, none was overwritten.
    pub whole_since: Duration,
    /// When the runtime was built, by the clock on the wall.
    pub began: SystemTime,
    /// The tasks that were alive when it was taken. And those with a name that had ended, if one of
    /// their polls was recorded, at [`Level::Full`], and is not among the oldest quarter of its
    /// ring; their names are cut at 240 bytes.
    pub tasks: Map<Id, RecordedTask>,
}

impl Recording {
    /// Writes it in the format of [Perfetto](https://ui.perfetto.dev), which shows it in the
    /// browser: *Open trace file*. The program that it is from need not run any more.
    ///
    /// Each worker has a track with what its thread did; so have tasks with a mark or a span. At
    /// [`Level::Full`] there are also the polls of all tasks, a track for each task with a name,
    /// and arrows to a poll from where the task was spawned or woken. A task that ended before the
    /// recording was taken is shown with its name if one of its polls was recorded, and is not
    /// among the oldest quarter of its ring; and without its place if it has no name.
    ///
    /// It writes many small pieces: a file should be in a [`BufWriter`](std::io::BufWriter).
    ///
    /// # Errors
    ///
    /// Those of `out`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::{fs::File, io::BufWriter};
    /// # let handle = ws::runtime::Runtime::new()?.handle().clone();
    /// let file = BufWriter::new(File::create("incident.pftrace")?);
    /// handle.recording().write_perfetto(file)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_perfetto(&self, out: impl io::Write) -> io::Result<()> {
        perfetto::write(self, out)
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.overwritten > 0 {
            writeln!(f, "{} older events were overwritten", self.overwritten)?;
        }
        self.events
            .iter()
            .try_for_each(|event| writeln!(f, "{event}"))
    }
}

/// What an event may be about: a task, or nothing.
///
/// A place that records has it at hand. Its number is asked for only where a record is written.
pub(crate) trait Subject: Copy {
    /// The task's number, or 0.
    fn number(self) -> u64;
}

impl Subject for &Header {
    fn number(self) -> u64 {
        self.id().as_u64()
    }
}

/// About no task.
impl Subject for () {
    fn number(self) -> u64 {
        0
    }
}

/// The bits of a task's id that a record has.
pub(super) const ID_BITS: u32 = 40;
const ID_MASK: u64 = (1 << ID_BITS) - 1;
/// The bits of the name of a span, and those of its number.
const SPAN_BITS: u32 = 12;
const SPAN_MASK: u64 = (1 << SPAN_BITS) - 1;
/// The bits of a kind.
pub(super) const KIND_BITS: u32 = 8;
const TICKS_MASK: u64 = u64::MAX >> KIND_BITS;

/// The two words of a record; see the head of `recorder.rs`.
#[inline]
pub(super) fn encode(ticks: u64, kind: EventKind, task: u64, number: u64) -> [u64; 2] {
    let about = match kind.about() {
        About::Number => number,
        About::Span => {
            let (name, count) = (number >> 32, number & SPAN_MASK);
            // The first names are the ones that are kept.
            let name = if name > SPAN_MASK { 0 } else { name };
            task & ID_MASK | name << ID_BITS | count << (ID_BITS + SPAN_BITS)
        }
        About::Task | About::Counted | About::Named | About::Line | About::Name => {
            let (of_p, count) = match kind.about() {
                About::Task => (number, 0),
                _ => (number >> 32, number & u64::from(u32::MAX)),
            };
            let of_p = of_p & u64::from(u16::MAX);
            let count = count.min(u64::from(u8::MAX));
            task & ID_MASK | of_p << ID_BITS | count << (ID_BITS + u16::BITS)
        }
    };
    [ticks << KIND_BITS | kind as u64, about]
}

/// What is needed to read a record: an id that no task of the recording is newer than, a number of
/// ticks that none of its records is later than, and how a time is made of ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest {
    pub(super) id: u64,
    pub(super) ticks: u64,
    pub(super) scale: Scale,
}

/// Time goes on while the records are read.
pub(super) const MEANWHILE_TICKS: u64 = 1 << 50;

impl Newest {
    /// When the reading began.
    pub(super) fn began(&self) -> Duration {
        let ticks = self.ticks.saturating_sub(MEANWHILE_TICKS);
        Duration::from_nanos(self.scale.ns(ticks))
    }
}

/// How many ticks before `newest` a record was written.
pub(super) fn age([when, _]: [u64; 2], newest: &Newest) -> u64 {
    newest.ticks.wrapping_sub(when >> KIND_BITS) & TICKS_MASK
}

/// The event of the first of these records, which is no text. That of a line of a log, and that of
/// the name of a task, has the text behind it.
pub(super) fn decode(records: &[[u64; 2]], processor: Option<usize>, newest: &Newest) -> Event {
    let (mut event, length) = decode_first(records[0], processor, newest);
    let text = records[1..].get(..length);
    event.text = text.filter(|text| !text.is_empty()).map(log::text);
    event
}

/// How many records more than these belong to the one that is the first.
pub(super) fn missing(records: &[[u64; 2]], newest: &Newest) -> usize {
    let (_, length) = decode_first(records[0], None, newest);
    length.saturating_sub(records.len() - 1)
}

/// The events of records, which are in their order. Of a line of a log whose first records are
/// gone there is none.
pub(super) fn decode_all(
    records: &[[u64; 2]],
    processor: Option<usize>,
    newest: &Newest,
) -> impl Iterator<Item = Event> {
    let mut places = 0..records.len();
    std::iter::from_fn(move || {
        let first = places.find(|&at| !log::is_text(&records[at]))?;
        Some(decode(&records[first..], processor, newest))
    })
}

/// The event of a record that is no text, and how many records of text belong to it.
fn decode_first(words: [u64; 2], processor: Option<usize>, newest: &Newest) -> (Event, usize) {
    let [when, about] = words;
    let kind = KINDS[(when & ((1 << KIND_BITS) - 1)) as usize];
    // The bits that had no room are those of the newest, or one less.
    let ticks = newest.ticks.wrapping_sub(age(words, newest));
    let of_p = about >> ID_BITS & u64::from(u16::MAX);
    let count = about >> (ID_BITS + u16::BITS);
    let task = || {
        let id = newest
            .id
            .wrapping_sub(newest.id.wrapping_sub(about) & ID_MASK);
        // No task has the number 0.
        (about & ID_MASK != 0).then(|| Id::new(id))
    };
    let (level, length) = log::of_number(count);
    let (task, number, name, length) = match kind.about() {
        About::Number => (None, about, None, 0),
        About::Span => {
            let name = names::name(about >> ID_BITS & SPAN_MASK);
            (task(), about >> (ID_BITS + SPAN_BITS), name, 0)
        }
        About::Task => (task(), of_p, None, 0),
        About::Counted => (task(), of_p << 32 | count, None, 0),
        About::Named => (task(), count, names::name(of_p), 0),
        About::Line => (task(), level, names::name(of_p), length),
        About::Name => (task(), of_p, None, length),
    };
    let event = Event {
        time: Duration::from_nanos(newest.scale.ns(ticks)),
        processor,
        kind,
        task,
        name,
        text: None,
        number,
    };
    (event, length)
}

#[cfg(test)]
mod tests;
