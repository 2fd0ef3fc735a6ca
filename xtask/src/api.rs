//! The public API as text, a file for each crate in `docs/api/`: so each change of it is seen in
//! review.
//!
//! cargo-public-api makes the text from rustdoc's JSON, which a nightly writes. `cargo xtask api`
//! compares it with the files, and `cargo xtask api write` renews them.
//!
//! Users name all through `ws`. Its file names what comes from another crate in one line, and that
//! crate's file has the methods. Implementations that the compiler or a blanket makes are left out:
//! they follow from the rest, and are nine lines of ten.
//!
//! Rejected: cargo-semver-checks. It compares with a published version, and there is none. It says
//! what breaks a program, not what was added.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Failure, cargo, process, tree::at};

/// Crates from which users name something.
const CRATES: [&str; 6] = [
    "ws-runtime",
    "ws-executor",
    "ws-net",
    "ws-reactor",
    "ws-macros",
    "ws-sim",
];
/// The page does not say more than this of one crate.
const SHOWN_MAX: usize = 40;

/// Compares the API of each crate with its file.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    let mut changes = Vec::new();
    for package in CRATES {
        let path = file(root, package);
        let before = fs::read_to_string(&path).map_err(at(&path))?;
        let now = api(root, package)?;
        if before != now {
            let change = difference(&before, &now);
            changes.push(format!("{package}\n{}", change.join("\n")));
        }
    }
    if changes.is_empty() {
        println!(
            "the public API of {} crates is that of docs/api",
            CRATES.len()
        );
        return Ok(());
    }
    Err(format!(
        "the public API is not that of docs/api. If it should change, run `cargo xtask api write`, \
         and say in CHANGELOG.md what users see\n{}",
        changes.join("\n")
    ))
}

/// Writes the files anew.
pub(crate) fn write(root: &Path) -> Result<(), Failure> {
    for package in CRATES {
        let path = file(root, package);
        let text = api(root, package)?;
        fs::write(&path, &text).map_err(at(&path))?;
        println!("{package}: {} lines", text.lines().count());
    }
    Ok(())
}

fn file(root: &Path, package: &str) -> PathBuf {
    root.join(format!("docs/api/{package}.txt"))
}

/// Whether the two tools are there: a nightly, and cargo-public-api.
pub(crate) fn is_possible(root: &Path) -> bool {
    let mut nightly = Command::new("cargo");
    nightly.args(["+nightly", "--version"]);
    let mut tool = cargo::command(root);
    tool.args(["public-api", "--version"]);
    [nightly, tool]
        .iter_mut()
        .all(|command| process::output(command).is_ok())
}

fn api(root: &Path, package: &str) -> Result<String, Failure> {
    if !is_possible(root) {
        return Err("a nightly of Rust and cargo-public-api are needed: \
             cargo install --locked cargo-public-api"
            .into());
    }
    // Cargo of this run would choose its own toolchain.
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO")
        .env("CARGO_TARGET_DIR", cargo::target(root).join("api"))
        .args(["+nightly", "public-api", "--package", package])
        .args(["--all-features", "--omit=blanket-impls"])
        .args(["--omit=auto-trait-impls", "--omit=auto-derived-impls"])
        .arg("--color=never");
    process::output(&mut command)
}

/// Lines that are in one text alone, with the sign of a diff. If there is none, the texts differ in
/// the order of lines, or in how often one is there: an item may have moved to another `impl`.
fn difference(before: &str, now: &str) -> Vec<String> {
    let before: BTreeSet<_> = before.lines().collect();
    let now: BTreeSet<_> = now.lines().collect();
    let gone = before.difference(&now).map(|line| format!("-{line}"));
    let new = now.difference(&before).map(|line| format!("+{line}"));
    let mut lines: Vec<_> = gone.chain(new).take(SHOWN_MAX).collect();
    if lines.is_empty() {
        lines.push("the order of lines differs, or their number: see `git diff docs/api`".into());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_line_is_gone_and_new() {
        let change = difference("pub fn a()\npub fn b()\n", "pub fn a()\npub fn b(u8)\n");
        assert_eq!(change, ["-pub fn b()", "+pub fn b(u8)"]);
    }

    #[test]
    fn a_line_that_has_moved_is_told() {
        let change = difference("impl A\nfn f()\nimpl B\n", "impl A\nimpl B\nfn f()\n");
        assert!(change[0].starts_with("the order of lines differs"));
    }
}
