//! Branches of computations that fork: where they wait, and what they are to other threads.
//!
//! | file | has |
//! | --- | --- |
//! | `deque.rs` | where branches wait, and how they are taken (*Asks*, *Mine or nothing*) |
//! | `job.rs` | what a branch of a join is to others |
//! | `jobs.rs` | where branches of a scope wait, and which threads take them |
//! | `latch.rs` | how the owner of a stolen branch learns of its end |
//! | `count_latch.rs` | how a scope learns that all of its branches have ended |
//! | `compute.rs`, `cancel_flag.rs` | what a computation of [`compute()`](crate::compute) is to its threads: it may be cancelled |
//! | `own.rs` | what a thread has of its own for its forks |
//!
//! The scheduler is one layer above: a P has a branch deque, and a search takes from those of
//! others. The steps of a join and of a scope are above the scheduler, in `fork_join/`.
#![allow(unsafe_code)]

mod cancel_flag;
#[cfg(not(ws_loom))]
pub(crate) mod compute;
mod count_latch;
mod deque;
pub(crate) mod job;
pub(crate) mod jobs;
mod latch;
#[cfg(not(ws_loom))]
pub(crate) mod own;

#[cfg(all(any(test, feature = "sim"), not(ws_loom)))]
pub(crate) use self::own::{Aside, lay_aside};
pub(crate) use self::{
    cancel_flag::CancelFlag,
    count_latch::CountLatch,
    deque::{Branch, BranchDeque, Tail},
    job::Header,
    latch::Settled,
};
#[cfg(not(ws_loom))]
pub(crate) use self::{
    compute::Computation,
    own::{attach, base, detach, is_inside, run_claimed},
};
