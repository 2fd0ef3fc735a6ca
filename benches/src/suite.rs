//! The parent: takes turns, keeps the outcomes, and hands them to the report.
//!
//! For each row the runtimes take turns, and which one comes first changes from round to round, so
//! that neither a slow drift of the machine nor a place in the order favours anyone. Every turn is
//! a new process: no allocator, thread pool or warm cache is handed on. A runtime that cannot run a
//! row, or fails at it, has no more turns in that row.
//!
//! With `--json` the file is whole after every row, and `--resume` goes on where it ends.

use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::BoxError;
use crate::ablate;
use crate::cli::Options;
use crate::host::Host;
use crate::measure::Outcome;
use crate::peers::{self, Peer};
use crate::record::{Results, Run, Turns};
use crate::report;
use crate::workloads::{self, Row};

/// What a turn may take before it is taken to hang. The longest takes a tenth of it.
const TURN_LIMIT: Duration = Duration::from_secs(60);

/// Runs the suite. The exit code says whether every turn went well.
pub(crate) fn run(options: &Options) -> Result<ExitCode, BoxError> {
    let rows = chosen(&options.only, options.params.quick)?;
    let (mut peers, notes) = peers::ready(&options.runtimes, options.params.quick)?;
    peers.extend(peers::ablated(&options.without)?);
    let mut host = Host::here()?;
    host.versions.extend(
        peers
            .iter()
            .filter_map(|peer| Some((peer.name.clone(), peer.version.clone()?))),
    );
    let start = Instant::now();
    let mut run = Run {
        host,
        workers: options.params.workers,
        quick: options.params.quick,
        seconds: 0,
        notes,
        rows: Vec::new(),
    };
    let (before, seconds) = before(options, &run)?;
    report::head(&run, options);
    for row in rows {
        let earlier = before.iter().find(|results| results.name == row.name);
        let results = measure(row, earlier, &peers, options)?;
        if results.runtimes.is_empty() {
            continue;
        }
        report::row(&results);
        run.rows.push(results);
        run.seconds = seconds + start.elapsed().as_secs();
        if let Some(path) = &options.json {
            // Rows that are still to come keep what they had.
            let mut whole = run.clone();
            let done = |results: &Results| run.rows.iter().any(|row| row.name == results.name);
            whole
                .rows
                .extend(before.iter().filter(|results| !done(results)).cloned());
            whole.write(path)?;
        }
    }
    if options.without.is_empty() {
        report::summary(&run.rows);
    } else {
        ablate::table(&run.rows);
    }
    report::line(&format!("{} minutes", run.seconds.div_ceil(60)));
    let failed = run
        .rows
        .iter()
        .flat_map(|results| &results.runtimes)
        .any(|turns| matches!(turns.gave_up(), Some(Outcome::Failed(_))));
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The rows that are there already, if this run goes on with another, and the seconds that they
/// took.
fn before(options: &Options, run: &Run) -> Result<(Vec<Results>, u64), BoxError> {
    let Some(path) = options
        .json
        .as_ref()
        .filter(|path| options.resume && path.exists())
    else {
        return Ok((Vec::new(), 0));
    };
    let mut other = Run::read(path)?;
    // How busy the machine was at the start may differ; all else has to be the same.
    other.host.load.clone_from(&run.host.load);
    if (&other.host, other.workers, other.quick) != (&run.host, run.workers, run.quick) {
        return Err(format!(
            "{} is of another machine, other versions or other options",
            path.display()
        )
        .into());
    }
    if !run.host.is_known() {
        return Err(
            "there are changes that are in no commit, so nobody knows whether it is the same build"
                .into(),
        );
    }
    // What failed may be tried again.
    for turns in other
        .rows
        .iter_mut()
        .flat_map(|results| &mut results.runtimes)
    {
        turns
            .outcomes
            .retain(|outcome| matches!(outcome, Outcome::Measured(_)));
    }
    Ok((other.rows, other.seconds))
}

/// The rows that were asked for, in the order of the table.
fn chosen(only: &[String], quick: bool) -> Result<Vec<Row>, BoxError> {
    let mut rows = workloads::described();
    if only.is_empty() {
        rows.retain(|row| row.quick || !quick);
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

/// Takes the turns of a row that are missing.
fn measure(
    row: Row,
    earlier: Option<&Results>,
    peers: &[Peer],
    options: &Options,
) -> Result<Results, BoxError> {
    let peers: Vec<&Peer> = peers
        .iter()
        .filter(|peer| peer.rows.iter().any(|name| name == row.name))
        .collect();
    let mut runtimes: Vec<Turns> = peers
        .iter()
        .map(|peer| {
            let done = earlier.and_then(|results| results.turns_of(&peer.name));
            Turns {
                runtime: peer.name.clone(),
                outcomes: done.map_or(Vec::new(), |turns| turns.outcomes.clone()),
            }
        })
        .collect();
    let count = runtimes.len();
    for round in 0..options.rounds_of(row.heavy) {
        for turn in 0..count {
            let (turns, peer) = (
                &mut runtimes[(round + turn) % count],
                peers[(round + turn) % count],
            );
            if turns.gave_up().is_none() && turns.outcomes.len() <= round {
                turns.outcomes.push(take_turn(row.name, peer, options)?);
            }
        }
    }
    Ok(Results {
        name: row.name.into(),
        operation: row.operation.into(),
        figure: row.figure,
        group: row.group,
        runtimes,
    })
}

/// Runs a child for one turn. What goes wrong in the child is its outcome, not an error here.
fn take_turn(workload: &str, peer: &Peer, options: &Options) -> Result<Outcome, BoxError> {
    let mut command = Command::new(&peer.program);
    command.args(["--child", workload, &peer.runtime]);
    if let Some(heuristic) = &peer.without {
        command.env(ablate::VARIABLE, heuristic);
    }
    command.args(["--workers", &options.params.workers.to_string()]);
    if options.params.quick {
        command.arg("--quick");
    }
    let mut child = command
        .env(peers::CLIENT_VARIABLE, std::env::current_exe()?)
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
