//! The events of all rings in the order of time, read in parts.
//!
//! # Memory
//!
//! Of each ring, one part at a time is copied. The next one is copied when the last one is used up.
//! So a reader needs the memory of a part for each ring, however large the rings are.
//!
//! # What is overwritten meanwhile
//!
//! The events end at those that were there at the begin. Of a ring that fits into a part nothing is
//! lost: it is copied at the begin. Of a larger one, what is overwritten before its part is copied
//! is left out, and [`whole_since`](Merged::whole_since) says so.
//!
//! # The order
//!
//! The time of a poll's end may be earlier than that of the record before it: the clock is read
//! before the task is settled. So a part is sorted. At the border of two parts, two neighbours may
//! be the wrong way round.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration, vec};

use super::{
    kinds::{Event, Newest, age, decode},
    ring::{Ring, Words},
};

/// The events of rings; see the module's head.
#[derive(Debug)]
pub(crate) struct Merged<'a> {
    rings: Vec<Source<'a>>,
    /// The time of the next event of each ring, and the number of the ring.
    heads: BinaryHeap<Reverse<(Duration, usize)>>,
    newest: Newest,
    /// The most records of a part.
    part: u64,
    overwritten: u64,
    whole_since: Duration,
}

/// A ring.
#[derive(Debug)]
struct Source<'a> {
    ring: &'a Ring,
    processor: Option<usize>,
    /// The number of the first record that was not copied yet, and of the first that is not wanted.
    next: u64,
    end: u64,
    copied: vec::IntoIter<Words>,
    head: Option<Event>,
}

impl<'a> Merged<'a> {
    /// Begins to read these rings, each with the number of its P. Of events at the same time, those
    /// of the first ring come first.
    pub(super) fn new(
        rings: impl Iterator<Item = (Option<usize>, &'a Ring)>,
        newest: Newest,
        part: u64,
    ) -> Self {
        let rings: Vec<_> = rings
            .map(|(processor, ring)| Source {
                ring,
                processor,
                next: 0,
                end: ring.written(),
                copied: Vec::new().into_iter(),
                head: None,
            })
            .collect();
        let mut merged = Self {
            heads: BinaryHeap::new(),
            newest,
            part,
            overwritten: 0,
            whole_since: Duration::ZERO,
            rings,
        };
        (0..merged.rings.len()).for_each(|at| merged.step(at));
        merged
    }

    /// How many older events were overwritten, as far as is known.
    pub(crate) fn overwritten(&self) -> u64 {
        self.overwritten
    }

    /// From this time on, since the runtime was built, none was overwritten, as far as is known.
    /// Grows if an event is overwritten before it is read.
    pub(crate) fn whole_since(&self) -> Duration {
        self.whole_since
    }

    /// Goes on to the next event of a ring.
    fn step(&mut self, at: usize) {
        let source = &mut self.rings[at];
        let mut words = source.copied.next();
        let mut is_gap = false;
        while words.is_none() && source.next < source.end {
            let from = source.next.max(source.ring.oldest());
            let until = from.saturating_add(self.part).min(source.end);
            let mut reading = source.ring.read_between(from, until);
            let lost = reading.overwritten - source.next;
            is_gap |= lost > 0;
            self.overwritten += lost;
            source.next = reading.overwritten + reading.records.len() as u64;
            reading
                .records
                .sort_by_key(|words| Reverse(age(*words, &self.newest)));
            source.copied = reading.records.into_iter();
            words = source.copied.next();
        }
        source.head = words.map(|words| decode(words, source.processor, &self.newest));
        if let Some(event) = &source.head {
            if is_gap {
                self.whole_since = self.whole_since.max(event.time);
            }
            self.heads.push(Reverse((event.time, at)));
        }
    }
}

impl Iterator for Merged<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let Reverse((_, at)) = self.heads.pop()?;
        let event = self.rings[at].head.take();
        self.step(at);
        event
    }
}
