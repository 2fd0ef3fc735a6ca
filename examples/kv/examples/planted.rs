//! How many seeds find each planted bug:
//!
//! ```sh
//! cargo run --release --example planted -- [SEEDS [BUG]]
//! ```
#[path = "../tests/support/mod.rs"]
mod support;

use std::{env, time::Instant};

use kv::bug::Bug;
use support::cluster;

/// A run that takes so many steps does not end.
const STEPS: u64 = 3_000_000;

fn main() {
    let mut words = env::args().skip(1);
    let seeds = words
        .next()
        .map_or(10_000, |seeds| seeds.parse().expect("a number of seeds"));
    let only = words.next();
    let bugs = Bug::ALL.into_iter().chain([Bug::None]);
    for bug in bugs.filter(|bug| only.as_ref().is_none_or(|only| *only == format!("{bug:?}"))) {
        let begin = Instant::now();
        let found = (0..seeds).find_map(|seed| Some((seed, cluster::failure(seed, bug, STEPS)?)));
        let time = begin.elapsed();
        match found {
            Some((seed, text)) => {
                println!("| {bug:?} | {} | {time:.1?} |", seed + 1);
                eprintln!("{text}\n");
            }
            None => println!("| {bug:?} | none of {seeds} | {time:.1?} |"),
        }
    }
}
