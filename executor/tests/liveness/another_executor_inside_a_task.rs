//! Another executor's `block_on` inside a task or a blocking closure gets on, however much it does
//! (F2): the budget of the poll below it does not hold it up for ever.
//!
//! It fails when a poll that is refused again and again is never granted anything in `budget.rs`
//! (directly, after the slice), and when `block_in_place` leaves the budget as it is
//! (`is_not_limited_where_it_blocks`).

use crate::common;

use std::{future::poll_fn, pin::pin};

use ws_executor::task;

/// Many times the budget.
const MANY: usize = 2000;

/// Runs a future with another executor's `block_on`, and tells how often it was polled.
fn polls_elsewhere(future: impl Future<Output = ()>) -> usize {
    let mut future = pin!(future);
    let mut polls = 0;
    common::block_on_elsewhere(poll_fn(|cx| {
        polls += 1;
        future.as_mut().poll(cx)
    }));
    polls
}

async fn spawn_and_join(times: usize) {
    for n in 0..times {
        assert_eq!(ws_executor::spawn(async move { n }).await.unwrap(), n);
    }
}

common::with_workers! {
    /// With one worker the tasks inside need its permit.
    fn gets_on_in_spawn_blocking(workers: usize) {
        let runtime = common::runtime(workers);
        runtime.block_on(async {
            let job = || common::block_on_elsewhere(spawn_and_join(MANY));
            ws_executor::spawn_blocking(job).await.unwrap();
        });
    }

    fn gets_on_in_block_in_place(workers: usize) {
        let runtime = common::runtime(workers);
        let task = runtime.spawn(async {
            ws_executor::block_in_place(|| common::block_on_elsewhere(spawn_and_join(MANY)));
        });
        runtime.block_on(task).unwrap();
    }

    /// Unannounced: the monitor gives the permit to another thread.
    fn gets_on_in_a_task(workers: usize) {
        let runtime = common::runtime(workers);
        let task = runtime.spawn(async { common::block_on_elsewhere(spawn_and_join(MANY)) });
        runtime.block_on(task).unwrap();
    }

    /// From then on it has no units at all.
    /// The slice is asked for while nobody wants the permit, and so nobody takes it away.
    fn gets_on_after_its_slice(workers: usize) {
        let runtime = common::runtime(workers);
        let task = runtime.spawn(async {
            let ended: Vec<_> = (0..MANY).map(|n| ws_executor::spawn(async move { n })).collect();
            while !ended.iter().all(task::JoinHandle::is_finished) {
                task::yield_now().await;
            }
            while !task::should_yield() {}
            common::block_on_elsewhere(async {
                for (n, task) in ended.into_iter().enumerate() {
                    assert_eq!(task.await.unwrap(), n);
                }
            });
        });
        runtime.block_on(task).unwrap();
    }

    fn is_not_limited_where_it_blocks(workers: usize) {
        let runtime = common::runtime(workers);
        let task = runtime.spawn(async {
            let ended: Vec<_> = (0..MANY).map(|_| ws_executor::spawn(async {})).collect();
            while !ended.iter().all(task::JoinHandle::is_finished) {
                task::yield_now().await;
            }
            ws_executor::block_in_place(|| polls_elsewhere(async {
                for task in ended {
                    task.await.unwrap();
                }
            }))
        });
        assert_eq!(runtime.block_on(task).unwrap(), 1, "nothing was refused");
    }
}
