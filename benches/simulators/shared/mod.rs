//! The program that all three simulators run: a small raft, its clients and its planted bugs.
//!
//! # How it works
//!
//! Each of the packages beside this folder takes these files as a module, and gives them a module
//! `seam` with the same names: `connect`, `listen`, `spawn`, `sleep`, `timeout`, `Instant`,
//! `moment` and `run`. The last one runs a [`Setup`]. All that a seed decides about faults, disks
//! and requests is drawn here, by one generator. So the simulators differ in their own order and
//! latencies alone.
//!
//! # Invariant
//!
//! All that is random here comes from the seed. There is no hash map, no calendar, no thread.
//! `leaks.rs` is the exception: it has them on purpose.
//!
//! # Rejected
//!
//! `examples/kv` itself: openraft and axum want all of tokio, which madsim does not simulate for
//! them without changed copies of these libraries.
mod bug;
mod client;
mod command_line;
mod disk;
mod history;
mod leaks;
mod loads;
mod node;
mod plan;
mod rng;
mod state;
mod store;
mod wire;

pub use bug::Bug;
pub use command_line::main;
pub use plan::{Action, Setup};
