//! The last lines of a run: how many tests there were, and what was left out on this machine.

use std::collections::BTreeMap;

use super::place::Place;
use crate::{Failure, results::Results};

/// The logs of tests, and what their tests are called.
const LOGS: [(&str, &str); 6] = [
    ("models", "models"),
    ("browser", "tests in a browser"),
    ("ecosystem", "proofs with other libraries"),
    ("tokio-tests", "of tokio's tests"),
    ("tests-release", "tests in release"),
    ("tests", "tests"),
];

/// Reads the logs. A log is missing if its section was not asked for.
pub(super) fn lines(place: &Place) -> Result<String, Failure> {
    let mut logs = Vec::new();
    for (name, what) in LOGS {
        logs.push((what, place.read(name)?));
    }
    let skips = place.read("skips")?;
    Ok(closing(&logs, &skips))
}

fn closing(logs: &[(&str, String)], skips: &str) -> String {
    let mut counts = Vec::new();
    let (mut passed, mut ignored) = (0, 0);
    for (what, log) in logs {
        let results = Results::of(log);
        counts.push(format!("{} {what}", results.passed));
        passed += results.passed;
        ignored += results.ignored;
    }
    let mut text = format!("{}\n", counts.join(", "));
    if !skips.is_empty() {
        text += "\nLeft out on this machine:\n";
        text += &counted(skips.lines());
    }
    let all = logs.iter().flat_map(|(_, log)| log.lines());
    text += &counted(all.filter(|line| is_ignored(line)));
    let skipped = skips.lines().count() + ignored;
    text + &format!("{passed} passed, 0 failed, {skipped} skipped")
}

/// Whether a line is that of a test that the harness left out, with or without a reason.
fn is_ignored(line: &str) -> bool {
    line.starts_with("test ") && line.contains(" ... ignored")
}

/// Equal lines once, and how often each was there.
fn counted<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut times = BTreeMap::<&str, usize>::new();
    for line in lines {
        *times.entry(line).or_default() += 1;
    }
    times
        .iter()
        .map(|(line, times)| format!("{times:7} {line}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(passed: usize) -> String {
        format!("test result: ok. {passed} passed; 0 failed; 0 ignored; 0 measured\n")
    }

    #[test]
    fn skips_and_ignored_tests_are_counted() {
        let ignored = "\
test slow ... ignored, takes an hour
test other ... ok
test result: ok. 30 passed; 0 failed; 1 ignored; 0 measured
";
        let logs = [("models", log(2)), ("tests", ignored.to_owned())];
        let skips = "SKIPPED: no root\nSKIPPED: no cgroup\nSKIPPED: no root\n";
        let expected = "\
2 models, 30 tests

Left out on this machine:
      1 SKIPPED: no cgroup
      2 SKIPPED: no root
      1 test slow ... ignored, takes an hour
32 passed, 0 failed, 4 skipped";
        assert_eq!(closing(&logs, skips), expected);
    }

    #[test]
    fn the_count_of_skips_is_said_when_there_are_none() {
        let logs = [("models", log(2))];
        assert_eq!(
            closing(&logs, ""),
            "2 models\n2 passed, 0 failed, 0 skipped"
        );
    }
}
