//! Windows: the tests and the examples under Wine.
//!
//! Debian's MinGW links, and Debian's Wine runs the programs. Wine has sockets (`\Device\Afd`),
//! named pipes, processes and consoles of its own, which stand on those of Linux.
//!
//! # What is in the way
//!
//! std takes random numbers from `bcryptprimitives.dll`, which Wine 8 does not have. So one is made
//! here, of the one function that std calls: [`RANDOM`].
//!
//! # What it does not show
//!
//! - What Windows itself does. Wine's answers are those of programs that were compared with it.
//! - Clocks and speed.
//! - What is in [`UNFIT`], with the reasons.

use std::{
    fs,
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

const TRIPLE: &str = "x86_64-pc-windows-gnu";
const VARIABLE: &str = "CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER";
const WINE: &str = "/usr/lib/wine/wine64";
const GCC: &str = "x86_64-w64-mingw32-gcc";
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// What Wine 8 lacks.
const RANDOM: &str = "#include <windows.h>\n\
    BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);\n\
    __declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {\n\
        return SystemFunction036(data, (ULONG)length);\n\
    }\n";

/// The tests: arguments of cargo.
const TESTS: &[&[&str]] = &[
    &["--package=ws-queue", "--lib"],
    &["--package=ws-reactor", "--lib", "--tests"],
    &["--package=ws-stack", "--package=ws-net", "--lib"],
    &["--package=ws-executor", "--lib"],
    // The others are about Unix alone: descriptors, `/proc`, limits of a process.
    &[
        "--package=ws-executor",
        "--test=interface",
        "--test=liveness",
        "--test=order",
        "--test=safety",
        "--test=shutdown",
        "--test=a_log_line_has_its_task",
        "--test=a_subscriber_that_panics_harms_nobody",
        "--test=memory_goes_with_its_task",
        "--test=misuse_panics_at_the_callers_line",
    ],
    // The others are empty, or about Unix alone.
    &[
        "--package=ws-runtime",
        "--lib",
        "--test=files_keep_their_order",
        "--test=inspect",
        "--test=outside_a_runtime_panics_at_the_callers_line",
        "--test=sockets",
        "--test=standard_streams_carry_every_byte",
        "--test=whole",
        "--test=windows",
    ],
];

/// Tests that are left out, by the reason.
const UNFIT: &[(&str, &[&str])] = &[
    (
        "Windows says another error, or one where Unix has none",
        &[
            // WSAEMSGSIZE for a datagram that is longer than the buffer.
            "a_peek_leaves_the_datagram",
            // The second reader after a reset reads the end.
            "a_reset_is_an_error_for_one_that_waits_and_for_one_that_comes_later",
            // WSAESHUTDOWN has no kind in std.
            "the_end_of_the_sending_side_is_read_and_the_other_side_stays",
        ],
    ),
    (
        "Wine passes more slices to Linux than that takes, and no news of a peer that is gone",
        &[
            "a_peer_that_is_gone_is_told",
            "more_slices_than_one_system_call_takes",
        ],
    ),
    (
        "their source is found unready without being read, and so is not reported once more",
        &[
            "it_looks_at_the_netpoll_where_nobody_has_for_long",
            "a_queue_that_stands_still_comes_before_what_the_netpoll_brings",
        ],
    ),
    (
        "Windows does not tell what a thread waits for, and the test wants to see that it blocks",
        &["stalls_are_reported::a_task_that_blocks"],
    ),
    (
        "Wine takes longer than a slice to bind six sockets",
        &["an_address_in_numbers_stays_on_the_thread"],
    ),
    (
        "more than some minutes, and one thread or simulated threads, which Linux shows as well",
        &[
            "all_mixes_of_steps_keep_the_order",
            "programs_of_all_kinds_of_tasks_come_to_their_end",
            "sched::sim",
            "the_newest_are_kept",
        ],
    ),
];

pub(crate) fn step(shop: &Shop) -> Outcome {
    let needs = [(GCC, "gcc-mingw-w64-x86-64"), (WINE, "wine64")];
    debian::install(shop, &needs)?;
    let prefix = prefix(shop)?;
    let examples = Place {
        shop,
        label: "windows".to_owned(),
        cargo: &|verb| cargo(shop, verb, &prefix),
        program: &|name| {
            let program = debian::built(shop, TRIPLE).join("examples").join(name);
            let mut command = Command::new(WINE);
            command.arg(program.with_extension("exe"));
            wine(&mut command, &prefix);
            command
        },
    };
    let runs = examples.check()?;
    let mut counted = Vec::new();
    for (number, arguments) in TESTS.iter().enumerate() {
        let mut command = cargo(shop, "test", &prefix);
        command.args(*arguments).args(["--no-fail-fast", "--"]);
        for test in UNFIT.iter().flat_map(|(_, tests)| *tests) {
            command.args(["--skip", test]);
        }
        let log = shop.run(&format!("windows-{number}"), LIMIT, command)?;
        let tests = log.tests(None)?;
        counted.push(format!("{}: {tests}", arguments[0]));
    }
    Ok(format!(
        "{runs} runs of examples, {}, {}",
        counted.join(", "),
        debian::version()?
    ))
}

/// Wine's folder, with what it lacks.
fn prefix(shop: &Shop) -> Result<PathBuf, Failure> {
    let prefix = shop.folder("wine");
    fs::create_dir_all(&prefix).map_err(at(&prefix))?;
    let source = prefix.join("random.c");
    let library = prefix.join("bcryptprimitives.dll");
    fs::write(&source, RANDOM).map_err(at(&source))?;
    let mut command = Command::new(GCC);
    command.arg("-shared").arg(&source).arg("-o").arg(&library);
    command.arg("-ladvapi32");
    shop.run("windows-random", LIMIT, command)?.success()?;
    let mut command = Command::new(WINE);
    command.arg("wineboot");
    wine(&mut command, &prefix);
    shop.run("windows-boot", LIMIT, command)?.success()?;
    let there = prefix.join("drive_c/windows/system32/bcryptprimitives.dll");
    // A newer Wine has its own.
    if !there.exists() {
        fs::copy(&library, &there).map_err(at(&there))?;
    }
    Ok(prefix)
}

/// Wine with its own folder, and without its own log.
fn wine(command: &mut Command, prefix: &Path) {
    command.env("WINEPREFIX", prefix).env("WINEDEBUG", "-all");
}

fn cargo(shop: &Shop, verb: &str, prefix: &Path) -> Command {
    let mut command = debian::cargo(shop, verb);
    wine(&mut command, prefix);
    command
        .env(VARIABLE, WINE)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("WS_TEST_SCALE", "10")
        .env("WS_TEST_PATIENCE", "20")
        .args(["--target", TRIPLE]);
    command
}
