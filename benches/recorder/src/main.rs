//! One run of one load on one runtime, with its recorder in one mode.
//!
//! `ws-recorder-cost LOAD VARIANT SIZE` prints a line of numbers: wall time of the load and CPU
//! time in nanoseconds, and bytes of the trace. `ws-recorder-cost --variants` lists the variants.
//! The program in `../go` takes the same requests; `cargo xtask recorder-cost` runs both.
//!
//! - `spawn`: a task spawns 1,000 tasks that return a number, joins them in their order, and so on.
//!   `SIZE` is how many tasks there are.
//! - `echo`: 64 connections over loopback. Each has a task that sends 64 bytes and waits for them,
//!   and one that sends them back. `SIZE` is how often each connection does that.
//!
//! *What is counted*. Wall time is that of the load, on a runtime that is there. CPU time is that
//! of the process, from there until the trace is whole. So a recorder with a thread of its own pays
//! for it here.

mod measure;
mod on_tokio;
mod on_ws;

use std::{env, error::Error, process::ExitCode};

use measure::Figures;

/// Tasks that are joined before the next ones are spawned.
const BATCH: usize = 1000;
const CONNECTIONS: usize = 64;
/// Bytes of a message.
const MESSAGE: usize = 64;

/// What is run.
#[derive(Clone, Copy, Debug)]
enum Load {
    Spawn,
    Echo,
}

type Run = fn(Load, usize) -> Result<Figures, Box<dyn Error>>;

/// Names, and how they are run. The first of a runtime is the one without a recorder.
const VARIANTS: &[(&str, Run)] = &[
    ("ws off", on_ws::off),
    ("ws sparse", on_ws::sparse),
    ("ws full", on_ws::full),
    ("ws full + file", on_ws::full_and_file),
    ("tokio", on_tokio::without),
    ("tokio dial9, hooks alone", on_tokio::hooks),
    ("tokio dial9", on_tokio::dial9),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ws-recorder-cost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let (load, variant, size) = match *arguments {
        ["--variants"] => {
            let names: Vec<_> = VARIANTS.iter().map(|(name, _)| *name).collect();
            return Ok(names.join("\n"));
        }
        ["spawn", variant, size] => (Load::Spawn, variant, size),
        ["echo", variant, size] => (Load::Echo, variant, size),
        _ => return Err("usage: ws-recorder-cost --variants | spawn|echo VARIANT SIZE".into()),
    };
    let run = VARIANTS.iter().find(|(name, _)| *name == variant);
    let (_, run) = run.ok_or("there is no such variant")?;
    let figures = run(load, size.parse()?)?;
    Ok(format!(
        "{} {} {}",
        figures.wall.as_nanos(),
        figures.cpu.as_nanos(),
        figures.bytes
    ))
}
