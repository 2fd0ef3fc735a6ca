//! What tokio-console shows: the spans of tasks, and the events of their wakers.
//!
//! With the feature `console` this is `console/on.rs`. Without it `console/off.rs` stands in for
//! that: its types have no size, and its functions are empty. Names and fields are those that
//! console-subscriber 0.5 reads.
//!
//! | what | span or event |
//! | --- | --- |
//! | a task | span `runtime.spawn`, target `ws::task`; its kind is `task`, `local` or `blocking` |
//! | a `block_on` | the same; its kind is `block_on` |
//! | a waker of a task | events of target `runtime::waker` |
//!
//! *The life of a span*. It is made before the task's cell, entered for each poll and for the drop
//! of the future, and closed when that is over. The waker of a poll is lent by the worker. So it
//! has no event of its own, and only what was cloned has one when it is dropped. The wakers of a
//! `block_on` have no events, as in tokio.
//!
//! *The subscriber is code of the user's.* It is called only where the future is called as well
//! (the spawn, the poll, the drop), and before the step of a waker, so under no lock (S8). If it
//! panics, that is reported by the panic hook and goes no further (S6). If it blocks, it holds up
//! what a waker that blocks would hold up, and a wake of a task counts as one that does not.
//!
//! *A task of `spawn_pinned`* has two cells (`task/pinned.rs`). The carrier has no span, and the
//! task that it carries has one, with the id, the name and the place that both share.
//!
//! Rejected: a waker of our own around that of the task, as `compat/tokio` has it. The scheduler
//! knows a task's waker by its table of functions, and a fork or a join takes another way for any
//! other waker.
//!
//! Checked by `tests/console_is_told_of_tasks.rs`, and with console-subscriber and tokio-console in
//! `compat/tokio/console/native`.

#[cfg(not(feature = "console"))]
mod off;
#[cfg(feature = "console")]
pub(crate) mod on;

#[cfg(not(feature = "console"))]
use off as used;
#[cfg(feature = "console")]
use on as used;

pub(super) use self::used::TaskSpan;
#[cfg(not(ws_loom))]
pub use self::used::hides_next;
#[cfg(not(ws_loom))]
pub(crate) use self::used::root;
