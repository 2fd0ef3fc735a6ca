//! Real libraries against real servers: the proofs in `tests/ecosystem/`, a workspace of its own.
//!
//! Installs the servers that are missing, and starts none of them. The proofs start each on a free
//! port of this machine and in a folder of its own, and stop it by its own process id.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use super::place::Place;
use crate::{
    Failure, apt, cargo,
    tree::{at, entries},
};

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
    let missing = missing();
    if !missing.is_empty() {
        install(&missing, &place.log("apt-ecosystem"))?;
    }
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
            // With the package that compares, which is built nowhere else.
            proofs("clippy --locked --quiet --workspace --all-targets -- -D warnings"),
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

/// The packages that are missing.
fn missing() -> Vec<&'static str> {
    let mut missing = apt::missing(PROGRAMS);
    // These two have programs that are on nobody's path.
    let versions = entries(Path::new("/usr/lib/postgresql")).unwrap_or_default();
    if !versions
        .iter()
        .any(|version| version.path().join("bin/initdb").is_file())
    {
        missing.push("postgresql");
    }
    if !Path::new("/usr/lib/rabbitmq/bin/rabbitmq-server").is_file() {
        missing.push("rabbitmq-server");
    }
    missing
}

/// Debian starts a server that it installs, unless a policy says no. If the machine has no policy,
/// it has this one for that time.
fn install(packages: &[&str], log: &Path) -> Result<(), Failure> {
    // PostgreSQL would also make a database, which nobody here uses.
    let no_database = Path::new("/etc/postgresql-common/createcluster.conf");
    if !no_database.exists() {
        fs::create_dir_all("/etc/postgresql-common").map_err(at(no_database))?;
        fs::write(no_database, "create_main_cluster = false\n").map_err(at(no_database))?;
    }
    let policy = Path::new("/usr/sbin/policy-rc.d");
    if policy.exists() {
        return apt::install(packages, log);
    }
    fs::write(policy, "#!/bin/sh\nexit 101\n").map_err(at(policy))?;
    fs::set_permissions(policy, fs::Permissions::from_mode(0o755)).map_err(at(policy))?;
    let installed = apt::install(packages, log);
    fs::remove_file(policy).map_err(at(policy))?;
    installed
}
