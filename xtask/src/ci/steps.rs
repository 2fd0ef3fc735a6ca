//! What each section does.

use std::{env, fs, path::PathBuf, process::Command};

use super::{
    dependencies::features,
    place::{Place, skipped},
};
use crate::{
    Failure, abort, api, apt, calls, cargo, counts, layers, lines, orderings, pictures, process,
    tokio,
    tree::{at, entries},
};

/// Debian's packages that are missing: curl drives the example `serve`, wrk loads it, valgrind
/// counts instructions, and strace system calls.
pub(super) fn tools(place: &Place) -> Result<(), Failure> {
    let programs = ["curl", "wrk", "valgrind", "strace"];
    let missing = apt::missing(&programs.map(|program| (program, program)));
    if !missing.is_empty() {
        apt::install(&missing, &place.log("apt"))?;
    }
    process::run(Command::new("rustc").arg("--version"))?;
    place.cargo("--version")?;
    let curl = process::output(Command::new("curl").arg("--version"))?;
    println!("{}", curl.lines().next().unwrap_or_default());
    process::run(Command::new("df").arg("-h").arg(&place.target))
}

/// These folders are workspaces of their own.
pub(super) fn format(place: &Place) -> Result<(), Failure> {
    place.cargo("fmt --all --check")?;
    for folder in [
        "benches/recorder",
        "benches/simulators",
        "benches/uring",
        "fuzz",
        "tests/console",
    ] {
        let words = format!("fmt --all --manifest-path {folder}/Cargo.toml --check");
        place.cargo(&words)?;
    }
    lines::check(&place.root)
}

pub(super) fn dependencies(place: &Place) -> Result<(), Failure> {
    super::dependencies::check(&place.root)
}

pub(super) fn lint(place: &Place) -> Result<(), Failure> {
    place.cargo("lint")?;
    layers::check(&place.root)?;
    orderings::check(&place.root)?;
    // As users build it: all features are on in the first line, where one may lean on another.
    place.cargo("clippy --quiet -p ws-runtime -- -D warnings")?;
    for feature in features(&place.root)? {
        let words = format!("clippy --quiet -p ws-runtime --features {feature} -- -D warnings");
        place.cargo(&words)?;
    }
    Ok(())
}

/// The fuzz targets, without the flags of a nightly that they run with. The fuzzer itself is C++.
pub(super) fn fuzz_targets(place: &Place) -> Result<(), Failure> {
    if !apt::is_there("c++") {
        return skipped("no C++ compiler for libfuzzer-sys; the fuzz targets are not checked");
    }
    let mut command = cargo::command(&place.root);
    command
        .env("RUSTFLAGS", "--cfg ws_fuzz -D warnings")
        .args(["check", "--quiet", "--manifest-path", "fuzz/Cargo.toml"])
        .arg("--target-dir")
        .arg(place.target.join("fuzz"));
    process::run(&mut command)
}

pub(super) fn docs(place: &Place) -> Result<(), Failure> {
    place.cargo("docs --quiet")?;
    // Without the private items, where a public page may not link to one.
    let mut command = cargo::command(&place.root);
    command
        .env("RUSTDOCFLAGS", "-D warnings")
        .args(["doc", "--quiet", "--workspace", "--no-deps"])
        .arg("--all-features");
    process::run(&mut command)
}

pub(super) fn api(place: &Place) -> Result<(), Failure> {
    if !api::is_possible(&place.root) {
        return skipped(
            "no nightly of Rust, or no cargo-public-api; the public API is not compared with \
             docs/api",
        );
    }
    api::check(&place.root)
}

/// By cargo-deny.
pub(super) fn licences(place: &Place) -> Result<(), Failure> {
    let mut asked = cargo::command(&place.root);
    if process::output(asked.args(["deny", "--version"])).is_err() {
        return skipped("cargo-deny is not installed; `dependencies` has looked at the tree");
    }
    place.cargo("deny --offline check licenses bans sources")
}

pub(super) fn packages(place: &Place) -> Result<(), Failure> {
    remove_unpacked()?;
    forget_built(place)?;
    let unpublished = "--exclude xtask --exclude ws-bench --exclude ws-browser --exclude ws-ui";
    place.cargo(&format!(
        "package --workspace {unpublished} --allow-dirty --quiet"
    ))?;
    let packages = place.target.join("package");
    fs::remove_dir_all(&packages).map_err(at(&packages))
}

/// To verify a package, cargo unpacks the others of the workspace where it keeps those of
/// registries. It takes what is there already for the same version, which may be an earlier
/// commit's.
fn remove_unpacked() -> Result<(), Failure> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let home = env::var_os("HOME")?;
        Some(PathBuf::from(home).join(".cargo"))
    });
    let sources = home.ok_or("no HOME")?.join("registry/src");
    if !sources.exists() {
        return Ok(());
    }
    for registry in entries(&sources)? {
        // That of the workspace has no host in its name.
        if !registry.file_name().to_string_lossy().starts_with('-') {
            continue;
        }
        for package in entries(&registry.path())? {
            if is_ours(&package.file_name().to_string_lossy()) {
                fs::remove_dir_all(package.path()).map_err(at(&package.path()))?;
            }
        }
    }
    Ok(())
}

/// Has cargo build our packages anew: what it has built of one that came from a registry it takes
/// for good, as long as the version is the same.
fn forget_built(place: &Place) -> Result<(), Failure> {
    let fingerprints = place.target.join("debug/.fingerprint");
    if !fingerprints.exists() {
        return Ok(());
    }
    for package in entries(&fingerprints)? {
        if package.file_name().to_string_lossy().starts_with("ws-") {
            fs::remove_dir_all(package.path()).map_err(at(&package.path()))?;
        }
    }
    Ok(())
}

/// Whether a folder is called `ws-NAME-VERSION`.
fn is_ours(folder: &str) -> bool {
    let mut after_name = folder.split('-').skip(2);
    let is_version = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
    folder.starts_with("ws-") && after_name.any(is_version)
}

pub(super) fn models(place: &Place) -> Result<(), Failure> {
    place.tests("models", [xtask("models")?])
}

/// Every twelfth of them. Each is a small change to what was built before.
pub(super) fn mutants(_: &Place) -> Result<(), Failure> {
    let mut twelfth = xtask("mutants")?;
    process::run(twelfth.arg("--twelfth").env_remove("CARGO_INCREMENTAL"))
}

/// This program, with another task.
fn xtask(task: &str) -> Result<Command, Failure> {
    let program = env::current_exe().map_err(|error| format!("the path of xtask: {error}"))?;
    let mut command = Command::new(program);
    command.arg(task);
    Ok(command)
}

pub(super) fn serve_curl(place: &Place) -> Result<(), Failure> {
    place.cargo("build --release --example serve")?;
    let script = place.root.join(".ci/serve-curl.sh");
    process::run(Command::new(script).arg(place.target.join("release/examples/serve")))
}

/// The live page in Chromium, and the program that shows snapshots by the same page.
pub(super) fn browser(place: &Place) -> Result<(), Failure> {
    pictures::install_browser(&place.log("apt"))?;
    place.cargo("build --quiet --package ws-inspect")?;
    let mut command = cargo::command(&place.root);
    command.args(["test", "--package", "ws-browser", "--features", "chromium"]);
    place.tests("browser", [command])
}

pub(super) fn abort(place: &Place) -> Result<(), Failure> {
    abort::check(&place.root)
}

pub(super) fn soak(place: &Place) -> Result<(), Failure> {
    place.cargo("run --release --quiet --example soak -- --minutes 1")
}

pub(super) fn counts(place: &Place) -> Result<(), Failure> {
    counts::check(&place.root)?;
    calls::check(&place.root)
}

pub(super) fn benchmarks(place: &Place) -> Result<(), Failure> {
    place.cargo("bench-all --quick --rounds 3")
}

/// The package that takes tokio's place: its own tests, those of libraries on it, also on
/// simulated hosts, and tokio's.
pub(super) fn tokio_tests(place: &Place) -> Result<(), Failure> {
    let cargo_in = |folder: &str, words: &str| -> Result<Command, Failure> {
        let mut command = cargo::command(&place.root.join(folder));
        command
            .args(words.split(' '))
            .env("CARGO_TARGET_DIR", place.target.join("tokio/target"))
            .envs(tokio::environment(&place.root)?);
        Ok(command)
    };
    let mut tests = Vec::new();
    for folder in [
        "compat/tokio",
        "compat/tokio/proofs",
        "compat/tokio/simulated",
        "examples/kv",
    ] {
        process::run(&mut cargo_in(folder, "fmt --check")?)?;
        tests.push(cargo_in(folder, "test --locked")?);
    }
    // Of the others clippy is in the deep command.
    let lint = "clippy --locked --quiet --all-targets -- -D warnings";
    process::run(&mut cargo_in("compat/tokio", lint)?)?;
    // What tokio-console reads; its own tests are in the deep command.
    let lint = "clippy --locked --quiet --all-features -- -D warnings";
    let mut unstable = cargo_in("compat/tokio", lint)?;
    unstable
        .env("RUSTFLAGS", "--cfg tokio_unstable")
        .env("CARGO_TARGET_DIR", place.target.join("tokio/unstable"));
    process::run(&mut unstable)?;
    let mut suite = xtask("tokio-tests")?;
    suite.env("CARGO_TARGET_DIR", &place.target);
    tests.push(suite);
    place.tests("tokio-tests", tests)
}

/// What is about threads that meet, as users build it. The other programs take long to build, and
/// nothing holds there that does not hold in `tests`: each is one thing of the whole process, or a
/// helper without threads. `ws-sim` asks for a feature of the executor, which all others would be
/// built with.
pub(super) fn tests_release(place: &Place) -> Result<(), Failure> {
    let tests = |words: &str| {
        let mut command = cargo::command(&place.root);
        command
            .args(["test", "--profile", "release-tests"])
            .args(words.split(' '));
        command
    };
    let threads = "--lib --tests --package ws-executor --package ws-queue --package ws-reactor \
                   --package ws-net --package ws-stack";
    let sockets = "--package ws-runtime --lib --test sockets --test whole";
    place.tests("tests-release", [tests(threads), tests(sockets)])
}

pub(super) fn tests(place: &Place) -> Result<(), Failure> {
    let mut all = cargo::command(&place.root);
    all.args(["test", "--workspace"]);
    // Without its feature it is empty, and the others are to run without that.
    let mut console = cargo::command(&place.root);
    console
        .args(["test", "--package", "ws-executor", "--features", "console"])
        .args(["--test", "console_is_told_of_tasks"]);
    // All programs of a build have the functions of libc that its feature brings, so it is alone.
    let mut simulation = cargo::command(&place.root);
    simulation
        .args(["test", "--package", "ws-runtime", "--features", "sim"])
        .args(["--test", "simulation"]);
    place.tests("tests", [all, console, simulation])
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn our_unpacked_packages_are_told_from_others() {
        assert!(is_ours("ws-runtime-0.1.0"));
        assert!(!is_ours("ws-runtime"));
        assert!(!is_ours("mio-1.0.0"));
    }
}
