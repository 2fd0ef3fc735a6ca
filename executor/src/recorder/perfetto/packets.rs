//! The packets of a trace: what they are made of, and how tracks and texts get their numbers.
//!
//! A text gets a number if it is in the program's source: there are only so many of these. A text
//! that the program makes is written out in each event ([`Name`]). A number would save nothing if
//! the text comes once. And a writer and a reader keep each text that has a number, for the whole
//! trace.
//!
//! The number of a track follows from what it is. So a track whose description is long ago may be
//! described once more, and [`Packets`] need not know all that it has described.

use std::{
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    super::{kinds::RecordedTask, map::Map, protobuf::Message},
    recent::Recent,
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
        pub(in super::super) const NAME: u64 = 23;
        pub(in super::super) const COUNTER_VALUE: u64 = 30;
        pub(in super::super) const FLOWS: u64 = 47;
        pub(in super::super) const ENDED_FLOWS: u64 = 48;
        pub(in super::super) const ANNOTATION_NAME_IID: u64 = 1;
        pub(in super::super) const ANNOTATION_UINT: u64 = 3;
        pub(in super::super) const ANNOTATION_STRING: u64 = 6;
    }

    pub(super) mod interned {
        pub(in super::super) const CATEGORIES: u64 = 1;
        pub(in super::super) const NAMES: u64 = 2;
        pub(in super::super) const ANNOTATION_NAMES: u64 = 3;
        pub(in super::super) const IID: u64 = 1;
        pub(in super::super) const TEXT: u64 = 2;
    }
}

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
pub(super) enum Type {
    Begin = 1,
    End = 2,
    Moment = 3,
    Counter = 4,
}

/// What has a track. The order is that of the page.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Track {
    Process,
    Counter(&'static str),
    Worker(usize),
    LongPolls(usize),
    NoWorker,
    Task(Id),
    /// One of those for the spans of a task, or of none.
    Spans(Option<Id>, u64),
    /// What a host of a simulation sends and gets.
    #[cfg_attr(
        not(any(test, feature = "sim")),
        expect(dead_code, reason = "simulations alone have it")
    )]
    Network,
}

/// The counters, in the order of their numbers.
const COUNTERS: [&str; 4] = [
    "global queue",
    "local queues",
    "sockets that came",
    "blocking calls",
];

impl Track {
    /// Its number, which no other track has: what it is stands in the low three bits.
    fn uuid(self) -> u64 {
        let (what, number) = match self {
            Self::Process => (0, 1),
            Self::Counter(name) => {
                let place = COUNTERS.iter().position(|counter| *counter == name);
                (1, place.expect("each counter has a number") as u64)
            }
            Self::Worker(index) => (2, index as u64),
            Self::LongPolls(index) => (3, index as u64),
            Self::NoWorker => (4, 0),
            Self::Task(id) => (5, id.as_u64()),
            // A task has fewer than 65,536 spans open at a time, or two of them share a track.
            Self::Spans(id, number) => {
                let id = id.map_or(0, Id::as_u64);
                (6, id << 16 | number & u64::from(u16::MAX))
            }
            Self::Network => (7, 0),
        };
        number << 3 | what
    }

    /// Its place below its parent: an `int32`.
    fn rank(self) -> u64 {
        match self {
            Self::Process => 0,
            Self::Counter(_) => 1,
            Self::Worker(index) => 2 + 2 * index as u64,
            Self::LongPolls(index) => 3 + 2 * index as u64,
            Self::NoWorker => 1 << 20,
            Self::Network => (1 << 20) + 1,
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

/// An arrow that begins at an event, or ends there, by its number.
#[derive(Clone, Copy)]
pub(super) enum Flow {
    Begins(u64),
    Ends(u64),
}

/// What an event is called.
#[derive(Clone, Copy)]
pub(super) enum Name<'a> {
    /// A text of the program's source, which may come often.
    Known(&'a str),
    /// One that the program has made: the text of a line of a log, the name of a task.
    Made(&'a str),
}

/// An event that is to be written.
pub(super) struct Entry<'a> {
    pub(super) time: Duration,
    pub(super) track: Track,
    pub(super) kind: Type,
    pub(super) name: Option<Name<'a>>,
    pub(super) category: &'static str,
    /// Numbers beside it.
    pub(super) beside: &'a [(&'static str, u64)],
    /// Texts beside it.
    pub(super) texts: &'a [(&'static str, &'a str)],
    pub(super) flow: Option<Flow>,
    pub(super) value: Option<u64>,
}

/// What is known beside the events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// When the runtime was built, by the clock on the wall.
    pub(crate) began: SystemTime,
    /// The tasks that are alive.
    pub(crate) tasks: &'a Map<Id, RecordedTask>,
    pub(crate) process: Process<'a>,
}

/// Whose trace it is. A file may have those of many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process<'a> {
    /// A file has one of each number.
    pub(crate) number: u16,
    /// None: that of this program.
    pub(crate) name: Option<&'a str>,
    /// What the times of its events are counted from.
    pub(crate) begin: Duration,
}

impl Process<'_> {
    /// This program.
    pub(crate) const THIS: Self = Self {
        number: 0,
        name: None,
        begin: Duration::ZERO,
    };

    /// Its packets are of one sequence, which keeps the interned texts.
    fn sequence(self) -> u64 {
        u64::from(self.number) + 1
    }

    fn pid(self) -> u64 {
        match self.name {
            None => std::process::id().into(),
            Some(_) => u64::from(self.number) + 1,
        }
    }

    /// The number of one of its tracks, which no other process has: a simulation has fewer than
    /// 2^29 tasks.
    fn uuid(self, track: Track) -> u64 {
        u64::from(self.number) << 48 ^ track.uuid()
    }
}

/// Writes packets.
pub(super) struct Packets<'a, W> {
    known: Known<'a>,
    out: W,
    packet: Message,
    /// By [`Text`].
    texts: [Map<String, u64>; 3],
    /// The tracks that were described lately.
    described: Recent<Track, ()>,
    /// Tasks with a name that are not alive, until their end is written.
    named: Recent<Id, RecordedTask>,
}

impl<'a, W: io::Write> Packets<'a, W> {
    /// Begins a trace.
    pub(super) fn new(known: Known<'a>, out: W) -> io::Result<Self> {
        let mut packets = Self {
            known,
            out,
            packet: Message::default(),
            texts: Default::default(),
            described: Recent::default(),
            named: Recent::default(),
        };
        packets.tell_clock()?;
        Ok(packets)
    }

    /// A task, if it was alive, or its name was told.
    pub(super) fn task(&self, task: Id) -> Option<&RecordedTask> {
        let known = self.known.tasks.get(&task);
        known.or_else(|| self.named.get(&task))
    }

    /// Is told the name of a task.
    pub(super) fn name_is(&mut self, task: Id, known: RecordedTask) {
        if !self.known.tasks.contains_key(&task) {
            self.named.insert(task, known);
        }
    }

    /// A task has ended: it needs no name any more.
    pub(super) fn has_ended(&mut self, task: Id) {
        self.named.remove(&task);
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The name of a task, if it has one, and was alive or its name was told.
    pub(super) fn name_of(&self, task: Id) -> Option<&str> {
        self.task(task)?.name.as_deref()
    }

    // --- packets ---

    /// Writes a packet.
    fn packet(&mut self, write: impl FnOnce(&mut Message)) -> io::Result<()> {
        let mut packet = std::mem::take(&mut self.packet);
        packet.clear();
        packet.number(field::packet::SEQUENCE_ID, self.known.process.sequence());
        write(&mut packet);
        let mut head = Message::default();
        head.bytes_head(field::TRACE_PACKET, packet.as_bytes().len());
        self.out.write_all(head.as_bytes())?;
        self.out.write_all(packet.as_bytes())?;
        self.packet = packet;
        Ok(())
    }

    /// Writes a packet with one field.
    pub(super) fn beside(&mut self, number: u64, value: &[u8]) -> io::Result<()> {
        beside(&mut self.out, number, value)
    }

    /// The packet that all others rely on: what the clock was when the runtime was built.
    fn tell_clock(&mut self) -> io::Result<()> {
        let began = self.known.began.duration_since(UNIX_EPOCH);
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
        let process = self.known.process;
        let uuid = process.uuid(track);
        if self.described.renew(&track) {
            return Ok(uuid);
        }
        let parent = match track {
            Track::Process => None,
            Track::LongPolls(index) => Some(Track::Worker(index)),
            Track::Spans(Some(task), _) => Some(Track::Task(task)),
            _ => Some(Track::Process),
        };
        let parent = parent.map(|parent| self.track(parent)).transpose()?;
        self.described.insert(track, ());
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
            Track::Network => Some("network".to_owned()),
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
                        let name = process.name.map_or_else(program, str::to_owned);
                        descriptor.message(track::PROCESS, |it| {
                            it.number(track::PROCESS_PID, process.pid());
                            it.bytes(track::PROCESS_NAME, name.as_bytes());
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
    pub(super) fn event(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let uuid = self.track(entry.track)?;
        let time = self.known.process.begin + entry.time;
        let mut new = Vec::new();
        let number = match entry.name {
            Some(Name::Known(name)) => Some(self.text(Text::Name, name, &mut new)),
            Some(Name::Made(_)) | None => None,
        };
        let category = entry
            .name
            .map(|_| self.text(Text::Category, entry.category, &mut new));
        let beside: Vec<_> = entry
            .beside
            .iter()
            .map(|&(name, value)| (self.text(Text::Annotation, name, &mut new), value))
            .collect();
        let texts: Vec<_> = entry
            .texts
            .iter()
            .map(|&(name, text)| (self.text(Text::Annotation, name, &mut new), text))
            .collect();
        self.packet(|packet| {
            use field::event;
            packet.number(field::packet::TIMESTAMP, time.as_nanos() as u64);
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
                if let Some(number) = number {
                    it.number(event::NAME_IID, number);
                }
                if let Some(Name::Made(name)) = entry.name {
                    it.bytes(event::NAME, name.as_bytes());
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
                for (name, text) in texts {
                    it.message(event::ANNOTATIONS, |annotation| {
                        annotation.number(event::ANNOTATION_NAME_IID, name);
                        annotation.bytes(event::ANNOTATION_STRING, text.as_bytes());
                    });
                }
                match entry.flow {
                    None => {}
                    Some(Flow::Begins(number)) => it.fixed(event::FLOWS, number),
                    Some(Flow::Ends(number)) => it.fixed(event::ENDED_FLOWS, number),
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
}

/// Writes a packet with one field.
pub(super) fn beside(out: &mut impl io::Write, number: u64, value: &[u8]) -> io::Result<()> {
    let mut packet = Message::default();
    packet.bytes_head(number, value.len());
    let mut head = Message::default();
    let length = packet.as_bytes().len() + value.len();
    head.bytes_head(field::TRACE_PACKET, length);
    out.write_all(head.as_bytes())?;
    out.write_all(packet.as_bytes())?;
    out.write_all(value)
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
pub(crate) fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails if a text that the program makes is kept, or if one of its source is written each time.
    #[test]
    fn what_the_program_makes_is_not_kept() {
        let known = Known {
            began: UNIX_EPOCH,
            tasks: &Map::default(),
            process: Process::THIS,
        };
        let mut bytes = Vec::new();
        let mut packets = Packets::new(known, &mut bytes).unwrap();
        for n in 0..1000 {
            let line = format!("line {n}");
            for name in [Name::Known("of the source"), Name::Made(&line)] {
                let entry = Entry {
                    time: Duration::ZERO,
                    track: Track::NoWorker,
                    kind: Type::Moment,
                    name: Some(name),
                    category: "log",
                    beside: &[],
                    texts: &[("target", &line)],
                    flow: None,
                    value: None,
                };
                packets.event(&entry).unwrap();
            }
        }
        let kept = packets.texts.each_ref().map(Map::len);
        assert_eq!(kept, [1, 1, 1]);
        let count = |text: &str| {
            let windows = bytes.windows(text.len());
            windows.filter(|window| *window == text.as_bytes()).count()
        };
        assert_eq!(count("of the source"), 1);
        // Once as the name, and as the target of both.
        assert_eq!(count("line 999"), 3);
    }
}
