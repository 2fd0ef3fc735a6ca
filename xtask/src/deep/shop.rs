//! Where the steps work, and what they have in common: programs with their output in a log, and
//! what a log says.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use super::Outcome;
use crate::{Failure, apt, cargo, process, results::Results, tree::at};

/// The steps' workplace: `target/deep`, with a target folder for each kind of build.
pub(crate) struct Shop {
    pub(crate) root: PathBuf,
    pub(crate) logs: PathBuf,
    place: PathBuf,
}

/// How a program ended, and what it said.
pub(crate) struct Log {
    pub(crate) status: ExitStatus,
    pub(crate) text: String,
    path: PathBuf,
}

impl Shop {
    pub(crate) fn new(root: &Path) -> Result<Self, Failure> {
        let place = cargo::target(root).join("deep");
        let logs = place.join("logs");
        fs::create_dir_all(&logs).map_err(at(&logs))?;
        Ok(Self {
            root: root.to_path_buf(),
            logs,
            place,
        })
    }

    /// A folder of this step alone.
    pub(crate) fn folder(&self, step: &str) -> PathBuf {
        self.place.join(step)
    }

    /// Cargo, which builds into the folder of `step` whatever the caller's environment says.
    pub(crate) fn cargo(&self, step: &str) -> Command {
        let mut command = cargo::command(&self.root);
        command
            .env("CARGO_TARGET_DIR", self.folder(step))
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS");
        command
    }

    /// `cargo test` of the three crates with threads and unsafe code in them, as a checker wants
    /// it: all of it, whatever fails, with `percent` of the iterations. Time limits are for tests
    /// that hang, and a checker is slow.
    pub(crate) fn tests(&self, step: &str, percent: usize) -> Command {
        let mut command = self.cargo(step);
        command
            .env("WS_TEST_SCALE", percent.to_string())
            .env("WS_TEST_PATIENCE", "20")
            .args([
                "test",
                "--package",
                "ws-queue",
                "--package",
                "ws-executor",
                "--package",
                "ws-reactor",
            ])
            .args(["--lib", "--tests", "--no-fail-fast"]);
        command
    }

    /// Runs a program to its end, with all that it says in the log `name`. One that takes longer
    /// than `limit` is stopped.
    pub(crate) fn run(
        &self,
        name: &str,
        limit: Duration,
        mut command: Command,
    ) -> Result<Log, Failure> {
        let path = self.logs.join(format!("{name}.log"));
        let file = File::create(&path).map_err(at(&path))?;
        let both = file.try_clone().map_err(at(&path))?;
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(both)
            .spawn()
            .map_err(|error| format!("`{program}` could not be started: {error}"))?;
        // Cargo's children end with their output, which nobody reads any more, or by their own
        // limits.
        let ended = process::wait_or_kill(&mut child, limit)
            .map_err(|error| format!("`{program}` could not be waited for: {error}"))?;
        let Some(status) = ended else {
            return Err(format!(
                "`{program}` did not end within {} s; see {}",
                limit.as_secs(),
                path.display()
            ));
        };
        // A test may say anything.
        let text = fs::read(&path).map_err(at(&path))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(Log { status, text, path })
    }
}

impl Log {
    /// What a run of tests came to; `sign` stands in each report of the checker. Fails if a test
    /// did, if there is a report, or if no test ran.
    pub(crate) fn tests(&self, sign: Option<&str>) -> Outcome {
        let passed = self.passed();
        let reports = sign.map_or(0, |sign| {
            self.text.lines().filter(|line| line.contains(sign)).count()
        });
        let failed: Vec<_> = self
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
            .collect();
        if self.status.success() && reports == 0 && passed > 0 {
            return Ok(format!("{passed} tests"));
        }
        let mut words = format!(
            "{}, {passed} tests passed, {} failed, {reports} reports; see {}",
            self.status,
            failed.len(),
            self.path.display()
        );
        for line in failed {
            words += &format!("\n  {line}");
        }
        Err(words)
    }

    /// How many tests passed.
    pub(crate) fn passed(&self) -> usize {
        Results::of(&self.text).passed
    }

    /// Fails if the program did.
    pub(crate) fn success(&self) -> Result<(), Failure> {
        if self.status.success() {
            Ok(())
        } else {
            Err(format!("{}; see {}", self.status, self.path()))
        }
    }

    /// Where the log is, which tells more.
    pub(crate) fn path(&self) -> std::path::Display<'_> {
        self.path.display()
    }
}

/// Whether a program answers to these arguments.
pub(crate) fn is_there(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Sees to it that cargo has the command `name`.
pub(crate) fn need_cargo(name: &str) -> Result<(), Failure> {
    if is_there("cargo", &[name, "--version"]) {
        Ok(())
    } else {
        Err(format!(
            "cargo-{name} is missing: cargo install --locked cargo-{name}"
        ))
    }
}

/// Installs packages of Debian's.
pub(crate) fn apt(shop: &Shop, packages: &[&str]) -> Result<(), Failure> {
    for (name, command) in ["apt-lists", "apt"]
        .into_iter()
        .zip(apt::commands(packages))
    {
        let how = format!("missing: {}", process::words(&command));
        let log = shop
            .run(name, Duration::from_secs(600), command)
            .map_err(|error| format!("{how} ({error})"))?;
        log.success().map_err(|error| format!("{how} ({error})"))?;
    }
    Ok(())
}
