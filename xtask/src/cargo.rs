//! How cargo is called, and how the models are built and run.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Failure, process};

/// The cargo that called us, in the workspace at `root`.
pub(crate) fn command(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs cargo with these words, which spaces separate, in the workspace at `root`.
pub(crate) fn run(root: &Path, words: &str) -> Result<(), Failure> {
    process::run(command(root).args(words.split(' ')))
}

/// The target folder of the workspace at `root`.
pub(crate) fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// The compiler that this workspace is built with, and the target that it builds for.
pub(crate) fn compiler() -> Result<Compiler, Failure> {
    Compiler::of(&process::output(Command::new("rustc").arg("-vV"))?)
}

/// See [`compiler`].
#[derive(Debug, PartialEq)]
pub(crate) struct Compiler {
    pub(crate) version: String,
    pub(crate) target: String,
}

impl Compiler {
    /// What `rustc -vV` says of itself.
    fn of(said: &str) -> Result<Self, Failure> {
        let first = said.lines().next();
        let target = said.lines().find_map(|line| line.strip_prefix("host: "));
        let (Some(version), Some(target)) = (first, target) else {
            return Err(format!("rustc does not say for which target it is: {said}"));
        };
        Ok(Self {
            version: version.to_owned(),
            target: target.to_owned(),
        })
    }
}

/// The folders of the packages that have models. Each is named `ws-` and that, and has its mutants
/// in `mutants/`.
pub(crate) const MODELLED: [&str; 4] = ["queue", "executor", "reactor", "stack"];

/// `cargo test` of the models of these packages, in the workspace at `root`. Arguments that follow
/// are a filter, or go to cargo.
pub(crate) fn models(root: &Path, target: &Path, folders: &[&str]) -> Command {
    let mut command = self::command(root);
    command
        .env("RUSTFLAGS", "--cfg ws_loom")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_TARGET_DIR")
        // The models are built often and run shortly, and need no names in a backtrace.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true")
        .args(["test", "--release", "--lib"])
        .args(
            folders
                .iter()
                .map(|folder| format!("--package=ws-{folder}")),
        )
        .arg("--target-dir")
        .arg(target);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_says_its_version_and_its_target() {
        let said = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: riscv64gc-unknown\n";
        let compiler = Compiler::of(said).unwrap();
        assert_eq!(compiler.version, "rustc 1.95.0 (59807616e 2026-04-14)");
        assert_eq!(compiler.target, "riscv64gc-unknown");
        assert!(Compiler::of("rustc 1.95.0\n").is_err());
    }
}
