//! What the three programs can be asked. `cargo xtask simulators` asks it; a line of each answer
//! is its figures, with a space between them. Seconds are of the processor time of the process.
use std::{env, panic, process::exit};

use super::{bug::Bug, leaks, loads, plan};
use crate::seam;

const USAGE: &str = "\
usage: PROGRAM COMMAND
  bugs                     the names of the planted bugs
  hunt BUG LIMIT FROM      seeds until the bug is found, and seconds, from that seed on
  seed BUG SEED            what one seed shows
  sound SEEDS              seeds that fail without a bug
  replay SEEDS             seeds that differ from themselves
  leaks                    programs that depend on more than the seed: a name, and what it asks
  leak NAME SEED           what that program saw
  echo ROUNDS              seconds
  waiting SECONDS          seconds that so many simulated ones take
  memory SEEDS             kB after a tenth of the seeds, and after all";

/// Does what the command line says.
pub fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // Planted bugs panic, too. What matters is that a seed failed.
    panic::set_hook(Box::new(|_| ()));
    if answer(&words).is_none() {
        eprintln!("{USAGE}");
        exit(2);
    }
}

fn answer(words: &[&str]) -> Option<()> {
    match *words {
        ["bugs"] => Bug::ALL.iter().for_each(|bug| println!("{bug:?}")),
        ["hunt", bug, limit, from] => {
            let (bug, limit, from) = (Bug::named(bug)?, number(limit)?, number(from)?);
            let fails = |seed: &u64| plan::run(*seed, bug).failure.is_some();
            let found = (from..from + limit).find(fails);
            let seeds = found.map_or("none".to_owned(), |seed| (seed - from + 1).to_string());
            println!("{seeds} {}", loads::cpu_seconds());
        }
        ["seed", bug, seed] => println!("{:#?}", plan::run(number(seed)?, Bug::named(bug)?)),
        ["sound", seeds] => sound(number(seeds)?),
        ["replay", seeds] => {
            let digest = |seed| plan::run(seed, Bug::None).digest;
            let differ = (0..number(seeds)?).filter(|seed| digest(*seed) != digest(*seed));
            println!("{}", differ.count());
        }
        ["leaks"] => leaks::ALL
            .iter()
            .for_each(|(_, name, asks)| println!("{name} {asks}")),
        ["leak", name, seed] => {
            let (leak, ..) = leaks::ALL.iter().find(|(_, known, _)| *known == name)?;
            println!("{}", leaks::seen(*leak, number(seed)?));
        }
        ["echo", rounds] => {
            let ended = loads::echo(u32::try_from(number(rounds)?).ok()?);
            told(ended);
        }
        ["waiting", seconds] => told(loads::waiting(number(seconds)?)),
        ["memory", seeds] => {
            let seeds = number(seeds)?;
            (0..seeds / 10).for_each(|seed| drop(plan::run(seed, Bug::None)));
            let early = loads::memory("VmRSS");
            (seeds / 10..seeds).for_each(|seed| drop(plan::run(seed, Bug::None)));
            println!("{early} {}", loads::memory("VmRSS"));
        }
        _ => return None,
    }
    Some(())
}

fn number(word: &str) -> Option<u64> {
    word.parse().ok()
}

fn told(ended: Result<(), String>) {
    match ended {
        Ok(()) => println!("{}", loads::cpu_seconds()),
        Err(error) => {
            eprintln!("{}: {error}", seam::NAME);
            exit(1);
        }
    }
}

/// Runs seeds without a bug: how many fail, how many answers there were, and seconds.
fn sound(seeds: u64) {
    let (mut failed, mut answered) = (0, 0);
    for seed in 0..seeds {
        let seen = plan::run(seed, Bug::None);
        answered += seen.answered;
        if let Some(failure) = seen.failure {
            failed += 1;
            let line = failure.lines().next().unwrap_or_default();
            eprintln!("seed {seed}: {line}");
        }
    }
    println!("{failed} {answered} {}", loads::cpu_seconds());
}
