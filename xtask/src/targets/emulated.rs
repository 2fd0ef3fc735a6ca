//! The tests and the examples on another processor, under qemu's user mode.
//!
//! Debian's cross compiler links, and `qemu-ARCHITECTURE` runs the programs with the libraries of
//! that architecture. qemu translates the system calls to those of this machine, so the netpoll is
//! the kernel's own.
//!
//! Some tests start their own program once more, and qemu does not hand that on. So each program
//! runs in a user namespace with a table of program formats of its own (`binfmt_misc`, Linux 6.7),
//! which names qemu for that architecture. The machine's own table stays as it is. Where the kernel
//! gives no such namespace, the first program fails with the words of `unshare` or `mount`.
//!
//! # What it does not show
//!
//! - Memory orderings. On this machine qemu's threads have the strong order of x86-64. The loom
//!   models are for that: see `docs/orderings.md`.
//! - Sizes of cache lines, and speed.
//! - What is in [`UNFIT`], with the reasons.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{debian, examples::Place};
use crate::{
    Failure,
    deep::{Outcome, shop::Shop},
    tree::at,
};

const CRATES: [&str; 6] = [
    "ws-queue",
    "ws-reactor",
    "ws-stack",
    "ws-net",
    "ws-executor",
    "ws-runtime",
];
/// For the tests of one package.
const LIMIT: Duration = Duration::from_secs(60 * 60);
/// Iterations of the tests with threads, in percent: qemu is 10 to 20 times slower.
const SCALE: &str = "1";

/// Tests that are left out, by the reason.
const UNFIT: &[(&str, &[&str])] = &[
    (
        "they want users of their own or a lower niceness, which the namespace does not allow, or \
         a limit of one thread, and qemu has a thread of its own",
        &[
            "threads_are_as_their_builder_was::whichever_thread_wakes_them_first",
            "when_the_first_thread_is_refused",
            "when_the_only_thread_sleeps_in_a_block_on",
            "when_the_only_thread_waits_for_one_that_is_refused",
            "when_the_user_has_too_many_threads",
            "when_there_is_exactly_one_thread",
        ],
    ),
    (
        "qemu does not hand a filter of system calls (seccomp) on to the system",
        &[
            "a_quota_holds_without_a_mask",
            "a_sandbox_refuses_calls",
            "what_is_refused_is_noted",
        ],
    ),
    (
        "qemu forks for `vfork`, so the parent does not wait where no signal reaches it",
        &["a_thread_waits_also_where_no_signal_reaches_it"],
    ),
    (
        "where the machine is busy, it takes longer than a slice to bind six sockets",
        &["an_address_in_numbers_stays_on_the_thread"],
    ),
    (
        "it did not end within four minutes on a loaded machine, and why was not found out",
        &["when_there_is_room_again"],
    ),
    (
        "clocks of threads that sleep were seen to move there, by 3 us in some seconds, so that it did \
         not end within three minutes; why was not found out",
        &["with_1_2_and_8_workers"],
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
    /// Its number in the head of a program (`e_machine` in elf.h).
    machine: u8,
    /// In bytes. Systems with AArch64 have pages of 4, 16 or 64 KiB.
    page: &'static str,
}

const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        name: "aarch64",
        triple: "aarch64-unknown-linux-gnu",
        library: "libc6-dev-arm64-cross",
        machine: 183,
        page: "16384",
    },
    Architecture {
        name: "riscv64",
        triple: "riscv64gc-unknown-linux-gnu",
        library: "libc6-dev-riscv64-cross",
        machine: 243,
        page: "4096",
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
            ("unshare", "util-linux"),
        ];
        debian::install(shop, &needs)?;
        let runner = self.runner(shop)?;
        let mut passed = 0;
        let mut failures = Vec::new();
        for package in CRATES {
            let mut command = self.cargo(shop, &runner, "test");
            command
                .args(["--package", package, "--no-fail-fast"])
                .args(["--lib", "--tests", "--", "--test-threads=2"]);
            for (test, _) in unfit() {
                command.args(["--skip", test]);
            }
            let name = format!("emulated-{}-{package}", self.name);
            let log = shop.run(&name, LIMIT, command)?;
            passed += log.passed();
            failures.extend(log.tests(None).err());
        }
        let examples = Place {
            shop,
            label: format!("emulated-{}", self.name),
            cargo: &|verb| self.cargo(shop, &runner, verb),
            program: &|name| {
                let mut command = Command::new(&runner);
                command.arg(debian::built(shop, self.triple).join("examples").join(name));
                command
            },
        };
        let ran = examples.check().and_then(|runs| {
            examples.interrupt()?;
            Ok(runs + 1)
        });
        let runs = ran.unwrap_or_else(|failure| {
            failures.push(failure);
            0
        });
        if !failures.is_empty() {
            return Err(failures.join("\n"));
        }
        Ok(format!(
            "{runs} runs of examples and {passed} tests, {} names of tests left out, {}",
            unfit().count(),
            debian::version()?
        ))
    }

    /// A script that runs a program, and what that starts, in a namespace: see the head.
    fn runner(&self, shop: &Shop) -> Result<PathBuf, Failure> {
        let folder = shop.folder("emulated");
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let script = folder.join(format!("run-{}", self.name));
        let (name, machine) = (self.name, self.machine);
        // The head of a program, 20 bytes of it: the magic number, 64 bits, little-endian, two
        // kinds of programs, and the machine.
        let zeroes = r"\x00".repeat(9);
        let head = format!(r"\x7fELF\x02\x01\x01{zeroes}\x02\x00\x{machine:02x}\x00");
        let ones = r"\xff".repeat(8);
        let mask = format!(r"\xff\xff\xff\xff\xff\xff\xff\x00{ones}\xfe\xff\xff\xff");
        let text = format!(
            "#!/bin/sh\n\
             FORMAT=':qemu-{name}:M::{head}:{mask}:/usr/bin/qemu-{name}:F'\n\
             QEMU_LD_PREFIX=/usr/{name}-linux-gnu\n\
             export FORMAT QEMU_LD_PREFIX\n\
             exec unshare --user --map-root-user --mount sh -c '\n\
             mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc &&\n\
             printf %s \"$FORMAT\" > /proc/sys/fs/binfmt_misc/register &&\n\
             exec \"$@\"' sh \"$@\"\n"
        );
        fs::write(&script, text).map_err(at(&script))?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(at(&script))?;
        Ok(script)
    }

    fn cargo(&self, shop: &Shop, runner: &Path, verb: &str) -> Command {
        let variable = self.triple.to_uppercase().replace('-', "_");
        let variable = format!("CARGO_TARGET_{variable}");
        let gcc = format!("{}-linux-gnu-gcc", self.name);
        let mut command = debian::cargo(shop, verb);
        command
            .env(format!("{variable}_LINKER"), gcc)
            .env(format!("{variable}_RUNNER"), runner)
            .env("QEMU_PAGESIZE", self.page)
            .env("WS_TEST_SCALE", SCALE)
            .env("PROPTEST_CASES", "16")
            .env("WS_TEST_PATIENCE", "20")
            // The names in one take a minute under qemu.
            .env("RUST_BACKTRACE", "0")
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
