//! How many lines of cache go from CPU to CPU for a task, on so many workers, and where in the
//! source: what does not scale shows as a row that grows with the workers.
//!
//! `cargo xtask moved-lines` builds with `--cfg ws_lines`, runs this, and writes the table into
//! `docs/large-machines.md`. What is counted is at the head of `ws-queue`'s `lines.rs`; when which
//! thread takes its step is `paced.rs`.
//!
//! | program | is |
//! | --- | --- |
//! | tree | as in `scaling.rs`: spawns and steals everywhere |
//! | batches | as in `scaling.rs`: all tasks come from one, and are stolen |
//! | yields | two tasks for each worker, which yield 32 times: nothing is stolen |
//! | pairs | a pair of tasks for each worker that pass a ball 32 times: wakes |
//! | outside | a foreign thread spawns 64 tasks at once, 64 times: the global queue |
//! | sleeps | four tasks for each worker that sleep 4 times: timers |

use std::{
    env,
    fmt::{self, Write},
    fs,
    time::Duration,
};

use super::{
    paced::{Counted, Paced, work},
    scaling::{COSTS, LEAF_NS, Program, warm},
};
use crate::{nodes::Nodes, queue::lines, runtime::Runtime, spawn, task, time::sleep};

const NAMES: [&str; 6] = ["tree", "batches", "yields", "pairs", "outside", "sleeps"];
/// Places that are shown for each program on the most workers.
const PLACES: usize = 4;

/// Places that are shown for so many workers.
fn shown(workers: usize) -> usize {
    match env::var("WS_LINES_PLACES") {
        Ok(text) => text.parse().expect("a number"),
        Err(_) if workers == 1024 => PLACES,
        Err(_) => 0,
    }
}

/// Runs a program, and returns how many tasks, polls or wakes it consists of.
fn run(name: &str, runtime: &Runtime, paced: &Paced, workers: usize) -> u64 {
    let each = |count: usize, each: fn(&Runtime)| {
        paced.run(|| (0..count).for_each(|_| each(runtime)));
    };
    match name {
        "tree" | "batches" => {
            let program = if name == "tree" {
                Program::Tree(13)
            } else {
                Program::Batches(128)
            };
            paced.run(|| program.start(runtime));
            program.tasks()
        }
        "yields" => {
            each(2 * workers, |runtime| {
                drop(runtime.handle().spawn(async {
                    for _ in 0..32 {
                        work(LEAF_NS);
                        task::yield_now().await;
                    }
                }));
            });
            64 * workers as u64
        }
        "pairs" => {
            each(workers, |runtime| drop(runtime.handle().spawn(pair())));
            64 * workers as u64
        }
        "outside" => {
            for _ in 0..64 {
                each(64, |runtime| {
                    drop(runtime.handle().spawn(async { work(LEAF_NS) }));
                });
            }
            64 * 64
        }
        _ => {
            each(4 * workers, |runtime| {
                drop(runtime.handle().spawn(async {
                    for _ in 0..4 {
                        sleep(Duration::from_millis(1)).await;
                    }
                }));
            });
            16 * workers as u64
        }
    }
}

async fn pair() {
    let (there, mut back_there) = futures::channel::mpsc::channel::<()>(1);
    let (mut back, here) = futures::channel::mpsc::channel::<()>(1);
    let mut there = there;
    let mut here = here;
    let other = spawn(async move {
        use futures::{SinkExt, StreamExt};
        while back_there.next().await.is_some() {
            work(1_000);
            if back.send(()).await.is_err() {
                break;
            }
        }
    });
    use futures::{SinkExt, StreamExt};
    for _ in 0..32 {
        work(1_000);
        there.send(()).await.expect("the other one listens");
        here.next().await.expect("the other one answers");
    }
    drop(there);
    other.await.expect("it ends when this one does");
}

/// What a program came to.
struct Row {
    name: &'static str,
    workers: usize,
    nodes: u8,
    known: bool,
    units: u64,
    took: u64,
    did: Counted,
    moves: lines::Moves,
    places: Vec<lines::Place>,
}

/// On workers of so many nodes, which the scheduler knows or takes for one.
fn measure(name: &'static str, workers: usize, nodes: u8, known: bool) -> Row {
    let node_of = |cpu: usize| (cpu * usize::from(nodes) / workers) as u8;
    let of_cpu: Vec<u8> = (0..workers).map(node_of).collect();
    lines::begin(of_cpu.clone());
    let known_nodes = if known { of_cpu } else { Vec::new() };
    let (runtime, paced) = warm(1, workers, Nodes::of_cpus(known_nodes), &COSTS);
    let before = paced.counted();
    lines::forget();
    let began = paced.begin();
    let units = run(name, &runtime, &paced, workers);
    let row = Row {
        name,
        workers,
        nodes,
        known,
        units,
        took: paced.over() - began,
        did: paced.counted().since(before),
        moves: lines::total(),
        places: lines::places(),
    };
    paced.end();
    runtime.shutdown_background();
    row
}

/// Workers, nodes, and whether the scheduler knows these.
const MACHINES: [(usize, u8, bool); 7] = [
    (2, 1, true),
    (8, 1, true),
    (64, 1, true),
    (64, 4, false),
    (64, 4, true),
    (256, 4, true),
    (1024, 8, true),
];

impl Row {
    fn a_unit(&self, count: u64) -> f64 {
        count as f64 / self.units as f64
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        writeln!(
            text,
            "| {} | {} | {}{} | {:.0} | {:.3} | {:.2} | {:.2} | {:.2} | {:.2} |",
            self.name,
            self.workers,
            self.nodes,
            if self.known { "" } else { ", not known" },
            self.took as f64 / 1e3,
            self.a_unit(self.did.steals),
            self.a_unit(self.did.looks),
            self.a_unit(self.moves.fetches),
            self.a_unit(self.moves.claims),
            self.a_unit(self.moves.far),
        )
    }

    fn write_places(&self, text: &mut String) -> fmt::Result {
        for place in self.places.iter().take(shown(self.workers)) {
            writeln!(
                text,
                "| {} | {} | {} | {:.2} | {:.2} | {} |",
                self.name,
                self.workers,
                place.at,
                self.a_unit(place.moves.fetches),
                self.a_unit(place.moves.claims),
                place.writers,
            )?;
        }
        Ok(())
    }
}

fn table() -> Result<String, fmt::Error> {
    let (mut text, mut places) = (String::new(), String::new());
    writeln!(
        text,
        "| program | workers | nodes | time, us | steals a unit | looks a unit | fetches a unit \
         | claims a unit | far moves a unit |\n| --- |{}",
        " ---: |".repeat(8)
    )?;
    writeln!(
        places,
        "| program | workers | place | fetches a unit | claims a unit | CPUs that claim |\n\
         | --- | ---: | --- | ---: | ---: | ---: |"
    )?;
    let only = env::var("WS_LINES_ONLY").unwrap_or_default();
    let is_wanted = |name: &&str| only.is_empty() || only == **name;
    for name in NAMES.into_iter().filter(is_wanted) {
        for (workers, nodes, known) in MACHINES {
            let row = measure(name, workers, nodes, known);
            row.write(&mut text)?;
            row.write_places(&mut places)?;
        }
    }
    Ok(format!("{text}\n{places}"))
}

#[test]
fn the_lines_that_move_are_counted() {
    let row = measure("tree", 8, 2, true);
    assert_eq!(row.did.spawned, row.units - 1);
    assert!(row.moves.claims > 0 && row.moves.far > 0);
    if let Ok(path) = env::var("WS_SIM_TABLE") {
        fs::write(&path, table().expect("a String takes all")).expect("the table can be written");
    }
}
