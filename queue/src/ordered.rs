//! Ordered work stealing for threads of your own: the queue under the runtime's priorities, without
//! a runtime.
//!
//! A [`Queue`] is what all threads share; it is sorted, and has no bound. Each thread has a
//! [`Local`] besides, which is sorted and bounded, and takes a lock only where it has no room, has
//! nothing to give, or owes the shared queue its turn. Values travel in an [`Entry`], which has a
//! priority: any `i64`, the greater the earlier.
//!
//! # What a pop takes
//!
//! In this order (O1, O3, O4):
//!
//! 1. after [`LOCAL_MAX`] entries of its own in a row, the highest of the shared queue;
//! 2. the highest of its own, the oldest among equals;
//! 3. the highest of the upper half of a random other's, and the rest of that half for later;
//! 4. the highest of the shared queue, and a share of what is there for later.
//!
//! Each entry comes out once. The order is exact among what a thread holds itself, but for rule 1.
//! Among all it is near: a thread that has something of its own does not look at what the others
//! have. The scheduler of `ws` is made of the same parts and does look, at every 61st tick, for a
//! thread may be stuck in a long poll.
//!
//! Nothing here waits. A pop that finds nothing says so, and how a thread sleeps until there is
//! something is its own affair. An entry that is on its way from one thread to another is in
//! neither's hands for a moment, so `None` does not mean that all is done.
//!
//! # What it costs
//!
//! At the time of writing a [`Local`] holds 256 entries of up to eight levels. A push to one of
//! these is a few stores, a pop one compare-and-swap. Where each entry has a level of its own, most
//! go by way of the shared queue, which is a map under a mutex. Each entry is a box, which may be
//! pushed again.
//!
//! # Examples
//!
//! ```
//! use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
//! use ws_queue::ordered::{Entry, Queue};
//!
//! let (queue, locals) = Queue::new(4);
//! for number in 0..1_000 {
//!     queue.push(Entry::new(number % 3, number));
//! }
//! let sum = AtomicUsize::new(0);
//! std::thread::scope(|scope| {
//!     for local in locals {
//!         let sum = &sum;
//!         scope.spawn(move || {
//!             while let Some(entry) = local.pop() {
//!                 sum.fetch_add(entry.into_value() as usize, Relaxed);
//!             }
//!         });
//!     }
//! });
//! assert_eq!(sum.into_inner(), 999 * 1_000 / 2);
//! ```
//!
//! # How it is made
//!
//! In the runtime a task of another priority than the default one does not go into `runnext` or the
//! LRQ but in here, so that a worker takes the highest first (O1). What follows says P for the
//! queue of one thread, and task for an entry.
//!
//! ```text
//!            a P's own: 8 buckets of one level each, in order      shared: any number of levels
//!
//! owner pops   40  a b c                                           40  x y
//!   from here  10  d                        full: the lower half   10  z
//!              -5  e f g h i j k ------------------------------->  -5  k l m n o p q r s ...
//!                  ^                                               ^
//!                  thieves take the upper half                     the highest, for a P without any,
//!                                                                  and first after 60 tasks of one's own
//! ```
//!
//! | file | has |
//! | --- | --- |
//! | `local.rs` | `OrderedLocal`, the bounded queue of one P, and its `OrderedStealer` |
//! | `shared.rs` | `OrderedShared`, the unbounded one that all share |
//! | `alone.rs` | both put together, as a queue that can be used without a runtime: [`Queue`] |
//!
//! Where they stand in a worker's step, and how the lowest priority gets its turn:
//! `executor/src/sched/priority.rs`.
//!
//! # Why buckets
//!
//! A *bucket* is a level and a ring like the LRQ (`src/local.rs`): its owner pushes by two stores,
//! any thread takes by one compare-and-swap, and no thread waits for another. Eight buckets make a
//! queue. It is sorted because the owner keeps its buckets in order, and first in, first out among
//! equals because a ring is. So the protocol between threads is the ring's, with its essay, its
//! models and its mutants. What this adds are hints: the level of a bucket, and the highest level
//! of a P (`OrderedStealer::top`). Only the owner writes them. A thief that reads an old one takes
//! tasks in another order than it meant to. It does not take other tasks, or one twice, and it puts
//! what it has taken where each task's own priority belongs.
//!
//! Programs have few levels at a time: above, default, below. One that gives each task its own (a
//! deadline, say) fills the buckets with the eight highest. The rest is in the shared queue: a map
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

mod alone;
mod local;
mod shared;

#[cfg(all(test, not(ws_loom)))]
mod tests;

pub use self::alone::{Entry, LOCAL_MAX, Local, Queue};
#[doc(hidden)]
pub use self::{
    local::{BUCKETS, CAPACITY, OrderedLocal, OrderedStealer, ordered_local},
    shared::OrderedShared,
};

use super::Linked;

/// An item that has a priority: the greater, the earlier.
#[doc(hidden)]
pub trait Ordered: Linked {
    /// Its priority now. It may be another one the next time.
    fn priority(&self) -> i64;

    /// Whether its place is in an ordered queue at all.
    fn is_ordered(&self) -> bool {
        true
    }
}
