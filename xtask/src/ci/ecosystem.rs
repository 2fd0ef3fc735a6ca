//! Real libraries against real servers: the proofs in `tests/ecosystem/`, a workspace of its own.
//!
//! Installs the servers that are missing, and starts none of them. The proofs start each on a free
//! port of this machine and in a folder of its own, and stop it by its own process id.

use std::process::Command;

use super::place::Place;
use crate::{Failure, cargo, servers};

/// Programs on the path, and Debian's packages that have them.
const PROGRAMS: &[(&str, &str)] = &[
    ("curl", "curl"),
    ("dbus-daemon", "dbus"),
    ("dnsmasq", "dnsmasq-base"),
    ("epmd", "rabbitmq-server"),
    ("h2load", "nghttp2-client"),
    ("nginx", "nginx-light"),
    ("redis-server", "redis-server"),
    ("wrk", "wrk"),
];

pub(super) fn check(place: &Place) -> Result<(), Failure> {
    servers::install(PROGRAMS, &place.log("apt-ecosystem"))?;
    let library = |what: &str| {
        let mut command = cargo::command(&place.root);
        command.args(["test", "--package", "ws-runtime", "--all-features", what]);
        command
    };
    let proofs = |words: &str| proofs(place, words);
    place.tests(
        "ecosystem",
        [
            // The adapters' own examples, and the unit tests that need their features.
            library("--doc"),
            library("--lib"),
            proofs("fmt --all --check"),
            // A new dependency of ws is one of this workspace too, so its lock file changes with
            // it: `cargo update --workspace` in its folder, in the same commit. All other versions
            // stay as they are.
            proofs("test --locked"),
            proofs("run --locked --quiet --example both_contexts"),
        ],
    )
}

/// Cargo in the workspace of the proofs.
fn proofs(place: &Place, words: &str) -> Command {
    let mut command = cargo::command(&place.root.join("tests/ecosystem"));
    command
        .env("CARGO_TARGET_DIR", place.target.join("ecosystem"))
        .args(words.split(' '));
    command
}
