//! A replicated key-value store: nodes that agree on one log by raft (openraft), each an HTTP
//! server (axum) with a folder on its disk.
//!
//! ```text
//!   Client  --POST /op-->  node (axum)  -->  openraft  --POST /raft/..-->  other nodes
//!                                             |    |
//!                                           Log    Machine
//!                                             files (vote, log, snapshot)
//! ```
//!
//! | module | what it has |
//! | --- | --- |
//! | [`api`] | what a client asks, and what a node answers |
//! | [`client`] | a client that looks for the leader and asks again |
//! | [`node`] | a node: its server, and how it answers a client |
//! | [`log`] | the vote and the log on the disk |
//! | [`machine`] | keys and values, and their snapshots on the disk |
//! | [`peers`] | raft's messages from node to node |
//! | [`files`] | files that a crash does not tear |
//! | [`bug`] | mistakes that tests put in, to see them found |
//!
//! It is written for tokio, and nothing in it knows of a simulation.

pub mod api;
pub mod bug;
pub mod client;
pub mod files;
pub mod log;
pub mod machine;
pub mod node;
pub mod peers;

use std::io::Cursor;

openraft::declare_raft_types!(
    /// The types that the nodes agree on.
    pub Types: D = api::Command, R = api::Answer,
);

/// A node's number.
pub type NodeId = u64;
