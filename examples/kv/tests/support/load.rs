//! What the clients of a run ask.
use std::{collections::BTreeMap, time::Duration};

use kv::{
    NodeId,
    api::{Answer, Op},
    client::{Client, NoAnswer},
};

use super::history::History;

pub const NODES: u64 = 3;
pub const CLIENTS: u64 = 3;

/// A fault lasts at most so many milliseconds, and all are over after `CALM`.
pub const LONGEST: u64 = 1_500;
pub const CALM: u64 = 5_500;

/// Then there is a round for each node, in which it is out of work for a time.
pub const ROUND: u64 = 1_500;
pub const OUTAGE: u64 = 1_200;

/// After the faults of the plan the cluster has to answer within `RECOVERY`.
const RECOVERY: Duration = Duration::from_secs(20);

pub fn millis(time: u64) -> Duration {
    Duration::from_millis(time)
}

pub fn name(id: NodeId) -> String {
    format!("n{id}")
}

pub fn addresses() -> BTreeMap<NodeId, String> {
    (1..=NODES).map(|id| (id, format!("n{id}:80"))).collect()
}

/// How the clients of a run ask. Each seed has another one: some bugs need many requests at once,
/// and some need few about many keys.
#[derive(Clone, Copy)]
pub struct Shape {
    ops: u64,
    /// The longest time between two requests of a client.
    pause: u64,
    keys: u64,
    /// Of eight requests so many read.
    reads: u64,
}

impl Shape {
    pub fn draw(mut below: impl FnMut(u64) -> u64) -> Self {
        let (ops, pause) = [(14, 500), (24, 250), (40, 100)][below(3) as usize];
        Self {
            ops,
            pause,
            keys: 1 + below(3),
            reads: 1 + below(4),
        }
    }
}

/// A client asks this and that, and then for all keys in each round.
pub async fn client(
    id: u64,
    shape: Shape,
    mut random: Random,
    history: History,
) -> Result<(), String> {
    let nodes = addresses().into_values().collect();
    let begin = tokio::time::Instant::now();
    let mut client = Client::new(id, nodes).map_err(|error| error.to_string())?;
    for number in 0..shape.ops {
        tokio::time::sleep(millis(random.below(shape.pause))).await;
        let key = format!("k{}", random.below(shape.keys));
        let value = id * 1_000 + number;
        let op = match random.below(8) {
            kind if kind < shape.reads => Op::Read,
            kind if kind < shape.reads + 2 => Op::Write(value),
            kind if kind == shape.reads + 2 => Op::Add(1_000_000),
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
    for round in 0..=NODES {
        let at = CALM + round * ROUND + random.below(ROUND);
        tokio::time::sleep_until(begin + millis(at)).await;
        for key in 0..shape.keys {
            let op = match (round + id + key) % CLIENTS {
                0 if round < NODES => Op::Write(id * 1_000 + 900 + round),
                _ => Op::Read,
            };
            let key = format!("k{key}");
            let pending = history.begin(id, &key, op.clone());
            match client.op(&key, op, RECOVERY).await {
                Ok(answer) => pending.ends(answer),
                Err(NoAnswer) => {
                    return Err(format!("no answer within {RECOVERY:?} after all faults"));
                }
            }
        }
    }
    Ok(())
}

/// Random numbers of a client, and the value that it has seen last.
#[derive(Clone, Copy)]
pub struct Random {
    state: u64,
    known: Option<u64>,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self {
            state: seed,
            known: None,
        }
    }

    pub fn below(&mut self, end: u64) -> u64 {
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
