//! What tokio-console shows: spans of tasks, events of their wakers, and resources.
//!
//! As in tokio, all of it needs the feature `tracing` and `--cfg tokio_unstable`. Without them
//! `off.rs` stands in for `on.rs`, and nothing is left of it. Names and fields are those of tokio
//! 1.54.1, which console-subscriber reads.
//!
//! | what | span or event | made by |
//! | --- | --- | --- |
//! | a task | `runtime.spawn`, target `tokio::task` | [`task()`], then `Opening::open` |
//! | a blocking call | the same, target `tokio::task::blocking` | [`blocking()`], then the same |
//! | a `block_on` | the same as of a task | [`block_on()`] |
//! | a waker of a task | events of target `tokio::task::waker` | the task's wrapper |
//! | a `Sleep`, an `Interval` | `runtime.resource` and what is below it | [`Op`], [`Interval`] |
//! | what is in `sync` | the same | tokio's own code |
//!
//! *The order*. The span has the task's id, which `ws` gives to the task when it is spawned. So
//! [`task()`] wraps the future, the caller spawns it, and `Opening::open` makes the span. If a
//! worker polls the task before that, it waits for the few instructions in between.

#[cfg(not(all(tokio_unstable, feature = "tracing")))]
mod off;
#[cfg(all(tokio_unstable, feature = "tracing"))]
mod on;

#[cfg(not(all(tokio_unstable, feature = "tracing")))]
pub(crate) use off::{Interval, Name, Op, Unseen, block_on, blocking, task};
#[cfg(all(tokio_unstable, feature = "tracing"))]
pub(crate) use on::{Interval, Name, Op, Unseen, block_on, blocking, task};
