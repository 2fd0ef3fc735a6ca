//! The disk of a node: a list of writes in memory. A crash loses those that are not synced.
//!
//! It is the same code on each simulator, since only ws and turmoil (there unstable) simulate disks
//! that lose writes.
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{rng::Rng, wire::Entry};
use crate::seam;

/// What a node finds on its disk when it begins.
#[derive(Clone, Default)]
pub struct Image {
    pub term: u64,
    pub vote: Option<usize>,
    pub log: Vec<Entry>,
}

/// One change of it.
pub enum Write {
    Vote {
        term: u64,
        vote: Option<usize>,
    },
    /// So many entries are left.
    Cut(usize),
    Entry(Entry),
}

/// The disk. Clones are the same one.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<Inner>>);

struct Inner {
    durable: Image,
    pending: VecDeque<Write>,
    /// Writes that were made, and those of them that are durable.
    written: u64,
    synced: u64,
    /// The longest time of a sync, in microseconds.
    slowest: u64,
    rng: Rng,
}

impl Disk {
    pub fn new(mut rng: Rng) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            durable: Image::default(),
            pending: VecDeque::new(),
            written: 0,
            synced: 0,
            slowest: [1_000, 5_000, 40_000][rng.below(3) as usize],
            rng,
        })))
    }

    pub fn write(&self, write: Write) {
        let mut inner = self.0.lock().unwrap();
        inner.pending.push_back(write);
        inner.written += 1;
    }

    /// Makes durable what was written before. It takes 0.2 to 40 ms.
    pub async fn sync(&self) {
        let (goal, time) = {
            let mut inner = self.0.lock().unwrap();
            let longer = inner.slowest - 200;
            (inner.written, 200 + inner.rng.below(longer))
        };
        seam::sleep(Duration::from_micros(time)).await;
        let mut inner = self.0.lock().unwrap();
        while inner.synced < goal {
            inner.keep();
        }
    }

    /// The power fails: of what was not synced the first writes are kept, or none, or all.
    pub fn crash(&self) {
        let mut inner = self.0.lock().unwrap();
        let pending = inner.pending.len() as u64;
        for _ in 0..inner.rng.below(pending + 1) {
            inner.keep();
        }
        inner.pending.clear();
        inner.synced = inner.written;
    }

    pub fn read(&self) -> Image {
        self.0.lock().unwrap().durable.clone()
    }
}

impl Inner {
    fn keep(&mut self) {
        let write = self.pending.pop_front().expect("it was not synced");
        self.synced += 1;
        match write {
            Write::Vote { term, vote } => (self.durable.term, self.durable.vote) = (term, vote),
            Write::Cut(len) => self.durable.log.truncate(len),
            Write::Entry(entry) => self.durable.log.push(entry),
        }
    }
}
