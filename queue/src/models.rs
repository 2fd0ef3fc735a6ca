//! Loom models of the queues.
//!
//! They drive the shipped types. How models are explored is the executor's
//! (`executor/src/models/explore.rs` and `both_ways.rs`).
//!
//! Each file says at its head what its models show, with how many preemptions, and which mutants
//! make them fail: `cargo xtask models` runs them, `cargo xtask mutants` sees to it that they bite.

#[path = "../../executor/src/models/both_ways.rs"]
mod both_ways;
#[path = "../../executor/src/models/explore.rs"]
mod explore;
mod ordered;
mod queue;

use explore::explore;
