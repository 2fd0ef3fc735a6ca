//! The unit tests and an example on another processor, under qemu's user mode.
//!
//! Debian's cross compiler links, and `qemu-ARCHITECTURE` runs the programs with the libraries of
//! that architecture. qemu translates the system calls to those of this machine, so the netpoll is
//! the kernel's own.
//!
//! # What it does not show
//!
//! - Memory orderings. On this machine qemu's threads have the strong order of x86-64. The loom
//!   models are for that.
//! - Sizes of pages and cache lines, and speed.
//! - What is in [`UNFIT`], with the reasons.

use std::{path::Path, process::Command, time::Duration};

use super::debian;
use crate::{
    Failure,
    deep::{Outcome, shop::Shop},
};

const CRATES: [&str; 5] = [
    "ws-queue",
    "ws-reactor",
    "ws-stack",
    "ws-net",
    "ws-executor",
];
const LIMIT: Duration = Duration::from_secs(60 * 60);
/// Iterations of the tests with threads, in percent: qemu is 10 to 20 times slower.
const SCALE: &str = "1";

/// Tests that are left out, by the reason.
const UNFIT: &[(&str, &[&str])] = &[
    (
        "the kernel cannot start the test program once more: it is of another processor",
        &["a_panic_in_the_wait_for_a_branch_ends_the_process"],
    ),
    (
        "more than some minutes, and one thread or simulated threads, which x86-64 shows as well",
        &[
            "all_mixes_of_steps_keep_the_order",
            "programs_of_all_kinds_of_tasks_come_to_their_end",
            "sched::sim",
            "the_newest_are_kept",
        ],
    ),
];

struct Architecture {
    name: &'static str,
    triple: &'static str,
    /// The package of the C library. The cross compiler is `gcc-` and the GNU triple.
    library: &'static str,
}

const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        name: "aarch64",
        triple: "aarch64-unknown-linux-gnu",
        library: "libc6-dev-arm64-cross",
    },
    Architecture {
        name: "riscv64",
        triple: "riscv64gc-unknown-linux-gnu",
        library: "libc6-dev-riscv64-cross",
    },
];

/// Runs the tests on the architectures that are named, or on all.
pub(crate) fn check(root: &Path, names: &[&str]) -> Result<(), Failure> {
    let shop = Shop::new(root)?;
    for name in names {
        if !ARCHITECTURES.iter().any(|known| known.name == *name) {
            return Err(format!(
                "no architecture is named {name}; there are aarch64 and riscv64"
            ));
        }
    }
    for architecture in ARCHITECTURES {
        if names.is_empty() || names.contains(&architecture.name) {
            println!("{}: {}", architecture.name, architecture.check(&shop)?);
        }
    }
    Ok(())
}

/// All architectures, as a step of `deep`.
pub(crate) fn step(shop: &Shop) -> Outcome {
    let mut outcomes = Vec::new();
    for architecture in ARCHITECTURES {
        outcomes.push(format!(
            "{}: {}",
            architecture.name,
            architecture.check(shop)?
        ));
    }
    Ok(outcomes.join("; "))
}

impl Architecture {
    fn check(&self, shop: &Shop) -> Outcome {
        let gcc = format!("{}-linux-gnu-gcc", self.name);
        let qemu = format!("qemu-{}", self.name);
        let package = format!("gcc-{}-linux-gnu", self.name);
        let library = format!("/usr/{}-linux-gnu/lib/libc.so", self.name);
        let needs = [
            (gcc.as_str(), package.as_str()),
            (library.as_str(), self.library),
            (qemu.as_str(), "qemu-user"),
        ];
        debian::install(shop, &needs)?;
        self.hello(shop)?;
        let mut command = self.cargo(shop, "test");
        command
            .args(CRATES.map(|package| format!("--package={package}")))
            .args(["--lib", "--no-fail-fast", "--"]);
        for (test, _) in unfit() {
            command.args(["--skip", test]);
        }
        let log = shop.run(&format!("emulated-{}", self.name), LIMIT, command)?;
        let tests = log.tests(None)?;
        Ok(format!(
            "hello and {tests}, {} names or folders of tests left out, {}",
            unfit().count(),
            debian::version()?
        ))
    }

    fn hello(&self, shop: &Shop) -> Result<(), Failure> {
        let mut command = self.cargo(shop, "run");
        command.args(["--example", "hello"]);
        let log = shop.run(&format!("emulated-{}-hello", self.name), LIMIT, command)?;
        log.success()?;
        if log.text.contains("hello from a task") {
            return Ok(());
        }
        Err(format!("hello said something else; see {}", log.path()))
    }

    fn cargo(&self, shop: &Shop, verb: &str) -> Command {
        let variable = self.triple.to_uppercase().replace('-', "_");
        let variable = format!("CARGO_TARGET_{variable}");
        let gcc = format!("{}-linux-gnu-gcc", self.name);
        let runner = format!("qemu-{0} -L /usr/{0}-linux-gnu", self.name);
        let mut command = debian::cargo(shop, verb);
        command
            .env(format!("{variable}_LINKER"), gcc)
            .env(format!("{variable}_RUNNER"), runner)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("WS_TEST_SCALE", SCALE)
            .env("PROPTEST_CASES", "16")
            .env("WS_TEST_PATIENCE", "20")
            .args(["--target", self.triple]);
        command
    }
}

/// Each unfit test with its reason.
fn unfit() -> impl Iterator<Item = (&'static str, &'static str)> {
    UNFIT
        .iter()
        .flat_map(|(reason, tests)| tests.iter().map(|test| (*test, *reason)))
}
