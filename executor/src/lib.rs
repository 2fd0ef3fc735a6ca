//! The scheduler of the `ws` runtime. Users reach it as `ws`; this crate is the part that knows
//! tasks, queues, workers and timers.
//!
//! # The life of a task
//!
//! [`spawn`] puts a future into a cell (`cell/raw.rs`), enters it into the live table of this
//! thread's P (`cell/live.rs`), and puts it into `runnext` (`queue/src/runnext.rs`). What was there
//! goes to the back of the local queue (`queue/src/local.rs`). The worker comes by
//! (`sched/worker.rs`), or a thief does, and polls it (`sched/poll.rs`). If it is not ready it is
//! idle, and in no queue, until a waker counts a wake in its state word (`cell/state.rs`) and
//! queues it again, on the waker's own P. When it is ready, its output stays in the cell for the
//! [`task::JoinHandle`].
//!
//! Which threads sleep, search and are woken: `permit/idle.rs`. How it all ends:
//! `sched/shutdown.rs`.
#![cfg_attr(
    ws_loom,
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        unused_macros,
        reason = "the models use a part of what is here"
    )
)]

#[cfg(not(ws_loom))]
mod advice;
mod bit_set;
#[cfg(not(ws_loom))]
mod block_on;
#[cfg(not(ws_loom))]
mod blocking;
mod branch;
#[cfg(not(ws_loom))]
#[doc(hidden)]
pub mod budget;
mod cell;
#[cfg(not(ws_loom))]
mod context;
#[cfg(not(ws_loom))]
pub mod coop;
#[cfg(not(ws_loom))]
mod fork_join;
#[cfg(not(ws_loom))]
mod given;
mod kernel_file;
#[cfg(all(test, not(ws_loom)))]
#[path = "../tests/common/log.rs"]
mod log;
#[cfg(not(ws_loom))]
mod metrics;
#[cfg(not(ws_loom))]
mod monitor;
mod no_unwind;
#[cfg(not(ws_loom))]
mod nodes;
#[cfg(not(ws_loom))]
mod note;
mod notification;
mod once_table;
mod owned;
mod park;
mod permit;
// The models use only what belongs to their protocols.
#[cfg_attr(ws_loom, allow(dead_code, unused_imports))]
mod policy;
#[cfg(not(ws_loom))]
mod probe;
#[cfg(not(ws_loom))]
mod recorder;
#[cfg(not(ws_loom))]
mod reports;
#[cfg(not(ws_loom))]
pub mod runtime;
#[cfg(all(test, not(ws_loom)))]
#[path = "../tests/common/scale.rs"]
mod scale;
#[cfg(not(ws_loom))]
mod sched;
#[cfg(not(ws_loom))]
mod semaphore;
#[cfg(all(any(test, feature = "sim"), not(ws_loom)))]
pub mod sim;
#[cfg(all(test, not(ws_loom)))]
#[path = "../tests/common/stack.rs"]
mod stack;
#[cfg(all(test, not(any(ws_fuzz, ws_loom))))]
mod steps;
#[cfg(ws_fuzz)]
#[doc(hidden)]
pub mod steps;
#[cfg(not(ws_loom))]
pub mod task;
mod throttle;
#[cfg(not(ws_loom))]
pub mod time;
#[cfg(not(ws_loom))]
mod timed;
#[cfg(not(ws_loom))]
mod timer;

#[cfg(not(ws_loom))]
pub mod trace;

#[cfg(not(ws_loom))]
#[doc(hidden)]
pub mod viewer;

#[cfg(not(ws_loom))]
#[doc(hidden)]
pub mod netpoll;

#[cfg(not(ws_loom))]
#[doc(hidden)]
pub use self::blocking::start_process;
#[doc(hidden)]
pub use self::cell::quietly;
#[cfg(not(ws_loom))]
pub use self::{
    blocking::block_in_place,
    fork_join::{Scope, join, scope},
    task::{compute, fork, spawn, spawn_blocking, spawn_local, spawn_pinned},
};

use ws_queue::{self as queue, rng, sync};

#[cfg(all(test, ws_loom))]
mod models;
