//! A runtime's recorder. See the head of `recorder.rs`.

use std::{
    iter,
    sync::atomic::AtomicU64 as StdAtomicU64,
    time::{Duration, SystemTime},
};

use super::{
    kinds::{Event, EventKind, Level, MEANWHILE_TICKS, Newest, decode_all, encode},
    log::Line,
    merged::Merged,
    ring::{RECORD, Ring, SMALL},
    ticks::Ticks,
};
use crate::{
    sync::{
        Mutex,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    timer::Clock,
};

/// See the head of `recorder.rs`.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// No other recorder of the process has it.
    serial: u64,
    /// What follows from `Asked`.
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
    asked: Mutex<Asked>,
}

/// The levels that were asked for. They are apart, so that the program's choice comes back when a
/// viewer has gone, also if the program has changed it meanwhile.
#[derive(Debug)]
struct Asked {
    program: Level,
    /// Viewers, such as the page of `ws::inspect`, that want all there is while they look.
    viewers: usize,
}

/// The events since a reader was there last.
#[derive(Debug, Default)]
pub struct NewEvents {
    /// In the order of time.
    pub events: Vec<Event>,
    /// The Ps that lack older events, and from when on their events are whole again. The older ones
    /// were overwritten, or too many.
    pub gaps: Vec<(Option<usize>, Duration)>,
}

/// The bytes of a worker's ring if a program says nothing: the rings of so many workers take
/// 128 MiB at most.
pub(crate) fn recorder_bytes(workers: usize) -> usize {
    const OF_ONE: usize = 1 << 20;
    const OF_ALL: usize = 128 << 20;
    let share = (OF_ALL / workers.max(1)).min(OF_ONE);
    // A ring is a power of two.
    1 << share.ilog2()
}

impl Recorder {
    /// A recorder with so many bytes for each ring.
    pub(crate) fn new(memory: usize, level: Level, clock: &Clock) -> Self {
        static SERIALS: StdAtomicU64 = StdAtomicU64::new(0);
        let records = memory.div_ceil(RECORD);
        let recorder = Self {
            serial: SERIALS.fetch_add(1, Relaxed),
            level: AtomicU8::new(Level::Off as u8),
            records,
            ticks: Ticks::new(clock),
            elsewhere: Box::new(Elsewhere {
                ring: Ring::new(records),
                writes: Mutex::new(()),
                asked: Mutex::new(Asked {
                    program: Level::Off,
                    viewers: 0,
                }),
            }),
        };
        recorder.set_level(level);
        recorder
    }

    /// Its number among those of the process.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Whether what belongs to a level is recorded now.
    #[inline(always)]
    pub(crate) fn takes(&self, level: Level) -> bool {
        // Ordering: Relaxed, here and below. It carries nothing.
        self.level.load(Relaxed) >= level as u8
    }

    /// The program's choice. Nothing if there is no recorder.
    pub(crate) fn set_level(&self, level: Level) {
        self.ask(|asked| asked.program = level);
    }

    /// One more viewer wants all there is, or one that did does not any more.
    pub(crate) fn set_viewer(&self, wants_all: bool) {
        self.ask(|asked| match wants_all {
            true => asked.viewers += 1,
            false => asked.viewers -= 1,
        });
    }

    fn ask(&self, change: impl FnOnce(&mut Asked)) {
        let mut asked = self.elsewhere.asked.lock();
        change(&mut asked);
        if self.records > 0 {
            let level = match asked.viewers {
                0 => asked.program,
                _ => Level::Full,
            };
            self.level.store(level as u8, Relaxed);
        }
    }

    /// What is recorded now.
    pub(crate) fn level(&self) -> Level {
        [Level::Off, Level::Sparse, Level::Full]
            .into_iter()
            .rev()
            .find(|level| self.takes(*level))
            .unwrap_or_default()
    }

    /// A ring for a P. Those far beyond the number of workers are in use only while threads block,
    /// and there may be hundreds of them: theirs are small.
    pub(crate) fn ring(&self, is_large: bool) -> Ring {
        if is_large {
            Ring::new(self.records)
        } else {
            Ring::new(self.records.min(SMALL))
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

    /// Writes a line of a log on the thread of a P.
    #[cfg(any(test, feature = "tracing-layer"))]
    pub(crate) fn write_line(&self, ring: &Ring, clock: &Clock, task: u64, line: &Line) {
        let head = encode(self.ticks(clock), EventKind::Log, task, line.number());
        line.with_records(head, |records| ring.write_together(records));
    }

    /// The same on another thread.
    #[cfg(any(test, feature = "tracing-layer"))]
    pub(crate) fn write_line_elsewhere(&self, clock: &Clock, task: u64, line: &Line) {
        let _writes = self.elsewhere.writes.lock();
        self.write_line(&self.elsewhere.ring, clock, task, line);
    }

    /// Writes the name of a task whose poll begins on the thread of a P, at so many ticks.
    pub(crate) fn write_name(&self, ring: &Ring, ticks: u64, task: u64, name: &Line) {
        let head = encode(ticks, EventKind::Named, task, name.number());
        name.with_records(head, |records| ring.write_together(records));
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

    /// Its times are those of a time line; see [`Ticks::set_timeline`].
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn set_timeline(&self, timeline: &super::Timeline, begin: u64) {
        self.ticks.set_timeline(timeline, begin);
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

    /// What is needed to read records. `newest` is the id of the newest task now.
    fn newest(&self, clock: &Clock, newest: u64) -> Newest {
        // More are spawned while it reads.
        const MEANWHILE: u64 = 1 << 32;
        Newest {
            id: newest + MEANWHILE,
            ticks: self.ticks.latest(clock).saturating_add(MEANWHILE_TICKS),
            scale: self.ticks.scale(clock),
        }
    }

    /// The events that there are, of the rings of Ps and of threads without a P. `most` is how many
    /// records are copied at a time. `newest` is the id of the newest task now.
    pub(crate) fn merged<'a>(
        &'a self,
        clock: &Clock,
        newest: u64,
        rings: impl ExactSizeIterator<Item = (usize, &'a Ring)>,
        most: usize,
    ) -> Merged<'a> {
        let part = most / (rings.len() + 1);
        let of_ps = rings.map(|(index, ring)| (Some(index), ring));
        let all = of_ps.chain(iter::once((None, &self.elsewhere.ring)));
        Merged::new(all, self.newest(clock, newest), part.max(SMALL) as u64)
    }
}

impl Recorder {
    /// The events since the last call with this cursor, at most `most` of each ring. An empty
    /// cursor begins with all that is there. `rings` are those of the Ps, in the order of their
    /// numbers; `newest` is the id of the newest task now.
    pub(crate) fn since<'a>(
        &self,
        clock: &Clock,
        newest: u64,
        rings: impl Iterator<Item = &'a Ring>,
        cursor: &mut Vec<u64>,
        most: u64,
    ) -> NewEvents {
        let newest = self.newest(clock, newest);
        let mut new = NewEvents::default();
        let of_ps = rings.enumerate().map(|(index, ring)| (Some(index), ring));
        let all = iter::once((None, &self.elsewhere.ring)).chain(of_ps);
        for (at, (processor, ring)) in all.enumerate() {
            if at == cursor.len() {
                cursor.push(0);
            }
            let reading = ring.read_since(cursor[at], most);
            let first = new.events.len();
            new.events
                .extend(decode_all(&reading.records, processor, &newest));
            if reading.overwritten > cursor[at] {
                // If all of it is lost, the gap goes up to now.
                let event = new.events.get(first);
                let until = event.map_or_else(|| newest.began(), |event| event.time);
                new.gaps.push((processor, until));
            }
            cursor[at] = reading.overwritten + reading.records.len() as u64;
        }
        new.events.sort_by_key(|event| event.time);
        new
    }
}

/// When a clock was at nought, by the clock on the wall.
pub(crate) fn began(clock: &Clock) -> SystemTime {
    let since = Duration::from_nanos(clock.now_ns());
    let began = SystemTime::now().checked_sub(since);
    // A virtual clock may be far in the future.
    began.unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails if a viewer's level stays when it has gone, or if the program's choice is lost.
    #[test]
    fn the_programs_level_comes_back() {
        let recorder = Recorder::new(1 << 10, Level::Sparse, &Clock::stopped());
        assert_eq!(recorder.level(), Level::Sparse);
        recorder.set_viewer(true);
        recorder.set_viewer(true);
        assert_eq!(recorder.level(), Level::Full);
        recorder.set_level(Level::Off);
        recorder.set_viewer(false);
        assert_eq!(recorder.level(), Level::Full);
        recorder.set_viewer(false);
        assert_eq!(recorder.level(), Level::Off);
        let none = Recorder::new(0, Level::Full, &Clock::stopped());
        none.set_viewer(true);
        assert_eq!(none.level(), Level::Off);
    }

    // Fails if the bytes of a ring are rounded down, to none at worst.
    #[test]
    fn bytes_are_rounded_up() {
        for (bytes, records) in [(0, 0), (1, 1), (16, 1), (17, 2), (33, 4), (1025, 128)] {
            let recorder = Recorder::new(bytes, Level::Full, &Clock::stopped());
            assert_eq!(recorder.ring(true).capacity(), records, "{bytes}");
        }
    }

    // Fails if an event is told twice or not at all, or if nobody hears of those left out.
    #[test]
    fn a_reader_gets_what_is_new() {
        let clock = Clock::stopped();
        let recorder = Recorder::new(8 * RECORD, Level::Full, &clock);
        let rings = [recorder.ring(true), recorder.ring(true)];
        let write = |of: usize, number| {
            clock.advance(Duration::from_nanos(1));
            recorder.write(&rings[of], &clock, EventKind::Netpoll, 0, number);
        };
        let mut cursor = Vec::new();
        let mut since = |most| {
            let new = recorder.since(&clock, 0, rings.iter(), &mut cursor, most);
            let seen = new.events.iter().map(|it| (it.processor, it.number));
            (seen.collect::<Vec<_>>(), new.gaps)
        };
        write(0, 1);
        write(1, 2);
        write(0, 3);
        recorder.write_elsewhere(&clock, EventKind::Netpoll, 0, 4);
        let all = vec![(Some(0), 1), (Some(1), 2), (None, 4), (Some(0), 3)];
        assert_eq!(since(9), (all, vec![]));
        assert_eq!(since(9), (vec![], vec![]));
        (5..8).for_each(|number| write(1, number));
        let newest = vec![(Some(1), 6), (Some(1), 7)];
        let gap = (Some(1), Duration::from_nanos(5));
        assert_eq!(since(2), (newest, vec![gap]));
    }

    // Fails if a task has the id of one that was there long before.
    #[test]
    fn tasks_that_are_spawned_while_it_reads_have_their_ids() {
        let clock = Clock::stopped();
        let recorder = Recorder::new(8 * RECORD, Level::Full, &clock);
        let ring = recorder.ring(true);
        // A reader knows of ten.
        let ids = [10, 1_000_000];
        for id in ids {
            recorder.write(&ring, &clock, EventKind::Spawn, id, 0);
        }
        let tasks = |events: Vec<Event>| {
            let tasks = events.into_iter().map(|event| event.task.unwrap().as_u64());
            tasks.collect::<Vec<_>>()
        };
        let new = recorder.since(&clock, 10, iter::once(&ring), &mut Vec::new(), 9);
        assert_eq!(tasks(new.events), ids);
        let rings = [(0, &ring)].into_iter();
        let merged = recorder.merged(&clock, 10, rings, SMALL);
        assert_eq!(tasks(merged.collect()), ids);
    }

    /// The numbers of the events that are there when the reader begins, and what it lost.
    fn read_in_parts(
        recorder: &Recorder,
        clock: &Clock,
        rings: &[Ring],
        most: usize,
        mut meanwhile: impl FnMut(usize),
    ) -> (Vec<u64>, u64, Duration) {
        let mut merged = recorder.merged(clock, 0, rings.iter().enumerate(), most);
        let mut seen = Vec::new();
        for event in merged.by_ref() {
            seen.push(event.number);
            meanwhile(seen.len());
        }
        (seen, merged.overwritten(), merged.whole_since())
    }

    // Fails if a part is read twice or not at all, or if the rings are not merged by time.
    #[test]
    fn parts_are_one_whole() {
        for most in [1, 3 * SMALL + 3, usize::MAX] {
            let clock = Clock::stopped();
            let recorder = Recorder::new(4 * SMALL * RECORD, Level::Full, &clock);
            let rings = [recorder.ring(true), recorder.ring(true)];
            let write = |number: u64| {
                clock.advance(Duration::from_nanos(1));
                let kind = EventKind::Netpoll;
                match number % 5 {
                    0 => recorder.write_elsewhere(&clock, kind, 0, number),
                    1 => recorder.write(&rings[0], &clock, kind, 0, number),
                    _ => recorder.write(&rings[1], &clock, kind, 0, number),
                }
            };
            let many = 3 * SMALL as u64;
            (0..many).for_each(write);
            // What is written meanwhile is not told.
            let (seen, lost, since) = read_in_parts(&recorder, &clock, &rings, most, |seen| {
                if seen == 1 {
                    (many..many + 10).for_each(write);
                }
            });
            // In a panic, the numbers would be some pages.
            assert!(seen.into_iter().eq(0..many));
            assert_eq!((lost, since), (0, Duration::ZERO));
        }
    }

    // Fails if a record that was overwritten while others were read is told, or if nobody hears of
    // it.
    #[test]
    fn a_reader_that_is_overtaken_says_so() {
        let clock = Clock::stopped();
        let recorder = Recorder::new(4 * SMALL * RECORD, Level::Full, &clock);
        let rings = [recorder.ring(true)];
        let piece = SMALL as u64;
        let write = |number| {
            clock.advance(Duration::from_nanos(1));
            recorder.write(&rings[0], &clock, EventKind::Netpoll, 0, number);
        };
        (0..4 * piece).for_each(write);
        let read = read_in_parts(&recorder, &clock, &rings, 1, |seen| {
            if seen == 1 {
                (4 * piece..6 * piece).for_each(write);
            }
        });
        let expected: Vec<u64> = (0..piece).chain(2 * piece..4 * piece).collect();
        let whole_since = Duration::from_nanos(2 * piece + 1);
        assert!(read.0 == expected);
        assert_eq!((read.1, read.2), (piece, whole_since));
        // All of it.
        let read = read_in_parts(&recorder, &clock, &rings, 1, |seen| {
            if seen == 1 {
                (0..9 * piece).for_each(write);
            }
        });
        let expected: Vec<u64> = (2 * piece..3 * piece).collect();
        assert!(read.0 == expected);
        assert_eq!(read.1, 2 * piece + 3 * piece);
    }

    #[test]
    fn the_rings_of_a_large_machine_take_no_more_than_those_of_128_workers() {
        let kib = |workers| recorder_bytes(workers) >> 10;
        assert_eq!([1, 2, 128].map(kib), [1024; 3]);
        assert_eq!([129, 256, 500, 1024].map(kib), [512, 512, 256, 128]);
    }

    #[test]
    fn rings_are_large_or_small() {
        let clock = Clock::stopped();
        for (memory, large, small) in [(1 << 20, 1 << 16, SMALL), (64 * RECORD, 64, 64), (0, 0, 0)]
        {
            let recorder = Recorder::new(memory, Level::Full, &clock);
            let records = |is_large| {
                let ring = recorder.ring(is_large);
                let written = if memory == 0 { 0 } else { 3 << 16 };
                for _ in 0..written {
                    recorder.write(&ring, &clock, EventKind::Park, 0, 0);
                }
                ring.read().records.len()
            };
            assert_eq!([records(true), records(false)], [large, small]);
        }
    }
}
