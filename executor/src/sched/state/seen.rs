//! What a worker has seen of other Ps; `search.rs` says what for.

use std::cell::RefCell;

use crate::{policy::search::Passed, queue::Token};

/// What the first round of a search saw of a victim.
#[derive(Debug)]
pub(in crate::sched) struct Seen {
    pub(in crate::sched) index: usize,
    pub(in crate::sched) next: Option<Token>,
    pub(in crate::sched) ticks: u64,
}

impl Seen {
    pub(in crate::sched) fn new(index: usize) -> Self {
        Self {
            index,
            next: None,
            ticks: 0,
        }
    }
}

/// What a worker has seen of other Ps. The vectors keep their room from one search to the next.
#[derive(Default)]
pub(in crate::sched) struct SeenOfOthers {
    /// In the first round of a search, a row a victim.
    pub(in crate::sched) victims: RefCell<Vec<Seen>>,
    /// See `Worker::list`.
    pub(in crate::sched) listed: RefCell<Vec<usize>>,
    /// Empty but while that is filled.
    pub(in crate::sched) far: RefCell<Vec<usize>>,
    /// Every P, when this worker last came by with something from the netpoll.
    pub(in crate::sched) passed: RefCell<Vec<Passed>>,
}
