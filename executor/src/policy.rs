//! Policy: what the scheduler could decide otherwise without being wrong.
//!
//! A mechanism keeps a guarantee, and is right or wrong. A heuristic makes the common case cheaper,
//! and pays or does not. Each heuristic that can be left out has a name in [`Heuristic`], so that
//! `cargo xtask ablate` can measure what it is worth.
//!
//! A decision is a function of numbers that the caller has observed, and of what a back-off or a
//! pace remembers of the times before. No atomic, no clock and no thread is here, so a table tests
//! it. Its thresholds are in [`constants`].

mod backoff;
pub(crate) mod constants;
pub(crate) mod forks;
mod heuristic;
pub(crate) mod pace;
pub(crate) mod search;
pub(crate) mod share;
pub(crate) mod short_wait;
pub(crate) mod slack;
pub(crate) mod tick;
pub(crate) mod wake;

pub(crate) use self::{
    backoff::{Backoff, Limits, TimedBackoff},
    heuristic::Heuristic,
};
