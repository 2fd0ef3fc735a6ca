//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/task/).

mod blocking;
#[cfg(all(tokio_unstable, feature = "tracing"))]
mod builder;
mod join;
#[cfg(not(tokio_unstable))]
mod join_set;
#[cfg(tokio_unstable)]
pub mod join_set;
mod local_set;

pub(crate) use self::join::poll_unbudgeted;
use crate::trace::Name;

pub use tokio_real::task::{LocalKey, Unconstrained, consume_budget, coop, unconstrained};
pub use ws_executor::task::{AbortHandle, Id, JoinError};

#[cfg(all(tokio_unstable, feature = "tracing"))]
pub use self::builder::Builder;
pub use self::{
    blocking::{block_in_place, spawn_blocking},
    join::JoinHandle,
    join_set::JoinSet,
    local_set::{LocalEnterGuard, LocalSet, spawn_local},
};

/// Futures of this module.
pub mod futures {
    pub use tokio_real::task::futures::TaskLocalFuture;
}

/// Spawns a task onto the current runtime.
///
/// # Panics
///
/// Outside of a runtime.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    crate::runtime::spawn_here(future, Name::NONE)
}

/// Gives the other tasks their turn.
pub async fn yield_now() {
    ws_executor::task::yield_now().await;
}

/// The id of the task that this thread polls.
///
/// # Panics
///
/// If it polls none.
#[track_caller]
pub fn id() -> Id {
    try_id().expect("Can't get a task id when not inside a task")
}

/// The id of the task that this thread polls, if it polls one.
pub fn try_id() -> Option<Id> {
    ws_executor::task::try_id()
}
