//! What an ordered queue is: a `Vec` that is sorted, the highest first, and the oldest first among
//! equals (O1).

use std::{cmp::Reverse, ops::RangeBounds};

use crate::ordered::{BUCKETS, CAPACITY};

/// A level and an id: sorted, the next one is first.
pub(super) type Row = (Reverse<i64>, usize);

/// What is queued, the next one first.
#[derive(Default)]
pub(super) struct Sorted(pub(super) Vec<Row>);

impl Sorted {
    pub(super) fn push(&mut self, level: i64, id: usize) {
        let row = (Reverse(level), id);
        let at = self.0.partition_point(|other| *other < row);
        self.0.insert(at, row);
    }

    /// The levels that are in use, the lowest first.
    pub(super) fn levels(&self) -> Vec<i64> {
        let mut levels: Vec<i64> = self.0.iter().rev().map(|row| row.0.0).collect();
        levels.dedup();
        levels
    }

    pub(super) fn top(&self) -> Option<i64> {
        self.0.first().map(|row| row.0.0)
    }

    pub(super) fn bottom(&self) -> Option<i64> {
        self.0.last().map(|row| row.0.0)
    }

    pub(super) fn take(&mut self, range: impl RangeBounds<usize>) -> Vec<Row> {
        self.0.drain(range).collect()
    }

    pub(super) fn pop(&mut self) -> Option<usize> {
        (!self.0.is_empty()).then(|| self.0.remove(0).1)
    }

    pub(super) fn pop_lowest(&mut self) -> Option<usize> {
        let lowest = self.0.last()?.0;
        let at = self.0.partition_point(|row| row.0 < lowest);
        Some(self.0.remove(at).1)
    }

    /// What goes out when a push finds the queue full, and whether the new one stays (O2).
    pub(super) fn overflow(&mut self, level: i64) -> Option<(Vec<Row>, bool)> {
        let levels = self.levels();
        let lower = if levels.len() == BUCKETS && !levels.contains(&level) {
            if level < levels[0] {
                // It has no bucket, and leaves those alone that have one.
                return Some((vec![], false));
            }
            let from = levels[BUCKETS / 2];
            let at = self.0.partition_point(|row| row.0.0 >= from);
            self.take(at..)
        } else if self.0.len() == CAPACITY {
            self.take(CAPACITY / 2..)
        } else {
            return None;
        };
        let stays = lower.first().is_some_and(|row| level > row.0.0);
        Some((lower, stays))
    }
}
