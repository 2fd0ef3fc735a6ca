//! A test in a process of its own: the parent's half and the child's.

use std::{
    env,
    process::{Command, Output},
};

/// Tells the child that it is one, and what it is to do.
const CHILD: &str = "WS_TEST_SMALL_MACHINE";

/// Seconds that a child may take. Nothing is measured by it.
const LIMIT_S: u32 = 120;

/// What the child is to do, if this process is one.
pub(crate) fn order() -> Option<String> {
    let order = env::var(CHILD).ok()?;
    // SAFETY: the call has no pointers. The signal ends a child that hangs.
    unsafe { libc::alarm(LIMIT_S) };
    Some(order)
}

/// What a child has said.
#[derive(Debug)]
pub(crate) struct Said {
    /// What went well.
    well: Vec<String>,
    /// The other lines of the work: `name: what came of it`.
    pub(crate) failed: Vec<String>,
    /// The lines that the runtime wrote to stderr.
    pub(crate) told: Vec<String>,
}

impl Said {
    /// Whether there was such a part, and it went well.
    pub(crate) fn went_well(&self, part: &str) -> bool {
        self.well.iter().any(|row| row == &format!("{part}: ok"))
    }
}

/// Runs a test of this program in a child, and `prepare`s it.
pub(crate) fn run(test: &str, order: &str, prepare: impl FnOnce(&mut Command)) -> Said {
    let program = env::current_exe().expect("the test is a program");
    let mut command = Command::new(program);
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, order)
        .env_remove("WS_WORKERS");
    prepare(&mut command);
    said(order, &command.output().expect("a child can be started"))
}

fn said(order: &str, output: &Output) -> Said {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let whole = format!("{order}: {}\n{stdout}\n{stderr}", output.status);
    assert!(output.status.success(), "{whole}");
    assert!(stdout.contains("1 passed"), "{whole}");
    let lines = |text: &str, mark: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.split_once(mark));
        lines.map(|(_, line)| line.to_owned()).collect()
    };
    let rows = lines(&stdout, "row ");
    assert!(!rows.is_empty(), "it did nothing\n{whole}");
    let (well, failed) = rows.into_iter().partition(|row| row.ends_with(": ok"));
    Said {
        well,
        failed,
        told: lines(&stderr, "ws: "),
    }
}
