//! Programs of steps on the queues, each run beside a simple model.
//!
//! | program | drives | beside |
//! | --- | --- | --- |
//! | [`local`] | two LRQs, whose owners steal from each other | two `VecDeque`s |
//! | [`global`] | the GRQ, with batches | a `VecDeque` |
//! | [`ordered_local`] | the ordered queue of a P | a sorted `Vec` |
//! | [`ordered_shared`] | the one that all share | a sorted `Vec` |
//! | [`direct`] | runnext and the fork deque, by the owner and by a thief | an `Option` and a `VecDeque` |
//!
//! A program is a list of steps, and its `run` panics at the first that does what the model does
//! not. What makes up the programs is elsewhere, so that there are two of them: proptest, in
//! `tests.rs` and in CI, which shrinks what fails; and the fuzzer, in the package `fuzz`, which
//! looks for steps that reach new code. That one builds this crate with `--cfg ws_fuzz`, and so
//! finds this module public. (Not with `--cfg fuzzing`, which cargo-fuzz sets in its users'
//! programs, for all crates in them.)
//!
//! All of it happens on one thread. What threads do to each other is the models' (`models/`).
//!
//! *Every program ends its items.* Each item counts its own end ([`items`]), after every step as
//! many have ended as the model says, and after the last all of them have (S2).
#![cfg_attr(
    not(ws_fuzz),
    allow(unreachable_pub, reason = "the package `fuzz` reaches it")
)]

pub mod direct;
pub mod global;
pub(crate) mod items;
pub mod local;
pub mod ordered_local;
pub mod ordered_shared;
mod sorted;
