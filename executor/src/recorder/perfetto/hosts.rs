//! A trace of the hosts of a simulation: a process for each, on one time line.
//!
//! # How it is written
//!
//! A host is written part by part: what the recorder of each of its machines kept (a host that has
//! crashed has had more than one), and what it has sent and got. The parts are written one after
//! the other, so packets are not in the order of time. Perfetto sorts them.
//!
//! *Each has numbers of its own*: a process its tracks and its sequence of packets (`packets.rs`),
//! and an arrow its number. Those of wakes are counted through all parts. Those of messages have
//! one more bit.
//!
//! A machine ends with its recording: what is open there ends at that time. Else the next machine
//! of the host would be drawn inside of it.

use std::{
    io,
    time::{Duration, SystemTime},
};

use super::{
    super::map::Map,
    Known, Process, Recording, Writer,
    packets::{self, Entry, Flow, Name, Packets, Track, Type},
};

/// Half of the time between two records of a [`Timeline`](crate::sim::Timeline).
const MESSAGE_NS: u64 = 50;

/// In the numbers of arrows of messages.
const MESSAGE: u64 = 1 << 63;

/// Writes a trace of many hosts for Perfetto.
#[derive(Debug)]
pub(crate) struct Hosts<W> {
    out: W,
    began: SystemTime,
    /// Arrows of wakes so far.
    wakes: u64,
}

/// A host: a process of the trace.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// No other host has it.
    pub number: u16,
    /// Its name.
    pub name: &'a str,
}

/// What a host sends or gets, or what happens to it.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// When, since the begin of the simulation.
    pub time: Duration,
    /// What, in words.
    pub text: &'a str,
    /// The arrow of a message.
    pub arrow: Option<Arrow>,
}

/// An arrow that begins or ends at a moment, by its number. No other arrow has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrow {
    /// A message leaves.
    Begins(u64),
    /// It arrives.
    Ends(u64),
}

impl<W: io::Write> Hosts<W> {
    /// Begins a trace. `began` is what the calendar shows at the begin of the simulation.
    pub(crate) fn new(out: W, began: SystemTime) -> Self {
        Self {
            out,
            began,
            wakes: 0,
        }
    }

    /// Writes a packet of its own; see [`Writer::beside`].
    pub(crate) fn beside(&mut self, field: u64, value: &[u8]) -> io::Result<()> {
        packets::beside(&mut self.out, field, value)
    }

    /// Writes what a machine of a host has recorded. It was made at `begin`, and it was
    /// stopped, or the recording was taken, at `end`. Both are counted from the begin of the
    /// simulation.
    pub(crate) fn machine(
        &mut self,
        host: Host<'_>,
        (begin, end): (Duration, Duration),
        recording: &Recording,
    ) -> io::Result<()> {
        let known = Known {
            began: self.began,
            tasks: &recording.tasks,
            process: host.process(begin),
        };
        let mut writer = Writer::new(known, &mut self.out)?;
        writer.flows = self.wakes;
        writer.whole_since(recording.whole_since);
        for event in &recording.events {
            writer.event(event)?;
        }
        self.wakes = writer.flows;
        writer.stop(end.saturating_sub(begin))
    }

    /// Writes what a host has sent and got, and what has happened to it, in the order of time.
    pub(crate) fn moments<'m>(
        &mut self,
        host: Host<'_>,
        moments: impl IntoIterator<Item = Moment<'m>>,
    ) -> io::Result<()> {
        let known = Known {
            began: self.began,
            tasks: &Map::default(),
            process: host.process(Duration::ZERO),
        };
        let mut packets = Packets::new(known, &mut self.out)?;
        for Moment { time, text, arrow } in moments {
            let mut entry = Entry {
                time,
                track: Track::Network,
                kind: Type::Begin,
                name: Some(Name::Made(text)),
                category: "network",
                beside: &[],
                texts: &[],
                flow: arrow.map(|arrow| match arrow {
                    Arrow::Begins(number) => Flow::Begins(MESSAGE | number),
                    Arrow::Ends(number) => Flow::Ends(MESSAGE | number),
                }),
                value: None,
            };
            packets.event(&entry)?;
            entry.time += Duration::from_nanos(MESSAGE_NS);
            (entry.kind, entry.name, entry.flow) = (Type::End, None, None);
            packets.event(&entry)?;
        }
        packets.flush()
    }
}

impl<'a> Host<'a> {
    fn process(self, begin: Duration) -> Process<'a> {
        Process {
            number: self.number,
            name: Some(self.name),
            begin,
        }
    }
}

impl<W: io::Write> Writer<'_, W> {
    /// Writes the end of all that is open.
    fn stop(mut self, time: Duration) -> io::Result<()> {
        for (index, open) in std::mem::take(&mut self.open) {
            for what in open.into_iter().rev() {
                self.slice_ends(time, Track::Worker(index))?;
                if let Some(task) = self.shown_by(what) {
                    self.slice_ends(time, Track::Task(task))?;
                }
            }
        }
        self.end_spans(time, |_| true)?;
        self.packets.flush()
    }
}
