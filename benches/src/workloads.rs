//! The rows of the table: which workloads there are, and what each is.
//!
//! Each file asks one question and has a `rows` function that is generic over the runtime, so the
//! same source runs on all of them.

use crate::BoxError;
use crate::cli::Params;
use crate::measure::{Measure, Meter, Outcome};
use crate::rt::{Rt, SmolRt, TokioRt};
use crate::sys;

mod calls;
mod chained_spawn;
mod echo;
mod fan_in;
mod http;
mod idle;
mod parked;
mod ping_pong;
mod request_reply;
mod ring;
mod skynet;
mod spawn_join;
mod spawn_then_compute;
mod tickers;
mod timers;
mod wake_foreign;
mod yields;

pub(crate) use self::http::Hello;

/// A row: one workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// As in `--only` and in the table.
    pub(crate) name: &'static str,
    /// What one operation is.
    pub(crate) operation: &'static str,
    pub(crate) figure: Figure,
    /// Takes long, so that `--quick` gives it fewer rounds.
    pub(crate) heavy: bool,
    run: fn(Params) -> Result<Outcome, BoxError>,
}

/// What runtimes are compared by in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Figure {
    /// Time for an operation.
    Time,
    /// The median of the operations' latencies.
    Latency,
    /// Bytes for an operation. Outside the geometric mean, which is one of speed.
    Bytes,
    /// CPU time while nothing happens. Outside the geometric mean: the best is close to nothing.
    IdleCpu,
}

impl Figure {
    /// Whether the row counts in the geometric mean.
    pub(crate) fn is_speed(self) -> bool {
        matches!(self, Figure::Time | Figure::Latency)
    }

    /// As in the JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Figure::Time => "ns per operation",
            Figure::Latency => "ns, median latency",
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
            heavy: false,
            run,
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
    rows.extend(spawn_join::rows::<R>());
    rows.extend(chained_spawn::rows::<R>());
    rows.extend(yields::rows::<R>());
    rows.extend(ping_pong::rows::<R>());
    rows.extend(ring::rows::<R>());
    rows.extend(fan_in::rows::<R>());
    rows.extend(skynet::rows::<R>());
    rows.extend(request_reply::rows::<R>());
    rows.extend(calls::rows::<R>());
    rows.extend(timers::rows::<R>());
    rows.extend(tickers::rows::<R>());
    rows.extend(wake_foreign::rows::<R>());
    rows.extend(spawn_then_compute::rows::<R>());
    rows.extend(echo::rows::<R>());
    rows.extend(http::rows::<R>());
    rows.extend(parked::rows::<R>());
    rows.extend(idle::rows::<R>());
    rows
}

/// All rows, for those who only want to know about them.
pub(crate) fn described() -> Vec<Row> {
    // They are the same on every runtime but for the function inside.
    rows::<TokioRt>()
}

/// Runs one row on one runtime, in this process.
pub(crate) fn run(workload: &str, runtime: &str, params: Params) -> Result<Outcome, BoxError> {
    let rows = match runtime {
        TokioRt::NAME => rows::<TokioRt>(),
        SmolRt::NAME => rows::<SmolRt>(),
        crate::rt::WsRt::NAME => rows::<crate::rt::WsRt>(),
        _ => return Err(format!("no runtime `{runtime}` in this build").into()),
    };
    let row = rows
        .into_iter()
        .find(|row| row.name == workload)
        .ok_or_else(|| format!("no row `{workload}`"))?;
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
