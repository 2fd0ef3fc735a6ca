//! Loom models of the races between threads in this crate. They drive the shipped type.
//!
//! Each file says at its head what its models show, and which mutants make them fail:
//! `cargo xtask models` runs them, `cargo xtask mutants` sees to it that they bite.

#[path = "../../executor/src/models/both_ways.rs"]
mod both_ways;
#[path = "../../executor/src/models/explore.rs"]
mod explore;
mod slot;

use explore::explore;
