//! The checks that look for what nobody thought of: schedules, inputs, and changes of the code.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Outcome,
    shop::{Shop, need_cargo},
};
use crate::{
    cargo,
    tree::{at, entries},
};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// The models under loom, with more preemptions than CI has the time for.
pub(super) fn loom_full(shop: &Shop) -> Outcome {
    let mut command = cargo::models(&shop.root, &shop.root.join("target/loom"), &cargo::MODELLED);
    command
        .env("WS_LOOM_MORE", "1")
        .args(["--no-fail-fast", "models::"]);
    let log = shop.run("loom-full", 4 * HOUR, command)?;
    log.tests(None)
}

/// The models of the queues and of the executor under shuttle, with those of `models/large.rs`,
/// which loom would not come to an end with.
pub(super) fn shuttle(shop: &Shop) -> Outcome {
    let mut command = cargo::models(&shop.root, &shop.folder("shuttle"), &["queue", "executor"]);
    command
        .env("RUSTFLAGS", "--cfg ws_loom --cfg ws_shuttle")
        .env("WS_SHUTTLE_SCHEDULES", "20000")
        .args(["--no-fail-fast", "models::"]);
    let log = shop.run("shuttle", HOUR, command)?;
    log.tests(None)
}

/// Every target of the package `fuzz`, for [`FUZZ_FOR`] each, under AddressSanitizer and
/// LeakSanitizer. What was found to reach new code is kept in the step's folder, and is where the
/// next run begins; what fails is in the log.
pub(super) fn fuzz(shop: &Shop) -> Outcome {
    need_cargo("fuzz")?;
    let mut reached = Vec::new();
    for target in entries(&shop.root.join("fuzz/fuzz_targets"))? {
        let target = target.path();
        let target = target.file_stem().unwrap_or_default().to_string_lossy();
        let corpus = shop.folder("fuzz-corpus").join(&*target);
        fs::create_dir_all(&corpus).map_err(at(&corpus))?;
        let mut command = shop.cargo("fuzz");
        command
            // The sanitizers and the counters of branches are flags of a nightly; any compiler has
            // them.
            .env("RUSTC_BOOTSTRAP", "1")
            // It adds its own to these.
            .env("RUSTFLAGS", FUZZ_FLAGS)
            .args(["fuzz", "run", "--fuzz-dir", "fuzz", &target])
            .arg(&corpus)
            .args(["--", "-timeout=20", "-max_len=1024", "-print_final_stats=1"])
            .arg(format!("-max_total_time={}", FUZZ_FOR.as_secs()));
        let log = shop.run(&format!("fuzz-{target}"), HOUR, command)?;
        if !log.status.success() {
            return Err(format!(
                "{target}: {}, see {}; `RUSTC_BOOTSTRAP=1 RUSTFLAGS='{FUZZ_FLAGS}' cargo fuzz run --fuzz-dir fuzz {target} FILE` \
                 replays what was written to fuzz/artifacts",
                log.status,
                log.path()
            ));
        }
        let runs = log.text.lines().find_map(|line| {
            let runs = line.strip_prefix("stat::number_of_executed_units:")?;
            Some(runs.trim())
        });
        let runs = runs.ok_or_else(|| format!("{target}: it ran nothing; see {}", log.path()))?;
        reached.push(format!("{target}: {runs}"));
    }
    Ok(format!("programs: {}", reached.join(", ")))
}

/// With it the programs of steps are there for the targets.
const FUZZ_FLAGS: &str = "--cfg ws_fuzz";

/// Long enough that each target stops finding new code, and not more.
const FUZZ_FOR: Duration = Duration::from_secs(5 * 60);

/// `cargo mutants`, folder by folder: each function's body replaced, each operator exchanged, one
/// at a time. What tells nothing is left out in `.cargo/mutants.toml`, with the reason.
///
/// A mutant is tried with the unit tests that are near to the file, which are built and run in a
/// few seconds, and what they miss once more with all tests of its package. Then a mutant must be
/// in the table of docs/testing.md, which says why nobody can notice it. It makes none of memory
/// orderings: those are patches of ours, in `mutants/`.
pub(super) fn mutants(shop: &Shop) -> Outcome {
    need_cargo("mutants")?;
    let page = shop.root.join("docs/testing.md");
    let page = fs::read_to_string(&page).map_err(at(&page))?;
    let mut tried = Vec::new();
    let mut unknown = Vec::new();
    for &(folder, near) in NEAR {
        // What stands behind `--` is for the tests alone, and `--cargo-arg` for the build as well:
        // so that no test programs are built that are not run.
        let first = ["--timeout", "60", "--cargo-arg=--lib", "--", "--"];
        let first = [&first, near].concat();
        // What was caught before is not tried again.
        let again = ["--timeout", "900", "--baseline", "skip", "--iterate"];
        let again = [&again[..], &["--cargo-arg=--lib", "--cargo-arg=--tests"]].concat();
        for (pass, args) in [("", first), ("-again", again)] {
            let log = cargo_mutants(shop, folder, &format!("mutants-{folder}{pass}"), &args)?;
            tried.push(format!("{folder}: {log}"));
            take_hangs_for_caught(&outcomes(shop, folder))?;
        }
        // It is there, and empty, also where nothing was left for the second pass.
        let missed = outcomes(shop, folder).join("mutants.out/missed.txt");
        let missed = fs::read_to_string(&missed).map_err(at(&missed))?;
        let missed = missed.lines().filter(|line| !is_listed(&page, line));
        unknown.extend(missed.map(str::to_owned));
    }
    let tried = tried.join("; ");
    if unknown.is_empty() {
        Ok(tried)
    } else {
        Err(format!(
            "{} mutants were missed that docs/testing.md does not know: {tried}\n  {}",
            unknown.len(),
            unknown.join("\n  ")
        ))
    }
}

fn outcomes(shop: &Shop, folder: &str) -> PathBuf {
    shop.folder("mutants-auto").join(folder)
}

/// A mutant with which a test hangs was noticed. The tool would try it again in the second pass,
/// and wait for the longer time limit: in `sched/`, `permit/` and `monitor/`, where every tenth
/// hangs, for days.
fn take_hangs_for_caught(outcomes: &Path) -> Result<(), String> {
    let file = |name| outcomes.join("mutants.out").join(name);
    let read = |path: PathBuf| fs::read_to_string(&path).map_err(at(&path));
    let caught = file("caught.txt");
    let lines = read(caught.clone())? + &read(file("timeout.txt"))?;
    fs::write(&caught, lines).map_err(at(&caught))
}

/// One run over a folder. What it came to, by its last line.
fn cargo_mutants(shop: &Shop, folder: &str, name: &str, args: &[&str]) -> Outcome {
    let out = outcomes(shop, folder);
    fs::create_dir_all(&out).map_err(at(&out))?;
    let (package, below) = match folder {
        "queue" => ("ws-queue", "queue/src".to_owned()),
        _ => ("ws-executor", format!("executor/src/{folder}")),
    };
    let mut command = shop.cargo("mutants-build");
    command
        .env("WS_TEST_SCALE", "20")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // A program of steps that fails is enough; it need not be a short one, and nobody will want
        // it again.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .args(["mutants", "--package", package, "-j1", "--no-shuffle"])
        .args(["--colors", "never", "--build-timeout", "300"])
        .args(["--file", &format!("{below}/**/*.rs")])
        .args(["--file", &format!("{below}.rs")])
        .arg("--output")
        .arg(out)
        .args(args);
    let log = shop.run(name, 12 * HOUR, command)?;
    let last = log.text.lines().last().unwrap_or_default();
    // All were caught, or some were not (2), or one did not end (3). Else it did not come so far.
    match log.status.code() {
        Some(0 | 2 | 3) => Ok(last.to_owned()),
        _ => Err(format!("{}: {last}; see {}", log.status, log.path())),
    }
}

/// Whether a line of the page has a mutant, given as `FILE:LINE:COLUMN: WHAT`, of the executor as
/// `executor/src/FILE:LINE:COLUMN: WHAT`: by its
/// `FILE` and its `WHAT`, for lines move.
fn is_listed(page: &str, mutant: &str) -> bool {
    let Some((place, what)) = mutant.split_once(": ") else {
        return false;
    };
    let file = place.split(':').next().unwrap_or_default();
    let file = format!("`{}`", file.trim_start_matches("executor/src/"));
    let what = format!("`{}`", what.replace('|', "\\|"));
    page.lines()
        .any(|line| line.contains(&file) && line.contains(&what))
}

/// Which unit tests are near to the files of a folder, the package `queue` or one of the
/// executor's: arguments of a test program.
const NEAR: &[(&str, &[&str])] = &[
    ("queue", &[]),
    ("task", &["task::", "steps::"]),
    // All that do not play whole programs.
    ("monitor", &["--skip", "sched::sim"]),
    ("permit", &["--skip", "sched::sim"]),
    ("sched", &["--skip", "sched::sim"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_not_tried_again() {
        let folder = std::env::temp_dir().join(format!("xtask-mutants-{}", std::process::id()));
        let out = folder.join("mutants.out");
        fs::create_dir_all(&out).unwrap();
        fs::write(out.join("caught.txt"), "a\n").unwrap();
        fs::write(out.join("timeout.txt"), "b\nc\n").unwrap();
        take_hangs_for_caught(&folder).unwrap();
        let caught = fs::read_to_string(out.join("caught.txt")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(caught, "a\nb\nc\n");
    }

    #[test]
    fn a_mutant_is_known_by_its_file_and_its_words() {
        let page = "| `cell/live.rs` | `replace \\| with &`, `replace f -> u8 with 1` | why |\n| `queue/src/local.rs` | `x` | why |";
        for (mutant, known) in [
            ("executor/src/cell/live.rs:80:27: replace | with &", true),
            (
                "executor/src/cell/live.rs:7:1: replace f -> u8 with 1",
                true,
            ),
            (
                "executor/src/cell/live.rs:7:1: replace f -> u8 with 0",
                false,
            ),
            ("executor/src/cell/live.rs:7:1: x", false),
            ("queue/src/local.rs:7:1: x", true),
        ] {
            assert_eq!(is_listed(page, mutant), known, "{mutant}");
        }
    }
}
