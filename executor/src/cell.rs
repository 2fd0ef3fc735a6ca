//! The cell of a task: its state in one word, the future, the output, and the rights to them.
//!
//! | file | has |
//! | --- | --- |
//! | `state.rs` | the word |
//! | `raw.rs` | the cell, and how it is run |
//! | `reference.rs` | wakers |
//! | `join_cell.rs`, `joiner.rs` | the handle's side |
//! | `live.rs` | the table of all live tasks |
//! | `lost.rs` | which of them can never wake |
//! | `traced.rs` | where it is suspended |
//! | `scheduler.rs` | all that a task knows of its scheduler: one table of functions |
//! | `carried.rs` | where an abort of a `spawn_pinned` goes |
//! | `meta.rs`, `id.rs` | its priority, name and place; its number |
//! | `account.rs` | what it did so far |
//! | `link.rs` | its place in the global queue, or since when it is idle |
//! | `failure.rs` | how it ended without an output |
//! | `console.rs` | what tokio-console shows of it; empty without the feature `console` |
//! | `depth.rs` | whose task-locals a thread sees |
//!
//! What users call is in `task/`.

mod account;
mod carried;
pub(crate) mod console;
pub(crate) mod depth;
mod failure;
mod id;
mod join_cell;
pub(crate) mod joiner;
mod link;
pub(crate) mod live;
mod lost;
mod meta;
mod raw;
mod reference;
mod scheduler;
pub(crate) mod state;
pub(crate) mod traced;

pub use self::account::TaskAccount;
pub(crate) use self::depth::ScopeBarrier;
pub use self::id::Id;
pub use self::raw::quietly;
pub(crate) use self::{
    account::{Lane, LaneWord},
    carried::Carried,
    failure::{Failure, discard},
    join_cell::JoinCell,
    lost::find as find_lost,
    meta::{DEFAULT_PRIORITY, Extra},
    raw::{Birth, Ended, Header, Outcome, Parts, Task, drop_waker_quietly, report, wake_quietly},
    reference::{AbortRef, TaskRef, task_of},
    scheduler::{Functions, Place, SchedulerHandle},
};
