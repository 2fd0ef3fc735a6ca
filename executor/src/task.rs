//! Tasks: spawning, joining, aborting, yielding.
//!
//! A task is a future in a cell of its own, with its state in one word. See [`spawn`] and
//! [`JoinHandle`]. How it is made: `state.rs` (the word), `raw.rs` (the cell, and how it is run),
//! `reference.rs` (wakers), `join_cell.rs` (the handle's side), `live.rs` (the table of all live
//! tasks).

#[cfg(not(ws_loom))]
mod builder;
#[cfg(not(ws_loom))]
pub mod coop;
mod failure;
mod home;
mod id;
#[cfg(not(ws_loom))]
mod join;
mod join_cell;
#[cfg(not(ws_loom))]
mod join_set;
mod joiner;
pub(crate) mod live;
#[cfg(not(ws_loom))]
mod local;
mod meta;
#[cfg(not(ws_loom))]
mod pinned;
mod priority;
mod raw;
mod reference;
pub(crate) mod state;
#[cfg(not(ws_loom))]
mod yield_now;

#[cfg(not(ws_loom))]
pub(crate) use self::builder::{
    can_pin_here, fork_at, spawn_at, spawn_blocking_on, spawn_for_all, spawn_local_on, spawn_on,
};
#[cfg(all(test, ws_loom))]
pub(crate) use self::id::Id;
#[cfg(not(ws_loom))]
pub(crate) use self::local::Apart;
#[cfg(not(ws_loom))]
#[doc(hidden)]
pub use self::local::Slot as __Slot;
#[cfg(not(ws_loom))]
pub use self::{
    builder::{Builder, spawn, spawn_blocking, spawn_local, spawn_pinned},
    coop::consume_budget,
    id::{Id, id, name, try_id},
    join::{AbortHandle, AbortOnDrop, JoinError, JoinHandle},
    join_set::JoinSet,
    local::{AccessError, LocalKey, TaskLocalFuture},
    priority::Priority,
    yield_now::{YieldNow, yield_if_due, yield_now},
};
pub(crate) use self::{
    failure::discard,
    home::{Functions, Home, Place},
    join_cell::JoinCell,
    meta::{DEFAULT_PRIORITY, Extra},
    raw::{Ended, Header, Outcome, Parts, Task, quietly, report, wake_quietly},
    reference::{TaskRef, task_of},
};
#[cfg(not(ws_loom))]
pub use crate::budget::{Unconstrained, should_yield, unconstrained};
#[cfg(not(ws_loom))]
pub use crate::fork_join::{Compute, ForkFuture as Fork};
