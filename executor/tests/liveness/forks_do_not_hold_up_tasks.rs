//! J6: a computation that forks on all workers for long does not hold up timers, I/O and other
//! tasks.
//!
//! It fails when `is_asked_at_fork` in `sched/worker.rs` always says no, and when `come_to_a_fork`
//! in `sched/worker.rs` goes on without a permit.

use crate::common;

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use common::runtime;
use ws_executor::{
    join,
    runtime::Builder,
    spawn,
    time::sleep,
    trace::{EventKind, Level},
};

/// So often the monitor has a reason to take permits away. With one worker 3 threads were seen, and
/// 220 to 238 where one that has lost its permit goes on.
const TICKS: usize = 300;

/// Forks until it is told to stop: a computation that always has more to do.
fn compute(stop: &AtomicBool, depth: usize) {
    while !stop.load(SeqCst) {
        if depth == 0 {
            return;
        }
        join(|| compute(stop, depth - 1), || compute(stop, depth - 1));
        if depth < 8 {
            return;
        }
    }
}

/// What timers and I/O make ready does not wait for the end of a slice: the computation gives way
/// at a fork. One worker, so that no steals fill the log.
#[test]
fn a_computation_gives_way_at_a_fork() {
    common::limited(|| {
        let builder = Builder::new()
            .workers(1)
            .recorder((1 << 12) * 16)
            .record(Level::Full);
        let runtime = builder.build().unwrap();
        let handle = runtime.handle().clone();
        let stop = common::forever(AtomicBool::new(false));
        runtime.block_on(async {
            let ticker = spawn(async move {
                let gave_way = || {
                    handle
                        .recording()
                        .events
                        .iter()
                        .any(|event| event.kind == EventKind::GiveWay)
                };
                while !gave_way() {
                    sleep(Duration::from_millis(1)).await;
                }
                stop.store(true, SeqCst);
            });
            let computation = spawn(async {
                while !stop.load(SeqCst) {
                    join(|| (), || ());
                }
            });
            computation.await.unwrap();
            ticker.await.unwrap();
        });
    });
}

common::with_workers! {
    fn timers_and_tasks_go_on(workers: usize) {
        let runtime = runtime(workers);
        let stop = common::forever(AtomicBool::new(false));
        runtime.block_on(async {
            let ticker = spawn(async {
                for _ in 0..20 {
                    sleep(Duration::from_millis(1)).await;
                    // A task of its own each time.
                    spawn(async {}).await.unwrap();
                }
                stop.store(true, SeqCst);
            });
            let computation = spawn(async { compute(stop, 8) });
            computation.await.unwrap();
            ticker.await.unwrap();
        });
    }

    /// However often permits are taken, few threads compute at a time: the others wait at their
    /// forks.
    fn the_threads_do_not_add_up(workers: usize) {
        let runtime = runtime(workers);
        let stop = common::forever(AtomicBool::new(false));
        let ticks = common::forever(AtomicUsize::new(0));
        runtime.block_on(async {
            let ticker = spawn(async {
                for _ in 0..TICKS {
                    sleep(Duration::from_millis(1)).await;
                    ticks.fetch_add(1, SeqCst);
                }
                stop.store(true, SeqCst);
            });
            spawn(async { compute(stop, 8) }).await.unwrap();
            ticker.await.unwrap();
        });
        let threads = runtime.handle().metrics().threads;
        assert!(threads <= 2 * workers + 16, "{threads} threads");
        assert_eq!(ticks.load(SeqCst), TICKS);
    }
}

/// Whoever has begun with a branch has it to the end, so a thread that goes on without its permit
/// is one more for each that the monitor takes. One worker, since more of them than there are cores
/// hold each other up, and a thread without a core comes to no fork.
#[test]
fn one_that_has_lost_its_permit_waits_at_its_next_fork() {
    fn go_on(stop: &AtomicBool, depth: usize) {
        while !stop.load(SeqCst) {
            if depth == 0 {
                join(|| (), || ());
            } else {
                join(|| go_on(stop, depth - 1), || go_on(stop, depth - 1));
            }
        }
    }
    common::limited(|| {
        let runtime = runtime(1);
        let stop = common::forever(AtomicBool::new(false));
        runtime.block_on(async {
            let ticker = spawn(async {
                for _ in 0..TICKS {
                    sleep(Duration::from_millis(1)).await;
                }
                stop.store(true, SeqCst);
            });
            spawn(async { go_on(stop, 8) }).await.unwrap();
            ticker.await.unwrap();
        });
        let threads = runtime.handle().metrics().threads;
        assert!(threads <= 24, "{threads} threads");
    });
}
