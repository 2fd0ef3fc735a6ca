//! The scheduler: G, M and P, and the permits.
//!
//! | Go | here | file |
//! | --- | --- | --- |
//! | G | `Task` | `cell/raw.rs` |
//! | M | [`Worker`]: a thread that has a P | `worker.rs` |
//! | P | `Processor`, and its public face `Peer` | `processor.rs` |
//! | what a P limits | [`Permit`](crate::permit::idle::Permit): `workers` of them | `permit/idle.rs` |
//! | `sched` | [`Shared`] | `shared.rs` |
//!
//! The protocols of sleep, wake and shutdown are one layer below, in `permit/`: they know no task.
//! The runtime brings `Shared` and [`Worker`] to them.

#[cfg(not(ws_loom))]
mod affinity;
#[cfg(not(ws_loom))]
pub(crate) mod config;
#[cfg(not(ws_loom))]
mod contention;
#[cfg(not(ws_loom))]
pub(crate) mod dump;
#[cfg(not(ws_loom))]
pub(crate) mod find;
#[cfg(not(ws_loom))]
pub(crate) mod foreign_wakers;
#[cfg(not(ws_loom))]
mod handed;
#[cfg(not(ws_loom))]
mod inject;
#[cfg(not(ws_loom))]
mod keeper_life;
#[cfg(not(ws_loom))]
mod looks;
#[cfg(not(ws_loom))]
pub(crate) mod lost;
#[cfg(not(ws_loom))]
pub(crate) mod measure;
#[cfg(not(ws_loom))]
pub(crate) mod paused;
#[cfg(not(ws_loom))]
pub(crate) mod priority;
#[cfg(not(ws_loom))]
pub(crate) mod processor;
#[cfg(not(ws_loom))]
pub(crate) mod push;
#[cfg(not(ws_loom))]
mod recording;
#[cfg(not(ws_loom))]
mod refusals;
#[cfg(not(ws_loom))]
mod root;
#[cfg(not(ws_loom))]
mod search;
#[cfg(not(ws_loom))]
mod shared;
#[cfg(not(ws_loom))]
pub(crate) mod shown;
#[cfg(not(ws_loom))]
pub(crate) mod shutdown;
#[cfg(not(ws_loom))]
mod signals;
#[cfg(all(test, not(ws_loom)))]
mod sim;
#[cfg(not(ws_loom))]
pub(crate) mod sim_threads;
#[cfg(all(unix, not(ws_loom)))]
pub(crate) mod snapshot_signal;
#[cfg(not(ws_loom))]
pub(crate) mod snapshots;
#[cfg(not(ws_loom))]
pub(crate) mod stall;
#[cfg(all(any(test, feature = "sim"), not(ws_loom)))]
pub(crate) mod stepped;
#[cfg(all(test, not(ws_loom)))]
mod tests;
#[cfg(not(ws_loom))]
mod threads;
#[cfg(not(ws_loom))]
mod timers;
#[cfg(not(ws_loom))]
pub(crate) mod traces;
#[cfg(not(ws_loom))]
mod wait;
#[cfg(not(ws_loom))]
pub(crate) mod waits;
#[cfg(not(ws_loom))]
pub(crate) mod worker;

#[cfg(all(any(test, feature = "sim"), not(ws_loom)))]
pub(crate) use self::inject::set_own_ids;
#[cfg(not(ws_loom))]
pub(crate) use self::{
    inject::fresh_id,
    root::{LazyWorker, Root},
    shared::Shared,
    worker::Worker,
};
