//! ws beside tokio, under libraries that people use.
//!
//! ```text
//! cargo run --release -p ws-compare [hyper] [quinn] [postgres] [redis] [--rounds N] [--seconds N] [--preload LIBRARY]
//! ```
//!
//! Each program is written once, over the trait [`Rt`], and only the runtime is swapped; both have
//! two workers. A round runs it on the one and then on the other, each in a process of its own, and
//! the next round begins with the other. What is printed is the median over the rounds, and the
//! ratio of the medians with, in brackets, the lowest and the highest ratio within a round. CPU is
//! that of the process in user mode, so servers that are not ours (PostgreSQL, Redis) and the load
//! generator (wrk) are not in it.
//!
//! With `--preload` the programs have that library's allocator instead of the C library's, whose
//! locks two workers meet at.
//!
//! The machine is everybody's: compare ratios, and believe them only if they agree.

mod databases;
mod http;
mod quic;
mod rt;
mod servers;

use std::{
    env,
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use rt::{OnTokio, OnWs, Rt};

/// Names and units of what a program measures; the lower the better, except where it says so.
type Columns = &'static [(&'static str, Better)];

#[derive(Clone, Copy, PartialEq)]
enum Better {
    Lower,
    Higher,
}

struct Program {
    name: &'static str,
    columns: Columns,
    /// One run, in the process of it: figures in the order of the columns.
    child: fn(&str, &[String]) -> Vec<f64>,
    /// One round, for programs that need more than a child.
    around: fn(&Program, &Options, &mut Vec<Round>),
}

struct Options {
    rounds: usize,
    seconds: u64,
    preload: Option<String>,
}

/// Figures on ws and on tokio.
type Round = [Vec<f64>; 2];

const RUNTIMES: [&str; 2] = [OnWs::NAME, OnTokio::NAME];

const PROGRAMS: &[Program] = &[
    Program {
        name: "hyper",
        columns: &[
            ("requests/s", Better::Higher),
            ("user us/request", Better::Lower),
            ("CPU us/request", Better::Lower),
            ("p99 us", Better::Lower),
        ],
        child: http::serve,
        around: http::rounds,
    },
    Program {
        name: "quinn",
        columns: &[
            ("ms/16 MiB echo", Better::Lower),
            ("user ms", Better::Lower),
        ],
        child: quic::child,
        around: |program, options, rounds| interleaved(program, options, &[], rounds),
    },
    Program {
        name: "postgres",
        columns: &[("us/insert", Better::Lower), ("user us", Better::Lower)],
        child: databases::postgres,
        around: servers::with_postgres,
    },
    Program {
        name: "redis",
        columns: &[("us/command", Better::Lower), ("user us", Better::Lower)],
        child: databases::redis,
        around: servers::with_redis,
    },
];

fn main() -> ExitCode {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "child") {
        let program = PROGRAMS.iter().find(|program| program.name == arguments[1]);
        let figures =
            (program.expect("a parent knows its programs").child)(&arguments[2], &arguments[3..]);
        println!(
            "{}",
            figures
                .iter()
                .map(f64::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        );
        return ExitCode::SUCCESS;
    }
    let mut option = |name: &str, default: u64| match arguments.iter().position(|a| a == name) {
        Some(at) => {
            let value = arguments.get(at + 1).and_then(|value| value.parse().ok());
            arguments.drain(at..(at + 2).min(arguments.len()));
            value
        }
        None => Some(default),
    };
    let (rounds, seconds) = (option("--rounds", 5), option("--seconds", 3));
    let preload = match arguments.iter().position(|a| a == "--preload") {
        Some(at) => {
            let library = arguments.drain(at..(at + 2).min(arguments.len())).nth(1);
            // The loader would go on without one that is not there.
            if !library.as_ref().is_some_and(|it| Path::new(it).is_file()) {
                eprintln!("--preload wants the path of a library");
                return ExitCode::FAILURE;
            }
            library
        }
        None => None,
    };
    let known = |name: &String| PROGRAMS.iter().any(|program| program.name == name);
    let (Some(rounds), Some(seconds), true) = (rounds, seconds, arguments.iter().all(known)) else {
        eprintln!(
            "usage: ws-compare [hyper] [quinn] [postgres] [redis] [--rounds N] [--seconds N] [--preload LIBRARY]"
        );
        return ExitCode::FAILURE;
    };
    let options = Options {
        rounds: rounds as usize,
        seconds,
        preload,
    };
    println!("| program | figure | ws | tokio | ws / tokio |\n| --- | --- | ---: | ---: | ---: |");
    for program in PROGRAMS {
        if arguments.is_empty() || arguments.iter().any(|name| name == program.name) {
            let mut rounds = Vec::new();
            (program.around)(program, &options, &mut rounds);
            print(program, &rounds);
        }
    }
    ExitCode::SUCCESS
}

/// Runs a program in a child on each runtime, in turn.
fn interleaved(
    program: &Program,
    options: &Options,
    arguments: &[String],
    rounds: &mut Vec<Round>,
) {
    for round in 0..options.rounds {
        rounds.push(in_turn(round, |runtime| {
            let output = child(program.name, runtime, arguments, options).output();
            let output = output.expect("this program can be started");
            assert!(
                output.status.success(),
                "{} on {runtime}: {}",
                program.name,
                output.status
            );
            let printed = String::from_utf8(output.stdout).expect("figures");
            printed
                .split_whitespace()
                .map(|figure| figure.parse().expect("a figure"))
                .collect()
        }));
    }
}

/// Which runtime is first changes from round to round.
fn in_turn(round: usize, mut run: impl FnMut(&str) -> Vec<f64>) -> Round {
    let mut figures = [Vec::new(), Vec::new()];
    for at in [round % 2, (round + 1) % 2] {
        figures[at] = run(RUNTIMES[at]);
    }
    figures
}

fn child(program: &str, runtime: &str, arguments: &[String], options: &Options) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program has a path"));
    command
        .args(["child", program, runtime])
        .args(arguments)
        .stderr(Stdio::inherit())
        .envs(
            options
                .preload
                .iter()
                .map(|library| ("LD_PRELOAD", library)),
        );
    command
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    if figures.len() % 2 == 1 {
        figures[half]
    } else {
        (figures[half - 1] + figures[half]) / 2.0
    }
}

/// Three digits at least.
fn short(figure: f64) -> String {
    let decimals = if figure < 10.0 {
        2
    } else {
        usize::from(figure < 100.0)
    };
    format!("{figure:.decimals$}")
}

fn print(program: &Program, rounds: &[Round]) {
    for (at, (column, better)) in program.columns.iter().enumerate() {
        let of = |runtime: usize| median(rounds.iter().map(|round| round[runtime][at]).collect());
        let ratios = || rounds.iter().map(|round| round[0][at] / round[1][at]);
        let (ws, tokio) = (of(0), of(1));
        let (low, high) = (
            ratios().fold(f64::MAX, f64::min),
            ratios().fold(0.0, f64::max),
        );
        let arrow = if *better == Better::Higher {
            "more is better"
        } else {
            "less is better"
        };
        println!(
            "| {} | {column}, {arrow} | {} | {} | {:.2} ({low:.2}-{high:.2}) |",
            program.name,
            short(ws),
            short(tokio),
            ws / tokio
        );
    }
}
