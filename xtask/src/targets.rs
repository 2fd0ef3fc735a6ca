//! Other systems and processors than the machine's own: what compiles for them, and what runs.
//!
//! | step of `cargo xtask deep` | shows |
//! | --- | --- |
//! | `targets`, also `cargo xtask targets [TRIPLE…]` | that the crates compile for each of [`TARGETS`], without a warning of clippy's |
//! | `emulated`, also `cargo xtask emulated [ARCHITECTURE…]` | that the unit and integration tests and the examples pass under qemu (`emulated.rs`) |
//! | `musl` | that a static binary of the example `serve` answers (`musl.rs`) |
//! | `windows` | that the tests and the examples pass under Wine (`windows.rs`) |
//! | `oldest` | that the crates need nothing newer than the promised Rust (`oldest.rs`) |
//!
//! Debian's compiler comes with the source of std, so cargo builds std for a target before it
//! builds the crates. A check needs no linker: the targets of Apple and of the BSDs need no tools
//! of those systems. Windows' wants MinGW's `dlltool`, by which std makes import libraries.
//!
//! Rejected: `rustup target add`. It fetches from a server that many machines of CI do not reach,
//! and has no std for OpenBSD.

mod debian;
pub(crate) mod emulated;
mod examples;
pub(crate) mod musl;
pub(crate) mod oldest;
pub(crate) mod windows;

use std::{path::Path, time::Duration};

use crate::{
    Failure,
    deep::{Outcome, shop::Shop},
};

/// The crates that a user's program has in it, and the network of the simulator.
const CRATES: [&str; 7] = [
    "ws-queue",
    "ws-reactor",
    "ws-stack",
    "ws-net",
    "ws-executor",
    "ws-runtime",
    "ws-sim",
];
/// All features of the crates themselves. The features that bring in a large library of others are
/// left out: their adapters have no line that depends on the system. `zbus` has one.
///
/// Those of the root package stand without its name: of a package in whose folder it is called,
/// cargo passes over `ws-runtime/inspect` without a word.
const FEATURES: &str = "ws-executor/console,ws-executor/queue-records,ws-executor/sim,\
    ws-executor/stacks,ws-executor/tracing-layer,inspect,metrics,sim,tokio-io";
/// On systems that have no thread locals of the linker's, OpenBSD for one, this lint does not see
/// that an initializer is const. It has looked at the same lines on Linux.
const BLIND: &str = "clippy::missing_const_for_thread_local";
const LIMIT: Duration = Duration::from_secs(30 * 60);

const NO_STACKS: &str = "stacks in stall reports";
const ONLY_LINUX: &str = "what docs/platforms.md lists as Linux's alone";
const OPENBSD: &str =
    "the same as on the other BSDs, and a socket's own interval and retries of keepalive";

const WINDOWS: &str = "that, and what docs/platforms.md lists as Unix's alone";

struct Target {
    triple: &'static str,
    /// What `ws` does not have there.
    missing: &'static str,
}

const TARGETS: &[Target] = &[
    target("aarch64-unknown-linux-gnu", ""),
    target("riscv64gc-unknown-linux-gnu", NO_STACKS),
    target("x86_64-unknown-linux-musl", ""),
    target("aarch64-apple-darwin", ONLY_LINUX),
    target("x86_64-apple-darwin", ONLY_LINUX),
    target("aarch64-apple-ios", ONLY_LINUX),
    target("x86_64-unknown-freebsd", ONLY_LINUX),
    target("x86_64-unknown-netbsd", ONLY_LINUX),
    target("x86_64-unknown-openbsd", OPENBSD),
    target("x86_64-pc-windows-gnu", WINDOWS),
];

const fn target(triple: &'static str, missing: &'static str) -> Target {
    Target { triple, missing }
}

/// Checks the targets that are named, or all, and prints a table.
pub(crate) fn check(root: &Path, names: &[&str]) -> Result<(), Failure> {
    let chosen = chosen(names)?;
    let words = check_each(&Shop::new(root)?, &chosen)?;
    println!("{words}");
    Ok(())
}

/// All targets, as a step of `deep`.
pub(crate) fn step(shop: &Shop) -> Outcome {
    check_each(shop, &chosen(&[])?)
}

/// The targets that are named, or all.
fn chosen(names: &[&str]) -> Result<Vec<&'static Target>, Failure> {
    let known = |name: &&&str| TARGETS.iter().any(|target| target.triple == **name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        let all: Vec<_> = TARGETS.iter().map(|target| target.triple).collect();
        return Err(format!(
            "no target is named {name}; there are {}",
            all.join(", ")
        ));
    }
    Ok(TARGETS
        .iter()
        .filter(|target| names.is_empty() || names.contains(&target.triple))
        .collect())
}

fn check_each(shop: &Shop, targets: &[&Target]) -> Outcome {
    let needs = [
        (debian::CLIPPY, "rust-web-clippy"),
        ("x86_64-w64-mingw32-dlltool", "binutils-mingw-w64-x86-64"),
    ];
    debian::install(shop, &needs)?;
    let mut rows = Vec::new();
    let mut failures = Vec::new();
    for target in targets {
        let verdict = match compile(shop, target.triple) {
            Ok(()) => "passes",
            Err(failure) => {
                failures.push(format!("{}: {failure}", target.triple));
                "FAILS"
            }
        };
        rows.push(row(target, verdict));
    }
    let table = format!(
        "| target | check | what is missing |\n| --- | --- | --- |\n{}",
        rows.join("\n")
    );
    if failures.is_empty() {
        return Ok(format!("{} targets pass\n{table}", targets.len()));
    }
    Err(format!(
        "{} of {} targets fail\n{table}\n{}",
        failures.len(),
        targets.len(),
        failures.join("\n")
    ))
}

fn row(target: &Target, verdict: &str) -> String {
    let missing = match target.missing {
        "" => "nothing",
        missing => missing,
    };
    format!("| `{}` | {verdict} | {missing} |", target.triple)
}

/// By clippy, which checks as the compiler does, and looks for more.
fn compile(shop: &Shop, triple: &str) -> Result<(), Failure> {
    let mut command = debian::clippy(shop);
    command.args(["--target", triple, "--features", FEATURES]);
    command.args(CRATES.map(|package| format!("--package={package}")));
    command.args(["--", "-D", "warnings", "-A", BLIND]);
    shop.run(&format!("target-{triple}"), LIMIT, command)?
        .success()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_not_known_is_named_with_those_that_are() {
        let failure = chosen(&["x86_64-unknown-openbsd", "vax-dec-vms"]).err();
        let failure = failure.expect("there is no such target");
        assert!(failure.contains("vax-dec-vms"), "{failure}");
        assert!(failure.contains("aarch64-apple-darwin"), "{failure}");
    }

    #[test]
    fn features_of_the_root_package_stand_without_its_name() {
        assert!(!FEATURES.contains("ws-runtime/"), "{FEATURES}");
    }

    #[test]
    fn without_names_all_targets_are_chosen() {
        assert_eq!(chosen(&[]).expect("all are known").len(), TARGETS.len());
    }

    #[test]
    fn a_row_says_what_is_missing() {
        assert_eq!(
            row(&target("a", ""), "passes"),
            "| `a` | passes | nothing |"
        );
        assert_eq!(row(&target("b", "c"), "FAILS"), "| `b` | FAILS | c |");
    }
}
