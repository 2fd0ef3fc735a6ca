//! A recording as a trace of Perfetto, which <https://ui.perfetto.dev> shows.
//!
//! # What is where
//!
//! | track | what |
//! | --- | --- |
//! | one for each P | slices: polls, sleeps, blocking calls. Moments: what else its thread did |
//! | *long polls* of a P | a slice for each, from when the monitor saw it first |
//! | one for each task with a mark or a span, at level full also for each with a name | its polls, if it has a name; its marks |
//! | *spans* of a task | a slice for each span |
//! | *no worker* | what happened on other threads |
//! | counters | tasks in the global queue and in the local ones, threads in blocking calls, sockets that came at once |
//!
//! An arrow goes to a poll from the wake before it, or from the spawn. There is none from a moment
//! before [`Recording::whole_since`]: what came between may have been overwritten.
//!
//! # How it is written
//!
//! In one pass, with a packet for each event, and nothing is kept but what is open. So the writer
//! takes no more memory for a longer recording. A track is described before its first event.
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
//! around it, or, if it is a sleep or a long poll, when the next thing begins.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    time::{Duration, UNIX_EPOCH},
};

use super::{
    kinds::{Event, EventKind, Recording},
    protobuf::Message,
};
use crate::cell::Id;

/// The numbers of fields that are used, by message: from Perfetto's
/// `protos/perfetto/trace/perfetto_trace.proto`, which is the same for all versions.
mod field {
    pub(super) const TRACE_PACKET: u64 = 1;

    pub(super) mod packet {
        pub(in super::super) const CLOCK_SNAPSHOT: u64 = 6;
        pub(in super::super) const TIMESTAMP: u64 = 8;
        pub(in super::super) const SEQUENCE_ID: u64 = 10;
        pub(in super::super) const TRACK_EVENT: u64 = 11;
        pub(in super::super) const INTERNED_DATA: u64 = 12;
        pub(in super::super) const SEQUENCE_FLAGS: u64 = 13;
        pub(in super::super) const TRACK_DESCRIPTOR: u64 = 60;
    }

    pub(super) mod clocks {
        pub(in super::super) const CLOCK: u64 = 1;
        pub(in super::super) const PRIMARY: u64 = 2;
        pub(in super::super) const ID: u64 = 1;
        pub(in super::super) const TIMESTAMP: u64 = 2;
    }

    pub(super) mod track {
        pub(in super::super) const UUID: u64 = 1;
        pub(in super::super) const NAME: u64 = 2;
        pub(in super::super) const PROCESS: u64 = 3;
        pub(in super::super) const PARENT: u64 = 5;
        pub(in super::super) const COUNTER: u64 = 8;
        pub(in super::super) const CHILD_ORDERING: u64 = 11;
        pub(in super::super) const RANK: u64 = 12;
        pub(in super::super) const PROCESS_PID: u64 = 1;
        pub(in super::super) const PROCESS_NAME: u64 = 6;
    }

    pub(super) mod event {
        pub(in super::super) const CATEGORY_IIDS: u64 = 3;
        pub(in super::super) const ANNOTATIONS: u64 = 4;
        pub(in super::super) const TYPE: u64 = 9;
        pub(in super::super) const NAME_IID: u64 = 10;
        pub(in super::super) const TRACK: u64 = 11;
        pub(in super::super) const COUNTER_VALUE: u64 = 30;
        pub(in super::super) const FLOWS: u64 = 47;
        pub(in super::super) const ENDED_FLOWS: u64 = 48;
        pub(in super::super) const ANNOTATION_NAME_IID: u64 = 1;
        pub(in super::super) const ANNOTATION_UINT: u64 = 3;
    }

    pub(super) mod interned {
        pub(in super::super) const CATEGORIES: u64 = 1;
        pub(in super::super) const NAMES: u64 = 2;
        pub(in super::super) const ANNOTATION_NAMES: u64 = 3;
        pub(in super::super) const IID: u64 = 1;
        pub(in super::super) const TEXT: u64 = 2;
    }
}

/// All packets are of one sequence, which keeps the interned texts.
const SEQUENCE: u64 = 1;
/// The first packet: nothing is interned yet.
const CLEARED: u64 = 1;
/// The others rely on what is interned.
const NEEDS_INTERNED: u64 = 2;
/// `CLOCK_BOOTTIME`: what Perfetto takes timestamps to be of, if they do not say.
const BOOTTIME: u64 = 6;
const REALTIME: u64 = 1;
/// The tracks below one are ordered by their ranks.
const EXPLICIT: u64 = 3;

/// What an event is on its track.
#[derive(Clone, Copy)]
enum Type {
    Begin = 1,
    End = 2,
    Moment = 3,
    Counter = 4,
}

/// What has a track. The order is that of the page.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Track {
    Process,
    Counter(&'static str),
    Worker(usize),
    LongPolls(usize),
    NoWorker,
    Task(Id),
    /// One of those for the spans of a task, or of none.
    Spans(Option<Id>, u64),
}

impl Track {
    /// Its place below its parent: an `int32`.
    fn rank(self) -> u64 {
        match self {
            Self::Process => 0,
            Self::Counter(_) => 1,
            Self::Worker(index) => 2 + 2 * index as u64,
            Self::LongPolls(index) => 3 + 2 * index as u64,
            Self::NoWorker => 1 << 20,
            // In the order of their numbers, as far as that goes.
            Self::Task(id) => (1 << 21) + id.as_u64().min(1 << 30),
            Self::Spans(..) => i32::MAX as u64,
        }
    }
}

/// A text that has a number in the trace.
#[derive(Clone, Copy)]
enum Text {
    Name,
    Category,
    Annotation,
}

/// What is on the track of a P at the moment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// A poll of this task.
    Poll(Option<Id>),
    Sleep,
    Block,
}

/// Its task, its name and its number.
type SpanKey = (Option<Id>, Option<&'static str>, u64);

/// An event that is to be written.
struct Entry<'a> {
    time: Duration,
    track: Track,
    kind: Type,
    name: Option<&'a str>,
    category: &'static str,
    /// Numbers beside it.
    beside: &'a [(&'static str, u64)],
    /// The arrow that begins here, or ends here.
    flow: Option<(u64, u64)>,
    value: Option<u64>,
}

struct Writer<'a, W> {
    recording: &'a Recording,
    out: W,
    packet: Message,
    /// By [`Text`].
    texts: [HashMap<String, u64>; 3],
    tracks: HashMap<Track, u64>,
    /// What is open on the track of each P, the newest last.
    open: BTreeMap<usize, Vec<Open>>,
    /// The arrows that lead to the next poll of a task.
    arrows: HashMap<Id, u64>,
    flows: u64,
    /// The open spans, the newest last, each with the number of its track.
    spans: HashMap<SpanKey, Vec<u64>>,
    /// The numbers of tracks for spans that no span has at the moment, and the next new one.
    free: HashMap<Option<Id>, (Vec<u64>, u64)>,
    /// Whether a long poll is open on a P, and when that begins or the last one there ended.
    long: HashMap<usize, (bool, Duration)>,
    /// Blocking calls that are open on all tracks.
    blocked: u64,
}

/// Writes all of it.
pub(super) fn write(recording: &Recording, out: impl io::Write) -> io::Result<()> {
    let mut writer = Writer {
        recording,
        out,
        packet: Message::default(),
        texts: Default::default(),
        tracks: HashMap::new(),
        open: BTreeMap::new(),
        arrows: HashMap::new(),
        flows: 0,
        spans: HashMap::new(),
        free: HashMap::new(),
        long: HashMap::new(),
        blocked: 0,
    };
    writer.begin()?;
    for event in &recording.events {
        writer.event(event)?;
    }
    writer.out.flush()
}

impl<W: io::Write> Writer<'_, W> {
    // --- packets ---

    /// Writes a packet.
    fn packet(&mut self, write: impl FnOnce(&mut Message)) -> io::Result<()> {
        let mut packet = std::mem::take(&mut self.packet);
        packet.clear();
        packet.number(field::packet::SEQUENCE_ID, SEQUENCE);
        write(&mut packet);
        let mut head = Message::default();
        head.bytes_head(field::TRACE_PACKET, packet.as_bytes().len());
        self.out.write_all(head.as_bytes())?;
        self.out.write_all(packet.as_bytes())?;
        self.packet = packet;
        Ok(())
    }

    /// The packet that all others rely on: what the clock was when the runtime was built.
    fn begin(&mut self) -> io::Result<()> {
        let began = self.recording.began.duration_since(UNIX_EPOCH);
        let began = began.unwrap_or_default().as_nanos() as u64;
        self.packet(|packet| {
            packet.number(field::packet::SEQUENCE_FLAGS, CLEARED);
            packet.message(field::packet::CLOCK_SNAPSHOT, |snapshot| {
                for (clock, time) in [(BOOTTIME, 0), (REALTIME, began)] {
                    snapshot.message(field::clocks::CLOCK, |it| {
                        it.number(field::clocks::ID, clock);
                        it.number(field::clocks::TIMESTAMP, time);
                    });
                }
                snapshot.number(field::clocks::PRIMARY, BOOTTIME);
            });
        })
    }

    /// The number of a track. Its first use describes it.
    fn track(&mut self, track: Track) -> io::Result<u64> {
        if let Some(&uuid) = self.tracks.get(&track) {
            return Ok(uuid);
        }
        let parent = match track {
            Track::Process => None,
            Track::LongPolls(index) => Some(Track::Worker(index)),
            Track::Spans(Some(task), _) => Some(Track::Task(task)),
            _ => Some(Track::Process),
        };
        let parent = parent.map(|parent| self.track(parent)).transpose()?;
        let uuid = self.tracks.len() as u64 + 1;
        self.tracks.insert(track, uuid);
        let name = match track {
            Track::Process => None,
            Track::Counter(name) => Some(name.to_owned()),
            Track::Worker(index) => Some(format!("P {index}")),
            Track::LongPolls(_) => Some("long polls".to_owned()),
            Track::NoWorker => Some("no worker".to_owned()),
            Track::Task(id) => Some(match self.name_of(id) {
                Some(name) => format!("{name} (task {id})"),
                None => format!("task {id}"),
            }),
            Track::Spans(..) => Some("spans".to_owned()),
        };
        self.packet(|packet| {
            packet.message(field::packet::TRACK_DESCRIPTOR, |descriptor| {
                use field::track;
                descriptor.number(track::UUID, uuid);
                if let Some(parent) = parent {
                    descriptor.number(track::PARENT, parent);
                }
                if let Some(name) = name {
                    descriptor.bytes(track::NAME, name.as_bytes());
                }
                match track {
                    Track::Process => {
                        descriptor.message(track::PROCESS, |process| {
                            process.number(track::PROCESS_PID, std::process::id().into());
                            process.bytes(track::PROCESS_NAME, program().as_bytes());
                        });
                        descriptor.number(track::CHILD_ORDERING, EXPLICIT);
                    }
                    Track::Counter(_) => descriptor.message(track::COUNTER, |_| ()),
                    _ => {}
                }
                descriptor.number(track::RANK, track.rank());
            });
        })?;
        Ok(uuid)
    }

    /// Writes an event of a track.
    fn entry(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let uuid = self.track(entry.track)?;
        let mut new = Vec::new();
        let name = entry.name.map(|name| self.text(Text::Name, name, &mut new));
        let category = entry
            .name
            .map(|_| self.text(Text::Category, entry.category, &mut new));
        let beside: Vec<_> = entry
            .beside
            .iter()
            .map(|&(name, value)| (self.text(Text::Annotation, name, &mut new), value))
            .collect();
        self.packet(|packet| {
            use field::event;
            packet.number(field::packet::TIMESTAMP, entry.time.as_nanos() as u64);
            packet.number(field::packet::SEQUENCE_FLAGS, NEEDS_INTERNED);
            if !new.is_empty() {
                packet.message(field::packet::INTERNED_DATA, |interned| {
                    for (text, number, what) in new {
                        interned.message(text.field(), |it| {
                            it.number(field::interned::IID, number);
                            it.bytes(field::interned::TEXT, what.as_bytes());
                        });
                    }
                });
            }
            packet.message(field::packet::TRACK_EVENT, |it| {
                it.number(event::TYPE, entry.kind as u64);
                it.number(event::TRACK, uuid);
                if let Some(name) = name {
                    it.number(event::NAME_IID, name);
                }
                if let Some(category) = category {
                    it.number(event::CATEGORY_IIDS, category);
                }
                for (name, value) in beside {
                    it.message(event::ANNOTATIONS, |annotation| {
                        annotation.number(event::ANNOTATION_NAME_IID, name);
                        annotation.number(event::ANNOTATION_UINT, value);
                    });
                }
                if let Some((field, flow)) = entry.flow {
                    it.fixed(field, flow);
                }
                if let Some(value) = entry.value {
                    it.number(event::COUNTER_VALUE, value);
                }
            });
        })
    }

    /// The number of a text. A new one is added to `new`.
    fn text(&mut self, text: Text, what: &str, new: &mut Vec<(Text, u64, String)>) -> u64 {
        let texts = &mut self.texts[text as usize];
        if let Some(&number) = texts.get(what) {
            return number;
        }
        let number = texts.len() as u64 + 1;
        texts.insert(what.to_owned(), number);
        new.push((text, number, what.to_owned()));
        number
    }

    // --- what becomes of an event ---

    fn name_of(&self, task: Id) -> Option<&str> {
        self.recording.tasks.get(&task)?.name.as_deref()
    }

    /// What a poll of a task is called: polls of one kind of tasks have one name.
    fn poll_name(&self, task: Id) -> String {
        match self.recording.tasks.get(&task) {
            None => "poll".to_owned(),
            Some(known) => match &known.name {
                Some(name) => name.clone(),
                None => known.location.to_string(),
            },
        }
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        use EventKind as Kind;
        let track = event.processor.map_or(Track::NoWorker, Track::Worker);
        match event.kind {
            Kind::Run => self.poll_begins(event),
            Kind::Idle | Kind::Requeue | Kind::Done => self.poll_ends(event),
            Kind::Park => self.begins(event, Open::Sleep, "sleeps"),
            Kind::Unpark => self.ends(event, Open::Sleep),
            Kind::Block => self.begins(event, Open::Block, "blocking call"),
            Kind::Return => self.ends(event, Open::Block),
            Kind::Spawn | Kind::Fork | Kind::Wake => {
                self.flows += 1;
                if let Some(task) = event.task
                    && event.time >= self.recording.whole_since
                {
                    self.arrows.insert(task, self.flows);
                }
                let flow = (field::event::FLOWS, self.flows);
                self.moment(event, track, Some(flow))
            }
            Kind::LongPoll => self.long_poll_begins(event),
            Kind::LongPollEnd => self.long_poll_ends(event, event.number as usize, event.time),
            Kind::Queued => {
                self.count(event, "global queue", event.number >> 32)?;
                self.count(event, "local queues", u64::from(event.number as u32))
            }
            Kind::Netpoll => {
                self.count(event, "sockets that came", event.number)?;
                self.moment(event, track, None)
            }
            Kind::Mark => self.moment(event, event.task.map_or(track, Track::Task), None),
            Kind::SpanBegin => self.span_begins(event),
            Kind::SpanEnd => self.span_ends(event),
            _ => self.moment(event, track, None),
        }
    }

    /// An event without a name: the end of a slice.
    fn write(&mut self, event: &Event, track: Track, kind: Type) -> io::Result<()> {
        self.entry(&Entry {
            time: event.time,
            track,
            kind,
            name: None,
            category: "",
            beside: &[],
            flow: None,
            value: None,
        })
    }

    fn moment(&mut self, event: &Event, track: Track, flow: Option<(u64, u64)>) -> io::Result<()> {
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
        self.entry(&Entry {
            time: event.time,
            track,
            kind: Type::Moment,
            name: Some(event.name.unwrap_or(&kind)),
            category: if event.name.is_some() {
                "mark"
            } else {
                "scheduler"
            },
            beside: &beside,
            flow,
            value: None,
        })
    }

    fn count(&mut self, event: &Event, name: &'static str, value: u64) -> io::Result<()> {
        self.entry(&Entry {
            time: event.time,
            track: Track::Counter(name),
            kind: Type::Counter,
            name: None,
            category: "",
            beside: &[],
            flow: None,
            value: Some(value),
        })
    }

    /// The thread of a P begins something.
    fn begins(&mut self, event: &Event, open: Open, name: &str) -> io::Result<()> {
        let Some(index) = event.processor else {
            return Ok(());
        };
        // Its end was not recorded: nothing begins in a sleep.
        self.ends_if(event, |newest| newest == Open::Sleep)?;
        self.open.entry(index).or_default().push(open);
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
            flow: arrow.map(|arrow| (field::event::ENDED_FLOWS, arrow)),
            value: None,
        };
        self.entry(&entry)?;
        if let Some(task) = self.shown_by(open) {
            entry.track = Track::Task(task);
            entry.name = Some("poll");
            entry.flow = None;
            self.entry(&entry)?;
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
        self.write(event, Track::Worker(index), Type::End)?;
        match self.shown_by(ended) {
            Some(task) => self.write(event, Track::Task(task), Type::End),
            None => Ok(()),
        }
    }

    /// The task whose own track shows it too: that of a poll, if the task has a name.
    fn shown_by(&self, open: Open) -> Option<Id> {
        match open {
            Open::Poll(Some(task)) if self.name_of(task).is_some() => Some(task),
            _ => None,
        }
    }

    fn poll_begins(&mut self, event: &Event) -> io::Result<()> {
        let name = event.task.map(|task| self.poll_name(task));
        let name = name.as_deref().unwrap_or("poll");
        self.begins(event, Open::Poll(event.task), name)
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
        self.long_poll_ends(event, index, seen_since)?;
        let (is_open, ended) = self.long.entry(index).or_default();
        *is_open = true;
        let begin = seen_since.max(*ended);
        *ended = begin;
        let name = event.task.map(|task| self.poll_name(task));
        let task = event.task.map(|task| ("task", task.as_u64()));
        self.entry(&Entry {
            time: begin,
            track: Track::LongPolls(index),
            kind: Type::Begin,
            name: Some(name.as_deref().unwrap_or("poll")),
            category: "scheduler",
            beside: task.as_slice(),
            flow: None,
            value: None,
        })
    }

    /// The long poll that is open on a P, if one is, ends.
    fn long_poll_ends(&mut self, event: &Event, index: usize, time: Duration) -> io::Result<()> {
        let (is_open, ended) = self.long.entry(index).or_default();
        if !std::mem::take(is_open) {
            return Ok(());
        }
        *ended = time.max(*ended);
        let ended = Event {
            time: *ended,
            ..*event
        };
        self.write(&ended, Track::LongPolls(index), Type::End)
    }

    fn span_begins(&mut self, event: &Event) -> io::Result<()> {
        let (free, next) = self.free.entry(event.task).or_default();
        let number = free.pop().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        });
        let key = (event.task, event.name, event.number);
        let open = self.spans.entry(key).or_default();
        open.push(number);
        self.entry(&Entry {
            time: event.time,
            track: Track::Spans(event.task, number),
            kind: Type::Begin,
            name: Some(event.name.unwrap_or("span")),
            category: "span",
            beside: &[],
            flow: None,
            value: None,
        })
    }

    fn span_ends(&mut self, event: &Event) -> io::Result<()> {
        let key = (event.task, event.name, event.number);
        let open = self.spans.get_mut(&key);
        // Its begin may have been overwritten.
        let Some(number) = open.and_then(Vec::pop) else {
            return Ok(());
        };
        self.free.entry(event.task).or_default().0.push(number);
        self.write(event, Track::Spans(event.task, number), Type::End)
    }
}

impl Text {
    fn field(self) -> u64 {
        match self {
            Self::Name => field::interned::NAMES,
            Self::Category => field::interned::CATEGORIES,
            Self::Annotation => field::interned::ANNOTATION_NAMES,
        }
    }
}

/// The name of the program.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
