//! tokio-console on `ws`, and on the package in `compat/tokio`.
//!
//! - The tests in `tests/console/`, a workspace of its own: a program on `ws` without tokio, with
//!   console-subscriber, and what its client and tokio-console itself show of it.
//! - The tests in `compat/tokio/console/`, a workspace of its own: the same for a program that is
//!   written for tokio.
//! - tokio's own tests of its spans. The usual run of its tests ([`check`](super::check)) builds
//!   them empty.
//!
//! The last two are built with `--cfg tokio_unstable`, as tokio's spans need. tokio-console is
//! installed below `target/tokio`.

use std::{fs, path::Path, process::Command};

use super::{environment, unpack};
use crate::{Failure, cargo, process, tree::at};

/// Of tokio-console.
const VERSION: &str = "0.1.14";
/// For each of the three, with its build.
const LIMIT: &str = "1800";
/// Folders of workspaces with a program and its tests. The cfg of each is in its
/// `.cargo/config.toml`.
const PROGRAMS: [&str; 2] = ["tests/console", "compat/tokio/console"];
/// Files of tokio's tests.
const SPANS: [&str; 3] = ["tracing_sync", "tracing_task", "tracing_time"];

/// `cargo xtask tokio-console`.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    let place = cargo::target(root).join("tokio");
    fs::create_dir_all(&place).map_err(at(&place))?;
    let console = place.join("console-bin");
    install(root, &console)?;
    for folder in PROGRAMS {
        let mut command = test(root, &root.join(folder))?;
        command
            .args(["--locked", "--", "--include-ignored"])
            .env("TOKIO_CONSOLE", console.join("bin/tokio-console"));
        process::run(&mut command)?;
    }
    let mut command = test(root, &unpack(root, &place)?)?;
    command
        .env("RUSTFLAGS", "--cfg tokio_unstable")
        .args(["--features", "tracing"]);
    for file in SPANS {
        command.args(["--test", file]);
    }
    process::run(&mut command)
}

fn test(root: &Path, folder: &Path) -> Result<Command, Failure> {
    let mut command = Command::new("timeout");
    command
        .args(["--signal", "KILL", LIMIT, "cargo", "test"])
        .current_dir(folder)
        .env(
            "CARGO_TARGET_DIR",
            cargo::target(root).join("tokio/console"),
        )
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .envs(environment(root)?);
    Ok(command)
}

/// Installs tokio-console, if this version is not there.
fn install(root: &Path, place: &Path) -> Result<(), Failure> {
    let mut command = cargo::command(root);
    command
        .args(["install", "--quiet", "--locked", "tokio-console"])
        .args(["--version", VERSION, "--root"])
        .arg(place)
        .env(
            "CARGO_TARGET_DIR",
            cargo::target(root).join("tokio/console"),
        );
    process::run(&mut command)
}
