//! What a client asks, and what a node answers. Both go over HTTP as JSON.
use serde::{Deserialize, Serialize};

/// One request of a client. A client has one request under way at a time.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Command {
    /// The client. No other client has this number.
    pub client: u64,
    /// The number of its request. A request that is asked again keeps it.
    pub number: u64,
    /// The key that it is about.
    pub key: String,
    /// What is to be done.
    pub op: Op,
}

/// What is done with a key.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Hash, Serialize)]
pub enum Op {
    /// Tells the value.
    Read,
    /// Sets the value.
    Write(u64),
    /// Sets the value to `new`, if it is `old`.
    Swap {
        /// The value that is expected.
        old: Option<u64>,
        /// The value that takes its place.
        new: u64,
    },
    /// Adds to the value, and tells the sum. No value counts as 0.
    Add(u64),
}

/// The answer to a [`Command`].
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Hash, Serialize)]
pub enum Answer {
    /// It is done, or there was nothing to do.
    #[default]
    Done,
    /// The value that was read, or the sum.
    Value(Option<u64>),
    /// The value was not the one that [`Op::Swap`] expects.
    Other,
}

/// What a node says instead of an answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum Refusal {
    /// Another node leads. Its address, if it is known.
    NotLeader(Option<String>),
    /// The node cannot tell whether the request was or will be done. Ask again.
    Unknown(String),
}
