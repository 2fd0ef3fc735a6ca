//! A closure that blocks and says so: the mechanism of [`block_in_place`](crate::block_in_place),
//! and of starting a process.
//!
//! The worker's side of the first is
//! [`Worker::announce_blocking`](crate::sched::Worker::announce_blocking).
//!
//! # *Starting a process*
//!
//! The system stops the thread that starts a process until the child has its own memory: some
//! 300 us. To the monitor such a thread is blocked. But its core is not free: the child runs there.
//! A thread that got its permit would take that core from the child. So while a thread starts a
//! process, the monitor takes it for one that computes: its permit is taken after a slice, as in
//! any other poll. Go does the same: it starts a process by a raw system call, and its scheduler is
//! not told of that. Figures: `docs/decisions/2026-11-26-starting-a-process.md`.

use crate::{
    budget, context,
    sched::{Worker, measure::Block},
};

/// Runs `f`, and lets others have this worker's permit meanwhile.
pub(crate) fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
    struct Back(Option<Block>);
    impl Drop for Back {
        fn drop(&mut self) {
            if let Some(block) = self.0.take() {
                context::with_worker(|worker| {
                    let worker = worker.expect("the frame is still there");
                    worker.block_is_over(block);
                    worker.end_blocking();
                });
            }
        }
    }
    // Its first spawn would make a thread in `block_on` a worker, with a permit that no thread was
    // told to take.
    context::ensure_worker();
    let _back = Back(context::with_worker(|worker| {
        let worker = worker.filter(|worker| worker.announce_blocking());
        worker.map(Worker::block_begins)
    }));
    // It has no turn that others wait for.
    budget::unbudgeted(f)
}

/// Runs `f`, which starts a process; see the module's head.
pub(crate) fn start_process<R>(f: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            if self.0 {
                mark(false);
            }
        }
    }
    /// False without a worker.
    fn mark(starts: bool) -> bool {
        context::with_worker(|worker| worker.map(|worker| worker.mark_start_of_process(starts)))
            .is_some()
    }
    let _back = Back(mark(true));
    f()
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{self, AssertUnwindSafe},
        sync::atomic::Ordering::Relaxed,
    };

    use super::start_process;
    use crate::{context, runtime::Runtime, task::spawn};

    fn starts_process() -> bool {
        context::with_worker(|worker| {
            let peer = worker.expect("this is a task").peer();
            peer.flags.starts_process.load(Relaxed)
        })
    }

    // Fails if the worker is not told, or not told of the end, or only of one without a panic.
    #[test]
    fn a_start_of_a_process_is_told_to_the_worker_and_ends_with_the_closure() {
        assert_eq!(start_process(|| 1), 1, "it needs no runtime");
        let runtime = Runtime::new().expect("a runtime can be built");
        let seen = runtime.block_on(async {
            let task = spawn(async {
                let within = start_process(starts_process);
                let after = starts_process();
                let panics = panic::catch_unwind(AssertUnwindSafe(|| {
                    start_process(|| panic!("it cannot be started"));
                }));
                (within, after, panics.is_err(), starts_process())
            });
            task.await.expect("it does not panic")
        });
        assert_eq!(seen, (true, false, true, false));
    }
}
