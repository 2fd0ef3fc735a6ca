//! A cluster of nodes and its clients on simulated hosts, and what goes wrong in a run.
use kv::{
    bug::Bug,
    node::{self, Options},
};
use ws_sim::{
    Sim,
    network::{Latency, Link},
};

use super::{
    history::History,
    load::{self, CLIENTS, FAULTY, LONGEST, NODES, Random, addresses, millis, name},
};

/// Adds the nodes.
pub fn nodes(sim: &Sim, bug: Bug) {
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
    }
}

/// A run of one seed: nodes, clients, faults. Tells how many requests were answered, or what does
/// not fit.
pub fn run(sim: &Sim, bug: Bug) -> Result<usize, String> {
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
    Ok(history.answered())
}

/// Plans something that goes wrong, and its end.
fn fault(sim: &Sim) {
    let begin = millis(sim.below(FAULTY));
    let length = millis(10 + sim.below(LONGEST - 10));
    let id = 1 + sim.below(NODES);
    let one = name(id);
    let others: Vec<String> = (1..=NODES).filter(|other| *other != id).map(name).collect();
    match sim.below(9) {
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
        _ => {
            let skew = sim.below(6_000_000_000).cast_signed() - 3_000_000_000;
            sim.after(begin, move |sim| sim.skew(&one, skew));
        }
    }
}
