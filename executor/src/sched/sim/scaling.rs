//! How a program's time grows with its workers, up to 1,024 of them (F1, H2): T1/P and some
//! critical paths up to 128 of them, which the test holds it to; beyond that one task that spawns
//! for all is too slow for them, and no constant number of its critical paths is enough, as the
//! page says.
//!
//! A work-stealing scheduler runs a program of T1 work and a critical path T∞ in T1/P + O(T∞) on P
//! workers, and steals O(P T∞) times (Blumofe and Leiserson, "Scheduling multithreaded computations
//! by work stealing", 1999). Threads that sleep until there is work add what it takes to wake them,
//! which that paper has not.
//!
//! # *The ramp*
//!
//! One thread searches at a time, mostly: a thread that finds work wakes the next one
//! (`permit/idle.rs`). So sleeping threads come one by one, each a wake-up w after the one before,
//! and k of them are at work after k w. Work T1 is then done after sqrt(2 w T1), if that comes
//! first: a burst so short that not all are needed is over before all are there. Otherwise P
//! threads are there after P w, and half of that time was lost.
//!
//! | program | is |
//! | --- | --- |
//! | tree | a task spawns two, and so on; the last ones compute for 10 us |
//! | batches | a task spawns 64 in each poll and yields; each computes for 10 us. Its critical path is the spawning |
//! | chain | a task computes for 1 us and spawns the next one. It is its own critical path |
//!
//! `cargo xtask scaling` writes the whole table to `docs/scaling.md`, by `WS_SIM_TABLE=FILE`, and
//! `WS_SIM_COSTS` has the costs of a machine. `cargo xtask ablate` has its rows written by
//! `WS_SIM_COMPARED=FILE`. Without these the small rows run, and what they assert does not depend
//! on the machine.

use std::{env, fmt::Write, fs};

use super::{
    Setting,
    paced::{Costs, Counted, Paced, work},
    runtime,
};
use crate::{nodes::Nodes, runtime::Runtime, spawn, task};

/// Of the order that `ws-scaling costs` gives for a virtual machine of two cores (AMD EPYC).
/// `look_ns` is not measured: it is two hits in a second-level cache, of 14 cycles each.
pub(super) const COSTS: Costs = Costs {
    spawn_ns: 70,
    poll_ns: 70,
    look_ns: 10,
    line_ns: 60,
    far_ns: 130,
    unpark_ns: 3_000,
    wake_ns: 15_000,
    park_ns: 2_000,
};

/// What a task of the last kind computes for.
pub(super) const LEAF_NS: u64 = 10_000;
/// The same for each task of a chain: less than a thread takes to wake up.
const LINK_NS: u64 = 1_000;
/// The same before the program begins.
const WARM_NS: u64 = 2_000_000;
/// Tasks that are spawned in one poll.
const BATCH: u64 = 64;

#[derive(Clone, Copy, Debug)]
pub(super) enum Program {
    /// So many times two tasks in the place of one.
    Tree(u32),
    /// So many batches.
    Batches(u64),
    /// So many tasks, one after the other.
    Chain(u64),
}

impl Program {
    pub(super) fn tasks(self) -> u64 {
        match self {
            Self::Tree(depth) => (2 << depth) - 1,
            Self::Batches(count) => count * BATCH + 1,
            Self::Chain(count) => count,
        }
    }

    fn leaves(self) -> u64 {
        match self {
            Self::Tree(depth) => 1 << depth,
            Self::Batches(count) => count * BATCH,
            Self::Chain(_) => 0,
        }
    }

    /// What one worker takes that never looks for anything.
    fn t1(self, costs: &Costs) -> u64 {
        let polls = match self {
            Self::Tree(_) | Self::Chain(_) => self.tasks(),
            Self::Batches(count) => self.leaves() + count + 1,
        };
        let links = match self {
            Self::Chain(count) => count * LINK_NS,
            Self::Tree(_) | Self::Batches(_) => 0,
        };
        let computes = self.leaves() * LEAF_NS + links;
        polls * costs.poll_ns + (self.tasks() - 1) * costs.spawn_ns + computes
    }

    fn critical_path(self, costs: &Costs) -> u64 {
        let before = match self {
            Self::Tree(depth) => u64::from(depth) * (costs.poll_ns + 2 * costs.spawn_ns),
            Self::Batches(count) => count * (costs.poll_ns + BATCH * costs.spawn_ns),
            Self::Chain(_) => return self.t1(costs),
        };
        before + costs.poll_ns + LEAF_NS
    }

    pub(super) fn start(self, runtime: &Runtime) {
        match self {
            Self::Tree(depth) => drop(runtime.handle().spawn(async move { tree(depth, LEAF_NS) })),
            Self::Batches(count) => drop(runtime.handle().spawn(async move {
                for _ in 0..count {
                    (0..BATCH).for_each(|_| drop(spawn(async { work(LEAF_NS) })));
                    task::yield_now().await;
                }
            })),
            Self::Chain(count) => drop(runtime.handle().spawn(async move { chain(count - 1) })),
        }
    }
}

fn chain(left: u64) {
    work(LINK_NS);
    if let Some(left) = left.checked_sub(1) {
        drop(spawn(async move { chain(left) }));
    }
}

fn tree(depth: u32, leaf_ns: u64) {
    match depth.checked_sub(1) {
        None => work(leaf_ns),
        Some(less) => (0..2).for_each(|_| drop(spawn(async move { tree(less, leaf_ns) }))),
    }
}

/// What came of a run.
#[derive(Debug)]
struct Row {
    workers: usize,
    program: Program,
    t1: u64,
    critical_path: u64,
    took: u64,
    /// Until nine of ten workers had polled something; None: so many never did.
    spread: Option<u64>,
    did: Counted,
}

impl Row {
    /// What it took beyond T1/P, in critical paths.
    fn constant(&self) -> f64 {
        let ideal = self.t1 as f64 / self.workers as f64;
        (self.took as f64 - ideal) / self.critical_path as f64
    }

    fn per_task(&self, count: u64) -> f64 {
        count as f64 / self.program.tasks() as f64
    }
}

/// A runtime whose threads sleep, for they have been at work before.
pub(super) fn warm(seed: u64, workers: usize, nodes: Nodes, costs: &Costs) -> (Runtime, Paced) {
    let setting = Setting {
        seed,
        workers,
        max_threads: 2 * workers + 24,
        rush: false,
    };
    let runtime = runtime(&setting, nodes);
    let paced = Paced::new(&runtime, *costs, seed);
    // Until there is a thread for every worker: with work enough for the last to come in time for
    // it.
    let depth = usize::BITS - (16 * workers).leading_zeros();
    while paced.threads() < workers {
        paced.run(|| drop(runtime.handle().spawn(async move { tree(depth, WARM_NS) })));
    }
    (runtime, paced)
}

/// Runs a program on such threads.
fn run(seed: u64, workers: usize, program: Program, costs: &Costs) -> Row {
    let (runtime, paced) = warm(seed, workers, Nodes::default(), costs);
    let before = paced.counted();
    let began = paced.begin();
    paced.run(|| program.start(&runtime));
    let did = paced.counted().since(before);
    assert_eq!(paced.threads(), workers, "S3: nobody is stuck");
    let spread = paced.spread((9 * workers).div_ceil(10));
    let row = Row {
        workers,
        program,
        t1: program.t1(costs),
        critical_path: program.critical_path(costs),
        took: paced.over() - began,
        spread: spread.map(|at| at - began),
        did,
    };
    paced.end();
    runtime.shutdown_background();
    row
}

/// `name=number` for each cost, or what is above.
fn costs() -> Costs {
    let mut costs = COSTS;
    let given = env::var("WS_SIM_COSTS").unwrap_or_default();
    for pair in given.split_whitespace() {
        let (name, ns) = pair.split_once('=').expect("WS_SIM_COSTS is `name=ns …`");
        let cost = match name {
            "spawn" => &mut costs.spawn_ns,
            "poll" => &mut costs.poll_ns,
            "look" => &mut costs.look_ns,
            "line" => &mut costs.line_ns,
            "far" => &mut costs.far_ns,
            "unpark" => &mut costs.unpark_ns,
            "wake" => &mut costs.wake_ns,
            "park" => &mut costs.park_ns,
            _ => panic!("WS_SIM_COSTS has no cost `{name}`"),
        };
        *cost = ns.parse().expect("nanoseconds");
    }
    costs
}

#[test]
fn a_program_takes_its_share_and_some_critical_paths() {
    for workers in [1, 2, 3, 8, 32, 128] {
        for program in [Program::Tree(11), Program::Batches(32), Program::Chain(500)] {
            let row = run(7, workers, program, &COSTS);
            assert_eq!(row.did.spawned, program.tasks() - 1, "{row:?}");
            let p = workers as f64;
            let wake = (COSTS.wake_ns + COSTS.unpark_ns + 2 * COSTS.park_ns) as f64;
            let ramp = (p * wake / 2.0).min((2.0 * wake * row.t1 as f64).sqrt());
            let bound = row.t1 as f64 / p + 1.5 * ramp + 3.0 * (row.critical_path as f64 + wake);
            assert!(row.took as f64 <= bound, "{row:?}: more than {bound}");
        }
    }
}

/// The rows of the page.
fn table(seed: u64, costs: &Costs) -> String {
    let mut text = String::new();
    let mut line =
        |cells: std::fmt::Arguments<'_>| writeln!(text, "{cells}").expect("a String takes all");
    line(format_args!("Costs in ns: {costs:?}; seed {seed}.\n"));
    line(format_args!(
        "| program | tasks | P | T1/P, us | T∞, us | took, us | (took - T1/P) / T∞ | speed-up | 9 of 10 at work after, \
         us | steals a task | tasks a steal | looks a task | wake-ups a task |"
    ));
    line(format_args!("| --- |{}", " ---: |".repeat(12)));
    for (name, program) in [
        ("tree", Program::Tree(16)),
        ("batches", Program::Batches(1024)),
    ] {
        for workers in [1, 2, 4, 8, 16, 64, 256, 1024] {
            let row = run(seed, workers, program, costs);
            let us = |ns: u64| ns as f64 / 1e3;
            line(format_args!(
                "| {name} | {} | {workers} | {:.1} | {:.1} | {:.1} | {:.2} | {:.1} | {} | {:.4} | {:.1} | {:.1} | {:.4} |",
                program.tasks(),
                us(row.t1) / workers as f64,
                us(row.critical_path),
                us(row.took),
                row.constant(),
                row.t1 as f64 / row.took as f64,
                row.spread
                    .map_or("never".to_owned(), |ns| format!("{:.1}", us(ns))),
                row.per_task(row.did.steals),
                row.did.stolen as f64 / row.did.steals.max(1) as f64,
                row.per_task(row.did.looks),
                row.per_task(row.did.woken),
            ));
        }
    }
    text
}

/// What `cargo xtask ablate` compares: program, workers, seed, nanoseconds and wake-ups.
fn compared(costs: &Costs) -> String {
    let mut text = String::new();
    for (name, program) in [
        ("tree", Program::Tree(14)),
        ("batches", Program::Batches(256)),
        ("chain", Program::Chain(10_000)),
    ] {
        for (workers, seed) in [64, 1024]
            .into_iter()
            .flat_map(|p| (1..=3).map(move |s| (p, s)))
        {
            let row = run(seed, workers, program, costs);
            let (took, woken) = (row.took, row.did.woken);
            writeln!(text, "{name} {workers} {seed} {took} {woken}").expect("a String takes all");
        }
    }
    text
}

#[test]
fn the_same_seed_gives_the_same_row() {
    let rows = [(); 2].map(|()| format!("{:?}", run(3, 16, Program::Tree(9), &COSTS)));
    assert_eq!(rows[0], rows[1]);
    if let Ok(path) = env::var("WS_SIM_TABLE") {
        let seed = env::var("WS_SIM_SEED").map_or(1, |text| text.parse().expect("a seed"));
        fs::write(&path, table(seed, &costs())).expect("the table can be written");
    }
    if let Ok(path) = env::var("WS_SIM_COMPARED") {
        fs::write(&path, compared(&costs())).expect("the rows can be written");
    }
}
