//! Programs of steps on the cell of a task, each run beside a simple model.
//!
//! | program | drives | beside |
//! | --- | --- | --- |
//! | [`task`] | a task: wakers, references, its handle, abort, shutdown, and what its polls do | a few flags |
//!
//! What a program is, and what makes programs up: `queue/src/steps.rs`, which has those of the
//! queues. A program ends all that it made (S2).
#![cfg_attr(
    not(ws_fuzz),
    allow(unreachable_pub, reason = "the package `fuzz` reaches it")
)]

pub mod task;

#[cfg(test)]
mod tests;
