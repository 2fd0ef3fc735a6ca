//! The rows of the table: which workloads there are, and what each is.
//!
//! Each file asks one question and has a `rows` function that is generic over the runtime, so the
//! same source runs on all of them.

use serde::{Deserialize, Serialize};

use crate::BoxError;
use crate::cli::Params;
use crate::joins::{Chili, ForkJoin, Rayon, Ws};
use crate::measure::{Measure, Meter, Outcome};
use crate::rt::{ALL_ROWS, Rt, SmolRt, TokioMain, TokioRt, WsNoSysmon, WsRt};
use crate::sys;

mod at_rest;
mod blocking;
mod calls;
mod chained_spawn;
mod channels;
mod echo;
mod fan_in;
mod fork;
mod fork_join;
mod http;
mod idle;
mod join_stack;
mod mixed;
mod ordered_queue;
mod parked;
mod ping_pong;
mod priorities;
mod request_reply;
mod ring;
mod skynet;
mod sleeps;
mod spawn_join;

mod spawn_then_compute;
mod stalls;
mod suite_ghc;
mod suite_go;
mod suite_tokio;
mod sysmon;
mod tickers;
mod timers;
mod wake_foreign;
mod yields;

pub(crate) use self::fork_join::ONLY as FORK_JOIN;
pub(crate) use self::http::Hello;
pub(crate) use self::mixed::TOKIO_RAYON;

/// The other way of tokio's, for rows whose root may be in a task or in `block_on`.
const TOKIO_MAIN: &[&str] = &[TokioMain::NAME];

/// A row: one workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// As in `--only` and in the table.
    pub(crate) name: &'static str,
    /// What one operation is.
    pub(crate) operation: &'static str,
    pub(crate) figure: Figure,
    /// What it is about.
    pub(crate) group: Group,
    /// Takes long, so that it gets fewer rounds.
    pub(crate) heavy: bool,
    /// Whether it is in a run with `--quick` that does not ask for it by name.
    pub(crate) quick: bool,
    /// The runtimes of this program that run it. Those with a program of their own say themselves.
    on: On,
    run: fn(Params) -> Result<Outcome, BoxError>,
}

/// Which runtimes run a row.
#[derive(Clone, Copy, Debug)]
enum On {
    /// Those in [`rt::ALL_ROWS`](crate::rt::ALL_ROWS), and these of the others.
    AllAnd(&'static [&'static str]),
    /// These alone.
    Only(&'static [&'static str]),
}

/// What a row is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Group {
    /// Tasks, queues, wake-ups. The geometric mean is over these rows.
    Scheduler,
    /// The same programs over channels of other libraries.
    Channels,
    /// Other runtimes' own suites.
    Suites,
    /// Computations that split.
    ForkJoin,
    /// Urgent tasks among others, and the queue that orders them.
    Priorities,
    /// Tasks that block or compute, and what that does to the others.
    Stalls,
    /// Calls that block, announced.
    Blocking,
    Timers,
    Network,
    /// Bytes, the start and the end of the runtime, and doing nothing.
    Footprint,
}

/// What runtimes are compared by in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Figure {
    /// Time for an operation.
    Time,
    /// The median of the operations' latencies.
    Latency,
    /// The 99th percentile of the operations' latencies. Outside the geometric mean: a runtime with
    /// a worse tail than another is not slower, it is broken in one place.
    Tail,
    /// CPU time for an operation, where the wall time is the workload's own.
    Cpu,
    /// Bytes for an operation. Outside the geometric mean, which is one of speed.
    Bytes,
    /// CPU time while nothing happens. Outside the geometric mean: the best is close to nothing.
    IdleCpu,
}

impl Figure {
    /// Whether the row counts in the geometric mean.
    pub(crate) fn is_speed(self) -> bool {
        matches!(self, Figure::Time | Figure::Latency | Figure::Cpu)
    }

    /// Whether it is wall time, and CPU time is judged beside it.
    pub(crate) fn is_wall_time(self) -> bool {
        matches!(self, Figure::Time | Figure::Latency | Figure::Tail)
    }

    /// As in the JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Figure::Time => "ns per operation",
            Figure::Latency => "ns, median latency",
            Figure::Tail => "ns, 99th percentile",
            Figure::Cpu => "ns of CPU per operation",
            Figure::Bytes => "bytes each",
            Figure::IdleCpu => "ns of CPU per idle second",
        }
    }
}

impl Row {
    const fn new(
        name: &'static str,
        operation: &'static str,
        figure: Figure,
        run: fn(Params) -> Result<Outcome, BoxError>,
    ) -> Self {
        Row {
            name,
            operation,
            figure,
            group: Group::Scheduler,
            heavy: false,
            quick: true,
            on: On::AllAnd(&[]),
            run,
        }
    }

    const fn full_only(mut self) -> Self {
        self.quick = false;
        self
    }

    const fn also(mut self, runtimes: &'static [&'static str]) -> Self {
        self.on = On::AllAnd(runtimes);
        self
    }

    const fn only(mut self, runtimes: &'static [&'static str]) -> Self {
        self.on = On::Only(runtimes);
        self
    }

    fn runs_on(&self, runtime: &str) -> bool {
        match self.on {
            On::AllAnd(others) => ALL_ROWS.contains(&runtime) || others.contains(&runtime),
            On::Only(these) => these.contains(&runtime),
        }
    }

    const fn heavy(mut self) -> Self {
        self.heavy = true;
        self
    }
}

/// All rows, on this runtime.
fn rows<R: Rt>() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |group, some: &[Row]| rows.extend(some.iter().map(|row| Row { group, ..*row }));
    add(Group::Scheduler, &scheduler::<R>());
    add(Group::Suites, &suites::<R>());
    add(Group::ForkJoin, &joins::<Ws>());
    add(Group::ForkJoin, &fork::rows::<R>());
    add(Group::Priorities, &priorities::rows::<R>());
    add(Group::Priorities, &ordered_queue::rows());
    add(Group::Timers, &sleeps::rows::<R>());
    add(Group::Timers, &timers::rows::<R>());
    add(Group::Timers, &tickers::rows::<R>());
    add(Group::Stalls, &stalls::rows::<R>());
    add(Group::Stalls, &mixed::rows::<mixed::OnWs>());
    add(Group::Blocking, &blocking::rows::<R>());
    add(Group::Blocking, &sysmon::rows::<R>());
    add(Group::Network, &echo::rows::<R>());
    add(Group::Network, &http::rows::<R>());
    add(Group::Channels, &channels::rows::<R>());
    add(Group::Footprint, &parked::rows::<R>());
    add(Group::Footprint, &at_rest::rows::<R>());
    add(Group::Footprint, &idle::rows::<R>());
    rows
}

/// Those of the libraries for fork and join, the subject's among them.
fn joins<J: ForkJoin>() -> Vec<Row> {
    let mut rows = fork_join::rows::<J>();
    rows.extend(join_stack::rows::<J>());
    rows
}

/// Those of the scheduler alone.
fn scheduler<R: Rt>() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(spawn_join::rows::<R>());
    rows.extend(chained_spawn::rows::<R>());
    rows.extend(yields::rows::<R>());
    rows.extend(ping_pong::rows::<R>());
    rows.extend(ring::rows::<R>());
    rows.extend(fan_in::rows::<R>());
    rows.extend(skynet::rows::<R>());
    rows.extend(request_reply::rows::<R>());
    rows.extend(calls::rows::<R>());
    rows.extend(wake_foreign::rows::<R>());
    rows.extend(spawn_then_compute::rows::<R>());
    rows
}

/// The suites of other runtimes.
fn suites<R: Rt>() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(suite_tokio::rows::<R>());
    rows.extend(suite_go::rows::<R>());
    rows.extend(suite_ghc::rows::<R>());
    rows
}

/// All rows, for code that only wants to know about them.
pub(crate) fn described() -> Vec<Row> {
    // They are the same on every runtime but for the function inside.
    rows::<TokioRt>()
}

/// The rows that this program has for a runtime.
///
/// For the variants, only the files that they have rows in are compiled.
pub(crate) fn rows_of(runtime: &str) -> Result<Vec<Row>, BoxError> {
    let mut rows = match runtime {
        WsRt::NAME => rows::<WsRt>(),
        TokioRt::NAME => rows::<TokioRt>(),
        SmolRt::NAME => rows::<SmolRt>(),
        WsNoSysmon::NAME => {
            let mut rows = sysmon::rows::<WsNoSysmon>().to_vec();
            rows.extend(idle::rows::<WsNoSysmon>());
            rows
        }
        TokioMain::NAME => {
            let mut rows = scheduler::<TokioMain>();
            rows.extend(suites::<TokioMain>());
            rows
        }
        Rayon::NAME => joins::<Rayon>(),
        Chili::NAME => joins::<Chili>(),
        TOKIO_RAYON => mixed::rows::<mixed::OnTokioAndRayon>().to_vec(),
        #[cfg(tokio_unstable)]
        crate::rt::TokioHandoff::NAME => stalls::rows::<crate::rt::TokioHandoff>(),
        _ => return Err(format!("no runtime `{runtime}` in this build").into()),
    };
    rows.retain(|row| row.runs_on(runtime));
    Ok(rows)
}

/// Runs one row on one runtime, in this process.
pub(crate) fn run(workload: &str, runtime: &str, params: Params) -> Result<Outcome, BoxError> {
    let row = rows_of(runtime)?
        .into_iter()
        .find(|row| row.name == workload)
        .ok_or_else(|| format!("no row `{workload}` on `{runtime}`"))?;
    let mut outcome = (row.run)(params)?;
    if let Outcome::Measured(measure) = &mut outcome {
        measure.peak_rss_kib = sys::peak_rss_kib()?;
    }
    Ok(outcome)
}

/// Runs a root as a task on a new runtime: how most rows are measured.
fn in_task<R, F>(params: Params, root: F) -> Result<Outcome, BoxError>
where
    R: Rt,
    F: Future<Output = Measure> + Send + 'static,
{
    Ok(Outcome::Measured(R::build(params.workers).run(root)))
}

/// The same with the root in `block_on`.
fn in_block_on<R, F>(params: Params, root: F) -> Result<Outcome, BoxError>
where
    R: Rt,
    F: Future<Output = Measure>,
{
    Ok(Outcome::Measured(R::build(params.workers).block_on(root)))
}

/// Does `work` once to warm up, then once more under the meter, as `ops` operations.
async fn twice<F: Future<Output = ()>>(ops: usize, mut work: impl FnMut() -> F) -> Measure {
    work().await;
    let meter = Meter::start();
    work().await;
    meter.stop(ops)
}

#[cfg(test)]
mod tests {
    use super::{On, described, rows_of};

    #[test]
    fn each_row_is_there_for_each_runtime_that_it_names() {
        for row in described() {
            let (On::AllAnd(runtimes) | On::Only(runtimes)) = row.on;
            for runtime in runtimes {
                // Not every build has them all.
                let Ok(rows) = rows_of(runtime) else {
                    continue;
                };
                assert!(
                    rows.iter().any(|other| other.name == row.name),
                    "{} on {runtime}",
                    row.name
                );
            }
        }
    }
}
