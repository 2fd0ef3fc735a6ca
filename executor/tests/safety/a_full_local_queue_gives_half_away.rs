//! The bounds on the local queue: it holds 256 tasks; one more, and half of them go to the global
//! queue with it, in one batch, in their order (S2: none is lost). The global queue has no bound.
//!
//! It fails when `CAPACITY` or `HALF` in `queue/src/local.rs` is another, and when `push_overflow`
//! there gives back one task alone.

use crate::common;

use std::sync::{Arc, Mutex};

use common::{Count, Gate, limited};
use ws_executor::runtime::{Builder, Handle, Metrics, Sysmon};

fn local(metrics: &Metrics) -> usize {
    metrics.processors.iter().map(|row| row.local_queue).sum()
}

fn overflows(metrics: &Metrics) -> u64 {
    metrics.processors.iter().map(|row| row.overflows).sum()
}

/// On one worker, which is in a task all the time: nothing moves but what that task spawns.
#[test]
fn at_the_257th() {
    limited(|| {
        let runtime = Builder::new()
            .workers(1)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let inner = order.clone();
        let task = runtime.spawn(async move {
            let mut spawned = 0..;
            let mut spawn = |count: usize| {
                for n in spawned.by_ref().take(count) {
                    let order = inner.clone();
                    drop(ws_executor::spawn(
                        async move { order.lock().unwrap().push(n) },
                    ));
                }
                Handle::current().metrics()
            };
            // One is in `runnext`.
            let full = spawn(257);
            assert_eq!(
                (local(&full), full.global_queue, overflows(&full)),
                (256, 0, 0)
            );
            let over = spawn(1);
            assert_eq!(
                (local(&over), over.global_queue, overflows(&over)),
                (128, 129, 1)
            );
            let full = spawn(128);
            assert_eq!(
                (local(&full), full.global_queue, overflows(&full)),
                (256, 129, 1)
            );
            let over = spawn(1);
            assert_eq!(
                (local(&over), over.global_queue, overflows(&over)),
                (128, 258, 2)
            );
            // As often as one likes.
            let much = spawn(100 * 129);
            assert_eq!(much.global_queue, 102 * 129);
            assert_eq!(overflows(&much), 102);
        });
        runtime.block_on(task).unwrap();
        let spawned = 257 + 1 + 128 + 1 + 100 * 129;
        while order.lock().unwrap().len() < spawned {
            std::thread::yield_now();
        }
        let mut ran = order.lock().unwrap().clone();
        ran.sort_unstable();
        assert_eq!(
            ran,
            (0..spawned).collect::<Vec<usize>>(),
            "S2: each ran once"
        );
    });
}

common::with_workers! {
    /// Others steal from it meanwhile.
    fn beside_thieves(workers: usize) {
        let runtime = common::runtime(workers);
        let (ran, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
        const EACH: usize = 2000;
        for _ in 0..workers {
            let (ran, gate) = (ran.clone(), gate.clone());
            drop(runtime.spawn(async move {
                gate.pass();
                for _ in 0..EACH {
                    let ran = ran.clone();
                    drop(ws_executor::spawn(async move { ran.add() }));
                }
            }));
        }
        gate.open();
        ran.wait_for(EACH * workers);
        while runtime.handle().metrics().live_tasks > 0 {
            std::thread::yield_now();
        }
        assert_eq!(ran.get(), EACH * workers);
    }
}
