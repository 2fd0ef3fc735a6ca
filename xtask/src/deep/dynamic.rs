//! The test suites under checkers that watch each access: what loom cannot see, since it knows the
//! shim alone.
//!
//! | step | shows | iterations |
//! | --- | --- | --- |
//! | `asan` | use after free, out of bounds, double free | all |
//! | `lsan` | leaks | all |
//! | `tsan` | accesses that nothing orders; std has to be rebuilt for it, or every lock of std looks like none | a fifth |
//! | `gigabyte` | that a trace of 1 GB is written and shown in the memory of a small one | |
//! | `memcheck` | use of what was never written, and leaks, of one thread at a time | a hundredth |
//!
//! The sanitizers are flags that only a nightly compiler takes, or one that is told to by
//! `RUSTC_BOOTSTRAP`. The sources of std come with a compiler of Debian's, which so builds
//! everything for `tsan`; the sanitizer's own runtime is that of the usual toolchain.

use std::{ffi::OsStr, fs, os::unix, path::PathBuf, process::Command, time::Duration};

use super::{
    Outcome,
    shop::{Shop, apt, is_there},
};
use crate::{Failure, tree::at};

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// These put a limit on the address space or on threads, where a checker has its own use for both.
const UNFIT: [&str; 7] = [
    "--",
    "--skip",
    "when_the_address_space_is_full",
    "--skip",
    "when_there_is_room_again",
    "--skip",
    "when_the_user_has_too_many_threads",
];
/// What is definitely lost alone: a thread that is on its way out when a test program ends still
/// has a block or two. Some tests have more than the 500 threads that valgrind has room for.
const MEMCHECK: &str = "valgrind -q --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
     --error-exitcode=9 --fair-sched=yes --max-threads=2000";
const LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

pub(super) fn asan(shop: &Shop) -> Outcome {
    serve(shop, "asan", "address", &[])?;
    let mut command = sanitized(shop, "asan", "address", 100);
    // Leaks are another step's, so that they can be told apart. What measures the stack by the
    // address of a local variable needs that to be on the stack.
    command.env(
        "ASAN_OPTIONS",
        "detect_leaks=0:detect_stack_use_after_return=0",
    );
    let log = shop.run("asan", LIMIT, command)?;
    log.tests(Some("ERROR: AddressSanitizer"))
}

pub(super) fn lsan(shop: &Shop) -> Outcome {
    serve(shop, "lsan", "leak", &[])?;
    let command = sanitized(shop, "lsan", "leak", 100);
    let log = shop.run("lsan", LIMIT, command)?;
    log.tests(Some("ERROR: LeakSanitizer"))
}

pub(super) fn tsan(shop: &Shop) -> Outcome {
    let rustc = PathBuf::from("/usr/bin/rustc");
    let library = PathBuf::from(format!("/usr/lib/rustlib/{TARGET}/lib"));
    if !rustc.exists() || !PathBuf::from("/usr/lib/rustlib/src").exists() {
        apt(shop, &["rustc-web", "rust-web-src"])?;
    }
    let runtime = library.join("librustc-stable_rt.tsan.a");
    if !runtime.exists() {
        let ours = sysroot()?.join(format!("lib/rustlib/{TARGET}/lib"));
        let ours = ours.join("librustc-stable_rt.tsan.a");
        unix::fs::symlink(&ours, &runtime).map_err(at(&runtime))?;
    }
    let suppressions = shop.root.join("xtask/src/deep/tsan.supp");
    // A runtime in a `static` is never dropped, so nobody joins its threads.
    let options = format!(
        "exitcode=66 report_thread_leaks=0 suppressions={}",
        suppressions.display()
    );
    let environment = [
        ("RUSTC", rustc.as_os_str()),
        ("TSAN_OPTIONS", options.as_ref()),
    ];
    serve(shop, "tsan", "thread", &environment)?;
    let mut command = sanitized(shop, "tsan", "thread", 20);
    command.envs(environment);
    let log = shop.run("tsan", LIMIT, command)?;
    log.tests(Some("WARNING: ThreadSanitizer"))
}

/// One test, with the size for which its limits are meant.
pub(super) fn gigabyte(shop: &Shop) -> Outcome {
    let mut command = shop.cargo("gigabyte");
    command.env("WS_TRACE_MB", "1024").args([
        "test",
        "--release",
        "--package",
        "ws-inspect",
        "--test",
        "a_trace_of_any_size_takes_the_same_memory",
        "--",
        "--nocapture",
    ]);
    let log = shop.run("gigabyte", LIMIT, command)?;
    log.tests(None)?;
    let said = log.text.lines().find(|line| line.starts_with("a trace of"));
    Ok(said.unwrap_or_default().to_owned())
}

pub(super) fn memcheck(shop: &Shop) -> Outcome {
    if !is_there("valgrind", &["--version"]) {
        apt(shop, &["valgrind"])?;
    }
    let mut command = shop.tests("memcheck", 1);
    command.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", MEMCHECK);
    command.args(UNFIT);
    let log = shop.run("memcheck", LIMIT, command)?;
    log.tests(Some("    at 0x"))
}

/// Has a sanitizer built into what a command of cargo's builds. The target is named so that build
/// scripts and macros are built without it.
fn sanitize(command: &mut Command, sanitizer: &str) {
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"))
        .args(["--target", TARGET]);
    if sanitizer == "thread" {
        command.arg("-Zbuild-std");
    }
}

/// Builds the example that the tests start: by themselves they would build it without the target's
/// name.
fn serve(
    shop: &Shop,
    step: &str,
    sanitizer: &str,
    environment: &[(&str, &OsStr)],
) -> Result<(), Failure> {
    let mut command = shop.cargo(step);
    command.args(["build", "--example", "serve"]);
    sanitize(&mut command, sanitizer);
    command.envs(environment.iter().copied());
    let log = shop.run(&format!("{step}-serve"), LIMIT, command)?;
    log.success()
}

/// The tests, those of the root package among them, with a sanitizer.
fn sanitized(shop: &Shop, step: &str, sanitizer: &str, percent: usize) -> Command {
    let mut command = shop.tests(step, percent);
    command.args(["--package", "ws-runtime"]);
    sanitize(&mut command, sanitizer);
    command.args(UNFIT);
    // They measure the stack, and a frame is larger with a sanitizer.
    for measures in [
        "a_level_of_joins_is_small",
        "a_level_at_which_somebody_asks_is_small",
        "a_helper_of_a_helper_needs_little_stack",
    ] {
        command.args(["--skip", measures]);
    }
    if sanitizer == "thread" {
        // It keeps a stack of its own, of 65,536 calls.
        command.args(["--skip", "a_tree_that_leans_to_one_side"]);
    }
    command
}

/// Where the usual toolchain is.
fn sysroot() -> Result<PathBuf, Failure> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .map_err(|error| format!("rustc could not be started: {error}"))?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    fs::canonicalize(&path).map_err(at(path.as_ref()))
}
