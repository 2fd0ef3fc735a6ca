//! The answers of three nodes fit together, whatever goes wrong: partitions, crashes, power
//! failures, pauses, loss, and calendars that jump.
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};

use kv::bug::Bug;
use support::cluster;
use ws_sim::Sim;

/// A run that takes so many steps does not end.
const STEPS: u64 = 300_000;

#[test]
fn answers_fit_together_whatever_goes_wrong() {
    let (asked, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    ws_sim::check(0..30, |sim| match cluster::run(sim, Bug::None) {
        Ok(writes) => {
            asked.fetch_add(writes.0, Ordering::Relaxed);
            answered.fetch_add(writes.1, Ordering::Relaxed);
        }
        Err(text) => panic!("{text}"),
    });
    // A store that answers nothing would have no answers that do not fit.
    let (asked, answered) = (asked.into_inner(), answered.into_inner());
    assert!(2 * answered >= asked, "{answered} of {asked} were answered");
}

#[test]
fn the_planted_bugs_that_nearly_any_run_shows_are_found_within_ten_seeds() {
    for bug in [
        Bug::LogNotSynced,
        Bug::SnapshotNotSynced,
        Bug::AppliedTwice,
        Bug::UnboundedRetry,
    ] {
        let found = (0..10).any(|seed| cluster::failure(seed, bug, STEPS).is_some());
        assert!(found, "{bug:?}");
    }
}

#[test]
fn a_seed_gives_the_same_run_twice() {
    for seed in 0..3 {
        let run = || {
            // A fresh thread, since hash maps of a thread share their keys.
            let run = move || {
                let sim = Sim::new(seed);
                let answered = cluster::run(&sim, Bug::None).unwrap();
                (sim.digest(), sim.events(), sim.elapsed(), answered)
            };
            std::thread::spawn(run).join().unwrap()
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}
