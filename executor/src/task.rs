//! Tasks: spawning, joining, aborting, yielding.
//!
//! A task is a future in a cell of its own, with its state in one word. See [`spawn`](crate::spawn) and
//! [`JoinHandle`]. How it is made: `state.rs` (the word), `raw.rs` (the cell), `live.rs` (the table of
//! all live tasks).

#[cfg(not(ws_loom))]
mod builder;
mod home;
mod id;
#[cfg(not(ws_loom))]
mod join;
pub(crate) mod live;
mod raw;
mod state;
#[cfg(not(ws_loom))]
mod yield_now;

#[cfg(not(ws_loom))]
pub(crate) use self::builder::{spawn_at, spawn_blocking_on, spawn_on};
#[cfg(not(ws_loom))]
pub use self::{
    builder::{Builder, spawn, spawn_blocking, spawn_local, spawn_pinned},
    id::Id,
    join::{AbortHandle, AbortOnDrop, JoinError, JoinHandle},
    yield_now::{YieldNow, yield_if_due, yield_now},
};
pub(crate) use self::{
    home::{Functions, Home, Place},
    raw::{Ended, Extra, JoinCell, Outcome, Parts, Task, TaskRef, wake_quietly},
};
#[cfg(not(ws_loom))]
pub use crate::budget::{Unconstrained, should_yield, unconstrained};
