//! The protocols of sleep, wake and shutdown: the right to run, and which thread has it.
//!
//! Go takes the P from a thread that is stuck in a system call. A Rust poll is stuck without notice
//! and may push at any moment. So here a P stays with its thread, and a
//! [`Permit`](idle::Permit) moves. There are `workers` permits, and each thread that polls tasks
//! holds one.
//!
//! | file | has |
//! | --- | --- |
//! | `idle.rs` | the words: permits, spinners, sleepers, the state of a worker; single steps on them |
//! | `env.rs` | the environment of the protocols; how a permit finds a thread, and how it is revoked |
//! | `sleep.rs` | a thread's side: it searches, parks, gives way |
//! | `phase.rs` | the phases of a shutdown |
//! | `allp.rs` | which Ps have a thread |
//! | `keeper.rs` | the thread that is left if the system refuses other threads |
//!
//! The protocols are written once, over traits that the runtime (`sched/`) and the models
//! implement. They know queues, in which anything may wait, and no task: nothing here imports
//! `cell/`, and `cargo xtask layers` checks it.

pub(crate) mod allp;
pub(crate) mod env;
pub(crate) mod idle;
pub(crate) mod keeper;
pub(crate) mod phase;
pub(crate) mod sleep;
