//! What is in the queues: items with consecutive numbers that count their own end.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use crate::ordered::Entry;

/// Counts its own end.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) id: usize,
    pub(crate) ended: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.ended.fetch_add(1, Relaxed);
    }
}

/// An item for any queue.
pub(crate) type Job = Entry<Counted>;

/// Makes jobs, and counts those that have ended.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) made: usize,
    pub(crate) ended: Arc<AtomicUsize>,
}

impl Source {
    /// A job of the default priority.
    pub(crate) fn next(&mut self) -> Job {
        self.next_at(0)
    }

    pub(crate) fn next_at(&mut self, level: i64) -> Job {
        let id = self.made;
        self.made += 1;
        let ended = self.ended.clone();
        Entry::new(level, Counted { id, ended })
    }

    pub(crate) fn take(&mut self, count: usize) -> Vec<Job> {
        (0..count).map(|_| self.next()).collect()
    }

    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Relaxed)
    }

    /// S2: these are left, and no others.
    pub(crate) fn assert_left(&self, left: usize) {
        assert_eq!(self.ended(), self.made - left, "S2");
    }
}

pub(crate) fn id(job: Job) -> usize {
    job.value().id
}

pub(crate) fn ids(jobs: impl IntoIterator<Item = Job>) -> Vec<usize> {
    jobs.into_iter().map(id).collect()
}
