//! What clients asked and were told, in the order in which it happened.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use kv::api::{Answer, Op};

use crate::checker::{self, Call};

/// The history of a run. Clones are the same one.
#[derive(Clone, Default)]
pub struct History(Arc<Mutex<Calls>>);

#[derive(Default)]
struct Calls {
    /// Counts begins and ends.
    now: usize,
    digest: u64,
    keys: BTreeMap<String, Vec<Call>>,
}

impl History {
    /// A request begins. The number is for [`end`](Self::end).
    pub fn begin(&self, client: u64, key: &str, op: Op) -> usize {
        let mut calls = self.0.lock().unwrap();
        calls.now += 1;
        let begin = calls.now;
        let of_key = calls.keys.entry(key.to_owned()).or_default();
        of_key.push(Call {
            client,
            op,
            begin,
            end: None,
        });
        of_key.len() - 1
    }

    /// It was answered, at so many microseconds of the client's time.
    pub fn end(&self, key: &str, number: usize, answer: Answer, time: u128) {
        let mut calls = self.0.lock().unwrap();
        calls.now += 1;
        let end = calls.now;
        let call = &mut calls.keys.get_mut(key).expect("it has begun")[number];
        call.end = Some((end, answer));
        let text = format!("{key} {call} {time}");
        let digest = text.bytes().fold(calls.digest, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        calls.digest = digest;
    }

    /// A hash of all answers and their times.
    pub fn digest(&self) -> u64 {
        self.0.lock().unwrap().digest
    }

    /// How many requests were answered.
    pub fn answered(&self) -> usize {
        let calls = self.0.lock().unwrap();
        let all = calls.keys.values().flatten();
        all.filter(|call| call.end.is_some()).count()
    }

    /// Whether one copy of each key can have given all answers.
    pub fn check(&self) -> Result<(), String> {
        for (key, calls) in &self.0.lock().unwrap().keys {
            if !checker::is_linearizable(calls) {
                return Err(format!("the answers about key {key:?} do not fit together"));
            }
        }
        Ok(())
    }
}
