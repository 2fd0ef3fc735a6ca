//! S9, F6: a root that waits for a timer goes on when that fires, whatever the tasks do that it
//! spawned: one that blocks is polled by another thread than the root's. In each test the task
//! blocks until the root has gone on, so a root that is held up is a hang.
//!
//! They fail without `Worker::root_waits`, the one about a root that is always ready where
//! `leave_tasks_to_others` in `sched/find.rs` hands nothing in while the root is ready, and the one
//! about `unconstrained` where `Unconstrained::poll` keeps what it saw to itself.

use crate::common;

use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};

use common::{Gate, runtime};
use futures::{StreamExt, stream::FuturesUnordered};
use ws_executor::{
    runtime::{Builder, Runtime, Sysmon},
    spawn,
    task::{JoinHandle, LocalSet, unconstrained, yield_now},
    time::{sleep, timeout},
};

const SOON: Duration = Duration::from_millis(1);

/// A task that blocks its thread, after so many polls, until the gate is open.
fn spawn_blocker(gate: &Arc<Gate>, polls: usize) -> JoinHandle<()> {
    let gate = gate.clone();
    spawn(async move {
        for _ in 0..polls {
            yield_now().await;
        }
        gate.pass();
    })
}

/// Plays a root that returns while its task blocks.
fn returns_first<F: Future>(runtime: &Runtime, root: impl FnOnce(Arc<Gate>) -> F) {
    let gate = Arc::new(Gate::default());
    runtime.block_on(root(gate.clone()));
    gate.open();
}

common::with_workers! {
    fn a_timeout_around_a_task_that_blocks_fires(workers: usize) {
        let runtime = runtime(workers);
        for polls in [0, 1, 3] {
            returns_first(&runtime, |gate| async move {
                timeout(SOON, spawn_blocker(&gate, polls)).await.unwrap_err();
            });
        }
    }

    fn a_sleep_in_a_local_set_ends(workers: usize) {
        let runtime = runtime(workers);
        for polls in [0, 1, 3] {
            returns_first(&runtime, |gate| async move {
                drop(spawn_blocker(&gate, polls));
                let set = LocalSet::new();
                drop(set.spawn_local(sleep(SOON)));
                set.await;
            });
        }
    }

    fn a_sleep_beside_tasks_that_block_ends(workers: usize) {
        let runtime = runtime(workers);
        returns_first(&runtime, |gate| async move {
            let tasks = [0, 1, 2, 3].map(|polls| spawn_blocker(&gate, polls));
            sleep(SOON).await;
            assert!(tasks.iter().all(|task| !task.is_finished()));
        });
    }

    /// Nobody takes its permit away.
    fn a_root_that_is_always_ready_does_not_hold_up_its_tasks(workers: usize) {
        let runtime = Builder::new().workers(workers).sysmon(Sysmon::Off).build().unwrap();
        runtime.block_on(async {
            sleep(SOON).await;
            for _ in 0..3 {
                let task = spawn(async {});
                while !task.is_finished() {
                    yield_now().await;
                }
            }
        });
    }

    /// The last poll of the root does not come by the timer.
    fn a_timer_that_is_not_polled_again_counts(workers: usize) {
        let runtime = runtime(workers);
        returns_first(&runtime, |gate| async move {
            let mut both = FuturesUnordered::new();
            both.push(futures::future::Either::Left(sleep(SOON)));
            both.push(futures::future::Either::Right(async {
                yield_now().await;
                spawn_blocker(&gate, 1).await.unwrap();
            }));
            both.next().await.unwrap();
        });
    }

    fn a_timer_in_unconstrained_counts(workers: usize) {
        let runtime = runtime(workers);
        returns_first(&runtime, |gate| async move {
            let blocks = spawn_blocker(&gate, 0);
            unconstrained(sleep(SOON)).await;
            assert!(!blocks.is_finished());
        });
    }

    fn a_root_that_stays_on_its_thread_is_not_held_up_either(workers: usize) {
        let gate = Arc::new(Gate::default());
        let kept = Rc::new(Cell::new(false));
        let (blocked, seen) = (gate.clone(), kept.clone());
        runtime(workers).run_local(async move {
            let blocks = spawn_blocker(&blocked, 0);
            timeout(SOON, blocks).await.unwrap_err();
            seen.set(true);
            // The end of the runtime waits for the task.
            blocked.open();
        });
        assert!(kept.get() && gate.is_open());
    }

    fn a_root_that_may_be_stolen_goes_on_elsewhere(workers: usize) {
        let gate = Arc::new(Gate::default());
        runtime(workers).run(async move {
            let blocks = spawn_blocker(&gate, 0);
            timeout(SOON, blocks).await.unwrap_err();
            gate.open();
        });
    }
}
