//! Programs that others wrote for tokio, with their own tests, on the package in `compat/tokio`.
//!
//! Each is unpacked below `target/tokio/programs`, as the registry has it. The two lines that
//! `docs/tokio.md` asks for are put at the end of its `Cargo.toml`. Nothing else of it is changed.
//! Then its tests run. A test that fails and is not in [`PROGRAMS`] is a failure of this command.
//!
//! `tokio-programs tokio` runs the same without the two lines. What fails there as well is not of
//! our doing.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{environment, in_the_cache, untar};
use crate::{Failure, cargo, process, results::Results, tree::at};

/// For the tests of one program, with its build.
const LIMIT: &str = "3600";

struct Program {
    name: &'static str,
    version: &'static str,
    /// For `cargo test`.
    arguments: &'static [&'static str],
    /// Tests that may fail, on tokio as well, and why. With the cases of such a test.
    known: &'static [(&'static str, &'static str)],
}

impl Program {
    /// Why a test may fail.
    fn reason(&self, test: &str) -> Option<&str> {
        let is_of = |known: &str| {
            let rest = test.strip_prefix(known);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let mut known = self.known.iter();
        known.find_map(|(name, why)| is_of(name).then_some(*why))
    }
}

const LOCALHOST: &str = "fails where localhost is 127.0.0.1 first";
const RACE: &str = "fails if the client takes a connection again that the server is closing";

const PROGRAMS: &[Program] = &[
    Program {
        name: "mini-redis",
        version: "0.4.1",
        arguments: &[],
        known: &[],
    },
    Program {
        name: "bore-cli",
        version: "0.6.0",
        // Each test has a server on the same port, and lets go of its lock before of the port.
        arguments: &["--", "--test-threads", "1"],
        known: &[],
    },
    Program {
        name: "dufs",
        version: "0.47.0",
        arguments: &[],
        known: &[],
    },
    Program {
        name: "oha",
        version: "1.16.0",
        arguments: &[],
        known: &[
            ("test_google", "needs the internet"),
            ("test_proxy", "needs the internet"),
        ],
    },
    Program {
        name: "miniserve",
        version: "0.35.0",
        arguments: &[],
        known: &[
            ("bind_ipv4_ipv6::case_2", LOCALHOST),
            ("creating_directories_is_prevented", RACE),
            ("uploading_files_is_prevented", RACE),
            ("uploading_files_with_invalid_sha_func_is_prevented", RACE),
        ],
    },
];

/// `cargo xtask tokio-programs [tokio] [NAME…]`.
pub(crate) fn check(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let (on_ws, names) = match arguments {
        ["tokio", names @ ..] => (false, names),
        names => (true, names),
    };
    let is_there = |name: &str| PROGRAMS.iter().any(|program| program.name == name);
    if let Some(name) = names.iter().find(|name| !is_there(name)) {
        return Err(format!("tokio-programs: no program is named {name}"));
    }
    let mut faults = Vec::new();
    for program in PROGRAMS {
        if names.is_empty() || names.contains(&program.name) {
            match run(root, program, on_ws) {
                Ok(report) => {
                    println!("{}", report.line(program));
                    for test in &report.failed {
                        let reason = program.reason(test).unwrap_or("NOT KNOWN");
                        println!("  {test}: {reason}");
                    }
                    faults.extend(report.faults(program));
                }
                Err(failure) => faults.push(format!("{}: {failure}", program.name)),
            }
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(format!("tokio-programs:\n{}", faults.join("\n")))
    }
}

/// Runs the tests of a program.
fn run(root: &Path, program: &Program, on_ws: bool) -> Result<Report, Failure> {
    let place = cargo::target(root).join("tokio/programs");
    let folder = unpack(root, &place, program, on_ws)?;
    let environment = environment(root)?;
    if on_ws {
        update(&folder, &environment)?;
    }
    let path = folder.with_extension("log");
    let log = File::create(&path).map_err(at(&path))?;
    // It also ends the test programs that cargo has started.
    let mut command = Command::new("timeout");
    command
        .arg(LIMIT)
        .arg(cargo::command(&folder).get_program())
        .args(["test", "--locked", "--no-fail-fast", "--color", "never"])
        .args(program.arguments)
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", place.join("target"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(at(&path))?)
        .stderr(log);
    let ended = process::run(&mut command);
    let said = fs::read(&path).map_err(at(&path))?;
    let report = Report::of(&String::from_utf8_lossy(&said));
    // If no test has failed, it was the build or the limit.
    if report.failed.is_empty() {
        ended.map_err(|failure| format!("{failure}; see {}", path.display()))?;
    }
    Ok(report)
}

/// Unpacks a program anew, and puts the two lines into its `Cargo.toml`.
fn unpack(root: &Path, place: &Path, program: &Program, on_ws: bool) -> Result<PathBuf, Failure> {
    let folder = place
        .join(if on_ws { "ws" } else { "tokio" })
        .join(program.name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(at(&folder))?;
    }
    untar(&archive(root, program)?, &folder)?;
    if on_ws {
        put_two_lines(root, &folder)?;
    }
    Ok(folder)
}

/// Puts the two lines at the end of the `Cargo.toml` in a folder.
pub(super) fn put_two_lines(root: &Path, folder: &Path) -> Result<(), Failure> {
    let path = folder.join("Cargo.toml");
    let manifest = fs::read_to_string(&path).map_err(at(&path))?;
    let compat = root.join("compat/tokio");
    let patched = format!(
        "{manifest}\n[patch.crates-io]\ntokio = {{ path = \"{}\" }}\n",
        compat.display()
    );
    fs::write(&path, patched).map_err(at(&path))
}

/// The program's package. `cargo info` downloads it.
fn archive(root: &Path, program: &Program) -> Result<PathBuf, Failure> {
    let name = format!("{}-{}.crate", program.name, program.version);
    if let Some(found) = in_the_cache(&name)? {
        return Ok(found);
    }
    let package = format!("{}@{}", program.name, program.version);
    process::output(cargo::command(root).args(["info", &package]))?;
    in_the_cache(&name)?.ok_or_else(|| format!("cargo has not downloaded {name}"))
}

/// Brings our package into the lock file, as `docs/tokio.md` says. An old lock file needs the
/// second command.
pub(super) fn update(folder: &Path, environment: &[(&'static str, String)]) -> Result<(), Failure> {
    let path = folder.join("Cargo.lock");
    for words in [&["update", "--package", "tokio"][..], &["update"]] {
        let mut command = cargo::command(folder);
        process::output(command.args(words).envs(environment.iter().cloned()))?;
        if is_ours(&fs::read_to_string(&path).map_err(at(&path))?) {
            return Ok(());
        }
    }
    Err("a tokio of the registry is still in the tree".into())
}

/// Whether a lock file has our tokio, and none of the registry's.
fn is_ours(lock: &str) -> bool {
    let mut ours = false;
    for package in lock.split("[[package]]") {
        if package.trim_start().starts_with("name = \"tokio\"\n") {
            if package.contains("source = \"registry+") {
                return false;
            }
            ours |= package.contains("version = \"1.999.0\"");
        }
    }
    ours
}

/// What became of a program's tests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    counts: Results,
    /// Fewer than by the counts, if a name was not to be read.
    failed: BTreeSet<String>,
}

impl Report {
    fn of(log: &str) -> Self {
        let failed = log
            .lines()
            .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
            .filter_map(|name| name.split(" - should panic").next())
            .map(str::to_owned)
            .collect();
        Self {
            counts: Results::of(log),
            failed,
        }
    }

    fn line(&self, program: &Program) -> String {
        format!(
            "{:20} {:4} passed {:3} failed {:3} ignored",
            format!("{} {}", program.name, program.version),
            self.counts.passed,
            self.counts.failed,
            self.counts.ignored
        )
    }

    fn faults(&self, program: &Program) -> Vec<String> {
        let is_known = |test: &str| program.reason(test).is_some();
        let mut faults: Vec<_> = self
            .failed
            .iter()
            .filter(|test| !is_known(test))
            .map(|test| format!("{}: {test} fails", program.name))
            .collect();
        if self.counts.failed != self.failed.len() {
            faults.push(format!(
                "{}: {} tests fail, and {} names were found",
                program.name,
                self.counts.failed,
                self.failed.len()
            ));
        }
        if self.counts.passed == 0 {
            faults.push(format!("{}: no test has passed", program.name));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "test a ... ok\n\
        test b - should panic ... FAILED\n\
        test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out\n\
        test result: ok. 10 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";

    fn program(known: &'static [(&'static str, &'static str)]) -> Program {
        Program {
            name: "p",
            version: "1.0.0",
            arguments: &[],
            known,
        }
    }

    #[test]
    fn the_counts_of_all_files_are_added() {
        let expected = Report {
            counts: Results {
                passed: 11,
                ignored: 2,
                failed: 1,
            },
            failed: BTreeSet::from(["b".into()]),
        };
        assert_eq!(Report::of(LOG), expected);
    }

    #[test]
    fn a_failure_that_is_not_known_is_a_fault() {
        let report = Report::of(LOG);
        assert_eq!(report.faults(&program(&[])), ["p: b fails"]);
        assert!(report.faults(&program(&[("b", "why")])).is_empty());
    }

    #[test]
    fn a_known_test_is_known_with_its_cases() {
        let program = program(&[("b", "why")]);
        assert_eq!(program.reason("b::case_1"), Some("why"));
        assert_eq!(program.reason("bc"), None);
    }

    #[test]
    fn a_failure_without_a_name_is_a_fault() {
        let report = Report::of(&LOG.replace("test b", "noise test b"));
        assert_eq!(report.faults(&program(&[])).len(), 1);
    }

    #[test]
    fn a_tokio_of_the_registry_is_found_in_a_lock_file() {
        let ours = "[[package]]\nname = \"tokio\"\nversion = \"1.999.0\"\n\n";
        let git = "[[package]]\nname = \"tokio\"\nversion = \"1.54.1\"\nsource = \"git+x\"\n\n";
        let theirs = git.replace("git+", "registry+");
        assert!(is_ours(&format!("{ours}{git}")));
        assert!(!is_ours(&format!("{ours}{theirs}")));
        assert!(!is_ours(git));
    }
}
