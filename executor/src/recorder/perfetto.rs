//! A recording as a trace of Perfetto, which <https://ui.perfetto.dev> shows.
//!
//! # What is where
//!
//! | track | what |
//! | --- | --- |
//! | one for each P | slices: polls, sleeps, blocking calls. Moments: what else its thread did |
//! | *long polls* of a P | a slice for each, from when the monitor saw it first |
//! | one for each task with a mark, a span or a line of a log | its marks and lines |
//! | at level full, one for each task with a name | its polls, and its marks |
//! | *spans* of a task | a slice for each span |
//! | *no worker* | what happened on other threads |
//! | both that of the P and that of the task | a line of a log, under its text |
//! | *network* of a host of a simulation | what it sends and gets (`hosts.rs`) |
//! | counters | lengths of the queues, blocking calls, sockets that came at once |
//!
//! A task that has ended is shown with its name if that was recorded before its poll (`named.rs`).
//!
//! An arrow goes to a poll from the wake before it, or from the spawn. There is none from a moment
//! before [`Recording::whole_since`]: what came between may have been overwritten.
//!
//! # How it is written
//!
//! In one pass, with a packet for each event. A track is described before its first event.
//!
//! *Memory*: what is kept does not grow with the number of events.
//!
//! | kept | limit |
//! | --- | --- |
//! | what is open on a P | [`OPEN_MAX`] |
//! | arrows; tasks with spans; tracks that were described (`packets.rs`) | [`Recent`] |
//! | names of tasks that are not alive, until their end is written (`packets.rs`) | [`Recent`] |
//! | numbers of texts (`packets.rs`) | names of marks and spans, places of tasks: all from source code |
//!
//! *Slices of a track are nested.* Perfetto takes an end for that of the newest slice of its
//! track.
//!
//! - A P's thread ends the newest of what it has begun, since polls, sleeps and blocking calls are
//!   function calls.
//! - Spans of a task need not be nested, for they are values. So each open one has a track for
//!   itself. The page packs tracks of one name into as few lines as it can.
//! - The monitor sees long polls with a delay, so they are no slices on the track of their P. One
//!   begins no earlier than the last one there has ended.
//!
//! *Some records are not there*: they were overwritten, or the level was another one for some time.
//! An end without a begin is left out. A begin without an end is ended when something ends that is
//! around it, or, if it is a sleep or a long poll, when the next thing begins. A span that began
//! before [`Recording::whole_since`] may have lost its end. If its end is missing, it is drawn up
//! to that time. That end is written last, out of the order of time.

#[cfg(any(test, feature = "sim"))]
mod hosts;
mod packets;
mod recent;

#[cfg(any(test, feature = "sim"))]
pub(crate) use self::hosts::Hosts;
#[cfg(any(test, feature = "sim"))]
pub use self::hosts::{Arrow, Host, Moment};
pub(crate) use self::packets::{Known, Process, program};

use std::{collections::BTreeMap, io, iter, time::Duration};

use self::{
    packets::{Entry, Flow, Name, Packets, Track, Type},
    recent::Recent,
};
use super::{
    kinds::{Event, EventKind, Recording},
    log,
    map::Map,
};
use crate::cell::Id;

/// The most that is open on the track of a P. What is older has lost its end. Guessed: more than
/// polls and blocking calls are nested.
const OPEN_MAX: usize = 1000;

/// What is on the track of a P at the moment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// A poll of this task.
    Poll(Option<Id>),
    Sleep,
    Block,
}

/// The name and the number of a span.
type SpanKey = (Option<&'static str>, u64);

/// A span that is open.
struct OpenSpan {
    key: SpanKey,
    /// That of its track.
    number: u64,
    began: Duration,
}

/// The spans of a task, or of none.
#[derive(Default)]
struct Spans {
    /// Those that are open, the newest last.
    open: Vec<OpenSpan>,
    /// The numbers of tracks that no span has at the moment, and the next new one.
    free: Vec<u64>,
    next: u64,
}

/// A trace that is being written.
pub(crate) struct Writer<'a, W> {
    packets: Packets<'a, W>,
    /// From this time on, no event was overwritten.
    whole_since: Duration,
    /// What is open on the track of each P, the newest last.
    open: BTreeMap<usize, Vec<Open>>,
    /// The arrows that lead to the next poll of a task.
    arrows: Recent<Id, u64>,
    flows: u64,
    spans: Recent<Option<Id>, Spans>,
    /// Whether a long poll is open on a P, and when that begins or the last one there ended.
    long: Map<usize, (bool, Duration)>,
    /// Blocking calls that are open on all tracks.
    blocked: u64,
}

/// Writes all of it.
pub(super) fn write(recording: &Recording, out: impl io::Write) -> io::Result<()> {
    let known = Known {
        began: recording.began,
        tasks: &recording.tasks,
        process: Process::THIS,
    };
    let mut writer = Writer::new(known, out)?;
    writer.whole_since(recording.whole_since);
    for event in &recording.events {
        writer.event(event)?;
    }
    writer.end()
}

impl<'a, W: io::Write> Writer<'a, W> {
    /// Begins a trace.
    pub(crate) fn new(known: Known<'a>, out: W) -> io::Result<Self> {
        Ok(Self {
            packets: Packets::new(known, out)?,
            whole_since: Duration::ZERO,
            open: BTreeMap::new(),
            arrows: Recent::default(),
            flows: 0,
            spans: Recent::default(),
            long: Map::default(),
            blocked: 0,
        })
    }

    /// From this time on, no event was overwritten. May grow while events are written.
    pub(crate) fn whole_since(&mut self, whole_since: Duration) {
        if whole_since > self.whole_since {
            self.whole_since = whole_since;
            self.arrows = Recent::default();
        }
    }

    /// Writes a packet of its own, with one field, which Perfetto passes over if it does not know
    /// it.
    pub(crate) fn beside(&mut self, field: u64, value: &[u8]) -> io::Result<()> {
        self.packets.beside(field, value)
    }

    /// Writes what is left.
    pub(crate) fn end(mut self) -> io::Result<()> {
        let lost_before = self.whole_since;
        self.end_spans(lost_before, |span| span.began < lost_before)?;
        self.packets.flush()
    }

    /// The spans that are open and are to end have ended.
    fn end_spans(&mut self, time: Duration, is_to: impl Fn(&OpenSpan) -> bool) -> io::Result<()> {
        let spans = std::mem::take(&mut self.spans).into_iter();
        let open = spans.flat_map(|(task, spans)| {
            let ended = spans.open.into_iter().filter(&is_to);
            ended
                .map(move |span| (task.map(Id::as_u64), span.number))
                .collect::<Vec<_>>()
        });
        let mut open: Vec<_> = open.collect();
        open.sort_unstable();
        for (task, number) in open {
            let track = Track::Spans(task.map(Id::new), number);
            self.slice_ends(time, track)?;
        }
        Ok(())
    }
}

/// What a poll is called.
enum PollName {
    /// As its task is.
    Task(String),
    /// By the place where its task was spawned.
    Place(String),
    Unknown,
}

impl PollName {
    fn as_name(&self) -> Name<'_> {
        match self {
            Self::Task(name) => Name::Made(name),
            Self::Place(place) => Name::Known(place),
            Self::Unknown => Name::Known("poll"),
        }
    }
}

impl<W: io::Write> Writer<'_, W> {
    /// Polls of one kind of tasks have one name.
    fn poll_name(&self, task: Option<Id>) -> PollName {
        match task.and_then(|task| self.packets.task(task)) {
            None => PollName::Unknown,
            Some(known) => match &known.name {
                Some(name) => PollName::Task(name.clone()),
                None => PollName::Place(known.location.to_string()),
            },
        }
    }

    /// Writes an event.
    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        use EventKind as Kind;
        let track = event.processor.map_or(Track::NoWorker, Track::Worker);
        match event.kind {
            Kind::Run => self.poll_begins(event),
            Kind::Idle | Kind::Requeue => self.poll_ends(event),
            Kind::Done => {
                self.poll_ends(event)?;
                if let Some(task) = event.task {
                    self.packets.has_ended(task);
                }
                Ok(())
            }
            Kind::Named => {
                if let Some((task, known)) = event.named() {
                    self.packets.name_is(task, known);
                }
                Ok(())
            }
            Kind::Park => self.begins(event, Open::Sleep, Name::Known("sleeps")),
            Kind::Unpark => self.ends(event, Open::Sleep),
            Kind::Block => self.begins(event, Open::Block, Name::Known("blocking call")),
            Kind::Return => self.ends(event, Open::Block),
            Kind::Spawn | Kind::Fork | Kind::Wake => {
                self.flows += 1;
                if let Some(task) = event.task
                    && event.time >= self.whole_since
                {
                    self.arrows.insert(task, self.flows);
                }
                let flow = Flow::Begins(self.flows);
                self.moment(event, track, Some(flow))
            }
            Kind::LongPoll => self.long_poll_begins(event),
            Kind::LongPollEnd => self.long_poll_ends(event.number as usize, event.time),
            Kind::Queued => {
                self.count(event, "global queue", event.number >> 32)?;
                self.count(event, "local queues", u64::from(event.number as u32))
            }
            Kind::Netpoll => {
                self.count(event, "sockets that came", event.number)?;
                self.moment(event, track, None)
            }
            Kind::Mark => self.moment(event, event.task.map_or(track, Track::Task), None),
            Kind::Log => self.line(event, track),
            Kind::SpanBegin => self.span_begins(event),
            Kind::SpanEnd => self.span_ends(event),
            _ => self.moment(event, track, None),
        }
    }

    fn slice_ends(&mut self, time: Duration, track: Track) -> io::Result<()> {
        self.packets.event(&Entry {
            time,
            track,
            kind: Type::End,
            name: None,
            category: "",
            beside: &[],
            texts: &[],
            flow: None,
            value: None,
        })
    }

    fn moment(&mut self, event: &Event, track: Track, flow: Option<Flow>) -> io::Result<()> {
        let kind = format!("{:?}", event.kind);
        let mut beside = Vec::new();
        beside.extend(event.task.map(|task| ("task", task.as_u64())));
        let (high, low) = (event.number >> 32, u64::from(event.number as u32));
        match event.kind {
            EventKind::Steal => beside.extend([("P", high), ("tasks", low)]),
            EventKind::Timers => beside.extend([("late_us", high), ("timers", low)]),
            EventKind::Overflow => beside.push(("tasks", event.number)),
            EventKind::Netpoll => beside.push(("sockets", event.number)),
            EventKind::ParentStolen
            | EventKind::RunNextStolen
            | EventKind::BranchStolen
            | EventKind::WakeThread
            | EventKind::Revoke
            | EventKind::Stall => beside.push(("P", event.number)),
            _ => {}
        }
        self.packets.event(&Entry {
            time: event.time,
            track,
            kind: Type::Moment,
            name: Some(Name::Known(event.name.unwrap_or(&kind))),
            category: if event.name.is_some() {
                "mark"
            } else {
                "scheduler"
            },
            beside: &beside,
            texts: &[],
            flow,
            value: None,
        })
    }

    /// A line of a log: on the track of the thread, and on that of its task.
    fn line(&mut self, event: &Event, track: Track) -> io::Result<()> {
        let task = event.task.map(|task| ("task", task.as_u64()));
        let target = event.name.unwrap_or("log");
        let name = match event.text.as_deref() {
            Some(text) => Name::Made(text),
            None => Name::Known(target),
        };
        let of_task = event.task.map(Track::Task);
        for track in iter::once(track).chain(of_task) {
            self.packets.event(&Entry {
                time: event.time,
                track,
                kind: Type::Moment,
                name: Some(name),
                category: "log",
                beside: task.as_slice(),
                texts: &[("level", log::level_name(event.number)), ("target", target)],
                flow: None,
                value: None,
            })?;
        }
        Ok(())
    }

    fn count(&mut self, event: &Event, name: &'static str, value: u64) -> io::Result<()> {
        self.packets.event(&Entry {
            time: event.time,
            track: Track::Counter(name),
            kind: Type::Counter,
            name: None,
            category: "",
            beside: &[],
            texts: &[],
            flow: None,
            value: Some(value),
        })
    }

    /// The thread of a P begins something.
    fn begins(&mut self, event: &Event, open: Open, name: Name<'_>) -> io::Result<()> {
        let Some(index) = event.processor else {
            return Ok(());
        };
        // Its end was not recorded: nothing begins in a sleep.
        self.ends_if(event, |newest| newest == Open::Sleep)?;
        let all = self.open.entry(index).or_default();
        if all.len() == OPEN_MAX {
            all.remove(0);
        }
        all.push(open);
        if open == Open::Block {
            self.blocked += 1;
            self.count(event, "blocking calls", self.blocked)?;
        }
        let task = event.task.map(|task| ("task", task.as_u64()));
        let arrow = event.task.and_then(|task| self.arrows.remove(&task));
        let mut entry = Entry {
            time: event.time,
            track: Track::Worker(index),
            kind: Type::Begin,
            name: Some(name),
            category: "scheduler",
            beside: task.as_slice(),
            texts: &[],
            flow: arrow.map(Flow::Ends),
            value: None,
        };
        self.packets.event(&entry)?;
        if let Some(task) = self.shown_by(open) {
            entry.track = Track::Task(task);
            entry.name = Some(Name::Known("poll"));
            entry.flow = None;
            self.packets.event(&entry)?;
        }
        Ok(())
    }

    /// It ends the newest of this that it has begun, and with that what is inside of it.
    fn ends(&mut self, event: &Event, what: Open) -> io::Result<()> {
        let open = event.processor.and_then(|index| self.open.get(&index));
        let place = open.and_then(|open| open.iter().rposition(|it| *it == what));
        // Its begin may not have been recorded.
        let (Some(open), Some(place)) = (open, place) else {
            return Ok(());
        };
        for _ in place..open.len() {
            self.ends_if(event, |_| true)?;
        }
        Ok(())
    }

    /// The newest that the thread of a P has begun ends, if there is one and it is to.
    fn ends_if(&mut self, event: &Event, is_to: impl FnOnce(Open) -> bool) -> io::Result<()> {
        let open = event.processor.and_then(|index| self.open.get_mut(&index));
        let ended = open.and_then(|open| open.pop_if(|newest| is_to(*newest)));
        let (Some(index), Some(ended)) = (event.processor, ended) else {
            return Ok(());
        };
        if ended == Open::Block {
            self.blocked -= 1;
            self.count(event, "blocking calls", self.blocked)?;
        }
        self.slice_ends(event.time, Track::Worker(index))?;
        match self.shown_by(ended) {
            Some(task) => self.slice_ends(event.time, Track::Task(task)),
            None => Ok(()),
        }
    }

    /// The task whose own track shows it too: that of a poll, if the task has a name.
    fn shown_by(&self, open: Open) -> Option<Id> {
        match open {
            Open::Poll(Some(task)) if self.packets.name_of(task).is_some() => Some(task),
            _ => None,
        }
    }

    fn poll_begins(&mut self, event: &Event) -> io::Result<()> {
        let name = self.poll_name(event.task);
        self.begins(event, Open::Poll(event.task), name.as_name())
    }

    fn poll_ends(&mut self, event: &Event) -> io::Result<()> {
        self.ends(event, Open::Poll(event.task))
    }

    fn long_poll_begins(&mut self, event: &Event) -> io::Result<()> {
        let (index, tenths) = ((event.number >> 32) as usize, event.number as u32);
        let seen_since = event
            .time
            .saturating_sub(Duration::from_micros(100) * tenths);
        // The end of the last one may not have been recorded.
        self.long_poll_ends(index, seen_since)?;
        let (is_open, ended) = self.long.entry(index).or_default();
        *is_open = true;
        let begin = seen_since.max(*ended);
        *ended = begin;
        let name = self.poll_name(event.task);
        let task = event.task.map(|task| ("task", task.as_u64()));
        self.packets.event(&Entry {
            time: begin,
            track: Track::LongPolls(index),
            kind: Type::Begin,
            name: Some(name.as_name()),
            category: "scheduler",
            beside: task.as_slice(),
            texts: &[],
            flow: None,
            value: None,
        })
    }

    /// The long poll that is open on a P, if one is, ends.
    fn long_poll_ends(&mut self, index: usize, time: Duration) -> io::Result<()> {
        let (is_open, ended) = self.long.entry(index).or_default();
        if !std::mem::take(is_open) {
            return Ok(());
        }
        *ended = time.max(*ended);
        let ended = *ended;
        self.slice_ends(ended, Track::LongPolls(index))
    }

    fn span_begins(&mut self, event: &Event) -> io::Result<()> {
        let mut spans = self.spans.remove(&event.task).unwrap_or_default();
        let number = spans.free.pop().unwrap_or_else(|| {
            spans.next += 1;
            spans.next - 1
        });
        spans.open.push(OpenSpan {
            key: (event.name, event.number),
            number,
            began: event.time,
        });
        self.spans.insert(event.task, spans);
        self.packets.event(&Entry {
            time: event.time,
            track: Track::Spans(event.task, number),
            kind: Type::Begin,
            name: Some(Name::Known(event.name.unwrap_or("span"))),
            category: "span",
            beside: &[],
            texts: &[],
            flow: None,
            value: None,
        })
    }

    fn span_ends(&mut self, event: &Event) -> io::Result<()> {
        let key = (event.name, event.number);
        let Some(mut spans) = self.spans.remove(&event.task) else {
            return Ok(());
        };
        let place = spans.open.iter().rposition(|open| open.key == key);
        let number = place.map(|place| spans.open.remove(place).number);
        spans.free.extend(number);
        // Without an open span, the next one may have any track.
        if !spans.open.is_empty() {
            self.spans.insert(event.task, spans);
        }
        // Its begin may have been overwritten.
        match number {
            Some(number) => self.slice_ends(event.time, Track::Spans(event.task, number)),
            None => Ok(()),
        }
    }
}
