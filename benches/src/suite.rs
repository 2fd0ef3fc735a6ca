//! The parent: takes turns, keeps the outcomes, and hands them to the report.
//!
//! For each row the runtimes take turns, and who comes first changes from round to round, so that
//! neither a slow drift of the machine nor a place in the order favours anyone. Every turn is a new
//! process: no allocator, thread pool or warm cache is handed on. A runtime that cannot run a row,
//! or fails at it, has no more turns in that row.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::BoxError;
use crate::cli::Options;
use crate::host::Host;
use crate::measure::{Measure, Outcome};
use crate::report;
use crate::workloads::{self, Row};

/// What a turn may take before it is taken to hang. The longest takes a tenth of it.
const TURN_LIMIT: Duration = Duration::from_secs(60);

/// All rounds of one row.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) row: Row,
    pub(crate) runtimes: Vec<Turns>,
}

/// All rounds of one runtime at one row.
#[derive(Debug)]
pub(crate) struct Turns {
    pub(crate) runtime: String,
    /// One for each round, or one fewer from where it gave up.
    pub(crate) outcomes: Vec<Outcome>,
}

impl Turns {
    /// The rounds that were measured.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &Measure> {
        self.outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Measured(measure) => Some(measure),
            Outcome::Skipped(_) | Outcome::Failed(_) => None,
        })
    }

    /// The figure of each round, to be paired with those of another runtime.
    pub(crate) fn values(&self) -> Vec<Option<f64>> {
        let value = |outcome: &Outcome| match outcome {
            Outcome::Measured(measure) => Some(measure.value),
            Outcome::Skipped(_) | Outcome::Failed(_) => None,
        };
        self.outcomes.iter().map(value).collect()
    }

    /// Why it gave up, if it did, and whether that is a failure.
    pub(crate) fn gave_up(&self) -> Option<&Outcome> {
        self.outcomes
            .last()
            .filter(|outcome| !matches!(outcome, Outcome::Measured(_)))
    }
}

/// Runs the suite. The exit code says whether every turn went well.
pub(crate) fn run(options: &Options) -> Result<ExitCode, BoxError> {
    let host = Host::here()?;
    let rows = chosen(&options.only)?;
    report::head(&host, options);
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        let results = measure(row, options)?;
        report::row(&results);
        all.push(results);
    }
    report::summary(&all);
    if let Some(path) = &options.json {
        fs::write(path, report::json(&host, options, &all)?)?;
    }
    let failed = all
        .iter()
        .flat_map(|results| &results.runtimes)
        .any(|turns| matches!(turns.gave_up(), Some(Outcome::Failed(_))));
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The rows that were asked for, in the order of the table.
fn chosen(only: &[String]) -> Result<Vec<Row>, BoxError> {
    let mut rows = workloads::described();
    if only.is_empty() {
        return Ok(rows);
    }
    let mut wanted = vec![false; rows.len()];
    for name in only {
        let exact = rows.iter().any(|row| row.name == name);
        let mut found = false;
        for (row, wanted) in rows.iter().zip(&mut wanted) {
            if row.name == name || (!exact && row.name.starts_with(name.as_str())) {
                *wanted = true;
                found = true;
            }
        }
        if !found {
            return Err(format!("no row `{name}`; --list names them").into());
        }
    }
    let mut wanted = wanted.into_iter();
    rows.retain(|_| wanted.next() == Some(true));
    Ok(rows)
}

fn measure(row: Row, options: &Options) -> Result<Results, BoxError> {
    let mut runtimes: Vec<Turns> = options
        .runtimes
        .iter()
        .map(|runtime| Turns {
            runtime: runtime.clone(),
            outcomes: Vec::new(),
        })
        .collect();
    let count = runtimes.len();
    for round in 0..options.rounds_of(row.heavy) {
        for turn in 0..count {
            let turns = &mut runtimes[(round + turn) % count];
            if turns.gave_up().is_none() {
                turns
                    .outcomes
                    .push(take_turn(row.name, &turns.runtime, options)?);
            }
        }
    }
    Ok(Results { row, runtimes })
}

/// Runs a child for one turn. What goes wrong in the child is its outcome, not an error here.
fn take_turn(workload: &str, runtime: &str, options: &Options) -> Result<Outcome, BoxError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--child", workload, runtime]);
    command.args(["--workers", &options.params.workers.to_string()]);
    if options.params.quick {
        command.arg("--quick");
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let Some(output) = read_to_end(&mut child)? else {
        child.kill()?;
        child.wait()?;
        return Ok(Outcome::Failed(format!(
            "no result after {} s",
            TURN_LIMIT.as_secs()
        )));
    };
    let status = child.wait()?;
    if !status.success() {
        return Ok(Outcome::Failed(status.to_string()));
    }
    Ok(serde_json::from_str(&output)
        .unwrap_or_else(|error| Outcome::Failed(format!("not a result ({error}): {output}"))))
}

/// Everything the child prints, or nothing if that takes too long.
fn read_to_end(child: &mut Child) -> Result<Option<String>, BoxError> {
    let mut stdout = child.stdout.take().expect("it is piped");
    let (done, read) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut output = String::new();
        let result = stdout.read_to_string(&mut output).map(|_| output);
        // Nobody listens once the time is over.
        done.send(result).is_ok()
    });
    match read.recv_timeout(TURN_LIMIT) {
        Ok(output) => {
            reader.join().expect("it ends after it has sent");
            Ok(Some(output?))
        }
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err("the reader of a child's output died".into()),
    }
}
