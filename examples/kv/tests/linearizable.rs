//! The answers of three nodes fit together, whatever goes wrong: partitions, crashes, power
//! failures, pauses, loss, and calendars that jump.
mod support;

use std::env;

use kv::bug::Bug;
use support::cluster;
use ws_sim::Sim;

/// `KV_SEEDS` asks for more.
fn seeds() -> u64 {
    let seeds = env::var("KV_SEEDS").ok();
    seeds.map_or(30, |seeds| seeds.parse().expect("KV_SEEDS is a number"))
}

#[test]
fn answers_fit_together_whatever_goes_wrong() {
    ws_sim::check(0..seeds(), |sim| {
        if let Err(text) = cluster::run(sim, Bug::None) {
            panic!("{text}");
        }
    });
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
