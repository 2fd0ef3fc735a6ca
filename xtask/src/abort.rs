//! A program that is built with `panic = "abort"`: it works as any other, and the first panic, of
//! whatever task, ends it with a message and the signal of an abort. Nobody waits for a task that
//! will never say anything.
//!
//! It is a step and not a test, since tests are always built to unwind, and everything below the
//! program has to be built once more.

use std::{
    env,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Output},
};

use crate::Failure;

const SIGABRT: i32 = 6;
/// What the program says when nothing ended it.
const END: &str = "came to its end";

pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    let target = root.join("target/abort");
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .env_remove("CARGO_TARGET_DIR")
        .args([
            "build",
            "--quiet",
            "--package",
            "ws-runtime",
            "--example",
            "panic_abort",
        ])
        .args(["--config", "profile.dev.panic=\"abort\""])
        .arg("--target-dir")
        .arg(&target)
        .status()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if !status.success() {
        return Err("the program with `panic = \"abort\"` is not built".into());
    }
    let program = target.join("debug/examples/panic_abort");
    let run = |panic: Option<&str>| {
        let output = Command::new(&program).args(panic).output();
        output.map_err(|error| format!("{}: {error}", program.display()))
    };

    let fine = run(None)?;
    if !fine.status.success() || !says(&fine.stdout, END) {
        return Err(unexpected("without a panic", &fine));
    }
    for (panic, message) in [
        ("task", "in a task"),
        ("job", "in a job"),
        ("main", "in main"),
    ] {
        let output = run(Some(panic))?;
        let aborted = output.status.signal() == Some(SIGABRT);
        if !aborted || !says(&output.stderr, message) || says(&output.stdout, END) {
            return Err(unexpected(message, &output));
        }
    }
    println!("a panic ends a program that is built to abort, and nothing else does");
    Ok(())
}

fn says(output: &[u8], words: &str) -> bool {
    String::from_utf8_lossy(output).contains(words)
}

fn unexpected(case: &str, output: &Output) -> Failure {
    let Output {
        status,
        stdout,
        stderr,
    } = output;
    let (said, complained) = (
        String::from_utf8_lossy(stdout),
        String::from_utf8_lossy(stderr),
    );
    format!("{case}: {status}\n{said}\n{complained}")
}
