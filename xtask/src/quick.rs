//! The checks of a small change, in under two minutes on two cores once everything was built
//! before: the form, the layers, clippy, the unit tests, and the page of guarantees. The rest is
//! `.ci/run`'s.

use std::{path::Path, time::Instant};

use crate::{Failure, cargo, layers, lines};

/// Calls of cargo, the quickest first.
const CALLS: &[&[&str]] = &[
    &["fmt", "--all", "--check"],
    &["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"],
    &["test", "--quiet", "--lib"],
    &["test", "--quiet", "--test", "every_guarantee_has_a_test"],
];

/// Runs them one after the other, up to the first that fails.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    timed("layers", || layers::check(root))?;
    timed("lines", || lines::check(root))?;
    for arguments in CALLS {
        let words = format!("cargo {}", arguments.join(" "));
        timed(&words, || call(root, arguments, &words))?;
    }
    Ok(())
}

fn call(root: &Path, arguments: &[&str], words: &str) -> Result<(), Failure> {
    let status = cargo::command(root)
        .args(arguments)
        .status()
        .map_err(|error| format!("`{words}` could not be started: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{words}` failed"))
    }
}

fn timed(words: &str, step: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let start = Instant::now();
    step()?;
    println!("{:>4} s  {words}", start.elapsed().as_secs());
    Ok(())
}
