//! tokio and ws by the same program: `compat/tokio/compare/`, built without the two lines that
//! `docs/tokio.md` asks for, and with them.
//!
//! The second build is of a copy below `target/tokio/compare`, for the two lines change the lock
//! file. All other packages stay at their versions. Each row runs on one and then on the other, as
//! a process of its own, so that what else the machine does meets both. The table has medians.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    environment,
    programs::{put_two_lines, update},
};
use crate::{
    Failure, apt, cargo, process,
    tree::{at, entries},
};

const ROWS: &[&str] = &[
    "axum",
    "axum-blocking",
    "tonic",
    "reqwest",
    "redis",
    "sqlx",
    "websocket",
    "delay-queue",
    "files",
    "processes",
];

/// Programs on the path, and Debian's packages that have them.
const PROGRAMS: &[(&str, &str)] = &[("redis-server", "redis-server"), ("wrk", "wrk")];

const ROUNDS: usize = 5;

/// For a row on one of the two, in seconds.
const LIMIT: &str = "60";

/// Operations per second, two percentiles, CPU time, memory: as the program prints them.
type Numbers = [f64; 5];

/// `cargo xtask tokio-compare [ROUNDS] [ROW…]`.
pub(crate) fn measure(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let (rounds, rows) = parse(arguments)?;
    let missing = missing();
    if !missing.is_empty() {
        let missing = missing.join(" ");
        return Err(format!("tokio-compare: needs Debian's {missing}"));
    }
    let programs = build(root)?;
    let mut runs = vec![[Vec::new(), Vec::new()]; rows.len()];
    for round in 1..=rounds {
        for (row, runs) in rows.iter().zip(&mut runs) {
            eprintln!("round {round} of {rounds}: {row}");
            for (program, runs) in programs.iter().zip(runs) {
                runs.push(run(program, row)?);
            }
        }
    }
    println!(
        "Medians of {rounds}. Times are in µs. Where a cell has two numbers, tokio's is first.\n\n\
         | row | ops/s tokio | ops/s ws | ratio | p50 | p99 | CPU per op | peak MiB |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    );
    for (row, runs) in rows.iter().zip(runs) {
        println!("{}", line(row, runs.map(|runs| medians(&runs))));
    }
    Ok(())
}

fn parse<'a>(arguments: &[&'a str]) -> Result<(usize, Vec<&'a str>), Failure> {
    let first = arguments.first().and_then(|first| first.parse().ok());
    let (rounds, rows) = match first.filter(|&rounds| rounds > 0) {
        Some(rounds) => (rounds, &arguments[1..]),
        None => (ROUNDS, arguments),
    };
    if let Some(row) = rows.iter().find(|row| !ROWS.contains(row)) {
        return Err(format!("tokio-compare: no row is named {row}"));
    }
    let rows = if rows.is_empty() { ROWS } else { rows };
    Ok((rounds, rows.to_vec()))
}

/// Debian's packages that are missing.
fn missing() -> Vec<&'static str> {
    let mut missing = apt::missing(PROGRAMS);
    let versions = entries(Path::new("/usr/lib/postgresql")).unwrap_or_default();
    let has_postgres = |folder: PathBuf| folder.join("bin/postgres").is_file();
    if !apt::is_there("postgres") && !versions.iter().any(|entry| has_postgres(entry.path())) {
        missing.push("postgresql");
    }
    missing
}

/// The program on tokio, and on ws.
fn build(root: &Path) -> Result<[PathBuf; 2], Failure> {
    let source = root.join("compat/tokio/compare");
    let place = cargo::target(root).join("tokio/compare");
    let copy = place.join("source");
    let environment = environment(root)?;
    copy_package(root, &source, &copy)?;
    put_two_lines(root, &copy)?;
    update(&copy, &environment)?;
    let build = |folder: &Path, name: &str| -> Result<PathBuf, Failure> {
        let target = place.join(name);
        let mut command = cargo::command(folder);
        command
            .args(["build", "--locked", "--release", "--target-dir"])
            .arg(&target)
            .envs(environment.iter().cloned());
        process::run(&mut command)?;
        Ok(target.join("release/compare"))
    };
    Ok([build(&source, "tokio")?, build(&copy, "ws")?])
}

/// Copies the package anew. Its path to the package of servers becomes absolute.
fn copy_package(root: &Path, from: &Path, to: &Path) -> Result<(), Failure> {
    if to.exists() {
        fs::remove_dir_all(to).map_err(at(to))?;
    }
    fs::create_dir_all(to).map_err(at(to))?;
    let mut copy = Command::new("cp");
    // With their times, so that cargo builds what has changed.
    copy.args(["-pr", "Cargo.toml", "Cargo.lock", "src"]);
    process::run(copy.arg(to).current_dir(from))?;
    let path = to.join("Cargo.toml");
    let manifest = fs::read_to_string(&path).map_err(at(&path))?;
    let servers = root.join("tests/servers").display().to_string();
    fs::write(&path, manifest.replace("../../../tests/servers", &servers)).map_err(at(&path))
}

fn run(program: &Path, row: &str) -> Result<Numbers, Failure> {
    let mut command = Command::new("timeout");
    command.args(["--signal", "KILL", LIMIT]).arg(program);
    let line = process::output(command.arg(row))
        .map_err(|failure| format!("{}: {failure}", program.display()))?;
    numbers(&line).ok_or_else(|| format!("{} {row}: printed {line:?}", program.display()))
}

fn numbers(line: &str) -> Option<Numbers> {
    let numbers: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
    numbers.ok()?.try_into().ok()
}

fn medians(runs: &[Numbers]) -> Numbers {
    std::array::from_fn(|column| {
        let mut values: Vec<_> = runs.iter().map(|run| run[column]).collect();
        values.sort_by(f64::total_cmp);
        f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
    })
}

fn line(row: &str, [tokio, ws]: [Numbers; 2]) -> String {
    let both = |column: usize, unit: f64, digits: usize| {
        let [tokio, ws] = [tokio, ws].map(|numbers| numbers[column] / unit);
        format!("{tokio:.digits$} / {ws:.digits$}")
    };
    format!(
        "| {row} | {:.0} | {:.0} | {:.2} | {} | {} | {} | {} |",
        tokio[0],
        ws[0],
        ws[0] / tokio[0],
        both(1, 1.0, 0),
        both(2, 1.0, 0),
        both(3, 1.0, 2),
        both(4, 1024.0, 1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_argument_may_be_the_number_of_rounds() {
        assert_eq!(parse(&[]), Ok((ROUNDS, ROWS.to_vec())));
        assert_eq!(parse(&["3"]), Ok((3, ROWS.to_vec())));
        assert_eq!(parse(&["3", "axum"]), Ok((3, vec!["axum"])));
        assert_eq!(parse(&["axum"]), Ok((ROUNDS, vec!["axum"])));
        assert!(parse(&["0"]).is_err());
        assert!(parse(&["no-such-row"]).is_err());
    }

    #[test]
    fn a_line_has_the_medians_of_both() {
        let tokio = ["1 10 5 2 1024", "3 20 5 2 1024", "2 60 5 2 1024"];
        let tokio = tokio.map(|line| numbers(line).unwrap());
        let ws = ["1 1 1 1 2048", "4 2 1 1 2048"].map(|line| numbers(line).unwrap());
        assert_eq!(
            line("r", [medians(&tokio), medians(&ws)]),
            "| r | 2 | 2 | 1.25 | 20 / 2 | 5 / 1 | 2.00 / 1.00 | 1.0 / 2.0 |"
        );
        assert_eq!(numbers("1 2 3 4"), None);
        assert_eq!(numbers("1 2 3 4 five"), None);
    }
}
