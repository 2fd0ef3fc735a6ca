//! F6, for a thread of the user's own: a timer that a thread outside the runtime arms, by an entered
//! handle and another executor, fires although the runtime has no thread yet; and a task that is spawned
//! while no thread is there runs.
//!
//! It fails by a hang when nobody is woken to wait in the netpoll after the timer is armed.

mod common;

use std::time::Duration;

use common::{block_on_elsewhere as block_on, runtime};

common::with_workers! {
    /// The runtime has served nobody yet.
    fn on_a_fresh_runtime(workers: usize) {
        let runtime = runtime(workers);
        let _guard = runtime.enter();
        block_on(ws_executor::time::sleep(Duration::from_millis(5)));
    }

    /// It has served a `block_on`, and no thread was started for that.
    fn after_a_block_on(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(async {});
        let _guard = runtime.enter();
        for _ in 0..3 {
            block_on(ws_executor::time::sleep(Duration::from_millis(2)));
        }
    }
}
