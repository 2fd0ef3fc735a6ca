//! `cargo xtask ablate`: what each heuristic is worth.
//!
//! One build with `--cfg ws_ablate`, whose switches are read at start, so that both sides of a
//! comparison run the same code. For each heuristic the rows that it is for, and then a fixed set
//! of rows without each of them: interleaved turns, with 2, 8 and 32 workers, alone and beside
//! threads that want the cores. What it prints goes to a dated page in `docs/decisions/`: a
//! heuristic stays only if a user would miss it.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{Failure, cargo};

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

/// With `name`, that heuristic alone.
pub(crate) fn measure(root: &Path, name: Option<&str>) -> Result<(), Failure> {
    let wanted: Vec<_> = HEURISTICS
        .iter()
        .filter(|(known, _)| name.is_none_or(|name| name == *known))
        .collect();
    if wanted.is_empty() {
        let known: Vec<_> = HEURISTICS.iter().map(|(known, _)| *known).collect();
        return Err(format!(
            "no such heuristic; there are: {}",
            known.join(", ")
        ));
    }
    let target = cargo::target(root).join("ablate");
    let status = cargo::command(root)
        .env("RUSTFLAGS", "--cfg ws_ablate")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .args([
            "build",
            "--release",
            "--package",
            "ws-bench",
            "--bin",
            "ws-bench",
        ])
        .arg("--target-dir")
        .arg(&target)
        .status()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if !status.success() {
        return Err("the build failed".into());
    }
    let program = target.join("release/ws-bench");
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
