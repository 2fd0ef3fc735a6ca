//! How many system calls a path makes, and how often its thread goes to sleep.
//!
//! With one worker and no monitor these numbers are exact, however busy the machine is. So they can
//! guard what a time cannot. As in [`counts`](crate::counts), the program `ws-calls` runs each path
//! twice, with different numbers of operations. What the second run makes more is divided by what
//! it does more. strace counts the calls. It stops the thread at each of them, so another run
//! counts how often the thread goes to sleep.
//!
//! The start of a run is not exact: while the only worker waits for a connection, the spare thread
//! may begin and wait in its place. The two then wake each other at each step of the start. This
//! only adds calls. So each number is the least of [`RUNS`].
//!
//! `benches/calls.txt` has the numbers that are expected. One that differs by more than
//! [`ROUNDING`] fails. So does one that is lower: `cargo xtask calls bless` keeps what was won.
//!
//! The file names its target: the names of calls and what libc makes of them differ from one to the
//! next. On another target nothing is compared, and that is a skip.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Failure, cargo::compiler, ci::skipped, process::output, tree::at};

const PATHS: &[&str] = &[
    "ping_pong",
    "echo",
    "echo_64",
    "hello",
    "connect",
    "timers",
    "timers_dropped",
];
/// Operations in the shorter and in the longer run; multiples of the 64 connections of `echo_64`.
const FEW: u64 = 128;
const MANY: u64 = 6_528;
const RUNS: usize = 3;
/// Of an operation: a look at the netpoll that falls into one run and not into the other.
const ROUNDING: f64 = 0.011;
/// The name under which sleeps stand among the calls.
const SWITCHES: &str = "(switches)";

/// How many of each call an operation makes, by path and call.
type Calls = BTreeMap<(String, String), f64>;

/// The numbers that are expected, and where.
struct Baseline {
    target: String,
    calls: Calls,
}

/// Compares with the baseline.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    let before = read(&fs::read_to_string(file(root)).map_err(at(&file(root)))?)?;
    if let Some(why) = is_of_another(&before, &compiler()?.target) {
        return skipped(&why);
    }
    let failed = compare(&before.calls, &count(root)?);
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "other calls than in {}:\n{}\n`cargo xtask calls bless` writes it anew",
        file(root).display(),
        failed.join("\n")
    ))
}

/// Writes the baseline.
pub(crate) fn bless(root: &Path) -> Result<(), Failure> {
    let mut text = String::from(
        "# System calls of one operation, and how often its thread goes to sleep, with one worker; \
         by\n# `cargo xtask calls bless`. See xtask/src/calls.rs.\n",
    );
    text += &format!("target {}\n", compiler()?.target);
    for ((path, call), count) in count(root)? {
        text += &format!("{path} {call} {count:.2}\n");
    }
    fs::write(file(root), text).map_err(at(&file(root)))
}

/// Why nothing is compared on this target, if that is so.
fn is_of_another(baseline: &Baseline, target: &str) -> Option<String> {
    let of = &baseline.target;
    (of != target).then(|| {
        format!("system calls are not compared: benches/calls.txt is of {of}, and this is {target}")
    })
}

fn file(root: &Path) -> PathBuf {
    root.join("benches/calls.txt")
}

/// Counts all, and prints it.
fn count(root: &Path) -> Result<Calls, Failure> {
    let target = crate::cargo::target(root);
    output(
        crate::cargo::command(root)
            .args(["build", "--quiet", "--release", "--package", "ws-bench"])
            .args(["--bin", "ws-calls", "--target-dir"])
            .arg(&target),
    )?;
    let program = target.join("release/ws-calls");
    let mut all = Calls::new();
    for path in PATHS {
        let few = total(&program, path, FEW, &target)?;
        let many = total(&program, path, MANY, &target)?;
        let mut line = format!("{path:14}");
        for (call, count) in many {
            let more = count - few.get(&call).copied().unwrap_or(0.0);
            let each = more / (MANY - FEW) as f64;
            if each.abs() >= ROUNDING {
                line += &format!(" {call} {each:.2}");
                all.insert((String::from(*path), call), each);
            }
        }
        println!("{line}");
    }
    Ok(all)
}

/// The calls of a whole run, and its sleeps: the least of each in several runs.
fn total(
    program: &Path,
    path: &str,
    times: u64,
    target: &Path,
) -> Result<BTreeMap<String, f64>, Failure> {
    let runs = (0..RUNS).map(|_| one_run(program, path, times, target));
    Ok(least(&runs.collect::<Result<Vec<_>, _>>()?))
}

/// The least of each call. One that a run does not make is not in it.
fn least(runs: &[BTreeMap<String, f64>]) -> BTreeMap<String, f64> {
    let Some((first, rest)) = runs.split_first() else {
        return BTreeMap::new();
    };
    let in_all = first.iter().filter_map(|(call, count)| {
        let least = rest.iter().try_fold(*count, |least: f64, run| {
            run.get(call).map(|other| least.min(*other))
        });
        Some((call.clone(), least?))
    });
    in_all.collect()
}

fn one_run(
    program: &Path,
    path: &str,
    times: u64,
    target: &Path,
) -> Result<BTreeMap<String, f64>, Failure> {
    let table = target.join("ws-calls.strace");
    output(
        Command::new("strace")
            .args(["--follow-forks", "--summary-only", "--output"])
            .arg(&table)
            .arg(program)
            .args([path, &times.to_string()]),
    )?;
    let mut calls = of_table(&fs::read_to_string(&table).map_err(at(&table))?);
    let said = output(Command::new(program).args([path, &times.to_string()]))?;
    let switches = said
        .lines()
        .find_map(|line| line.strip_prefix("switches ")?.parse().ok())
        .ok_or("ws-calls did not say how often it slept")?;
    calls.insert(SWITCHES.into(), switches);
    Ok(calls)
}

/// What strace's summary says: the count is the fourth column, the name the last.
fn of_table(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter_map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let count = words.get(3)?.parse().ok()?;
            let name = words.last().filter(|name| **name != "total")?;
            Some((String::from(*name), count))
        })
        .collect()
}

/// The lines of the file.
fn read(text: &str) -> Result<Baseline, Failure> {
    let (mut target, mut calls) = (None, Calls::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["target", name] => target = Some(name.to_owned()),
            [path, call, count] => {
                let count = count
                    .parse()
                    .map_err(|error| format!("`{line}`: {error}"))?;
                calls.insert((path.into(), call.into()), count);
            }
            _ => return Err(format!("`{line}` is not a path, a call and a number")),
        }
    }
    let target = target.ok_or("benches/calls.txt does not name its target")?;
    Ok(Baseline { target, calls })
}

/// What differs.
fn compare(before: &Calls, now: &Calls) -> Vec<String> {
    let mut keys: Vec<_> = before.keys().chain(now.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .filter_map(|key| {
            let of = |calls: &Calls| calls.get(key).copied().unwrap_or(0.0);
            let (was, is) = (of(before), of(now));
            let (path, call) = key;
            ((is - was).abs() > ROUNDING).then(|| format!("{path}: {call} {was:.2}, now {is:.2}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_of_strace_is_read() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n \
                    60,00    0,000012           1        12           write\n \
                    40.00    0.000008           0        20         3 recvfrom\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.000020           0        32         3 total\n";
        let calls = of_table(text);
        assert_eq!(calls.len(), 2);
        assert_eq!((calls["write"], calls["recvfrom"]), (12.0, 20.0));
    }

    #[test]
    fn what_one_run_makes_more_does_not_count() {
        let run = |futex, wait| BTreeMap::from([("futex", futex), ("wait", wait)].map(owned));
        let runs = [run(4.0, 2.0), run(260.0, 1.0), run(5.0, 3.0)];
        let read = BTreeMap::from([owned(("read", 1.0)), owned(("futex", 9.0))]);
        assert_eq!(least(&runs), run(4.0, 1.0));
        assert_eq!(
            least(&[run(4.0, 2.0), read]),
            BTreeMap::from([owned(("futex", 4.0))])
        );
        assert!(least(&[]).is_empty());
    }

    fn owned((call, count): (&str, f64)) -> (String, f64) {
        (String::from(call), count)
    }

    #[test]
    fn more_fewer_new_and_gone_calls_are_told() {
        let read = |text: &str| read(&format!("# head\ntarget t\n{text}"));
        let before = read("a read 1.00\na gone 1.00\nb read 2.00\nb same 1.00\n").unwrap();
        let now = read("a read 1.50\na new 1.00\nb read 1.00\nb same 1.01\n").unwrap();
        assert_eq!(
            compare(&before.calls, &now.calls),
            [
                "a: gone 1.00, now 0.00",
                "a: new 0.00, now 1.00",
                "a: read 1.00, now 1.50",
                "b: read 2.00, now 1.00",
            ]
        );
        assert!(read("a read\n").is_err());
    }

    #[test]
    fn a_baseline_is_of_a_target() {
        let baseline = read("target riscv64gc-unknown-linux-gnu\na read 1.00\n").unwrap();
        assert_eq!(is_of_another(&baseline, &baseline.target), None);
        let why = is_of_another(&baseline, "aarch64-unknown-linux-musl").unwrap();
        assert!(why.contains("riscv64gc-unknown-linux-gnu") && why.contains("aarch64-unknown"));
        assert!(read("a read 1.00\n").is_err());
    }
}
