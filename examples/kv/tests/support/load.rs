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
const OPS: u64 = 14;
const KEYS: u64 = 2;

/// Faults begin in the first so many milliseconds, and are over `LONGEST` later.
pub const FAULTY: u64 = 4_000;
pub const LONGEST: u64 = 1_500;

/// From then on the cluster has to answer within `RECOVERY`.
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

/// A client asks this and that, and at last for all keys.
pub async fn client(id: u64, mut random: Random, history: History) -> Result<(), String> {
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
