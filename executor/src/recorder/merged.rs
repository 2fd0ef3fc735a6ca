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
//! be the wrong way round. A line of a log and its text (`log.rs`) are in one part.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration, vec};

use super::{
    kinds::{Event, Newest, age, decode, missing},
    log::is_text,
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
    copied: Vec<Words>,
    /// Where the next ones of these are, in the order of time: of a line of a log, the first
    /// record.
    places: vec::IntoIter<u32>,
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
                copied: Vec::new(),
                places: Vec::new().into_iter(),
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
        let mut place = source.places.next();
        let mut is_gap = false;
        while place.is_none() && source.next < source.end {
            let from = source.next.max(source.ring.oldest());
            let until = from.saturating_add(self.part).min(source.end);
            let reading = source.ring.read_between(from, until);
            let lost = reading.overwritten - source.next;
            is_gap |= lost > 0;
            self.overwritten += lost;
            source.copied = reading.records;
            // A line is shorter than a whole part. So a part that is torn may be left empty, and
            // the next one is not.
            let may_be_empty = (source.copied.len() as u64) < self.part;
            if until < source.end {
                source.leave_half_a_line(&self.newest, may_be_empty);
            }
            source.next = reading.overwritten + source.copied.len() as u64;
            source.sort(&self.newest);
            place = source.places.next();
        }
        source.head = place.map(|place| {
            let records = &source.copied[place as usize..];
            decode(records, source.processor, &self.newest)
        });
        if is_gap {
            // If all the rest is lost: its last record was there when the reading began.
            let began = self.newest.began();
            let since = source.head.as_ref().map_or(began, |event| event.time);
            self.whole_since = self.whole_since.max(since);
        }
        if let Some(event) = &source.head {
            self.heads.push(Reverse((event.time, at)));
        }
    }
}

impl Source<'_> {
    /// Leaves a line of a log that is not whole for the next part.
    fn leave_half_a_line(&mut self, newest: &Newest, may_be_empty: bool) {
        let last = self.copied.iter().rposition(|words| !is_text(words));
        if let Some(last) = last.filter(|&last| last > 0 || may_be_empty)
            && missing(&self.copied[last..], newest) > 0
        {
            self.copied.truncate(last);
        }
    }

    /// Puts the events of a part into the order of time.
    fn sort(&mut self, newest: &Newest) {
        let copied = &self.copied;
        let first = |&place: &u32| !is_text(&copied[place as usize]);
        let mut places: Vec<u32> = (0..copied.len() as u32).filter(first).collect();
        places.sort_by_key(|&place| Reverse(age(copied[place as usize], newest)));
        self.places = places.into_iter();
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
