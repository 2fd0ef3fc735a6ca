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

mod affinity;
pub(crate) mod config;
mod contention;
pub(crate) mod dump;
mod dumps;
pub(crate) mod find;
pub(crate) mod foreign_wakers;
mod handed;
mod inject;
mod keeper_life;
mod lazy_worker;
mod looks;
pub(crate) mod lost;
mod lost_tasks;
pub(crate) mod measure;
pub(crate) mod paused;
mod poll;
pub(crate) mod priority;
pub(crate) mod processor;
pub(crate) mod push;
mod recording;
mod refusals;
mod root;
mod search;
mod shared;
pub(crate) mod shown;
pub(crate) mod shutdown;
mod signals;
#[cfg(test)]
mod sim;
pub(crate) mod sim_threads;
#[cfg(unix)]
pub(crate) mod snapshot_signal;
pub(crate) mod snapshots;
pub(crate) mod stall;
pub(crate) mod state;
#[cfg(any(test, feature = "sim"))]
pub(crate) mod stepped;
#[cfg(test)]
mod tests;
mod threads;
mod timers;
pub(crate) mod traces;
mod wait;
pub(crate) mod waits;
pub(crate) mod worker;

#[cfg(any(test, feature = "sim"))]
pub(crate) use self::inject::set_own_ids;
pub(crate) use self::{
    inject::fresh_id, lazy_worker::LazyWorker, root::Root, shared::Shared, worker::Worker,
};
