//! `cargo xtask ablate`: what each heuristic is worth.
//!
//! One build with `--cfg ws_ablate`, whose switches are read at start, so that both sides of a
//! comparison run the same code. For each heuristic the rows that it is for, and then a fixed set
//! of rows without each of them: interleaved turns, with 2, 8 and 32 workers, alone and beside
//! threads that want the cores. 64 and 1,024 workers are simulated (`sched/sim/scaling.rs`); there
//! a heuristic for sockets, timers, joins or calls from outside has nothing to do. What it prints
//! goes to a dated page in `docs/decisions/`: a heuristic stays only if a user would miss it.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{Failure, cargo, process};

/// A heuristic by its name in `executor/src/policy/heuristic.rs`, and the rows that it is for.
const HEURISTICS: &[(&str, &str)] = &[
    (
        "wake-backoff",
        "ring_1000,ping_pong_oneshot,spawn_then_compute",
    ),
    ("fork-backoff", "join_uts_2w,join_skynet_2w,fork_skynet_2w"),
    ("affinity", "spawn_then_compute,wake_foreign"),
    ("rescue-steal", "hyper_hello,echo_64,echo_blocked_2w"),
    ("exchange", "fifo_among_10k,tokio_yield_many"),
    ("spin-before-park", "spawn_join_100k,fan_in_1M,skynet"),
    (
        "after-steal",
        "join_mergesort_2w,join_matmul_2w,join_uts_2w",
    ),
    ("contended-calls", "call_spawn_foreign_64,ghc_callback001"),
    ("timer-slack", "sleeps_200k,tickers_100x5ms"),
    (
        "compute-only",
        "join_quicksort_2w,join_mergesort_2w,join_matmul_2w",
    ),
    ("short-wait", "ticks_blocked_2w,echo_blocked_2w"),
];

/// What a heuristic that is for something else must not make worse.
const FIXED: &str = "spawn_join_100k,ping_pong_1000,request_reply_block_on,wake_foreign,\
                     echo_64,ticks_computing_100_2w,join_quicksort_2w,idle_cpu";

/// Workers, whether other programs want the cores, and rounds.
const MACHINES: &[(usize, bool, usize)] = &[
    (2, false, 8),
    (2, true, 8),
    (8, false, 4),
    (8, true, 4),
    (32, false, 4),
];

/// In the place of a heuristic's name.
const SIMULATED: &str = "simulated";

/// With `name`, that heuristic alone, or, for [`SIMULATED`], the simulated rows alone.
pub(crate) fn measure(root: &Path, name: Option<&str>) -> Result<(), Failure> {
    let wanted: Vec<_> = HEURISTICS
        .iter()
        .filter(|(known, _)| name.is_none_or(|name| name == *known || name == SIMULATED))
        .collect();
    if wanted.is_empty() {
        let known: Vec<_> = HEURISTICS.iter().map(|(known, _)| *known).collect();
        return Err(format!(
            "no such heuristic; there are: {}; and `{SIMULATED}` for the simulated rows alone",
            known.join(", ")
        ));
    }
    let wanted: Vec<_> = wanted.into_iter().copied().collect();
    let program = cargo::target(root).join("ablate/release/ws-bench");
    simulate(root, &wanted)?;
    if name == Some(SIMULATED) {
        return Ok(());
    }
    cargo_with_switches(
        root,
        "build --release --package ws-bench --bin ws-bench",
        None,
    )?;
    for &(workers, busy, rounds) in MACHINES {
        println!(
            "\n## {workers} workers, {}\n",
            if busy {
                "beside a busy machine"
            } else {
                "alone"
            }
        );
        let _neighbours = busy.then(Neighbours::start).transpose()?;
        let run = |without: &str, rows: &str| {
            let status = Command::new(&program)
                .args([
                    "--quick",
                    "--runtimes",
                    "ws",
                    "--without",
                    without,
                    "--only",
                    rows,
                ])
                .args([
                    "--workers",
                    &workers.to_string(),
                    "--rounds",
                    &rounds.to_string(),
                ])
                .status()
                .map_err(|error| format!("{}: {error}", program.display()))?;
            if status.success() {
                Ok(())
            } else {
                Err(format!("the rows without {without} failed"))
            }
        };
        for (heuristic, rows) in &wanted {
            run(heuristic, rows)?;
        }
        let all: Vec<_> = wanted.iter().map(|(known, _)| *known).collect();
        run(&all.join(","), FIXED)?;
    }
    Ok(())
}

/// Cargo, for builds whose heuristics have switches. `out` is where the simulator writes what is
/// compared, and the heuristic that is off.
fn cargo_with_switches(
    root: &Path,
    arguments: &str,
    out: Option<(&Path, &str)>,
) -> Result<(), Failure> {
    let mut command = cargo::command(root);
    command
        .env("RUSTFLAGS", "--cfg ws_ablate")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("CARGO_TARGET_DIR", cargo::target(root).join("ablate"))
        .args(arguments.split(' '));
    if let Some((file, without)) = out {
        command
            .env("WS_SIM_COMPARED", file)
            .env("WS_WITHOUT", without);
    }
    process::run(&mut command)
}

/// Nanoseconds and wake-ups of each seed, by program and workers.
type Simulated = BTreeMap<(String, u32), Vec<(f64, f64)>>;

fn simulate(root: &Path, wanted: &[(&str, &str)]) -> Result<(), Failure> {
    const TEST: &str = "test --quiet --release --package ws-executor --lib \
                        sched::sim::scaling::the_same_seed_gives_the_same_row";
    let file = cargo::target(root).join("ablate/compared");
    let run = |without: &str| {
        cargo_with_switches(root, TEST, Some((&file, without)))?;
        let text = fs::read_to_string(&file);
        parse(&text.map_err(|error| format!("{}: {error}", file.display()))?)
    };
    let whole = run("")?;
    println!(
        "\n## Simulated: without it, to with it; the median, and the least and most, of 3 seeds\n"
    );
    println!("| heuristic | program | workers | time | wake-ups |");
    println!("| --- | --- | ---: | ---: | ---: |");
    for (heuristic, _) in wanted {
        for line in compare(&run(heuristic)?, &whole) {
            println!("| {heuristic} {line}");
        }
    }
    Ok(())
}

fn parse(text: &str) -> Result<Simulated, Failure> {
    let mut rows = Simulated::new();
    for line in text.lines() {
        let cells: Vec<_> = line.split(' ').collect();
        let number = |at: usize| cells.get(at).and_then(|cell| cell.parse::<f64>().ok());
        let (Some(workers), Some(took), Some(woken)) = (number(1), number(3), number(4)) else {
            return Err(format!("a row of the simulator cannot be read: `{line}`"));
        };
        let row = rows.entry((cells[0].to_owned(), workers as u32));
        row.or_default().push((took, woken));
    }
    Ok(rows)
}

/// The rest of a line for each program and number of workers.
fn compare(without: &Simulated, with: &Simulated) -> Vec<String> {
    let ratios = |pairs: Vec<(f64, f64)>| {
        let mut ratios: Vec<_> = pairs.iter().map(|(without, with)| without / with).collect();
        ratios.sort_by(f64::total_cmp);
        match (ratios.first(), ratios.get(ratios.len() / 2), ratios.last()) {
            (Some(least), Some(median), Some(most)) => {
                format!("{median:.2} ({least:.2} to {most:.2})")
            }
            _ => "-".to_owned(),
        }
    };
    let line = |(key, without): (&(String, u32), &Vec<(f64, f64)>)| {
        let with = with.get(key)?;
        let took = without.iter().zip(with).map(|(a, b)| (a.0, b.0)).collect();
        // One more each: there may be none.
        let woken = without
            .iter()
            .zip(with)
            .map(|(a, b)| (a.1 + 1.0, b.1 + 1.0));
        let woken = ratios(woken.collect());
        Some(format!(
            "| {} | {} | {} | {woken} |",
            key.0,
            key.1,
            ratios(took)
        ))
    };
    without.iter().filter_map(line).collect()
}

/// Processes that want the cores, one for each.
struct Neighbours(Vec<Child>);

impl Neighbours {
    fn start() -> Result<Self, Failure> {
        let cores = std::thread::available_parallelism().map_err(|error| error.to_string())?;
        let mut neighbours = Self(Vec::new());
        for _ in 0..cores.get() {
            let child = Command::new("sh")
                .args(["-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .spawn()
                .map_err(|error| format!("`sh`: {error}"))?;
            neighbours.0.push(child);
        }
        Ok(neighbours)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        for child in &mut self.0 {
            if let Err(error) = child.kill().and_then(|()| child.wait().map(drop)) {
                eprintln!("xtask: a busy neighbour could not be ended: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_simulator_are_compared_seed_by_seed() {
        let with = parse("tree 64 1 100 9\ntree 64 2 200 9\ntree 64 3 100 9\n").unwrap();
        let without = parse("tree 64 1 150 19\ntree 64 2 200 9\ntree 64 3 300 9\n").unwrap();
        let expected = "| tree | 64 | 1.50 (1.00 to 3.00) | 1.00 (1.00 to 2.00) |";
        assert_eq!(compare(&without, &with), [expected]);
        assert!(
            parse("tree 64 1 x 9")
                .unwrap_err()
                .contains("tree 64 1 x 9")
        );
    }
}
