//! The arguments, and the three programs in this one binary: the suite, a child that measures one
//! workload on one runtime, and a client that loads a server.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::BoxError;
use crate::client::Plan;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
ws side by side with its peers

usage: cargo run --release -p ws-bench -- [options]

  --quick              fewer rounds, fewer rows and smaller workloads: at most 5 minutes on 2 cores
  --only NAME[,NAME]   these rows alone; a name that is no row stands for all that start with it
  --runtimes A[,B]     these runtimes alone (default: all that the machine has; with --quick, those
                       that need no program of their own)
  --without A[,B]      also `ws` without each of these heuristics, against `ws` with all of them; for
                       a build with RUSTFLAGS='--cfg ws_ablate' (`cargo xtask ablate` makes it)
  --rounds N           rounds of each row (default: 11, or 5 with --quick; heavy rows 5 and 3)
  --workers N          worker threads of each runtime (default: one for each core)
  --json FILE          also write every round as JSON, after each row
  --resume             go on with what --json FILE has already
  --report FILE        write docs/benchmarks.md and its charts from such a JSON, and end
  --out DIR            write them there instead of docs/
  --list               name the rows and their questions, and end
  --help               this";

/// Rounds of each row unless told otherwise.
const ROUNDS: usize = 11;
/// Those of a row that is marked [`Row::heavy`](crate::workloads::Row::heavy), and of any other
/// with `--quick`: enough for a median that one bad round does not move.
const ROUNDS_FEW: usize = 5;
/// Heavy rows with `--quick`.
const ROUNDS_FEWEST: usize = 3;

/// Where the report goes unless told otherwise.
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");

/// What a child has to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Params {
    pub(crate) workers: usize,
    pub(crate) quick: bool,
}

impl Params {
    /// The size of a workload: `full`, or `quick` when in a hurry.
    pub(crate) fn size(self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// The same with so many workers.
    pub(crate) fn on(self, workers: usize) -> Self {
        Params { workers, ..self }
    }

    /// A duration likewise, in milliseconds.
    pub(crate) fn millis(self, full: u64, quick: u64) -> Duration {
        Duration::from_millis(if self.quick { quick } else { full })
    }
}

/// What the suite has to know.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) params: Params,
    /// Empty for all.
    pub(crate) only: Vec<String>,
    /// Empty for those that the machine has.
    pub(crate) runtimes: Vec<String>,
    /// Heuristics that are left out, one at a time.
    pub(crate) without: Vec<String>,
    pub(crate) rounds: Option<usize>,
    pub(crate) json: Option<PathBuf>,
    /// Whether what is in that file counts.
    pub(crate) resume: bool,
}

impl Options {
    /// How many rounds a row gets.
    pub(crate) fn rounds_of(&self, heavy: bool) -> usize {
        match (self.rounds, self.params.quick, heavy) {
            (Some(rounds), ..) => rounds,
            (None, false, false) => ROUNDS,
            (None, false, true) | (None, true, false) => ROUNDS_FEW,
            (None, true, true) => ROUNDS_FEWEST,
        }
    }
}

/// Which program this process is.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    List,
    /// Names the rows that this program has for a runtime.
    Rows {
        runtime: String,
    },
    Suite(Options),
    /// Writes a page and its charts from the JSON of a run.
    Report {
        json: PathBuf,
        out: PathBuf,
    },
    Child {
        workload: String,
        runtime: String,
        params: Params,
    },
    Client(Plan),
}

/// Reads the process's arguments.
pub(crate) fn parse() -> Result<Command, BoxError> {
    let mut parser = Parser::from_env();
    let mut params = Params {
        workers: std::thread::available_parallelism()?.get(),
        quick: false,
    };
    let mut only = Vec::new();
    let mut runtimes = Vec::new();
    let mut without = Vec::new();
    let mut rounds = None;
    let mut json = None;
    let mut resume = false;
    let mut report = None;
    let mut out = PathBuf::from(DOCS);
    let mut child = None;

    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("quick") => params.quick = true,
            Arg::Long("only") => only = names(&parser.value()?.string()?),
            Arg::Long("runtimes") => runtimes = names(&parser.value()?.string()?),
            Arg::Long("without") => without = names(&parser.value()?.string()?),
            Arg::Long("rounds") => rounds = Some(at_least_one("rounds", &mut parser)?),
            Arg::Long("workers") => params.workers = at_least_one("workers", &mut parser)?,
            Arg::Long("json") => json = Some(PathBuf::from(parser.value()?)),
            Arg::Long("resume") => resume = true,
            Arg::Long("report") => report = Some(PathBuf::from(parser.value()?)),
            Arg::Long("out") => out = PathBuf::from(parser.value()?),
            Arg::Long("list") => return Ok(Command::List),
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            Arg::Long("rows") => {
                return Ok(Command::Rows {
                    runtime: parser.value()?.string()?,
                });
            }
            Arg::Long("child") => {
                child = Some((parser.value()?.string()?, parser.value()?.string()?));
            }
            Arg::Long("client") => {
                return Ok(Command::Client(Plan {
                    address: parser.value()?.parse()?,
                    connections: parser.value()?.parse()?,
                    length: Duration::from_millis(parser.value()?.parse()?),
                    pace: Duration::from_micros(parser.value()?.parse()?),
                }));
            }
            other => return Err(format!("{}\n\n{HELP}", other.unexpected()).into()),
        }
    }

    if let Some((workload, runtime)) = child {
        return Ok(Command::Child {
            workload,
            runtime,
            params,
        });
    }
    if let Some(json) = report {
        return Ok(Command::Report { json, out });
    }
    if !without.is_empty() && !cfg!(ws_ablate) {
        return Err("--without needs a build with RUSTFLAGS='--cfg ws_ablate'".into());
    }
    if resume && json.is_none() {
        return Err("--resume goes on with the file of --json".into());
    }
    Ok(Command::Suite(Options {
        params,
        only,
        runtimes,
        without,
        rounds,
        json,
        resume,
    }))
}

fn names(list: &str) -> Vec<String> {
    list.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(String::from)
        .collect()
}

fn at_least_one(knob: &str, parser: &mut Parser) -> Result<usize, BoxError> {
    match parser.value()?.parse()? {
        0 => Err(format!("--{knob} must be at least 1").into()),
        n => Ok(n),
    }
}
