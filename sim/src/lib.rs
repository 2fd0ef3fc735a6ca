//! A deterministic model of a system of hosts, for tests that run the whole system under one seed.
//!
//! | module | what it models |
//! | --- | --- |
//! | [`network`] | hosts with addresses, TCP and UDP sockets, the links between them, their faults |
//! | [`rng`] | the one source of randomness |
//!
//! The same seed and the same calls give the same run, bit for bit, on every machine. So no code
//! here reads a clock, starts a thread, iterates over a hash map or computes with floats. The
//! caller owns the time: it tells the network how late it is, and asks when something happens next.

mod error;
pub mod network;
pub mod rng;

pub use error::Error;
