//! The keys and their values, as the log makes them.
use std::collections::BTreeMap;

use kv::api::{Answer, Command, Op};

#[derive(Default)]
pub struct Store {
    values: BTreeMap<String, u64>,
    /// The last request of each client that was done, and its answer.
    done: BTreeMap<u64, (u64, Answer)>,
}

impl Store {
    pub fn read(&self, key: &str) -> Answer {
        Answer::Value(self.values.get(key).copied())
    }

    /// Does a request, if it is newer than the last one of its client.
    pub fn apply(&mut self, command: &Command, again: bool) -> Answer {
        let Command {
            client,
            number,
            key,
            op,
        } = command;
        if let Some((last, answer)) = self.done.get(client)
            && last >= number
            && !again
        {
            return *answer;
        }
        let value = self.values.get(key).copied();
        let (answer, new) = match *op {
            Op::Read => (Answer::Value(value), value),
            Op::Write(new) => (Answer::Done, Some(new)),
            Op::Swap { old, new } if old == value => (Answer::Done, Some(new)),
            Op::Swap { .. } => (Answer::Other, value),
            Op::Add(more) => {
                let sum = value.unwrap_or(0).wrapping_add(more);
                (Answer::Value(Some(sum)), Some(sum))
            }
        };
        if let Some(new) = new {
            self.values.insert(key.clone(), new);
        }
        self.done.insert(*client, (*number, answer));
        answer
    }
}
