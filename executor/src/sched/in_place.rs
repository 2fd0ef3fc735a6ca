//! A closure that blocks, announced: the mechanism of [`block_in_place`](crate::block_in_place).
//!
//! The worker's side of it is [`Worker::announce_blocking`](super::Worker::announce_blocking).

use crate::{budget, context};

/// Runs `f`, and lets others have this worker's permit meanwhile.
pub(crate) fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            if self.0 {
                context::with_worker(|worker| {
                    worker.expect("the frame is still there").end_blocking();
                });
            }
        }
    }
    // Its first spawn would make a thread in `block_on` a worker, with a permit that no thread was
    // told to take.
    context::ensure_worker();
    let _back = Back(context::with_worker(|worker| {
        worker.is_some_and(|worker| worker.announce_blocking())
    }));
    // It has no turn that others wait for.
    budget::unbudgeted(f)
}
