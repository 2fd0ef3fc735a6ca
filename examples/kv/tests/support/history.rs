//! What the clients asked, and what they were told, in the order in which it happened.
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use kv::api::{Answer, Op};

use super::checker::{self, Call};

/// The history of a run. Clones are the same one.
#[derive(Clone, Default)]
pub struct History {
    calls: Rc<RefCell<Calls>>,
}

#[derive(Default)]
struct Calls {
    /// Counts begins and ends.
    now: usize,
    keys: BTreeMap<String, Vec<Call>>,
}

impl History {
    /// A request begins. What it returns ends it.
    pub fn begin(&self, client: u64, key: &str, op: Op) -> Pending {
        let mut calls = self.calls.borrow_mut();
        calls.now += 1;
        let begin = calls.now;
        let of_key = calls.keys.entry(key.to_owned()).or_default();
        of_key.push(Call {
            client,
            op,
            begin,
            end: None,
        });
        Pending {
            history: self.clone(),
            key: key.to_owned(),
            place: of_key.len() - 1,
        }
    }

    /// How many requests wanted to change something, and how many of these were answered.
    pub fn writes(&self) -> (usize, usize) {
        let calls = self.calls.borrow();
        let all = calls.keys.values().flatten();
        let writes: Vec<_> = all.filter(|call| call.op != Op::Read).collect();
        let answered = writes.iter().filter(|call| call.end.is_some()).count();
        (writes.len(), answered)
    }

    /// What does not fit together, in words.
    pub fn check(&self) -> Result<(), String> {
        for (key, calls) in &self.calls.borrow().keys {
            if !checker::is_linearizable(calls) {
                let mut text = format!("the answers about key {key:?} do not fit together:");
                for call in calls {
                    text += &format!("\n  {call}");
                }
                return Err(text);
            }
        }
        Ok(())
    }
}

/// A request that is under way. If it is dropped, nobody knows whether it was done.
pub struct Pending {
    history: History,
    key: String,
    place: usize,
}

impl Pending {
    /// The answer came.
    pub fn ends(self, answer: Answer) {
        let mut calls = self.history.calls.borrow_mut();
        calls.now += 1;
        let end = (calls.now, answer);
        let of_key = calls.keys.get_mut(&self.key).expect("it has begun");
        of_key[self.place].end = Some(end);
    }
}
