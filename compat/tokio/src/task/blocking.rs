//! Code that blocks its thread.

use super::JoinHandle;
use crate::{
    context,
    runtime::{Handle, is_in_block_on},
};

/// Runs a closure that blocks on a thread of the current runtime.
///
/// # Panics
///
/// Outside of a runtime.
#[track_caller]
pub fn spawn_blocking<F, R>(f: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    Handle::current().spawn_blocking(f)
}

/// Runs a closure that blocks on this thread. Other threads run the tasks meanwhile.
///
/// # Panics
///
/// In a runtime of the current-thread flavour, and in a `LocalSet`.
#[track_caller]
pub fn block_in_place<F, R>(f: F) -> R
where
    F: FnOnce() -> R,
{
    if context::is_inside() && (is_in_block_on() || super::local_set::is_polling()) {
        panic!("can call blocking only when running on the multi-threaded runtime");
    }
    ws_executor::block_in_place(|| context::outside(f))
}
