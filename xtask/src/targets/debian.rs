//! Debian's compiler, which has the source of std beside it.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Failure, apt,
    deep::shop::{self, Shop},
    process,
};

const RUSTC: &str = "/usr/bin/rustc";
/// By its path: rustup has a program of that name too, for its own compilers.
pub(super) const CLIPPY: &str = "/usr/bin/cargo-clippy";
const SOURCE: &str = "/usr/lib/rustlib/src";
/// The folder of all targets: cargo keeps them apart by their names, and shares what it builds for
/// the machine itself.
const FOLDER: &str = "targets";

/// Installs the compiler, and the packages of those `needs` that are missing. A need is a program,
/// or the path of a file.
pub(super) fn install(shop: &Shop, needs: &[(&str, &str)]) -> Result<(), Failure> {
    let compiler = [(RUSTC, "rustc-web"), (SOURCE, "rust-web-src")];
    let packages: Vec<_> = compiler
        .iter()
        .chain(needs)
        .filter(|(need, _)| !Path::new(need).exists() && !apt::is_there(need))
        .map(|(_, package)| *package)
        .collect();
    if packages.is_empty() {
        return Ok(());
    }
    shop::apt(shop, &packages)
}

/// Cargo with this compiler. It builds std for the target that the caller adds.
pub(super) fn cargo(shop: &Shop, verb: &str) -> Command {
    let mut command = shop.cargo(FOLDER);
    command.args([verb, "-Zbuild-std"]);
    with_compiler(&mut command);
    command
}

/// Debian's clippy, of the same version.
pub(super) fn clippy(shop: &Shop) -> Command {
    let mut command = Command::new(CLIPPY);
    command
        .current_dir(&shop.root)
        .env("CARGO", env::var_os("CARGO").unwrap_or("cargo".into()))
        .env("CARGO_TARGET_DIR", shop.folder(FOLDER))
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .args(["clippy", "-Zbuild-std"]);
    with_compiler(&mut command);
    command
}

/// Where cargo puts what it builds for a target.
pub(super) fn built(shop: &Shop, triple: &str) -> PathBuf {
    shop.folder(FOLDER).join(triple).join("debug")
}

fn with_compiler(command: &mut Command) {
    command
        .env("RUSTC", RUSTC)
        // The flag `-Zbuild-std` is for a nightly, and for a compiler that is told so.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_INCREMENTAL", "0");
}

/// The compiler's version, for the tables.
pub(super) fn version() -> Result<String, Failure> {
    let said = process::output(Command::new(RUSTC).arg("--version"))?;
    let words: Vec<_> = said.split_whitespace().take(2).collect();
    Ok(words.join(" "))
}
