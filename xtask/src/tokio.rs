//! tokio's own tests, unmodified, on the package in `compat/tokio`.
//!
//! The package that the registry has of tokio holds its tests. They are unpacked into
//! `target/tokio/suite`, beside a manifest that asks for tokio and patches it
//! (`compat/tokio/suite.toml`). Each file is a program, which has [`LIMIT`] for its tests.
//!
//! `compat/tokio/known.txt` has the tests that do not pass, each with its reason; a line without a
//! test is for a whole file. A test that fails and is not in there is a failure of this command. So
//! is one that is in there and passes, for then its line has to go.
//!
//! `compat/tokio` takes tokio's own parts from git. Where there is no internet, the same package is
//! put into a git repository below `target/`, and git is told by its environment to look there
//! ([`environment`]).

pub(crate) mod compare;
pub(crate) mod console;
pub(crate) mod programs;
pub(crate) mod proofs;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write as _,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    Failure, cargo, process,
    tree::{at, entries},
};

const VERSION: &str = "1.54.1";
const URL: &str = "https://github.com/tokio-rs/tokio";
/// For the tests of one file.
const LIMIT: Duration = Duration::from_secs(120);

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Passed,
    Failed,
    Ignored,
}

/// What became of the tests of a file.
type Outcomes = BTreeMap<String, Outcome>;

/// `cargo xtask tokio-tests bless`: writes the table of all files anew, if all is as known.
pub(crate) fn bless(root: &Path) -> Result<(), Failure> {
    let (results, known) = run_all(root, &[])?;
    let path = root.join("docs/tokio-tests.md");
    fs::write(&path, table(&results, &known)).map_err(at(&path))
}

/// `cargo xtask tokio-tests [FILE…]`.
pub(crate) fn check(root: &Path, files: &[&str]) -> Result<(), Failure> {
    run_all(root, files).map(drop)
}

type Results = BTreeMap<String, Outcomes>;

fn run_all(root: &Path, files: &[&str]) -> Result<(Results, Known), Failure> {
    let place = cargo::target(root).join("tokio");
    let known = Known::read(&root.join("compat/tokio/known.txt"))?;
    let suite = unpack(root, &place)?;
    let mut results = BTreeMap::new();
    for (file, program) in build(root, &place, &suite, files, &known)? {
        let outcomes = run(&place, &suite, &file, &program)?;
        println!("{}", line(&file, &outcomes));
        results.insert(file, outcomes);
    }
    let faults = known.faults(&results, files.is_empty());
    println!("{}", summary(&results, &known));
    if !faults.is_empty() {
        return Err(format!("tokio-tests:\n{}", faults.join("\n")));
    }
    for line in known.lines() {
        println!("{line}");
    }
    println!("{}", result(&results));
    Ok((results, known))
}

/// The page `docs/tokio-tests.md`.
fn table(results: &Results, known: &Known) -> String {
    let mut text = format!(
        "# tokio's own tests on `compat/tokio`\n\n{}.\n\n`cargo xtask tokio-tests bless` writes this page.\n\n\
         Files without a test are for other systems, or need `--cfg tokio_unstable`.\n\n\
         | file | passed | not passed | reason |\n| --- | ---: | ---: | --- |\n",
        summary(results, known)
    );
    for (file, outcomes) in results {
        let passed = outcomes
            .values()
            .filter(|outcome| **outcome == Outcome::Passed)
            .count();
        let reasons: Vec<_> = known
            .reasons
            .range(format!("{file}::")..format!("{file}:;"))
            .map(|(name, reason)| format!("`{}`: {reason}", &name[file.len() + 2..]))
            .collect();
        let others = outcomes.len() - passed;
        let _ = writeln!(
            text,
            "| `{file}` | {passed} | {others} | {} |",
            reasons.join("; ")
        );
    }
    for (file, reason) in known
        .reasons
        .iter()
        .filter(|(name, _)| !name.contains("::"))
    {
        let _ = writeln!(text, "| `{file}` | | all | {reason} |");
    }
    text
}

/// `cargo xtask tokio-env`.
pub(crate) fn print_environment(root: &Path) -> Result<(), Failure> {
    for (name, value) in environment(root)? {
        println!("export {name}='{value}'");
    }
    Ok(())
}

/// The variables by which git and cargo find the package of tokio on this machine.
pub(crate) fn environment(root: &Path) -> Result<[(&'static str, String); 4], Failure> {
    let place = cargo::target(root).join("tokio");
    let repository = repository(root, &place)?;
    let key = format!("url.file://{}.insteadOf", repository.display());
    Ok([
        ("GIT_CONFIG_COUNT", "1".into()),
        ("GIT_CONFIG_KEY_0", key),
        ("GIT_CONFIG_VALUE_0", URL.into()),
        ("CARGO_NET_GIT_FETCH_WITH_CLI", "true".into()),
    ])
}

/// Makes the git repository. Its commit has fixed names and dates, so that a lock file can name it.
fn repository(root: &Path, place: &Path) -> Result<PathBuf, Failure> {
    let repository = place.join("repository");
    if repository.join("made").exists() {
        return Ok(repository);
    }
    let archive = archive(root)?;
    if repository.exists() {
        fs::remove_dir_all(&repository).map_err(at(&repository))?;
    }
    untar(&archive, &repository)?;
    for of_the_registry in [".cargo_vcs_info.json", "Cargo.lock"] {
        let path = repository.join(of_the_registry);
        if path.exists() {
            fs::remove_file(&path).map_err(at(&path))?;
        }
    }
    let commit = format!("tokio {VERSION}, as the registry has it");
    let tag = format!("tokio-{VERSION}");
    for words in [
        &["init", "-q", "-b", "main", "."][..],
        &["add", "-A"],
        &["commit", "-q", "-m", &commit],
        &["tag", &tag],
    ] {
        let mut git = Command::new("git");
        git.args(words).current_dir(&repository);
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "ws")
                .env(format!("GIT_{who}_EMAIL"), "ws@example.org")
                .env(format!("GIT_{who}_DATE"), "2026-01-01T00:00:00Z");
        }
        process::run(&mut git)?;
    }
    File::create(repository.join("made")).map_err(at(&repository))?;
    Ok(repository)
}

/// The package as cargo has downloaded it: the benchmarks compare with the same version.
fn archive(root: &Path) -> Result<PathBuf, Failure> {
    let name = format!("tokio-{VERSION}.crate");
    if let Some(found) = in_the_cache(&name)? {
        return Ok(found);
    }
    cargo::run(root, "fetch --locked")?;
    in_the_cache(&name)?.ok_or_else(|| format!("cargo has not downloaded {name}"))
}

fn in_the_cache(name: &str) -> Result<Option<PathBuf>, Failure> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let home = env::var_os("HOME")?;
        Some(PathBuf::from(home).join(".cargo"))
    });
    let cache = home.ok_or("no HOME")?.join("registry/cache");
    if !cache.exists() {
        return Ok(None);
    }
    let archives = entries(&cache)?
        .into_iter()
        .map(|registry| registry.path().join(name));
    Ok(archives.into_iter().find(|path| path.exists()))
}

fn untar(archive: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to).map_err(at(to))?;
    let mut tar = Command::new("tar");
    tar.arg("xzf")
        .arg(archive)
        .arg("-C")
        .arg(to)
        .arg("--strip-components=1");
    process::run(&mut tar)
}

/// Puts the tests into a package of their own.
fn unpack(root: &Path, place: &Path) -> Result<PathBuf, Failure> {
    let suite = place.join("suite");
    if !suite.join("tests").exists() {
        untar(&archive(root)?, &suite)?;
        let sources = suite.join("src");
        fs::remove_dir_all(&sources).map_err(at(&sources))?;
        fs::create_dir_all(&sources).map_err(at(&sources))?;
    }
    let template = root.join("compat/tokio/suite.toml");
    let manifest = fs::read_to_string(&template).map_err(at(&template))?;
    let compat = root.join("compat/tokio").display().to_string();
    for (path, text) in [
        (
            suite.join("Cargo.toml"),
            manifest.replace("COMPAT", &compat),
        ),
        (suite.join("src/lib.rs"), String::new()),
    ] {
        if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            fs::write(&path, text).map_err(at(&path))?;
        }
    }
    Ok(suite)
}

/// Builds the files of tests that are named, or all that apply. Each with its program.
fn build(
    root: &Path,
    place: &Path,
    suite: &Path,
    files: &[&str],
    known: &Known,
) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut names = Vec::new();
    for entry in entries(&suite.join("tests"))? {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(name) = path.file_stem()
        {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.retain(|name| match files {
        [] => !known.is_left_out(name),
        files => files.contains(&name.as_str()),
    });
    names.sort();
    let mut command = cargo::command(suite);
    command
        .args(["test", "--no-run", "--color", "never"])
        .env("CARGO_TARGET_DIR", place.join("target"))
        .envs(environment(root)?)
        .stderr(Stdio::piped());
    for name in &names {
        command.args(["--test", name]);
    }
    let output = command
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("the tests do not build:\n{said}"));
    }
    Ok(said
        .lines()
        .filter_map(executable)
        .map(|(name, path)| (name, suite.join(path)))
        .collect())
}

/// The name and the path of `Executable tests/NAME.rs (PATH)`.
fn executable(line: &str) -> Option<(String, PathBuf)> {
    let rest = line.trim_start().strip_prefix("Executable tests/")?;
    let (name, path) = rest.split_once(".rs (")?;
    Some((name.into(), path.strip_suffix(')')?.into()))
}

/// Runs the tests of a file. Those that did not end have failed.
fn run(place: &Path, suite: &Path, file: &str, program: &Path) -> Result<Outcomes, Failure> {
    let mut listed = Command::new(program);
    let listed = process::output(
        listed
            .args(["--list", "--format", "terse"])
            .current_dir(suite),
    )?;
    let tests = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    let path = place.join("log").join(format!("{file}.log"));
    fs::create_dir_all(place.join("log")).map_err(at(place))?;
    let log = File::create(&path).map_err(at(&path))?;
    let mut command = Command::new(program);
    // Some tests read the package's own files.
    command
        .current_dir(place.join("repository"))
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(at(&path))?)
        .stderr(log);
    let mut child = command.spawn().map_err(at(program))?;
    let began = Instant::now();
    process::wait_or_kill(&mut child, LIMIT).map_err(at(program))?;
    if began.elapsed() >= LIMIT {
        println!("{file}: no end after {} s", LIMIT.as_secs());
    }
    let said = fs::read(&path).map_err(at(&path))?;
    let said = String::from_utf8_lossy(&said);
    let mut outcomes: Outcomes = tests.map(|test| (test.into(), Outcome::Failed)).collect();
    outcomes.extend(said.lines().filter_map(outcome));
    Ok(outcomes)
}

/// What a line of the harness says of a test.
fn outcome(line: &str) -> Option<(String, Outcome)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.split(" - should panic").next()?;
    let outcome = match result {
        "ok" => Outcome::Passed,
        result if result.starts_with("ignored") => Outcome::Ignored,
        _ => return None,
    };
    Some((name.into(), outcome))
}

fn line(file: &str, outcomes: &Outcomes) -> String {
    let count = |wanted| {
        outcomes
            .values()
            .filter(|outcome| **outcome == wanted)
            .count()
    };
    let mut line = format!(
        "{file:40} {:4} passed {:3} failed {:3} ignored",
        count(Outcome::Passed),
        count(Outcome::Failed),
        count(Outcome::Ignored)
    );
    for (test, _) in outcomes
        .iter()
        .filter(|(_, outcome)| **outcome == Outcome::Failed)
    {
        let _ = write!(line, " {test}");
    }
    line
}

/// The tests that are known not to pass. See the module's head.
#[derive(Debug, Default)]
struct Known {
    /// `FILE` or `FILE::TEST`, and why.
    reasons: BTreeMap<String, String>,
}

impl Known {
    fn read(path: &Path) -> Result<Self, Failure> {
        Self::parse(&fs::read_to_string(path).map_err(at(path))?)
    }

    fn parse(text: &str) -> Result<Self, Failure> {
        let mut reasons = BTreeMap::new();
        for line in text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (name, reason) = line
                .split_once(' ')
                .ok_or_else(|| format!("known.txt: no reason: {line}"))?;
            reasons.insert(name.to_owned(), reason.trim().to_owned());
        }
        Ok(Self { reasons })
    }

    /// Whether a whole file does not apply.
    fn is_left_out(&self, file: &str) -> bool {
        self.reasons.contains_key(file)
    }

    /// As the test harness shows a test that it leaves out.
    fn lines(&self) -> impl Iterator<Item = String> {
        let reasons = self.reasons.iter();
        reasons.map(|(name, reason)| format!("test tokio::{name} ... ignored, {reason}"))
    }

    fn faults(&self, results: &Results, all: bool) -> Vec<String> {
        let mut faults = Vec::new();
        let mut seen = BTreeSet::new();
        for (file, outcomes) in results {
            for (test, outcome) in outcomes {
                let name = format!("{file}::{test}");
                match (outcome, self.reasons.contains_key(&name)) {
                    (Outcome::Failed, false) => faults.push(format!("{name} fails")),
                    (Outcome::Passed, true) => {
                        faults.push(format!("{name} passes: take it out of known.txt"));
                    }
                    _ => {}
                }
                seen.insert(name);
            }
        }
        let gone = |name: &&String| all && name.contains("::") && !seen.contains(*name);
        let gone = self.reasons.keys().filter(gone);
        faults
            .extend(gone.map(|name| format!("{name} is in known.txt, and there is no such test")));
        faults
    }
}

/// The counts as the test harness writes them, for those that sum them up. Those that are known not
/// to pass count as ignored.
fn result(results: &Results) -> String {
    let all = results.values().flat_map(Outcomes::values);
    let passed = all
        .clone()
        .filter(|outcome| **outcome == Outcome::Passed)
        .count();
    let others = all.count() - passed;
    format!("test result: ok. {passed} passed; 0 failed; {others} ignored")
}

/// The closing line.
fn summary(results: &Results, known: &Known) -> String {
    let all = results.values().flat_map(Outcomes::values);
    let count = |wanted| all.clone().filter(|outcome| **outcome == wanted).count();
    let left_out = known
        .reasons
        .keys()
        .filter(|name| !name.contains("::"))
        .count();
    let (passed, failed) = (count(Outcome::Passed), count(Outcome::Failed));
    format!(
        "tokio {VERSION}: {} files of tests, {passed} tests passed, {failed} failed, {} ignored; {left_out} files do not apply",
        results.len(),
        count(Outcome::Ignored)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(log: &str) -> Outcomes {
        log.lines().filter_map(outcome).collect()
    }

    #[test]
    fn lines_of_the_harness_are_read() {
        let log = "test a ... ok\ntest b ... FAILED\ntest c - should panic ... ok\ntest d ... ignored, why\nother";
        let expected = [
            ("a".to_owned(), Outcome::Passed),
            ("c".to_owned(), Outcome::Passed),
            ("d".to_owned(), Outcome::Ignored),
        ];
        assert_eq!(outcomes(log), expected.into());
    }

    #[test]
    fn a_program_is_found_by_what_cargo_says() {
        let line = "  Executable tests/rt_basic.rs (target/debug/deps/rt_basic-1f)";
        let expected = (
            "rt_basic".to_owned(),
            "target/debug/deps/rt_basic-1f".into(),
        );
        assert_eq!(executable(line), Some(expected));
        assert_eq!(
            executable("  Executable unittests src/lib.rs (target/x)"),
            None
        );
    }

    #[test]
    fn what_is_not_as_known_is_a_fault() {
        let known =
            Known::parse("# why\n\nf::b one reason\nf::gone another\ng all of it\n").unwrap();
        let results = |b, c| {
            let outcomes = [("b".to_owned(), b), ("c".to_owned(), c)];
            BTreeMap::from([("f".to_owned(), outcomes.into())])
        };
        let as_known = results(Outcome::Failed, Outcome::Passed);
        assert_eq!(known.faults(&as_known, false), Vec::<String>::new());
        assert_eq!(known.faults(&as_known, true).len(), 1);
        let other = results(Outcome::Passed, Outcome::Failed);
        let faults = known.faults(&other, false);
        assert_eq!(faults[0], "f::b passes: take it out of known.txt");
        assert_eq!(faults[1], "f::c fails");
        assert!(known.is_left_out("g") && !known.is_left_out("f"));
    }

    #[test]
    fn the_page_has_a_row_for_each_file() {
        let known = Known::parse("f::b because\nfg::x other\nh not here\n").unwrap();
        let outcomes = [
            ("a".to_owned(), Outcome::Passed),
            ("b".to_owned(), Outcome::Failed),
        ];
        let results = BTreeMap::from([("f".to_owned(), Outcomes::from(outcomes))]);
        let page = table(&results, &known);
        assert!(
            page.ends_with("| `f` | 1 | 1 | `b`: because |\n| `h` | | all | not here |\n"),
            "{page}"
        );
    }

    #[test]
    fn a_known_test_has_a_reason() {
        assert!(Known::parse("f::b\n").is_err());
    }
}
