//! `ws::sim` beside turmoil and madsim, by the programs in `benches/simulators/`.
//!
//! Each figure is of a process of its own. In each series all simulators run, one after the other,
//! so what else the machine does meets all. Times are those of a processor, not of the wall.
//! Instructions are counted by valgrind.
//!
//! A bug's figure is the median over series of seeds: series `n` begins at seed `n` million. A bug
//! that more than half of the series have not found needs more seeds than the limit, so the rest is
//! left out.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Failure, cargo, process, scaling, tree::at};

const USAGE: &str = "usage: cargo xtask simulators [SERIES [LIMIT]] [bugs|costs|leaks] [write]";
const PAGE: &str = "docs/simulation.md";

/// A simulator: a program, and a variable that it is run with.
struct Simulator {
    name: &'static str,
    program: PathBuf,
    variable: Option<(&'static str, &'static str)>,
}

impl Simulator {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.envs(self.variable);
        command
    }

    fn ask(&self, words: &str) -> Result<String, Failure> {
        let output = process::output(self.command().args(words.split(' ')))?;
        Ok(output.trim().to_owned())
    }

    /// The numbers of its answer.
    fn figures<const N: usize>(&self, words: &str) -> Result<[f64; N], Failure> {
        let output = self.ask(words)?;
        let numbers: Vec<f64> = output
            .split(' ')
            .map(|word| word.parse().unwrap_or(f64::INFINITY))
            .collect();
        let wrong = |_| format!("{} {words}: {output:?}", self.name);
        numbers.try_into().map_err(wrong)
    }
}

/// `cargo xtask simulators`: measures, and prints tables; `write` also puts them into the page.
pub(crate) fn measure(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let (mut numbers, mut only, mut writes) = (Vec::new(), None, false);
    for argument in arguments {
        match (*argument, argument.parse::<u64>()) {
            ("write", _) => writes = true,
            ("bugs" | "costs" | "leaks", _) => only = Some(*argument),
            (_, Ok(number @ 1..)) => numbers.push(number),
            _ => return Err(USAGE.into()),
        }
    }
    let series = numbers.first().copied().unwrap_or(10);
    let limit = numbers.get(1).copied().unwrap_or(2_000);
    let simulators = build(root)?;
    let with = scaling::measured_with(root, PAGE)?;
    for name in ["bugs", "costs", "leaks"] {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let table = match name {
            "bugs" => bugs(&simulators, series, limit)?,
            "costs" => costs(root, &simulators)?,
            _ => leaks(&simulators)?,
        };
        let table = format!("{}\n\n{with}\n", table.trim_end());
        println!("{table}");
        if writes {
            scaling::put(root, PAGE, &format!("simulators-{name}"), &table)?;
        }
    }
    Ok(())
}

fn build(root: &Path) -> Result<[Simulator; 4], Failure> {
    let place = cargo::target(root).join("simulators");
    let folder = root.join("benches/simulators");
    let build = |package: &str, flags: &str| {
        let target = place.join(package);
        let mut command = cargo::command(&folder);
        command
            .args(["build", "--quiet", "--locked", "--release", "--package"])
            .arg(package)
            .arg("--target-dir")
            .arg(&target)
            .env("RUSTFLAGS", flags)
            .env_remove("CARGO_ENCODED_RUSTFLAGS");
        process::run(&mut command)?;
        Ok::<_, Failure>(target.join("release").join(package))
    };
    // With tokio's unstable part turmoil passes on its seed and the panics of hosts.
    let turmoil = build("on-turmoil", "--cfg tokio_unstable")?;
    Ok([
        Simulator {
            name: "ws",
            program: build("on-ws", "")?,
            variable: None,
        },
        Simulator {
            name: "turmoil",
            program: turmoil.clone(),
            variable: None,
        },
        Simulator {
            name: "turmoil, random order",
            program: turmoil,
            variable: Some(("TURMOIL_RANDOM_ORDER", "1")),
        },
        Simulator {
            name: "madsim",
            program: build("on-madsim", "--cfg madsim")?,
            variable: None,
        },
    ])
}

/// A table's first two lines.
fn head(first: &str, simulators: &[Simulator]) -> String {
    let names: String = simulators
        .iter()
        .map(|one| format!(" {} |", one.name))
        .collect();
    format!(
        "| {first} |{names}\n| --- |{}\n",
        " ---: |".repeat(simulators.len())
    )
}

fn row(first: &str, cells: &[String]) -> String {
    format!("| {first} | {} |\n", cells.join(" | "))
}

/// Seeds until a bug is found, and processor time until then.
fn bugs(simulators: &[Simulator], series: u64, limit: u64) -> Result<String, Failure> {
    let mut table = head("bug", simulators);
    for bug in simulators[0].ask("bugs")?.lines() {
        let mut found = vec![Vec::new(); simulators.len()];
        for number in 0..series {
            for (simulator, found) in simulators.iter().zip(&mut found) {
                let missed = found
                    .iter()
                    .filter(|[seeds, _]: &&[f64; 2]| seeds.is_infinite());
                if missed.count() as u64 > series / 2 {
                    continue;
                }
                let words = format!("hunt {bug} {limit} {}", number * 1_000_000);
                found.push(simulator.figures::<2>(&words)?);
            }
        }
        let cells: Vec<String> = found.into_iter().map(|found| cell(found, limit)).collect();
        table += &row(&format!("`{bug}`"), &cells);
        eprintln!("{bug}: {}", cells.join(" | "));
    }
    Ok(table + &format!("\nMedians of {series} series, at most {limit} seeds each."))
}

/// The median of seeds, and the time of that series.
fn cell(mut found: Vec<[f64; 2]>, limit: u64) -> String {
    found.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let [seeds, seconds] = found[found.len() / 2];
    let missed = found
        .iter()
        .filter(|[seeds, _]| seeds.is_infinite())
        .count();
    if seeds.is_infinite() || 2 * missed > found.len() {
        return format!("> {limit}");
    }
    format!("{seeds} ({seconds:.2} s)")
}

/// What a simulator costs.
fn costs(root: &Path, simulators: &[Simulator]) -> Result<String, Failure> {
    const ROUNDS: f64 = 200_000.0;
    const SEEDS: f64 = 1_000.0;
    let mut rows = vec![Vec::new(); 8];
    for simulator in simulators {
        let [seconds] = simulator.figures(&format!("echo {ROUNDS}"))?;
        let [hour] = simulator.figures("waiting 3600")?;
        let [failed, _, sound] = simulator.figures(&format!("sound {SEEDS}"))?;
        let [differ] = simulator.figures("replay 200")?;
        let cells = [
            format!("{:.0}", ROUNDS / seconds),
            instructions(simulator)?,
            format!("{hour:.1} s"),
            format!("{:.1} ms", sound * 1_000.0 / SEEDS),
            format!("{failed}"),
            format!("{differ}"),
            test_lines(root, simulator)?,
        ];
        rows.iter_mut()
            .zip(cells)
            .for_each(|(row, cell)| row.push(cell));
    }
    // Last: it is no time, and takes most of the time.
    for simulator in simulators {
        let [early, late] = simulator.figures("memory 10000")?;
        rows[7].push(format!("{:.1}, {:.1} MB", early / 1_024.0, late / 1_024.0));
    }
    let names = [
        "echoes a second",
        "instructions an echo",
        "an hour of five waiting hosts",
        "a seed of the raft",
        "seeds of 1,000 that fail without a bug",
        "seeds of 200 that differ from their second run",
        "lines of the test in `tests/echo.rs`",
        "memory after 1,000 and 10,000 seeds",
    ];
    let rows = names
        .iter()
        .zip(rows)
        .map(|(name, cells)| row(name, &cells));
    Ok(head("", simulators) + &rows.collect::<String>())
}

/// Instructions of an echo: the difference of two runs.
fn instructions(simulator: &Simulator) -> Result<String, Failure> {
    let count = |rounds: u32| {
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&simulator.program)
            .args(["echo", &rounds.to_string()])
            .envs(simulator.variable);
        let output = command
            .output()
            .map_err(|error| format!("valgrind: {error}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let count = text
            .lines()
            .find_map(|line| line.split_once("Collected : "));
        let count = count.and_then(|(_, count)| count.trim().parse::<f64>().ok());
        count.ok_or_else(|| format!("valgrind does not tell a number: {text}"))
    };
    Ok(format!("{:.0}", (count(3_000)? - count(1_000)?) / 2_000.0))
}

/// Lines with text of the same test, as users of each simulator write it.
fn test_lines(root: &Path, simulator: &Simulator) -> Result<String, Failure> {
    let name = simulator.name.split(',').next().unwrap_or_default();
    let path = root.join(format!("benches/simulators/on_{name}/tests/echo.rs"));
    let text = fs::read_to_string(&path).map_err(at(&path))?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    Ok(lines.count().to_string())
}

/// What a program sees that the seed does not decide.
fn leaks(simulators: &[Simulator]) -> Result<String, Failure> {
    // The order of hosts does not matter to one host.
    let simulators: Vec<&Simulator> = simulators
        .iter()
        .filter(|one| one.variable.is_none())
        .collect();
    let names: String = simulators
        .iter()
        .map(|one| format!(" {} |", one.name))
        .collect();
    let mut table = format!("| what a program asks |{names}\n|{}\n", " --- |".repeat(4));
    for line in simulators[0].ask("leaks")?.lines() {
        let (leak, asks) = line.split_once(' ').ok_or("a leak without a text")?;
        let mut cells = Vec::new();
        for simulator in &simulators {
            // Two processes, which differ in what a process has by itself.
            let run = |number: &str| {
                let mut command = simulator.command();
                command.args(["leak", leak, "7"]).env("WS_RUN", number);
                process::output(&mut command)
            };
            let runs = [run("1")?, run("2")?];
            cells.push(match runs.each_ref().map(|text| text.trim()) {
                ["refused", _] => "refused".to_owned(),
                [first, second] if first == second => "of the seed".to_owned(),
                _ => "leaks".to_owned(),
            });
        }
        table += &row(&format!("`{leak}`: {asks}"), &cells);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails if a series that found nothing counts as one that found it at once.
    #[test]
    fn a_bug_that_half_of_the_series_miss_is_beyond_the_limit() {
        let none = [f64::INFINITY, 1.0];
        assert_eq!(cell(vec![none, [3.0, 0.5], none], 20), "> 20");
        assert_eq!(cell(vec![[9.0, 2.0], [3.0, 0.5], none], 20), "9 (2.00 s)");
    }

    // Fails if a program is added, or its text is changed, and the page has the old table.
    #[test]
    fn the_page_has_the_programs_that_leak() {
        let page = include_str!("../../docs/simulation.md");
        let source = include_str!("../../benches/simulators/shared/leaks.rs");
        let (_, table) = page.split_once("<!-- table: simulators-leaks -->").unwrap();
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
        let rows: Vec<_> = rows.filter_map(|row| row.split_once("`: ")).collect();
        for (name, rest) in &rows {
            let asks = rest.split(" |").next().unwrap_or_default();
            for text in [*name, asks] {
                assert!(source.contains(&format!("\"{text}\"")), "{text}");
            }
        }
        assert!(source.contains(&format!(
            "pub const ALL: [(Leak, &str, &str); {}]",
            rows.len()
        )));
    }

    #[test]
    fn the_page_has_places() {
        let page = include_str!("../../docs/simulation.md");
        for name in ["bugs", "costs", "leaks"] {
            scaling::replaced(page, &format!("simulators-{name}"), "").unwrap();
        }
    }
}
