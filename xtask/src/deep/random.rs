//! The checks that look for what nobody thought of: schedules, inputs, and changes of the code.

use std::{fs, time::Duration};

use super::{
    Outcome,
    shop::{Shop, need_cargo},
};
use crate::{cargo, tree::at};

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
