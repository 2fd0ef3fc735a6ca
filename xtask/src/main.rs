//! Steps of this workspace's own checks that need logic.
//!
//! - `cargo xtask quick` runs the checks of a small change.
//! - `cargo xtask ci [SECTION…]` runs all checks, or those sections; `ci --list` names them.
//! - `cargo xtask models` explores the loom models of the protocols of scheduler and netpoll.
//! - `cargo xtask ablate [NAME|simulated]` measures what each heuristic is worth.
//! - `cargo xtask abort` builds a program with `panic = "abort"`, and sees how it ends.
//! - `cargo xtask api` compares the public API with the text in `docs/api`; `api write` renews it.
//! - `cargo xtask targets [TRIPLE…]` checks what compiles for other systems and processors, and
//!   `cargo xtask emulated [ARCHITECTURE…]` runs the tests on two of them, under qemu.
//! - `cargo xtask mutants [NAME|--twelfth]` sees to it that they bite: each patch in the `mutants/`
//!   of a package breaks one protocol, and names the model that has to fail.
//! - `cargo xtask counts` counts the instructions of the hot paths under valgrind, and fails if one
//!   takes more than its baseline; `counts bless` writes that, `counts sysmon` shows that the
//!   monitor adds none, and `counts ordered` what tasks of the default priority pay for priorities.
//! - `cargo xtask calls` counts system calls and sleeps of the same kind of paths, which are exact;
//!   `calls bless` writes their baseline.
//! - `cargo xtask scaling [TABLE]` writes the tables of `docs/scaling.md` anew: `tasks`, `workers`,
//!   `timers`, `connections`, `simulated`.
//! - `cargo xtask moved-lines` counts the lines of cache that go from CPU to CPU, on up to 1,024
//!   workers, and writes them to `docs/large-machines.md`.
//! - `cargo xtask tokio-tests [FILE…]` runs tokio's own tests on the package in `compat/tokio`;
//!   `tokio-tests bless` writes the page with a row for each file.
//! - `cargo xtask tokio-programs [NAME…]` runs the tests of programs that others wrote for tokio;
//!   `tokio-programs tokio [NAME…]` runs them on tokio itself, to compare.
//! - `cargo xtask tokio-servers` runs libraries on tokio with real servers, on that package.
//! - `cargo xtask tokio-console` runs tokio-console on a program on `ws` alone and on one on that
//!   package, and tokio's tests of its spans.
//! - `cargo xtask tokio-compare [ROUNDS] [ROW…]` measures tokio and that package by one program.
//! - `cargo xtask tokio-env` prints the variables by which cargo finds tokio's source without the
//!   internet, for work in `compat/tokio`.
//! - `cargo xtask recorder-cost [ROUNDS] [small] [write]` measures what a recorder costs: ours,
//!   dial9 on tokio, and Go's; `write` puts the table into `docs/seeing.md`.
//! - `cargo xtask simulators [SERIES [LIMIT]] [bugs|costs|leaks] [write]` measures `ws::sim` beside
//!   turmoil and madsim; `write` puts the tables into `docs/simulation.md`.
//! - `cargo xtask layers` compares the imports of the executor with the order of its layers.
//! - `cargo xtask orderings` compares the files that use memory orderings with the page of models.
//! - `cargo xtask pictures` makes the pictures of the live page anew, in both themes and at three
//!   widths.
//! - `cargo xtask lines` looks for text beyond column 100.
//! - `cargo xtask deep [STEP…]` runs what does not fit CI: sanitizers, valgrind, and more.
#![expect(
    clippy::print_stdout,
    reason = "a program that reports on its standard output"
)]

mod ablate;
mod abort;
mod api;
mod apt;
mod calls;
mod cargo;
mod ci;
mod counts;
mod deep;
mod layers;
mod lines;
mod moved_lines;
mod mutants;
mod orderings;
mod pictures;
mod process;
mod quick;
mod recorder_cost;
mod results;
mod scaling;
mod servers;
mod simulators;
mod targets;
mod tokio;
mod tree;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use mutants::Which;

const USAGE: &str = "usage: cargo xtask quick | ci [--list|SECTION…] | ablate [NAME|simulated] | abort \
    | api [write] | targets [TRIPLE…] | emulated [ARCHITECTURE…] \
    | models [FILTER] | mutants [NAME|--twelfth] | counts [bless|sysmon|ordered] | calls [bless] \
    | scaling [TABLE] | recorder-cost [ROUNDS] [small] [write] \
    | simulators [SERIES [LIMIT]] [bugs|costs|leaks] [write] | layers | lines | moved-lines \
    | orderings | pictures \
    | tokio-compare [ROUNDS] [ROW…] | tokio-console | tokio-env | tokio-programs [tokio] [NAME…] | tokio-servers [ARGUMENT…] \
    | tokio-tests [bless|FILE…] | deep [STEP…]";

/// What went wrong, in words.
type Failure = String;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["ablate"] => ablate::measure(&root(), None),
        ["ablate", name] => ablate::measure(&root(), Some(name)),
        ["abort"] => abort::check(&root()),
        ["api"] => api::check(&root()),
        ["api", "write"] => api::write(&root()),
        ["emulated", ref names @ ..] => targets::emulated::check(&root(), names),
        ["targets", ref triples @ ..] => targets::check(&root(), triples),
        ["models"] => models("models::"),
        ["models", filter] => models(filter),
        ["mutants"] => mutants::check(&root(), Which::All),
        ["mutants", "--twelfth"] => mutants::check(&root(), Which::Twelfth),
        ["mutants", name] => mutants::check(&root(), Which::Named(name)),
        ["counts"] => counts::check(&root()),
        ["counts", "bless"] => counts::bless(&root()),
        ["counts", "sysmon"] => counts::sysmon(&root()),
        ["counts", "ordered"] => counts::ordered(&root()),
        ["calls"] => calls::check(&root()),
        ["calls", "bless"] => calls::bless(&root()),
        ["scaling"] => scaling::write(&root(), None),
        ["scaling", table] => scaling::write(&root(), Some(table)),
        ["recorder-cost", ref arguments @ ..] => recorder_cost::measure(&root(), arguments),
        ["simulators", ref arguments @ ..] => simulators::measure(&root(), arguments),
        ["quick"] => quick::check(&root()),
        ["ci", ref arguments @ ..] => ci::check(&root(), arguments),
        ["lines"] => lines::check(&root()),
        ["moved-lines"] => moved_lines::write(&root()),
        ["pictures"] => pictures::make(&root()),
        ["tokio-compare", ref arguments @ ..] => tokio::compare::measure(&root(), arguments),
        ["tokio-console"] => tokio::console::check(&root()),
        ["tokio-env"] => tokio::print_environment(&root()),
        ["tokio-programs", ref arguments @ ..] => tokio::programs::check(&root(), arguments),
        ["tokio-servers", ref arguments @ ..] => tokio::proofs::check(&root(), arguments),
        ["tokio-tests", "bless"] => tokio::bless(&root()),
        ["tokio-tests", ref files @ ..] => tokio::check(&root(), files),
        ["layers"] => layers::check(&root()),
        ["orderings"] => orderings::check(&root()),
        ["deep", ref steps @ ..] => deep::check(&root(), steps),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the workspace")
        .to_path_buf()
}

fn models(filter: &str) -> Result<(), Failure> {
    let root = root();
    let mut command = cargo::models(&root, &root.join("target/loom"), &cargo::MODELLED);
    process::run(command.arg(filter))
}
