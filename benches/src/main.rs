//! `ws` side by side with its peers: one command runs every workload on every runtime, interleaved.
//!
//! A number of one runtime says little: it moves with the machine, its neighbours and the hour.
//! So nothing here is measured alone. For each workload the runtimes take turns (A B C, B C A,
//! C A B, ...), each turn in a process of its own, and what is reported is the median of the
//! ratios of neighbours in time, beside the plain medians and their spread.
//!
//! How the parts fit:
//!
//! 1. [`cli`] reads the arguments and says which of three programs this process is.
//! 2. The parent ([`suite`]) starts this same binary again for each turn, as `--child`.
//! 3. The child runs one workload ([`workloads`]) on one runtime ([`rt`]) and prints one line of
//!    JSON: a [`measure::Outcome`].
//! 4. The parent keeps the rounds ([`record`]), reduces them ([`stats`]) and prints them
//!    ([`report`]). From the JSON that it leaves, [`page`] writes the page for the docs, with the
//!    charts of [`chart`], the causes of what is lost ([`causes`]) and the [`limits`] that were
//!    set.
//! 5. Runtimes that this program does not contain are programs of their own ([`peers`]), which take
//!    the same arguments and print the same line.
//! 6. The rows that need a network peer start a third process, `--client` ([`client`]), which is
//!    on no runtime, so that runtimes are compared as servers.
//!
//! With `--without`, the peers are `ws` itself with one heuristic left out, and [`ablate`] says
//! what each is worth.
//!
//! A new workload is a file in `workloads/` with its question at the head and a line in
//! `workloads.rs`; a new runtime is a file in `rt/` and a line in `rt.rs`.

use std::error::Error;
use std::process::ExitCode;

mod ablate;
mod alloc;
mod causes;
mod chart;
mod cli;
mod client;
mod host;
mod joins;
mod limits;
mod measure;
mod page;
mod peers;
mod record;
mod report;
mod rt;
mod stats;
mod suite;
mod sys;
mod workloads;

/// An error that only has to be printed.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> ExitCode {
    match cli::parse().and_then(dispatch) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ws-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: cli::Command) -> Result<ExitCode, BoxError> {
    match command {
        cli::Command::Help => report::line(cli::HELP),
        cli::Command::List => report::list(&workloads::described()),
        cli::Command::Rows { runtime } => {
            for row in workloads::rows_of(&runtime)? {
                report::line(row.name);
            }
        }
        cli::Command::Report { json, out } => page::write(&json, &out)?,
        cli::Command::Suite(options) => return suite::run(&options),
        cli::Command::Child {
            workload,
            runtime,
            params,
        } => {
            let outcome = workloads::run(&workload, &runtime, params)?;
            report::line(&serde_json::to_string(&outcome)?);
        }
        cli::Command::Client(plan) => client::run(&plan)?,
    }
    Ok(ExitCode::SUCCESS)
}
