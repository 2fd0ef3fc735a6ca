//! A runtime's recorder. See the head of `recorder.rs`.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use super::{
    kinds::{EventKind, Level, RecordedTask, Recording, decode, encode},
    ring::{RECORD, Ring},
    ticks::{Scale, Ticks},
};
use crate::{
    cell::Id,
    sync::{
        Mutex,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    timer::Clock,
};

/// See the head of `recorder.rs`.
#[derive(Debug)]
pub(crate) struct Recorder {
    level: AtomicU8,
    /// Records of each ring; 0: there is no recorder.
    records: usize,
    ticks: Ticks,
    /// What happens on threads without a P. In a box, since all threads read the level.
    elsewhere: Box<Mutex<Ring>>,
}

/// What was read so far.
#[derive(Debug)]
pub(crate) struct Reader {
    scale: Scale,
    newest: u64,
    recording: Recording,
}

impl Recorder {
    /// A recorder with so many bytes for each ring.
    pub(crate) fn new(memory: usize, level: Level, clock: &Clock) -> Self {
        let records = memory / RECORD;
        let recorder = Self {
            level: AtomicU8::new(Level::Off as u8),
            records,
            ticks: Ticks::new(clock),
            elsewhere: Box::new(Mutex::new(Ring::new(records))),
        };
        recorder.set_level(level);
        recorder
    }

    /// Whether what belongs to a level is recorded now.
    #[inline(always)]
    pub(crate) fn takes(&self, level: Level) -> bool {
        // Ordering: Relaxed, here and below. It carries nothing.
        self.level.load(Relaxed) >= level as u8
    }

    /// Nothing if there is no recorder.
    pub(crate) fn set_level(&self, level: Level) {
        if self.records > 0 {
            self.level.store(level as u8, Relaxed);
        }
    }

    /// A ring for a P.
    pub(crate) fn ring(&self) -> Ring {
        Ring::new(self.records)
    }

    /// Writes what happens on the thread of a P.
    pub(crate) fn write(
        &self,
        ring: &Ring,
        clock: &Clock,
        kind: EventKind,
        task: u64,
        number: u64,
    ) {
        ring.write(encode(self.ticks.now(clock), kind, task, number));
    }

    /// Writes what happens on another thread.
    pub(crate) fn write_elsewhere(&self, clock: &Clock, kind: EventKind, task: u64, number: u64) {
        let ring = self.elsewhere.lock();
        self.write(&ring, clock, kind, task, number);
    }

    /// Begins to read. `newest` is the id of the newest task now.
    pub(crate) fn reader(&self, clock: &Clock, newest: u64) -> Reader {
        // More are spawned while it reads.
        const MEANWHILE: u64 = 1 << 32;
        Reader {
            scale: self.ticks.scale(clock),
            newest: newest + MEANWHILE,
            recording: Recording {
                events: Vec::new(),
                overwritten: 0,
                began: SystemTime::now() - Duration::from_nanos(clock.now_ns()),
                tasks: HashMap::new(),
            },
        }
    }

    /// What was read, and what happened on threads without a P, with the tasks that are alive.
    pub(crate) fn end(&self, mut reader: Reader, tasks: HashMap<Id, RecordedTask>) -> Recording {
        reader.read(&self.elsewhere.lock(), None);
        let mut recording = reader.recording;
        recording.tasks = tasks;
        recording.events.sort_by_key(|event| event.time);
        recording
    }
}

impl Reader {
    /// Reads a ring.
    pub(crate) fn read(&mut self, ring: &Ring, processor: Option<usize>) {
        let reading = ring.read();
        self.recording.overwritten += reading.overwritten;
        let (scale, newest) = (self.scale, self.newest);
        let records = reading.records.into_iter();
        self.recording
            .events
            .extend(records.map(|words| decode(words, processor, newest, |it| scale.ns(it))));
    }
}
