//! Libraries on tokio with real servers, unmodified, on the package in `compat/tokio`: the tests in
//! `compat/tokio/servers/`, a workspace of its own.
//!
//! The servers that are missing are installed. The tests start each on a free port and in a folder
//! of its own.

use std::{fs, path::Path, process::Command};

use super::environment;
use crate::{Failure, cargo, process, servers, tree::at};

/// Programs on the path, and Debian's packages that have them.
const PROGRAMS: &[(&str, &str)] = &[
    ("dnsmasq", "dnsmasq-base"),
    ("epmd", "rabbitmq-server"),
    ("mosquitto", "mosquitto"),
    ("nats-server", "nats-server"),
    ("redis-server", "redis-server"),
];

/// For all tests, with their build.
const LIMIT: &str = "1800";

/// `cargo xtask tokio-servers [ARGUMENT…]`: the arguments are those of `cargo test`.
pub(crate) fn check(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let place = cargo::target(root).join("tokio");
    fs::create_dir_all(&place).map_err(at(&place))?;
    servers::install(PROGRAMS, &place.join("apt-servers.log"))?;
    let mut command = Command::new("timeout");
    command
        .args(["--signal", "KILL", LIMIT, "cargo", "test", "--locked"])
        .args(arguments)
        .current_dir(root.join("compat/tokio/servers"))
        .env("CARGO_TARGET_DIR", place.join("servers"))
        .envs(environment(root)?);
    process::run(&mut command)
}
