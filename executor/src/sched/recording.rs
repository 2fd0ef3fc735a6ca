//! What the recorder is told of workers and of the runtime, and what it tells. See `recorder.rs`.

use super::{Shared, Worker, inject::newest_id, processor::Peer};
use crate::{
    cell::{Header, Id, Outcome, Task},
    recorder::{
        Event, EventKind, Level, Map, Merged, NewEvents, RecordedTask, Recorder, Recording,
        Subject, began, log::Line,
    },
};

impl Worker {
    #[inline(always)]
    pub(crate) fn recorder(&self) -> &Recorder {
        self.shared().recorder()
    }

    /// Notes that a poll begins, at so many ticks.
    pub(super) fn note_begin(&self, task: &Task, ticks: u64) {
        let header = task.header();
        if let Some(name) = header.name() {
            self.note_name(header, name, ticks);
        }
        self.write_at(ticks, EventKind::Run, header.id().as_u64());
    }

    /// Notes how the task is called, if that is due; see `recorder/named.rs`.
    #[cold]
    fn note_name(&self, header: &Header, name: &str, ticks: u64) {
        let (ring, task) = (&self.peer().ring, header.id().as_u64());
        if self.p.sampling.named.is_due(task, ring) {
            let line = Line::of_task(name, header.location());
            self.recorder().write_name(ring, ticks, task, &line);
        }
    }

    /// Notes that the poll has ended whose begin was noted.
    pub(super) fn note_end(&self, task: u64, outcome: &Outcome, ticks: u64) {
        let kind = match outcome {
            Outcome::Idle => EventKind::Idle,
            Outcome::Requeue(_) => EventKind::Requeue,
            Outcome::Done(_) => EventKind::Done,
        };
        self.write_at(ticks, kind, task);
    }

    fn write_at(&self, ticks: u64, kind: EventKind, task: u64) {
        self.recorder()
            .write_at(&self.peer().ring, ticks, kind, task, 0);
    }

    /// Notes something that this thread does.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(&self, kind: EventKind, task: impl Subject, number: u64) {
        self.write(kind, task.number(), number);
    }

    pub(crate) fn write(&self, kind: EventKind, task: u64, number: u64) {
        let clock = self.shared().time.clock();
        self.recorder()
            .write(&self.peer().ring, clock, kind, task, number);
    }

    /// Writes a line of a log.
    #[cfg(feature = "tracing-layer")]
    pub(crate) fn write_line(&self, task: u64, line: &Line) {
        let clock = self.shared().time.clock();
        self.recorder()
            .write_line(&self.peer().ring, clock, task, line);
    }
}

impl Shared {
    #[inline(always)]
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.telling.recorder
    }

    /// Notes something, on any thread.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(&self, kind: EventKind, task: impl Subject, number: u64) {
        let task = task.number();
        (self.config.above.worker_here)(self, &mut |worker| match worker {
            Some(worker) => worker.write(kind, task, number),
            None => self.write_elsewhere(kind, task, number),
        });
    }

    /// The time as a record has it.
    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        self.recorder().ticks(self.time.clock())
    }

    /// Notes in the account of a task when it was woken, on the thread that is about to queue it.
    #[cold]
    pub(crate) fn time_wake(&self, header: &Header) {
        header.account().woken(self.ticks());
    }

    /// Writes what happens on a thread without a P.
    pub(crate) fn write_elsewhere(&self, kind: EventKind, task: u64, number: u64) {
        let clock = self.time.clock();
        self.recorder().write_elsewhere(clock, kind, task, number);
    }

    /// Writes a line of a log on a thread without a P.
    #[cfg(feature = "tracing-layer")]
    pub(crate) fn write_line_elsewhere(&self, task: u64, line: &Line) {
        let clock = self.time.clock();
        self.recorder().write_line_elsewhere(clock, task, line);
    }

    /// From now on this much is recorded.
    pub(crate) fn record(&self, level: Level) {
        self.recorder().set_level(level);
        self.watch_if_full();
    }

    fn watch_if_full(&self) {
        if self.recorder().takes(Level::Full) {
            self.watch_all();
        }
    }

    /// What is recorded now.
    pub(crate) fn recorded_level(&self) -> Level {
        self.recorder().level()
    }

    /// One more viewer wants all to be recorded, or one that did does not any more.
    pub(crate) fn record_for_viewer(&self, wants_all: bool) {
        self.recorder().set_viewer(wants_all);
        self.watch_if_full();
    }

    /// The events since the last call with this cursor; see [`Recorder::since`].
    pub(crate) fn events_since(&self, cursor: &mut Vec<u64>, most: usize) -> NewEvents {
        let peers: Vec<_> = self.all_peers().collect();
        let rings = peers.iter().map(|peer| &peer.ring);
        let clock = self.time.clock();
        self.recorder()
            .since(clock, newest_id(), rings, cursor, most as u64)
    }

    /// What there is.
    pub(crate) fn recording(&self) -> Recording {
        let peers: Vec<_> = self.all_peers().collect();
        let mut merged = self.merged(&peers, usize::MAX);
        let mut tasks = self.recorded_tasks();
        let events: Vec<_> = merged.by_ref().collect();
        for (id, task) in events.iter().filter_map(Event::named) {
            tasks.entry(id).or_insert(task);
        }
        Recording {
            events,
            overwritten: merged.overwritten(),
            whole_since: merged.whole_since(),
            began: began(self.time.clock()),
            tasks,
        }
    }

    /// The events that there are, of these Ps and of threads without a P. `most` is how many
    /// records are copied at a time.
    pub(super) fn merged<'a>(&'a self, peers: &'a [&Peer], most: usize) -> Merged<'a> {
        let rings = peers.iter().map(|peer| (peer.index, &peer.ring));
        let clock = self.time.clock();
        self.recorder().merged(clock, newest_id(), rings, most)
    }

    /// The tasks that are alive, by their numbers.
    pub(super) fn recorded_tasks(&self) -> Map<Id, RecordedTask> {
        let mut tasks = Map::default();
        self.for_each_live(|task| {
            let header = task.header();
            let known = RecordedTask {
                name: header.name().map(str::to_owned),
                location: header.location(),
            };
            tasks.insert(header.id(), known);
        });
        tasks
    }
}

/// The number of a [`Timers`](EventKind::Timers) record: `count` timers were fired at `now`, and
/// the first of them was due at `first`.
pub(super) fn fired(count: usize, first: u64, now: u64) -> u64 {
    let late_us = now.saturating_sub(first) / 1000;
    late_us.min(u64::from(u32::MAX)) << 32 | count as u64
}
