//! The scheduler: G, M and P, and the permits.
//!
//! | Go | here | file |
//! | --- | --- | --- |
//! | G | `Task` | `task.rs` |
//! | M | [`Worker`]: a thread that has a P | `worker.rs` |
//! | P | `Processor`, and its public face `Peer` | `processor.rs` |
//! | what a P limits | [`Permit`](idle::Permit): `workers` of them | `idle.rs` |
//! | `sched` | [`Shared`] | here |
//!
//! Go takes the P from a thread that is stuck in a system call. A Rust poll is stuck without notice and
//! may push at any moment, so here a P stays with its thread, and only the permit moves (`idle.rs`).
//!
//! `Shared` is what all threads of a runtime share. Its methods put work where somebody finds it, and
//! wake who is to find it:
//!
//! - a task that is queued on a worker of this runtime, and holds its permit, goes to that P
//!   (`worker.rs`);
//! - any other goes to the global queue, from where the workers take it in batches;
//! - a pinned one goes to the inbox of its P, whose own thread is unparked.

#[cfg(not(ws_loom))]
mod block_on;
#[cfg(not(ws_loom))]
mod find;
pub(crate) mod idle;
pub(crate) mod park;
#[cfg(not(ws_loom))]
pub(crate) mod processor;
#[cfg(not(ws_loom))]
mod push;
#[cfg(not(ws_loom))]
pub(crate) mod shutdown;
#[cfg(not(ws_loom))]
mod sleep;
#[cfg(not(ws_loom))]
pub(crate) mod sysmon;
#[cfg(not(ws_loom))]
mod worker;

#[cfg(not(ws_loom))]
pub(crate) use self::{
    block_on::{Root, Seat, block_on, run},
    worker::Worker,
};
#[cfg(not(ws_loom))]
pub(crate) use shared::{HOME, Shared};

#[cfg(not(ws_loom))]
mod shared;
