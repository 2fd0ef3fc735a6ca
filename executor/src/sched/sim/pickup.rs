//! How soon work that is queued beside a free permit is polled, on up to 1,024 workers (H2, L1).
//!
//! A poll spawns, and then computes for 5 ms. What it spawned waits for one thread to wake up and
//! to find it, and not for the end of that poll or for the monitor. So the bound is a number of
//! microseconds that follows from the costs of a machine, and it is the same for all numbers of
//! workers: threads that sleep are passed by.
//!
//! A task alone in `runnext` has it as well, until wake-ups for such tasks were in vain a few times
//! (*The wake back-off* in `push.rs`).
//!
//! | part of the bound | is |
//! | --- | --- |
//! | `unpark_ns`, `wake_ns` | the spawn wakes a thread |
//! | `RUNNEXT_WAIT` | a thief waits this time for the worker to come to a lone `runnext` itself |
//! | some lines of cache | the search finds the victim, and takes from it |

use super::{
    paced::work,
    scaling::{COSTS, warm},
};
use crate::{nodes::Nodes, policy::constants::RUNNEXT_WAIT, spawn};

/// What the poll computes for, behind its spawns.
const LONG_NS: u64 = 5_000_000;

/// How long the first of so many spawned tasks waits.
fn waits(workers: usize, spawned: usize) -> u64 {
    let (runtime, paced) = warm(7, workers, Nodes::default(), &COSTS);
    paced.begin();
    paced.run(|| {
        drop(runtime.handle().spawn(async move {
            (0..spawned).for_each(|_| drop(spawn(async { work(1_000) })));
            work(LONG_NS);
        }));
    });
    let first = paced.spread(1).expect("the poll that spawns");
    let second = paced.spread(2).expect("another thread has come");
    paced.end();
    runtime.shutdown_background();
    second - first
}

#[test]
fn queued_work_beside_a_free_permit_waits_for_one_wake_up() {
    let lines = 16 * COSTS.line_ns;
    let bound = COSTS.unpark_ns + COSTS.wake_ns + RUNNEXT_WAIT.as_nanos() as u64 + lines;
    for workers in [2, 8, 64, 1024] {
        for spawned in [1, 2, 64] {
            let waits = waits(workers, spawned);
            assert!(
                waits <= bound,
                "{spawned} spawned, {workers} workers: the first waits for {waits} ns"
            );
        }
    }
}
