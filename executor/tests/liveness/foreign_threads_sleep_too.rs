//! F6, for a thread of the user's own: a timer that a thread outside the runtime arms, by an
//! entered handle and another executor, fires although the runtime has no thread yet; and a task
//! that is spawned while no thread is there runs.
//!
//! It fails by a hang when nobody is woken to wait in the netpoll after the timer is armed; and,
//! where the thread is in another runtime or in none, when that one is asked for it and not the
//! timer's.

use crate::common;

use std::time::Duration;

use common::{block_on_elsewhere as block_on, runtime};
use ws_executor::{runtime::Runtime, time::Sleep};

/// A sleep of a runtime that has no thread.
fn made_in(runtime: &Runtime) -> Sleep {
    let _guard = runtime.enter();
    ws_executor::time::sleep(Duration::from_millis(5))
}

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

    /// The sleep knows its runtime; the thread that polls it is in none any more.
    fn outside_of_every_runtime(workers: usize) {
        let runtime = runtime(workers);
        let sleep = made_in(&runtime);
        block_on(sleep);
    }

    /// It is polled by another runtime, in its `block_on` and in a task of it.
    fn in_another_runtime(workers: usize) {
        for in_a_task in [false, true] {
            let (mine, other) = (runtime(workers), runtime(workers));
            let sleep = made_in(&mine);
            if in_a_task {
                other.block_on(other.spawn(sleep)).unwrap();
            } else {
                other.block_on(sleep);
            }
        }
    }
}
