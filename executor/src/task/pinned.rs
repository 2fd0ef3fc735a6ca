//! A task whose future is made on the thread that it stays on: `spawn_pinned`.
//!
//! A cell is made for one scheduler handle. The `JoinHandle` is needed before the task has come to
//! a thread. So there are two cells. The *carrier* is a task for any worker: it takes the factory
//! to some worker, pins the real task there, and joins it. The `JoinHandle` is the carrier's; an
//! abort by it goes to the pinned task (`cell/carried.rs`).
//!
//! To users the two are one task. They have one id, name, place and priority, which lie in one
//! `Meta` (`cell/meta.rs`) of both: a new priority is seen in the task. It plays no part for
//! either. A dump shows the carrier only until there is a pinned task of the same id.
//! `Metrics::live_tasks` counts one of two that live ([`Half`]), and `spawned` and `completed`
//! count the carrier alone.

use std::{future::Future, panic::Location};

use super::{builder::spawn_for_all, join::JoinHandle};
use crate::{
    cell::{Carried, Extra, TaskRef},
    context,
    sched::Shared,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

#[track_caller]
pub(super) fn spawn_pinned_at<M, F>(
    make: M,
    extra: Option<Box<Extra>>,
    location: &'static Location<'static>,
) -> JoinHandle<F::Output>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future + 'static,
    F::Output: Send + 'static,
{
    let carried = Arc::new(Carried::default());
    let mut extra = extra.unwrap_or_default();
    extra.carried = Some(carried.clone());
    // For all workers, but not for a thread in `block_on`: when that call ends, what is pinned to
    // the thread ends too.
    let (handle, _) = spawn_for_all(
        async move {
            if let Some((pinned, _half)) = pin_here(make, &carried) {
                match pinned.abort_on_drop().await {
                    Ok(output) => return output,
                    Err(error) => {
                        if let Ok(payload) = error.try_into_panic() {
                            std::panic::resume_unwind(payload)
                        }
                    }
                }
                // It was aborted; or the runtime shuts down, or the thread was one in `block_on`
                // that stood in. This task ends as the other did, with this poll.
                let marked = this_carrier().cancel();
                debug_assert!(marked.is_none(), "it is being polled");
            }
            std::future::pending().await
        },
        "ws::spawn_pinned",
        Some(extra),
        location,
    );
    handle
}

/// The carrier that this thread polls.
fn this_carrier() -> TaskRef {
    let carrier = context::with_worker(|worker| worker?.running_task());
    carrier.expect("workers poll carriers")
}

/// Pins the task of the carrier that is being polled to this thread, unless it was aborted.
fn pin_here<M, F>(make: M, carried: &Arc<Carried>) -> Option<(JoinHandle<F::Output>, Half)>
where
    M: FnOnce() -> F + 'static,
    F: Future + 'static,
    F::Output: 'static,
{
    let carrier = this_carrier();
    if !carried.begins(|| carrier.header().snapshot().is_cancelled()) {
        return None;
    }
    let over = Over(carried.clone());
    context::with_worker(|worker| {
        let worker = worker.expect("it polls the carrier");
        let [half, its_half] = Half::both(worker.shared());
        let future = async move {
            // Dropped after the future of `make`.
            let _dropped_last = (its_half, over);
            make().await
        };
        let (task, join) = Shared::new_carried_task(worker, future, carrier.header());
        let abort = join.abort_ref();
        worker.spawn_carried(task);
        carried.pinned(Arc::new(move || abort.abort()));
        Some((JoinHandle::new(join), half))
    })
}

/// Says that the pinned task's future is gone, when it is.
struct Over(Arc<Carried>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.is_over();
    }
}

/// One of a carrier and its pinned task. While both are there, the two count as one.
struct Half {
    shared: Arc<Shared>,
    alone: Arc<AtomicBool>,
}

impl Half {
    fn both(shared: &Arc<Shared>) -> [Self; 2] {
        shared.foreign.carried.fetch_add(1, Relaxed);
        let alone = Arc::new(AtomicBool::new(false));
        [(); 2].map(|()| Self {
            shared: shared.clone(),
            alone: alone.clone(),
        })
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        if !self.alone.swap(true, Relaxed) {
            self.shared.foreign.carried.fetch_sub(1, Relaxed);
        }
    }
}
