//! Loom models of the protocols, one file for each.
//!
//! They drive the shipped types and the shipped steps. What surrounds those in the scheduler and
//! cannot run under loom (contexts, clocks, the netpoll) is what `permit/env.rs` asks for, and
//! `mock.rs` brings it. The queues have their models in their own package.
//!
//! Each file says at its head what its models show, with how many preemptions, in what time, and
//! which mutants make them fail: `cargo xtask models` runs them, `cargo xtask mutants` sees to it
//! that they bite.

mod allp;
mod both_ways;
mod explore;
mod fork_join;
#[path = "fork_join/steps.rs"]
mod fork_join_steps;
mod heard;
mod idle;
mod keeper;
#[cfg(ws_shuttle)]
mod large;
mod live;
mod lost;
mod mock;
mod notification;
mod owned;
mod park;
mod permit;
mod recorder;
#[path = "recorder/ring.rs"]
mod ring;
mod shutdown;
mod task;
mod urgent;

use explore::explore;
