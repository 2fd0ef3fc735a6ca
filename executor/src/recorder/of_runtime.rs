//! A runtime's recorder. See the head of `recorder.rs`.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use super::{
    kinds::{EventKind, Level, Newest, RecordedTask, Recording, decode, encode},
    ring::{PIECE, RECORD, Ring},
    ticks::Ticks,
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
    elsewhere: Box<Elsewhere>,
}

/// A ring that many threads write.
#[derive(Debug)]
struct Elsewhere {
    ring: Ring,
    /// The thread that writes holds it. A reader needs no lock.
    writes: Mutex<()>,
}

/// What was read so far.
#[derive(Debug)]
pub(crate) struct Reader {
    newest: Newest,
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
            elsewhere: Box::new(Elsewhere {
                ring: Ring::new(records),
                writes: Mutex::new(()),
            }),
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

    /// A ring for a P. Those beyond the number of workers are in use only while threads block, and
    /// there may be hundreds of them: theirs are small.
    pub(crate) fn ring(&self, is_a_workers: bool) -> Ring {
        if is_a_workers {
            Ring::new(self.records)
        } else {
            Ring::new(self.records.min(PIECE))
        }
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
        self.write_at(ring, self.ticks(clock), kind, task, number);
    }

    /// Writes what happened on the thread of a P, at so many ticks.
    pub(crate) fn write_at(
        &self,
        ring: &Ring,
        ticks: u64,
        kind: EventKind,
        task: u64,
        number: u64,
    ) {
        ring.write(encode(ticks, kind, task, number));
    }

    /// The time as a record has it.
    #[inline]
    pub(crate) fn ticks(&self, clock: &Clock) -> u64 {
        self.ticks.now(clock)
    }

    /// So many ticks in nanoseconds.
    pub(crate) fn span_ns(&self, clock: &Clock, ticks: u64) -> u64 {
        self.ticks.span_ns(clock, ticks)
    }

    /// Writes what happens on another thread.
    pub(crate) fn write_elsewhere(&self, clock: &Clock, kind: EventKind, task: u64, number: u64) {
        let _writes = self.elsewhere.writes.lock();
        self.write(&self.elsewhere.ring, clock, kind, task, number);
    }

    /// Begins to read. `newest` is the id of the newest task now.
    pub(crate) fn reader(&self, clock: &Clock, newest: u64) -> Reader {
        // More are spawned, and time goes on, while it reads.
        const MEANWHILE: u64 = 1 << 32;
        const MEANWHILE_TICKS: u64 = 1 << 50;
        Reader {
            newest: Newest {
                id: newest + MEANWHILE,
                ticks: self.ticks.now(clock).saturating_add(MEANWHILE_TICKS),
                scale: self.ticks.scale(clock),
            },
            recording: Recording {
                events: Vec::new(),
                overwritten: 0,
                whole_since: Duration::ZERO,
                began: began(clock),
                tasks: HashMap::new(),
            },
        }
    }

    /// What was read, and what happened on threads without a P, with the tasks that are alive.
    pub(crate) fn end(&self, mut reader: Reader, tasks: HashMap<Id, RecordedTask>) -> Recording {
        reader.read(&self.elsewhere.ring, None);
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
        let newest = self.newest;
        let records = reading.records.into_iter();
        let events = &mut self.recording.events;
        let first = events.len();
        events.extend(records.map(|words| decode(words, processor, &newest)));
        if reading.overwritten > 0
            && let Some(first) = events.get(first)
        {
            self.recording.whole_since = self.recording.whole_since.max(first.time);
        }
    }
}

/// When a clock was at nought, by the clock on the wall.
fn began(clock: &Clock) -> SystemTime {
    let since = Duration::from_nanos(clock.now_ns());
    let began = SystemTime::now().checked_sub(since);
    // A virtual clock may be far in the future.
    began.unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_workers_ring_is_large() {
        let clock = Clock::stopped();
        for (memory, of_worker, of_others) in
            [(1 << 20, 1 << 16, PIECE), (64 * RECORD, 64, 64), (0, 0, 0)]
        {
            let recorder = Recorder::new(memory, Level::Full, &clock);
            let records = |is_a_workers| {
                let ring = recorder.ring(is_a_workers);
                let written = if memory == 0 { 0 } else { 3 << 16 };
                for _ in 0..written {
                    recorder.write(&ring, &clock, EventKind::Park, 0, 0);
                }
                ring.read().records.len()
            };
            assert_eq!([records(true), records(false)], [of_worker, of_others]);
        }
    }
}
