//! How many instructions the hot paths take, as valgrind counts them.
//!
//! A count does not depend on how busy the machine is, nor on how slow valgrind makes the program
//! (see `benches/src/own_clock.rs`), so it can guard what a time cannot. For each path the program
//! `ws-count` runs twice, with different numbers of operations; what the second run takes more is
//! divided by what it does more. So nothing has to be said about where the path begins and ends,
//! and what it does on other threads counts too.
//!
//! `benches/counts.txt` has the counts that are expected, and the compiler and the target that they
//! were counted with. More than 3 % above fails; for a steal, which takes two threads, 25 %. With
//! another compiler or for another target nothing is compared, and that is a skip. In CI another
//! compiler fails, or nobody would see that nothing is compared any more.
//!
//! gungraun was looked at and is good at the same, but keeps its baselines as profiles in the
//! target folder, needs a runner of exactly its own version installed, and counts one function on
//! one thread.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Failure,
    cargo::{Compiler, compiler},
    ci::skipped,
    process::output,
};

mod ordered;

pub(crate) use ordered::check as ordered;

/// The paths, and how often each is counted at most. The least counts: on one thread it is always
/// the same, and how two of them interleave can only add to a thief's search.
const PATHS: &[(&str, usize)] = &[
    ("spawn_join", 1),
    ("yield", 1),
    ("wake", 1),
    ("ping_pong", 1),
    ("steal", 20),
];
/// What a path may be above its baseline, in percent.
const TOLERANCE: f64 = 3.0;
/// Those of one worker: on one thread a count is always the same.
const OF_ONE_WORKER: &[&str] = &["spawn_join", "yield", "wake", "ping_pong"];
/// The others take two threads, and how they meet is up to the machine: the same build was seen 12
/// % above its own baseline in one run and at it in the next. So they may be this much above it.
const TOLERANCE_OF_TWO: f64 = 25.0;
/// Operations in the shorter and in the longer run; multiples of what `steal` does in one go.
const FEW: u64 = 1_280;
const MANY: u64 = 11_520;

/// Compares with the baseline.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    let baseline = Baseline::read(root)?;
    let Compiler { version, target } = compiler()?;
    if baseline.target != target {
        let of = &baseline.target;
        return skipped(&format!(
            "instructions are not compared: benches/counts.txt is of {of}, and this is {target}"
        ));
    }
    if baseline.compiler != version {
        let why = format!(
            "the baseline is of {}, and this is {version}",
            baseline.compiler
        );
        if std::env::var("CI").is_ok_and(|ci| ci == "true") {
            return Err(format!("{why}: `cargo xtask counts bless` writes it anew"));
        }
        return skipped(&format!("instructions are not compared: {why}"));
    }
    let counter = Counter::build(root)?;
    let mut failed = Vec::new();
    for (path, times) in PATHS {
        let expected = baseline
            .counts
            .get(*path)
            .ok_or_else(|| format!("the baseline has no {path}"))?;
        let tolerance = if OF_ONE_WORKER.contains(path) {
            TOLERANCE
        } else {
            TOLERANCE_OF_TWO
        };
        let limit = expected * (1.0 + tolerance / 100.0);
        let count = counter.least(path, *times, limit)?;
        let change = (count / expected - 1.0) * 100.0;
        println!("{path:12} {count:9.1} instructions, {change:+.1} %");
        if count > limit {
            failed.push(*path);
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "more instructions than in {}: {}",
            Baseline::path(root).display(),
            failed.join(", ")
        ))
    }
}

/// Writes the baseline.
pub(crate) fn bless(root: &Path) -> Result<(), Failure> {
    let counter = Counter::build(root)?;
    let Compiler { version, target } = compiler()?;
    let mut text = format!(
        "# Instructions of one operation, by `cargo xtask counts bless`; see xtask/src/counts.rs.\n\
         compiler {version}\ntarget {target}\n"
    );
    for (path, times) in PATHS {
        let count = counter.least(path, *times, 0.0)?;
        println!("{path:12} {count:9.1} instructions");
        text += &format!("{path} {count:.1}\n");
    }
    let path = Baseline::path(root);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Shows that sysmon adds no instruction to an operation on the worker's own thread.
///
/// It does end a slice every 10 ms. That is once in some hundred thousand operations, but under
/// valgrind once in a few thousand: so a hundredth is let pass.
pub(crate) fn sysmon(root: &Path) -> Result<(), Failure> {
    let counter = Counter::build(root)?;
    let mut failed = Vec::new();
    for path in OF_ONE_WORKER {
        let off = counter.count_on_main(path, "off")?;
        let on = counter.count_on_main(path, "on")?;
        println!("{path:12} {off:9.2} instructions without sysmon, {on:9.2} with it");
        if on / off >= 1.01 {
            failed.push(*path);
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "sysmon costs instructions in: {}",
            failed.join(", ")
        ))
    }
}

/// The program to be counted.
struct Counter {
    program: PathBuf,
    profile: PathBuf,
}

impl Counter {
    fn build(root: &Path) -> Result<Self, Failure> {
        Self::build_in(root, &crate::cargo::target(root))
    }

    /// Builds the tree at `root` with a target folder that may be another tree's.
    fn build_in(root: &Path, target: &Path) -> Result<Self, Failure> {
        output(Command::new("valgrind").arg("--version"))?;
        let mut command = crate::cargo::command(root);
        output(
            command
                // Cuts the code into other pieces, and so inlines less.
                .env("CARGO_INCREMENTAL", "0")
                .args(["build", "--quiet", "--release", "--package", "ws-bench"])
                .args(["--bin", "ws-count", "--target-dir"])
                .arg(target),
        )?;
        Ok(Counter {
            program: target.join("release/ws-count"),
            profile: target.join("ws-count.profile"),
        })
    }

    /// The least of so many counts, or the first that is no more than `enough`.
    fn least(&self, path: &str, times: usize, enough: f64) -> Result<f64, Failure> {
        let mut least = f64::INFINITY;
        for _ in 0..times {
            least = least.min(self.count(path)?);
            if least <= enough {
                break;
            }
        }
        Ok(least)
    }

    /// Instructions of an operation, on all threads, without sysmon.
    fn count(&self, path: &str) -> Result<f64, Failure> {
        Ok(self.count_and_polls(path)?.0)
    }

    /// The same, and how many polls it takes.
    fn count_and_polls(&self, path: &str) -> Result<(f64, f64), Failure> {
        let clock = if OF_ONE_WORKER.contains(&path) {
            "own"
        } else {
            "real"
        };
        let how = ["off", clock];
        let few = self.total(path, FEW, how, "--separate-threads=no", "")?;
        let many = self.total(path, MANY, how, "--separate-threads=no", "")?;
        let each = |few: f64, many: f64| (many - few) / (MANY - FEW) as f64;
        Ok((each(few.0, many.0), each(few.1, many.1)))
    }

    /// Those on the thread of `main` alone, by the system's clock: the monitor sleeps by it.
    fn count_on_main(&self, path: &str, sysmon: &str) -> Result<f64, Failure> {
        let how = [sysmon, "real"];
        let few = self.total(path, FEW, how, "--separate-threads=yes", "-01")?;
        let many = self.total(path, MANY, how, "--separate-threads=yes", "-01")?;
        Ok((many.0 - few.0) / (MANY - FEW) as f64)
    }

    /// Instructions and polls of a whole run, with the monitor and the clock that `how` says.
    fn total(
        &self,
        path: &str,
        times: u64,
        how: [&str; 2],
        threads: &str,
        suffix: &str,
    ) -> Result<(f64, f64), Failure> {
        let said = output(
            Command::new("valgrind")
                .args(["--quiet", "--tool=callgrind", threads])
                .arg(format!("--callgrind-out-file={}", self.profile.display()))
                .arg(&self.program)
                .args([path, &times.to_string()])
                .args(how),
        )?;
        let file = PathBuf::from(format!("{}{suffix}", self.profile.display()));
        let text =
            fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let total = number_after("totals: ", &text)
            .ok_or_else(|| format!("{} has no total", file.display()))?;
        let polls = number_after("polls ", &said).ok_or("ws-count did not say its polls")?;
        Ok((total, polls))
    }
}

/// The committed counts.
struct Baseline {
    compiler: String,
    target: String,
    counts: BTreeMap<String, f64>,
}

impl Baseline {
    fn path(root: &Path) -> PathBuf {
        root.join("benches/counts.txt")
    }

    fn read(root: &Path) -> Result<Self, Failure> {
        let path = Self::path(root);
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut baseline = Baseline {
            compiler: String::new(),
            target: String::new(),
            counts: BTreeMap::new(),
        };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match line.split_once(' ') {
                Some(("compiler", compiler)) => baseline.compiler = compiler.into(),
                Some(("target", target)) => baseline.target = target.into(),
                Some((path, count)) => {
                    let count = count
                        .parse()
                        .map_err(|error| format!("`{line}`: {error}"))?;
                    baseline.counts.insert(path.into(), count);
                }
                None => return Err(format!("{}: `{line}`", path.display())),
            }
        }
        if baseline.target.is_empty() {
            return Err(format!("{} names no target", path.display()));
        }
        Ok(baseline)
    }
}

/// That of the line that begins so.
fn number_after(start: &str, text: &str) -> Option<f64> {
    let mut numbers = text.lines().filter_map(|line| line.strip_prefix(start));
    numbers.next()?.trim().parse().ok()
}
