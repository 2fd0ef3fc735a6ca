//! The checks that look for what nobody thought of: schedules, inputs, and changes of the code.

use std::{fs, time::Duration};

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
    let mut command = cargo::models(&shop.root, &shop.root.join("target/loom"));
    command
        .env("WS_LOOM_MORE", "1")
        .args(["--no-fail-fast", "models::"]);
    let log = shop.run("loom-full", 4 * HOUR, command)?;
    log.tests(None)
}

/// The models under shuttle, with those of `models/large.rs`, which loom would not come to an end with.
pub(super) fn shuttle(shop: &Shop) -> Outcome {
    let mut command = cargo::models(&shop.root, &shop.folder("shuttle"));
    command
        .env("RUSTFLAGS", "--cfg ws_loom --cfg ws_shuttle")
        .env("WS_SHUTTLE_SCHEDULES", "20000")
        .args(["--no-fail-fast", "models::"]);
    let log = shop.run("shuttle", HOUR, command)?;
    log.tests(None)
}

/// Every target of the package `fuzz`, for [`FUZZ_FOR`] each, under AddressSanitizer and LeakSanitizer. What was found to
/// reach new code is kept in the step's folder, and is where the next run begins; what fails is in the log.
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
            // The sanitizers and the counters of branches are flags of a nightly; any compiler has them.
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

/// With it the executor's programs of steps are there for the targets.
const FUZZ_FLAGS: &str = "--cfg ws_fuzz";

/// Long enough that each target stops finding new code, and not more.
const FUZZ_FOR: Duration = Duration::from_secs(5 * 60);

/// `cargo mutants`, file by file: each function's body replaced, each operator exchanged, one at a time. What no test
/// notices is in the step's folder, under `mutants.out/missed.txt`; docs/testing.md has those that are left, with the reason.
///
/// A mutant is tried with the tests that are quick and near to the file. It makes none of memory orderings: those are
/// patches of ours, in `executor/mutants/`.
pub(super) fn mutants(shop: &Shop) -> Outcome {
    need_cargo("mutants")?;
    let mut missed = 0;
    let mut tried = Vec::new();
    for (folder, tests) in TESTS_FOR {
        let out = shop.folder("mutants-auto").join(folder);
        fs::create_dir_all(&out).map_err(at(&out))?;
        let mut command = shop.cargo("mutants-build");
        command
            .env("WS_TEST_SCALE", "20")
            .args(["mutants", "--package", "ws-executor", "-j1", "--no-shuffle"])
            .args(["--timeout", "60", "--build-timeout", "300", "--output"])
            .arg(&out)
            .args(["--file", &format!("executor/src/{folder}/**/*.rs")])
            .args(["--exclude", "**/tests.rs", "--exclude", "**/tests/**"])
            // The seeded driver is a test itself.
            .args(["--exclude", "executor/src/sched/sim*"])
            .args(["--exclude", "executor/src/sched/sim/**", "--"])
            .args(*tests);
        let log = shop.run(&format!("mutants-{folder}"), 12 * HOUR, command)?;
        let list = out.join("mutants.out/missed.txt");
        let list = fs::read_to_string(&list).map_err(at(&list))?;
        missed += list.lines().count();
        let last = log.text.lines().last().unwrap_or_default();
        tried.push(format!("{folder}: {last}"));
    }
    let tried = tried.join("; ");
    if missed == 0 {
        Ok(tried)
    } else {
        Err(format!("{missed} mutants were missed: {tried}"))
    }
}

/// Which tests a mutant of each folder has to get past: arguments of `cargo test`.
const TESTS_FOR: &[(&str, &[&str])] = &[
    ("queue", &["--lib", "queue::"]),
    (
        "task",
        &[
            "--lib",
            "--test",
            "stress",
            "--test",
            "panic_stays_in_its_task",
            "--test",
            "abort_drops_on_a_worker",
            "--test",
            "memory_goes_with_its_task",
            "--test",
            "join_set_joins_as_they_end",
            "--test",
            "task_local_follows_its_task",
            "--test",
            "dump_shows_what_is_alive",
        ],
    ),
    ("sched", &["--lib", "--tests"]),
];
