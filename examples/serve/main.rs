//! An HTTP server: hyper for the protocol, `ws` for everything that runs.
//!
//! ```text
//! cargo run --release --example serve
//! curl http://127.0.0.1:8080/
//! ```
//!
//! With `--inspect 127.0.0.1:7070`, <http://127.0.0.1:7070> shows what the scheduler does with the
//! requests.
//!
//! | file | has |
//! | --- | --- |
//! | `main.rs` | from arguments to an exit code |
//! | `args.rs` | the arguments |
//! | `server.rs` | from the first connection to the end |
//! | `routes.rs` | what is answered to what |
//! | `files.rs` | files of a folder, and nothing beside it |
//! | `body.rs` | bodies: bytes, and a file read piece by piece |
//! | `metrics.rs` | the counters of runtime and server, for Prometheus |
//!
//! A client that ends its sending side behind a request is answered, if the answer is there within
//! `--ended-time`; see `ws::hyper::Server`, which has all limits of connections.
//!
//! The exit code is 0 after an end in which every request was answered, 1 after any other, and 2
//! for arguments that make no sense.

mod args;
mod body;
mod files;
mod metrics;
mod routes;
mod server;

use std::{fmt::Display, process::ExitCode};

use args::{Args, HELP, Parsed};
use server::{Ended, say, serve, warn};
use ws::runtime::Builder;

fn main() -> ExitCode {
    match Args::parse(lexopt::Parser::from_env()) {
        Ok(Parsed::Run(args)) => run(args),
        Ok(Parsed::Help) => match say(HELP) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failure(error),
        },
        Err(error) => {
            warn(format_args!("{error}\n`serve --help` lists the options"));
            ExitCode::from(2)
        }
    }
}

/// Serves until a signal ends it.
///
/// `#[ws::main]` would do, were it not for `--workers`: the attribute takes a number that is known
/// when the program is compiled.
fn run(args: Args) -> ExitCode {
    let mut builder = Builder::new();
    if let Some(workers) = args.workers {
        builder = builder.workers(workers);
    }
    let runtime = match builder.build() {
        Ok(runtime) => runtime,
        Err(error) => return failure(error),
    };
    runtime.run(async move {
        match serve(args).await {
            Ok(Ended::Clean) => ExitCode::SUCCESS,
            Ok(Ended::CutOff { connections }) => {
                failure(format_args!("{connections} connections were cut off"))
            }
            Err(error) => failure(error),
        }
    })
}

fn failure(error: impl Display) -> ExitCode {
    warn(error);
    ExitCode::FAILURE
}
