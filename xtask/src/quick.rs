//! The checks of a small change, in under two minutes on two cores once everything was built
//! before: the form, the layers, clippy, the unit tests, and the page of guarantees. The rest is
//! `cargo xtask ci`'s.

use std::{path::Path, time::Instant};

use crate::{Failure, cargo, ci, layers, orderings};

/// Calls of cargo, the quickest first.
const CALLS: &[&str] = &[
    "clippy --quiet --all-targets -- -D warnings",
    "test --quiet --lib",
    "test --quiet --test every_guarantee_has_a_test",
];

/// Runs them one after the other, up to the first that fails.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    timed("layers", || layers::check(root))?;
    timed("orderings", || orderings::check(root))?;
    timed("format", || ci::format(root))?;
    for words in CALLS {
        timed(&format!("cargo {words}"), || cargo::run(root, words))?;
    }
    Ok(())
}

fn timed(words: &str, step: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let start = Instant::now();
    step()?;
    println!("{:>4} s  {words}", start.elapsed().as_secs());
    Ok(())
}
