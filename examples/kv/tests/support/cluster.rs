//! A cluster of nodes and its clients on simulated hosts, and what goes wrong in a run.
use std::thread;

use kv::{
    bug::Bug,
    node::{self, Options},
};
use ws_sim::{
    DiskFaults, Sim,
    network::{Latency, Link},
};

use super::{
    history::History,
    load::{self, CLIENTS, FAULTY, LONGEST, NODES, Random, addresses, millis, name},
};

/// The signal that ends a program at once. Its disk keeps what is not synced.
const SIGKILL: i32 = 9;

/// Adds the nodes.
fn nodes(sim: &Sim, bug: Bug) {
    // A crash is to come between any two calls, so each one takes its time.
    let slowest = 10_000 + sim.below(4_000_000);
    let disk = DiskFaults {
        latency: Latency::Uniform {
            min: 10_000,
            max: slowest,
        },
        sync_latency: Latency::Uniform {
            min: 200_000,
            max: 200_000 + 2 * slowest,
        },
        ..DiskFaults::default()
    };
    for id in 1..=NODES {
        let options = Options {
            id,
            nodes: addresses(),
            listen: "0.0.0.0:80".to_owned(),
            folder: "data".into(),
            snapshot_every: 12,
            bug,
        };
        sim.host(name(id), move || node::run(options.clone()));
        sim.set_disk(name(id), disk);
    }
}

/// What goes wrong in a run of this seed, with a limit of steps.
pub fn failure(seed: u64, bug: Bug, steps: u64) -> Option<String> {
    // A fresh thread, since hash maps of a thread share their keys.
    let run = move || {
        let sim = Sim::builder().seed(seed).event_limit(steps).build();
        run(&sim, bug).err()
    };
    let thread = thread::Builder::new().name(format!("seed {seed}"));
    let run = thread.spawn(run).expect("the system has a thread");
    run.join().unwrap_or_else(|_| Some("a panic".to_owned()))
}

/// A run of one seed: nodes, clients, faults. Tells how many requests wanted to change something
/// and how many of them were answered, or what does not fit.
pub fn run(sim: &Sim, bug: Bug) -> Result<(usize, usize), String> {
    let latency = Latency::Uniform {
        min: 100_000,
        max: 100_000 + sim.below(8_000_000),
    };
    sim.set_default_link(Link {
        latency,
        loss_ppm: [0, 0, 5_000, 50_000][sim.below(4) as usize],
        ..Link::default()
    });
    nodes(sim, bug);
    let history = History::default();
    for id in 1..=CLIENTS {
        let random = Random::new(sim.below(u64::MAX));
        sim.client(
            format!("client{id}"),
            load::client(id, random, history.clone()),
        );
    }
    for _ in 0..2 + sim.below(6) {
        fault(sim);
    }
    sim.try_run().map_err(|failure| failure.to_string())?;
    history.check()?;
    Ok(history.writes())
}

/// Plans something that goes wrong, and its end.
fn fault(sim: &Sim) {
    let begin = millis(sim.below(FAULTY));
    let length = millis(10 + sim.below(LONGEST - 10));
    let id = 1 + sim.below(NODES);
    let one = name(id);
    let others: Vec<String> = (1..=NODES).filter(|other| *other != id).map(name).collect();
    match sim.below(10) {
        0 | 1 => {
            sim.after(begin, move |sim| {
                sim.crash(&one);
                sim.after(length, move |sim| sim.restart(&one));
            });
        }
        2 => {
            sim.after(begin, move |sim| sim.restart(&one));
        }
        3 => {
            // The power fails.
            sim.after(begin, move |sim| {
                (1..=NODES).for_each(|id| sim.crash(name(id)));
                sim.after(length, |sim| {
                    (1..=NODES).for_each(|id| sim.restart(name(id)))
                });
            });
        }
        4 | 5 => {
            sim.after(begin, move |sim| {
                sim.partition([&one], &others);
                sim.after(length, Sim::heal);
            });
        }
        6 => {
            sim.after(begin, move |sim| {
                sim.partition_one_way([&one], &others);
                sim.after(length, Sim::heal);
            });
        }
        7 => {
            sim.after(begin, move |sim| {
                sim.pause(&one);
                sim.after(length, move |sim| sim.resume(&one));
            });
        }
        8 => {
            sim.after(begin, move |sim| {
                sim.signal(&one, SIGKILL);
                sim.after(length, move |sim| sim.restart(&one));
            });
        }
        _ => {
            let skew = sim.below(6_000_000_000).cast_signed() - 3_000_000_000;
            sim.after(begin, move |sim| sim.skew(&one, skew));
        }
    }
}
