//! Loom models of the races between threads in this crate, one file for each.
//!
//! They drive the shipped types. Only the kernel is played: `kernel.rs` in `models/` stands for
//! epoll, eventfd and timerfd. How models are explored is the executor's
//! (`executor/src/models/explore.rs` and `both_ways.rs`).
//!
//! Each file says at its head what its models show, with how many preemptions, in what time, and
//! which mutants make them fail: `cargo xtask models` runs them, `cargo xtask mutants` sees to it
//! that they bite.

mod alarm;
#[path = "../../executor/src/models/both_ways.rs"]
mod both_ways;
#[path = "../../executor/src/models/explore.rs"]
mod explore;
pub(crate) mod kernel;
mod netpoll;
mod source;

use explore::explore;
