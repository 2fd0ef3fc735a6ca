//! Whole systems under one seed: hosts, their network, its faults and time, for tests of programs
//! on the `ws` runtime.
//!
//! A [`Sim`] has hosts. Each runs an ordinary program: `ws::net`, `ws::time`, and any library that
//! uses them or std. Nothing in the program names the simulation. The same seed gives the same run.
//! [`check()`] runs a test with many seeds, and tells how to replay the one that failed. With the
//! feature `sim` of `ws-runtime` this is `ws::sim`, and the attribute `#[ws::sim]` writes the test.
//!
//! | module | what it has |
//! | --- | --- |
//! | [`Sim`] | hosts, faults, the run; Linux only |
//! | [`Disk`], [`DiskFaults`] | the files of a host, which a crash may lose |
//! | [`Recording`] | what each host did, for people and for Perfetto; Linux only |
//! | [`network`] | TCP and UDP sockets, the links between hosts, their faults |
//! | [`rng`] | the one source of randomness |
//!
//! Inside a host the simulation has: TCP, UDP and Unix sockets, names of hosts, `Instant` and
//! `SystemTime`, `std::thread::sleep`, random bytes, the keys of hash maps, ids of tasks, and the
//! signals of `ws::signal`, and files. A real thread is refused: use `ws::spawn_blocking`. So is a
//! child process, with `ENOSYS`. A call that would block on a socket answers `EDEADLK`.
//!
//! The package defines functions of libc, such as `recv` and `clock_gettime`, for the whole program
//! that it is linked into. Outside of a simulation they call the system. So it belongs into
//! `[dev-dependencies]`.
//!
//! The network alone has no `unsafe`, and runs on any system. No code here starts a thread in a
//! simulation, iterates over a hash map or computes with floats.

use std::time::Duration;

#[cfg(target_os = "linux")]
mod check;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod disk;
mod error;
#[cfg(target_os = "linux")]
mod failure;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg_attr(
    not(target_os = "linux"),
    expect(
        dead_code,
        unused_imports,
        reason = "hosts read its log, and they are Linux's alone"
    )
)]
pub mod network;
#[cfg(target_os = "linux")]
mod pipe;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod record;
pub mod rng;
#[cfg(target_os = "linux")]
mod sim;
#[cfg(target_os = "linux")]
mod unix;
#[cfg(target_os = "linux")]
mod world;

pub use error::Error;
#[cfg(target_os = "linux")]
pub use {
    check::check,
    disk::{Disk, DiskFaults},
    failure::Failure,
    plan::{FaultKind, Plan},
    program::{HostProgram, Outcome},
    record::Recording,
    sim::{Builder, Order, Run, Sim},
};

/// What the code of `#[ws::sim]` calls. Not for use by hand.
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod __private {
    pub use crate::check::{block, test};
}

/// So many seconds, for [`Sim::after`] and programs.
///
/// ```
/// assert_eq!(ws_sim::secs(5), std::time::Duration::from_secs(5));
/// ```
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// So many milliseconds, for [`Sim::after`] and programs.
///
/// ```
/// assert_eq!(ws_sim::millis(5), std::time::Duration::from_millis(5));
/// ```
pub const fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
