//! Everything that has to hold before a change lands, the cheapest first. `.ci/run` calls it.
//!
//! `cargo xtask ci` runs all [`SECTIONS`], `cargo xtask ci NAME…` those that are named, and
//! `cargo xtask ci --list` prints their names. On a fresh machine with Rust it installs what else
//! it needs. The tests come last, so that their result closes the output.
//!
//! - A section is a process: this program again, with `--section NAME`. It and all that it starts
//!   are one process group, which ends with the section (`group.rs`).
//! - A section has a budget: what it may take on two cores from an empty target folder, on a bad
//!   day. After twice its budget it has failed: its processes are printed and ended. A table at
//!   the end has what each section took.
//! - The first section that fails ends the run, and the last line names it.
//! - What a section or a test leaves out on this machine is a line of the file that `WS_SKIPS`
//!   names. The last lines repeat and count these lines (`closing.rs`).
//!
//! Rejected: sections as plain functions of one process. A function that hangs cannot be ended.

mod closing;
mod dependencies;
mod ecosystem;
mod group;
mod place;
mod steps;

pub(crate) use place::skipped;

use std::{
    env, io,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crate::Failure;
use group::Group;
use place::Place;

struct Section {
    name: &'static str,
    budget: Duration,
    step: fn(&Place) -> Result<(), Failure>,
}

/// The sections, and their budgets in minutes.
const SECTIONS: &[Section] = &[
    section("tools", 2, steps::tools),
    section("format", 1, steps::format),
    section("dependencies", 1, steps::dependencies),
    section("lint", 4, steps::lint),
    section("fuzz-targets", 2, steps::fuzz_targets),
    section("docs", 2, steps::docs),
    section("api", 3, steps::api),
    section("licences", 1, steps::licences),
    section("packages", 3, steps::packages),
    section("models", 7, steps::models),
    section("mutants", 5, steps::mutants),
    section("serve-curl", 2, steps::serve_curl),
    section("abort", 1, steps::abort),
    section("soak", 3, steps::soak),
    section("counts", 4, steps::counts),
    section("benchmarks", 6, steps::benchmarks),
    section("browser", 4, steps::browser),
    section("ecosystem", 14, ecosystem::check),
    section("tokio-tests", 13, steps::tokio_tests),
    section("tests-release", 9, steps::tests_release),
    section("tests", 9, steps::tests),
];

const fn section(
    name: &'static str,
    minutes: u64,
    step: fn(&Place) -> Result<(), Failure>,
) -> Section {
    Section {
        name,
        budget: Duration::from_secs(minutes * 60),
        step,
    }
}

/// What `cargo xtask ci` does with its arguments.
pub(crate) fn check(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let place = Place::new(root);
    match arguments {
        ["--list"] => {
            list();
            Ok(())
        }
        ["--section", name] => (find(name)?.step)(&place),
        names => run(&place, names),
    }
}

fn list() {
    for Section { name, budget, .. } in SECTIONS {
        println!("{:3} min  {name}", budget.as_secs() / 60);
    }
}

fn find(name: &str) -> Result<&'static Section, Failure> {
    SECTIONS
        .iter()
        .find(|section| section.name == name)
        .ok_or_else(|| format!("no section is named {name}; `cargo xtask ci --list` has all"))
}

/// The form of the text, for `cargo xtask quick` as well.
pub(crate) fn format(root: &Path) -> Result<(), Failure> {
    steps::format(&Place::new(root))
}

/// Runs the sections that are named, or all of them.
fn run(place: &Place, names: &[&str]) -> Result<(), Failure> {
    for name in names {
        find(name)?;
    }
    let program = env::current_exe().map_err(|error| format!("the path of xtask: {error}"))?;
    place.clear()?;
    let began = Instant::now();
    let chosen = SECTIONS
        .iter()
        .filter(|section| names.is_empty() || names.contains(&section.name));
    let times = run_each(chosen, |name| {
        let mut command = Command::new(&program);
        command
            .current_dir(&place.root)
            .envs(place.environment())
            .args(["ci", "--section", name]);
        command
    })?;
    println!("\n==> time\n{}", times.join("\n"));
    println!("{:6} s  in all\n", began.elapsed().as_secs());
    println!("{}", closing::lines(place)?);
    Ok(())
}

/// Runs sections up to the first that fails. Returns a line for each: what it took.
fn run_each<'a>(
    sections: impl Iterator<Item = &'a Section>,
    command: impl Fn(&str) -> Command,
) -> Result<Vec<String>, Failure> {
    let mut times = Vec::new();
    for section in sections {
        println!("\n==> {}", section.name);
        let began = Instant::now();
        run_one(section, command(section.name))?;
        times.push(format!(
            "{:6} s  of {:3} min  {}",
            began.elapsed().as_secs(),
            section.budget.as_secs() / 60,
            section.name
        ));
    }
    Ok(times)
}

/// Runs one section, and ends all that it started.
fn run_one(section: &Section, command: Command) -> Result<(), Failure> {
    let name = section.name;
    let limit = section.budget * 2;
    let failed = |error: io::Error| format!("FAILED: {name}: {error}");
    let mut group = Group::start(command).map_err(failed)?;
    let status = group.wait(limit).map_err(failed)?;
    if status.is_none() {
        eprintln!(
            "{name}: no end after {} s; this is what ran:",
            limit.as_secs()
        );
        eprintln!("{}", group.processes().join("\n"));
    }
    group.end().map_err(failed)?;
    match status {
        Some(status) if status.success() => Ok(()),
        Some(_) => Err(format!("FAILED: {name}")),
        None => Err(format!("FAILED: {name} did not end")),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;
    use crate::deep;

    fn planted(name: &'static str) -> Section {
        section(name, 3, |_| Ok(()))
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn names_are_words_that_are_there_once() {
        let names: BTreeSet<_> = SECTIONS.iter().map(|section| section.name).collect();
        assert_eq!(names.len(), SECTIONS.len());
        assert!(names.iter().all(|name| !name.contains(char::is_whitespace)));
    }

    #[test]
    fn the_tests_come_last() {
        assert_eq!(SECTIONS.last().unwrap().name, "tests");
    }

    #[test]
    fn a_section_that_fails_names_itself_and_ends_the_run() {
        let sections = ["passes", "fails", "never"].map(planted);
        let reached = env::temp_dir().join(format!("ws-xtask-reached-{}", std::process::id()));
        let failure = run_each(sections.iter(), |name| match name {
            "passes" => shell("exit 0"),
            "fails" => shell("exit 7"),
            _ => shell(&format!("touch {}", reached.display())),
        });
        assert_eq!(failure.unwrap_err(), "FAILED: fails");
        assert!(!fs::exists(&reached).unwrap());
    }

    #[test]
    fn a_section_that_hangs_is_ended_and_fails() {
        let section = Section {
            budget: Duration::from_millis(50),
            ..planted("hangs")
        };
        let failure = run_one(&section, shell("sleep 600 & sleep 600; exit 0"));
        assert_eq!(failure.unwrap_err(), "FAILED: hangs did not end");
    }

    #[test]
    fn a_section_that_passes_has_a_line_with_its_time() {
        let lines = run_each([planted("short")].iter(), |_| shell("")).unwrap();
        assert!(lines[0].ends_with(" s  of   3 min  short"), "{lines:?}");
    }

    #[test]
    fn an_unknown_name_is_refused_before_anything_runs() {
        let place = Place::new(Path::new("/no/such/folder"));
        let failure = run(&place, &["format", "formats"]).unwrap_err();
        assert!(failure.starts_with("no section is named formats"));
    }

    // Fails without a row for a section or a step, and with a command that is gone.
    #[test]
    fn the_page_of_checks_has_each_section_and_each_step() {
        let page = include_str!("../../docs/testing.md");
        let spans: Vec<_> = page.split('`').skip(1).step_by(2).collect();
        let words: Vec<_> = spans.iter().flat_map(|span| span.split(' ')).collect();
        let sections = SECTIONS.iter().map(|section| section.name);
        for name in sections.clone().chain(deep::names()) {
            assert!(
                words.contains(&name),
                "docs/testing.md does not name {name}"
            );
        }
        let (sections, steps): (Vec<_>, Vec<_>) = (sections.collect(), deep::names().collect());
        for (command, known) in [("cargo xtask ci ", sections), ("cargo xtask deep ", steps)] {
            let named = spans.iter().filter_map(|span| span.strip_prefix(command));
            for name in named.flat_map(|names| names.split(' ')) {
                let is_known = known.contains(&name) || name.starts_with('[');
                assert!(is_known, "docs/testing.md: there is no `{command}{name}`");
            }
        }
    }

    #[test]
    fn the_script_calls_this_and_nothing_else() {
        let script = include_str!("../../.ci/run");
        assert!(script.trim_end().ends_with("exec cargo xtask ci \"$@\""));
    }
}
