//! A cluster of nodes and its clients on simulated hosts, and what goes wrong in a run.
use std::{collections::BTreeMap, time::Duration};

use kv::{
    NodeId,
    api::{Answer, Op},
    bug::Bug,
    client::{Client, NoAnswer},
    node::{self, Options},
};
use ws_sim::{
    Sim,
    network::{Latency, Link},
};

use super::history::History;

const NODES: u64 = 3;
const CLIENTS: u64 = 3;
const OPS: u64 = 14;
const KEYS: u64 = 2;

/// Faults begin in the first so many milliseconds, and are over `LONGEST` later.
const FAULTY: u64 = 4_000;
const LONGEST: u64 = 1_500;

/// From then on the cluster has to answer within `RECOVERY`.
const RECOVERY: Duration = Duration::from_secs(20);

/// A run that takes so many steps does not end.
pub const STEPS: u64 = 3_000_000;

fn millis(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn name(id: NodeId) -> String {
    format!("n{id}")
}

fn addresses() -> BTreeMap<NodeId, String> {
    (1..=NODES).map(|id| (id, format!("n{id}:80"))).collect()
}

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

/// A run of one seed: nodes, clients, faults. Tells what does not fit.
pub fn run(sim: &Sim, bug: Bug) -> Result<History, String> {
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
        let random = Random {
            state: sim.below(u64::MAX),
            known: None,
        };
        sim.client(format!("client{id}"), client(id, random, history.clone()));
    }
    for _ in 0..2 + sim.below(6) {
        fault(sim);
    }
    sim.run().map_err(|failure| failure.to_string())?;
    history.check()?;
    Ok(history)
}

/// A client asks this and that, and at last for all keys.
async fn client(id: u64, mut random: Random, history: History) -> Result<(), String> {
    let nodes = addresses().into_values().collect();
    let begin = tokio::time::Instant::now();
    let mut client = Client::new(id, nodes).map_err(|error| error.to_string())?;
    for number in 0..OPS {
        tokio::time::sleep(millis(random.below(500))).await;
        let key = format!("k{}", random.below(KEYS));
        let value = id * 1_000 + number;
        let op = match random.below(8) {
            0..3 => Op::Read,
            3..5 => Op::Write(value),
            5 => Op::Add(1_000_000),
            _ => Op::Swap {
                old: random.known,
                new: value,
            },
        };
        let pending = history.begin(id, &key, op.clone());
        if let Ok(answer) = client.op(&key, op, millis(3_000)).await {
            random.learn(answer);
            pending.ends(answer);
        }
    }
    tokio::time::sleep_until(begin + millis(FAULTY + LONGEST)).await;
    for key in 0..KEYS {
        let key = format!("k{key}");
        let pending = history.begin(id, &key, Op::Read);
        match client.op(&key, Op::Read, RECOVERY).await {
            Ok(answer) => pending.ends(answer),
            Err(NoAnswer) => return Err(format!("no answer within {RECOVERY:?} after all faults")),
        }
    }
    Ok(())
}

/// Random numbers of a client, and the value that it has seen last.
struct Random {
    state: u64,
    known: Option<u64>,
}

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn learn(&mut self, answer: Answer) {
        if let Answer::Value(value) = answer {
            self.known = value;
        }
    }
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
