//! A cluster of nodes and its clients on simulated hosts, and what goes wrong in a run.
use std::thread;

use kv::{
    NodeId,
    bug::Bug,
    node::{self, Options},
};
use ws_sim::{
    DiskFaults, Plan, Sim,
    network::{Latency, Link},
};

use super::{
    history::History,
    load::{
        self, CALM, CLIENTS, LONGEST, NODES, OUTAGE, ROUND, Random, Shape, addresses, millis, name,
    },
};

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
    // Some bugs need a long log, and some need many snapshots.
    let snapshot_every = 4 + sim.below(40);
    for id in 1..=NODES {
        let options = Options {
            id,
            nodes: addresses(),
            listen: "0.0.0.0:80".to_owned(),
            folder: "data".into(),
            snapshot_every,
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
    let shape = Shape::draw(|end| sim.below(end));
    for id in 1..=CLIENTS {
        let random = Random::new(sim.below(u64::MAX));
        sim.client(
            format!("client{id}"),
            load::client(id, shape, random, history.clone()),
        );
    }
    sim.faults(faults());
    (1..=NODES).for_each(|id| outage(sim, id));
    sim.try_run().map_err(|failure| failure.to_string())?;
    history.check()?;
    Ok(history.writes())
}

/// What goes wrong while the clients ask. It is another half of all kinds for each seed.
fn faults() -> Plan {
    Plan::new()
        .swarm()
        .every(millis(1_000))
        .lasts(millis(10), millis(LONGEST))
        .quiet_after(millis(CALM))
}

/// Afterwards each node is out of work once, and the others have to know all that was told. So each
/// majority has to answer.
fn outage(sim: &Sim, id: NodeId) {
    let one = name(id);
    let others: Vec<String> = (1..=NODES).filter(|other| *other != id).map(name).collect();
    let begin = millis(CALM + (id - 1) * ROUND);
    let how = sim.below(3);
    sim.after(begin, move |sim| match how {
        0 => sim.pause(&one),
        1 => sim.partition([&one], &others),
        _ => sim.crash(&one),
    });
    let one = name(id);
    sim.after(begin + millis(OUTAGE), move |sim| match how {
        0 => sim.resume(&one),
        1 => sim.heal(),
        _ => sim.restart(&one),
    });
}
