//! A task whose future is made on the thread that it stays on: `spawn_pinned`.
//!
//! A cell is made for one scheduler handle. The `JoinHandle` is needed before the task has come to
//! a thread. So there are two cells. The *carrier* is a plain task: it takes the factory to some
//! worker, pins the real task there, and joins it. The `JoinHandle` is the carrier's.
//!
//! To users the two are one task. They have one id, name, place and priority, which lie in one
//! `Meta` (`cell/meta.rs`) of both: a new priority is seen in the task. It plays no part for
//! either. A dump shows the carrier only until there is a pinned task of the same id.
//! `Metrics::live_tasks` counts one of two that live ([`Half`]), and `spawned` and `completed`
//! count the carrier alone.

use std::{future::Future, panic::Location};

use super::{
    builder::spawn_for_all,
    join::{AbortHandle, JoinHandle},
};
use crate::{
    cell::Extra,
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
    let mut extra = extra.unwrap_or_default();
    extra.carries = true;
    // For all workers, but not for a thread in `block_on`: when that call ends, what is pinned to
    // the thread ends too.
    let (itself, own_handle) = futures_channel::oneshot::channel::<AbortHandle>();
    let (handle, _) = spawn_for_all(
        async move {
            let (pinned, _half) = pin_here(make);
            let pinned = pinned.abort_on_drop();
            match pinned.await {
                Ok(output) => output,
                Err(error) => match error.try_into_panic() {
                    Ok(payload) => std::panic::resume_unwind(payload),
                    // The runtime shuts down, or the thread was one in `block_on` that stood in:
                    // this task ends as the other did, with the poll in which it aborts itself.
                    Err(_) => {
                        if let Ok(itself) = own_handle.await {
                            itself.abort();
                        }
                        std::future::pending().await
                    }
                },
            }
        },
        "ws::spawn_pinned",
        Some(extra),
        location,
    );
    // Refused only if the task has ended.
    let _ = itself.send(handle.abort_handle());
    handle
}

/// Pins the task of the carrier that is being polled to this thread.
fn pin_here<M, F>(make: M) -> (JoinHandle<F::Output>, Half)
where
    M: FnOnce() -> F + 'static,
    F: Future + 'static,
    F::Output: 'static,
{
    context::with_worker(|worker| {
        let worker = worker.expect("workers poll tasks");
        let carrier = worker.running_task().expect("a carrier is being polled");
        let [half, its_half] = Half::both(worker.shared());
        let future = async move {
            // Dropped after the future of `make`.
            let _half = its_half;
            make().await
        };
        let (task, join) = Shared::new_carried_task(worker, future, carrier.header());
        worker.spawn_carried(task);
        (JoinHandle::new(join), half)
    })
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
