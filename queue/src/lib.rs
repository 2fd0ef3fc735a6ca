//! Where runnable tasks wait: the queues of a processor, and the one that all share.
//!
//! | queue | file | put by | taken by |
//! | --- | --- | --- | --- |
//! | runnext | `runnext.rs` | its owner | its owner; a thief in round four (I8) |
//! | LRQ, the local run queue | `local.rs` | its owner | its owner; thieves, half at a time (I4) |
//! | the fork deque | `forked.rs` | its owner | its owner, the newest; thieves, the oldest |
//! | GRQ, the global run queue | `grq.rs`: two of `global.rs` | any thread | any worker, a fair batch at a time |
//! | ordered queues, of a P and shared | `ordered.rs` | its owner; any thread | the highest first; thieves, the upper half |
//!
//! The module [`ordered`] is for users: its queue can be used without a runtime. All else is for
//! `ws-executor`, hidden from the documentation, and may change at any time.
//!
//! # A queue owns what is in it
//!
//! A queue of `T` takes items by value and gives them back by value, each exactly once (S2).
//! Inside, an item is one word ([`Item::into_raw`]), because a thief has to read it before it knows
//! that it may have it, and only a word can be read like that (see `local.rs`). So a runnable task
//! is in one place (I1), and the compiler sees to it: code that holds the `T` holds the task.
//!
//! Several items that move together travel as a [`Batch`] or a [`List`] (`chain.rs`), linked
//! through a word that each item brings along ([`Linked`]), so no queue ever allocates.
//!
//! No code in this package parks or wakes a thread, reads the clock or calls into user code. Which
//! thread has to be woken after a push is the scheduler's business.
//!
//! # Where it is checked
//!
//! `models/` drives these types with loom; the mutants that have to fail there are patches in
//! `mutants/`. `tests.rs` compares each queue with a simple one, under random operations and under
//! real threads.

mod chain;
mod forked;
mod global;
mod grq;
#[cfg(ws_lines)]
#[doc(hidden)]
pub mod lines;
mod local;
pub mod ordered;
#[doc(hidden)]
pub mod rng;
mod runnext;
mod slot;
#[doc(hidden)]
pub mod sync;

#[cfg(all(test, not(ws_loom)))]
#[path = "../../executor/tests/common/scale.rs"]
mod scale;
#[cfg(all(test, not(any(ws_fuzz, ws_loom))))]
mod steps;
#[cfg(ws_fuzz)]
#[doc(hidden)]
pub mod steps;
#[cfg(all(test, not(ws_loom)))]
mod tests;

#[cfg(all(test, ws_loom))]
mod models;

use std::{ops::Deref, ptr::NonNull};

#[doc(hidden)]
pub use self::{
    chain::{Batch, Link, List},
    forked::{ForkDeque, ForkStealer, fork_deque},
    global::GlobalQueue,
    grq::GlobalRunQueue,
    local::{CAPACITY, LocalQueue, Steal, Stealer, local_queue},
    ordered::{Ordered, OrderedLocal, OrderedShared, OrderedStealer, ordered_local},
    runnext::{RunNext, RunNextStealer, Token, run_next},
};

/// Something a queue can hold: it fits into one word, and may be taken by another thread.
///
/// # Safety
///
/// - The pointer that `into_raw` gives may go to one `from_raw`, on any thread, and until then
///   stays the pointer of this item alone.
#[doc(hidden)]
#[expect(
    unsafe_code,
    reason = "the contract that the islands of this package build on"
)]
pub unsafe trait Item: Send + Sized {
    /// Turns the item into its word. The holder of the word owns the item.
    fn into_raw(self) -> NonNull<()>;

    /// Turns the word back into the item.
    ///
    /// # Safety
    ///
    /// - `raw` comes from [`Item::into_raw`] of the same type, and is given back once.
    unsafe fn from_raw(raw: NonNull<()>) -> Self;
}

/// An [`Item`] with room for one pointer: a queue links it to the next through that.
///
/// # Safety
///
/// - `next` gives what `set_next` was last given for the same item, and no two items share that
///   place. No other code writes it between `into_raw` and `from_raw`.
#[doc(hidden)]
#[expect(
    unsafe_code,
    reason = "the contract that the islands of this package build on"
)]
pub unsafe trait Linked: Item {
    /// What the item that `raw` stands for is linked to.
    ///
    /// # Safety
    ///
    /// - `raw` comes from [`Item::into_raw`] of this type, and was not given back yet.
    /// - The caller owns the item, and has linked it.
    unsafe fn next(raw: NonNull<()>) -> Option<NonNull<()>>;

    /// Links it to `next`, or to nothing.
    ///
    /// # Safety
    ///
    /// - `raw` comes from [`Item::into_raw`] of this type, and was not given back yet.
    /// - The caller owns the item.
    unsafe fn set_next(raw: NonNull<()>, next: Option<NonNull<()>>);
}

/// A value with its cache lines to itself: two of them, because x86-64 fetches lines in pairs.
#[doc(hidden)]
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
