//! Whole systems under one seed: hosts, their network, its faults and time, for tests of programs
//! on the `ws` runtime.
//!
//! A [`Sim`] has hosts. Each runs an ordinary program: `ws::net`, `ws::time`, and any library that
//! uses them or std. Nothing in the program names the simulation. The same seed gives the same run.
//! [`check()`] runs a test with many seeds, and tells how to replay the one that failed.
//!
//! | module | what it has |
//! | --- | --- |
//! | [`Sim`] | hosts, faults, the run; Linux only |
//! | [`network`] | TCP and UDP sockets, the links between hosts, their faults |
//! | [`rng`] | the one source of randomness |
//!
//! Inside a host the simulation has: TCP and UDP, names of hosts, `Instant` and `SystemTime`,
//! `std::thread::sleep`, random bytes, the keys of hash maps, ids of tasks. Files, processes and
//! signals are the system's. A real thread is refused: use `ws::spawn_blocking`. A Unix socket is
//! refused with `EAFNOSUPPORT`. A call that would block on a socket answers `EDEADLK`.
//!
//! The package defines functions of libc, such as `recv` and `clock_gettime`, for the whole program
//! that it is linked into. Outside of a simulation they call the system. So it belongs into
//! `[dev-dependencies]`.
//!
//! The network alone has no `unsafe`, and runs on any system. No code here starts a thread in a
//! simulation, iterates over a hash map or computes with floats.

#[cfg(target_os = "linux")]
mod check;
#[cfg(target_os = "linux")]
mod disk;
mod error;
#[cfg(target_os = "linux")]
mod failure;
#[cfg(target_os = "linux")]
mod kernel;
pub mod network;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod record;
pub mod rng;
#[cfg(target_os = "linux")]
mod sim;
#[cfg(target_os = "linux")]
mod world;

pub use error::Error;
#[cfg(target_os = "linux")]
pub use {
    check::check,
    disk::{Disk, DiskFaults},
    failure::Failure,
    plan::{FaultKind, Plan},
    record::Recording,
    sim::{Builder, Order, Outcome, Sim},
};
