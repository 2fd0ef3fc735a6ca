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
//! *The life of a span*. It is made before the task's cell. It is entered for each poll, and for
//! the drop of the future, also of that of a `block_on`. It is closed when the future is gone.
//!
//! *Wakers*. A worker lends a waker to a poll, and never drops that one. So only a waker that was
//! cloned tells of its drop. The wakers of a `block_on` have no events, as in tokio.
//!
//! *The subscriber is code of the user's.* So it runs under no lock (S8): it is called in the
//! spawn, around the poll and the drop of the future, and before the step of a waker. If it panics,
//! the panic hook tells, and the panic goes no further (S6).
//!
//! *Known gap*: if it blocks at the wake of a task, it holds up the wakes behind that one. The
//! scheduler takes the wake of a task for one that never blocks (`sched/foreign_wakers.rs`).
//!
//! *A task of `spawn_pinned`* has two cells (`task/pinned.rs`). The carrier has no span. The task
//! that it carries has one, with the id, the name and the place that both share.
//!
//! *`compat/tokio`* has spans of its own, with the names that tokio's tests ask for. A task of it
//! has no second span: see [`HidesNext`].
//!
//! Rejected: a waker of our own around that of the task, as `compat/tokio` has it. The scheduler
//! knows the waker of a task by its table of functions. With another waker, a task that forks would
//! not go on by itself, but by a wake.
//!
//! Checked by `tests/console_is_told_of_tasks.rs`, and by `cargo xtask tokio-console` with
//! console-subscriber and tokio-console, in `tests/console` of the repository.

#[cfg(not(feature = "console"))]
mod off;
#[cfg(feature = "console")]
pub(crate) mod on;

#[cfg(not(feature = "console"))]
use off as used;
#[cfg(feature = "console")]
use on as used;

pub use self::used::HidesNext;
pub(super) use self::used::TaskSpan;
pub(crate) use self::used::root;
