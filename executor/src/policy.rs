//! Policy: what the scheduler could decide otherwise without being wrong.
//!
//! A mechanism keeps a guarantee, and is right or wrong. A heuristic makes the common case cheaper,
//! and pays or does not. Each heuristic has a name in [`Heuristic`], so that `cargo xtask ablate`
//! can leave it out and measure what it is worth.

mod backoff;
mod heuristic;

pub(crate) use self::{backoff::Backoff, heuristic::Heuristic};
