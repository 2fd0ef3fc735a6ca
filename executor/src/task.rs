//! Tasks: spawning, joining, aborting, yielding.
//!
//! A task is a future in a cell of its own, with its state in one word. See [`spawn`] and
//! [`JoinHandle`].

mod builder;
mod compute;
mod current;
mod fork;
mod join;
mod join_set;
mod local;
mod local_set;
mod pinned;
mod priority;
mod queue;
mod yield_now;

pub(crate) use self::builder::{
    can_pin_here, fork_at, spawn_at, spawn_blocking_on, spawn_local_on, spawn_on,
};
pub use self::{
    builder::{Builder, spawn, spawn_blocking, spawn_local, spawn_pinned},
    compute::{Compute, compute},
    coop::consume_budget,
    current::{id, name, try_id},
    fork::{Fork, fork},
    join::{AbortHandle, AbortOnDrop, JoinError, JoinHandle},
    join_set::JoinSet,
    local::{AccessError, LocalKey, TaskLocalFuture},
    local_set::{LocalEnterGuard, LocalSet, LocalSpawner},
    priority::Priority,
    yield_now::{YieldNow, should_yield, yield_if_due, yield_now},
};
#[doc(hidden)]
pub use self::{
    current::fresh_id as __fresh_id,
    local::Slot as __Slot,
    queue::{Spawner, TaskQueue},
};
#[doc(hidden)]
pub use crate::cell::console::HidesNext as __HidesNext;
#[doc(inline)]
pub use crate::coop;
pub use crate::{
    budget::{Unconstrained, unconstrained},
    cell::Id,
};
