//! Queues for tasks that matter more than others, or less: ordered work stealing.
//!
//! A task of another priority than the default one does not go into `runnext` or the LRQ but in
//! here, so that a worker takes the highest first (O1).
//!
//! ```text
//!            a P's own: 8 lanes of one level each, in order      shared: any number of levels
//!
//! owner pops   40  a b c                                           40  x y
//!   from here  10  d                        full: the lower half   10  z
//!              -5  e f g h i j k ------------------------------->  -5  k l m n o p q r s ...
//!                  ^                                               ^
//!                  thieves take the upper half                     the highest, for who has nothing,
//!                                                                  and first after 60 tasks of one's own
//! ```
//!
//! | file | has |
//! | --- | --- |
//! | `local.rs` | [`OrderedLocal`], the bounded queue of one P, and its [`OrderedStealer`] |
//! | `shared.rs` | [`OrderedShared`], the unbounded one that all share |
//! | `alone.rs` | both put together, as a queue that can be used without a runtime: `ws_executor::ordered` |
//!
//! Where they stand in `find_runnable`, and how the lowest priority gets its turn:
//! `sched/priority.rs`.
//!
//! # Why lanes
//!
//! A *lane* is a level and a ring like the LRQ (`queue/local.rs`): its owner pushes by two stores,
//! any thread takes by one compare-and-swap, and no thread waits for another. Eight lanes make a
//! queue. It is sorted because the owner keeps its lanes in order, and first in, first out among
//! equals because a ring is. So the protocol between threads is the ring's, with its essay, its
//! models and its mutants. What this adds are hints: the level of a lane, and the highest level of
//! a P ([`OrderedStealer::top`]). Only the owner writes them. A thief that reads an old one takes
//! tasks in another order than it meant to. It does not take other tasks, or one twice, and it puts
//! what it has taken where each task's own priority belongs.
//!
//! Programs have few levels at a time: above, default, below. One that gives each task its own (a
//! deadline, say) fills the lanes with the eight highest. The rest is in the shared queue: a map
//! under a short mutex. That is what a locked heap would have been from the start.
//!
//! # What was rejected
//!
//! Nanoseconds for one push and one pop of four levels, by `ws-bench --only ordered_queue --quick`
//! on two busy cores: the median of 5 rounds; in each round the three take turns.
//!
//! | | 1 thread | 2 threads | 8 threads |
//! | --- | --- | --- | --- |
//! | this | 32.6 | 33.1 | 38.7 |
//! | `open-coroutine-core` 0.7 | 104 | 105 | 109 |
//! | `Mutex<BinaryHeap>` | 51.8 | 56.4 | 73.0 |
//!
//! With a thousand levels and one thread a locked heap is ahead: 48 ns of CPU against 116.
//!
//! - *A mutex for each P*, with sorted lists inside. Uncontended it costs two exchanges more for
//!   each operation; contended, an owner waits for a thief that was preempted, and I9 would not
//!   hold here.
//! - *A skip map from levels to rings* (`open-coroutine`'s choice): a search through nodes for each
//!   push and pop, where eight numbers in a line do; and levels that were used once stay and are
//!   looked through by each pop. (`crossbeam-skiplist` 0.1.3 also leaks on range iteration.)
//! - *A bitmap of fixed levels*: any `i64` is a priority, and which eight are in use is not known
//!   before.
//! - *Length counters* that both sides write: they are either contended or wrong. A ring knows its
//!   length.
//! - *New tasks of a full queue to the shared one*: the most urgent task would wait behind all of
//!   its P's.
//!
//! # Where it is checked
//!
//! `models::ordered`, with the mutants `ordered_*`; `ordered/tests.rs` against a sorted `Vec`, and
//! under real threads.

#[cfg(not(ws_loom))]
pub mod alone;
mod local;
mod shared;

#[cfg(all(test, not(ws_loom)))]
mod tests;

#[cfg(all(any(test, ws_fuzz), not(ws_loom)))]
pub(crate) use local::{CAPACITY, LANES};
pub(crate) use local::{OrderedLocal, OrderedStealer, ordered_local};
pub(crate) use shared::OrderedShared;

use super::Linked;

/// An item that has a priority: the greater, the earlier.
pub(crate) trait Ordered: Linked {
    /// Its priority now. It may be another one the next time.
    fn priority(&self) -> i64;

    /// Whether its place is in an ordered queue at all.
    fn is_ordered(&self) -> bool {
        true
    }
}
